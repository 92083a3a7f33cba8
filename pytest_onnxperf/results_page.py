"""`--onnxperf-html` in a session: the tests that have ended, kept until the page is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .core.results import Results
from .report.html.page import page
from .runtime.atomic import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from .core.results import Run, Test


class PageWriter:
    """Writes the page of one run at its end, and at its start one without tests: an old one could be taken for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, Test] = {}
        self.error = ""
        """Why it could not be written the last time; empty where it could."""

    def begin(self, run: Run) -> None:
        """Write a page without tests."""
        self._write(run)

    def add(self, run: Run, test: Test) -> None:
        """Keep a test that has ended, in the place of an earlier result of the same one."""
        self._tests[test.nodeid] = test

    def end(self, run: Run) -> None:
        """Write all."""
        self._write(run)

    def _write(self, run: Run) -> None:
        whole = msgspec.structs.replace(run, tests=tuple(self._tests.values()))
        try:
            replace_file(self._path, page([Results(runs=(whole,))]).encode())
            self.error = ""
        except OSError as error:  # tests go on; what could not be written is said at the end
            self.error = error.strerror or str(error)
