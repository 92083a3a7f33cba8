"""What the reports of a session say of each test that measures, gathered on the controller where there are workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .core.outcome import Ended, ReportedTest, TestOutcome
from .transport import detach

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

CRASHED: Final = "???"
"""The phase of a report of pytest-xdist on a test that took its worker along."""
INTERRUPTED: Final = "it did not come to its end: the session was interrupted"


class Reports:
    """All reports so far. A test that runs again counts as it ended."""

    def __init__(self) -> None:
        self._tests: dict[str, ReportedTest] = {}
        self._seen: set[str] = set()
        self._begun: dict[str, None] = {}

    @property
    def tests(self) -> Mapping[str, ReportedTest]:
        """The tests that measure, by nodeid."""
        return self._tests

    @property
    def tests_run(self) -> int:
        """How many tests there were of all kinds."""
        return len(self._seen)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The tests that measure and have no teardown yet, by nodeid."""
        return tuple(nodeid for nodeid in self._begun if nodeid in self._tests)

    def take(self, report: pytest.TestReport) -> None:
        """Take one phase of a test."""
        self._seen.add(report.nodeid)
        self._begun[report.nodeid] = None
        if report.when in ("teardown", CRASHED):
            del self._begun[report.nodeid]
        found, known = detach(report), self._tests.get(report.nodeid)
        if report.when == "setup":
            known = None
        is_crash = report.when == CRASHED  # type: ignore[comparison-overlap]  # pytest-xdist's word
        if found is None and known is None and not is_crash:
            return
        before = known or ReportedTest(TestOutcome(report.nodeid, ()), "passed")
        path, line, _ = report.location
        self._tests[report.nodeid] = ReportedTest(
            found or before.found, *_ended(report, before), path, (line or 0) + 1, before.duration_s + report.duration
        )

    def interrupt(self, found: TestOutcome) -> None:
        """Take what a test had found when an interrupt ended the session; pytest reports nothing of it."""
        if found.nodeid in self._tests:
            self._tests[found.nodeid] = replace(self._tests[found.nodeid], found=found)

    def end(self) -> None:
        """End the session: a test without a teardown has not passed, whatever it did before."""
        for nodeid in self.unfinished:
            if self._tests[nodeid].has_passed:
                self._tests[nodeid] = replace(self._tests[nodeid], ended="error", message=INTERRUPTED)


def _ended(report: pytest.TestReport, before: ReportedTest) -> tuple[Ended, str]:
    """Return how a test ended and why: one that failed, and whose teardown fails too, has failed."""
    if report.failed:
        text = str(report.longrepr or "")  # not `longreprtext`, which begins with a line on the worker of pytest-xdist
        if before.message and text:  # as of a teardown, after the failure of the test itself
            text = f"{before.message}\n\nIn its {report.when}:\n{text}"
        return "failed" if report.when == "call" or before.ended == "failed" else "error", text or before.message
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed", str(report.wasxfail)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        return "skipped", reason.removeprefix("Skipped: ")
    return before.ended, before.message
