"""How one fact or metric compares with its baseline."""

from __future__ import annotations

from dataclasses import dataclass

from .states import State


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
