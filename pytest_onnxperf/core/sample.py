"""Statistics of the rounds of one process. A `Sample` is checked once, at the door."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .errors import MeasurementError
from .order_statistics import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

QUANTILES: Final = (0.0, 0.01, *(step / 20 for step in range(1, 20)), 0.99, 1.0)
"""Where a `Distribution` is taken: every 5 %, both tails and both ends. A choice: enough to draw it, and small."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The rounds of one process, summed up to a size that does not grow with them."""

    rounds: int
    """How many times it sums up."""
    mean_ns: float
    stddev_ns: float
    """Of the sample, with n - 1; 0 for one round."""
    quantiles_ns: tuple[float, ...]
    """One for each of `QUANTILES`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The times of at least one round, in ns, each of one call of the session; sorted."""

    rounds_ns: tuple[int, ...]

    @classmethod
    def of(cls, rounds_ns: Sequence[int]) -> Sample:
        """Check and sort the rounds.

        Raises:
            MeasurementError: There is no round, or a time is negative: the clock went backwards.
        """
        if not rounds_ns:
            msg = "no round was measured"
            raise MeasurementError(msg)
        if min(rounds_ns) < 0:
            msg = f"a round took {min(rounds_ns)} ns: the clock of this machine went backwards"
            raise MeasurementError(msg)
        return cls(tuple(sorted(rounds_ns)))

    def quantile(self, q: float) -> float:
        """Return the `q` quantile in ns, linear between the two nearest rounds.

        Source: Hyndman and Fan 1996, type 7, numpy's default.

        >>> Sample.of([10, 20, 30, 40]).quantile(0.5)
        25.0
        """
        return quantile(self.rounds_ns, q)

    def distribution(self) -> Distribution:
        """Sum the rounds up.

        >>> Sample.of([10, 20, 30]).distribution().stddev_ns
        10.0
        """
        count = len(self.rounds_ns)
        mean_ns = sum(self.rounds_ns) / count
        variance = math.fsum((each - mean_ns) ** 2 for each in self.rounds_ns) / max(count - 1, 1)
        return Distribution(count, mean_ns, math.sqrt(variance), tuple(self.quantile(q) for q in QUANTILES))

    def metrics(self) -> dict[str, float]:
        """Return latency quantiles in ns and throughput in runs per second (rounds over their total time)."""
        total_ns = sum(self.rounds_ns)
        return {
            "latency_p50": self.quantile(0.5),
            "latency_p90": self.quantile(0.9),
            "latency_p99": self.quantile(0.99),
            "latency_min": float(self.rounds_ns[0]),
            "throughput": len(self.rounds_ns) * 1e9 / max(total_ns, 1),
        }
