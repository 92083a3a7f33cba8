"""Results in the form of pytest-benchmark's JSON, for its `compare`, for github-action-benchmark and for Bencher.

Source of the form: pytest-benchmark 5.3.1, stats.py and `pytest_benchmark_generate_json`; times are seconds. What
differs from what pytest-benchmark itself writes, because a reader of ours wants the robust figure and the file holds no
single rounds:

- `ops` is 1 / median, not 1 / mean: it is what github-action-benchmark draws and alarms on.
- `stats` are of all processes together: the least and the largest time, the mean over all rounds, and of a quantile the
  median over the processes. `stddev` is that within a process, the median too.
- `ld15iqr`, `hd15iqr` are the fences, cut at the least and the largest time, where pytest-benchmark has the nearest
  rounds within them; outliers are not counted.
"""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from .export_rows import rows_of, subjects_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results import Results, Run
    from pytest_onnxperf.core.results_measured import Distribution

    from .export_rows import Subject

_MS_PER_S: Final = 1000
_FENCE: Final = 1.5
_MAIN: Final = "latency"
"""The distribution that a benchmark has no name for."""


def pytest_benchmark_json(results: Results) -> str:
    """Return the text of a file: a benchmark for each distribution of a measurement.

    Machine and commit are those of the first run; each benchmark has its environment in `extra_info`.
    """
    benchmarks = [each for subject in subjects_of(results) for each in _benchmarks(subject, results.quantiles)]
    run = results.runs[0] if results.runs else None
    document = {
        "machine_info": _machine_info(run),
        "commit_info": _commit_info(run),
        "benchmarks": benchmarks,
        "datetime": run.started if run else "1970-01-01T00:00:00+00:00",
        "version": "5.0.0",
    }
    return json.dumps(document, indent=1) + "\n"


def _benchmarks(subject: Subject, quantiles: Sequence[float]) -> Iterator[dict[str, Any]]:
    if subject.comparison is not None:
        return
    settings = subject.run.options
    for name, processes in subject.measurement.distributions.items():
        more = "" if name == _MAIN else f" ({name})"
        yield {
            "group": None,
            "name": _name(subject) + more,
            "fullname": subject.title + more,
            "params": None,
            "param": None,
            "extra_info": {"onnxperf": _extra(subject)},
            "options": {
                "disable_gc": False,
                "timer": "perf_counter_ns",
                "min_rounds": settings.get("min_rounds", 1),
                "max_time": settings.get("max_time", 0.0),
                "min_time": 0.0,
                "warmup": True,
            },
            "stats": _stats(processes, dict(zip(quantiles, range(len(quantiles)), strict=True))),
        }


def _name(subject: Subject) -> str:
    """Return the title without path and class: colons of a parameter or a label are no separators."""
    nodeid = subject.test.nodeid
    base, bracket, parameters = nodeid.partition("[")
    return base.rpartition("::")[2] + bracket + parameters + subject.title[len(nodeid) :]


def _extra(subject: Subject) -> dict[str, Any]:
    measured = subject.measurement
    return {
        "model": measured.model,
        "environment": measured.environment.key,
        "versions": measured.environment.versions,
        "state": measured.state,
        "processes": measured.processes,
        "quantities": {row.name: {"value": row.value, "unit": row.unit} for row in rows_of(subject)},
    }


def _stats(processes: Sequence[Distribution], place: dict[float, int]) -> dict[str, Any]:
    def quantile_s(q: float) -> float:
        return median(each.quantiles_ms[place[q]] for each in processes) / _MS_PER_S

    rounds = sum(each.rounds for each in processes)
    total_s = sum(each.mean_ms * each.rounds for each in processes) / _MS_PER_S
    least_s = min(each.quantiles_ms[place[0.0]] for each in processes) / _MS_PER_S
    most_s = max(each.quantiles_ms[place[1.0]] for each in processes) / _MS_PER_S
    q1_s, middle_s, q3_s = (quantile_s(q) for q in (0.25, 0.5, 0.75))
    iqr_s = q3_s - q1_s
    return {
        "min": least_s,
        "max": most_s,
        "mean": total_s / rounds,
        "stddev": median(each.stddev_ms for each in processes) / _MS_PER_S,
        "rounds": rounds,
        "median": middle_s,
        "iqr": iqr_s,
        "q1": q1_s,
        "q3": q3_s,
        "iqr_outliers": None,
        "stddev_outliers": None,
        "outliers": "?;?",
        "ld15iqr": max(least_s, q1_s - _FENCE * iqr_s),
        "hd15iqr": min(most_s, q3_s + _FENCE * iqr_s),
        "ops": 1 / middle_s if middle_s else 0.0,
        "total": total_s,
        "iterations": 1,
    }


def _machine_info(run: Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    machine = run.machine
    implementation, _, version = machine.python.partition(" ")
    return {
        "node": machine.node,
        "processor": machine.architecture,
        "machine": machine.architecture,
        "python_compiler": "",
        "python_implementation": implementation,
        "python_implementation_version": version,
        "python_version": version,
        "python_build": ["", ""],
        "release": machine.release,
        "system": machine.system,
        "cpu": {"brand_raw": machine.cpu, "count": machine.cores},
    }


def _commit_info(run: Run | None) -> dict[str, Any]:
    return {
        "id": run.commit if run and run.commit else "unversioned",
        "time": None,
        "author_time": None,
        "dirty": False,
        "project": "",
        "branch": run.branch if run and run.branch else "(unknown)",
    }
