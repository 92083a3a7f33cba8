"""Reads an ONNX Runtime profile: the file's bytes to a `Profile`.

The runtime writes one event a line. Such a file is read in blocks and never held as a whole. A file that was written
again by another program (indented, on one line, wrapped in `{"traceEvents": [...]}`) is decoded as a whole.
"""

import os
from collections.abc import Iterator, Sequence
from io import FileIO

from pytest_onnxperf.core.errors import NotAProfile, ProfileEmpty, ProfileMissing
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_build import build_profile
from pytest_onnxperf.core.profile_events import CATEGORIES, Events, Sink
from pytest_onnxperf.core.profile_whole import add_whole
from pytest_onnxperf.core.profile_wire import BAD_JSON, decode_heads, event_of_line

_BLOCK_BYTES = 1 << 16
_HEAD_BYTES_AT_LEAST = 60
"""No head is shorter, so that the search for its end can begin there."""

_ARGS = b',"args" : {'
_COMMA, _BRACE = b",}"
_EVENT_START = b'{"cat" : "'
_LINES_OF_ONE_EVENT = 20
"""A node's name may hold newlines (1.30 and before); an event that spans more lines is given up."""


def read_profile(path: str | os.PathLike[str], windows: Sequence[tuple[int, int]] | None = None) -> Profile:
    """Read a profile that ONNX Runtime wrote.

    Args:
        path: The file.
        windows: Half-open measured windows, in ns on the profile's clock (0 = profiling started). A run inside one of
            them (2 us tolerance) is measured, any other is warm-up; None: every run is measured.

    Raises:
        ProfileMissing: No file is there, or it may not be read.
        ProfileEmpty: The file has 0 bytes.
        NotAProfile: The file is something else.
    """
    events = Events()
    is_cut = read_events(path, events)
    return build_profile(os.fspath(path), events, windows, is_cut=is_cut)


def read_events(path: str | os.PathLike[str], events: Sink) -> bool:
    """Read the events of a profile into `events`; True where the end of the file is missing.

    Raises:
        ProfileError: As for `read_profile`.
    """
    name = os.fspath(path)
    try:
        with _open(name) as file:
            is_cut = _read(file, name, events)
    except OSError as error:
        msg = f"{name}: cannot be read: {error.strerror or error}"
        raise ProfileMissing(msg) from error
    if not CATEGORIES.intersection(events.categories) and (events.categories or events.unread_lines):
        why = events.unread[0].reason if events.unread else "its events are another program's"
        msg = f"{name}: not an ONNX Runtime profile ({why})"
        raise NotAProfile(msg)
    return is_cut


def _open(name: str) -> FileIO:
    try:
        return FileIO(name)
    except ValueError as error:
        msg = f"{name!r}: not the name of a file: {error}"
        raise ProfileMissing(msg) from error


def _read(file: FileIO, name: str, events: Sink) -> bool:
    """Read the file into `events`; True where its end is missing."""
    first = file.read(_BLOCK_BYTES)
    if not first:
        msg = (
            f"{name}: the profile has 0 bytes: ONNX Runtime creates the file with the session and writes it when the "
            "session ends\n\nEnd profiling with `session.end_profiling()`, and see that the process was not killed, "
            "the model loaded, and no `IOBinding` keeps the session alive."
        )
        raise ProfileEmpty(msg)
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"[", b"{")):
        msg = f"{name}: not an ONNX Runtime profile: it begins with {text[:20]!r} in place of `[`"
        raise NotAProfile(msg)
    if not _has_event_a_line(text):
        return add_whole(text + file.readall(), events)
    lines = _Lines(events, first_line=first[: first.index(b"[") + 1].count(b"\n") + 1)
    for chunk, is_last in _chunks(file, text[1:]):
        lines.add(chunk, is_last=is_last)
    return not lines.is_closed


def _has_event_a_line(text: bytes) -> bool:
    """True: the text begins a JSON array with an event on each line, as the runtime writes it."""
    if not text.startswith(b"["):
        return False
    if b"\n" + _EVENT_START in text:
        return True
    line = text[1:].lstrip().partition(b"\n")[0].rstrip()
    return line.startswith(_EVENT_START) or (line.startswith(b'{"') and line.endswith((b"}", b"},"))) or line == b"]"


def _chunks(file: FileIO, begun: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces that end at a line end (which is left out), and whether it is the last piece."""
    parts = [begun]
    while block := file.read(_BLOCK_BYTES):
        cut = block.rfind(b"\n")
        if cut < 0:
            parts.append(block)
            continue
        parts.append(block[:cut])
        yield b"".join(parts), False
        parts = [block[cut + 1 :]]
    yield b"".join(parts), True


def _heads(text: bytes) -> tuple[list[bytes], list[int]]:
    """Return what stands before the arguments in each line, and where that ends; nothing where a line is not whole."""
    heads: list[bytes] = []
    ends: list[int] = []
    add_head, add_end, find, begin = heads.append, ends.append, text.find, 0
    while True:
        end = find(_ARGS, begin + _HEAD_BYTES_AT_LEAST)
        if end < 0:
            return [], []
        add_head(text[begin:end])
        add_end(end)
        begin = find(b"\n", end) + 1
        if not begin:
            return heads, ends
        if text[begin - 2] != _COMMA or text[begin - 3] != _BRACE:
            return [], []


class _Lines:
    """Reads events a line each, many at a time, and one by one where that fails."""

    def __init__(self, events: Sink, first_line: int) -> None:
        self.is_closed = False
        self._events = events
        self._line = first_line
        """Number of the next line."""
        self._begun: list[bytes] = []
        """Lines of an event that is not complete."""

    def add(self, chunk: bytes, *, is_last: bool) -> None:
        """Read whole lines."""
        if self.is_closed or self._begun or not self._add_batch(chunk):
            for number, line in enumerate(chunk.split(b"\n"), self._line):
                self._add_line(number, line.strip(b" \t\r"))
            self._line += chunk.count(b"\n") + 1
        if is_last:
            self._give_up(self._line)

    def _add_batch(self, chunk: bytes) -> bool:
        """Read lines of which each is an event in the runtime's own frame; False: they are not, and nothing is read."""
        text = chunk.strip()
        is_closed = text.endswith(b"]")
        if is_closed:
            text = text[:-1].rstrip()
        heads, ends = _heads(text)
        joined = b"},".join(heads)
        if not text.endswith((b"}},", b"}}")) or b"\\" in joined:
            return False
        try:
            decoded = decode_heads(b"[" + joined + b"}]")
        except BAD_JSON:
            return False
        if len(decoded) != len(heads):
            return False
        if not self._events.add_known(decoded, text, ends):
            lines = text.split(b"\n")
            if len(lines) != len(heads):
                return False
            blank = chunk[: len(chunk) - len(chunk.lstrip())]
            self._events.add_batch(decoded, lines, self._line + blank.count(b"\n"))
        self.is_closed = is_closed
        self._line += len(heads) + (chunk.count(b"\n") - text.count(b"\n") if len(text) < len(chunk) else 0)
        return True

    def _add_line(self, number: int, line: bytes) -> None:
        if self.is_closed:
            if line:
                self._events.add_unread(number, "after the end of the profile: two files in one", line)
            return
        if self._begun and (line == b"]" or line.startswith(_EVENT_START) or len(self._begun) == _LINES_OF_ONE_EVENT):
            self._give_up(number)
        if self._begun:
            self._begun.append(line)
            self._add_event(number, b"\n".join(self._begun).removesuffix(b","))
        elif line:
            self.is_closed = line == b"]" or line.endswith(b"}]")
            event = line.removesuffix(b"]").rstrip() if self.is_closed else line.removesuffix(b",")
            if event:
                self._begun.append(event)
                self._add_event(number, event)
                if self.is_closed and self._begun:  # it was cut behind an array of its own
                    self.is_closed, self._begun = False, [line]

    def _add_event(self, number: int, text: bytes) -> None:
        """Read one event; an event that may go on in the next line is kept."""
        try:
            event, is_repaired = event_of_line(text)
        except ValueError as error:
            if not self._begun[0].startswith(_EVENT_START):
                self._events.add_unread(number, str(error), text)
                self._begun.clear()
            return
        self._events.add(event)
        self._events.repaired_lines += is_repaired
        self._begun.clear()

    def _give_up(self, number: int) -> None:
        """Count the lines of an event that never became complete."""
        begun, self._begun = self._begun, []
        for index, line in enumerate(begun):
            try:
                self._events.add(event_of_line(line.removesuffix(b","))[0])
            except ValueError as error:
                self._events.add_unread(number - len(begun) + index, str(error), line)
