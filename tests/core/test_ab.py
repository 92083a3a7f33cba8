"""What an A/B makes of its pairs, its outputs and the sensor of noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core import ab
from pytest_onnxperf.core.ab import AaSensor, AbRecord, Outputs, Pairs, Requirement, timed_of
from pytest_onnxperf.core.environment import Environment
from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.core.pairs import log_ratio
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.core.states import Limit

KEY = TestKey("test_a.py", "test_a")
RECORD = Record(KEY, "a.onnx", Environment("d", "d.cpu", "CPUExecutionProvider", {}), None, {}, {})
EQUAL = Outputs("equal", "`y`: largest difference 0", 0.0)


def pairs_of(ratio: float, count: int = 60, spread: float = 0.002) -> Pairs:
    """Pairs around a ratio, half of them above."""
    return tuple(
        (1_000_000, round(1_000_000 * ratio * (1 + spread * (place % 5 - 2) / 2))) for place in range(count)
    )  # fmt: skip


def record_of(*processes: Pairs, **changes: Any) -> AbRecord:
    found: dict[str, Any] = {
        "times": timed_of([{"latency_p50": pairs} for pairs in processes]),
        "outputs": EQUAL,
        "pairs": sum(map(len, processes)),
        "processes": len(processes),
        "sensor": AaSensor(1.001, is_noisy=False),
    }
    return AbRecord(KEY, RECORD, RECORD, **(found | changes))


def result(requirement: Requirement, record: AbRecord) -> Limit:
    return ab.judged(requirement, record).state


def faster(limit: float) -> Requirement:
    return ab.requirements_of(limit, None, ["latency_p50"])[0]


def slower(limit: float) -> Requirement:
    return ab.requirements_of(None, limit, ["latency_p50"])[0]


def test_a_candidate_of_half_the_time_is_twice_as_fast() -> None:
    record = record_of(pairs_of(0.5))
    speedup = record.speedup()
    assert speedup.ratio == pytest.approx(2, rel=0.01)
    assert speedup.low <= speedup.ratio <= speedup.high


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [
        (0.5, 1.9, Limit.HELD),
        (0.5, 2.0, Limit.CANNOT_TELL),
        (0.5, 2.1, Limit.BROKEN),
        (1.5, 0.6, Limit.HELD),
    ],
)
def test_a_speedup_is_proven_by_the_whole_interval(ratio: float, limit: float, expected: Limit) -> None:
    assert result(faster(limit), record_of(pairs_of(ratio))) is expected


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [
        (0.5, 1.0, Limit.HELD),
        (1.0, 1.02, Limit.HELD),
        (1.015, 1.02, Limit.HELD),
        (1.05, 1.02, Limit.BROKEN),
        (1.05, 1.1, Limit.HELD),
    ],
)
def test_a_slowdown_is_judged_as_pairs_are(ratio: float, limit: float, expected: Limit) -> None:
    assert result(slower(limit), record_of(pairs_of(ratio))) is expected


def test_a_wide_interval_is_neither_held_nor_broken() -> None:
    wide = pairs_of(1.0, count=20, spread=0.2)
    judged = ab.judged(slower(1.02), record_of(wide))
    assert judged.state is Limit.CANNOT_TELL
    assert judged.why == "the interval reaches to both sides of the limit"


@pytest.mark.parametrize("count", [1, 2, 7])
def test_too_few_pairs_tell_nothing(count: int) -> None:
    judged = ab.judged(slower(5.0), record_of(pairs_of(1.0, count)))
    assert judged.state is Limit.CANNOT_TELL
    assert f"{count} pairs are too few" in judged.why


def test_a_faster_wrong_answer_is_no_speedup() -> None:
    wrong = Outputs("differ", "`y`: largest difference 3", 3.0)
    judged = ab.judged(faster(1.5), record_of(pairs_of(0.5), outputs=wrong))
    assert judged.state is Limit.BROKEN
    assert judged.why == "outputs differ: `y`: largest difference 3"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outputs": Outputs("cannot tell", "other names")}, "outputs cannot be compared: other names"),
        ({"sensor": AaSensor(1.031, is_noisy=True)}, "noisy: the reference against itself differs by 3.1% here"),
        (
            {"sensor": AaSensor(1.009, is_noisy=True, processes=3)},
            "noisy: the reference against itself differs by more",
        ),
        ({"times": {}, "why_not": "no times"}, "no times"),
    ],
)
def test_what_cannot_be_told_is_never_held(changes: dict[str, Any], why: str) -> None:
    record = record_of(pairs_of(0.5), **changes)
    judged = ab.judged(faster(1.1), record)
    assert judged.state is Limit.CANNOT_TELL
    assert judged.why.startswith(why)
    assert not ab.needs_more(faster(1.1), record)
    assert replace(record, requirements=(judged,)).state == "cannot tell"


@pytest.mark.parametrize(("ratio", "expected"), [(0.9, False), (1.0, False), (1.015, True), (1.03, True)])
def test_two_more_processes_decide_what_does_not_hold_or_only_just(ratio: float, expected: bool) -> None:
    assert ab.needs_more(slower(1.02), record_of(pairs_of(ratio))) is expected
    assert not ab.needs_more(slower(1.02), record_of(*[pairs_of(ratio)] * 3))


def test_the_median_of_three_processes_decides() -> None:
    one_slow = record_of(pairs_of(1.05), pairs_of(1.0), pairs_of(1.001))
    assert result(slower(1.02), one_slow) is Limit.HELD


@given(st.floats(0.2, 5.0), st.floats(0.0, 0.1))
def test_the_ratio_lies_in_its_interval_and_swaps_with_the_arms(ratio: float, spread: float) -> None:
    pairs = pairs_of(ratio, spread=spread)
    record, swapped = record_of(pairs), record_of(tuple((b, a) for a, b in pairs))
    speedup = record.speedup()
    assert speedup.low <= speedup.ratio <= speedup.high
    assert speedup.ratio * swapped.speedup().ratio == pytest.approx(1, rel=1e-6)


def generators(**ratios: float) -> AbRecord:
    pairs = {name: pairs_of(ratio) for name, ratio in ratios.items()}
    return record_of(pairs_of(1.0), times=timed_of([pairs]))


def test_each_metric_has_its_ratio_and_the_first_is_that_of_the_whole() -> None:
    record = generators(total_throughput=0.8, ttft=1.0, decode_throughput=0.5)
    assert record.speedup().ratio == pytest.approx(1.25, rel=0.01)
    assert record.speedup("decode_throughput").ratio == pytest.approx(2, rel=0.01)
    with pytest.raises(SettingError, match=r"not timed for 'itl', but for total_throughput, ttft, decode_throughput"):
        record.speedup("itl")


def test_a_requirement_on_each_metric_is_broken_by_one() -> None:
    record = generators(total_throughput=0.8, ttft=1.1, decode_throughput=0.5)
    required = ab.requirements_of(None, 1.02, list(record.times), are_named=True)
    assert [(each.text, result(each, record)) for each in required] == [
        ("max_slowdown=1.02 of total_throughput", Limit.HELD),
        ("max_slowdown=1.02 of ttft", Limit.BROKEN),
        ("max_slowdown=1.02 of decode_throughput", Limit.HELD),
    ]
    assert [ab.needs_more(each, record) for each in required] == [False, True, False]


def test_an_interval_is_precise_by_its_width_alone() -> None:
    assert ab.is_precise(pairs_of(1.0))
    assert ab.is_precise(pairs_of(1.03))
    assert not ab.is_precise(pairs_of(1.0, spread=0.05))
    assert ab.is_precise(pairs_of(3.0, spread=0.05))  # of a large difference a twentieth is enough
    assert not ab.is_precise(pairs_of(1.0, count=7))


def test_a_clock_that_stands_still_has_a_ratio() -> None:
    assert [log_ratio(*pair) for pair in ((0, 0), (0, 2))] == [0.0, math.log(2)]


@pytest.mark.parametrize(
    ("ratios", "noisy"),
    [((1.01,), False), ((1.03,), True), ((1.03, 1.0, 1.0), False), ((1.03, 0.97, 1.0), True)],
)
def test_most_processes_say_whether_the_machine_is_noisy(ratios: tuple[float, ...], noisy: bool) -> None:
    assert ab.sensor_of([pairs_of(ratio) for ratio in ratios]).is_noisy is noisy
