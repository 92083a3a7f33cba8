"""Times of pytest-benchmark in a record: which are told, and why the others are not."""

from __future__ import annotations

import json
from typing import Final

import pytest

from pytest_onnxperf.core.benchmark_times import BenchmarkTimes, extra_info, with_benchmark
from pytest_onnxperf.core.errors import MeasurementError
from tests.records import facts, record

TIMED: Final = ("latency_p50", "latency_p90", "latency_p99", "latency_min", "throughput", "cold_start", "load")
WITHOUT: Final = record({"model_size": (100.0,)}, not_measured=dict.fromkeys(TIMED, "times were not measured"))


def test_seconds_become_the_metrics_of_single_calls() -> None:
    found = with_benchmark(WITHOUT, BenchmarkTimes([0.003, 0.001, 0.002], threads=2, other_load_ratio=0.1))

    assert found.metrics == {
        "latency_p50": (2_000_000.0,),
        "latency_p90": (2_800_000.0,),
        "latency_p99": (2_980_000.0,),
        "latency_min": (1_000_000.0,),
        "throughput": (500.0,),
        "model_size": (100.0,),
    }
    assert set(found.not_measured) == {"cold_start", "load"}
    assert "measure() finds it" in found.not_measured["load"]
    assert (found.rounds, found.threads, found.other_load_ratio) == (3, 2, 0.1)
    (spread,) = found.distributions["latency"]
    assert (spread.rounds, spread.mean_ns) == (3, 2_000_000)


@pytest.mark.parametrize(("calls", "told"), [(1, True), (2, False)])
def test_means_of_several_calls_tell_no_tail(calls: int, told: bool) -> None:
    found = with_benchmark(WITHOUT, BenchmarkTimes([0.001, 0.002], calls_per_round=calls))

    assert {"latency_p50", "throughput"} <= set(found.metrics)
    for name in ("latency_p90", "latency_p99", "latency_min"):
        assert (name in found.metrics) == told
        assert (name in found.not_measured) != told
    assert told or "the mean of 2 calls" in found.not_measured["latency_p99"]


def test_without_times_every_one_says_why_and_facts_keep_their_reason() -> None:
    given = record({}, not_measured={**WITHOUT.not_measured, "facts": "no profile"})

    found = with_benchmark(given, BenchmarkTimes(why_not="it was disabled"))

    assert (found.metrics, found.distributions) == ({}, {})
    assert {name: found.not_measured[name] for name in TIMED[:5]} == dict.fromkeys(TIMED[:5], "it was disabled")
    assert found.not_measured["facts"] == "no profile"


def test_a_clock_that_went_backwards_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="backwards"):
        with_benchmark(WITHOUT, BenchmarkTimes([0.001, -0.001]))


def test_extra_info_is_plain_data_and_says_why_there_are_no_facts() -> None:
    told = extra_info(record())
    assert json.loads(json.dumps(told)) == told
    assert told["facts"]["nodes"] == 2
    assert told["why_no_facts"] == ""

    untold = extra_info(record(of=facts(unavailable="a graph was replayed")))
    assert (untold["facts"], untold["why_no_facts"]) == ({}, "a graph was replayed")
