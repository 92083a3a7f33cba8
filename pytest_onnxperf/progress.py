"""Shows on a terminal that a long measurement is alive: one line that is overwritten and at last removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

_QUIET_S: Final = 2.0
"""A measurement that ends sooner shows nothing."""


class Progress:
    """The line of the measurement that runs; nothing where pytest does not write to a terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started_s = 0.0
        self._shown = 0

    def tick(self, what: str) -> None:
        """Say what is going on; called about twice a second."""
        now_s = time.monotonic()
        if not self._started_s:
            self._started_s = now_s
        seconds = now_s - self._started_s
        if seconds >= _QUIET_S:
            self._write(f" onnxperf: {what}, {seconds:.0f} s ")

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._write("")
        self._started_s = 0.0

    def _write(self, text: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not reporter.isatty or hasattr(self._config, "workerinput"):
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        padding = " " * max(self._shown - len(text), 0)
        # The cursor goes back to where pytest left it, so that pytest's own dots are not disturbed.
        line = f"\0337{text}{padding}\0338"
        if capture is None:
            reporter.write(line, flush=True)
        else:
            with capture.global_and_fixture_disabled():
                reporter.write(line, flush=True)
        self._shown = len(text)
