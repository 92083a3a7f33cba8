"""Slices of one track in the order and the nesting that a viewer asks for.

The Trace Event Format wants complete events of one thread to nest, and of two that begin at once the outer one first.
Perfetto drops an event that overlaps another in part. (Source: "Trace Event Format", section Complete Events, and
perfetto's statistic `slice_drop_overlapping_complete_event`.) ONNX Runtime writes an event when it ends, and cuts its
times to microseconds, so that a child may seem to end after its parent.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from .lane import TOLERANCE_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_SEARCHED: Final = 64
"""A slice that fits on none of so many lanes gets a new one: a file that is all overlaps takes no square of time."""


def in_order(starts: Sequence[int], durations: Sequence[int]) -> Iterator[int]:
    """Yield the places of slices by start, of those that begin at once the longer first.

    The order of ends is nearly that: it falls into groups of which each begins after all before it have begun, and most
    of them are one slice, so that nothing large is ever sorted.

    >>> list(in_order([5, 1, 1, 9], [1, 2, 6, 1]))
    [2, 1, 0, 3]
    """
    earliest = array("q", accumulate(reversed(starts), min))
    earliest.reverse()
    begin, latest = 0, -1
    for at, start in enumerate(starts):
        if start > latest:
            latest = start
        if at + 1 == len(starts) or earliest[at + 1] > latest:
            group = range(begin, at + 1)
            yield from group if begin == at else sorted(group, key=lambda place: (starts[place], -durations[place]))
            begin = at + 1


class Lanes:
    """Puts slices that come by start on lanes, so that those of one lane nest."""

    def __init__(self) -> None:
        self._ends: list[list[int]] = []
        """By lane: the ends of the slices that are open, the outermost first."""

    def place(self, start_us: int, duration_us: int) -> tuple[int, int]:
        """Return the lane of a slice, counted from 0, and its duration, cut where it ends just after its parent.

        >>> lanes = Lanes()
        >>> lanes.place(0, 10), lanes.place(2, 9), lanes.place(3, 20)
        ((0, 10), (0, 8), (1, 20))
        """
        end_us = start_us + duration_us
        for lane, ends in enumerate(self._ends[:_MOST_SEARCHED]):
            while ends and ends[-1] <= start_us:
                ends.pop()
            if not ends or end_us <= ends[-1] + TOLERANCE_US:
                end_us = min(end_us, ends[-1]) if ends else end_us
                ends.append(end_us)
                return lane, end_us - start_us
        self._ends.append([end_us])
        return len(self._ends) - 1, duration_us
