"""`--onnxperf-json` and `--onnxperf-html` in a session: what reports say of each test, by the controller alone."""

from __future__ import annotations

import platform
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pytest
from filelock import Timeout

from . import __version__
from .core.errors import MeasurementError
from .core.results import MOST_TEXT, Machine, Run, Test
from .core.results_build import comparison_of, measurement_of
from .core.results_build_state import time_spent_of
from .declare import OPTIONS
from .outputs import output_path
from .reported import CRASHED
from .results_page import PageWriter
from .runtime.child.machine import cores
from .runtime.devices import describe_device
from .runtime.git_head import git_head
from .runtime.lock import file_lock
from .runtime.results_disk import ResultsWriter, check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from .core.outcome import ReportedTest
    from .hooks import Hooks
    from .settings import Settings

_WRITERS: Final[dict[str, Callable[[Path], ResultsWriter | PageWriter]]] = {"json": ResultsWriter, "html": PageWriter}
"""Option -> what writes its file."""
_WHAT: Final = {"json": "results", "html": "page"}


class _File(NamedTuple):
    """One file that is written."""

    what: str
    path: Path
    writer: ResultsWriter | PageWriter


class ResultsHooks:
    """Registered where one of the options is given, and not in a worker of pytest-xdist."""

    def __init__(self, config: pytest.Config, hooks: Hooks, settings: Settings) -> None:
        """Prepare to write.

        Raises:
            SettingError: No file can be written there.
        """
        self._files = [_file(config, name, getattr(settings, name)) for name in _WRITERS if getattr(settings, name)]
        self._settings = settings
        self._hooks = hooks
        self._ended: set[str] = set()
        """The tests that the files hold as they ended."""
        hooks.ending.finishers.append(self.pytest_sessionfinish)
        self._run: Run | None = None
        self._locks = ExitStack()
        self._started_s = time.monotonic()

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Write a file without tests."""
        if not session.config.option.collectonly:
            for each in self._files:
                self._locks.enter_context(_alone(each))
            self._run = self._new_run()
            for each in self._files:
                each.writer.begin(self._run)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a report, which `Hooks` has taken; the last of a test ends it."""
        if report.when == "setup":
            self._ended.discard(report.nodeid)
        if report.nodeid in self._hooks.reports.tests and report.when in ("teardown", CRASHED):
            self._end(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write all, also what an interrupt left without a teardown, or another plugin kept from here."""
        if self._run is None:
            return
        unfinished = self._hooks.reports.unfinished
        for nodeid in self._hooks.reports.tests:
            if nodeid in unfinished or nodeid not in self._ended:
                self._end(nodeid)
        ending = self._hooks.ending
        status, stopped = ending.exit_status(session), ending.stopped_text(session)
        ended = {
            "is_complete": True, "exit_status": status, "stopped": stopped,
            "uncollected": tuple(self._hooks.uncollected),
        }  # fmt: skip
        for each in self._files:
            each.writer.end(msgspec.structs.replace(self._now(), **ended))
        if any(each.writer.error for each in self._files) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Say where the files are, or why they are not."""
        for each in self._files if self._run is not None else ():
            why = f"COULD NOT BE WRITTEN: {each.writer.error}: " if each.writer.error else ""
            terminalreporter.write_sep("-", f"onnxperf {each.what}: {why}{each.path}")

    def pytest_unconfigure(self) -> None:
        """Let other sessions write the files."""
        self._locks.close()

    def _end(self, nodeid: str) -> None:
        if self._run is not None:
            test = test_of(self._hooks.reports.tests[nodeid], str(self._settings.root))
            for each in self._files:
                each.writer.add(self._now(), test)
            self._ended.add(nodeid)

    def _now(self) -> Run:
        assert self._run is not None
        return msgspec.structs.replace(self._run, duration_s=round(time.monotonic() - self._started_s, 3))

    def _new_run(self) -> Run:
        commit, branch = git_head(self._settings.root)
        unset = ("enabled", *_WRITERS)
        options = {each.name: getattr(self._settings, each.name) for each in OPTIONS}
        return Run(
            started=datetime.now(UTC).isoformat(timespec="milliseconds"),
            plugin_version=__version__,
            pytest_version=pytest.__version__,
            commit=commit,
            branch=branch,
            machine=_machine(),
            options={name: value for name, value in options.items() if value is not None and name not in unset},
            tests=(),
        )


def test_of(reported: ReportedTest, root: str) -> Test:
    """Return a test as the file has it; `root` is pytest's root directory, which paths are relative to."""
    cut = f"\n... and {len(reported.message) - MOST_TEXT} more characters"
    return Test(
        nodeid=reported.found.nodeid,
        outcome=reported.ended,
        is_breach=reported.found.is_breach,
        duration_s=round(reported.duration_s, 3),
        message=reported.message[:MOST_TEXT] + (cut if len(reported.message) > MOST_TEXT else ""),
        measurements=tuple(measurement_of(each, root) for each in reported.found.outcomes),
        comparisons=tuple(map(comparison_of, reported.found.comparisons)),
        spent=tuple(map(time_spent_of, reported.found.spent)),
        matrix=reported.found.place,
    )


def _file(config: pytest.Config, name: str, given: str) -> _File:
    path, option = output_path(config, name, given)
    check_writable(path, option)
    return _File(_WHAT[name], path, _WRITERS[name](path))


@contextmanager
def _alone(file: _File) -> Iterator[None]:
    """Keep other sessions from a file, as the later one would take away what the earlier has written.

    Raises:
        pytest.UsageError: One writes it already.
    """
    try:
        lock = file_lock(file.path)
        lock.acquire(timeout=0)
    except Timeout:
        msg = f"{file.path}: another session of pytest writes it: wait for its end, or give another name"
        raise pytest.UsageError(msg) from None
    except MeasurementError as error:
        raise pytest.UsageError(str(error)) from None
    try:
        yield
    finally:
        lock.release()


def _machine() -> Machine:
    return Machine(
        node=platform.node(),
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        cpu=describe_device("cpu", {}).name,
        cores=cores(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )
