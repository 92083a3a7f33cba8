"""What a limit may be, and how one came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .states import Limit

Value = int | float | str | frozenset[str] | Mapping[str, "Value"]


@dataclass(frozen=True, slots=True)
class LimitResult:
    """How one limit came out."""

    key: str
    state: Limit
    actual: str
    """The measured value with its unit; empty where there is none."""
    limit: str
    """The budget with its unit."""
    excess: float = 0.0
    """How far over, as a ratio minus 1; for sorting, worst first."""
    why: str = ""
    """Detail, or the reason why it cannot be told."""
    actual_value: float | None = None
    """`actual` as a number, in `unit`; None where it is none."""
    limit_value: float | None = None
    """`limit` as a number, in `unit`; None where it is none."""
    unit: str = ""
