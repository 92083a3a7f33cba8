"""When to stop: rounds are taken until the verdict is certain, or the time is over.

Looks are taken at growing numbers of rounds (20, 30, 45 ...). To look often and stop at the first significant result
raises false alarms, so the error is shared out over the looks: each of L gets 1/L of it. Source: group sequential tests
(Pocock 1977) with the error spent by a plan (Lan and DeMets 1983), here by the union bound, which holds whatever the
looks have in common and needs no model; a normal model would stop a little earlier.

Two limits, not one: `certain_worse` is an interval wholly above `worse_log`, `certain_ok` one wholly below `ok_log`, a
slowdown that would be found anyway, with the estimate below `calm_log`. Between the two there is no point in going on
for long: an interval that must leave a limit near the truth never ends (the indifference zone of Wald 1945). Who stops
uncertain (`out_of_time`) judges by the rule for a fixed number of rounds. Proof: `tests/bench/detection.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .errors import MeasurementError
from .order_statistics import checked, lower_bound, quantile, upper_bound
from .pairs import FLOOR_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_LOOK: Final = 20
GROWTH: Final = 1.5
"""Of the rounds from look to look: few looks, and at most a third of the rounds for nothing. Choices; 1.2 and 1.3 were
tried on the replay data and spend as much."""


class Decision(StrEnum):
    """What a stopping rule says after each block of rounds."""

    GO_ON = "go_on"
    CERTAIN_OK = "certain_ok"
    CERTAIN_WORSE = "certain_worse"
    OUT_OF_TIME = "out_of_time"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the limits are, as logarithms of time / time, and how sure one must be."""

    worse_log: float
    ok_log: float
    """At least `worse_log`."""
    calm_log: float
    """Nobody is told `certain_ok` whose estimate is above: the floor, or where suspicion begins."""
    most_rounds: int
    """The rounds that fit in the time."""
    confidence: float = 0.99
    """That `certain_worse` is right, all looks together."""
    ok_confidence: float = 0.95
    """That `certain_ok` is right: where it is not, the slowdown was one that is found by 95 of 100 anyway."""

    def looks(self) -> tuple[int, ...]:
        """Return the numbers of rounds at which is looked; none at the last, where there is nothing left to save.

        >>> Plan(0.02, 0.04, 0.01, most_rounds=100).looks()
        (20, 30, 45, 68)
        """
        counts, count = [], FIRST_LOOK
        while count < self.most_rounds:
            counts.append(count)
            count = math.ceil(count * GROWTH)
        return tuple(counts)


def pair_plan(most_pairs: int, *, floor_ratio: float = FLOOR_RATIO) -> Plan:
    """Return the plan for an A/B: worse than the floor, or no slowdown of twice the floor."""
    floor = math.log(floor_ratio)
    return Plan(worse_log=floor, ok_log=2 * floor, calm_log=floor, most_rounds=most_pairs)


class Stopping(ABC):
    """Takes rounds as they come and says whether more are needed. A block beyond a look is looked at as a whole."""

    def __init__(self, plan: Plan) -> None:
        if plan.most_rounds < 1 or plan.ok_log < plan.worse_log:
            msg = f"a stopping rule needs rounds, and its limits in order: {plan}"
            raise MeasurementError(msg)
        self._plan = plan
        self._looks = plan.looks()
        self._next_look = 0
        self._decision = Decision.GO_ON

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many rounds it has seen."""

    @property
    def until_next_look(self) -> int:
        """How many more rounds are worth timing before it is asked again; 0 once it has decided."""
        if self._decision is not Decision.GO_ON:
            return 0
        return max(self._next_count - self.rounds, 1)

    @property
    def interval(self) -> tuple[float, float, float]:
        """What the rounds tell so far, as time / time: the estimate and the ends of its interval, as a look sees it."""
        estimate, low, high = (math.exp(each) for each in self._interval(*self._errors))
        return estimate, low, high

    @property
    def _errors(self) -> tuple[float, float]:
        share = len(self._looks) or 1
        return (1 - self._plan.confidence) / share, (1 - self._plan.ok_confidence) / share

    @property
    def _next_count(self) -> int:
        return self._looks[self._next_look] if self._next_look < len(self._looks) else self._plan.most_rounds

    @abstractmethod
    def _interval(self, worse_error: float, ok_error: float) -> tuple[float, float, float]:
        """Return the estimate, its lower end at the first error and its upper end at the second."""

    def _decide(self, *, is_out_of_time: bool) -> Decision:
        if self._decision is not Decision.GO_ON:
            return self._decision
        if self._next_look < len(self._looks) and self.rounds >= self._next_count:
            self._decision = self._look()
            while self._next_look < len(self._looks) and self.rounds >= self._next_count:
                self._next_look += 1
        is_over = is_out_of_time or self.rounds >= self._plan.most_rounds
        if self._decision is Decision.GO_ON and is_over:
            self._decision = Decision.OUT_OF_TIME
        return self._decision

    def _look(self) -> Decision:
        plan = self._plan
        estimate, low, high = self._interval(*self._errors)
        if low > plan.worse_log:
            return Decision.CERTAIN_WORSE
        if high < plan.ok_log and estimate < plan.calm_log:
            return Decision.CERTAIN_OK
        return Decision.GO_ON


class PairStopping(Stopping):
    """For A/B: the median of the log pair ratios, with the interval of `judge_pairs`."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._log_ratios: list[float] = []

    @property
    def rounds(self) -> int:
        """How many pairs it has seen."""
        return len(self._log_ratios)

    def add(self, log_ratios: Sequence[float], *, is_out_of_time: bool = False) -> Decision:
        """Take log(time of B / time of A) of the next pairs.

        Raises:
            MeasurementError: A ratio is NaN or infinite.
        """
        self._log_ratios += checked(log_ratios, "pair") if log_ratios else ()
        return self._decide(is_out_of_time=is_out_of_time)

    def _interval(self, worse_error: float, ok_error: float) -> tuple[float, float, float]:
        ordered = sorted(self._log_ratios)
        return quantile(ordered, 0.5), lower_bound(ordered, 0.5, worse_error), upper_bound(ordered, 0.5, ok_error)


class RoundStopping(Stopping):
    """For a stored limit: log of the 25 % quantile of the tested rounds, over that of the reference where there is one.

    The two quantiles have intervals by order statistics, and their difference the one that recovers its variance from
    them: l = a - b - sqrt((a - l_a)^2 + (u_b - b)^2). Source: MOVER, Zou and Donner 2008.
    """

    def __init__(self, plan: Plan, *, stored_log: float) -> None:
        """Take the plan, whose limits are relative to `stored_log`: the mean of the stored logarithms.

        Args:
            plan: `worse_log` is the log of `StoredVerdict.limit_ratio`, `calm_log` where suspicion begins.
            stored_log: As the values that `judge_stored` gets.
        """
        super().__init__(plan)
        self._stored_log = stored_log
        self._tested: list[float] = []
        self._reference: list[float] = []

    @property
    def rounds(self) -> int:
        """How many rounds it has seen."""
        return len(self._tested)

    def add(
        self, tested_ns: Sequence[float], reference_ns: Sequence[float] = (), *, is_out_of_time: bool = False
    ) -> Decision:
        """Take the times of the next rounds, and those of the reference beside them.

        Raises:
            MeasurementError: A time is not positive, or there are more of one than of the other.
        """
        self._tested += [_log(value) for value in tested_ns]
        self._reference += [_log(value) for value in reference_ns]
        if self._reference and len(self._reference) != len(self._tested):
            msg = f"{len(self._tested)} rounds stand beside {len(self._reference)} of the reference"
            raise MeasurementError(msg)
        return self._decide(is_out_of_time=is_out_of_time)

    def _interval(self, worse_error: float, ok_error: float) -> tuple[float, float, float]:
        middle, below, above = _quantile_reach(sorted(self._tested), worse_error, ok_error)
        other, other_below, other_above = 0.0, 0.0, 0.0
        if self._reference:
            other, other_below, other_above = _quantile_reach(sorted(self._reference), ok_error, worse_error)
        estimate = middle - other - self._stored_log
        return estimate, estimate - math.hypot(below, other_above), estimate + math.hypot(above, other_below)


def _quantile_reach(ordered: Sequence[float], low_error: float, high_error: float) -> tuple[float, float, float]:
    middle = quantile(ordered, 0.25)
    low, high = lower_bound(ordered, 0.25, low_error), upper_bound(ordered, 0.25, high_error)
    return middle, max(middle - low, 0.0), max(high - middle, 0.0)


def _log(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        msg = f"a round took {value} ns: only positive times have a ratio"
        raise MeasurementError(msg)
    return math.log(value)
