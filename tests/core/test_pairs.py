"""A/B in pairs: the median and its interval, on both sides of the floor."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.order_statistics import lower_bound, lower_rank, upper_bound
from pytest_onnxperf.core.pairs import is_noisy_aa, judge_pairs, median_of_three
from pytest_onnxperf.core.states import State

ratios = st.lists(st.floats(-1, 1), min_size=1, max_size=60)
SWAPPED = {State.REGRESSED: State.IMPROVED, State.IMPROVED: State.REGRESSED}


def spread(middle: float, width: float = 0.004, count: int = 40) -> list[float]:
    return [middle + width * (index / (count - 1) - 0.5) for index in range(count)]


@pytest.mark.parametrize(
    ("middle", "state"),
    [(0.0, State.OK), (0.019, State.OK), (0.021, State.REGRESSED), (-0.019, State.OK), (-0.021, State.IMPROVED)],
)
def test_a_median_beyond_the_floor_is_a_change(middle: float, state: State) -> None:
    assert judge_pairs(spread(middle)).state is state


def test_pairs_that_scatter_tell_nothing_and_say_between_what_it_lies() -> None:
    found = judge_pairs(spread(0.01, width=0.6))
    assert found.state is State.NOISY
    assert found.reason.startswith("the median is only known to lie between ")


@pytest.mark.parametrize("count", [1, 2, 7])
def test_too_few_pairs_for_an_interval_are_noisy(count: int) -> None:
    found = judge_pairs([0.5] * count)
    assert (found.state, found.low_ratio, found.high_ratio) == (State.NOISY, 0.0, math.inf)
    assert f"{count} pairs are too few" in found.reason
    assert judge_pairs([0.5] * 8).state is State.REGRESSED


def test_suspicion_begins_at_half_of_the_floor_and_ends_with_the_third_process() -> None:
    assert not judge_pairs(spread(0.0095)).is_suspicious
    assert judge_pairs(spread(0.0105)).is_suspicious
    assert not median_of_three([spread(0.05)] * 3).is_suspicious


def test_one_disturbed_repetition_does_not_decide() -> None:
    assert median_of_three([spread(0.0), spread(0.0), spread(0.3)]).state is State.OK
    assert median_of_three([spread(0.05), spread(0.05), spread(-0.3)]).state is State.REGRESSED


@pytest.mark.parametrize("repetitions", [[], [[0.1]], [[0.1]] * 2, [[0.1]] * 4, [[0.1], [0.1], []]])
def test_three_repetitions_are_needed(repetitions: list[list[float]]) -> None:
    with pytest.raises(MeasurementError):
        median_of_three(repetitions)


@pytest.mark.parametrize("wrong", [[], [math.nan], [0.1, math.inf]])
def test_what_is_no_ratio_is_refused(wrong: list[float]) -> None:
    with pytest.raises(MeasurementError):
        judge_pairs(wrong)
    with pytest.raises(MeasurementError):
        is_noisy_aa(wrong)


def test_the_same_file_beyond_the_floor_is_noisy_either_way() -> None:
    assert not is_noisy_aa([0.0197])
    assert is_noisy_aa([0.0199])
    assert is_noisy_aa([-0.0199])


@given(ratios)
def test_swapped_arms_swap_the_verdict(log_ratios: list[float]) -> None:
    one, other = judge_pairs(log_ratios), judge_pairs([-each for each in log_ratios])
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.state is SWAPPED.get(one.state, one.state)


@given(ratios, st.floats(0, 1))
def test_what_is_slower_still_is_never_judged_better(log_ratios: list[float], more: float) -> None:
    if judge_pairs(log_ratios).state is State.REGRESSED:
        assert judge_pairs([each + more for each in log_ratios]).state is State.REGRESSED


@given(st.integers(1, 300), st.floats(0.05, 0.95), st.floats(0.001, 0.4))
def test_a_rank_keeps_its_error_and_the_next_does_not(count: int, q: float, error: float) -> None:
    rank = lower_rank(count, q, error)
    if rank:
        assert binom.cdf(rank - 1, count, q) <= error * (1 + 1e-9)
    if rank < count:
        assert binom.cdf(rank, count, q) > error * (1 - 1e-9)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=50))
def test_the_bounds_lie_around_the_median(values: list[float]) -> None:
    ordered = sorted(values)
    assert lower_bound(ordered, 0.5, 0.005) <= ordered[len(ordered) // 2]
    assert upper_bound(ordered, 0.5, 0.005) >= ordered[(len(ordered) - 1) // 2]
