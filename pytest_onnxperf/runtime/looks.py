"""Rounds beside a reference workload, taken until the verdict is certain or there are enough of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pytest_onnxperf.core.paired import TESTED
from pytest_onnxperf.core.stages import interval_text
from pytest_onnxperf.core.stopping import Plan, RoundStopping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.compare_metrics import Beside


class Looks:
    """How many rounds are to be taken next, and all that were."""

    def __init__(self, beside: Beside | None, most_rounds: int) -> None:
        """Begin.

        Args:
            beside: Of the baseline; None, or one without limits, takes all rounds at once.
            most_rounds: At least 1.
        """
        self._left = most_rounds
        self._kind = beside.kind if beside is not None else ""
        self._stopping: RoundStopping | None = None
        limits = beside.limits if beside is not None else None
        if limits is not None:
            plan = Plan(limits.worse_log, limits.worse_log, limits.calm_log, most_rounds=most_rounds)
            self._stopping = RoundStopping(plan, stored_log=limits.stored_log)
        self._times_ns: dict[str, list[int]] = defaultdict(list)
        self._specs: Mapping[str, Any] = {}

    @property
    def next_rounds(self) -> int:
        """How many rounds are worth taking; 0: it is over."""
        return min(self._left, self._stopping.until_next_look if self._stopping is not None else self._left)

    def add(self, found: Mapping[str, Any]) -> None:
        """Take the answer of the step `paired`."""
        times = found["times_ns"]
        self._specs = found["specs"]
        for name, values in times.items():
            self._times_ns[name] += values
        self._left -= len(times[TESTED])
        if self._stopping is not None:
            self._stopping.add(times[TESTED], times[self._kind])

    def texts(self) -> tuple[str, ...]:
        """Say how many rounds there are, and what they tell so far where that is asked."""
        rounds = f"{len(self._times_ns[TESTED])} rounds"
        return (rounds,) if self._stopping is None else (rounds, interval_text(*self._stopping.interval))

    def found(self) -> dict[str, Any]:
        """Return all rounds, in the form of one answer."""
        return {"times_ns": dict(self._times_ns), "specs": self._specs}
