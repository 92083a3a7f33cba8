"""How one fact or metric compares with its baseline."""

from __future__ import annotations

from dataclasses import dataclass

from .states import State


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers behind a comparison; a ratio is of now to then, 1 is as recorded."""

    unit: str
    """Of `old` and `new`: `ms`; `nodes` for a fact."""
    old: float
    """What was recorded: of a metric the median over its processes."""
    new: float
    ratio: float | None = None
    """What was judged: of a time beside a reference workload the ratio of both ratios; None where it has none."""
    low_ratio: float | None = None
    high_ratio: float | None = None
    """Ends of the interval of `ratio`; None without one."""
    limit_ratio: float | None = None
    """Beyond it the state is `regressed`: above it, or below it where more is better and no reference stood beside."""
    beside: str = ""
    """Kind of the reference workload that was judged with; empty for raw values."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One fact or metric against its baseline."""

    name: str
    state: State
    text: str
    """What a report says of it, with both numbers and units."""
    badness: float = 1.0
    """Ratio to the baseline, above 1 is worse; for sorting."""
    detail: str = ""
    """What decided: the ratio to the reference workload with its interval, why nothing can be told."""
    since_anchor: str = ""
    """Change since the anchor, where it is beyond its tolerance."""
    is_suspicious: bool = False
    """Whether two more processes should decide."""
    figures: Figures | None = None
    """None where there is nothing to compare with, or it is no number."""
