"""The session as Markdown: a file, GitHub's job summary, and annotations; written once, by the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from .outputs import SUMMARY, output_path
from .report.annotations import annotation_lines
from .report.markdown import Session, page
from .runtime.report_file import append_summary, check_writable

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from .core.outcome import ReportedTest
    from .hooks import Hooks
    from .settings import Settings

_FILE_BYTES: Final = 65_000
"""A comment of GitHub holds 65 536 characters: "Body is too long (maximum is 65536 characters)" says its API."""


def register_markdown(config: pytest.Config, hooks: Hooks, settings: Settings) -> None:
    """Register what writes, where something is to be written.

    Raises:
        SettingError: The file cannot be written.
    """
    if settings.markdown or os.environ.get(SUMMARY) or _is_github():
        config.pluginmanager.register(MarkdownHooks(config, hooks, settings), "onnxperf-markdown")


def _is_github() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


class MarkdownHooks:
    """Registered where something reads it, and not in a worker of pytest-xdist."""

    def __init__(self, config: pytest.Config, hooks: Hooks, settings: Settings) -> None:
        self._hooks, self._settings = hooks, settings
        self._path: Path | None = None
        self._summary = os.environ.get(SUMMARY, "")
        self._warnings: list[str] = []
        self._is_active = not config.option.collectonly
        hooks.ending.finishers.append(self.pytest_sessionfinish)
        if settings.markdown:
            self._path, option = output_path(config, "markdown", settings.markdown)
            check_writable(self._path, option)

    def pytest_sessionstart(self) -> None:
        """Leave no page of an earlier session, should this one be killed."""
        if self._is_active and self._path is not None:
            self._write(self._path, Session((), 0, stopped="it still runs, or was killed", is_running=True))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write, when the baselines are written."""
        if not self._is_active:
            return
        found = Session(
            tuple(self._hooks.reports.tests.values()), self._hooks.reports.tests_run,
            self._hooks.recorded,
            self._hooks.ending.stopped_text(session), tuple(self._hooks.uncollected),
        )  # fmt: skip
        if self._path is not None and not self._write(self._path, found):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if self._summary:
            summary, self._summary = self._summary, ""  # once, whatever fails afterwards
            try:
                append_summary(Path(summary), lambda most_bytes: page(found, most_bytes))
            except OSError as error:  # whoever runs the tests did not ask for it
                self._warnings.append(f"WARNING: no job summary, {SUMMARY}={summary}: {error.strerror}")

    def _write(self, path: Path, session: Session) -> bool:
        try:
            path.write_bytes(page(session, _FILE_BYTES).encode())
        except OSError as error:
            self._warnings.append(f"WARNING: {path} could not be written: {error.strerror}")
            return False
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Say what could not be written, and annotate breaches."""
        if self._path is not None and self._is_active:
            terminalreporter.write_sep("-", f"onnxperf Markdown: {self._path}")
        lines = [f"onnxperf: {warning}" for warning in self._warnings]
        if _is_github():
            lines += annotation_lines(tuple(self._hooks.reports.tests.values()), self._path_of)
        for line in lines:
            terminalreporter.write_line(line)

    def _path_of(self, test: ReportedTest) -> str:
        """Return the path that GitHub knows a test's file by: from its workspace, else from pytest's root directory."""
        workspace = os.environ.get("GITHUB_WORKSPACE", "")
        path = (self._settings.root / test.path).resolve()
        for base in (Path(workspace).resolve() if workspace else None, self._settings.root.resolve()):
            if base is not None and path.is_relative_to(base):
                return path.relative_to(base).as_posix()
        return Path(test.path).as_posix()
