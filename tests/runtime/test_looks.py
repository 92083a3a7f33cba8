"""Rounds are taken until the verdict is certain."""

from __future__ import annotations

import pytest

from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.decide import StoredLimits
from pytest_onnxperf.runtime.looks import Looks

LIMITS = Beside({}, StoredLimits(stored_log=0.0, calm_log=0.02, worse_log=0.05), "compute")


def answers(looks: Looks, tested_ns: int, reference_ns: int = 1000) -> int:
    """Answer until it is over, and return the rounds that were taken."""
    count = 0
    while rounds := looks.next_rounds:
        # What a machine adds: up to 2 %, the same each time.
        times = {
            "tested": [tested_ns + tested_ns * (i % 5) // 250 for i in range(rounds)],
            "compute": [reference_ns + reference_ns * (i % 7) // 350 for i in range(rounds)],
        }
        looks.add({"times_ns": times, "specs": {}})
        count += rounds
    assert len(looks.found()["times_ns"]["tested"]) == count
    return count


@pytest.mark.parametrize(
    ("tested_ns", "is_early"),
    [pytest.param(1000, True, id="good"), pytest.param(1500, True, id="bad"), pytest.param(1045, False, id="between")],
)
def test_clear_cases_end_early_and_others_take_all(tested_ns: int, is_early: bool) -> None:
    count = answers(Looks(LIMITS, 2000), tested_ns)
    assert count < 200 if is_early else count == 2000


def test_without_limits_all_rounds_are_one_step() -> None:
    for without in (None, Beside({})):
        looks = Looks(without, 300)
        assert looks.next_rounds == 300
        assert answers(looks, 1000) == 300


def test_rounds_so_far_and_their_interval_are_told() -> None:
    looks = Looks(LIMITS, 2000)
    looks.add({"times_ns": {"tested": [1100] * 20, "compute": [1000] * 20}, "specs": {}})
    assert looks.texts() == ("20 rounds", "+10 % [? to +10 %]")  # too few for a lower end
    looks.add({"times_ns": {"tested": [1100] * 80, "compute": [1000] * 80}, "specs": {}})
    assert looks.texts() == ("100 rounds", "+10 % [+10 % to +10 %]")

    without = Looks(None, 300)
    without.add({"times_ns": {"tested": [1100] * 300}, "specs": {}})
    assert without.texts() == ("300 rounds",)


def test_no_more_than_the_most_rounds_are_taken() -> None:
    assert answers(Looks(LIMITS, 7), 1000) == 7
