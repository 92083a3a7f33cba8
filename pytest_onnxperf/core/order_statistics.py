"""Distribution-free intervals of a quantile: two of the sorted values, counted by the binomial distribution.

Source: Conover 1999, Practical Nonparametric Statistics, section 3.2 (after Thompson 1936). The number of values below
the q quantile is binomial(n, q), whatever the distribution, so the k-th smallest of n lies above that quantile with a
probability of at most P(binomial(n, q) <= k - 1). It needs independent rounds: measured, neighbours correlate at -0.05.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .errors import MeasurementError

if TYPE_CHECKING:
    from collections.abc import Sequence


def lower_rank(count: int, q: float, error: float) -> int:
    """Return the largest k so that the k-th smallest of `count` exceeds the `q` quantile with at most `error`; or 0.

    >>> lower_rank(200, 0.5, 0.005)
    82
    """
    from scipy.special import bdtr, bdtrik

    start = bdtrik(error, count, q)  # the count of values at which the probability is `error`; NaN below the first
    rank = 0 if math.isnan(start) else max(math.floor(start), 0)
    while rank > 0 and bdtr(rank - 1, count, q) > error:
        rank -= 1
    while rank < count and bdtr(rank, count, q) <= error:
        rank += 1
    return rank


def lower_bound(ordered: Sequence[float], q: float, error: float) -> float:
    """Return what the `q` quantile is below with a probability of at most `error`; -inf where there are too few."""
    rank = lower_rank(len(ordered), q, error)
    return ordered[rank - 1] if rank else -math.inf


def upper_bound(ordered: Sequence[float], q: float, error: float) -> float:
    """Return what the `q` quantile is above with a probability of at most `error`; inf where there are too few."""
    rank = lower_rank(len(ordered), 1 - q, error)
    return ordered[-rank] if rank else math.inf


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the `q` quantile of sorted values, linear between the two nearest, as `Sample.quantile`.

    >>> quantile([10, 20, 30, 40], 0.5)
    25.0
    """
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread_ratio(ordered: Sequence[float]) -> float:
    """Return IQR / median of sorted times in ns; a median below 1 ns counts as 1.

    >>> spread_ratio([10, 20, 30, 40])
    0.6
    """
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / max(quantile(ordered, 0.5), 1.0)


def checked(values: Sequence[float], what: str) -> list[float]:
    """Return them sorted.

    Raises:
        MeasurementError: There is none, or one is NaN or infinite.
    """
    if not values:
        msg = f"no {what} was measured"
        raise MeasurementError(msg)
    for value in values:
        if not math.isfinite(value):
            msg = f"a {what} is {value}: only finite numbers can be compared"
            raise MeasurementError(msg)
    return sorted(values)
