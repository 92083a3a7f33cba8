"""What belongs to a workload, and when times of two are not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.judge import Found, Policy, judge
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.workload import sizes_text, workload, workload_changes
from tests.records import MS, record

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_threads_belong_to_the_workload_of_the_cpu_alone() -> None:
    assert workload("cpu", 2, inputs="batch=8") == {"inputs": "batch=8", "threads": "2"}
    assert workload("cuda", 2, inputs="batch=8") == {"inputs": "batch=8"}
    assert workload("webgpu", 2, inputs="of the model", concurrency=4) == {"inputs": "of the model", "concurrency": "4"}


def test_the_names_of_inputs_count_and_their_order_does_not() -> None:
    assert sizes_text({"b": [64, 1], "a": [1, 64]}) == sizes_text({"a": [1, 64], "b": [64, 1]}) == "a=[1,64], b=[64,1]"
    assert sizes_text({"a": [64, 1], "b": [1, 64]}) == "a=[64,1], b=[1,64]"


@pytest.mark.parametrize("shape", [(8, 2), [8, 2], np.array([8, 2]), (np.int64(8), 2)])
def test_a_shape_is_the_same_workload_in_every_spelling(shape: Any) -> None:
    sizes: dict[str, Any] = {"x": shape, "n": np.int64(3)}
    assert sizes_text(sizes) == "n=3, x=[8,2]"


def test_what_one_of_two_lacks_is_a_difference_and_one_that_is_empty_is_not_known() -> None:
    assert workload_changes({"threads": "2"}, {"inputs": "batch=8", "threads": "2"}) == ["inputs none -> batch=8"]
    assert workload_changes({}, {"threads": "2"}) == workload_changes({"threads": "2"}, {}) == []
    assert workload_changes({"inputs": "\x1b[31m"}, {"inputs": "a"}) == [r"inputs \x1b[31m -> a"]
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
