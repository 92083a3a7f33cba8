"""A/B in real processes on the CPU."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_onnxperf.core.ab import ARMS
from pytest_onnxperf.core.errors import MeasurementError, ModelError, ProviderError
from pytest_onnxperf.core.pairs import judge_repetitions
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.core.states import State
from pytest_onnxperf.runtime.compare_job import AbMeasurement, loaded_first
from pytest_onnxperf.runtime.pair_process import Tolerances
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models
from tests.runtime.children import at_start

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("own_locks")

KEY = TestKey("test_a.py", "test_a")
TOLERANCES = Tolerances(1e-3, 1e-5)
BATCH: dict[str, Any] = {"shapes": {"batch": 2}}
PLAN = Plan(
    warmup_rounds=2, min_rounds=4, max_time_s=0.2, profile_runs=1, timeout_s=120.0, isolation="process", threads=1
)
AT_STEP = """
    import os, signal, sys

    def _watch(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name == {step!r} and code.co_filename.endswith("child/pair.py"):
            if frame.f_locals.get("arm", {arm!r}) == {arm!r}:
                os.kill(os.getpid(), signal.SIGKILL)

    if sys.orig_argv[1:2] == ["-c"]:
        sys.setprofile(_watch)
"""


def compared(tmp_path: Path, reference: Path, candidate: Path, plan: Plan = PLAN, **changes: Any) -> AbMeasurement:
    inputs = {**BATCH, **changes}
    jobs = [SessionJob(model, model.name, provider_of("cpu"), **inputs) for model in (reference, candidate)]
    return AbMeasurement(jobs[0], jobs[1], plan, tmp_path / "files", lambda _: None)


def test_a_model_of_more_blocks_is_found_slower_and_both_have_facts_and_metrics(tmp_path: Path) -> None:
    small = models.slow_model(tmp_path / "small.onnx", blocks=20)
    large = models.slow_model(tmp_path / "large.onnx", blocks=160)
    measurement = compared(tmp_path, small, large)

    found = measurement.compare(None)
    reference, candidate = measurement.records(KEY)

    assert judge_repetitions([found.pairs["latency_p50"]]).state is State.REGRESSED
    assert found.outputs.state == "not checked"
    assert reference.facts is not None
    assert candidate.facts is not None
    assert candidate.facts.nodes > reference.facts.nodes
    assert {"latency_p50", "cold_start", "load", "model_size"} <= set(reference.metrics)
    assert "share a process" in reference.not_measured["peak_rss"]


def test_which_arm_is_loaded_first_alternates(tmp_path: Path) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    measurement = compared(tmp_path, model, model, replace(PLAN, max_time_s=0.0))
    for _ in range(3):
        measurement.compare(None)
    order = loaded_first(measurement.processes)
    assert set(order) == set(ARMS)
    assert order[0] == order[2] != order[1]


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_model_is_compared_with_itself(tmp_path: Path, isolation: Any) -> None:
    """Its ratio lies in an interval around 1, which is as wide as the machine is noisy."""
    model = models.slow_model(tmp_path / "a.onnx")
    measurement = compared(tmp_path, model, model, replace(PLAN, isolation=isolation))
    verdict = judge_repetitions([measurement.compare(TOLERANCES).pairs["latency_p50"]])
    assert verdict.low_ratio < 1.15
    assert verdict.high_ratio > 0.87
    assert measurement.processes[0].outputs.largest_difference == 0
    assert measurement.sense().processes in (1, 3)


def test_feeds_of_another_width_are_cast_for_the_candidate_in_both_processes(tmp_path: Path) -> None:
    import onnx

    double, single = tmp_path / "double.onnx", tmp_path / "single.onnx"
    for path, number in ((double, onnx.TensorProto.DOUBLE), (single, onnx.TensorProto.FLOAT)):
        models.every_type(path, number)
    name = onnx.load(str(double)).graph.input[0].name
    dims = [each.dim_value or 2 for each in onnx.load(str(double)).graph.input[0].type.tensor_type.shape.dim]
    measurement = compared(tmp_path, double, single, shapes={}, feeds={name: np.ones(dims, np.float64)})
    assert measurement.compare(TOLERANCES).outputs.state == "equal"
    assert all(record.facts is not None for record in measurement.records(KEY))


def test_inputs_of_other_names_are_listed_for_both(tmp_path: Path) -> None:
    measurement = compared(
        tmp_path, models.mlp(tmp_path / "mlp.onnx"), models.several_inputs(tmp_path / "several.onnx")
    )  # fmt: skip
    with pytest.raises(MeasurementError, match=r"`x` in the reference, .* in the candidate"):
        measurement.compare(TOLERANCES)


def test_a_missing_model_is_named_with_its_arm(tmp_path: Path) -> None:
    measurement = compared(tmp_path, models.mlp(tmp_path / "mlp.onnx"), tmp_path / "none.onnx")
    with pytest.raises(ModelError, match=r"the candidate, none\.onnx: .*none\.onnx"):
        measurement.check()


def test_a_refused_model_and_a_provider_that_does_not_run_are_named_with_their_arm(tmp_path: Path) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    with pytest.raises(ModelError, match=r"the candidate, bad\.onnx: "):
        compared(tmp_path, model, models.bad_opset(tmp_path / "bad.onnx")).compare(TOLERANCES)
    jobs = [SessionJob(model, "mlp.onnx", provider_of(ep), **BATCH) for ep in ("AcmeExecutionProvider", "cpu")]
    measurement = AbMeasurement(jobs[0], jobs[1], PLAN, tmp_path / "other", lambda _: None)
    with pytest.raises(ProviderError, match=r"the reference, mlp\.onnx: this build .* has no AcmeExecutionProvider"):
        measurement.compare(TOLERANCES)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("warm_up", r"the candidate, mlp\.onnx: the measuring process was killed by SIGKILL"),
        ("block", r"the measuring process was killed by SIGKILL.* in its step `block`"),
    ],
)
def test_a_killed_process_says_which_arm_ran_where_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, message: str
) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    environment = at_start(tmp_path / "site", AT_STEP.format(step=step, arm="candidate"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(environment.values()))
    with pytest.raises(MeasurementError, match=message):
        compared(tmp_path, model, model).compare(TOLERANCES)


def test_outputs_that_differ_and_outputs_that_differ_from_themselves(tmp_path: Path) -> None:
    first, second = (models.mlp(tmp_path / f"{seed}.onnx", seed=seed) for seed in (1, 2))
    outputs = compared(tmp_path, first, second, replace(PLAN, max_time_s=0.0)).compare(TOLERANCES).outputs
    assert outputs.state == "differ"
    assert outputs.largest_difference > 0
    assert outputs.text.startswith("`y`: largest difference")


def test_an_empty_batch_is_compared(tmp_path: Path) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    measurement = compared(tmp_path, model, model, replace(PLAN, max_time_s=0.0), shapes={"batch": 0})
    assert measurement.compare(TOLERANCES).outputs.state == "equal"
