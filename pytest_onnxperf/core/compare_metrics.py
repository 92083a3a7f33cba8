"""A metric against its baseline: the ratio to a reference workload where both have one, else the raw values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from .baseline import stored_processes
from .comparison import Comparison, Figures
from .decide import (
    DECIDING_PROCESSES,
    RAW_DRIFT_LOG,
    StoredLimits,
    StoredVerdict,
    crept_ratio,
    detectable_ratio,
    judge_stored,
    stored_limits,
)
from .device_state import DISTURBED_CORES_RATIO
from .metrics import METRIC, METRICS, PRIMARY, Metric
from .paired import ReferenceSpec
from .providers import short_name
from .reference_fit import NOISY_SPREAD_RATIO, apply, best_reference, stored_ratios
from .states import State
from .units import change, number, quantity

if TYPE_CHECKING:
    from .baseline import Entry
    from .record import Record

ANCHOR_TOLERANCE: Final = 0.1
"""How far a metric may creep from its first record before a warning says so: several tolerances; a choice."""


@dataclass(frozen=True, slots=True)
class _Values:
    """What is judged: one value per process, stored and of today."""

    stored: Sequence[float]
    current: Sequence[float]
    better: Literal["less", "more"]
    slack: float
    drift_log: float
    fitted_weights: int = 0
    kind: str = ""
    """Of the reference workload; empty for raw values."""
    why_raw: str = ""
    """Why the raw values are judged, though the baseline has ratios."""


def compare_metric(metric: Metric, record: Record, entry: Entry | None, tolerance: float, same: bool) -> Comparison:
    """Compare one metric.

    Args:
        metric: One that the record has.
        record: What was measured.
        entry: What was recorded.
        tolerance: Ratio.
        same: False where the entry is of another device.
    """
    current = [value / metric.per_unit for value in record.metrics[metric.name]]
    shown = f"{metric.label} {quantity(median(current), metric.unit)}"
    stored = entry.metrics.get(metric.stored_name) if entry is not None else None
    if entry is None or (same and stored is None):
        return Comparison(metric.name, State.NO_BASELINE, shown)
    if not same or stored is None:
        return Comparison(metric.name, State.OTHER_ENVIRONMENT, shown)
    old, new = median(stored), median(current)
    ratio = new / old if old else float("inf") if new else 1.0
    text = f"{metric.label} {number(old)} -> {quantity(new, metric.unit)} ({change(ratio)})"
    if not metric.is_timed:
        creep = _since_anchor(metric, record, entry, limit_ratio=1.0)
        figures = Figures(metric.unit, old, new, ratio if math.isfinite(ratio) else None)
        return replace(_exact(metric, text, old, new, tolerance), since_anchor=creep, figures=figures)
    values = _beside_reference(metric, record, entry) or _Values(
        stored, current, metric.better, metric.slack, RAW_DRIFT_LOG if metric.is_noisy_clock else 0.0,
        why_raw=_why_raw(metric, record, entry),
    )  # fmt: skip
    verdict = judge_stored(
        values.stored, values.current, tolerance=tolerance, better=values.better, slack=values.slack,
        drift_log=values.drift_log, fitted_weights=values.fitted_weights,
    )  # fmt: skip
    figures = _figures(metric, old, new, values, verdict)
    return replace(_judged(metric, record, entry, values, verdict, text), figures=figures)


def _figures(metric: Metric, old: float, new: float, values: _Values, verdict: StoredVerdict) -> Figures:
    has_interval = verdict.low_ratio > 0 and math.isfinite(verdict.high_ratio)
    return Figures(
        unit=metric.unit,
        old=old,
        new=new,
        ratio=verdict.ratio if math.isfinite(verdict.ratio) else None,
        low_ratio=verdict.low_ratio if has_interval else None,
        high_ratio=verdict.high_ratio if has_interval else None,
        limit_ratio=verdict.limit_ratio if math.isfinite(verdict.limit_ratio) else None,
        beside=values.kind,
    )


def _judged(
    metric: Metric, record: Record, entry: Entry, values: _Values, verdict: StoredVerdict, text: str
) -> Comparison:
    state, detail = verdict.state, _detail(values, verdict)
    badness = verdict.ratio if values.better == "less" else 1 / max(verdict.ratio, 1e-12)
    spread_ratio = max((each.spread_ratio for each in record.paired.get(metric.name, ())), default=0.0)
    is_excused = state is not State.OK and badness <= _explained(record.other_load_ratio)
    if values.kind and spread_ratio > NOISY_SPREAD_RATIO and is_excused:
        varied = f"the reference workload itself varied by {spread_ratio:.0%} from round to round"
        state, detail = State.NOISY, "; ".join(part for part in (verdict.reason, varied) if part)
    is_disturbed = _is_disturbed(record, beside_reference=bool(values.kind))
    if is_disturbed and is_excused:
        state = State.DISTURBED
    is_told = not is_disturbed and not record.disturbance and state is not State.NOISY
    creep = _since_anchor(metric, record, entry, verdict.limit_ratio) if is_told else ""
    is_suspicious = verdict.is_suspicious and state not in (State.DISTURBED, State.OK)
    return Comparison(metric.name, state, text, badness, detail, creep, is_suspicious)


def _is_disturbed(record: Record, *, beside_reference: bool) -> bool:
    """Tell whether what disturbed a record moved what is judged of it.

    What slows one core down cancels in the ratio to a reference workload; of what slows a GPU down that is not known.
    """
    if not beside_reference:
        return bool(record.disturbance)
    return _is_crowded(record) or bool(record.gpu and record.gpu.disturbances)


def _is_crowded(record: Record) -> bool:
    """Tell whether others left fewer cores than a model on the CPU has threads: it waits then, and the reference not.

    The reference workload has one thread, as a model of one thread has. Measured: two threads on two cores, one of them
    burnt, take 15 to 31 % longer beside the reference.
    """
    is_on_cpu = short_name(record.environment.execution_provider) == "cpu"
    if not is_on_cpu or record.threads == 1 or record.other_load_ratio <= DISTURBED_CORES_RATIO:
        return False
    return record.threads > record.cores * (1 - record.other_load_ratio)


def _exact(metric: Metric, text: str, old: float, new: float, tolerance: float) -> Comparison:
    """Compare a value without noise: beyond the tolerance and the slack it is worse, or better."""
    worse = (new - old) if metric.better == "less" else (old - new)
    state = State.OK
    if abs(worse) > max(tolerance * old, metric.slack):
        state = State.REGRESSED if worse > 0 else State.IMPROVED
    return Comparison(metric.name, state, text, (new + metric.slack) / (old + metric.slack))


def _beside_reference(metric: Metric, record: Record, entry: Entry) -> _Values | None:
    """Return the ratios to the reference workload; None where one side has none, or they are not the same workload."""
    found = stored_ratios(stored_processes(entry, metric.name), record.paired.get(metric.name, ()))
    if found is None:
        return None
    fit = found.fit
    return _Values(found.stored, found.current, "less", 0.0, 0.0, fit.fitted_weights, fit.kind)


def _why_raw(metric: Metric, record: Record, entry: Entry) -> str:
    """Say why an entry's ratios to a reference workload are of no use to a record; empty where it has none."""
    specs = entry.references.get(metric.name, {})
    if not specs:
        return ""
    if metric.name in record.unpaired:
        return f"raw times, without a reference workload: {record.unpaired[metric.name]}"
    another = "raw times, since the reference workload"
    for pair in record.paired.get(metric.name, ()):
        if not specs.keys() & pair.specs.keys():
            return f"{another} is another: {', '.join(sorted(pair.specs))}, not {', '.join(sorted(specs))}"
        for kind in sorted(specs.keys() & pair.specs.keys()):
            if specs[kind] != pair.specs[kind]:
                return f"{another} ({kind}) is another: {specs[kind].differing(pair.specs[kind])}"
    return ""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is to be timed beside a reference workload, and when it is certain enough to stop."""

    specs: Mapping[str, ReferenceSpec]
    """Each that stood there when the baseline was recorded: a neighbour less leaves more of the cache to the rounds."""
    limits: StoredLimits | None = None
    """None where a mix judges, or the baseline tells no limit: then all rounds are taken."""
    kind: str = ""
    """Of the reference to which `limits` are relative."""
    workload: Mapping[str, str] = field(default_factory=dict)
    """That the sizes of the references were found for; another one needs its own."""


def beside(entry: Entry, metric_name: str, tolerance: float) -> Beside | None:
    """Return the reference workloads that a check of a metric needs; None where the baseline has none."""
    stored = stored_processes(entry, metric_name)
    fit = best_reference(stored) if stored else None
    if fit is None or not fit.weights:
        return None
    specs = entry.references.get(metric_name, {})
    if not set(fit.weights) <= set(specs):
        return None
    if len(fit.weights) > 1:
        return Beside(specs, workload=entry.workload)
    limits = stored_limits([apply(fit, each) for each in stored], tolerance=tolerance)
    return Beside(specs, limits, fit.kind, entry.workload)


def _detail(values: _Values, verdict: StoredVerdict) -> str:
    if verdict.state is State.OK:
        return values.why_raw
    beside = f"beside the reference workload ({values.kind}) " if values.kind else ""
    interval = ""
    if verdict.low_ratio > 0 and verdict.high_ratio < float("inf"):
        interval = f"{change(verdict.ratio)} [{change(verdict.low_ratio)} to {change(verdict.high_ratio)}], "
    limit = f"limit {change(verdict.limit_ratio)}" if verdict.limit_ratio == verdict.limit_ratio else ""
    found = f"{interval}{limit}".rstrip(", ")
    return "; ".join(part for part in (f"{beside}{found}" if found else "", verdict.reason, values.why_raw) if part)


def detectable(entry: Entry, metric: Metric, tolerance: float) -> float | None:
    """Return the smallest slowdown that a baseline can see of a metric, 1.03 for 3 %; None where it sees none.

    With one process and, on suspicion, two more.
    """
    stored = entry.metrics.get(metric.stored_name)
    if not stored or not metric.is_timed or min(stored) <= 0:
        return None
    processes = stored_processes(entry, metric.name)
    if processes:
        fit = best_reference(processes)
        if fit.weights:
            values = [apply(fit, each) for each in processes]
            return detectable_ratio(
                values, tolerance=tolerance, current_processes=DECIDING_PROCESSES, fitted_weights=fit.fitted_weights
            )
    drift_log = RAW_DRIFT_LOG if metric.is_noisy_clock else 0.0
    return detectable_ratio(stored, tolerance=tolerance, current_processes=DECIDING_PROCESSES, drift_log=drift_log)


def with_detectable(entry: Entry, tolerance: float) -> Entry:
    """Return the entry with the smallest slowdown that it can see of each metric."""
    seen = {metric.stored_name: detectable(entry, metric, tolerance) for metric in METRICS}
    return replace(entry, detectable={name: round(ratio, 3) for name, ratio in seen.items() if ratio is not None})


def seen_slowdowns(ratios: Mapping[str, float]) -> tuple[str, ...]:
    """Write the smallest slowdowns that can be seen of the times of what was measured.

    >>> seen_slowdowns({"latency_p50": 1.031, "load": 1.4})
    ('3.1% (latency p50)',)
    """
    seen = {METRIC[name].label: ratio for name, ratio in ratios.items() if name in PRIMARY}
    return tuple(f"{ratio - 1:.1%} ({label})" for label, ratio in sorted(seen.items()))


def _explained(other_load_ratio: float) -> float:
    """Return the slowdown that others can cause who use this share of the cores: what is left of them is the rest.

    Twice that, since they also take caches and memory bandwidth; a choice. What is slower still is not their doing.
    """
    return 2 / (1 - min(other_load_ratio, 0.9))


def _since_anchor(metric: Metric, record: Record, entry: Entry, limit_ratio: float) -> str:
    """Say by how much the raw values of today are worse than the anchor, beyond `limit_ratio` of today's comparison."""
    first = entry.anchor.metrics.get(metric.stored_name)
    if not first:
        return ""
    current = [value / metric.per_unit for value in record.metrics[metric.name]]
    crept = crept_ratio(
        first, current, tolerance=ANCHOR_TOLERANCE, better=metric.better, slack=metric.slack,
        reach_log=math.log(limit_ratio),
    )  # fmt: skip
    return f"{metric.label} {change(crept)} since its first record of {entry.anchor.date}" if crept else ""
