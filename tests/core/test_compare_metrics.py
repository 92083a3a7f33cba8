"""A metric against its baseline: beside a reference workload where both have one, else raw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.baseline import Entry, entry_of
from pytest_onnxperf.core.compare_metrics import compare_metric, detectable, with_detectable
from pytest_onnxperf.core.device_state import DISTURBED_CORES_RATIO, GpuState
from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.paired import Paired, ReferenceSpec, paired_of
from pytest_onnxperf.core.states import State
from tests.records import CPU, CUDA, MS, environment, record

if TYPE_CHECKING:
    from pytest_onnxperf.core.comparison import Comparison
    from pytest_onnxperf.core.record import Record

LATENCY = METRIC["latency_p50"]
SPECS = {"compute": ReferenceSpec({"extent": 32, "repeats": 4}, 1, "4.58e+03")}
# The machine was up to a third slower from process to process, and both sides felt it.
MACHINE = (1.0, 1.3, 0.9, 1.2, 1.05)


def process(tested_ms: float, machine: float = 1.0, *, spread_ratio: float = 0.05, specs: Any = None) -> Paired:
    return Paired(tested_ms * MS * machine, {"compute": 3 * MS * machine}, spread_ratio, specs or SPECS)


def measured(tested_ms: float, *machines: float, **changes: Any) -> Record:
    pairs = tuple(process(tested_ms * (1 + 0.002 * (i % 3 - 1)), m, **changes) for i, m in enumerate(machines))
    raw = tuple(each.tested_ns for each in pairs)
    return record({"latency_p50": raw}, paired={"latency_p50": pairs})


def baseline(*machines: float) -> Entry:
    return entry_of(measured(10, *(machines or MACHINE)), "2026-11-30", "abc1234")


def compared(new: Record, entry: Entry | None = None, tolerance: float = 0.05) -> Comparison:
    return compare_metric(LATENCY, new, entry or baseline(), tolerance, same=True)


@pytest.mark.parametrize("machine", [0.8, 1.0, 1.5])
def test_what_slows_the_reference_too_is_no_regression(machine: float) -> None:
    assert compared(measured(10, machine)).state is State.OK


@pytest.mark.parametrize("machine", [0.8, 1.0, 1.5])
def test_a_slowdown_is_found_on_a_machine_of_any_speed(machine: float) -> None:
    found = compared(measured(11.04, machine))

    assert found.state is State.REGRESSED
    assert found.is_suspicious
    assert found.detail.startswith("beside the reference workload (compute) +10 % [")


def test_a_faster_model_is_improved_on_a_slow_machine() -> None:
    assert compared(measured(8, 1.4)).state is State.IMPROVED


def test_without_a_reference_the_same_change_cannot_be_told() -> None:
    new = measured(11, 1.0)

    found = compared(replace(new, paired={}))

    assert found.state is State.NOISY
    assert "is the least that can be told here" in found.detail
    assert "reference" not in found.detail


@pytest.mark.parametrize(
    ("size", "version", "checksum", "differing"),
    [
        pytest.param({"extent": 32, "repeats": 5}, 1, "4.58e+03", "repeats 4 -> 5", id="size"),
        pytest.param({"extent": 32, "repeats": 4}, 2, "4.58e+03", "version 1 -> 2", id="version"),
        pytest.param({"extent": 32, "repeats": 4}, 1, "4.59e+03", "checksum 4.58e+03 -> 4.59e+03", id="checksum"),
    ],
)
def test_another_reference_workload_is_not_compared(
    size: dict[str, int], version: int, checksum: str, differing: str
) -> None:
    specs = {"compute": ReferenceSpec(size, version, checksum)}
    found = compared(measured(11, 1.0, specs=specs))

    assert "beside the reference workload" not in found.detail
    assert f"raw times, since the reference workload (compute) is another: {differing}" in found.detail


def test_a_workload_of_the_cpu_is_never_compared_with_one_of_cuda() -> None:
    specs = {"cuda_compute": SPECS["compute"]}
    on_cuda = replace(process(10), references_ns={"cuda_compute": 3.0 * MS}, specs=specs)
    found = compared(replace(measured(11, 1.0), paired={"latency_p50": (on_cuda,)}))

    assert "beside the reference workload" not in found.detail
    assert "raw times, since the reference workload is another: cuda_compute, not compute" in found.detail


def test_a_reference_that_could_not_run_is_the_reason_for_raw_times_whatever_the_state() -> None:
    why = {"latency_p50": "libcublas is not loaded"}
    reason = "raw times, without a reference workload: libcublas is not loaded"

    noisy = compared(replace(measured(11, 1.0), paired={}, unpaired=why))
    steady = [process(10) for _ in range(5)]
    entry = entry_of(record({"latency_p50": (10.0 * MS,) * 5}, paired={"latency_p50": tuple(steady)}), "2026-11-30", "")
    ok = compared(record({"latency_p50": (10.0 * MS,)}, unpaired=why), entry)

    assert noisy.state is State.NOISY
    assert noisy.detail.endswith(f"; {reason}")
    assert (ok.state, ok.detail) == (State.OK, reason)


def test_a_reason_says_nothing_where_the_baseline_has_no_reference_either() -> None:
    without = replace(baseline(), paired={}, references={})
    new = replace(measured(11, 1.0), paired={}, unpaired={"latency_p50": "none"})
    assert "raw" not in compared(new, without).detail


def test_a_reference_that_varies_itself_makes_a_change_noisy() -> None:
    found = compared(measured(11, 1.0, spread_ratio=0.26))
    assert found.state is State.NOISY
    assert found.detail == "the reference workload itself varied by 26% from round to round"
    assert compared(measured(11, 1.0, spread_ratio=0.25)).state is State.REGRESSED


def test_a_baseline_that_tells_no_spread_is_named_beside_a_reference_that_varies() -> None:
    found = compared(measured(11, 1.0, spread_ratio=0.26), baseline(1.0, 1.1))
    assert found.state is State.NOISY
    assert found.detail.startswith("2 stored processes tell no spread")
    assert found.detail.endswith("; the reference workload itself varied by 26% from round to round")


def test_a_slowdown_that_no_noise_explains_regresses_however_the_reference_varies() -> None:
    assert compared(measured(21, 1.0, spread_ratio=0.9)).state is State.REGRESSED


@pytest.mark.parametrize(
    ("threads", "cores", "other_load_ratio", "ep", "state"),
    [
        (1, 2, 0.5, CPU, State.REGRESSED),
        (2, 2, 0.5, CPU, State.DISTURBED),
        (2, 2, DISTURBED_CORES_RATIO, CPU, State.REGRESSED),
        (4, 8, 0.5, CPU, State.REGRESSED),  # four cores are left
        (4, 8, 0.51, CPU, State.DISTURBED),
        (2, 2, 0.5, CUDA, State.REGRESSED),
    ],
)
def test_who_takes_a_core_away_excuses_the_ratio_of_several_threads_to_a_reference_of_one(
    threads: int, cores: int, other_load_ratio: float, ep: str, state: State
) -> None:
    busy: dict[str, Any] = {"disturbance": "others used the cores", "other_load_ratio": other_load_ratio}
    new = replace(measured(11, 1.0), threads=threads, cores=cores, environment=environment(ep), **busy)
    assert compared(new).state is state
    assert compared(replace(new, paired={})).state is State.DISTURBED


def test_a_throttled_gpu_excuses_a_ratio_too_since_the_reference_workload_is_the_cpus() -> None:
    throttled = GpuState("NVIDIA H200", "4f2a", throttled={"thermal slowdown": 0.5})
    new = measured(11, 1.0)
    assert compared(replace(new, gpu=throttled)).state is State.DISTURBED
    assert compared(replace(new, gpu=replace(throttled, throttled={"power cap": 1.0}))).state is State.REGRESSED


@pytest.mark.parametrize("processes", [1, 2])
def test_a_baseline_of_fewer_than_three_processes_is_noisy(processes: int) -> None:
    found = compared(measured(20, 1.0), baseline(*MACHINE[:processes]))
    assert found.state is State.NOISY
    assert f"{processes} stored processes tell no spread" in found.detail


def test_the_size_of_a_model_has_no_noise() -> None:
    size = METRIC["model_size"]
    old = entry_of(record({"model_size": (float(100 << 20),)}), "2026-11-30", "")
    within = compare_metric(size, record({"model_size": (105.0 * (1 << 20),)}), old, 0.05, same=True)
    beyond = compare_metric(size, record({"model_size": (105.1 * (1 << 20),)}), old, 0.05, same=True)
    assert (within.state, beyond.state) == (State.OK, State.REGRESSED)


def test_the_smallest_slowdown_is_smaller_beside_a_reference() -> None:
    entry = baseline()
    beside, raw = detectable(entry, LATENCY, 0.03), detectable(replace(entry, paired={}), LATENCY, 0.03)
    assert beside is not None
    assert raw is not None
    assert 1.03 < beside < 1.05 < raw
    assert with_detectable(entry, 0.03).detectable["latency_p50_ms"] == pytest.approx(beside, abs=0.001)


def test_a_baseline_of_one_process_sees_nothing() -> None:
    assert with_detectable(baseline(1.0), 0.05).detectable == {}


def test_rounds_are_summed_up_by_their_quarter_and_the_median_of_their_ratios() -> None:
    found = paired_of({"tested": [8, 6, 4, 2, 10], "compute": [1, 2, 3, 4, 5]}, SPECS)
    assert (found.tested_ns, found.references_ns) == (4, {"compute": 2})
    assert found.spread_ratio == pytest.approx(2 / 3)


def test_a_step_stands_between_the_reference_before_it_and_the_one_after_it() -> None:
    found = paired_of({"tested": [30, 50, 30, 50], "memory": [10, 10, 10, 10, 20, 30]}, {})
    assert found.tested_ns / found.references_ns["memory"] == pytest.approx(2.5)  # of 3, 5, 2 and 2


@pytest.mark.parametrize(("tested", "reference"), [([1, 2, 3], [1, 2]), ([1, 2, 3], [1] * 5), ([1], [1, 2, 3])])
def test_times_that_do_not_stand_beside_one_another_are_refused(tested: list[int], reference: list[int]) -> None:
    with pytest.raises(MeasurementError, match="are no equal share of"):
        paired_of({"tested": tested, "compute": reference}, {})


@pytest.mark.parametrize(("tested", "reference"), [([1, 0], [1, 1]), ([1, 1], [0, 1])])
def test_a_round_of_no_time_has_no_ratio(tested: list[int], reference: list[int]) -> None:
    with pytest.raises(MeasurementError, match="a round took 0 ns: only positive times have a ratio"):
        paired_of({"tested": tested, "compute": reference}, {})


@given(st.integers(1, 20), st.integers(1, 5), st.floats(0.5, 20))
def test_a_machine_that_changes_its_speed_takes_nothing_from_the_ratio(rounds: int, steps: int, factor: float) -> None:
    speeds = [1 + (number % 3) for number in range(rounds)]
    tested = [round(1000 * factor) * speed for speed in speeds for _ in range(steps)]
    reference = [1000 * speed for speed in speeds for _ in range(steps + 1)]
    found = paired_of({"tested": tested, "compute": reference}, {})
    assert found.tested_ns / found.references_ns["compute"] == pytest.approx(round(1000 * factor) / 1000)
