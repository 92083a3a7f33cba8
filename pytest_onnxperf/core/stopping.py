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
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .errors import MeasurementError
from .order_statistics import checked, lower_bound, quantile, upper_bound
from .pairs import FLOOR_RATIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .decide import StoredLimits

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


def stored_plan(limits: StoredLimits, most_rounds: int) -> Plan:
    """Return the plan for a stored limit. The rounds are relative to `limits.stored_log`.

    `certain_ok` is surer than in an A/B, whose limit is twice as far. Source: replay data, where of the checks of a
    slowdown of 5 % that all rounds find, 3 to 4 % end as good at 95 %, and 0 to 2 % at 99 %.
    """
    return Plan(limits.worse_log, limits.worse_log, limits.calm_log, most_rounds=most_rounds, ok_confidence=0.99)


class Stopping:
    """Takes rounds as they come and says whether more are needed. A block beyond a look is looked at as a whole.

    A round is the logarithm of a ratio: of both arms of a pair, or of the tested work to the reference beside it. What
    is judged is their median, with the interval of `judge_pairs`.
    """

    def __init__(self, plan: Plan) -> None:
        if plan.most_rounds < 1 or plan.ok_log < plan.worse_log:
            msg = f"a stopping rule needs rounds, and its limits in order: {plan}"
            raise MeasurementError(msg)
        self._plan = plan
        self._looks = plan.looks()
        self._next_look = 0
        self._decision = Decision.GO_ON
        self._log_ratios: list[float] = []

    @property
    def rounds(self) -> int:
        """How many rounds it has seen."""
        return len(self._log_ratios)

    def add(self, log_ratios: Sequence[float], *, is_out_of_time: bool = False) -> Decision:
        """Take the next rounds.

        Args:
            log_ratios: Of time / time, on the scale of the plan's limits.
            is_out_of_time: These are the last.

        Raises:
            MeasurementError: A ratio is NaN or infinite.
        """
        self._log_ratios += checked(log_ratios, "round") if log_ratios else ()
        return self._decide(is_out_of_time=is_out_of_time)

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

    def _interval(self, worse_error: float, ok_error: float) -> tuple[float, float, float]:
        """Return the estimate, its lower end at the first error and its upper end at the second."""
        ordered = sorted(self._log_ratios)
        return quantile(ordered, 0.5), lower_bound(ordered, 0.5, worse_error), upper_bound(ordered, 0.5, ok_error)

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
