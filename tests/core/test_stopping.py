"""Rounds end when the verdict is certain, and not before."""

from __future__ import annotations

import math
import random

import pytest

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.stopping import Decision, PairStopping, Plan, RoundStopping, Stopping, pair_plan


def pairs_until(middle: float, most: int, *, noise: float = 0.02, seed: int = 0) -> tuple[Decision, int]:
    generator = random.Random(seed)
    stopping = PairStopping(pair_plan(most))
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
    stopping = PairStopping(pair_plan(300))
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
    stopping = PairStopping(pair_plan(1000))
    assert stopping.add([0.0] * 5) is Decision.GO_ON
    assert stopping.add([], is_out_of_time=True) is Decision.OUT_OF_TIME
    assert stopping.until_next_look == 0
    assert stopping.add([9.0] * 500) is Decision.OUT_OF_TIME  # what was decided stays


def test_rounds_beside_a_reference_are_judged_by_their_ratio() -> None:
    plan = Plan(0.05, 0.05, 0.02, most_rounds=500)
    slow_machine = RoundStopping(plan, stored_log=math.log(10))
    assert slow_machine.add([13_000] * 30, [1_300] * 30) is Decision.CERTAIN_OK
    slow_model = RoundStopping(plan, stored_log=math.log(10))
    assert slow_model.add([13_000] * 30, [1_000] * 30) is Decision.CERTAIN_WORSE


def test_wrong_rounds_and_plans_are_refused() -> None:
    stopping = RoundStopping(Plan(0.05, 0.05, 0.02, most_rounds=50), stored_log=0.0)
    with pytest.raises(MeasurementError, match="only positive times"):
        stopping.add([0.0])
    with pytest.raises(MeasurementError, match="stand beside"):
        stopping.add([1.0, 1.0], [1.0])
    for plan in (Plan(0.05, 0.04, 0.02, most_rounds=50), Plan(0.05, 0.05, 0.02, most_rounds=0)):
        with pytest.raises(MeasurementError, match="needs rounds"):
            PairStopping(plan)


def test_looks_grow_and_none_is_at_the_end() -> None:
    assert Plan(0, 0, 0, most_rounds=20).looks() == ()
    assert Plan(0, 0, 0, most_rounds=21).looks() == (20,)
    assert issubclass(PairStopping, Stopping)
