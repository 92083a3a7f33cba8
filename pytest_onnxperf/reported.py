"""What the reports of a session say of each test that measures, gathered on the controller where there are workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .core.outcome import Ended, ReportedTest, TestOutcome
from .transport import detach

if TYPE_CHECKING:
    import pytest

_CRASHED: Final = "???"
"""The phase of a report of pytest-xdist on a test that took its worker along."""


class Reports:
    """All reports so far. A test that runs again counts as it ended."""

    def __init__(self) -> None:
        self._tests: dict[str, ReportedTest] = {}
        self._seen: set[str] = set()

    @property
    def tests(self) -> tuple[ReportedTest, ...]:
        """The tests that measure."""
        return tuple(self._tests.values())

    @property
    def tests_run(self) -> int:
        """How many tests there were of all kinds."""
        return len(self._seen)

    def take(self, report: pytest.TestReport) -> None:
        """Take one phase of a test."""
        self._seen.add(report.nodeid)
        found, known = detach(report), self._tests.get(report.nodeid)
        if report.when == "setup":
            known = None
        is_crash = report.when == _CRASHED  # type: ignore[comparison-overlap]  # pytest-xdist's word
        if found is None and known is None and not is_crash:
            return
        before = known or ReportedTest(TestOutcome(report.nodeid, ()), "passed")
        path, line, _ = report.location
        ended, message = _ended(report, before)
        self._tests[report.nodeid] = ReportedTest(found or before.found, ended, message, path, (line or 0) + 1)


def _ended(report: pytest.TestReport, before: ReportedTest) -> tuple[Ended, str]:
    # Not `longreprtext`, which begins with a line on the worker of pytest-xdist.
    text = str(report.longrepr or "")
    if report.failed:
        message = "\n\n".join(each for each in (before.message, text) if each)
        return "failed" if report.when == "call" or before.ended == "failed" else "error", message
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed", str(report.wasxfail)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else text
        return "skipped", reason.removeprefix("Skipped: ")
    return before.ended, before.message
