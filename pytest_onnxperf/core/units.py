"""Text for quantities: the only place where a number meets its unit. Inside, time is integer ns and memory is bytes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
BYTES_PER_MIB: Final = 1 << 20


def significant(value: float, digits: int = 4) -> float:
    """Round to `digits` significant digits; whole numbers come back as `int`.

    >>> significant(1234567.8), significant(0.00123456), significant(12.0)
    (1235000, 0.001235, 12)
    """
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def number(value: float, digits: int = 3) -> str:
    """Write a number with `digits` significant digits and no exponent.

    >>> number(0.01234), number(1234.5), number(7)
    ('0.0123', '1234', '7')
    """
    if value == int(value):
        return str(int(value))
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{float(f'{value:.{digits}g}'):.12f}".rstrip("0").rstrip(".")
    return text or "0"


def quantity(value: float, unit: str) -> str:
    """Write a value with its unit.

    >>> quantity(12.34, "ms"), quantity(3, "nodes"), quantity(0.25, "ratio")
    ('12.3 ms', '3 nodes', '25 %')
    """
    if unit == "ratio":
        return f"{number(value * 100)} %"
    return f"{number(value)} {unit}".rstrip()


def change(ratio: float) -> str:
    """Write a ratio as a signed change in per cent; 1.0 is no change.

    >>> change(1.182), change(0.9996), change(0.5)
    ('+18 %', '0 %', '-50 %')
    >>> change(math.inf)
    'from nothing'
    """
    percent = (ratio - 1) * 100
    if percent == math.inf:
        return "from nothing"
    if abs(percent) < 0.05:
        return "0 %"
    text = f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"
    return text.replace(".0 %", " %")


def listed(texts: Sequence[str], most: int) -> str:
    """Write the first `most` of them, and how many there are besides.

    >>> listed(["Cast", "Gather", "Mul"], 2)
    'Cast, Gather and 1 more'
    """
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
