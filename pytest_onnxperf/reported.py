"""What the reports of a session say of each test that measures, gathered on the controller where there are workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .core.outcome import Ended, ReportedTest, TestOutcome
from .transport import detach

if TYPE_CHECKING:
    import pytest

CRASHED: Final = "???"
"""The phase of a report of pytest-xdist on a test that took its worker along."""


def without_failure(report: pytest.TestReport, ended: Ended, message: str) -> tuple[Ended, str]:
    """Return how a test ended and why, after a phase that did not fail; `ended` and `message` are those before it."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed", str(report.wasxfail)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        return "skipped", reason.removeprefix("Skipped: ")
    return ended, message


@dataclass(slots=True)
class Reported:
    """What the reports of one test have said so far."""

    found: TestOutcome
    outcome: Ended = "passed"
    duration_s: float = 0.0
    message: str = ""

    def take(self, report: pytest.TestReport) -> None:
        """Take one phase."""
        self.duration_s += report.duration
        if report.failed:
            self.outcome = "failed" if report.when == "call" else "error"
            self.message = "\n\n".join(text for text in (self.message, report.longreprtext) if text)
        else:
            self.outcome, self.message = without_failure(report, self.outcome, self.message)


class OpenTests:
    """The tests that measure whose reports are still coming in."""

    def __init__(self) -> None:
        self.tests: dict[str, Reported] = {}

    def take(self, report: pytest.TestReport) -> Reported | None:
        """Take one phase, and return what is known of its test; None where that does not measure."""
        found = detach(report)
        if found is not None:
            if report.nodeid not in self.tests or report.when == "setup":
                self.tests[report.nodeid] = Reported(found)
            self.tests[report.nodeid].found = found
        elif report.when == CRASHED:  # type: ignore[comparison-overlap]  # pytest-xdist's word
            self.tests.setdefault(report.nodeid, Reported(TestOutcome(report.nodeid, ())))
        reported = self.tests.get(report.nodeid)
        if reported is not None:
            reported.take(report)
        return reported


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
        is_crash = report.when == CRASHED  # type: ignore[comparison-overlap]  # pytest-xdist's word
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
    return without_failure(report, before.ended, before.message)
