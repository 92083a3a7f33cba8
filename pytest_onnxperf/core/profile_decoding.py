"""A sink for the reader of a profile that decodes every event: where counts by name are not enough."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .profile import UnreadLine
from .profile_wire import Event, Head, NoEventError, event_of_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT_KEPT = 80


class DecodingSink:
    """Hands each event with its arguments to `take`, and keeps none itself."""

    def __init__(self) -> None:
        self.categories: Counter[str] = Counter()
        self.unread: list[UnreadLine] = []
        self.unread_lines = 0
        self.repaired_lines = 0

    @property
    def keeps_unread(self) -> bool:
        """True: the next line that could not be read is kept, and not counted alone."""
        return not self.unread

    def add_unread(self, line: int, reason: str, text: bytes) -> None:
        """Count a line that could not be read."""
        self.unread_lines += 1
        if self.keeps_unread:
            self.unread.append(UnreadLine(line, reason, text[:_TEXT_KEPT].decode("utf-8", "backslashreplace")))

    def add_known(self, heads: Sequence[Head], text: bytes, ends: Sequence[int]) -> bool:
        """Return False: nothing is known by its head alone."""
        return False

    def add_batch(self, heads: Sequence[Head], lines: Sequence[bytes], first_line: int) -> None:
        """Add the events of `lines`, the first with number `first_line`."""
        for number, line in enumerate(lines, first_line):
            try:
                event, is_repaired = event_of_line(line.rstrip(b", \t\r"))
            except NoEventError as error:
                self.add_unread(number, str(error), line)
                continue
            self.repaired_lines += is_repaired
            self.add(event)

    def add(self, event: Event) -> None:
        """Add an event with its arguments."""
        self.categories[event.cat] += 1
        self.take(event)

    def take(self, event: Event) -> None:
        """Take an event; what it becomes is the subclass's."""
        raise NotImplementedError
