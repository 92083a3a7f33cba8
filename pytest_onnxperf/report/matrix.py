"""The tables of a matrix as text: for the terminal, and as Markdown, HTML or CSV to put elsewhere."""

from __future__ import annotations

import csv
import html
import io
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.text import printable
from pytest_onnxperf.core.units import listed, number, quantity

from .wrap import WIDTH, cell, columns, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_onnxperf.core.matrix import Best, Row, Table

_COLUMN: Final = 14
_SHOWN: Final = ("latency_p50", "ttft", "decode_throughput")
_MOST_TIES: Final = 2
_MOST_NAMES: Final = 4
_REFERENCE: Final = "(x: how many times better than the reference)"


def terminal_lines(tables: Sequence[Table]) -> Iterator[str]:
    """Yield the tables in 80 columns: latency or TTFT and decode throughput, and the peak of memory."""
    for table in tables:
        yield from wrapped(printable(table.title))
        names = _shown(table)
        yield from wrapped(printable(best_line(table, names)), "  ")
        yield from _terminal_rows(table, names) if names else ()
        for text in _remarks(table):
            yield from wrapped(printable(text), "  ")


def _terminal_rows(table: Table, metrics: Sequence[str]) -> Iterator[str]:
    longest = max(columns(printable(row.name)) for row in table.rows) + 1
    room = min(longest, WIDTH - _COLUMN * len(metrics))
    heads = [_SHORT.get(name, METRIC[name].label) + f" {METRIC[name].unit}" for name in metrics]
    yield f"{'cell':<{room}}" + "".join(f"{head:>{_COLUMN}}" for head in heads)
    for row in table.rows:
        if row.metrics:
            name = printable(row.name)
            is_long = columns(name) >= room
            if is_long:
                yield name
            values = "".join(f"{_short_value(row, metric):>{_COLUMN}}" for metric in metrics)
            yield cell("" if is_long else name, room) + values


_SHORT: Final = {"latency_p50": "latency", "decode_throughput": "decode"}


def _shown(table: Table) -> list[str]:
    memory = next((name for name in ("peak_vram", "peak_rss") if name in table.metrics), None)
    return [name for name in (*_SHOWN, memory) if name in table.metrics]


def _short_value(row: Row, name: str) -> str:
    metric = row.metrics.get(name)
    if metric is None:
        return "-"
    return f"{number(metric.value)}{' ref' if row.place.is_reference else _ratio(row, name)}"


def _ratio(row: Row, name: str) -> str:
    return f" {number(row.ratios[name])}x" if name in row.ratios else ""


def best_line(table: Table, names: Sequence[str]) -> str:
    """Say which cell is best by each metric, and which are as good."""
    found = "; ".join(_best(best) for best in table.best if best.metric in names)
    if found:
        return f"best: {found}"
    return "no time was measured" if any(row.metrics for row in table.rows) else "nothing was measured"


def _best(best: Best) -> str:
    metric = best.row.metrics[best.metric]
    times = f",{_ratio(best.row, best.metric)}" if best.metric in best.row.ratios else ""
    names = [row.name for row in best.ties]
    ties = ", ".join(names) if len(names) <= _MOST_TIES else f"{len(names)} more"
    within = f", and within 5 %: {ties}" if ties else ""
    label = METRIC[best.metric].label
    return f"{label} {best.row.name} ({quantity(metric.value, metric.unit)}{times}{within})"


def _remarks(table: Table) -> Iterator[str]:
    if any(row.ratios for row in table.rows):
        yield _REFERENCE
    if table.mixed:
        mixed = (f"{name} {_counted(found)}" for name, found in table.mixed.items())
        yield f"MIXES BUILDS: {'; '.join(mixed)}"
    same = [f"{name} {next(iter(found))}" for name, found in table.builds.items() if name not in table.mixed]
    if same:
        yield f"build{' of all' if table.mixed else ''}: {', '.join(same)}"
    for text, names in table.notes.items():
        yield f"{listed(names, _MOST_NAMES)}: {text}"


def _counted(found: Mapping[str, int]) -> str:
    return ", ".join(f"{version} ({count} cell{'s' if count != 1 else ''})" for version, count in found.items())


def _markdown_text(tables: Sequence[Table]) -> str:
    """Return Markdown with a table for each model, all main metrics in it."""
    return "\n".join(line for table in tables for line in _markdown(table))


def _markdown(table: Table) -> Iterator[str]:
    def cell(text: str) -> str:
        escaped = html.escape(printable(text), quote=False)
        return "".join(f"\\{char}" if char in "\\|`*_[]" else char for char in escaped)

    yield f"### {cell(table.title)}"
    yield ""
    yield cell(best_line(table, table.metrics))
    yield ""
    head, *rows = _grid(table)
    yield f"| {' | '.join(map(cell, head))} |"
    yield f"| --- |{' ---: |' * len(table.metrics)} --- |"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""
    for text in _remarks(table):
        yield f"- {cell(text)}"
    yield ""


def _html_text(tables: Sequence[Table]) -> str:
    """Return HTML elements, a section for each model, without a page around them."""
    return "\n".join(line for table in tables for line in _html(table)) + "\n"


def _html(table: Table) -> Iterator[str]:
    def cells(tag: str, texts: Iterable[str]) -> str:
        return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)

    head, *rows = _grid(table)
    yield '<section class="onnxperf-matrix">'
    yield f"<h3>{html.escape(table.title)}</h3>"
    yield f"<p>{html.escape(best_line(table, table.metrics))}</p>"
    yield "<table>"
    yield f"<thead><tr>{cells('th', head)}</tr></thead>"
    yield "<tbody>"
    for row in rows:
        yield f"<tr>{cells('td', row)}</tr>"
    yield "</tbody>"
    yield "</table>"
    yield f"<ul>{cells('li', _remarks(table))}</ul>"
    yield "</section>"


def _grid(table: Table) -> Iterator[list[str]]:
    """Yield the head and a row for each cell, also for what was not measured."""
    yield ["cell", *(METRIC[name].label for name in table.metrics), "state"]
    for row in table.rows:
        state = f"{row.state}, reference" if row.place.is_reference else row.state
        yield [row.name, *(_value(row, name) for name in table.metrics), state]


def _value(row: Row, name: str) -> str:
    metric = row.metrics.get(name)
    return "-" if metric is None else f"{quantity(metric.value, metric.unit)}{_ratio(row, name)}"


def _csv_text(tables: Sequence[Table]) -> str:
    """Return a row for each cell and metric, the dimensions in columns; a cell without one has a row with its state."""
    dimensions = list(dict.fromkeys(name for table in tables for row in table.rows for name in row.place.coordinates))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "cell", *dimensions, "metric", "value", "unit", "better", "reference", "ratio", "state",
                     "environment", "build"])  # fmt: skip
    for table in tables:
        for row in table.rows:
            where = [table.title, row.name, *(row.place.coordinates.get(name, "") for name in dimensions)]
            environment = row.measurement.environment.key if row.measurement is not None else ""
            build = ", ".join(f"{name} {version}" for name, version in row.build.items())
            for name, metric in row.metrics.items():
                ratio = row.ratios.get(name, "")
                what = [name, metric.value, metric.unit, metric.better, row.reference, ratio]
                writer.writerow([*where, *what, row.state, environment, build])
            if not row.metrics:
                writer.writerow([*where, *[""] * 6, row.state, environment, build])
    return text.getvalue()


def _terminal(tables: Sequence[Table]) -> str:
    return "\n".join(terminal_lines(tables)) + "\n"


FORMS: Final = ("text", "markdown", "html", "csv")


def matrix_text(form: str, tables: Sequence[Table]) -> str:
    """Return the tables in one of `FORMS`."""
    write = dict(zip(FORMS, (_terminal, _markdown_text, _html_text, _csv_text), strict=True))
    return write[form](tables)
