"""The reference workload beside which rounds are timed."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.child.reference import KINDS, Reference, calibrated
from pytest_onnxperf.runtime.child.references import TESTED, References
from pytest_onnxperf.runtime.child.steps import Steps
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from pathlib import Path

SIZES: dict[str, dict[str, int]] = {
    "compute": {"extent": 32, "repeats": 3},
    "dispatch": {"calls": 50},
    "memory": {"rows": 7, "buffer_bytes": 40 * 4096},
}
COUNTS = {"compute": "repeats", "dispatch": "calls", "memory": "rows"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_computes_the_same_each_time(kind: str) -> None:
    one, other = Reference(kind, SIZES[kind]), Reference(kind, SIZES[kind])
    for _ in range(20):  # the walk comes to the end of its buffer and begins again
        other.run()

    assert one.described() == other.described()
    assert one.described()["size"] == SIZES[kind]
    if kind != "dispatch":  # whose checksum is no number
        assert float(one.described()["checksum"]) > 0


def test_another_size_is_another_reference() -> None:
    small = Reference("compute", {"extent": 32, "repeats": 1}).described()
    large = Reference("compute", {"extent": 128, "repeats": 1}).described()
    assert small["checksum"] != large["checksum"]


@pytest.mark.parametrize("calls", [1, 39, 40, 41, 95])
def test_as_many_small_calls_are_made_as_the_size_says(calls: int) -> None:
    reference = Reference("dispatch", {"calls": calls})
    assert sum(map(len, reference._calls)) == calls
    assert len({id(call) for each in reference._calls for call in each}) == min(calls, 40)


def test_small_calls_of_another_interpreter_or_numpy_are_another_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Reference("dispatch", SIZES["dispatch"]).described()
    monkeypatch.setattr("numpy.__version__", "0.1")
    assert Reference("dispatch", SIZES["dispatch"]).described() == {
        **here, "checksum": f"python {platform.python_version()}, numpy 0.1",
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_grows_with_the_time_that_is_wanted(kind: str) -> None:
    name = COUNTS[kind]
    # 19 times the time. Both are small products, which no BLAS shares out to threads; what a busy machine makes of one
    # calibration is far off, so each is the one of several that was disturbed least.
    assert max(calibrated(kind, 190_000)[name] for _ in range(5)) > 2 * min(
        calibrated(kind, 10_000)[name] for _ in range(5)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_size_is_one(kind: str) -> None:
    assert calibrated(kind, 0)[COUNTS[kind]] == 1


def test_each_pair_has_a_time_of_all_and_their_order_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    references = References({"compute": SIZES["compute"]}, 0)
    (work,) = references._works
    monkeypatch.setattr(work, "run", lambda: calls.append("compute"))

    times_ns = references.paired_rounds(lambda: calls.append(TESTED), 64)

    assert {name: len(times) for name, times in times_ns.items()} == {TESTED: 64, "compute": 64}
    pairs = [tuple(calls[index : index + 2]) for index in range(0, len(calls), 2)]
    assert set(pairs) == {(TESTED, "compute"), ("compute", TESTED)}


def open_steps(model: Path) -> Steps:
    steps = Steps()
    steps.open(SessionJob(model, model.name, provider_of("cpu")).open_arguments(1, ""))
    steps.make_feeds({"batch": 2}, {}, bind=False)
    return steps


@pytest.mark.needs_cpu
def test_a_session_is_timed_beside_the_references_that_are_given(tmp_path: Path) -> None:
    found = open_steps(models.mlp(tmp_path / "mlp.onnx")).paired(SIZES, 5)

    assert {name: len(times) for name, times in found["times_ns"].items()} == dict.fromkeys((TESTED, *SIZES), 5)
    assert {kind: spec["size"] for kind, spec in found["specs"].items()} == SIZES


def measured(tmp_path: Path, model: Path | None = None, **changes: Any) -> Any:
    plan: dict[str, Any] = {
        "warmup_rounds": 1, "min_rounds": 5, "max_time_s": 0.0, "profile_runs": 1, "timeout_s": 300.0,
        "isolation": "process", "threads": 1, **changes,
    }  # fmt: skip
    model = model or models.mlp(tmp_path / "mlp.onnx")
    job = SessionJob(model, model.name, provider_of("cpu"), shapes={"batch": 2})
    return Measurement(job, Plan(**plan), tmp_path / "files", lambda _: None).record(
        TestKey("test_a.py", "test_a"), lambda _: False
    )


@pytest.mark.needs_cpu
def test_all_processes_of_an_update_take_the_size_that_the_first_found(tmp_path: Path) -> None:
    pairs = measured(tmp_path, references={}, processes=3).paired["latency_p50"]

    assert len(pairs) == 3
    assert pairs[0].specs == pairs[1].specs == pairs[2].specs
    assert set(pairs[0].references_ns) == set(KINDS)


@pytest.mark.needs_cpu
def test_without_references_no_time_is_spent_on_them(tmp_path: Path) -> None:
    assert measured(tmp_path, references=None).paired == {}


@pytest.mark.needs_cpu
def test_a_size_that_is_not_given_is_found_and_small_beside_the_model(tmp_path: Path) -> None:
    slow = models.slow_model(tmp_path / "slow.onnx", blocks=200, width=256)

    paired = measured(tmp_path, slow, references={}, min_rounds=20).paired["latency_p50"][0]

    # A third is wanted; the machine is shared. In a process of its own, where BLAS has one thread as ever.
    assert sum(paired.references_ns.values()) < paired.tested_ns
