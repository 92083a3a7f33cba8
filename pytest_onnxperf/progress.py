"""Shows that a long measurement is alive and what it is doing, and keeps where its time went.

On a terminal it is one line below pytest's own, which is overwritten and at last removed. Elsewhere, in a CI log say,
it is a line for each stage, with -v alone. Workers of pytest-xdist write nothing: pytest's output is the controller's.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from .core.stages import Held, Stage
from .report.wrap import columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import pytest
    from _pytest.terminal import TerminalReporter

    from .core.stages import Doing

_QUIET_S: Final = 1.0
"""A measurement that ends sooner shows nothing on a terminal."""
# Index and cursor up make room below without moving a column; the cursor is kept, and goes to the line below and back.
# Source: ECMA-48 and the DEC private sequences that every terminal since the VT100 knows.
_MAKE_ROOM: Final = "\033D\033[A"
_BELOW: Final = "\0337\033[B\r{text}\033[K\0338"


class Progress:
    """The measurement that runs, one at a time."""

    def __init__(self, config: pytest.Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._stream = sys.stdout  # as pytest's reporter takes it, which would count what is written as its own
        self._name = ""
        self._stage = Stage.LOAD
        self._begin_s = self._since_s = 0.0
        self._stages_s: dict[str, float] = {}
        self._held: list[Held] = []
        self._told: set[Stage] = set()
        self._is_shown = False

    def begin(self, name: str) -> None:
        """Begin a measurement, which is called `name` where there is room for it."""
        self._name, self._stage, self._stages_s, self._held, self._told = name, Stage.LOAD, {}, [], set()
        self._begin_s = self._since_s = self._clock()

    def tell(self, told: Doing | Held) -> None:
        """Say what is going on, at each new stage and about twice a second; keep when a device was held."""
        if isinstance(told, Held):
            self._held.append(told)
        else:
            self._say(told)

    def _say(self, doing: Doing) -> None:
        self._take_stage(doing.stage)
        reporter = self._reporter()
        if reporter is None:
            return
        if _is_terminal(reporter):
            if self._clock() - self._begin_s >= _QUIET_S:
                self._show(doing)
        elif self._config.get_verbosity() > 0 and doing.stage not in self._told:
            self._told.add(doing.stage)
            with _uncaptured(self._config):
                reporter.ensure_newline()
                reporter.write_line(f"onnxperf: {self._name}: {doing.stage}")

    def end(self) -> tuple[dict[str, float], tuple[Held, ...]]:
        """Remove what is shown, and return the seconds of each stage, and when which device was held."""
        self._take_stage(self._stage)
        if self._is_shown:
            self._write(_BELOW.format(text=""))
        self._is_shown = False
        return self._stages_s, tuple(self._held)

    def _take_stage(self, stage: Stage) -> None:
        now_s = self._clock()
        self._stages_s[self._stage] = self._stages_s.get(self._stage, 0.0) + now_s - self._since_s
        self._stage, self._since_s = stage, now_s

    def _reporter(self) -> TerminalReporter | None:
        if hasattr(self._config, "workerinput") or self._config.get_verbosity() < 0:
            return None
        reporter: TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    def _show(self, doing: Doing) -> None:
        seconds = f"{self._clock() - self._begin_s:.0f} s"
        with _uncaptured(self._config):  # else the size is that of a file
            # A character in the last column would leave the cursor in a place that terminals do not agree on.
            width = shutil.get_terminal_size().columns - 1
        room = "" if self._is_shown else _MAKE_ROOM
        self._is_shown = True
        self._write(room + _BELOW.format(text=fitted(self._name, doing, seconds, width)))

    def _write(self, text: str) -> None:
        with _uncaptured(self._config):
            self._stream.write(text)
            self._stream.flush()


def fitted(name: str, doing: Doing, seconds: str, width: int) -> str:
    """Return the line of a measurement in `width` columns: the name goes first, then the last of the details.

    >>> from pytest_onnxperf.core.stages import Doing
    >>> doing = Doing(Stage.REFERENCE, ("45 rounds", "+0.4 % [-0.2 % to +1.1 %]"))
    >>> fitted("test_mlp", doing, "3 s", 79)
    'onnxperf: test_mlp: reference, 45 rounds, +0.4 % [-0.2 % to +1.1 %], 3 s'
    >>> fitted("test_mlp", doing, "3 s", 39)
    'onnxperf: reference, 45 rounds, 3 s'
    """
    names = [f"{name}: "] if name.isprintable() else []
    details = list(doing.details)
    while True:
        text = f"onnxperf: {''.join(names)}{', '.join([doing.stage, *details, seconds])}"
        if columns(text) <= width:
            return text
        if not names and not details:
            return text[: max(width, 0)]
        (names or details).pop()


def _is_terminal(reporter: TerminalReporter) -> bool:
    return bool(reporter.isatty) and os.environ.get("TERM") != "dumb"


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Let what is written through pytest's capturing."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return nullcontext() if capture is None else capture.global_and_fixture_disabled()
