"""The events of a profile as slices on tracks: what a viewer draws, without what only fills the file.

A slice is what the reader made of an event: a cleaned name and the arguments that say something. Its text lies in a
spool, its times in columns, so that a million events need 30 MB. Fence events (up to 1.20, always empty) and the
statistics of the thread pool are left out. Times are microseconds, as in the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from .attention import query_length
from .lane import TOLERANCE_US
from .ops import MEMCPY_OPS
from .phases import DECODE, PREFILL
from .profile_decoding import DecodingSink
from .profile_events import KERNEL_TIME
from .profile_wire import tensors_of
from .text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    from .profile import Profile, Run
    from .profile_wire import Event

HOST, DEVICE = "ONNX Runtime", "Device events, on a clock of their own"
PHASES, RUNS, MEMCPY = "phases", "runs", "memcpy"
LATEST_US: Final = 2**53
"""A viewer reads times as double, exact up to here, and counts nanoseconds in 63 bits."""
_US_NS: Final = 1000
_LONGEST: Final = 300
"""Characters of a name or of shapes: more than a viewer shows."""
_SESSION_NAMES: Final = {"session_initialization": "session initialization", "profile_truncated": "profile truncated"}
_DECODERS: Final = frozenset({"GroupQueryAttention", "SparseAttention"})
"""Operators that keep a cache of keys and values: who runs them generates tokens. A query of one token is a decode
step, a longer one a prefill. (A prompt of one token cannot be told from a step.)"""


@dataclass(frozen=True, slots=True, order=True)
class TrackKey:
    """Which track a slice stands on."""

    is_device: bool
    """True: its times are on the device's clock."""
    rank: int
    """Place among the tracks, from the top."""
    label: str
    thread_id: int
    """As the file has it."""


class Track:
    """Slices of one track in the order of the file, a column each."""

    __slots__ = ("durations", "offsets", "sizes", "starts")

    def __init__(self) -> None:
        self.starts, self.durations, self.offsets = array("q"), array("q"), array("q")
        self.sizes = array("I")

    def add(self, start_us: int, duration_us: int, offset: int, size: int) -> None:
        """Add a slice, of which the text lies in the spool."""
        self.starts.append(start_us)
        self.durations.append(duration_us)
        self.offsets.append(offset)
        self.sizes.append(size)


class Timeline(DecodingSink):
    """Collects the slices of one file; `add_runs` adds what follows from all of them."""

    def __init__(self, profile: Profile, spool: BinaryIO, warmup_runs: int = 0) -> None:
        """Begin with no slice.

        Args:
            profile: Of the same file: it knows the runs.
            spool: Takes the texts of the slices.
            warmup_runs: So many runs at the beginning are warm-up, beside those that the profile says are.
        """
        super().__init__()
        self.tracks: dict[TrackKey, Track] = {}
        self.impossible_times = 0
        """Events left out, since no clock could have made their times."""
        self._runs = profile.runs
        self._finder = _RunFinder(profile.runs)
        self._warmup_runs = warmup_runs
        self._spool, self._offset = spool, 0
        self._steps: dict[int, str] = {}
        """Run -> whether it is a prefill or a decode step."""
        self._memcpy = [0] * len(profile.runs)
        self._nodes: dict[tuple[str, str, str, int], _Node] = {}

    def take(self, event: Event) -> None:
        """Make a slice of an event, where there is anything to see in it."""
        if event.cat == "Node":
            if event.name.endswith(KERNEL_TIME):
                self._take_node(event)
        elif event.cat == "Session":
            self._take_session(event)
        elif event.cat in ("Api", "Kernel"):
            stream = f", stream {event.args.stream}" if isinstance(event.args.stream, str) else ""
            key = TrackKey(is_device=True, rank=0, label=f"{event.cat} events{clean(stream)}", thread_id=event.tid)
            arguments = {"op_type": clean(event.args.op_name)} if event.args.op_name else {}
            self._add(key, event.ts, event.dur, clean(event.name), arguments)

    def add_runs(self) -> None:
        """Add the runs, and the phases that they make up."""
        for index, run in enumerate(self._runs):
            kind = "run" if self._is_measured(index, run) else "warm-up run"
            arguments: dict[str, object] = {
                "index": index, "measured": kind == "run", "nodes": sum(run.nodes.values()),
                "memcpy_nodes": self._memcpy[index], "thread_id": run.thread_id,
            }  # fmt: skip
            if index in self._steps:
                arguments["phase"] = self._steps[index]
            if run.is_replay:
                arguments["note"] = "a captured graph was replayed: it has no node events"
            key = TrackKey(is_device=False, rank=1, label=RUNS, thread_id=run.thread_id)
            self._add(key, run.start_ns // _US_NS, run.duration_ns // _US_NS, f"{kind} {index}", arguments)
        for phase, first, last in self._phases():
            start_us = self._runs[first].start_ns // _US_NS
            end_us = max(run.end_ns for run in self._runs[first : last + 1]) // _US_NS
            self._add(_PHASES_KEY, start_us, end_us - start_us, phase, {"first_run": first, "runs": last - first + 1})

    def _is_measured(self, index: int, run: Run) -> bool:
        return run.measured and index >= self._warmup_runs

    def _phases(self) -> Iterator[tuple[str, int, int]]:
        """Yield prefill and decode, with first and last of the neighbouring runs that make them up."""
        first = 0
        for index in range(1, len(self._runs) + 1):
            phase = self._steps.get(first)
            if index < len(self._runs) and self._steps.get(index) == phase:
                continue
            if phase is not None:
                yield phase, first, index - 1
            first = index

    def _take_session(self, event: Event) -> None:
        if event.name == "model_run":
            return  # the profile has them, in their order
        if event.name.endswith("::Execute"):
            key = TrackKey(is_device=False, rank=1, label=RUNS, thread_id=event.tid)
            self._add(key, event.ts, event.dur, clean(event.name), {})
            return
        name = _SESSION_NAMES.get(event.name, clean(event.name))
        dropped = event.args.dropped_event_count
        arguments = {"dropped_events": clean(dropped)} if dropped else {}
        self._add(_PHASES_KEY, event.ts, event.dur, name, arguments)

    def _take_node(self, event: Event) -> None:
        args = event.args
        op_type = args.op_name
        key = (event.name, op_type, args.provider, event.tid)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = _Node(*key)
        run = self._finder.run_of(event.tid, event.ts, event.ts + event.dur)
        arguments = node.arguments | node.tensors(event)
        if run is not None:
            arguments["run"] = run
            self._memcpy[run] += op_type in MEMCPY_OPS
            if op_type in _DECODERS and run not in self._steps:
                self._add_step(run, event)
        arguments.update(_sizes(event))
        self._add(node.track, event.ts, event.dur, node.name, arguments)

    def _add_step(self, run: int, event: Event) -> None:
        tensors = tensors_of(event.args.input_type_shape)
        shape = tensors[0][1] if tensors else None
        length = query_length(event.args.op_name, shape) if isinstance(shape, list) else None
        if isinstance(length, int):
            self._steps[run] = DECODE if length == 1 else PREFILL

    def _add(self, key: TrackKey, start_us: int, duration_us: int, name: str, arguments: Mapping[str, object]) -> None:
        if start_us < 0 or duration_us < 0 or start_us + duration_us > LATEST_US:
            self.impossible_times += 1
            return
        track = self.tracks.get(key)
        if track is None:
            track = self.tracks[key] = Track()
        text = msgspec.json.encode({"name": name or "(no name)", "args": arguments})[1:]
        self._spool.write(text)
        track.add(start_us, duration_us, self._offset, len(text))
        self._offset += len(text)


class _Node:
    """What all executions of a node on a thread have in common."""

    __slots__ = ("_tensors", "_types", "arguments", "name", "track")

    def __init__(self, event_name: str, op_type: str, provider: str, thread_id: int) -> None:
        is_memcpy = op_type in MEMCPY_OPS
        self.name = clean(event_name.removesuffix(KERNEL_TIME) or op_type)
        self.arguments: dict[str, object] = {"op_type": clean(op_type), "execution_provider": clean(provider)}
        label = MEMCPY if is_memcpy else clean(provider) or "no execution provider"
        self.track = TrackKey(is_device=False, rank=3 if is_memcpy else 2, label=label, thread_id=thread_id)
        self._types: tuple[object, object] = (None, None)
        self._tensors: dict[str, object] = {}

    def tensors(self, event: Event) -> dict[str, object]:
        """Return types and shapes of what an execution read and wrote; they are most often those of the last one."""
        types = (event.args.input_type_shape, event.args.output_type_shape)
        if types != self._types:
            self._types = types
            found = zip(("inputs", "outputs"), map(tensors_of, types), strict=True)
            self._tensors = {name: _tensors_text(tensors) for name, tensors in found if tensors}
        return self._tensors


_PHASES_KEY: Final = TrackKey(is_device=False, rank=0, label=PHASES, thread_id=0)


class _RunFinder:
    """Finds the run that an event belongs to: that of its thread, else the one that contains it in time.

    It is the rule of `attribution`, but for a worker's node in runs that overlap: that belongs to none here.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._all = [run.start_ns // _US_NS for run in runs]
        self._of_thread: dict[int, tuple[list[int], list[int]]] = {}
        for index, run in enumerate(runs):
            starts, indexes = self._of_thread.setdefault(run.thread_id, ([], []))
            starts.append(run.start_ns // _US_NS)
            indexes.append(index)

    def run_of(self, thread_id: int, start_us: int, end_us: int) -> int | None:
        """Return the index of the run; None: it belongs to none, or that cannot be told."""
        own = self._of_thread.get(thread_id)
        if own is not None:
            at = bisect_right(own[0], start_us) - 1
            index = own[1][at] if at >= 0 else -1
        else:
            index = bisect_right(self._all, start_us) - 1
        if index < 0 or end_us > self._runs[index].end_ns // _US_NS + TOLERANCE_US:
            return None
        return None if own is None and self._runs[index].ambiguous else index


def _sizes(event: Event) -> Iterator[tuple[str, object]]:
    """Yield how many bytes a node read and wrote, where the file has them."""
    args = event.args
    for name, size in (
        ("input_bytes", args.activation_size),
        ("parameter_bytes", args.parameter_size),
        ("output_bytes", args.output_size),
    ):
        if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < _DIGITS:
            yield name, int(size)


_DIGITS: Final = 19


def _tensors_text(tensors: Sequence[tuple[str, object]]) -> str:
    return clean(", ".join(kind + str(shape).replace(" ", "") for kind, shape in tensors))


def clean(text: str) -> str:
    r"""Return a text of the file as a viewer can show it: what cannot be printed written out, and not too long.

    >>> clean("a\nb")
    'a\\nb'
    """
    shown = printable(text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
