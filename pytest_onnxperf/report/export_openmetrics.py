"""Results as OpenMetrics text, for GitLab's metrics reports and for Prometheus.

Source: the OpenMetrics specification 1.0: base units (seconds, bytes), a unit is the end of its metric's name, one
family's samples stand together, backslash, quote and newline are escaped, `# EOF` ends it. GitLab compares values as
text, so they have three significant digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_onnxperf.core.units import BYTES_PER_MIB

from .export_rows import RATIO, rows_of, subjects_of

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Results

    from .export_rows import Row, Subject


class _Base(NamedTuple):
    """A unit of OpenMetrics."""

    unit: str
    per_unit: float
    """How many of it make one of ours."""


_BASES: Final = {
    "ms": _Base("seconds", 1e-3),
    "MiB": _Base("bytes", BYTES_PER_MIB),
    "/s": _Base("per_second", 1),
    "tok/s": _Base("tokens_per_second", 1),
    "nodes": _Base("nodes", 1),
    RATIO: _Base("ratio", 1),
}
_DIGITS: Final = 3


def openmetrics_text(results: Results) -> str:
    """Return a family of gauges for each quantity, a sample for each measurement, and one for whether it fails."""
    subjects = subjects_of(results)
    families: dict[str, list[str]] = {}
    for subject in subjects:
        for row in rows_of(subject):
            name, head, factor = _family(row)
            families.setdefault(name, head).append(_sample(name, subject, row.value * factor))
    failed = "onnxperf_failed"
    for subject in subjects:
        if subject.comparison is None:
            head = [f"# HELP {failed} 1 where the test fails by this measurement.", f"# TYPE {failed} gauge"]
            families.setdefault(failed, head).append(_sample(failed, subject, int(subject.measurement.fails)))
    lines = [line for family in families.values() for line in family]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family(row: Row) -> tuple[str, list[str], float]:
    base = _BASES[row.unit]
    name = f"onnxperf_{row.name}"
    name += "" if name.endswith(f"_{base.unit}") else f"_{base.unit}"
    better = {"less": " Less is better.", "more": " More is better."}.get(row.better, "")
    head = [f"# HELP {name} {row.label}.{better}", f"# TYPE {name} gauge", f"# UNIT {name} {base.unit}"]
    return name, head, base.per_unit


def _sample(name: str, subject: Subject, value: float) -> str:
    environment = subject.environment
    labels = {
        "test": subject.title,
        "model": subject.measurement.model,
        "environment": environment.key,
        "onnxruntime": environment.versions.get("onnxruntime", ""),
    }
    text = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items() if label)
    return f"{name}{{{text}}} {float(f'{value:.{_DIGITS}g}')!r}"


def _escaped(text: str) -> str:
    """Escape what a label may not hold; other control characters, which some readers break lines at, as Python does."""
    shown = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
