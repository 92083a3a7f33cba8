"""Rounds beside reference workloads, taken until the verdict of every metric is certain or there are enough of them."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.paired import TESTED, beside_ratios, of_rounds
from pytest_onnxperf.core.stages import interval_text
from pytest_onnxperf.core.stopping import Stopping, stored_plan
from pytest_onnxperf.core.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_onnxperf.core.compare_metrics import Beside

_WITH_REFERENCE: Final = 4 / 3
"""How much longer a round is with the reference workloads beside it, which take about a third of its time."""
_MOST_AT_ONCE: Final = 10_000
"""Rounds of one step, so that the times of a microsecond each do not fill the pipe."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """When the verdict of one metric is certain."""

    kind: str
    """Of the reference."""
    stored_log: float
    stopping: Stopping

    @classmethod
    def of(cls, beside: Beside | None, most_rounds: int) -> _Rule | None:
        """Return it; None where a metric has no limits."""
        if beside is None or beside.limits is None:
            return None
        plan = stored_plan(beside.limits, most_rounds)
        return cls(beside.kind, beside.limits.stored_log, Stopping(plan))


class Looks:
    """How many rounds are to be taken next, and all that were."""

    def __init__(self, wanted: Mapping[str, Beside | None], least_rounds: int, most_rounds: int) -> None:
        """Begin.

        Args:
            wanted: What the baseline has of each metric that is timed. One that is None, or has no limits, is never
                certain, so that all rounds are taken.
            least_rounds: Before them nothing is looked at.
            most_rounds: At least 1, and at least `least_rounds`.
        """
        self._least, self._left = least_rounds, most_rounds
        self._rules: dict[str, _Rule | None] = {
            metric: _Rule.of(beside, most_rounds) for metric, beside in wanted.items()
        }
        self._times_ns: dict[str, dict[str, list[int]]] = {metric: defaultdict(list) for metric in wanted}
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._why_not: dict[str, str] = {}
        self._taken = 0

    @property
    def next_rounds(self) -> int:
        """How many rounds are worth taking; 0: it is over."""
        wanted = max(self._left if each is None else each.stopping.until_next_look for each in self._rules.values())
        return min(max(wanted, self._least) if wanted else 0, self._left, _MOST_AT_ONCE)

    def add(self, found: Mapping[str, Mapping[str, Any]], rounds: int) -> None:
        """Take what the step `paired` answered for each metric: `times_ns`, `specs` and `why_not`.

        One that tells why it timed nothing is the last, and takes back what was timed before.

        Args:
            found: Metric -> answer.
            rounds: Of which each time list holds one time, or several, equally many of each.

        Raises:
            MeasurementError: Times are no equal share of the rounds.
        """
        self._why_not = {metric: answer["why_not"] for metric, answer in found.items() if answer["why_not"]}
        if self._why_not:
            self._left = 0
            return
        self._left -= rounds
        self._least -= rounds
        self._taken += rounds
        for metric, answer in found.items():
            times, rule = answer["times_ns"], self._rules[metric]
            self._specs[metric] = answer["specs"]
            for name, values in times.items():
                self._times_ns[metric][name] += values
            if rule is not None:
                ratios = of_rounds(beside_ratios(times[TESTED], times[rule.kind], rounds), rounds)
                rule.stopping.add([math.log(ratio) - rule.stored_log for ratio in ratios])

    def texts(self) -> tuple[str, ...]:
        """Say how many rounds there are, and what they tell so far of each metric where that is asked."""
        rules = [each for each in self._rules.values() if each is not None and self._taken]
        return (f"{self._taken} rounds", *(interval_text(*rule.stopping.interval) for rule in rules))

    def found(self) -> dict[str, dict[str, Any]]:
        """Return all rounds of each metric, in the form of one answer."""
        if self._why_not:
            return {metric: {"times_ns": {}, "specs": {}, "why_not": why} for metric, why in self._why_not.items()}
        return {
            metric: {"times_ns": dict(times), "specs": self._specs[metric], "why_not": ""}
            for metric, times in self._times_ns.items()
            if times
        }


def take_rounds(
    take: Callable[[int], Mapping[str, Mapping[str, Any]]],
    wanted: Mapping[str, Beside | None],
    *,
    round_ns: float,
    least_rounds: int,
    max_time_s: float,
    tell: Callable[[tuple[str, ...]], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Take rounds in pieces and look after each, as `core.stopping` plans it.

    Args:
        take: Does the step `paired` of so many rounds, and returns its answer for each metric.
        wanted: As `Looks` takes it.
        round_ns: Usual time of a round alone.
        least_rounds: At least 1.
        max_time_s: Time for more of them.
        tell: Hears after each piece how far it is, as `Looks.texts` says it.

    Returns:
        Metric -> all rounds, in the form of one answer.
    """
    most_rounds = max(int(max_time_s * NS_PER_S / (_WITH_REFERENCE * max(round_ns, 1.0))), least_rounds)
    looks = Looks(wanted, least_rounds, most_rounds)
    while rounds := looks.next_rounds:
        looks.add(take(rounds), rounds)
        tell(looks.texts())
    return looks.found()
