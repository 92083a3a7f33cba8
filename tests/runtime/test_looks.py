"""Rounds are taken until the verdict of every metric is certain."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.decide import StoredLimits
from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.paired import Paired, ReferenceSpec
from pytest_onnxperf.runtime.looks import Looks, take_rounds
from pytest_onnxperf.runtime.plan import paired_found

BESIDE = Beside({}, StoredLimits(stored_log=0.0, calm_log=0.02, worse_log=0.05), "compute")
SPEC: dict[str, Any] = {"size": {"repeats": 1}, "version": 1, "checksum": "1"}
SPECS = {"compute": ReferenceSpec({"repeats": 1}, 1, "1")}
GOOD, BAD, BETWEEN = 1000, 1500, 1045
STEPS = 7


def answer(tested_ns: int, rounds: int, each: int = 1) -> dict[str, Any]:
    """What the step answers: what a machine adds is up to 2 %, the same each time; steps grow from first to last."""
    times: dict[str, list[int]] = {"tested": [], "compute": []}
    for place in range(rounds):
        times["tested"] += [tested_ns + tested_ns * (place % 5) // 250 + 100 * step for step in range(each)]
        times["compute"] += [1000 + 1000 * (place % 7) // 350] * (each if each == 1 else each + 1)
    return {"times_ns": times, "specs": {"compute": SPEC}, "why_not": ""}


def answers(looks: Looks, **tested_ns: int) -> int:
    """Answer until it is over, and return the rounds that were taken; a metric `decode` has several times a round."""
    count = 0
    while rounds := looks.next_rounds:
        found = {
            metric: answer(value, rounds, STEPS if metric == "decode" else 1) for metric, value in tested_ns.items()
        }
        looks.add(found, rounds)
        count += rounds
    return count


@pytest.mark.parametrize(
    ("tested_ns", "is_early"),
    [
        pytest.param(GOOD, True, id="good"),
        pytest.param(BAD, True, id="bad"),
        pytest.param(BETWEEN, False, id="between"),
    ],
)
def test_clear_cases_end_early_and_others_take_all(tested_ns: int, is_early: bool) -> None:
    count = answers(Looks({"latency": BESIDE}, 10, 2000), latency=tested_ns)
    assert count < 200 if is_early else count == 2000


@pytest.mark.parametrize(
    ("ttft_ns", "decode_ns", "is_early"),
    [(GOOD, GOOD, True), (GOOD, BAD, True), (BAD, BAD, True), (GOOD, BETWEEN, False), (BETWEEN, GOOD, False)],
)
def test_every_metric_must_be_certain(ttft_ns: int, decode_ns: int, is_early: bool) -> None:
    # Steps of a round are 0 to 600 ns slower than its first: their median is 300 ns above it.
    looks = Looks({"ttft": BESIDE, "decode": BESIDE}, 10, 500)
    count = answers(looks, ttft=ttft_ns, decode=decode_ns - 300)
    assert count < 200 if is_early else count == 500


@pytest.mark.parametrize("without", [None, Beside({})])
def test_a_metric_without_limits_is_never_certain(without: Beside | None) -> None:
    alone = Looks({"latency": without}, 10, 300)
    assert alone.next_rounds == 300
    assert answers(alone, latency=GOOD) == 300
    assert answers(Looks({"ttft": BESIDE, "decode": without}, 10, 300), ttft=GOOD, decode=GOOD) == 300


@pytest.mark.parametrize("tested_ns", [GOOD, BAD, BETWEEN])
def test_no_more_than_the_most_rounds_are_taken_and_no_fewer_than_the_least(tested_ns: int) -> None:
    assert answers(Looks({"latency": BESIDE}, 1, 7), latency=tested_ns) == 7
    assert answers(Looks({"latency": BESIDE}, 450, 450), latency=tested_ns) == 450
    assert answers(Looks({"latency": BESIDE}, 450, 2000), latency=tested_ns) == (2000 if tested_ns == BETWEEN else 450)


def test_a_step_is_never_asked_for_more_rounds_than_fit_into_its_answer() -> None:
    assert Looks({"latency": None}, 10, 200_000).next_rounds == 10_000


def test_times_that_are_no_equal_share_of_the_rounds_are_refused() -> None:
    looks = Looks({"decode": BESIDE}, 10, 100)
    with pytest.raises(MeasurementError, match="9 times beside 12 of the reference are no equal share of 4 rounds"):
        looks.add({"decode": answer(GOOD, 3, 3)}, 4)


@pytest.mark.parametrize(
    ("least", "max_time_s", "rounds", "tested_ns"),
    [
        pytest.param(10, 0.0, 10, 1004.0, id="the least, without time"),
        pytest.param(10, 12e-6, 10, 1004.0, id="the least, in the time of 9"),
        pytest.param(10, 16e-6, 12, 1003.0, id="as many as the time allows"),
    ],
)
def test_a_round_beside_references_takes_a_third_more_time(
    least: int, max_time_s: float, rounds: int, tested_ns: float
) -> None:
    pieces: list[int] = []

    def take(count: int) -> dict[str, Any]:
        pieces.append(count)
        return {"latency": answer(GOOD, count)}

    found = take_rounds(take, {"latency": None}, round_ns=1000, least_rounds=least, max_time_s=max_time_s)

    assert pieces == [rounds]
    paired = paired_found(found)
    compute_ns = paired["latency"].references_ns["compute"]
    assert compute_ns == pytest.approx(1001, rel=1e-3)
    assert paired == {"latency": Paired(tested_ns, {"compute": compute_ns}, paired["latency"].spread_ratio, SPECS)}


@pytest.mark.parametrize("beside", [None, BESIDE])
def test_a_reference_that_fails_ends_it_and_takes_back_what_was_timed(beside: Beside | None) -> None:
    looks = Looks({"latency": beside}, 1, 2000)
    looks.add({"latency": answer(GOOD, 1)}, 1)
    assert looks.next_rounds
    lost = {"times_ns": {}, "specs": {}, "why_not": "the device is lost"}

    looks.add({"latency": lost}, 1)

    assert looks.next_rounds == 0
    assert Looks({"latency": beside}, 1, 2000).texts() == ("0 rounds",)
    assert looks.found() == {"latency": lost}


def test_rounds_so_far_and_the_interval_of_each_metric_are_told() -> None:
    def told(rounds: int) -> dict[str, Any]:
        times = {"tested": [1100] * rounds, "compute": [1000] * rounds}
        return {"times_ns": times, "specs": {"compute": SPEC}, "why_not": ""}

    looks = Looks({"ttft": BESIDE, "decode": None}, 10, 2000)
    looks.add({"ttft": told(5), "decode": told(5)}, 5)
    assert looks.texts() == ("5 rounds", "+10 % [? to ?]")  # too few for either end
    looks.add({"ttft": told(15), "decode": told(15)}, 15)
    assert looks.texts() == ("20 rounds", "+10 % [+10 % to +10 %]")
    looks.add({"ttft": told(80), "decode": told(80)}, 80)
    assert looks.texts() == ("100 rounds", "+10 % [+10 % to +10 %]")

    pieces: list[tuple[str, ...]] = []
    take_rounds(
        lambda count: {"latency": answer(GOOD, count)}, {"latency": None},
        round_ns=1000, least_rounds=7, max_time_s=0.0, tell=pieces.append,
    )  # fmt: skip
    assert pieces == [("7 rounds",)]
