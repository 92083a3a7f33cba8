"""The verdict against a reference: times by pairs, everything else by what the reference arm has."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.core.against import Turns, comparison_of, floor_of, judge_against, turns_of
from pytest_onnxperf.core.budget import Budget
from pytest_onnxperf.core.judge import Policy
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.states import State
from tests.records import MS, environment, facts, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.judge import Verdict

MIB = 1 << 20


def turns(ratio: float, repetitions: int = 1, name: str = "latency_p50", per_s: float = 0.0) -> Turns:
    pairs = [(10 * MS, round(10 * MS * ratio))] * 20
    return turns_of(name, [pairs] * repetitions, per_s, 1.02)


@pytest.mark.parametrize(
    ("ratio", "state"),
    [(1.1, State.REGRESSED), (1.01, State.OK), (1.0, State.OK), (0.9, State.IMPROVED)],
)
def test_the_pairs_decide_about_times(ratio: float, state: State) -> None:
    for repetitions in (1, 3):
        assert turns(ratio, repetitions).verdict.state is state


def test_a_change_either_way_is_confirmed_by_three_repetitions() -> None:
    assert turns(1.1).is_suspicious
    assert turns(0.9).is_suspicious
    assert not turns(1.0).is_suspicious
    assert not turns(1.1, 3).is_suspicious
    assert not turns(0.9, 3).is_suspicious


def test_a_throughput_is_judged_by_its_times_and_shown_as_throughput() -> None:
    slower = turns(1.25, name="decode_throughput", per_s=10)
    assert slower.verdict.state is State.REGRESSED
    assert slower.values_text == "1000 -> 800 tok/s"
    assert slower.interval_text == "1.250 [1.250 to 1.250]"


def test_the_medians_are_those_of_one_machine_speed() -> None:
    """Three pairs of processes on a machine of three speeds: medians over all of them would be of two."""
    speeds = ((1.0, 7), (2.0, 40), (4.0, 20))
    repetitions = [[(round(speed * 10 * MS), round(speed * 13 * MS))] * rounds for speed, rounds in speeds]
    repetitions[2] = [(before, round(before * 1.2)) for before, _ in repetitions[2]]
    found = turns_of("latency_p50", repetitions, 0, 1.02)
    assert (found.values_text, found.contradiction) == ("10 -> 13 ms", "")


@pytest.mark.parametrize(("name", "per_s"), [("latency_p50", 0), ("decode_throughput", 10)])
def test_medians_that_contradict_the_ratio_are_explained(name: str, per_s: float) -> None:
    """Slow and fast moments: each pair is 25 % slower, and the tested arm had more of the fast ones."""
    pairs = [(10 * MS, round(12.5 * MS))] * 9 + [(40 * MS, 50 * MS)] * 8 + [(45 * MS, 11 * MS)] * 4
    found = turns_of(name, [pairs], per_s, 1.02)
    assert found.verdict.state is State.REGRESSED
    assert "the ratio is of neighbouring ones" in comparison_of(found).detail


def test_too_few_pairs_have_no_ends() -> None:
    few = turns_of("latency_p50", [[(10 * MS, 11 * MS)] * 3], 0, 1.02)
    assert few.interval_text == "1.100 [0.000 to ?]"
    assert few.verdict.state is State.NOISY


def test_the_floor_is_two_percent_unless_a_person_gives_another() -> None:
    cpu, everywhere = Budget({"max_regression": 0.2}, "cpu"), Budget({"max_regression": 0.3})
    other = Budget({"max_regression": 0.4}, "cuda")
    assert floor_of([], environment(), None) == 1.02
    assert floor_of([other], environment(), None) == 1.02
    assert floor_of([other], environment(), 0.1) == pytest.approx(1.1)
    assert floor_of([everywhere, cpu, other], environment(), 0.1) == pytest.approx(1.2)


def judged(
    tested: Mapping[str, tuple[float, ...]], reference: Mapping[str, tuple[float, ...]], *timed: Turns
) -> Verdict:
    return judge_against(record(tested), record(reference), timed, [], Policy(0.05))


def states(verdict: Verdict) -> dict[str, State]:
    return {comparison.name: comparison.state for comparison in verdict.comparisons if comparison.name in METRIC}


def test_times_that_were_not_taken_in_turn_are_left_out() -> None:
    times = {"latency_p50": (10.0 * MS,), "load": (5.0 * MS,), "cold_start": (5.0 * MS,)}
    slow = {name: (values[0] * 9,) for name, values in times.items()}
    verdict = judged(slow, times, turns(1.0))
    assert states(verdict) == {"latency_p50": State.OK}
    assert not verdict.fails
    assert states(judged(slow, times)) == {}


def test_memory_and_size_compare_where_both_arms_have_them() -> None:
    small: dict[str, tuple[float, ...]] = {"peak_rss": (100.0 * MIB,), "model_size": (10.0 * MIB,)}
    large: dict[str, tuple[float, ...]] = {
        "peak_rss": (200.0 * MIB,), "model_size": (10.0 * MIB,), "peak_vram": (10.0 * MIB,)
    }  # fmt: skip
    assert states(judged(large, small)) == {"peak_rss": State.REGRESSED, "model_size": State.OK}
    assert states(judged(small, large)) == {"peak_rss": State.IMPROVED, "model_size": State.OK}


def test_facts_compare_with_those_of_the_reference_arm_and_the_worst_comes_first() -> None:
    worse = record(of=facts(cpu_nodes=5))
    verdict = judge_against(worse, record(), [turns(1.1)], [], Policy(0.05))
    assert [comparison.name for comparison in verdict.worse] == ["cpu_nodes", "latency_p50"]
    assert verdict.baseline_date == ""


def test_facts_that_the_reference_arm_does_not_have_cannot_be_told() -> None:
    nothing = record(not_measured={"facts": "its profile is empty"}, of=facts())
    verdict = judge_against(record(), dataclasses.replace(nothing, facts=None), [], [], Policy(0.05))
    (told,) = [comparison for comparison in verdict.comparisons if comparison.name == "facts"]
    assert told.state is State.CANNOT_TELL
    assert "the reference arm has none: its profile is empty" in told.text
