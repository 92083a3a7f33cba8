"""What every fixture needs of its test: its execution provider, its plan, and the measurement that is kept."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from .against import TestAgainst, reference_of
from .core.benchmark_times import with_benchmark
from .core.budget import tolerance_of
from .core.compare_metrics import Beside, beside
from .core.errors import BaselineError, OnnxPerfError, ProviderError, SettingError
from .core.judge import is_suspicious
from .core.outcome import Outcome
from .core.providers import CPU, Provider, provider_of
from .core.record import Record, TestKey
from .core.stages import Spent
from .report.wrap import columns, hanging
from .runtime.against import NotComparableError
from .runtime.measure import Measurement
from .runtime.plan import Plan, Subject, reference_kinds
from .session import BUDGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .core.against import Against
    from .core.baseline import Entry
    from .core.benchmark_times import BenchmarkTimes
    from .core.judge import Verdict
    from .core.stages import Tell
    from .session import ActiveSession
    from .settings import Settings


_WIDTH: Final = 79
_OWN_TIMES: Final = "its times, those of the test's own process, were not compared with the reference"


class Workbench:
    """One test of a measuring session."""

    def __init__(self, active: ActiveSession, item: pytest.Item, new_directory: Callable[[], Path]) -> None:
        self._active, self._item, self._new_directory = active, item, new_directory

    @property
    def settings(self) -> Settings:
        """The settings of the test."""
        return self._active.settings_of(self._item)

    def demanded(self, ep: str | None) -> Provider | None:
        """Return the provider that the test demands by argument or marker; None where it leaves that to the options.

        A test that demands one which does not run here is skipped with the reason, unless the options name it too.

        Raises:
            OnnxPerfError: It is unknown, or it was named and does not run.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        name = ep if ep is not None else self.settings.ep if self.settings.ep_source == "marker" else None
        if name is not None and not isinstance(name, str):
            msg = f"ep: expected the name of an execution provider, got {name!r}"
            raise SettingError(msg)
        if name is None or name.lower() == "auto":
            return None
        provider = provider_of(name)
        reason = self._active.prober.why_not(provider) if provider.short != "cpu" else ""
        if reason:
            of_session = self._active.settings
            if of_session.names_ep and provider_of(of_session.ep) == provider:
                raise ProviderError(self._active.not_running(provider, reason, of_session.ep_source))
            pytest.skip(f"demands {provider.name}, which does not run here: {reason}")
        return provider

    def provider(self, ep: str | None) -> Provider:
        """Return the provider that the test demands, else that of the options.

        Raises:
            OnnxPerfError: It is unknown, or it was named and does not run.
        """
        __tracebackhide__ = True
        return self.demanded(ep) or self._active.provider(self.settings)

    def key(self, label: str) -> TestKey:
        """Return where a measurement of this test stands."""
        module, _, test = self._item.nodeid.partition("::")
        return TestKey(module, test, label)

    @contextmanager
    def underway(self, key: TestKey) -> Iterator[Tell]:
        """Show what goes on until the block ends, and keep where its time went; yield who is to be told."""
        progress = self._active.progress
        progress.begin(key.entry)
        try:
            yield progress.tell
        finally:
            self._active.spent(self._item).append(Spent(key, *progress.end()))

    def measure(self, subject: Subject, label: str, times: BenchmarkTimes | None = None) -> Record:
        """Measure, keep the record for the verdict at the end of the test, and return it.

        Args:
            subject: What is measured.
            label: Tells several measurements of one test apart.
            times: Those of the test's own process, where another plugin took them: then facts alone are measured.
        """
        if self._active.is_judged(self._item):
            msg = "measure() was called after the test's own code had ended, where nothing judges what it measures"
            raise failed(msg)
        label = self._checked_label(label)
        key = self.key(label)
        directory = self._new_directory()
        try:
            with self.underway(key) as tell:
                measurement, record, verdict, against = self._measured(subject, key, directory, tell, times)
                outcome = Outcome(record, verdict, against=against)
                if self.settings.explain or verdict.fails:
                    on_device = subject.provider.name != CPU
                    try:
                        explanation = measurement.explain(record, in_process=on_device or self.settings.explain)
                    except KeyboardInterrupt:  # what was measured is known all the same
                        self._active.outcomes(self._item).append(outcome)
                        raise
                    outcome = replace(outcome, explanation=explanation)
        except NotComparableError as error:
            raise failed(str(error)) from None
        except BaselineError as error:
            msg = f"the baseline of this test cannot be used.\n{error}"
            raise failed(msg) from None
        except OnnxPerfError as error:
            msg = f"{subject.model_text} could not be measured: {error}"
            raise failed(msg) from None
        except BaseException:  # Ctrl-C: nothing is left behind
            shutil.rmtree(directory, ignore_errors=True)
            raise
        self._active.keep(self._item, outcome, directory)
        return record

    def _measured(
        self,
        subject: Subject,
        key: TestKey,
        directory: Path,
        tell: Tell,
        times: BenchmarkTimes | None,
    ) -> tuple[Measurement, Record, Verdict, Against | None]:
        """Measure and judge, against the reference of the session where it has one, else against the baseline."""
        against = None
        reference = reference_of(self._item.config, self._active.settings)
        if reference is not None:
            arms = TestAgainst(self._active, self._item, reference)
            try:
                both = arms.measurement(subject, self._plan({}, times), directory, tell)
            except NotComparableError as error:
                against = arms.not_compared(subject.model_text, str(error))
            else:
                record = self._with(times, both.record(key, lambda _: both.is_suspicious()))
                if times is not None:
                    record = replace(record, warnings=(*record.warnings, _OWN_TIMES))
                return both, record, *arms.judge(both, key, record)
        environment = self._active.environment_of(subject.provider, subject.provider_options)
        budgets = self._item.stash[BUDGETS]
        tolerance = tolerance_of(budgets, environment, self.settings.tolerance)
        beside = self._beside(self._active.baseline_of(key, environment), tolerance, subject.provider)
        plan = self._plan(beside, times)
        measurement = Measurement(subject, plan, directory, tell)
        record = measurement.record(key, lambda record: is_suspicious(self._active.judge(self._item, record)))
        record = self._with(times, record)
        return measurement, record, self._active.judge(self._item, record), against

    def _with(self, times: BenchmarkTimes | None, record: Record) -> Record:
        return record if times is None or self.settings.timing == "off" else with_benchmark(record, times)

    def _checked_label(self, label: object) -> str:
        if not isinstance(label, str) or not (label.isprintable() or not label):
            msg = f"label: expected a text of one line, got {label!r}"
            raise failed(msg)
        taken = {outcome.record.key.label for outcome in self._active.outcomes(self._item)}
        if label in taken:
            msg = (
                f"this test has measured {'label ' + repr(label) if label else 'without a label'} already: give each "
                f"measurement its own, measure(..., label=...)"
            )
            raise failed(msg)
        return label

    def _beside(self, entry: Entry | None, tolerance: float, provider: Provider) -> dict[str, Beside]:
        """Return the reference workloads of a baseline by metric: those that judge, for an update those of this EP."""
        if entry is None:
            return {}
        if self.settings.update:
            kinds = set(reference_kinds(provider))
            return {
                metric: Beside(specs, workload=entry.workload)
                for metric, specs in entry.references.items()
                if set(specs) == kinds
            }
        found = {metric: beside(entry, metric, tolerance) for metric in entry.references}
        return {metric: each for metric, each in found.items() if each is not None}

    def _plan(self, references: Mapping[str, Beside], times: BenchmarkTimes | None = None) -> Plan:
        """Return how to measure, with rounds beside these reference workloads; an update finds those that miss.

        Where there are times already, none are taken.
        """
        s = self.settings
        return Plan(
            references=references if (references or s.update) and s.isolation == "process" else None,
            warmup_rounds=s.warmup_rounds,
            min_rounds=s.min_rounds,
            max_time_s=s.max_time,
            profile_runs=s.profile_runs,
            timeout_s=s.timeout,
            isolation=s.isolation,
            threads=s.threads,
            processes=s.baseline_processes if s.update else 1,
            timing=s.timing == "on" and times is None,
            device=s.device,
        )


def failed(message: str) -> BaseException:
    """Return the exception that fails a test with a message and no traceback of ours."""
    lines = [part for line in message.splitlines() for part in _wrapped(line)]
    return pytest.fail.Exception("\n".join(lines), pytrace=False)


def _wrapped(line: str) -> list[str]:
    """Break a long line of prose at 80 columns; what holds a long path stays as it is."""
    if columns(line) <= _WIDTH or any(columns(word) > _WIDTH for word in line.split()):
        return [line]
    return hanging(line, _WIDTH)
