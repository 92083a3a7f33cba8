"""What an update makes of a stored entry, and how it is said: what did not change stays, so that diffs stay small."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

from .baseline import Anchor, stored_processes, without_times
from .compare_metrics import seen_slowdowns
from .decide import RAW_DRIFT_LOG, judge_stored
from .metrics import METRIC, STORED_METRIC
from .paired import TESTED
from .reference_fit import stored_ratios
from .states import State
from .units import significant
from .workload import option_changes, workload_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .baseline import Entry

_MOST_PROCESSES: Final = 10
"""So many an entry keeps; a choice: t quantiles fall little beyond it."""


def merged(old: Entry | None, new: Entry, *, replace_all: bool = False) -> Entry:
    """Return what an update makes of an entry: the old one where nothing changed, so that diffs stay small.

    A metric that has not left the interval of the old processes keeps its old values; a fact that the new
    record cannot tell keeps its own. New times without a reference leave out the ratios of the old ones. The anchor and
    the note are the old ones; the anchor takes in what it never had.
    Where the workload is another, all times are the new ones, and the anchor too.
    """
    if old is None:
        return new
    if workload_changes(old.workload, new.workload):
        return merged(replace(without_times(old), anchor=new.anchor, workload={}), new, replace_all=replace_all)
    moved = {name: values for name, values in new.metrics.items() if replace_all or _has_moved(name, old, new)}
    metrics = old.metrics | moved
    kept = [name for name in old.paired if name not in METRIC or METRIC[name].stored_name not in moved]
    paired = {name: old.paired[name] for name in kept}
    paired |= {name: _appended(name, old, new) if name in kept else pairs for name, pairs in new.paired.items()}
    references = {name: old.references[name] for name in kept if name in old.references} | new.references
    facts = {**old.facts, **new.facts}
    phases = {name: {**old.phases.get(name, {}), **new.phases.get(name, {})} for name in {**old.phases, **new.phases}}
    anchor = Anchor(old.anchor.date, old.anchor.facts or new.anchor.facts, new.anchor.metrics | old.anchor.metrics)
    result = replace(new, facts=facts, phases=phases, metrics=metrics, anchor=anchor, note=old.note)
    result = replace(result, workload=new.workload or old.workload)
    result = replace(result, paired=paired, references=references)
    result = replace(result, op_shares=new.op_shares or old.op_shares, node_ms=new.node_ms or old.node_ms)
    same = old == replace(
        result,
        date=old.date,
        commit=old.commit,
        versions=old.versions,
        op_shares=old.op_shares,  # they differ a little each time, and alone are no reason to write
        node_ms=old.node_ms,
        detectable=old.detectable,  # follows from the rest
    )
    return old if same and not replace_all else result


def _appended(name: str, old: Entry, new: Entry) -> dict[str, list[float]]:
    """Return the processes of a metric whose old values are kept: the new ones after them, up to a limit.

    More processes, of another hour, say more about the noise. Beside another reference the new ones stand alone.
    """
    stored = old.paired[name]
    if old.references.get(name) != new.references.get(name):
        return new.paired[name]
    if len(stored[TESTED]) >= _MOST_PROCESSES:
        return stored
    return {kind: [*values, *new.paired[name][kind]][:_MOST_PROCESSES] for kind, values in stored.items()}


def _has_moved(stored_name: str, old: Entry, new: Entry) -> bool:
    """Tell whether a metric left the interval of the old processes, in what a check judges of it.

    That is the ratio to a reference workload where both have one: raw times of another hour differ by themselves, and
    where they vary much they hide what the ratio shows. More processes stand here than in a check, so that the interval
    is narrower, and what a check finds worse has moved. No tolerance: what is known to have changed is recorded.
    """
    if stored_name not in old.metrics:
        return True
    metric = STORED_METRIC[stored_name]
    found = stored_ratios(stored_processes(old, metric.name), stored_processes(new, metric.name))
    if found is not None:
        return _has_left(found.stored, found.current, fitted_weights=found.fit.fitted_weights)
    stored, current = old.metrics[stored_name], new.metrics[stored_name]
    if not metric.is_timed:
        return not _is_inside(stored, current)
    drift_log = RAW_DRIFT_LOG if metric.is_noisy_clock else 0.0
    return _has_left(stored, current, slack=metric.slack, drift_log=drift_log)


def _has_left(
    stored: Sequence[float], current: Sequence[float], *, slack: float = 0.0, drift_log: float = 0.0,
    fitted_weights: int = 0,
) -> bool:  # fmt: skip
    verdict = judge_stored(
        stored, current, tolerance=0.0, better="less", slack=slack, drift_log=drift_log, fitted_weights=fitted_weights
    )
    if math.isinf(verdict.high_ratio):  # too few processes for an interval, or a 0
        return not _is_inside(stored, current)
    return verdict.state in (State.REGRESSED, State.IMPROVED)


def _is_inside(stored: Sequence[float], current: Sequence[float]) -> bool:
    return min(stored) <= median(current) <= max(stored)


def changes(old: Entry | None, new: Entry) -> tuple[str, ...]:
    """Say what an update changed, `latency_p50_ms 1.2 -> 1.4`; empty where all values stayed as they were."""
    ratios = {STORED_METRIC[name].name: ratio for name, ratio in new.detectable.items() if name in STORED_METRIC}
    slowdowns = seen_slowdowns(ratios)
    seen = [f"it can see slowdowns of {', '.join(slowdowns)} and more"] if slowdowns else []
    if old is None:
        return ("new", *seen)
    lines: list[str] = []
    for name in sorted(set(old.metrics) | set(new.metrics)):
        before, after = old.metrics.get(name, []), new.metrics.get(name, [])
        if before != after:
            lines.append(f"{name} {_median(before)} -> {_median(after)}")
    for name in sorted(set(old.paired) & set(new.paired)):
        counts = [len(each.paired[name][TESTED]) for each in (old, new)]
        if counts[0] < counts[1]:
            lines.append(f"{name} keeps {counts[1]} processes, not {counts[0]}")
    lines += option_changes(old.options, new.options) + option_changes(old.workload, new.workload)
    before_flat, after_flat = flat(old), flat(new)
    for name in sorted(set(before_flat) | set(after_flat)):
        if before_flat.get(name) != after_flat.get(name):
            lines.append(f"{name} {before_flat.get(name, 'none')} -> {after_flat.get(name, 'none')}")
    return (*lines, *seen) if old.detectable != new.detectable else tuple(lines)


def _median(values: list[float]) -> str:
    return str(significant(median(values))) if values else "none"


def flat(entry: Entry) -> dict[str, int]:
    """Flatten the facts of an entry to one level, `ops.CPUExecutionProvider:MatMul`, `decode.memcpy`."""
    parts = {"": entry.facts, **{f"{phase}.": facts for phase, facts in entry.phases.items()}}
    result: dict[str, int] = {}
    for prefix, facts in parts.items():
        for name, value in facts.items():
            if isinstance(value, dict):
                result |= {f"{prefix}{name}.{key}": count for key, count in value.items()}
            else:
                result[prefix + name] = value
    return result
