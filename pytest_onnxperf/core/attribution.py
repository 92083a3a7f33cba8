"""Which run each node execution belongs to, and how much of its time is its own.

Nothing is taken from the order of the file but a short cut: the runtime writes an event when it *ends*, so that the
nodes of a run stand before its `model_run`. Where that does not hold, events are sorted. A node belongs to the run that
contains it in time on the same thread. Where no run is on its thread (parallel mode: workers run the nodes), it belongs
to the run that contains it in time and has executed its graph without a node on its own thread.

Self time: on one thread intervals nest, so the time of a node's subgraphs is that of the nodes inside its interval.
Times are microseconds here, as in the file.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import add, le

from pytest_onnxperf.core.lane import TOLERANCE_US, Column, Lane, is_in_end_order, split
from pytest_onnxperf.core.ops import CONTROL_FLOW_OPS
from pytest_onnxperf.core.profile import NodeKey

_SEQUENCES_KEPT = 256


@dataclass(slots=True)
class FoundRun:
    """A `model_run` with the number of executions of each node (by its index)."""

    start: int
    duration: int
    thread_id: int
    executed: bool
    is_measured: bool
    is_ambiguous: bool = False
    nodes: Counter[int] = field(default_factory=Counter)
    """Runs with equal nodes share one object: never changed in place."""


class Totals:
    """Executions, time and time of children, by node index."""

    __slots__ = ("_sequences", "child_us", "duration_us", "executions")

    def __init__(self, nodes: int) -> None:
        self.executions = [0] * nodes
        self.duration_us = [0] * nodes
        self.child_us = [0] * nodes
        self._sequences: dict[bytes, list[int]] = {}
        """Sequence of nodes -> the durations of each place in it, summed up over its repetitions."""

    def add_durations(self, nodes: Column, durations: Column) -> None:
        """Add time; it is in `duration_us` after `finish`."""
        sequence = nodes.tobytes()
        sums = self._sequences.get(sequence)
        if sums is None and len(self._sequences) >= _SEQUENCES_KEPT:
            self.finish()
        self._sequences[sequence] = durations.tolist() if sums is None else list(map(add, sums, durations))

    def finish(self) -> None:
        """Add the sums of each sequence to its nodes."""
        for sequence, sums in self._sequences.items():
            for node, duration_us in zip(array("I", sequence), sums, strict=True):
                self.duration_us[node] += duration_us
        self._sequences.clear()

    def count(self, counts: Counter[int], times: int = 1) -> None:
        """Add executions, `times` times."""
        if times:
            for node, count in counts.items():
                self.executions[node] += count * times


@dataclass(slots=True)
class Attribution:
    """Every run, and the node times of the measured runs, of the others and of no run."""

    runs: list[FoundRun]
    measured: Totals
    warmup: Totals
    outside: Totals


def attribute(
    lanes: dict[int, Lane], keys: Sequence[NodeKey], windows: Sequence[tuple[int, int]] | None
) -> Attribution:
    """Give each node execution to its run. `windows`: half-open, in nanoseconds; None: every run is measured."""
    return _Attributor(keys, windows).attribute(lanes)


def is_in_window(start_us: int, duration_us: int, window: tuple[int, int]) -> bool:
    """True: the interval lies inside the window (nanoseconds), but for the cut of its ends to microseconds."""
    tolerance_ns = TOLERANCE_US * 1000
    end_ns = (start_us + duration_us) * 1000
    return start_us * 1000 >= window[0] - tolerance_ns and end_ns <= window[1] + tolerance_ns


class _Attributor:
    def __init__(self, keys: Sequence[NodeKey], windows: Sequence[tuple[int, int]] | None) -> None:
        self._windows = windows
        self._by_rank = sorted(range(len(keys)), key=lambda index: _tie_break(keys[index]))
        self._rank = [0] * len(keys)
        for rank, index in enumerate(self._by_rank):
            self._rank[index] = rank
        self._sequences: dict[bytes, Counter[int]] = {}
        self._interned: dict[frozenset[tuple[int, int]], Counter[int]] = {}
        self._measured, self._warmup, self._outside = (Totals(len(keys)) for _ in range(3))

    def attribute(self, lanes: dict[int, Lane]) -> Attribution:
        runs: list[FoundRun] = []
        workers: list[Lane] = []
        for thread_id, lane in lanes.items():
            lane.separate()
            if lane.runs:
                runs += self._runs_of_lane(thread_id, lane)
            elif lane.kinds:
                workers.append(lane)
        runs.sort(key=lambda run: (run.start, run.duration, run.thread_id))
        if workers:
            self._share_out(workers, [run for run in runs if run.executed and not run.nodes])
        alike = Counter((id(run.nodes), run.is_measured) for run in runs)
        for run in runs:
            times = alike.pop((id(run.nodes), run.is_measured), 0)
            (self._measured if run.is_measured else self._warmup).count(run.nodes, times)
        for totals in (self._measured, self._warmup, self._outside):
            totals.finish()
        return Attribution(runs, self._measured, self._warmup, self._outside)

    def _is_measured(self, start: int, duration: int) -> bool:
        return self._windows is None or any(is_in_window(start, duration, window) for window in self._windows)

    def _runs_of_lane(self, thread_id: int, lane: Lane) -> list[FoundRun]:
        """Make the runs of a thread, with the nodes on it."""
        is_ordered = is_in_end_order(lane)
        if not is_ordered:
            self._sort(lane)
            lane.runs.sort()
        executes = sorted(lane.executes)
        runs = []
        for start, duration in lane.runs:
            at = bisect_left(executes, start)
            executed = at < len(executes) and executes[at] <= start + duration
            runs.append(FoundRun(start, duration, thread_id, executed, self._is_measured(start, duration)))
        if is_ordered:
            begin = 0
            for run, end in zip(runs, lane.run_marks, strict=True):
                self._add(run, lane.starts[begin:end], lane.durations[begin:end], lane.kinds[begin:end])
                begin = end
            self._add(None, lane.starts[begin:], lane.durations[begin:], lane.kinds[begin:])
        else:
            self._cut(lane, runs)
        return runs

    def _share_out(self, workers: Iterable[Lane], runs: list[FoundRun]) -> None:
        """Give the nodes of threads without a run to the runs that contain them in time."""
        latest: FoundRun | None = None
        for run in runs:
            if latest is not None and run.start < latest.start + latest.duration - TOLERANCE_US:
                run.is_ambiguous = latest.is_ambiguous = True
            if latest is None or run.start + run.duration > latest.start + latest.duration:
                latest = run
        for lane in workers:
            self._sort(lane)
            self._cut(lane, runs)

    def _sort(self, lane: Lane) -> None:
        rows = self._rows(lane.starts, lane.durations, lane.kinds)
        lane.starts = array("q", (start for start, _, _ in rows))
        lane.durations = array("q", (-negative for _, negative, _ in rows))
        lane.kinds = array("I", (self._by_rank[rank] for _, _, rank in rows))

    def _rows(self, starts: Column, durations: Column, nodes: Column) -> list[tuple[int, int, int]]:
        """Sort by start, the longer first, so that a parent stands before its children."""
        rank = self._rank
        return sorted([(start, -dur, rank[node]) for start, dur, node in zip(starts, durations, nodes, strict=True)])

    def _cut(self, lane: Lane, runs: list[FoundRun]) -> None:
        """Cut a sorted lane at the starts of `runs`; what ends after its run belongs to none."""
        starts, durations, nodes = lane.starts, lane.durations, lane.kinds
        cuts = [bisect_left(starts, run.start) for run in runs] + [len(starts)]
        self._add(None, starts[: cuts[0]], durations[: cuts[0]], nodes[: cuts[0]])
        for run, (begin, end) in zip(runs, pairwise(cuts), strict=True):
            last = run.start + run.duration + TOLERANCE_US
            inside, outside = split(starts[begin:end], durations[begin:end], nodes[begin:end], last)
            self._add(run, *inside)
            self._add(None, *outside)

    def _add(self, run: FoundRun | None, starts: Column, durations: Column, nodes: Column) -> None:
        """Add node executions of one thread to a run (None: to no run)."""
        if not nodes:
            return
        totals = self._outside if run is None else self._measured if run.is_measured else self._warmup
        if run is None:
            totals.count(Counter(nodes))
        else:
            run.nodes = self._multiset(nodes) if not run.nodes else self._intern(run.nodes + Counter(nodes))
        totals.add_durations(nodes, durations)
        if not all(map(le, map(add, starts, durations), starts[1:])):
            self._add_children(totals, starts, durations, nodes)

    def _multiset(self, nodes: Column) -> Counter[int]:
        """Count the nodes. Runs repeat the same sequence, so that a look-up takes the place of most counting."""
        sequence = nodes.tobytes()
        counts = self._sequences.get(sequence)
        if counts is None:
            counts = self._intern(Counter(nodes))
            if len(self._sequences) < _SEQUENCES_KEPT:
                self._sequences[sequence] = counts
        return counts

    def _intern(self, counts: Counter[int]) -> Counter[int]:
        return self._interned.setdefault(frozenset(counts.items()), counts)

    def _add_children(self, totals: Totals, starts: Column, durations: Column, nodes: Column) -> None:
        """Add the time of children to their parents.

        In the order of ends as in the order of starts, a node stands beside the nodes of its subgraphs. So the row
        falls into groups, each over before the next begins, and most of them are one node.
        """
        latest_end = accumulate(map(add, starts, durations), max)
        earliest_start = list(accumulate(reversed(starts), min))[-2::-1]
        begin = 0
        for end in [*(at for at, over in enumerate(map(le, latest_end, earliest_start), 1) if over), len(starts)]:
            if end > begin + 1:
                self._nest(totals, starts[begin:end], durations[begin:end], nodes[begin:end])
            begin = end

    def _nest(self, totals: Totals, starts: Column, durations: Column, nodes: Column) -> None:
        parents: list[tuple[int, int]] = []
        for start, negative, rank in self._rows(starts, durations, nodes):
            while parents and parents[-1][0] <= start:
                parents.pop()
            end = start - negative
            if parents:
                parent_end, parent = parents[-1]
                totals.child_us[parent] += min(end, parent_end) - start
            parents.append((end, self._by_rank[rank]))


def _tie_break(key: NodeKey) -> tuple[bool, str, str, str]:
    """Order nodes with the same interval: the one that has subgraphs first."""
    return key.op_type not in CONTROL_FLOW_OPS, key.name, key.op_type, key.execution_provider
