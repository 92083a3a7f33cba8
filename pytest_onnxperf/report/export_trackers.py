"""Results in the forms of Bencher and of github-action-benchmark, which draw and watch them over commits.

Source of the forms: the schema https://bencher.dev/bmf.json with the lengths of its documentation (a benchmark's name
has at most 1024 characters, a measure's slug 64); github-action-benchmark's `BenchmarkResult`: name, unit, value, and
the texts `range` and `extra`, one direction a file.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_onnxperf.core.environment import slug

from .export_rows import RATIO, rows_of, subjects_of

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Results

    from .export_rows import Row

_MOST_NAME: Final = 1024
_UNIT_SLUG: Final = {"/s": "per-s", "tok/s": "tok-per-s", RATIO: "", "nodes": ""}


def bencher_json(results: Results) -> str:
    """Return Bencher metric format: benchmark -> measure -> value, with the ends of the processes where there are."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    for subject in subjects_of(results):
        for row in rows_of(subject):
            ends = {"lower_value": row.low, "upper_value": row.high}
            measure = {"value": row.value, **{name: end for name, end in ends.items() if end is not None}}
            document.setdefault(_short(subject.title), {})[_measure(row)] = measure
    return json.dumps(document, indent=1) + "\n"


def _measure(row: Row) -> str:
    unit = _UNIT_SLUG.get(row.unit, row.unit)
    return slug(f"{row.name} {unit}")


def _short(name: str) -> str:
    """Cut a name that is too long, so that two stay two."""
    if len(name) <= _MOST_NAME:
        return name
    digest = sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{name[: _MOST_NAME - len(digest) - 3]}...{digest}"


def custom_json(results: Results, better: Literal["less", "more"]) -> str:
    """Return what github-action-benchmark reads as `customSmallerIsBetter` or `customBiggerIsBetter`.

    It draws and watches every entry, so tails are left out: they are noise, which no gate here judges either.
    """
    rows = [row for subject in subjects_of(results) for row in rows_of(subject)]
    entries = [_entry(row) for row in rows if row.better == better and not row.is_tail]
    return json.dumps(entries, indent=1) + "\n"


def _entry(row: Row) -> dict[str, Any]:
    subject = row.subject
    measured = subject.measurement
    entry: dict[str, Any] = {"name": f"{subject.title} - {row.label}", "unit": row.unit, "value": row.value}
    if row.low is not None and row.high is not None:
        entry["range"] = f"± {max(row.high - row.value, row.value - row.low):.4g}"
    extra = [measured.model, measured.environment.key, f"state: {measured.state}" if measured.state else ""]
    return {**entry, "extra": "\n".join(line for line in extra if line)}
