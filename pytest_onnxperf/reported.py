"""What the reports of a session say of each test that measures, gathered on the controller where there are workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .core.outcome import Ended, ReportedTest, TestOutcome
from .transport import detach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest

CRASHED: Final = "???"
"""The phase of a report of pytest-xdist on a test that took its worker along."""
RERUN: Final = "rerun"
"""The outcome of a report of pytest-rerunfailures on a try that failed."""
INTERRUPTED: Final = "it did not come to its end: the session ended before"


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

    def missing(self, nodeids: Iterable[str]) -> int:
        """Return of how many tests there is no report."""
        return len(set(nodeids) - self._seen)

    def has_ended(self, item: pytest.Item) -> bool:
        """Tell whether a test measures and has its teardown behind it."""
        return item.nodeid in self._tests and item.nodeid not in self._begun

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
        if found is None and known is None and not _is_crash(report):
            return
        before = known or ReportedTest(TestOutcome(report.nodeid, ()), "passed")
        path, line, _ = report.location
        ended, message = _ended(report, before)
        duration_s = before.duration_s + (0 if _is_subtest(report) else report.duration)  # the call's holds it
        test = ReportedTest(found or before.found, ended, message, path, (line or 0) + 1, duration_s)
        is_breach = test.found.is_breach and test.has_failed  # one that is expected to fail has not failed by it
        self._tests[report.nodeid] = replace(test, found=replace(test.found, is_breach=is_breach))

    def interrupt(self, found: TestOutcome, location: tuple[str, int | None, str], why: str) -> None:
        """Take what a test had found when an interrupt ended the session; pytest reports nothing of it.

        Args:
            found: Of the try that was interrupted.
            location: Of the test, as pytest has it: path, line from 0, name.
            why: What else there is to say than that it was interrupted; may be empty.
        """
        self._seen.add(found.nodeid)
        self._begun[found.nodeid] = None
        path, line, _ = location
        known = self._tests.get(found.nodeid)
        before = known or ReportedTest(found, "error", path=path, line=(line or 0) + 1)
        message = "\n\n".join(part for part in (INTERRUPTED, why) if part)
        if known and known.has_failed:
            self._tests[found.nodeid] = replace(known, found=found if found.outcomes else known.found)
        else:
            self._tests[found.nodeid] = replace(before, ended="error", message=message, found=found)

    def end(self) -> None:
        """End the session: a test without a teardown has not passed, whatever it did before."""
        for nodeid in self.unfinished:
            if self._tests[nodeid].has_passed:
                self._tests[nodeid] = replace(self._tests[nodeid], ended="error", message=INTERRUPTED)


def _is_crash(report: pytest.TestReport) -> bool:
    return report.when == CRASHED  # type: ignore[comparison-overlap]  # pytest-xdist's word


def _is_subtest(report: pytest.TestReport) -> bool:
    """Tell whether a report is of a part of a test's call, as pytest's own fixture and unittest have them."""
    return hasattr(report, "context")


def _ended(report: pytest.TestReport, before: ReportedTest) -> tuple[Ended, str]:
    """Return how a test ended and why: one that failed, and whose teardown fails too, has failed."""
    is_rerun = report.outcome == RERUN  # type: ignore[comparison-overlap]  # the word of pytest-rerunfailures
    if report.failed or is_rerun:  # after which another try may never come
        text = str(report.longrepr or "")  # not `longreprtext`, which begins with a line on the worker of pytest-xdist
        if before.message and text:  # as of a teardown, after the failure of the test itself
            where = "" if _is_crash(report) else f"In its {report.when}:\n"
            text = f"{before.message}\n\n{where}{text}"
        return "failed" if report.when == "call" or before.ended == "failed" else "error", text or before.message
    if report.when == "teardown" or _is_subtest(report):  # what these skip is not the test
        return before.ended, before.message
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed", str(report.wasxfail)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        return "skipped", reason.removeprefix("Skipped: ")
    return before.ended, before.message
