"""The header, the summary, -q and -v; what a long measurement shows is in `test_progress`."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests import models
from tests.plugin.suite import FACTS, MEASURE, QUICK, TIMES, section, too_wide

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

UPDATE: Final = "--onnxperf-update"


def header(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("onnxperf: ")]


def test_the_header_names_provider_device_versions_and_baselines(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    lines = header(suite.run(*FACTS, UPDATE))
    assert lines[0] == "onnxperf: CPUExecutionProvider on Bench 1"
    text = " ".join(line.removeprefix("onnxperf: ").strip() for line in lines[1:-1])  # long ones take two lines
    versions = dict(part.split(" ") for part in text.split(", "))
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["numpy"] == importlib.metadata.version("numpy")
    assert re.fullmatch(r"\d+\.\d+.*", versions["onnxruntime"])
    assert lines[-1] == "onnxperf: no baselines/bench-1.cpu yet"

    document = json.loads(suite.baseline().read_text("utf-8"))
    document["tests"]["test_mlp"]["date"] = "2020-03-01"
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    lines = header(suite.run(*FACTS))
    assert lines[-1].startswith("onnxperf: baselines/bench-1.cpu, latest entry of 2020-03-01")


@pytest.mark.needs_cpu
def test_auto_says_what_runs_and_warns_where_another_provider_has_the_baselines(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)
    auto = [argument for argument in FACTS if not argument.startswith("--onnxperf-ep")]
    (suite.path / "baselines" / "nvidia-h200.cuda").mkdir(parents=True)

    lines = header(suite.run(*auto))
    said = " ".join(line.removeprefix("onnxperf: ") for line in lines)
    assert "WARNING: auto took cpu, which has no baselines; baselines holds those of cuda" in " ".join(said.split())
    assert lines[0].startswith("onnxperf: WARNING: ")
    assert too_wide(lines) == []
    assert "onnxperf: CPUExecutionProvider on Bench 1" in lines

    named = header(suite.run(*FACTS))
    assert "WARNING" not in "\n".join(named)

    suite.run(*auto, UPDATE).assert_outcomes(passed=1)
    assert "WARNING" not in "\n".join(header(suite.run(*auto)))


@pytest.mark.needs_cpu
def test_a_provider_that_is_named_and_does_not_run_fails_with_the_reason(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    result = suite.run("--onnxperf", "--onnxperf-ep=cuda", "--onnxperf-timing=off")

    result.assert_outcomes(failed=1)
    said = "CUDAExecutionProvider (--onnxperf-ep) does not run here: "
    assert said in header(result)[0]
    text = " ".join(" ".join(section(result, "test_mlp")).split())
    assert said in text
    assert "Traceback" not in text
    assert too_wide(header(result)) == []


@pytest.mark.needs_cpu
def test_a_test_that_demands_another_provider_is_skipped_with_the_reason(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        def test_argument(onnx_session):
            onnx_session("mlp.onnx", ep="cuda").measure(shapes={"batch": 1})

        @pytest.mark.onnx_measure(ep="cuda")
        def test_marker(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_cpu(onnx_session):
            onnx_session("mlp.onnx", ep="cpu").measure(shapes={"batch": 1})
    """)

    result = suite.run(*QUICK, "-rs")

    result.assert_outcomes(passed=1, skipped=2)
    reasons = [line for line in result.outlines if line.startswith("SKIPPED")]
    for reason in reasons:
        assert "] test_perf.py:" in reason, reason
        assert "demands CUDAExecutionProvider, which does not run here: " in reason


def test_quiet_leaves_the_lines_of_the_tests_out(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    result = suite.run(*FACTS, "-q")

    assert section(result, "onnxperf")[:2] == [
        "1 measurement; against baselines: 2 no-baseline",
        "1 test has no baseline for bench-1.cpu: run --onnxperf-update",
    ]
    assert header(result) == []


def test_verbose_shows_every_comparison_limit_and_op_table(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=9)
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    result = suite.run(*TIMES, "-v", "-rP")

    text = "\n".join(section(result, "onnxperf"))
    assert "  held: max_nodes 2 a run (budget at most 9)" in text
    for name in ("latency p50", "cold start", "load", "model size", "facts"):
        assert f"    no-baseline: {name}" in text
    for name in ("latency p90", "latency p99", "latency min", "throughput"):
        assert f"    shown: {name} " in text
    result.stdout.fnmatch_lines(["*onnxperf op tables*", "op type*EP*", "FusedGemm *CPU *2 *compute"])
    assert too_wide(result.outlines) == []


def test_an_update_says_old_and_new_values(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)
    result = suite.run(*QUICK, UPDATE)
    assert "test_mlp: new" in "\n".join(section(result, "onnxperf"))

    suite.model(layers=4)
    result = suite.run(*QUICK, UPDATE)

    text = " ".join(" ".join(section(result, "onnxperf")).split())
    assert "baselines/bench-1.cpu/test_perf.json" in text
    assert "cpu_nodes 2 -> 4" in text
    assert too_wide(result.outlines) == []


def test_a_long_name_is_cut_in_its_middle_and_everything_fits_into_80_columns(suite: Suite) -> None:
    suite.model("models/of/some/deep/directory/with_a_long_name_that_goes_on_and_on_and_on/mlp.onnx")
    suite.module("""
        import pytest

        PATH = "models/of/some/deep/directory/with_a_long_name_that_goes_on_and_on_and_on/mlp.onnx"

        @pytest.mark.onnx_budget(max_nodes=1)
        @pytest.mark.parametrize("batch", [pytest.param(1, id="a-very-long-parameter-id-that-goes-on-and-on")])
        def test_with_a_name_that_is_a_whole_sentence_about_the_model(onnx_session, batch):
            onnx_session(PATH).measure(shapes={"batch": batch})
    """)

    result = suite.run(*QUICK)

    lines = section(result, "onnxperf")
    assert re.fullmatch(r"test_with_\S*\.\.\.\S+goes-on-and-on\] +- +memcpy 0 +over budget", lines[0]), lines[0]
    assert too_wide(result.outlines) == []


def test_names_in_chinese_fit_into_80_columns(suite: Suite) -> None:
    model, label = "\u6a21\u578b\u76ee\u5f55/\u91cf\u5316\u6a21\u578b.onnx", "\u6279\u91cf\u5927\u5c0f" * 8
    suite.model(model)
    suite.module(f"""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_model(onnx_session):
            onnx_session("{model}").measure(shapes={{"batch": 1}}, label="{label}")
    """)

    result = suite.run(*QUICK)

    line = section(result, "onnxperf")[0]
    assert line.startswith("test_model")
    assert "..." in line
    assert too_wide(result.outlines) == []


def test_nothing_is_said_of_a_session_that_measured_nothing(suite: Suite) -> None:
    suite.module("def test_other(): pass")

    result = suite.run(*FACTS)

    result.assert_outcomes(passed=1)
    assert not [line for line in result.outlines if re.fullmatch(r"=+ onnxperf =+", line)]


def test_without_colour_no_escape_is_written(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    suite.model()
    suite.module(MEASURE)

    assert "\x1b" not in suite.run_apart(*FACTS).stdout.str()


LONG: Final = (*TIMES[:-1], "--onnxperf-max-time=2.5", "-p", "no:cacheprovider")


@pytest.mark.parametrize("arguments", [[], ["-s"]], ids=["plain", "s"])
def test_a_long_measurement_shows_nothing_without_a_terminal(suite: Suite, arguments: list[str]) -> None:
    suite.model("slow.onnx", models.slow_model)
    suite.module("""
        import pytest

        def test_slow(onnx_session):
            onnx_session("slow.onnx").measure(shapes={"batch": 8})
    """)

    result = suite.run_apart(*LONG, *arguments)

    result.assert_outcomes(passed=1)
    assert "\x1b" not in result.stdout.str() + result.stderr.str()
    assert "onnxperf: test_slow" not in result.stdout.str()
