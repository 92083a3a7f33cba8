"""The fixture `genai_compare`: what it finds, what `require` does with it, and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

# Loaded before an inner session starts, as in `suite`.
import pytest_onnxperf.compare_handles  # noqa: F401
from pytest_onnxperf.core.ab import AaSensor
from pytest_onnxperf.runtime.compare_job import AbMeasurement
from tests import genai_models
from tests.genai_models import Size
from tests.plugin.suite import ON, section, too_wide

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

pytestmark = pytest.mark.needs_genai

TIMED: Final = (*ON, "--onnxperf-threads=1", "--onnxperf-max-time=0.2", "--onnxperf-profile-runs=1")
PROMPT: Final = "prompt_tokens=12, new_tokens=6"
BOTH: Final = f'genai_compare("a", "b", {PROMPT})'


@pytest.fixture
def decoders(suite: Suite) -> Suite:
    """`a`, and `b` with the same weights and another form of attention."""
    genai_models.decoder(suite.path / "a")
    genai_models.decoder(suite.path / "b", "unfused")
    return suite


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can be judged, whatever else runs on it."""
    monkeypatch.setattr(AbMeasurement, "sense", lambda _: AaSensor(1.0, is_noisy=False))


def comparing(suite: Suite, call: str, rest: str = "pass") -> None:
    suite.module(f"    def test_compared(genai_compare):\n        result = {call}\n        {rest}")


@pytest.mark.usefixtures("calm")
def test_a_smaller_decoder_is_faster_and_its_parts_are_shown(suite: Suite) -> None:
    genai_models.decoder(suite.path / "large", size=Size(layers=12, hidden=128, inner=512))
    genai_models.decoder(suite.path / "small", size=Size(layers=1))
    comparing(
        suite, f'genai_compare("large", "small", {PROMPT}, check_outputs=False)',
        'result.require(min_speedup=1.2, metric="decode_throughput"); '
        'assert result.speedup_of("ttft").ratio > 1.2; assert result.speedup > 1.2',
    )  # fmt: skip

    result = suite.run(*TIMED, "--junitxml=junit.xml")

    result.assert_outcomes(passed=1)
    lines = section(result, "onnxperf")
    patterns = [r"test_compared +{} {2}held", r" {2}TTFT {}", r" {2}decode throughput {}"]
    for line, pattern in zip(lines, patterns, strict=False):
        assert re.fullmatch(pattern.replace("{}", r"[\d.]+x faster \[[\d.]+ to [\d.]+\]"), line), lines
    properties, _ = suite.junit()["test_compared"]
    assert float(properties["onnxperf.compare.ttft.speedup"]) > 1.2


@pytest.mark.usefixtures("calm")
def test_a_requirement_that_does_not_hold_names_the_metric_and_both_sides(suite: Suite) -> None:
    genai_models.decoder(suite.path / "a", size=Size(layers=1))
    genai_models.decoder(suite.path / "b", size=Size(layers=12, hidden=128, inner=512))
    comparing(suite, f'genai_compare("a", "b", {PROMPT}, check_outputs=False)', "result.require(max_slowdown=1.02)")

    result = suite.run(*TIMED)

    result.assert_outcomes(failed=1)
    text = "\n".join(section(result, "test_compared"))
    for metric in ("total_throughput", "ttft", "decode_throughput"):
        assert re.search(rf"max_slowdown=1.02 of {metric}: not held, [\d.]+x slower \[", text), text
    assert re.search(r"TTFT +[\d.]+ ms +[\d.]+ ms", text)
    assert "in 3 processes" in " ".join(text.split())
    assert not too_wide(result.outlines)


def test_outputs_that_differ_fail_whatever_the_speed(suite: Suite) -> None:
    genai_models.decoder(suite.path / "a")
    genai_models.decoder(suite.path / "b", seed=1)
    comparing(suite, BOTH, "result.require(max_slowdown=1000)")

    result = suite.run_apart(*TIMED)

    result.assert_outcomes(failed=1)
    assert "outputs differ: `logits before token 1`" in " ".join(section(result, "test_compared"))


@pytest.mark.usefixtures("calm")
def test_one_directory_under_two_settings_shows_what_differs(decoders: Suite) -> None:
    comparing(
        decoders,
        f'genai_compare("a", "a", {PROMPT}, share_buffer=False, candidate_options={{"share_buffer": True}})',
        "assert result.outputs.state == 'equal'; result.require(max_slowdown=1000)",
    )
    result = decoders.run(*TIMED, "-v")
    result.assert_outcomes(passed=1)
    assert any(re.match(r" +share_buffer +False +True", line) for line in result.outlines), result.outlines


def test_it_runs_in_the_tests_own_process(decoders: Suite) -> None:
    comparing(decoders, BOTH, "assert result.outputs.state == 'equal', result.outputs")
    decoders.run_apart(*TIMED, "--onnxperf-isolation=none").assert_outcomes(passed=1)


def test_without_times_it_cannot_be_told(decoders: Suite) -> None:
    comparing(decoders, BOTH, 'result.require(max_slowdown=1.02, metric="ttft")')
    result = decoders.run_apart(*TIMED, "--onnxperf-timing=off")
    result.assert_outcomes(failed=1)
    assert "genai_compare compares times, and none are measured" in result.stdout.str()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f'genai_compare("a", "none", {PROMPT})', "the candidate, none: "),
        (f'genai_compare(3, "a", {PROMPT})', "genai_compare: reference(model): expected a path, got 3"),
        ('genai_compare("a", "b", new_tokens=4)', "exactly one of `prompt_tokens`, `prompt` and `tokens`"),
        (f'genai_compare("a", "b", {PROMPT}, no_such_option=1)', "no_such_option"),
        (
            f'genai_compare("a", "b", {PROMPT}, candidate_options={{"share_bufer": True}})',
            "genai_compare(candidate_options=...): unknown key `share_bufer`, did you mean `share_buffer`?",
        ),
        (f"{BOTH}.require(max_slowdown=1.1, metric='itl')", "require(metric: the two arms were not timed for 'itl'"),
        (f"{BOTH}.speedup_of('itl')", "metric: the two arms were not timed for 'itl', but for total_throughput, ttft,"),
        (f"{BOTH}.require(metric='ttft')", "require(): give min_speedup, max_slowdown or both"),
        (f'genai_compare("a", "b", {PROMPT}, attention_backend="flash")', "attention_backend: CPUExecutionProvider"),
        (f'genai_compare("a", "b", {PROMPT}, rtol=-1)', "genai_compare(rtol=...): expected a number of at least 0"),
        ('genai_compare("a", "b", prompt_tokens=12, new_tokens=0)', "`new_tokens` must be a whole number"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_text(decoders: Suite, call: str, message: str) -> None:
    comparing(decoders, call)
    result = decoders.run_apart(*TIMED, "--onnxperf-max-time=0")
    result.assert_outcomes(failed=1)
    assert message in " ".join(line.strip() for line in section(result, "test_compared")), result.outlines
