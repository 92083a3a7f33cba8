"""README is true: its tables are the code's, its examples run, its failing example is what a user sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from pytest_onnxperf.core.budget_keys import KEYS
from pytest_onnxperf.core.metrics import METRICS
from pytest_onnxperf.core.states import State
from pytest_onnxperf.declare import OPTIONS
from tests import genai_models, hf_models, models

README: Final = Path(__file__).parent.parent / "README.md"
TEXT: Final = README.read_text("utf-8")
STATE_TEXT: Final = {
    match[1]: " ".join(match[2].split())
    for match in re.finditer(
        r'^    [A-Z_]+ = "([\w -]+)"\n    """(.*?)"""',
        (README.parent / "pytest_onnxperf" / "core" / "states.py").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def expected_tables() -> dict[str, str]:
    options: list[tuple[str, ...]] = []
    for option in OPTIONS:
        default = "" if option.kind == "flag" else str(option.default) or ("found" if option.name == "device" else "")
        choices = f" ({', '.join(option.choices)})" if option.choices else ""
        options.append((
            f"`{option.flag}`", f"`{option.ini}`" if option.in_ini else "", default, option.help + choices,
            "yes" if option.in_marker else "",
        ))  # fmt: skip
    return {
        "states": table(("state", "meaning"), [(f"`{state}`", STATE_TEXT[state]) for state in State]),
        "budgets": table(
            ("key", "limits", "unit"), [(f"`{key.name}`", key.help, key.unit) for key in KEYS]
        ),
        "options": table(("option", "ini key", "default", "what", "marker"), options),
        "metrics": table(
            ("metric", "unit", "better", "gated by a baseline"),
            [(m.label, m.unit, m.better, "yes" if m.gated else "") for m in METRICS],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["states", "budgets", "options", "metrics"])
def test_a_table_is_what_the_code_says(name: str, request: pytest.FixtureRequest) -> None:
    pattern = re.compile(f"(<!-- {name} -->\n)(.*?)(\n?<!-- /{name} -->)", re.DOTALL)
    found = pattern.search(README.read_text("utf-8"))
    assert found is not None
    assert found[2].strip() == expected_tables()[name], "run: python tests/test_readme.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def masked(text: str) -> list[str]:
    """Take off what differs between two machines: times, shares, temporary paths, and the order by time."""
    lines = []
    for line in text.strip().splitlines():
        without_numbers = re.sub(r"[\d.]+%|\d+\.\d+|\S*profile_\S+", "N", line)
        lines.append(re.sub(r"\s+", " ", without_numbers).strip())
    rows = [line for line in lines if re.search(r" (WebGpu|CPU) 1 N N N ", line)]
    return [line for line in lines if line not in rows] + sorted(rows)


@pytest.mark.needs_webgpu
def test_the_failing_example_is_what_a_user_sees(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_detector=blocks("python")[0])
    (pytester.path / "models").mkdir()
    models.cpu_island(pytester.path / "models" / "detector.onnx")
    result = pytester.runpytest_subprocess("--onnxperf", "--onnxperf-ep=webgpu")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    start = output.index("max_memcpy: ")
    end = output.index("\n====", start)
    assert masked(output[start:end]) == masked(blocks("text")[0])


@pytest.mark.needs_cpu
def test_the_other_examples_run(pytester: pytest.Pytester) -> None:
    for number, block in enumerate(blocks("python")):
        if "genai_generator" not in block and "onnx_cell" not in block:
            pytester.makepyfile(**{f"test_example_{number}": block})
    (pytester.path / "models").mkdir()
    models.cpu_island(pytester.path / "models" / "detector.onnx")
    models.mlp(pytester.path / "models" / "classifier.onnx")
    result = pytester.runpytest_subprocess("--onnxperf", "-rs", "--onnxperf-max-time=0.1")
    # On the CPU every node is on the CPU, so the first example breaks its budget of none; CUDA is not in this build.
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*demands CUDAExecutionProvider, which does not run here*"])


@pytest.mark.needs_genai
def test_the_generator_example_runs(pytester: pytest.Pytester) -> None:
    (block,) = [block for block in blocks("python") if "genai_generator" in block]
    pytester.makepyfile(block)
    genai_models.decoder(pytester.path / "models" / "decoder")
    result = pytester.runpytest_subprocess("--onnxperf", "--onnxperf-max-time=0.1", "--onnxperf-warmup-rounds=1")
    result.assert_outcomes(passed=3)


@pytest.mark.needs_genai
@pytest.mark.needs_hf
def test_the_matrix_example_runs(pytester: pytest.Pytester) -> None:
    (block,) = [block for block in blocks("python") if "onnx_cell" in block]
    pytester.makepyfile(block)
    for dtype in ("f16", "int4"):
        genai_models.decoder(pytester.path / "models" / f"decoder-{dtype}")
    hf_models.llama_apart(pytester.path / "models" / "checkpoint", max_position_embeddings=600)
    quick = ("--onnxperf-max-time=0.1", "--onnxperf-min-rounds=2", "--onnxperf-warmup-rounds=1", "--onnxperf-threads=1")
    result = pytester.runpytest_subprocess("--onnxperf", "-v", *quick)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        ["*::test_matrix[[]f16-genai-p20[]] PASSED*", "best: TTFT *", "int4-genai-p500 * *x *x *x"]
    )


if __name__ == "__main__":
    for each, content in expected_tables().items():
        marks = re.compile(f"(<!-- {each} -->\n).*?(<!-- /{each} -->)", re.DOTALL)
        README.write_text(marks.sub(lambda m, c=content: f"{m[1]}{c}\n{m[2]}", README.read_text("utf-8")), "utf-8")  # type: ignore[misc]
