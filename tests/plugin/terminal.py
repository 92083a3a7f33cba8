"""A pseudo-terminal with pytest on it, and the screen that a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_TOKEN: Final = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b([78D])|([\s\S])")
_LONGEST_S: Final = 300
"""After which a session is taken for one that hangs."""


class Screen:
    """What a VT100 shows: the sequences that are used, and any other is an error."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.lines = [""] * rows
        self.scrolled: list[str] = []
        self.row = self.column = 0
        self._saved = (0, 0)

    @property
    def text(self) -> str:
        """All lines so far, those too that have scrolled away."""
        return "\n".join(line.rstrip() for line in [*self.scrolled, *self.lines]).rstrip("\n")

    def write(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
            number, final, escape, char = match.groups()
            if final is not None:
                self._control(int(number or 1) if number.isdigit() or not number else 0, final)
            elif escape is not None:
                self._escape(escape)
            else:
                self._put(char)

    def _control(self, number: int, final: str) -> None:
        if final == "A":
            self.row = max(self.row - number, 0)
        elif final == "B":
            self.row = min(self.row + number, self.rows - 1)
        elif final == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        else:
            assert final == "m", f"CSI {number} {final}"

    def _escape(self, final: str) -> None:
        if final == "7":
            self._saved = (self.row, self.column)
        elif final == "8":
            self.row, self.column = self._saved
        else:
            self._down()

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._down()
        else:
            assert char.isprintable(), repr(char)
            if self.column == self.columns:  # the line goes on in the next one
                self.column = 0
                self._down()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        if self.row == self.rows - 1:
            self.scrolled.append(self.lines.pop(0))
            self.lines.append("")
        else:
            self.row += 1


def run_on_terminal(
    directory: Path,
    arguments: list[str],
    environment: Mapping[str, str],
    *,
    columns: int,
    rows: int = 12,
    seen: Callable[[Screen, subprocess.Popen[bytes]], None],
) -> tuple[int, Screen]:
    """Run pytest on a terminal and return its status and the screen; `seen` looks at it after each piece of output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-m", "pytest", *arguments]
    variables = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command, cwd=directory, stdin=slave, stdout=slave, stderr=slave, env={**variables, "TERM": "xterm"}
    )
    os.close(slave)
    screen, begin_s = Screen(rows, columns), time.monotonic()
    try:
        while True:
            assert time.monotonic() - begin_s < _LONGEST_S, screen.text
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                output = os.read(master, 1 << 16)
            except OSError:  # the last process has closed it
                break
            if not output:
                break
            # Its pieces end where the writer flushed, as a rule; a sequence that is cut would be seen as an error.
            screen.write(output.decode("utf-8"))
            seen(screen, process)
        return process.wait(), screen
    finally:
        process.kill()
        process.wait()
        os.close(master)
