"""The hooks of a measuring session: prepare, judge, carry to the controller, write baselines, report."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from .against import close, plain, reference_of, take
from .core.errors import OnnxPerfError
from .core.outcome import TestOutcome
from .core.stages import slowest
from .declare import BUDGET
from .ending import Ending
from .matrix_tests import place_of
from .plugin import measures
from .report import against, text
from .report.comparison import comparison_lines, comparison_properties
from .report.device_state import state_lines
from .report.durations import duration_lines
from .report.recorded import recorded_lines
from .report.summary import header_lines, prefixed_lines, summary_lines
from .reported import Reports
from .runtime.child.machine import cores
from .session import BROKEN, COMPARISONS, JUDGED, OUTCOMES, SPENT, ActiveSession, today, write_baselines
from .transport import attach, is_breach

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

RAISED: pytest.StashKey[BaseException | None] = pytest.StashKey()
"""What failed or skipped a test by its budget or baseline; None where nothing did."""


class Hooks:
    """Registered under --onnxperf."""

    def __init__(self, active: ActiveSession) -> None:
        self._active = active
        self.reports = Reports()
        self.recorded: list[str] | None = None
        """What an update says, known when the session has finished; None where nothing is updated."""
        self.uncollected: dict[str, None] = {}
        """Modules and classes whose tests could not be collected."""
        self.ending = Ending(self.reports)

    # -- before ----------------------------------------------------------------------------------------------------

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Say what will be measured: runtime, EP, device, baselines."""
        if config.option.collectonly:
            return []
        reference = reference_of(config, self._active.settings)
        lines = [] if reference is None else prefixed_lines(against.header_line(reference.text, reference.versions))
        try:
            environment = self._active.environment()
        except OnnxPerfError as error:
            return [*lines, *prefixed_lines(str(error))]
        store, key = self._active.store, environment.key
        state = prefixed_lines("\n".join(state_lines(*self._active.state(environment), cores())))
        return lines + header_lines(
            environment, str(self._active.settings.baseline_dir), store.environment_keys(), store.latest_date(key),
            today(),
            is_auto=not self._active.settings.names_ep, not_running=self._active.prober.not_running(), state=state,
        )  # fmt: skip

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what was probed, so that it need not probe again."""
        node.workerinput["onnxperf_probe"] = self._active.prober.findings()
        reference = reference_of(node.config, self._active.settings)
        if reference is not None:
            node.workerinput["onnxperf_against"] = plain(reference)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """In a worker, take what the controller probed and resolved."""
        workerinput = getattr(session.config, "workerinput", {})
        if "onnxperf_probe" in workerinput:
            self._active.prober.take(workerinput["onnxperf_probe"])
        if "onnxperf_against" in workerinput:
            take(session.config, workerinput["onnxperf_against"])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember what could not be collected, also by workers: pytest can be told to go on without."""
        if report.failed:
            self.uncollected[report.nodeid] = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Resolve the reference before the first measurement, also where there was no header."""
        if any(map(measures, session.items)) and not session.config.option.collectonly:
            reference_of(session.config, self._active.settings)

    # -- each test -------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keep what a test measured that something ends, in whichever phase: pytest makes no report of that one."""
        try:
            return (yield)
        except BaseException as error:
            is_cut = isinstance(error, KeyboardInterrupt | pytest.exit.Exception) or not self.reports.has_ended(item)
            if is_cut and _is_measuring(item) and OUTCOMES in item.stash:
                found = _found(item, is_breach=self._is_broken(item))
                self.reports.interrupt(found, item.location, text.failure(item.nodeid, found.outcomes))
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)  # within those that every test needs, as of caplog
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check the markers: what is wrong in one fails its test before it runs."""
        item.stash[RAISED] = None
        try:
            self._active.prepare(item)
        except OnnxPerfError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        try:
            return (yield)
        except BaseException as error:
            self._raise_if_skipped(item, error)
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge what the test measured once its own code has passed."""
        try:
            result = yield
        except BaseException as error:
            self._raise_if_skipped(item, error)
            raise
        finally:
            item.stash[JUDGED] = True
        self._raise(item)
        return result

    def _raise_if_skipped(self, item: pytest.Item, error: BaseException) -> None:
        """To skip after a breach does not undo it."""
        if _is_skip(error) and self._is_broken(item):
            self._raise(item)

    def _is_broken(self, item: pytest.Item) -> bool:
        fails = any(outcome.verdict.fails for outcome in self._active.outcomes(item))
        return fails or item.stash.get(BROKEN, None) is not None

    def _raise(self, item: pytest.Item) -> None:
        outcomes = self._active.outcomes(item)
        if not outcomes and item.get_closest_marker(BUDGET):
            has_benchmark = "benchmark" in getattr(item, "fixturenames", ())
            has_compared = bool(item.stash.get(COMPARISONS, []))
            why = text.nothing_measured(has_benchmark=has_benchmark, has_compared=has_compared)
            pytest.fail(why, pytrace=False)
        if any(outcome.verdict.fails for outcome in outcomes):
            breach = pytest.fail.Exception(text.failure(item.nodeid, outcomes), pytrace=False)
            item.stash[RAISED] = breach
            raise breach from None
        if any(outcome.verdict.skips for outcome in outcomes):
            skip = pytest.skip.Exception(text.skip_reason(outcomes))
            item.stash[RAISED] = skip
            raise skip
        swallowed = item.stash.get(BROKEN, None)
        if swallowed is not None:  # a test that catches what `require` raised has not passed by that
            raise swallowed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put numbers into JUnit's properties, the table into a section, and the outcome onto the report."""
        # The last phase to measure in: a fixture may have, also one of a setup that fails.
        is_last = call.when == "call" or (call.when == "setup" and call.excinfo is not None)
        found = _found(item) if is_last else TestOutcome(item.nodeid, ())
        outcomes, comparisons = found.outcomes, found.comparisons
        if is_last:  # JUnit takes the properties of the item, as they are when its teardown is reported
            others = [(name, value) for name, value in item.user_properties if not name.startswith("onnxperf.")]
            item.user_properties[:] = [*others, *text.properties(outcomes), *comparison_properties(comparisons)]
        report = yield
        # One that is skipped, or fails before it measures, is known too.
        if call.when == "setup" and _is_measuring(item):
            attach(report, TestOutcome(item.nodeid, (), place=place_of(item)))
        is_broken = call.excinfo is not None and call.excinfo.value is item.stash.get(BROKEN, None)
        is_breach = False
        if outcomes:
            _undo_skip(item, call, report)
            # What unittest.TestCase caught comes to light in `call` only now: the test's own failure goes first.
            is_ours = call.excinfo is not None and call.excinfo.value is item.stash[RAISED]
            is_breach = is_ours and isinstance(item.stash[RAISED], pytest.fail.Exception)
            if is_ours and not is_breach:  # the place of a skip is its test, not this file
                path, line, _ = item.reportinfo()
                report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {text.skip_reason(outcomes)}")
            if report.failed and not is_breach and any(outcome.verdict.fails for outcome in outcomes):
                report.sections.append(("onnxperf", text.failure(item.nodeid, outcomes)))
            if item.config.get_verbosity() > 0:
                report.sections.append(("onnxperf op tables", text.tables(outcomes)))
        if outcomes or comparisons or is_broken or found.spent:
            attach(report, replace(found, is_breach=is_breach or is_broken))
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Give a broken budget or a regression its own letter."""
        if report.failed and is_breach(report):
            return "failed", "P", "PERF"
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the reports, on the controller where there are workers."""
        self.reports.take(report)

    @property
    def _tests(self) -> list[TestOutcome]:
        return [test.found for test in self.reports.tests.values()]

    # -- after -----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Write the baselines of the tests that passed, before another plugin can fail."""
        self._record(session)
        return (yield)

    def _record(self, session: pytest.Session) -> None:
        self.reports.end()
        if self._active.settings.update and not hasattr(session.config, "workerinput"):
            tests = list(self.reports.tests.values())
            passed = [test.found for test in tests if test.has_passed]
            updated, not_updated = write_baselines(self._active.store, self._active.settings, passed)
            new_alone = self._active.settings.update_mode == "new"
            self.recorded = recorded_lines(tests, updated, not_updated, new_alone=new_alone)
            if not_updated and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Remove the files of the reference, however the session ended."""
        close(config)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Say what was judged, what was not and why, and what was updated."""
        lines = summary_lines(
            [outcome for test in self._tests for outcome in test.outcomes],
            recorded=self.recorded, verbosity=config.get_verbosity(), explaining=self._active.settings.explain,
        )  # fmt: skip
        compared = [record for test in self._tests for record in test.comparisons]
        lines += comparison_lines(compared, config.get_verbosity())
        if lines:
            terminalreporter.write_sep("=", "onnxperf")
        for line in lines:
            terminalreporter.write_line(line)
        if self._active.settings.durations is not None and not config.option.collectonly:
            self._write_durations(terminalreporter, self._active.settings.durations)

    def _write_durations(self, terminalreporter: TerminalReporter, most: int) -> None:
        spent = slowest([each for test in self._tests for each in test.spent], most)
        terminalreporter.write_sep("=", "onnxperf durations")
        for line in duration_lines(spent):
            terminalreporter.write_line(line)


def _is_measuring(item: pytest.Item) -> bool:
    return measures(item) or item.get_closest_marker(BUDGET) is not None


def _undo_skip(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put the breach of a `unittest.TestCase` that was skipped after it back into the call and its report."""
    breach = item.stash[RAISED]
    is_undone = call.excinfo is not None and _is_skip(call.excinfo.value) and call.excinfo.value is not breach
    if is_undone and isinstance(breach, pytest.fail.Exception):
        call.excinfo = pytest.ExceptionInfo.from_exception(breach)
        report.outcome, report.longrepr = "failed", item.repr_failure(call.excinfo)


def _found(item: pytest.Item, *, is_breach: bool = False) -> TestOutcome:
    """Return what a test has measured so far."""
    outcomes, comparisons = item.stash.get(OUTCOMES, []), item.stash.get(COMPARISONS, [])
    spent = item.stash.get(SPENT, [])
    return TestOutcome(item.nodeid, tuple(outcomes), is_breach, tuple(comparisons), place_of(item), tuple(spent))


def _is_skip(error: BaseException) -> bool:
    return isinstance(error, pytest.skip.Exception | unittest.SkipTest)
