"""Results as rows, a quantity of a measurement each, from which the formats of other tools are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from pytest_onnxperf.core.baseline import FEWER_IS_BETTER
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.results import Run, Test
from pytest_onnxperf.core.results_measured import AbComparison, Measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_onnxperf.core.results import Results
    from pytest_onnxperf.core.results_facts import Facts
    from pytest_onnxperf.core.results_measured import Environment

RATIO: Final = "ratio"
_FACTS: Final = ("memcpy", "cpu_nodes", "nodes")


@dataclass(frozen=True, slots=True)
class Subject:
    """One measurement, or one comparison, by a name that no other of its kind has."""

    title: str
    """The test's node id and the label, and where they stand several times what tells them apart."""
    run: Run
    test: Test
    measurement: Measurement
    """Of a comparison its candidate."""
    comparison: AbComparison | None = None

    @property
    def label(self) -> str:
        """What tells several of one test apart."""
        return self.measurement.label if self.comparison is None else self.comparison.label

    @property
    def environment(self) -> Environment:
        """Where it was measured."""
        return self.measurement.environment


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity."""

    subject: Subject
    name: str
    """Of the metric or fact, without a unit: `latency_p50`, `decode_memcpy`, `speedup`."""
    label: str
    """The same for people: `latency p50`."""
    unit: str
    """`ms`, `MiB`, `/s`, `tok/s`, `nodes`, `ratio`."""
    better: Literal["less", "more", ""]
    """Empty where neither side is."""
    value: float
    """Of a metric the median over the processes."""
    low: float | None = None
    high: float | None = None
    """The least and the most of the processes, where there are several; of a speed-up its 99 % interval."""

    @property
    def is_tail(self) -> bool:
        """Whether it is a quantile of the tail, or an extreme: noisy, so that no gate of ours judges it."""
        return self.name.endswith(("_p90", "_p99", "_max", "_min"))


def subjects_of(results: Results) -> list[Subject]:
    """Return every measurement and comparison, in the order of the file."""
    subjects = []
    for run in results.runs:
        for test in run.tests:
            for one in test.measurements:
                subjects.append(Subject(_title(test, one.label), run, test, one))
            for each in test.comparisons:
                subjects.append(Subject(_title(test, each.label), run, test, each.candidate, each))
    for detail in (_place, _versions, _ordinal):
        subjects = _told_apart(subjects, detail)
    return subjects


def _title(test: Test, label: str) -> str:
    return f"{test.nodeid}#{label}" if label else test.nodeid


def _told_apart(subjects: Sequence[Subject], detail: Callable[[Subject, int], str]) -> list[Subject]:
    keys = [(subject.title, subject.comparison is None) for subject in subjects]
    counts, seen = Counter(keys), Counter[tuple[str, bool]]()
    renamed = []
    for key, subject in zip(keys, subjects, strict=True):
        seen[key] += 1
        more = f" [{detail(subject, seen[key])}]" if counts[key] > 1 else ""
        renamed.append(replace(subject, title=subject.title + more))
    return renamed


def _place(subject: Subject, _number: int) -> str:
    return subject.environment.key


def _versions(subject: Subject, _number: int) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(subject.environment.versions.items()))


def _ordinal(_subject: Subject, number: int) -> str:
    return str(number)


def rows_of(subject: Subject) -> Iterator[Row]:
    """Yield the quantities of a measurement: metrics, then facts, of a generator by phase; of a comparison the ratio.

    Facts that cannot be told have no row: what was seen may be too low.
    """
    if subject.comparison is not None:
        found = subject.comparison
        if found.speedup is not None:
            yield Row(subject, "speedup", "speed-up", RATIO, "more", found.speedup, found.low, found.high)
        for name, part in found.parts.items():
            if part.ratio is not None:
                label = f"speed-up, {METRIC[name].label}"
                yield Row(subject, f"speedup_{name}", label, RATIO, "more", part.ratio, part.low, part.high)
        return
    measured = subject.measurement
    for name, metric in measured.metrics.items():
        ends = (min(metric.values), max(metric.values)) if len(metric.values) > 1 else (None, None)
        label = METRIC[name].label if name in METRIC else name.replace("_", " ")  # a later version may have more
        yield Row(subject, name, label, metric.unit, metric.better, metric.value, *ends)
    phases = measured.phases or ({"": measured.facts} if measured.facts is not None else {})
    for phase, facts in phases.items():
        yield from _fact_rows(subject, phase, facts)


def _fact_rows(subject: Subject, phase: str, facts: Facts) -> Iterator[Row]:
    if facts.unavailable:
        return
    unstable = {each.fact for each in facts.unstable}
    for name in _FACTS:
        if name not in unstable:
            better: Literal["less", ""] = "less" if name in FEWER_IS_BETTER else ""
            full = f"{phase}_{name}" if phase else name
            yield Row(subject, full, full.replace("_", " "), "nodes", better, float(getattr(facts, name)))
