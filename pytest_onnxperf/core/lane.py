"""The events of one thread of a profile, in columns: a million of them take 20 MB. Times are microseconds."""

from array import array
from operator import add
from typing import TypeAlias

Column: TypeAlias = "array[int]"
Columns: TypeAlias = "tuple[Column, Column, Column]"

TOLERANCE_US = 2
"""`ts` and `dur` are each cut to whole microseconds, so that an end can seem up to 2 us late."""

RUN, EXECUTE, OTHER, FIRST_NODE = range(4)
"""Kinds of events in a lane: `model_run`, the execution of a graph, what is of no use; from 3 on, nodes."""


class Lane:
    """The events of one thread, a column each, in the order of the file."""

    __slots__ = ("append", "durations", "executes", "kinds", "run_marks", "runs", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.durations = array("q")
        self.kinds = array("I")
        self.append = (self.starts.append, self.durations.append, self.kinds.append)
        self.runs: list[tuple[int, int]] = []
        """Start and duration of each run; filled by `separate`, like those that follow."""
        self.run_marks: list[int] = []
        """By run: how many nodes stand before it in the file."""
        self.executes: list[int] = []
        """When a graph was executed."""

    def separate(self) -> None:
        """Take what is no node out of the columns."""
        begin = kept = 0
        pieces = []
        for position in [position for position, kind in enumerate(self.kinds) if kind < FIRST_NODE]:
            pieces.append((begin, position))
            kept += position - begin
            begin = position + 1
            if self.kinds[position] == RUN:
                self.runs.append((self.starts[position], self.durations[position]))
                self.run_marks.append(kept)
            elif self.kinds[position] == EXECUTE:
                self.executes.append(self.starts[position])
        if pieces:
            pieces.append((begin, len(self.kinds)))
            self.starts = _joined(self.starts, pieces)
            self.durations = _joined(self.durations, pieces)
            self.kinds = _joined(self.kinds, pieces)


def _joined(column: Column, pieces: list[tuple[int, int]]) -> Column:
    joined = array(column.typecode)
    for begin, end in pieces:
        joined += column[begin:end]
    return joined


def is_in_end_order(lane: Lane) -> bool:
    """True: the nodes before each `model_run` are those inside it, and the rest comes after the last run."""
    begin = run_end = 0
    for (start, duration), end in zip(lane.runs, lane.run_marks, strict=True):
        if start < run_end:
            return False
        run_end = start + duration
        if begin == end:
            continue
        starts = lane.starts[begin:end]
        if min(starts) < start or max(map(add, starts, lane.durations[begin:end])) > run_end + TOLERANCE_US:
            return False
        begin = end
    return begin == len(lane.starts) or min(lane.starts[begin:]) >= run_end


def split(starts: Column, durations: Column, nodes: Column, last: int) -> tuple[Columns, Columns]:
    """Split off what ends after `last`."""
    parts: tuple[Columns, Columns] = ((starts[:0], durations[:0], nodes[:0]), (starts[:0], durations[:0], nodes[:0]))
    for row in zip(starts, durations, nodes, strict=True):
        for column, value in zip(parts[row[0] + row[1] > last], row, strict=True):
            column.append(value)
    return parts
