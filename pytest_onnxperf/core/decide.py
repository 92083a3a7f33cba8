"""Time against a stored baseline: is the new process beyond what the stored ones and the tolerance explain?

The error is between processes, not between rounds, so one value per process is judged: the ratio of its time to an
interleaved reference (see `reference_fit`), or a raw time. In logarithms, with K stored values of mean b and standard
deviation s, and m current ones of mean c, the interval of c - b is

    t(confidence, K - 1) * sqrt(s^2 (1/K + 1/m) + drift^2)

Source: the prediction interval for the mean of m new observations of a normal sample (Hahn and Meeker 1991, Statistical
Intervals, section 4.7). The drift is what a machine moves between two occasions, which values recorded within a minute
do not show; a reference cancels it. A gate finds a slowdown of just its limit half of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .errors import MeasurementError
from .states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST_STORED: Final = 3
"""With 2 values one degree of freedom is left, and t(99 %, 1) is 31.8: an interval that excludes nothing."""
DECIDING_PROCESSES: Final = 3
"""One at first and two more on suspicion. Measured: 1.1 processes a check where nothing changed."""
RAW_DRIFT_LOG: Final = 0.02
"""Of raw times. Source: facts measured for this project, the same file moved by another 2 % within 33 minutes. Without
it K = 10 consecutive processes raise up to 4.3 % false alarms on the replay data, with it at most 1 %."""
SUSPICION: Final = 0.95
"""One-sided. Of unchanged processes 5 to 10 % are looked at again, and at +5 % fewer than 1 % escape; a choice."""
_MOST_LOG: Final = 700.0
"""Of a float: e ** 709.8 is the largest."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """How the processes of today compare with the stored ones. Ratios are current / stored, 1 is as recorded."""

    state: State
    """`ok`: with 95 % confidence no worse than the limits allow. `noisy`: neither that nor a change can be told."""
    ratio: float
    """Of the geometric means; NaN where a value is 0."""
    low_ratio: float
    high_ratio: float
    """Ends of the interval of `ratio`, each at the confidence asked for, one-sided; 0 and infinite without one."""
    limit_ratio: float
    """Beyond it the state is `regressed`: above it where less is better, below it where more is."""
    is_suspicious: bool
    """True where two more processes should decide: fewer than three were judged, and the next two may turn it."""
    reason: str = ""
    """Why it is `noisy`."""


def judge_stored(
    stored: Sequence[float],
    current: Sequence[float],
    *,
    tolerance: float,
    better: Literal["less", "more"],
    slack: float = 0.0,
    confidence: float = 0.99,
    drift_log: float = 0.0,
    fitted_weights: int = 0,
) -> StoredVerdict:
    """Judge the mean of the current processes: `regressed` beyond the interval, the tolerance and the slack, all three.

    A baseline of 1 or 2 processes has no interval: it is `noisy`, whatever the change, since a cannot tell is neither
    a pass nor a failure. The same holds where a value is 0 and others are not: it has no ratio.

    Args:
        stored: One value per stored process, at least 0, in any unit.
        current: One value per process of today, in the same unit.
        tolerance: 0.05: slower by 5 % is allowed. Of a throughput it allows 1 / 1.05, so that a time and the
            throughput made of it come out alike.
        better: `less` for times, `more` for throughputs.
        slack: Absolute, in the unit of the values: a smaller change is neither a regression nor an improvement.
        confidence: Of the interval, one-sided: 0.99 raises at most 1 % false alarms.
        drift_log: Standard deviation between occasions, of the logarithm; `RAW_DRIFT_LOG` for raw times.
        fitted_weights: `Fit.fitted_weights`: that many degrees of freedom are gone.

    Raises:
        MeasurementError: A value is negative, infinite or NaN, or there is none of one side.

    >>> judge_stored([2.64, 2.65, 2.63, 2.66, 2.64], [2.85], tolerance=0.05, better="less").state.value
    'regressed'
    """
    _check(stored, current)
    if min(*stored, *current) == 0:
        return _with_zeros(stored, current)
    sign = 1 if better == "less" else -1
    centre = _mean_log(stored)
    change = sign * (_mean_log(current) - centre)  # above 0 is worse
    worse_limit, better_limit = _limits(_exp(centre), tolerance, slack, better)
    spread = _Spread.of(stored, drift_log, fitted_weights)
    if spread is None:
        limit = _exp(sign * worse_limit)
        reason = f"{len(stored)} stored processes tell no spread: {FEWEST_STORED + fitted_weights} are needed"
        return StoredVerdict(State.NOISY, _exp(sign * change), 0.0, math.inf, limit, False, reason)
    reach = spread.reach(confidence, len(current))
    state, reason = State.NOISY, ""
    if change > max(worse_limit, reach):
        state = State.REGRESSED
    elif change < -max(better_limit, reach):
        state = State.IMPROVED
    elif change + spread.reach(SUSPICION, len(current)) <= worse_limit:
        state = State.OK
    else:
        reason = f"a slowdown of {_exp(max(worse_limit, reach)) - 1:.1%} is the least that can be told here"
    ends = sorted(_exp(sign * (change + each)) for each in (-reach, reach))
    return StoredVerdict(
        state,
        ratio=_exp(sign * change),
        low_ratio=ends[0],
        high_ratio=ends[1],
        limit_ratio=_exp(sign * max(worse_limit, reach)),
        is_suspicious=len(current) < DECIDING_PROCESSES
        and _is_suspicious(change, spread.reach(SUSPICION, len(current)), worse_limit),
        reason=reason,
    )


def detectable_ratio(
    stored: Sequence[float],
    *,
    tolerance: float,
    confidence: float = 0.99,
    current_processes: int = 1,
    drift_log: float = 0.0,
    fitted_weights: int = 0,
) -> float | None:
    """Return the smallest slowdown that this baseline finds in 95 of 100 checks, 1.08 for 8 %; None if it finds none.

    It lies beyond the limit by the 95 % reach of the same interval: at the limit itself half are found. `+ 95 %` is
    the usual approximation to the power of a t test, a little high (Kupper and Hafner 1989).

    Args:
        stored: One positive value per stored process.
        tolerance: As for `judge_stored`.
        confidence: As for `judge_stored`.
        current_processes: How many decide: 3 where two more are run on suspicion.
        drift_log: As for `judge_stored`.
        fitted_weights: As for `judge_stored`.
    """
    _check(stored, stored)
    spread = _Spread.of(stored, drift_log, fitted_weights)
    if spread is None:
        return None
    limit = max(math.log1p(tolerance), spread.reach(confidence, current_processes))
    return _exp(limit + spread.reach(SUSPICION, current_processes))


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """Where one process of today stands against a baseline, as logarithms: what `stopping.Stopping` needs."""

    stored_log: float
    """The mean of the stored logarithms; the others are relative to it."""
    calm_log: float
    """Up to here one process raises no suspicion."""
    worse_log: float
    """Beyond it one process is `regressed`."""


def stored_limits(
    stored: Sequence[float],
    *,
    tolerance: float,
    confidence: float = 0.99,
    drift_log: float = 0.0,
    fitted_weights: int = 0,
) -> StoredLimits | None:
    """Return the limits for one process of a time, less is better; None where `judge_stored` has no interval.

    Args:
        stored: One value per stored process.
        tolerance: As for `judge_stored`, and so are the others.
        confidence: Of the limit.
        drift_log: Standard deviation between occasions.
        fitted_weights: Degrees of freedom that are gone.
    """
    _check(stored, stored)
    spread = _Spread.of(stored, drift_log, fitted_weights)
    if spread is None:
        return None
    limit, reach = math.log1p(tolerance), spread.reach(SUSPICION, 1)
    worse_log = max(limit, spread.reach(confidence, 1))
    return StoredLimits(_mean_log(stored), calm_log=max(reach, limit - reach), worse_log=worse_log)


def crept_ratio(
    anchor: float,
    current: Sequence[float],
    *,
    tolerance: float,
    better: Literal["less", "more"],
    slack: float = 0.0,
    reach_log: float = 0.0,
) -> float | None:
    """Return current / anchor where it is worse by more than the tolerance, else None: slow creep, worth a warning.

    Updates that each stay within the tolerance add up; the anchor is the first record, which no update moves.

    Args:
        anchor: The value of the first record, in the unit of `current`.
        current: One value per process of today.
        tolerance: Of the anchor, its own: more than that of one comparison.
        better: As for `judge_stored`.
        slack: As for `judge_stored`.
        reach_log: What must be exceeded besides: log(limit_ratio) of today's comparison, where there was one.
    """
    _check([anchor], current)
    if min(anchor, *current) == 0:
        return None
    change = _mean_log(current) - math.log(anchor)
    limit = max(_limits(anchor, tolerance, slack, better)[0], abs(reach_log))
    return _exp(change) if (change if better == "less" else -change) > limit else None


@dataclass(frozen=True, slots=True)
class _Spread:
    """The spread of the logarithms of the stored values, and how well it is known."""

    variance: float
    drift_log: float
    processes: int
    freedom: int

    @classmethod
    def of(cls, stored: Sequence[float], drift_log: float, fitted_weights: int) -> _Spread | None:
        """Return it; None where the stored processes are too few to tell one, or one is 0 and has no logarithm."""
        freedom = len(stored) - 1 - fitted_weights
        if freedom < FEWEST_STORED - 1 or min(stored) <= 0:
            return None
        centre = _mean_log(stored)
        variance = sum((math.log(value) - centre) ** 2 for value in stored) / freedom
        return cls(variance, drift_log, len(stored), freedom)

    def reach(self, confidence: float, current: int) -> float:
        """Return half the interval of the mean of `current` processes, one-sided at `confidence`."""
        from scipy.special import stdtrit

        scale = math.sqrt(self.variance * (1 / self.processes + 1 / current) + self.drift_log**2)
        return float(stdtrit(self.freedom, confidence)) * scale


def _is_suspicious(change: float, reach: float, limit: float) -> bool:
    """Whether more than 95 % of unchanged processes are below it, and the truth may lie beyond the limit."""
    return change > max(reach, limit - reach)


def _limits(centre: float, tolerance: float, slack: float, better: str) -> tuple[float, float]:
    """Return how much worse and how much better the logarithm may be by tolerance and slack."""
    up = math.log1p(slack / centre)
    down = -math.log1p(-slack / centre) if slack < centre else math.inf
    worse, improved = (up, down) if better == "less" else (down, up)
    return max(math.log1p(tolerance), worse), max(math.log1p(tolerance), improved)


def _mean_log(values: Sequence[float]) -> float:
    return math.fsum(math.log(value) for value in values) / len(values)


def _check(stored: Sequence[float], current: Sequence[float]) -> None:
    if not stored or not current:
        msg = f"nothing to compare: {len(stored)} stored values and {len(current)} of today"
        raise MeasurementError(msg)
    for value in (*stored, *current):
        if not (math.isfinite(value) and value >= 0):
            msg = f"a value to compare is {value}: only finite numbers of at least 0 can be"
            raise MeasurementError(msg)


def _with_zeros(stored: Sequence[float], current: Sequence[float]) -> StoredVerdict:
    if max(*stored, *current) == 0:
        return StoredVerdict(State.OK, 1.0, 1.0, 1.0, 1.0, False)
    reason = "a value is 0, which has no ratio to the others"
    return StoredVerdict(State.NOISY, math.nan, 0.0, math.inf, math.nan, False, reason)


def _exp(log: float) -> float:
    """Return e to the power of a logarithm, and a finite number for any."""
    return math.exp(min(log, _MOST_LOG))
