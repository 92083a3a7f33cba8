"""A/B: two arms timed in turn, in random order within each pair, judged by the median of log(B / A).

Worse is an interval of the median above zero **and** a median above the floor. Source: facts measured for this project
(floor 2 %: the same file against itself differs by up to 2 % from process to process, sd 0.8 to 1.3 %), and randomised
interleaved trials (Laaber et al. 2019, Grambow et al. 2023). A change is confirmed by two more processes, of which the
median decides. Noise is told by a pair of the same file (A/A), which is a sensor and no scale for the floor: scaled by
it the gate loses 8 to 28 points of what it finds at 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Final

from .errors import MeasurementError
from .order_statistics import checked, lower_bound, upper_bound
from .states import State

if TYPE_CHECKING:
    from collections.abc import Sequence

FLOOR_RATIO: Final = 1.02
REPETITIONS: Final = 3
FEWEST_PAIRS: Final = 8
"""An interval of the median at 99 % by order statistics needs so many: 2 / 2^8 is the first below 1 %."""
MOST_PAIRS: Final = 100_000
"""Of one process, whatever time is left: more say nothing, and fill the memory. A choice."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """How arm B compares with arm A. Ratios are time of B / time of A."""

    state: State
    """`regressed`, `improved`, `ok`: the interval excludes twice the floor either way, `noisy`: none of them."""
    ratio: float
    """The median."""
    low_ratio: float
    high_ratio: float
    """Two-sided interval of the median over rounds; 0 and infinite where there are too few pairs."""
    is_suspicious: bool
    """True where two more processes should decide, for B slower: beyond half of the floor, significant or not.

    Measured: with a significant 2 % as the condition the first process alone misses 10 to 15 % of slowdowns of 5 %.
    """
    reason: str = ""
    """Why it is `noisy`."""


def judge_pairs(
    log_ratios: Sequence[float], *, floor_ratio: float = FLOOR_RATIO, confidence: float = 0.99
) -> PairVerdict:
    """Judge the pairs of one process. With the arms swapped `regressed` and `improved` change places.

    Args:
        log_ratios: log(time of B / time of A) of each pair.
        floor_ratio: 1.02: a median within 2 % is no change.
        confidence: Of the two-sided interval. 99 % needs 8 pairs.

    Raises:
        MeasurementError: There is no pair, or a ratio is NaN or infinite.

    >>> judge_pairs([0.05, 0.06] * 10).state.value
    'regressed'
    """
    ordered = checked(log_ratios, "pair")
    return _verdict(median(ordered), ordered, math.log(floor_ratio), confidence, may_repeat=True)


def median_of_three(
    repetitions: Sequence[Sequence[float]], *, floor_ratio: float = FLOOR_RATIO, confidence: float = 0.99
) -> PairVerdict:
    """Judge three repetitions: by the median of their medians or the median of all their pairs, the one nearer to 1.

    The middle of three is unmoved by one process that was disturbed, and all pairs together know the median best. Both
    beyond the floor, with the interval over all pairs, is 0 to 0.3 % false alarms on the replay data, where the median
    of three alone has 1.0 % across two processes; 98 to 100 % of slowdowns of 5 % are found either way.

    Args:
        repetitions: The log ratios of three processes, or of three pairs of processes.
        floor_ratio: As for `judge_pairs`.
        confidence: As for `judge_pairs`.

    Raises:
        MeasurementError: They are not three, or one is empty, or a ratio is NaN or infinite.
    """
    if len(repetitions) != REPETITIONS:
        msg = f"{len(repetitions)} repetitions were measured: the median of {REPETITIONS} decides"
        raise MeasurementError(msg)
    middle = median(median(checked(each, "pair")) for each in repetitions)
    ordered = sorted(chain.from_iterable(repetitions))
    middle = min(middle, median(ordered), key=abs)
    return _verdict(middle, ordered, math.log(floor_ratio), confidence, may_repeat=False)


def log_ratio(before_ns: int, after_ns: int) -> float:
    """Return log(after / before); a clock that stood still counts as 1 ns."""
    return math.log(max(after_ns, 1) / max(before_ns, 1))


def judge_repetitions(
    repetitions: Sequence[Sequence[tuple[int, int]]], *, floor_ratio: float = FLOOR_RATIO
) -> PairVerdict:
    """Judge the pairs of one process, or of three; each is (time of A, time of B), in ns.

    Raises:
        MeasurementError: There is no pair, or they are two processes or more than three.
    """
    logs = [[log_ratio(before_ns, after_ns) for before_ns, after_ns in pairs] for pairs in repetitions]
    if len(logs) == 1:
        return judge_pairs(logs[0], floor_ratio=floor_ratio)
    return median_of_three(logs, floor_ratio=floor_ratio)


def is_noisy_aa(log_ratios: Sequence[float], *, floor_ratio: float = FLOOR_RATIO) -> bool:
    """Whether a pair of the same file differs by more than the floor: then no A/B of this session can be judged.

    Raises:
        MeasurementError: There is no pair, or a ratio is NaN or infinite.
    """
    return abs(median(checked(log_ratios, "pair"))) > math.log(floor_ratio)


def _verdict(
    middle: float, ordered: Sequence[float], floor: float, confidence: float, *, may_repeat: bool
) -> PairVerdict:
    error = (1 - confidence) / 2
    low, high = lower_bound(ordered, 0.5, error), upper_bound(ordered, 0.5, error)
    state, reason = State.NOISY, ""
    if middle > floor and low > 0:
        state = State.REGRESSED
    elif middle < -floor and high < 0:
        state = State.IMPROVED
    elif abs(middle) <= floor and -2 * floor <= low and high <= 2 * floor:
        state = State.OK
    elif math.isinf(high - low):
        reason = f"{len(ordered)} pairs are too few for an interval at {confidence:.0%}"
    else:
        reason = f"the median is only known to lie between {math.expm1(low):+.1%} and {math.expm1(high):+.1%}"
    return PairVerdict(
        state,
        ratio=_exp(middle),
        low_ratio=_exp(low),
        high_ratio=_exp(high),
        is_suspicious=may_repeat and middle > floor / 2,
        reason=reason,
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
