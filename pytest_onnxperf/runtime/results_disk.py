"""The file of `--onnxperf-json` on disk, valid at any moment, and its journal, in which no finished test is missing.

The file is replaced in one step, so that whoever reads it, or kills its writer, finds a whole one. To write it anew
after every test would cost the square of their number: 10 000 results of 8 kB are 400 GB. So it is written anew when a
quarter of it is new, five times its final size in all, and each finished test goes at once to a journal beside it, one
line each. A run that ends removes the journal; after one that was killed `read_file` takes its tests along.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.errors import ResultsError, SettingError
from pytest_onnxperf.core.results import SCHEMA
from pytest_onnxperf.core.results_text import Journal, encode, encode_file, encode_run, read_results, with_journal

from .atomic import replace_file
from .target import check_target, journal_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_onnxperf.core.results import Results, Run, Test

_NEW_SHARE: Final = 0.25
"""Of the file, before it is written anew. A choice: what is written in all is 1 + 1 / share times the final size."""


def check_writable(path: Path, option: str) -> None:
    """Refuse a path at which no file can be replaced; see `check_target`."""

    def try_it() -> None:
        if path.exists() and not os.access(path, os.W_OK):
            msg = f"{option}: {path} may not be written"
            raise SettingError(msg)
        with tempfile.TemporaryFile(dir=path.parent):  # which is how it is replaced
            pass

    check_target(path, option, try_it)


def read_file(path: Path) -> Results:
    """Read a file, with what a killed writer left in its journal.

    Raises:
        ResultsError: It is not there, may not be read, or its content is wrong.
    """
    try:
        results = read_results(path.read_bytes(), str(path))
        journal = journal_of(path)
        return with_journal(results, journal.read_bytes()) if journal.is_file() else results
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise ResultsError(msg) from error


class ResultsWriter:
    """Writes the file of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, bytes] = {}
        self._size_bytes = 0
        self._new_bytes = 0
        self.written_bytes = 0
        """Of all that was written to the file."""
        self.error = ""
        """Why it could not be written the last time; empty where it could."""

    def begin(self, run: Run) -> None:
        """Write a file without tests, and begin its journal."""
        self._drop_journal()
        self._write(run)
        self._log(encode(Journal(SCHEMA, run.started)))

    def add(self, run: Run, test: Test) -> None:
        """Keep a test that has ended, in the place of an earlier result of the same one."""
        line = encode(test)
        self._lines[test.nodeid] = line
        self._new_bytes += len(line)
        self._log(line)
        if self._new_bytes >= self._size_bytes * _NEW_SHARE:
            self._write(run)

    def end(self, run: Run) -> None:
        """Write all, and remove the journal."""
        self._write(run, is_durable=True)
        if not self.error:
            self._drop_journal()

    def _write(self, run: Run, *, is_durable: bool = False) -> None:
        data = encode_file([encode_run(run, self._lines.values())])
        try:
            replace_file(self._path, data, is_durable=is_durable)
        except OSError as error:  # a disk that is full now may not be later, and tests go on
            self.error = error.strerror or str(error)
            return
        self.error = ""
        self.written_bytes += len(data)
        self._size_bytes, self._new_bytes = len(data), 0

    def _drop_journal(self) -> None:
        try:
            journal_of(self._path).unlink(missing_ok=True)
        except OSError as error:
            self.error = error.strerror or str(error)

    def _log(self, line: bytes) -> None:
        """Append a line in one call, so that a kill leaves whole lines and at most one that is cut off."""
        try:
            with open(journal_of(self._path), "ab", buffering=0) as journal:
                journal.write(line + b"\n")
        except OSError as error:
            self.error = error.strerror or str(error)
