"""The tables of a matrix, one for each model: every cell beside its reference, and the best cell of each metric.

A ratio is a speed-up: above 1 the cell is better than its reference, whichever side of the metric is better. It is a
quotient of two medians, not a verdict: noise lies between processes, so cells within `TIE` of the best are named too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from .matrix_axes import MODEL
from .matrix_place import MatrixPlace
from .metrics import METRIC, METRICS
from .providers import short_name
from .results import Test
from .results_measured import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .results import Results
    from .results_measured import Metric

TIE: Final = 1.05
"""Cells whose value is within this ratio of the best are as good. Source: the default tolerance of a baseline."""
_SOUND: Final = ("passed", "xpassed")


@dataclass(frozen=True, slots=True)
class RunTest:
    """One test of one run."""

    test: Test
    run: int = 0
    """Number of the run among those that are read."""
    build: Mapping[str, str] = field(default_factory=dict)
    """What the whole run was built from: `pytest-onnxperf`, `commit`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell as it was measured, or as it was not."""

    name: str
    """The cell's id; where it was measured several times, with what tells them apart."""
    place: MatrixPlace
    run: int
    measurement: Measurement | None
    """None where the test measured nothing."""
    state: str
    """Of the measurement, or the outcome of a test that did not come to one, or failed by something else."""
    why: str = ""
    """Why it was skipped or failed, the first line."""
    is_sound: bool = True
    """False where the test failed by something else than a limit: what is wrong is not fast."""
    build: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    """Name of the row that it is compared with; empty without one, and for a reference itself."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Metric -> how many times better than the reference."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """What can be compared."""
        return self.measurement.metrics if self.measurement is not None and self.is_sound else {}


@dataclass(frozen=True, slots=True)
class Best:
    """The best row of a metric, and those that are as good."""

    metric: str
    row: Row
    ties: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One model of one test."""

    title: str
    """The test, its label, and the model where the matrix has several."""
    rows: tuple[Row, ...]
    metrics: tuple[str, ...]
    """The main metrics that a row has, in the order of `METRICS`."""
    best: tuple[Best, ...]
    builds: Mapping[str, Mapping[str, int]]
    """`onnxruntime`, `device of cpu`, ... -> its versions -> rows."""
    notes: Mapping[str, tuple[str, ...]]
    """What was not measured, not compared or disturbed, and why -> names of rows."""

    @property
    def mixed(self) -> Mapping[str, Mapping[str, int]]:
        """What differs between rows: they are not the same build."""
        return {name: found for name, found in self.builds.items() if len(found) > 1}


def run_tests_of(results: Results) -> list[RunTest]:
    """Return the tests of all runs of a file."""
    return [
        RunTest(test, number, {"pytest-onnxperf": run.plugin_version, **({"commit": run.commit} if run.commit else {})})
        for number, run in enumerate(results.runs)
        for test in run.tests
    ]


def tables_of(tests: Iterable[RunTest]) -> list[Table]:
    """Return the tables of all matrices: one for each test, label and model.

    Where cells are compared with a reference of another model, all models stand in one table.
    """
    of_test: dict[str, list[RunTest]] = {}
    for each in tests:
        if each.test.matrix is not None:
            of_test.setdefault(each.test.matrix.table, []).append(each)
    tables = []
    for name, cells in of_test.items():
        labels = dict.fromkeys(one.label for each in cells for one in each.test.measurements) or {"": None}
        for label in labels:
            title = f"{name}#{label}" if label else name
            groups: dict[str, list[Row]] = {}
            for row in _rows(cells, label):
                groups.setdefault(_model_of(row, cells), []).append(row)
            tables += [_table(f"{title}, {model}" if model else title, rows) for model, rows in groups.items()]
    return tables


def _model_of(row: Row, cells: Sequence[RunTest]) -> str:
    """Return the model whose table a row stands in; empty where one table has them all."""
    for each in cells:
        place = each.test.matrix
        if place is not None and place.reference and place.reference.get(MODEL) != place.coordinates.get(MODEL):
            return ""
    return row.place.coordinates.get(MODEL, "")


def _rows(cells: Sequence[RunTest], label: str) -> Iterator[Row]:
    """Yield a row for each cell, also where it has no measurement of this label."""
    for each in cells:
        test = each.test
        assert test.matrix is not None
        found = next((one for one in test.measurements if one.label == label), None)
        is_sound = test.outcome in _SOUND or test.is_breach
        state = test.outcome if not is_sound else found.state if found is not None else "nothing measured"
        why = "" if is_sound and found is not None else _reason(test.message)
        build = {**each.build, **(_build_of(found) if found is not None else {})}
        yield Row(test.matrix.id, test.matrix, each.run, found, state, why, is_sound, build)


def _reason(message: str) -> str:
    """Return the line that says most: that of the exception, which pytest puts behind an E below the source.

    Without one it is the first line of ours, with the indented lines that it goes on in.
    """
    lines = message.splitlines()
    raised = next((line[1:].strip() for line in lines if line.startswith("E  ")), "")
    going_on = itertools.takewhile(lambda line: line.startswith("  ") and line.strip(), lines[1:])
    return raised or " ".join(line.strip() for line in (*lines[:1], *going_on))


def _build_of(measured: Measurement) -> dict[str, str]:
    place = measured.environment
    return {**place.versions, f"device of {short_name(place.execution_provider)}": place.device}


def _table(title: str, found: Sequence[Row]) -> Table:
    named = list(_named_apart(sorted(found, key=lambda row: row.place.order)))  # workers end in any order
    compared = [_compared(row, named) for row in named]
    rows = tuple(row for row, _ in compared)
    main = tuple(each.name for each in METRICS if each.gated and any(each.name in row.metrics for row in rows))
    builds: dict[str, dict[str, int]] = {}
    for row in rows:
        for name, version in row.build.items() if row.measurement is not None else ():
            counts = builds.setdefault(name, {})
            counts[version] = counts.get(version, 0) + 1
    notes: dict[str, list[str]] = {}
    for row, note in compared:
        for text in _notes(row, note):
            notes.setdefault(text, []).append(row.name)
    best = tuple(_best(name, rows) for name in main)
    return Table(title, rows, main, best, builds, {text: tuple(names) for text, names in notes.items()})


def _named_apart(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows, those of one cell told apart by what differs in their builds, or else by a number."""
    same: dict[str, list[Row]] = {}
    for row in rows:
        same.setdefault(row.place.id, []).append(row)
    for row in rows:
        others = same[row.place.id]
        keys = [key for key in row.build if len({each.build.get(key) for each in others}) > 1]
        details = [", ".join(f"{key} {each.build.get(key)}" for key in keys) for each in others]
        place = next(number for number, each in enumerate(others) if each is row)
        detail = details[place] if details.count(details[place]) == 1 else str(place + 1)
        yield replace(row, name=f"{row.name} [{detail}]") if len(others) > 1 else row


def _compared(row: Row, rows: Sequence[Row]) -> tuple[Row, str]:
    """Return a row with its ratios, or why it has none; the reference of its own run goes before those of others."""
    wanted = row.place.reference
    if wanted is None or row.place.is_reference or not row.metrics:
        return row, ""
    candidates = [each for each in rows if each.place.coordinates == wanted]
    candidates = [each for each in candidates if each.run == row.run] or candidates
    name = "-".join(wanted.values())
    if len(candidates) != 1:
        why = "was not run" if not candidates else f"stands {len(candidates)} times, none of them of the same run"
        return row, f"no ratio to {name}: it {why}"
    (other,) = candidates
    if not other.metrics:
        return row, f"no ratio to {other.name}: {other.state}"
    ratios = {}
    for metric, mine in row.metrics.items():
        theirs = other.metrics.get(metric)
        if theirs is not None and mine.value > 0 and theirs.value > 0:
            ratio = theirs.value / mine.value
            ratios[metric] = ratio if mine.better == "less" else 1 / ratio
    return replace(row, reference=other.name, ratios=ratios), ""


def _best(metric: str, rows: Sequence[Row]) -> Best:
    having = [row for row in rows if metric in row.metrics]
    sign = 1 if METRIC[metric].better == "less" else -1
    first, *others = sorted(having, key=lambda row: sign * row.metrics[metric].value)
    best = first.metrics[metric].value
    ties = [row for row in others if 1 / TIE <= row.metrics[metric].value / best <= TIE] if best > 0 else []
    return Best(metric, first, tuple(ties))


def _notes(row: Row, not_compared: str) -> Iterator[str]:
    if not row.metrics:
        yield f"{row.state}: {row.why}" if row.why else row.state
    if not_compared:
        yield not_compared
    if row.measurement is not None and row.measurement.disturbance:
        yield "disturbed by other processes while it was timed"
