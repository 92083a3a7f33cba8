"""Rounds end when the verdict is certain, and not before."""

from __future__ import annotations

import math
import random

import pytest

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.paired import of_rounds
from pytest_onnxperf.core.stopping import Decision, Plan, Stopping, pair_plan


def pairs_until(middle: float, most: int, *, noise: float = 0.02, seed: int = 0) -> tuple[Decision, int]:
    generator = random.Random(seed)
    stopping = Stopping(pair_plan(most))
    decision = Decision.GO_ON
    while decision is Decision.GO_ON:
        decision = stopping.add([generator.gauss(middle, noise) for _ in range(stopping.until_next_look)])
    return decision, stopping.rounds


@pytest.mark.parametrize(
    ("middle", "decision"), [(0.0, Decision.CERTAIN_OK), (0.1, Decision.CERTAIN_WORSE), (-0.1, Decision.CERTAIN_OK)]
)
def test_clear_cases_end_early(middle: float, decision: Decision) -> None:
    found, rounds = pairs_until(middle, 1000)
    assert found is decision
    assert rounds < 200


def test_between_the_limits_all_rounds_are_taken() -> None:
    stopping = Stopping(pair_plan(300))
    while stopping.until_next_look:
        decision = stopping.add([0.0 if index % 2 else 0.05 for index in range(stopping.until_next_look)])
    assert (decision, stopping.rounds) == (Decision.OUT_OF_TIME, 300)


def test_at_the_limit_a_slowdown_is_rarely_certain() -> None:
    certain = sum(pairs_until(math.log(1.02), 300, seed=seed)[0] is Decision.CERTAIN_WORSE for seed in range(300))
    assert certain <= 9  # 1 % of 300, and what chance adds to it with a probability of 0.1 %


@pytest.mark.parametrize("middle", [0.03, 0.05, 0.1])
def test_a_slowdown_beyond_twice_the_floor_is_rarely_called_certain_ok(middle: float) -> None:
    wrong = sum(pairs_until(middle, 300, seed=seed)[0] is Decision.CERTAIN_OK for seed in range(100))
    assert wrong <= (100 if middle < math.log(1.0404) else 5)


def test_the_end_of_time_ends_it() -> None:
    stopping = Stopping(pair_plan(1000))
    assert stopping.add([0.0] * 5) is Decision.GO_ON
    assert stopping.add([], is_out_of_time=True) is Decision.OUT_OF_TIME
    assert stopping.until_next_look == 0
    assert stopping.add([9.0] * 500) is Decision.OUT_OF_TIME  # what was decided stays


STEPS = 24
GENERATIONS = 100


def generations_until(seed: int, *, each_step_is_a_round: bool) -> Decision:
    """Take generations of which the median is just at the limit; the steps of one share what slows them."""
    generator = random.Random(seed)
    limit, spread = 0.05, 0.05
    share = STEPS if each_step_is_a_round else 1
    stopping = Stopping(Plan(limit, limit, 0.02, most_rounds=GENERATIONS * share))
    decision = Decision.GO_ON
    while decision is Decision.GO_ON:
        count = math.ceil(stopping.until_next_look / share)
        slowed = [limit + generator.gauss(0, 1) * spread for _ in range(count)]
        ratios = [each + generator.gauss(0, 0.001) for each in slowed for _ in range(STEPS)]
        rounds = ratios if each_step_is_a_round else of_rounds(ratios, count)
        decision = stopping.add(rounds)
    return decision


def test_steps_of_a_generation_count_once_since_they_share_what_slows_them() -> None:
    by_generation, by_step = (
        sum(
            generations_until(seed, each_step_is_a_round=each_step_is_a_round) is Decision.CERTAIN_WORSE
            for seed in range(200)
        )
        for each_step_is_a_round in (False, True)
    )
    assert by_generation <= 6  # 1 % of 200, and what chance adds to it with a probability of 0.5 %
    assert by_step > 40


def test_a_round_with_one_ratio_is_that_ratio() -> None:
    assert of_rounds([3.0, 1.0, 2.0], 3) == [3.0, 1.0, 2.0]
    assert of_rounds([4.0, 1.0, 3.0, 2.0, 5.0, 9.0, 6.0, 7.0, 8.0, 10.0], 2) == [3.0, 8.0]


def test_wrong_rounds_and_plans_are_refused() -> None:
    stopping = Stopping(Plan(0.05, 0.05, 0.02, most_rounds=50))
    for value in (math.nan, math.inf):
        with pytest.raises(MeasurementError, match="only finite numbers"):
            stopping.add([value])
    for plan in (Plan(0.05, 0.04, 0.02, most_rounds=50), Plan(0.05, 0.05, 0.02, most_rounds=0)):
        with pytest.raises(MeasurementError, match="needs rounds"):
            Stopping(plan)


def test_looks_grow_and_none_is_at_the_end() -> None:
    assert Plan(0, 0, 0, most_rounds=20).looks() == ()
    assert Plan(0, 0, 0, most_rounds=21).looks() == (20,)
