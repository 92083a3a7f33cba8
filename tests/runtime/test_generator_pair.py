"""Two generators in one process: their logits compared, and generations timed in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_onnxperf.core.ab import ARMS, timed_of
from pytest_onnxperf.core.errors import MeasurementError, SettingError
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.child.generator_pair import GeneratorPairSteps
from pytest_onnxperf.runtime.compare_job import AbMeasurement
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.pair_process import Tolerances
from pytest_onnxperf.runtime.plan import Plan
from tests import genai_models
from tests.genai_models import Size

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.needs_genai, pytest.mark.usefixtures("own_locks")]

KEY = TestKey("test_a.py", "test_a")
TOLERANCES = Tolerances(1e-3, 1e-5)
PROMPT: dict[str, Any] = {"prompt_tokens": 12, "new_tokens": 6}
PLAN = Plan(
    warmup_rounds=1, min_rounds=4, max_time_s=0.2, profile_runs=1, timeout_s=120.0, isolation="process", threads=1
)


def steps_of(reference: Path, candidate: Path, **prompt: Any) -> GeneratorPairSteps:
    steps = GeneratorPairSteps()
    for arm, model in zip(ARMS, (reference, candidate), strict=True):
        steps.open(arm, GeneratorJob(model, model.name, provider_of("cpu")).open_arguments(1, ""))
        steps.prepare(arm, **{**PROMPT, **prompt})
    return steps


def compared(tmp_path: Path, reference: Path, candidate: Path, **changes: Any) -> AbMeasurement:
    jobs = [
        GeneratorJob(model, model.name, provider_of("cpu"), **{"prompt": PROMPT, **changes})
        for model in (reference, candidate)
    ]
    return AbMeasurement(jobs[0], jobs[1], PLAN, tmp_path / "files", lambda _: None)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_another_form_of_the_same_attention_has_equal_logits(tmp_path: Path, batch_size: int) -> None:
    gqa = genai_models.decoder(tmp_path / "gqa")
    unfused = genai_models.decoder(tmp_path / "unfused", "unfused")

    found = steps_of(gqa, unfused, batch_size=batch_size).outputs(1e-3, 1e-4)

    assert found["state"] == "equal", found
    assert 0 < found["largest_difference"] < 1e-2
    assert steps_of(gqa, gqa, batch_size=batch_size).outputs(0.0, 0.0)["largest_difference"] == 0


def test_other_weights_differ_before_the_first_token(tmp_path: Path) -> None:
    one, other = (genai_models.decoder(tmp_path / name, seed=seed) for seed, name in enumerate("ab"))

    found = steps_of(one, other).outputs(1e-3, 1e-4)

    assert found["state"] == "differ"
    assert "`logits before token 1`: largest difference" in found["text"]


def test_where_two_tokens_are_as_likely_what_follows_is_not_compared(tmp_path: Path) -> None:
    one, other = (genai_models.decoder(tmp_path / name, seed=seed) for seed, name in enumerate("ab"))

    found = steps_of(one, other).outputs(0.0, 1e9)  # all are equal within that

    assert found["state"] == "equal"
    assert "differs, both as likely, and what follows is not compared" in found["text"]


def test_a_sampled_reference_is_not_held_against_itself(tmp_path: Path) -> None:
    """With the logits of the prompt equal the two texts may part at once, which says nothing of either model."""
    model = genai_models.decoder(tmp_path / "a")
    sampled = {"search_options": {"do_sample": True, "top_k": 50, "temperature": 1.0}}
    assert steps_of(model, model, **sampled).outputs(0.0, 0.0)["state"] == "equal"


@pytest.mark.parametrize(("new_tokens", "names"), [
    (6, ["total_throughput", "ttft", "decode_throughput"]), (1, ["total_throughput", "ttft"]),
])  # fmt: skip
def test_each_part_of_a_generation_has_its_ratio(tmp_path: Path, new_tokens: int, names: list[str]) -> None:
    small = genai_models.decoder(tmp_path / "small", size=Size(layers=1))
    large = genai_models.decoder(tmp_path / "large", size=Size(layers=12, hidden=128, inner=512))
    measurement = compared(tmp_path, small, large, prompt={"prompt_tokens": 12, "new_tokens": new_tokens})

    found = measurement.compare(None)
    reference, candidate = measurement.records(KEY)

    assert list(measurement.metrics) == names
    times = timed_of([found.pairs])
    assert list(times) == names
    assert all(verdict.ratio > 1.5 for verdict in times.values())
    assert set(reference.phases) == set(candidate.phases) == {"prefill", "decode"} if new_tokens > 1 else {"prefill"}
    assert {"ttft", "cold_start", "load", "model_size"} <= set(reference.metrics)
    assert ("decode_throughput" in candidate.metrics) == (new_tokens > 1)
    assert candidate.metrics["ttft"][0] > reference.metrics["ttft"][0]
    assert measurement.pair_count == reference.rounds >= 8


def test_a_whole_generation_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    model = genai_models.decoder(tmp_path / "a")
    pairs = compared(tmp_path, model, model).compare(None).pairs
    parts = np.array(pairs["ttft"]) + np.array(pairs["decode_throughput"])
    assert (np.array(pairs["total_throughput"]) == parts).all()


def test_an_arm_whose_context_is_too_short_is_named(tmp_path: Path) -> None:
    long = genai_models.decoder(tmp_path / "long")
    short = genai_models.decoder(tmp_path / "short", size=Size(context=16))
    with pytest.raises(MeasurementError, match=r"the candidate, short: a prompt of 12 tokens and 6 new ones are 18"):
        compared(tmp_path, long, short).compare(None)


def test_arms_that_need_other_variables_are_refused(tmp_path: Path) -> None:
    model = genai_models.decoder(tmp_path / "a")
    jobs = [
        GeneratorJob(model, "a", provider_of("cpu"), prompt=PROMPT, variables=variables)
        for variables in ({"ORT_ENABLE_XQA": "1"}, {})
    ]
    measurement = AbMeasurement(jobs[0], jobs[1], PLAN, tmp_path / "files", lambda _: None)
    with pytest.raises(SettingError, match=r"ORT_ENABLE_XQA in the reference, none in the candidate"):
        measurement.check()
