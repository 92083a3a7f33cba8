"""README is true: its tables are the code's, its examples run, its failing example is what a user sees."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_onnxperf.core.budget_keys import KEYS
from pytest_onnxperf.declare import OPTIONS
from pytest_onnxperf.reference_command import state_table
from pytest_onnxperf.report.reference import table_lines
from tests import genai_models, hf_models, models

README: Final = Path(__file__).parent.parent / "README.md"
TEXT: Final = README.read_text("utf-8")


def generated() -> dict[str, str]:
    """What stands in README between marks, as the code has it."""
    names = [("Budgets", [key.name for key in KEYS]), ("Options", [option.flag for option in OPTIONS])]
    return {
        "states": "\n".join(table_lines(state_table())),
        "names": "\n\n".join(
            "\n".join(
                textwrap.wrap(f"{what}: {', '.join(f'`{name}`' for name in found)}.", 128, break_on_hyphens=False)
            )
            for what, found in names
        ),
    }


@pytest.mark.parametrize("name", ["states", "names"])
def test_what_is_generated_is_what_the_code_says(name: str) -> None:
    found = re.search(f"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", TEXT, re.DOTALL)
    assert found is not None
    assert found[1] == generated()[name], "run: python -m tests.test_readme"


def test_readme_is_read_in_five_minutes() -> None:
    """At 238 words a minute (Brysbaert 2019, J. of Memory and Language 109); code and tables are left out."""
    prose = re.sub(r"^```.*?^```$|^\|.*?$|^<!-- names -->.*<!-- /names -->", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert len(prose.split()) <= 5 * 238


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


def workflow() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    (text,) = blocks("yaml")
    # YAML 1.1 reads the key `on` as true, and GitHub does not.
    found: dict[str, Any] = yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.MULTILINE))
    return found


def steps() -> list[dict[str, Any]]:
    (job,) = workflow()["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_workflow_runs_on_main_and_on_pull_requests_and_may_write_nothing() -> None:
    found = workflow()
    assert found["on"] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert found["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in found["jobs"].values())
    uses = [step["uses"] for step in steps() if "uses" in step]
    assert uses
    for action in uses:
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", action), action


def test_the_workflow_records_on_main_alone_checks_elsewhere_and_keeps_what_it_found() -> None:
    condition = {step["run"]: step.get("if") for step in steps() if "run" in step and "pytest --" in step["run"]}
    assert condition == {
        "pytest --onnxperf-update --basetemp=profiles": "github.event_name == 'push'",
        "pytest --onnxperf --basetemp=profiles": "github.event_name == 'pull_request'",
    }
    by_action = {step["uses"].split("@")[0]: step for step in steps() if "uses" in step}
    restore, save = by_action["actions/cache/restore"]["with"], by_action["actions/cache/save"]
    assert save["with"] == {"path": "baselines", "key": "onnxperf-${{ github.sha }}"}
    assert "github.event_name == 'push'" in save["if"]
    assert (restore["path"], restore["key"]) == (save["with"]["path"], save["with"]["key"])
    assert restore["key"].startswith(restore["restore-keys"])
    kept = by_action["actions/upload-artifact"]
    assert kept["if"] == "always()"
    assert kept["with"]["path"].split() == ["baselines", "profiles"]
    assert by_action["actions/checkout"]["with"]["fetch-depth"] == 0


@pytest.mark.needs_cpu
def test_the_commands_of_the_workflow_record_and_check_and_leave_what_it_keeps(pytester: pytest.Pytester) -> None:
    models.mlp(pytester.path / "mlp.onnx")
    test = """
        import pytest

        @pytest.mark.onnx_budget(max_nodes={limit})
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
    """
    record, check = (shlex.split(step["run"])[1:] for step in steps() if "pytest --" in step.get("run", ""))
    quick = ["--onnxperf-timing=off", "-p", "no:cacheprovider"]
    pytester.makepyfile(test.format(limit=2))
    pytester.runpytest_subprocess(*record, *quick).assert_outcomes(passed=1)
    assert list((pytester.path / "baselines").rglob("*.json"))
    pytester.runpytest_subprocess(*check, *quick).assert_outcomes(passed=1)
    pytester.makepyfile(test.format(limit=1))
    pytester.runpytest_subprocess(*check, *quick).assert_outcomes(failed=1)
    assert list((pytester.path / "profiles").rglob("profile*.json"))


def test_the_matrix_of_sessions_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(next(block for block in blocks("python") if "test_sessions" in block))
    for name in ("a.onnx", "b.onnx"):
        models.mlp(pytester.path / "models" / name)
    result = pytester.runpytest_subprocess("--onnxperf", "-v", "--onnxperf-max-time=0.1")
    result.assert_outcomes(passed=4)
    shown = re.search(r"`(test_sessions\[\S+\])`", TEXT)
    assert shown is not None
    assert f"::{shown[1]} PASSED" in result.stdout.str()


@pytest.mark.needs_genai
@pytest.mark.needs_hf
def test_the_matrix_example_runs(pytester: pytest.Pytester) -> None:
    block = next(block for block in blocks("python") if "onnx_cell" in block)
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
    for each, content in generated().items():
        marks = re.compile(f"(<!-- {each} -->\n).*?(<!-- /{each} -->)", re.DOTALL)
        README.write_text(marks.sub(lambda m, c=content: f"{m[1]}{c}\n{m[2]}", README.read_text("utf-8")), "utf-8")  # type: ignore[misc]
