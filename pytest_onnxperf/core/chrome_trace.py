"""Writes a timeline in the Trace Event Format of Chrome, which ui.perfetto.dev and chrome://tracing open.

Source: "Trace Event Format" (Chromium, document CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): an object with
`traceEvents`; a slice is a complete event (`ph` X, `ts` and `dur` in microseconds), a track is a thread, and metadata
events (`ph` M) name processes and threads and put them in order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from .nesting import Lanes, in_order
from .profile_json import read_events, read_profile
from .providers import CPU
from .text import printable
from .timeline import DEVICE, HOST, Timeline

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from .timeline import Track, TrackKey

_encode: Final = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What was written."""

    events: int
    """Slices."""
    tracks: int
    notes: tuple[str, ...]
    """What a reader of the trace has to know, as sentences."""


def write_trace(path: str | os.PathLike[str], out: BinaryIO, spool: BinaryIO, warmup_runs: int = 0) -> TraceSummary:
    """Write the profile of `path` as a trace.

    Args:
        path: The profile; it is read twice.
        out: Where the trace goes, from its first byte to its last.
        spool: An empty file to read and write, about as large as the trace.
        warmup_runs: As for `Timeline`.

    Raises:
        ProfileError: As for `read_profile`.
    """
    profile = read_profile(path)
    timeline = Timeline(profile, spool, warmup_runs)
    read_events(path, timeline)
    timeline.add_runs()
    spool.flush()
    spool.seek(0)
    notes = profile.notes
    if timeline.impossible_times:
        notes += (f"{timeline.impossible_times:,} event(s) with impossible times left out",)
    writer = _Writer(out, spool)
    for name, key, track in _named(timeline):
        writer.write(DEVICE if key.is_device else HOST, name, track)
    writer.end({"source": printable(str(path)), "notes": [printable(note) for note in notes]})
    return TraceSummary(writer.events, writer.tracks, notes)


def _named(timeline: Timeline) -> Iterator[tuple[str, TrackKey, Track]]:
    """Yield the tracks from the top, with their names: the CPU below what waits for it, threads where several."""
    keys = sorted(timeline.tracks, key=lambda key: (key.is_device, key.rank, key.label == CPU, key))
    threads = Counter((key.is_device, key.rank, key.label) for key in keys)
    for key in keys:
        is_alone = threads[key.is_device, key.rank, key.label] == 1
        yield key.label if is_alone else f"{key.label}, thread {key.thread_id}", key, timeline.tracks[key]


class _Writer:
    """Writes events one after another.

    Tracks are counted from 1, as viewers keep 0 for an idle thread; a process has the id of its first track, which
    viewers take for its main thread.
    """

    def __init__(self, out: BinaryIO, spool: BinaryIO) -> None:
        self.events = self.tracks = 0
        self._out, self._spool = out, spool
        self._separator = b'{"displayTimeUnit":"ms","traceEvents":[\n'
        self._process, self._pid = "", 0

    def write(self, process: str, name: str, track: Track) -> None:
        """Write a track of a process, and beside it one more for what overlaps in it."""
        self._begin_process(process)
        lanes = Lanes()
        ids: list[int] = []
        read, seek = self._spool.read, self._spool.seek
        starts, durations, offsets, sizes = track.starts, track.durations, track.offsets, track.sizes
        for place in in_order(starts, durations):
            lane, duration_us = lanes.place(starts[place], durations[place])
            if lane == len(ids):
                ids.append(self._name_track(name if not lane else f"{name} ({lane + 1})"))
            seek(offsets[place])
            text = read(sizes[place])
            head = b'{"ph":"X","ts":%d,"dur":%d,"pid":%d,"tid":%d,' % (starts[place], duration_us, self._pid, ids[lane])
            self._write(head + text)
        self.events += len(starts)

    def end(self, other: dict[str, str | Sequence[str]]) -> None:
        """Write the end of the file."""
        begin = b"" if self._separator.startswith(b",") else self._separator
        self._out.write(b'%b\n],"otherData":%b}\n' % (begin, _encode(other)))

    def _begin_process(self, name: str) -> None:
        if name != self._process:
            self._process, self._pid = name, self.tracks + 1
            self._metadata("process_name", self._pid, {"name": name})
            self._metadata("process_sort_index", self._pid, {"sort_index": self._pid})

    def _name_track(self, name: str) -> int:
        self.tracks += 1
        self._metadata("thread_name", self.tracks, {"name": name})
        self._metadata("thread_sort_index", self.tracks, {"sort_index": self.tracks})
        return self.tracks

    def _metadata(self, name: str, tid: int, arguments: dict[str, object]) -> None:
        self._write(_encode({"ph": "M", "ts": 0, "pid": self._pid, "tid": tid, "name": name, "args": arguments}))

    def _write(self, event: bytes) -> None:
        self._out.write(self._separator + event)
        self._separator = b",\n"
