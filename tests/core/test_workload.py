"""What belongs to a workload, and when times of two are not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.judge import Found, Policy, judge
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.workload import workload, workload_changes
from tests.records import MS, record

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_threads_belong_to_the_workload_of_the_cpu_alone() -> None:
    assert workload("cpu", 2, inputs="batch=8") == {"inputs": "batch=8", "threads": "2"}
    assert workload("cuda", 2, inputs="batch=8") == {"inputs": "batch=8"}
    assert workload("cpu", 0, inputs="", concurrency=4) == {"concurrency": "4"}


def test_what_one_of_two_does_not_tell_is_no_difference() -> None:
    assert workload_changes({"inputs": "batch=8"}, {"threads": "2"}) == []
    assert workload_changes({"inputs": "a", "threads": "1"}, {"inputs": "b", "threads": "1"}) == ["inputs a -> b"]


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        ({"inputs": "batch=8"}, {"inputs": "batch=16"}, State.NO_BASELINE),
        ({"inputs": "batch=8"}, {"inputs": "batch=8"}, State.REGRESSED),
        ({}, {"inputs": "batch=8"}, State.REGRESSED),  # an entry of before there were workloads
    ],
)
def test_times_are_compared_with_those_of_the_same_workload(
    before: Mapping[str, str], now: Mapping[str, str], state: State
) -> None:
    old = record({"latency_p50": tuple(each * MS for each in (9.9, 10.0, 10.1, 9.95, 10.05))}, workload=before)
    found = Found(entry_of(old, "2026-11-30", ""), "a.json")
    verdict = judge(record({"latency_p50": (20.0 * MS,)}, workload=now), [], found, Policy(0.05))
    states = {comparison.name: comparison.state for comparison in verdict.comparisons}
    assert states["latency_p50"] is state
    assert states["memcpy"] is State.OK
    assert bool(verdict.workload_changes) is (state is State.NO_BASELINE)
    assert bool(verdict.detectable_ratios) is (state is State.REGRESSED)


def test_a_baseline_of_another_device_has_no_workload_to_compare() -> None:
    found = Found(entry_of(record(workload={"threads": "8"}), "2026-11-30", ""), "a.json")
    elsewhere = replace(found, other_environment="big.cpu")
    now = record(workload={"threads": "2"})
    assert judge(now, [], found, Policy(0.05)).workload_changes == ("threads 8 -> 2",)
    assert judge(now, [], elsewhere, Policy(0.05)).workload_changes == ()
