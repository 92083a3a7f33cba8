"""The fixture `onnx_compare`: what it finds, what `require` does with it, and what is refused."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TYPE_CHECKING, Final

import pytest

# Loaded before an inner session starts, as in `suite`.
import pytest_onnxperf.compare_handles  # noqa: F401
from pytest_onnxperf.core.ab import ARMS, AaSensor
from pytest_onnxperf.runtime import pair_process
from pytest_onnxperf.runtime.compare_job import AbMeasurement
from tests import models
from tests.plugin.suite import ON, section, too_wide
from tests.runtime.children import at_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.suite import Suite

TIMED: Final = (*ON, "--onnxperf-threads=1", "--onnxperf-max-time=0.2", "--onnxperf-profile-runs=1")
INLINE: Final = (*TIMED, "--onnxperf-isolation=none")
COUNT: Final = 100


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the ratio of time of candidate / time of reference that every process finds; both really run."""

    def set_pace(ratio: float, spread: float = 0.002, sensor: float = 1.0) -> None:
        pairs = tuple(
            (1_000_000, round(1_000_000 * ratio * (1 + spread * (place - COUNT / 2) / COUNT))) for place in range(COUNT)
        )
        rounds = dict(zip(ARMS, zip(*pairs, strict=True), strict=True))
        monkeypatch.setattr(pair_process, "time_rounds", lambda _, __: (rounds, 0.0))
        monkeypatch.setattr(AbMeasurement, "sense", lambda _: AaSensor(sensor, abs(sensor - 1) > 0.02))

    return set_pace


def comparing(suite: Suite, call: str, rest: str = "", *, name: str = "test_perf.py") -> None:
    """Write a test that compares `a.onnx` with the larger `b.onnx`, which has the same outputs."""
    suite.model("a.onnx", models.mlp, layers=2)
    suite.model("b.onnx", models.mlp, layers=2)
    body = textwrap.indent(textwrap.dedent(rest), "        ")
    suite.module(f"    def test_compared(onnx_compare):\n        result = {call}\n{body}", name)


BOTH: Final = 'onnx_compare("a.onnx", "b.onnx", shapes={"batch": 1})'


def failure(result: pytest.RunResult) -> str:
    return "\n".join(section(result, "test_compared"))


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["", "-n2"])
def test_a_faster_model_passes_and_is_shown_also_under_xdist(suite: Suite, workers: str) -> None:
    suite.model("large.onnx", models.slow_model, blocks=200)
    suite.model("small.onnx", models.slow_model, blocks=10)
    suite.module("""
        import pytest

        @pytest.mark.parametrize("size", [1])
        def test_compared(onnx_compare, size):
            shapes = {"batch": size}
            result = onnx_compare("large.onnx", "small.onnx", shapes=shapes, check_outputs=False)
            assert result.require(min_speedup=1.2) is result
            assert result.low <= result.speedup <= result.high
            assert result.candidate.facts.nodes < result.reference.facts.nodes
            assert "share a process" in result.reference.not_measured["peak_rss"]
    """)
    result = suite.run_apart(*TIMED, *([workers] if workers else []), "--junitxml=junit.xml")

    result.assert_outcomes(passed=1)
    lines = [line for line in section(result, "onnxperf") if line.startswith("test_compared[1]")]
    assert len(lines) == 1
    assert re.search(r"\d+\.\d+x faster \[[\d.]+ to [\d.]+\]", lines[0])
    assert lines[0].split()[-1] in ("held", "noisy")
    properties, _ = suite.junit()["test_compared[1]"]
    assert float(properties["onnxperf.compare.speedup"]) > 1.2
    assert too_wide(section(result, "onnxperf")) == []


def test_one_model_under_two_settings(suite: Suite, pace: Callable[..., None]) -> None:
    pace(0.5)
    options = '{"session_options": {"graph_optimization_level": "disable"}}'
    call = f'onnx_compare("a.onnx", "a.onnx", shapes={{"batch": 1}}, reference_options={options})'
    comparing(suite, call, "assert result.reference.facts.nodes > result.candidate.facts.nodes")

    result = suite.run(*INLINE, "-v")

    result.assert_outcomes(passed=1)
    assert "reference: disable" in result.stdout.str()


@pytest.mark.parametrize("caught", ["BaseException", "pytest.fail.Exception"])
def test_a_requirement_that_does_not_hold_fails_a_test_that_catches_it_too(
    suite: Suite, pace: Callable[..., None], caught: str
) -> None:
    pace(1.5)
    comparing(
        suite, BOTH,
        f"""
        import pytest
        with pytest.raises({caught}):
            result.require(max_slowdown=1.02)
        """,
    )  # fmt: skip

    result = suite.run(*INLINE)

    result.assert_outcomes(failed=1)
    assert failure(result).startswith("max_slowdown=1.02: not held")
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_compared*"])


def test_the_text_of_a_slower_model(suite: Suite, pace: Callable[..., None]) -> None:
    pace(1.5)
    comparing(suite, BOTH, "result.require(max_slowdown=1.02)")

    result = suite.run(*INLINE)

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert text.startswith("max_slowdown=1.02: not held, 1.50x slower [1.50 to 1.50]\n")
    for words in (
        "reference                   candidate", "latency p50", "memcpy             0", "CPU nodes          2",
        "attention", "fused ops          2 FusedGemm", "Speed: 1.50x slower", "99 %, 300 pairs in 3 processes",
        "Outputs: equal",
        "The reference against itself: 1.000", "What to do", "The facts are the same on both sides",
        "onnxperf explain b.onnx",
    ):  # fmt: skip
        assert words in text, text
    assert too_wide(result.outlines) == []
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_compared*", "1 A/B comparison: 1 broken"][:1])
    assert "1 A/B comparison: 1 broken" in result.stdout.str()


def test_a_failure_names_the_facts_that_differ(suite: Suite, pace: Callable[..., None]) -> None:
    pace(1.5)
    call = 'onnx_compare("a.onnx", "c.onnx", shapes={"batch": 1}, check_outputs=False)'
    comparing(suite, call, "result.require(min_speedup=1.2)")
    suite.model("c.onnx", models.mlp, layers=4)

    assert "Begin with the facts that differ: CPU nodes, nodes, fused ops." in failure(suite.run(*INLINE))


# -- what is no pass ---------------------------------------------------------------------------------------------------


def test_outputs_that_differ_fail_whatever_the_speed(suite: Suite, pace: Callable[..., None]) -> None:
    pace(0.1)
    comparing(suite, BOTH, "result.require(min_speedup=1.5)")
    suite.model("b.onnx", models.mlp, seed=7)

    result = suite.run(*INLINE)

    result.assert_outcomes(failed=1)
    text = " ".join(failure(result).split())
    assert text.startswith("min_speedup=1.5: not held, outputs differ: `y`: largest difference ")
    assert "A faster wrong answer is no speed-up" in text
    assert too_wide(result.outlines) == []


def test_a_result_that_nobody_judges_passes_and_is_shown(suite: Suite, pace: Callable[..., None]) -> None:
    pace(1.5)
    comparing(suite, BOTH)
    suite.model("b.onnx", models.mlp, seed=7)

    result = suite.run(*INLINE)

    result.assert_outcomes(passed=1)
    shown = "\n".join(section(result, "onnxperf"))
    assert "1.50x slower [1.50 to 1.50]\n    outputs differ\n" in shown
    assert too_wide(result.outlines) == []
    assert "1 A/B comparison: 1 outputs differ" in shown


UNTOLD: Final = {
    "noisy": ({"ratio": 0.5, "sensor": 1.031}, "noisy: the reference against itself differs by 3.1% here"),
    "straddling": ({"ratio": 1.0, "spread": 1.5}, "the interval reaches to both sides of the limit"),
}


@pytest.mark.parametrize("kind", UNTOLD)
@pytest.mark.parametrize("mode", ["fail", "skip", "pass"])
def test_what_cannot_be_told_is_no_pass(suite: Suite, pace: Callable[..., None], kind: str, mode: str) -> None:
    settings, why = UNTOLD[kind]
    pace(**settings)
    comparing(suite, BOTH, "result.require(max_slowdown=1.02)")

    result = suite.run(*INLINE, "-rs", f"--onnxperf-unverifiable={mode}")

    result.assert_outcomes(**{{"fail": "failed", "skip": "skipped", "pass": "passed"}[mode]: 1})
    said = " ".join(result.stdout.str().split())
    assert "1 A/B comparison: 1 cannot tell" in said
    if mode == "fail":
        text = " ".join(failure(result).split())
        assert text.startswith("max_slowdown=1.02: cannot tell, ")
        assert why in text
        assert "onnxperf_unverifiable = fail, skip or pass" in text
    if mode == "skip":
        result.stdout.re_match_lines([r"SKIPPED \[1\] test_perf\.py:\d+: max_slowdown=1\.02: cannot tell"])


def test_outputs_of_other_names_cannot_be_compared(suite: Suite, pace: Callable[..., None]) -> None:
    import onnx

    pace(0.5)
    comparing(suite, BOTH, "result.require(min_speedup=1.5)")
    model = onnx.load(str(suite.path / "b.onnx"))
    model.graph.output[0].name = model.graph.node[-1].output[0] = "z"
    onnx.save(model, str(suite.path / "b.onnx"))

    text = " ".join(failure(suite.run(*INLINE)).split())

    assert "the outputs have other names: the reference has `y`; the candidate has `z`" in text
    assert "check_outputs=False" in text


@pytest.mark.parametrize(("mode", "outcome"), [("fail", "failed"), ("skip", "skipped"), ("pass", "passed")])
def test_without_timing_there_is_nothing_to_compare(suite: Suite, mode: str, outcome: str) -> None:
    comparing(suite, BOTH, "result.require(min_speedup=1.5)\nassert result.speedup != result.speedup")

    result = suite.run(*INLINE, "-rs", "--onnxperf-timing=off", f"--onnxperf-unverifiable={mode}")

    result.assert_outcomes(**{outcome: 1})
    assert "--onnxperf-timing=off" in result.stdout.str()


# -- the sensor and the confirmation -----------------------------------------------------------------------------------


def test_the_sensor_is_asked_once_in_a_session_and_two_processes_confirm(
    suite: Suite, pace: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace(1.012)  # with half of the floor it is beyond the limit
    asked: list[str] = []

    def sense(measurement: AbMeasurement) -> AaSensor:
        asked.append(measurement.device)
        return AaSensor(1.0, is_noisy=False)

    monkeypatch.setattr(AbMeasurement, "sense", sense)
    comparing(suite, BOTH, 'assert result.record.processes == 1\nonnx_compare("b.onnx", "a.onnx", '
              'shapes={"batch": 1}, label="swapped").require(max_slowdown=1.05)\n'
              "result.require(max_slowdown=1.02)\nassert result.record.processes == 3\n"
              'assert len(set(result.record.loaded_first)) == 2')  # fmt: skip

    result = suite.run(*INLINE)

    result.assert_outcomes(passed=1)
    assert asked == ["cpu"]
    assert "test_compared#swapped" in result.stdout.str()


# -- bad input ---------------------------------------------------------------------------------------------------------

ONE: Final = '"a.onnx", "b.onnx", shapes={"batch": 1}'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('onnx_compare("a.onnx", "none.onnx", shapes={"batch": 1})', "the candidate, none.onnx: "),
        ('onnx_compare(None, "b.onnx")', "onnx_compare: reference(model): expected a path, got None"),
        ('onnx_compare("a.onnx", "b.onnx")', "the reference, a.onnx: "),
        (f"onnx_compare({ONE}, feeds={{}})", "onnx_compare takes feeds, or shapes and ranges, not both"),
        (f"onnx_compare({ONE}, rtol=-1)", "onnx_compare(rtol=...): expected a number of at least 0, got -1"),
        (f"onnx_compare({ONE}, label=3)", "onnx_compare(label=...): expected a text of one line, got 3"),
        (
            f"onnx_compare({ONE}, reference_options={{'sesion_options': {{}}}})",
            "onnx_compare(reference_options=...): unknown key `sesion_options`, did you mean `session_options`?",
        ),
        (f"onnx_compare({ONE}, candidate_options=3)", "onnx_compare(candidate_options=...): expected a dict, got int"),
        (
            f"onnx_compare({ONE}, candidate_options={{'session_options': {{'no_such': 1}}}})",
            "the candidate, b.onnx: unknown session option `no_such`",
        ),
        (
            "onnx_compare('a.onnx', 'several.onnx', shapes={'batch': 1})",
            "the models have inputs of other names, so that the same feeds cannot go to both: `x` in the reference",
        ),
        (f"onnx_compare({ONE}, ep='cpuu')", "unknown execution provider 'cpuu', did you mean `cpu`?"),
        (
            f"onnx_compare({ONE}, candidate_options={{'attention_backend': 'flash'}})",
            "attention_backend: CPUExecutionProvider lets nobody choose its attention kernel",
        ),
        (f"onnx_compare({ONE}, environment={{'A': 1}})", "onnx_compare(environment=...): expected a dict of texts"),
        (
            f"onnx_compare({ONE}, environment={{'A': '1'}})",
            "A can be set in a measuring process alone, and --onnxperf-isolation=none makes none",
        ),
        (f"onnx_compare({ONE}).require()", "require(): give min_speedup, max_slowdown or both"),
        (f"onnx_compare({ONE}).require(min_speedup=0)", "require(min_speedup=...): expected a positive ratio, got 0"),
        (f"onnx_compare({ONE}).require(min_speedup='2')", "require(min_speedup=...): expected a positive ratio"),
        (
            f"onnx_compare({ONE}).require(max_slowdown=1.0)",
            "require(max_slowdown=...): expected a ratio of at least 1.02 (a file differs from itself by that)",
        ),
        (f"[onnx_compare({ONE}) for _ in range(2)]", "this test has compared without a label already"),
    ],
)
def test_bad_input_is_refused_with_what_and_where(
    suite: Suite, pace: Callable[..., None], call: str, message: str
) -> None:
    pace(1.0)
    comparing(suite, call)
    suite.model("several.onnx", models.several_inputs)

    result = suite.run(*INLINE)

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert message in " ".join(text.split())
    assert "Traceback" not in text
    assert [line for line in too_wide(result.outlines) if str(suite.path) not in line] == []


def test_a_process_that_is_killed_fails_its_test_and_names_the_arm(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        import os, signal, sys

        def _watch(frame, event, argument):
            code = frame.f_code
            is_step = code.co_name == "warm_up" and code.co_filename.endswith("child/pair.py")
            if event == "call" and is_step and frame.f_locals["arm"] == "candidate":
                os.kill(os.getpid(), signal.SIGSEGV)

        if sys.orig_argv[1:2] == ["-c"]:
            sys.setprofile(_watch)
    """
    for name, value in at_start(suite.path / "site", code).items():
        monkeypatch.setenv(name, os.pathsep.join([value, *os.environ.get(name, "").split(os.pathsep)]).rstrip(":"))
    comparing(suite, BOTH)

    result = suite.run(*TIMED)

    result.assert_outcomes(failed=1)
    said = " ".join(failure(result).split())
    assert "the candidate, b.onnx: the measuring process was killed by SIGSEGV in its step `warm_up`" in said


def test_a_test_that_compares_needs_the_option(suite: Suite) -> None:
    suite.module("def test_compared(onnx_compare):\n    raise AssertionError")
    result = suite.run("-rs")
    result.assert_outcomes(skipped=1)
    assert "needs --onnxperf" in result.stdout.str()
