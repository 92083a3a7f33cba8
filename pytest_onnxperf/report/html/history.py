"""Several runs put together: each test by its newest run, and what its metrics were in the runs before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import structs

from pytest_onnxperf.core.results import Run, Test
from pytest_onnxperf.core.results_text import encode
from pytest_onnxperf.core.units import quantity

from .checked import label_of
from .markup import Markup, element, joined, table
from .plots import plot
from .states import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_onnxperf.core.results import Results
    from pytest_onnxperf.core.results_measured import Measurement

MOST_RUNS: Final = 60
"""Of the history of a test, the newest. A choice: two months of nightly runs, and a table that can be read."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One test on one device, as the page shows it."""

    run: Run
    """The newest that has it."""
    test: Test
    """As it came out there."""
    quantiles: tuple[float, ...]
    """Where its distributions were taken."""
    earlier: tuple[tuple[Run, Test], ...] = ()
    """Older runs of the same test on the same device, oldest first."""


def entries_of(files: Iterable[Results]) -> list[Entry]:
    """Return every test of every file once, the newest run of it first in line; a test on two devices is two.

    A test that measured nothing, and so has no device, goes with the same test where that has just one.
    """
    found: dict[_Key, list[tuple[Run, Test, tuple[float, ...]]]] = {}
    places: dict[str, set[str]] = {}
    runs = runs_of(files)
    for run, _ in runs:
        for test in run.tests:
            places.setdefault(test.nodeid, set()).update(filter(None, [_place_of(test)]))
    for run, quantiles in runs:
        for test in run.tests:
            known = places[test.nodeid]
            place = _place_of(test) or (next(iter(known)) if len(known) == 1 else "")
            found.setdefault((test.nodeid, place), []).append((run, test, quantiles))
    return [
        Entry(*all_of[-1], tuple((run, test) for run, test, _ in all_of[:-1][-MOST_RUNS:])) for all_of in found.values()
    ]


def runs_of(files: Iterable[Results]) -> list[tuple[Run, tuple[float, ...]]]:
    """Return the runs, oldest first, each with the quantiles of its file.

    Those that are the same but for their tests are one, so that a file given twice changes nothing.
    """
    heads: dict[bytes, tuple[Run, tuple[float, ...]]] = {}
    for results in files:
        for run in results.runs:
            head = encode(structs.replace(run, tests=()))
            known, _ = heads.setdefault(head, (run, results.quantiles))
            if known is not run:
                more = [test for test in run.tests if test not in known.tests]
                heads[head] = structs.replace(known, tests=(*known.tests, *more)), results.quantiles
    return sorted(heads.values(), key=lambda each: each[0].started)


def _place_of(test: Test) -> str:
    measured = [*test.measurements, *(each.candidate for each in test.comparisons)]
    return measured[0].environment.key if measured else ""


def short_commit(run: Run) -> str:
    """Return the commit of a run as git shortens it; `-` where there is none."""
    return run.commit[:9] or "-"


def started(run: Run) -> str:
    """Return when a run started, to the second, in UTC as the file has it."""
    return run.started[:19].replace("T", " ")


def history(entry: Entry, measurement: Measurement) -> Markup | None:
    """Return the metrics of a measurement over the runs, as plots and as a table; None with one run."""
    past = [(run, test, found) for run, test in entry.earlier for found in _same(test, measurement)]
    if not past:
        return None
    runs = [*past, (entry.run, entry.test, measurement)]
    names = list(measurement.metrics)
    head = ["run, UTC", "commit", "state", *(f"{label_of(name)}, {measurement.metrics[name].unit}>" for name in names)]
    rows = [
        [
            started(run),
            short_commit(run),
            found.state or state_of(test),
            *(quantity(found.metrics[name].value, "") if name in found.metrics else "-" for name in names),
        ]
        for run, test, found in reversed(runs)
    ]
    return joined([
        element("h4", "History"),
        element("div", *_plots(runs, measurement), class_="plots small"),
        table(f"Metrics of {len(runs)} runs, newest first", head, rows),
        element("p", *_versions(runs), class_="dim"),
    ])  # fmt: skip


def _same(test: Test, measurement: Measurement) -> list[Measurement]:
    """Return the measurement of an earlier test that has the same label on the same device."""
    return [
        each
        for each in test.measurements
        if each.label == measurement.label and each.environment.key == measurement.environment.key
    ][:1]


def _plots(runs: Sequence[tuple[Run, Test, Measurement]], measurement: Measurement) -> Iterator[Markup]:
    for name, metric in measurement.metrics.items():
        values = [found.metrics[name].value if name in found.metrics else None for _, _, found in runs]
        old = next((each.old for each in measurement.comparisons if each.name == name and each.old is not None), None)
        yield plot(
            "history",
            f"{label_of(name)}, {metric.unit}; {metric.better} is better",
            {
                "unit": metric.unit,
                "x": [_seconds(run) for run, _, _ in runs],
                "commits": [short_commit(run) for run, _, _ in runs],
                "series": [{"label": label_of(name), "y": values}],
                "lines": [] if old is None else [{"at": old, "kind": "baseline", "label": "baseline"}],
            },
        )


def _seconds(run: Run) -> float:
    try:
        at = datetime.fromisoformat(run.started)
    except ValueError:  # another program may write a file, and a date in it
        return 0.0
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _versions(runs: Sequence[tuple[Run, Test, Measurement]]) -> Iterator[str]:
    """Yield what was upgraded between the runs."""
    last: dict[str, str] = {}
    for run, _, found in runs:
        now = found.environment.versions
        changed = [f"{name} {last[name]} to {now[name]}" for name in now if name in last and last[name] != now[name]]
        if changed:
            yield f"{started(run)}: {', '.join(changed)}. "
        last = dict(now)
