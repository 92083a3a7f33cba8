"""Time against a stored baseline: the interval between processes, on both sides of each boundary."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.decide import crept_ratio, detectable_ratio, judge_stored, stored_limits
from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.states import State

TIGHT = (0.999, 1.0, 1.0005, 1.001, 0.9995)
WIDE = (0.8, 1.3, 1.0, 0.9, 1.15)
Better = Literal["less", "more"]
values = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("current", "better", "state"),
    [
        (1.045, "less", State.OK),
        (1.06, "less", State.REGRESSED),
        (0.94, "less", State.IMPROVED),
        (0.96, "less", State.OK),
        (1.06, "more", State.IMPROVED),
        (1.04, "more", State.OK),
        (0.94, "more", State.REGRESSED),
        (0.96, "more", State.OK),
    ],
)
def test_beyond_the_tolerance_of_a_tight_baseline_is_a_change(current: float, better: Better, state: State) -> None:
    assert judge_stored(TIGHT, [current], tolerance=0.05, better=better).state is state


def test_a_wide_baseline_tells_neither_and_says_what_it_could_see() -> None:
    found = judge_stored(WIDE, [1.1], tolerance=0.05, better="less")
    assert found.state is State.NOISY
    assert found.reason.endswith("is the least that can be told here")
    assert judge_stored(WIDE, [3.0], tolerance=0.05, better="less").state is State.REGRESSED


@pytest.mark.parametrize("stored", [[1.0], [1.0, 1.01]])
def test_one_or_two_stored_processes_are_noisy_whatever_the_change(stored: list[float]) -> None:
    for current in (1.0, 5.0):
        found = judge_stored(stored, [current], tolerance=0.05, better="less")
        assert (found.state, found.is_suspicious) == (State.NOISY, False)
        assert "tell no spread: 3 are needed" in found.reason


def test_ties_have_no_spread_and_the_tolerance_alone_decides() -> None:
    assert judge_stored([1.0] * 5, [1.0], tolerance=0.05, better="less").state is State.OK
    assert judge_stored([1.0] * 5, [1.051], tolerance=0.05, better="less").state is State.REGRESSED


def test_a_change_within_the_slack_is_none() -> None:
    assert judge_stored([0.01] * 5, [0.029], tolerance=0.05, better="less", slack=0.02).state is State.OK
    assert judge_stored([0.01] * 5, [0.0301], tolerance=0.05, better="less", slack=0.02).state is State.REGRESSED


def test_three_processes_decide_and_ask_for_no_more() -> None:
    assert judge_stored(TIGHT, [1.06], tolerance=0.05, better="less").is_suspicious
    assert not judge_stored(TIGHT, [1.06] * 3, tolerance=0.05, better="less").is_suspicious
    assert not judge_stored(TIGHT, [1.0], tolerance=0.05, better="less").is_suspicious


@pytest.mark.parametrize(("stored", "current", "state"), [
    ([0.0] * 3, [0.0], State.OK), ([0.0, 1.0, 1.0], [1.0], State.NOISY), ([1.0] * 3, [0.0], State.NOISY),
])  # fmt: skip
def test_a_zero_has_no_ratio(stored: list[float], current: list[float], state: State) -> None:
    assert judge_stored(stored, current, tolerance=0.05, better="less").state is state


@pytest.mark.parametrize(
    ("stored", "current"),
    [([], [1.0]), ([1.0], []), ([1.0, math.nan], [1.0]), ([1.0], [math.inf]), ([-1.0], [1.0]), ([1.0], [math.nan])],
)
def test_what_is_no_time_is_refused(stored: list[float], current: list[float]) -> None:
    with pytest.raises(MeasurementError):
        judge_stored(stored, current, tolerance=0.05, better="less")


@given(values, values, st.floats(0.001, 1000))
def test_the_verdict_does_not_depend_on_the_unit(stored: list[float], current: list[float], factor: float) -> None:
    plain = judge_stored(stored, current, tolerance=0.05, better="less")
    scaled = judge_stored([v * factor for v in stored], [v * factor for v in current], tolerance=0.05, better="less")
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.high_ratio == pytest.approx(plain.high_ratio)


@given(values, values, st.floats(1, 100))
def test_what_is_slower_still_is_never_judged_better(stored: list[float], current: list[float], factor: float) -> None:
    before = judge_stored(stored, current, tolerance=0.05, better="less")
    after = judge_stored(stored, [v * factor for v in current], tolerance=0.05, better="less")
    if before.state is State.REGRESSED:
        assert after.state is State.REGRESSED
    if after.state is State.IMPROVED:
        assert before.state is State.IMPROVED


@given(values, values)
def test_a_throughput_comes_out_as_the_time_it_is_made_of(stored: list[float], current: list[float]) -> None:
    times = judge_stored(stored, current, tolerance=0.05, better="less")
    rates = judge_stored([1 / v for v in stored], [1 / v for v in current], tolerance=0.05, better="more")
    assert rates.ratio == pytest.approx(1 / times.ratio)
    if abs(math.log(times.ratio)) > 1e-6 and not math.isclose(times.ratio, times.limit_ratio, rel_tol=1e-6):
        assert {times.state, rates.state} != {State.REGRESSED, State.IMPROVED}


def test_what_can_be_seen_is_beyond_the_tolerance_and_less_with_more_processes() -> None:
    one = detectable_ratio(WIDE, tolerance=0.03)
    three = detectable_ratio(WIDE, tolerance=0.03, current_processes=3)
    tight = detectable_ratio(TIGHT, tolerance=0.03)
    assert one is not None
    assert three is not None
    assert tight is not None
    assert 1.03 < tight < 1.04 < three < one
    assert detectable_ratio([1.0, 1.0], tolerance=0.03) is None
    assert detectable_ratio([0.0] * 5, tolerance=0.03) is None


def test_limits_of_one_process_lie_in_order() -> None:
    limits = stored_limits(WIDE, tolerance=0.03)
    assert limits is not None
    assert 0 < limits.calm_log < limits.worse_log
    assert stored_limits([1.0, 1.0], tolerance=0.03) is None


@pytest.mark.parametrize(("current", "crept"), [(1.09, None), (1.11, 1.11), (0.5, None), (0.0, None)])
def test_creep_is_only_what_got_worse_beyond_its_tolerance(current: float, crept: float | None) -> None:
    found = crept_ratio(1.0, [current], tolerance=0.1, better="less")
    assert found == (None if crept is None else pytest.approx(crept))


def test_the_widest_numbers_have_a_verdict() -> None:
    for tolerance in (0.0, 1e308):
        verdict = judge_stored([1.0, 1e300, 1e-300], [1e300], tolerance=tolerance, better="less")
        assert verdict.ratio > 1
        assert detectable_ratio([1.0, 1e300, 1e-300], tolerance=tolerance)


def test_creep_must_exceed_what_today_s_comparison_can_tell() -> None:
    assert crept_ratio(1.0, [1.2], tolerance=0.1, better="less", reach_log=0.19) is None
    assert crept_ratio(1.0, [1.2], tolerance=0.1, better="less", reach_log=0.18) == pytest.approx(1.2)


def test_creep_of_a_throughput_is_downwards() -> None:
    assert crept_ratio(100.0, [89.0], tolerance=0.1, better="more") == pytest.approx(0.89)
    assert crept_ratio(100.0, [150.0], tolerance=0.1, better="more") is None
