"""Results as CSV, a row for each quantity: a history for tools that find change points, such as Apache Otava.

Append the rows of each run to one file (`onnxperf export csv --no-header`); the rows of one test and metric are then a
series in time. The names `time`, `commit` and `branch` are those that Otava's reader knows. Source: RFC 4180, with a
newline alone at the end of a row.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from .export_rows import rows_of, subjects_of

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Results

COLUMNS: Final = (
    "time", "commit", "branch", "test", "metric", "value", "unit", "better", "low", "high", "processes", "state",
    "model", "environment", "device", "execution_provider", "onnxruntime",
)  # fmt: skip


def csv_text(results: Results, *, with_header: bool = True) -> str:
    """Return the rows, in the order of the file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if with_header:
        writer.writerow(COLUMNS)
    for subject in subjects_of(results):
        run, measured, environment = subject.run, subject.measurement, subject.environment
        state = measured.state if subject.comparison is None else subject.comparison.state
        for row in rows_of(subject):
            writer.writerow([
                run.started, run.commit, run.branch, subject.title, row.name, row.value, row.unit, row.better,
                row.low, row.high, measured.processes, state, measured.model, environment.key, environment.device,
                environment.execution_provider, environment.versions.get("onnxruntime", ""),
            ])  # fmt: skip
    return text.getvalue()
