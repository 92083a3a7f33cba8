"""The forms in which results are exported, each by the name that its reader gives it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from .export_csv import csv_text
from .export_openmetrics import openmetrics_text
from .export_pytest_benchmark import pytest_benchmark_json
from .export_rows import subjects_of
from .export_trackers import bencher_json, custom_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_onnxperf.core.results import Results

CSV: Final = "csv"
PYTEST_BENCHMARK: Final = "pytest-benchmark"
_OF_LINES: Final = (CSV, "openmetrics")
_RENDERERS: Final[dict[str, Callable[[Results], str]]] = {
    PYTEST_BENCHMARK: pytest_benchmark_json,
    "bencher": bencher_json,
    "customSmallerIsBetter": lambda results: custom_json(results, "less"),
    "customBiggerIsBetter": lambda results: custom_json(results, "more"),
    "openmetrics": openmetrics_text,
    CSV: csv_text,
}
FORMATS: Final = tuple(_RENDERERS)


def exported(form: str, results: Results, *, with_header: bool = True) -> str:
    """Return the text of a file; `with_header` is about CSV alone."""
    if form == CSV and not with_header:
        return csv_text(results, with_header=False)
    return _RENDERERS[form](results)


def untimed(form: str, results: Results) -> tuple[str, ...]:
    """Return the tests of what a form has no place for that takes the times of single models alone."""
    subjects = subjects_of(results) if form == PYTEST_BENCHMARK else []
    titles = (each.title for each in subjects if each.comparison is not None or not each.measurement.distributions)
    return tuple(dict.fromkeys(titles))


def is_empty(form: str, text: str, *, with_header: bool = True) -> bool:
    """Whether a file of this form holds no quantity: nothing was measured, or nothing that the form takes."""
    if form in _OF_LINES:
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return len(lines) <= (form == CSV and with_header)
    document = json.loads(text)
    return not (document if form != PYTEST_BENCHMARK else document["benchmarks"])
