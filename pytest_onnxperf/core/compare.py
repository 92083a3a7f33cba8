"""Comparison of a record with its baseline: facts by equality, metrics as `compare_metrics` does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import cpu_layout
from .attention_names import TIERS
from .baseline import FEWER_IS_BETTER, stored_facts
from .compare_metrics import compare_metric
from .comparison import Comparison, Figures
from .facts import difference_text, steps_text
from .metrics import METRICS
from .providers import short_name
from .states import State

if TYPE_CHECKING:
    from .baseline import Entry
    from .facts import Facts
    from .record import Record


def compare(
    record: Record, entry: Entry | None, *, tolerance: float, same_environment: bool = True
) -> tuple[Comparison, ...]:
    """Compare every gated metric and every fact of `record` with `entry`, worst first.

    Args:
        record: What was measured.
        entry: What was recorded; None where nothing was.
        tolerance: Ratio for metrics.
        same_environment: False where the entry is of another device with the same EP: then facts alone compare.
    """
    is_cpu = short_name(record.environment.execution_provider) == "cpu"
    facts = _compare_facts(record, entry, is_other_cpu=is_cpu and not same_environment)
    metrics = [
        compare_metric(metric, record, entry, tolerance, same_environment)
        for metric in METRICS
        if metric.gated and metric.name in record.metrics
    ]
    return tuple(sorted([*facts, *metrics], key=lambda c: (c.state.severity, -c.badness, c.name)))


def _compare_facts(record: Record, entry: Entry | None, *, is_other_cpu: bool) -> list[Comparison]:
    """Compare the facts of a session's run, or those of each phase of a generator under the phase's name."""
    if not record.has_facts:
        return []
    if record.unavailable_facts:
        return [Comparison("facts", State.CANNOT_TELL, f"facts cannot be told: {record.unavailable_facts}")]
    if not record.phases:
        return _compare_run_facts(record.facts, entry.facts if entry else {}, is_other_cpu=is_other_cpu)
    results = []
    for phase, facts in record.phases.items():
        stored = entry.phases.get(phase, {}) if entry else {}
        steps = {each.fact: steps_text(each) for each in facts.unstable}
        for comparison in _compare_run_facts(facts, stored, is_other_cpu=is_other_cpu):
            name, text = f"{phase}.{comparison.name}", f"{phase}: {comparison.text}"
            if comparison.state is State.UNSTABLE:
                text = f"{phase}: {comparison.name} differs between steps: {steps[comparison.name]}"
            results.append(replace(comparison, name=name, text=text))
    return results


def _compare_run_facts(
    found: Facts | None, stored: dict[str, int | dict[str, int]], *, is_other_cpu: bool
) -> list[Comparison]:
    unstable = found.unstable if found else ()
    results = [
        Comparison(d.fact, State.UNSTABLE, f"{d.fact} differs between runs: {difference_text(d)}") for d in unstable
    ]
    if not stored:
        return [*results, Comparison("facts", State.NO_BASELINE, "facts")]
    told = {difference.fact for difference in unstable}
    old_nodes = stored.get("nodes")
    is_smaller = found is not None and isinstance(old_nodes, int) and found.nodes < old_nodes
    for name, new in stored_facts(found).items():
        old = stored.get(name)
        if old is None:
            results.append(Comparison(name, State.NO_BASELINE, name))
        elif name == "attention" and isinstance(old, dict) and isinstance(new, dict):
            results.append(_compare_attention(old, new))
        elif isinstance(old, dict) and isinstance(new, dict):
            stable = {key: count for key, count in old.items() if f"{name}.{key}" not in told}
            results += _compare_counts(name, stable, new, is_smaller=is_smaller)
        elif isinstance(old, int) and isinstance(new, int):
            results.append(_compare_count(name, old, new))
        else:
            results.append(Comparison(name, State.NO_BASELINE, f"{name}, which the baseline holds in another form"))
    old_ops = stored.get("ops")
    if is_other_cpu and found is not None and isinstance(old_ops, dict) and cpu_layout.explains(old_ops, found.ops):
        results = [_of_another_cpu(each) for each in results]
    return results + _lost_attention(found, stored)


def _of_another_cpu(comparison: Comparison) -> Comparison:
    is_told = comparison.state in (State.REGRESSED, State.IMPROVED, State.CHANGED)
    if not is_told or not cpu_layout.touches(comparison.name):
        return comparison
    why = "the layout of convolutions follows the CPU"
    return replace(comparison, state=State.OTHER_ENVIRONMENT, detail=why, figures=None)


def _lost_attention(found: Facts | None, stored: dict[str, int | dict[str, int]]) -> list[Comparison]:
    """Say that attention, which the baseline holds, cannot be told any more, or is no longer there."""
    old = stored.get("attention")
    if found is None or not isinstance(old, dict) or "attention" in stored_facts(found):
        return []
    unknown = [use for use in found.attention if not use.kernels]
    if unknown:
        return [Comparison("attention", State.CANNOT_TELL, f"attention was {_kernels(old)}: {unknown[0].evidence}")]
    return [Comparison("attention", State.CHANGED, f"attention {_kernels(old)} -> none")]


def _compare_count(name: str, old: int, new: int) -> Comparison:
    state = State.OK if old == new else State.CHANGED
    if state is State.CHANGED and name in FEWER_IS_BETTER:
        state = State.REGRESSED if new > old else State.IMPROVED
    badness = (new + 1) / (old + 1)
    text = f"{name} {old} -> {new} a run" if old != new else f"{name} {new}"
    return Comparison(name, state, text, badness, figures=Figures("nodes", old, new, new / old if old else None))


def _compare_attention(old: dict[str, int], new: dict[str, int]) -> Comparison:
    """Compare kernels by their tiers: more nodes of a slower one are worse; any other difference is a change."""
    before, after = _slow_nodes(old), _slow_nodes(new)
    state = State.OK if old == new else State.CHANGED
    if before is not None and after is not None and before != after:
        state = State.REGRESSED if after > before else State.IMPROVED
    text = f"attention {_kernels(old)} -> {_kernels(new)}" if old != new else f"attention {_kernels(new)}"
    return Comparison("attention", state, text, 2.0 if state is State.REGRESSED else 1.0)


def _slow_nodes(counts: dict[str, int]) -> tuple[int, ...] | None:
    """Return the nodes of each tier but the fastest, the slowest first; None where a kernel is not known."""
    rows = {kernel: tier for tier, kernels in enumerate(TIERS) for kernel in kernels}
    result = [0] * len(TIERS)
    for kernels, count in counts.items():
        tiers = [rows.get(kernel) for kernel in kernels.split("+")]
        if None in tiers:
            return None
        result[max(tier for tier in tiers if tier is not None)] += count
    return tuple(reversed(result[1:]))


def _kernels(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kernel}" for kernel, count in sorted(counts.items()))


def _compare_counts(name: str, old: dict[str, int], new: dict[str, int], *, is_smaller: bool) -> list[Comparison]:
    """Compare counts by key; fewer fused ops are a fusion lost, unless some still run and the model became smaller."""
    results = []
    for key in sorted(set(old) | set(new)):
        before, after = old.get(key, 0), new.get(key, 0)
        if before == after:
            continue
        lost = name == "fused_ops" and after < before and not (is_smaller and after)
        gained = name == "fused_ops" and after > before
        state = State.REGRESSED if lost else State.IMPROVED if gained else State.CHANGED
        what = {"fused_ops": f"fused {key}", "ops": f"{key.replace(':', ' ')}", "nodes_by_provider": f"nodes on {key}"}
        text = f"{what.get(name, key)} {before} -> {after} a run"
        badness = (before + 1) / (after + 1) if lost else 1.0
        figures = Figures("nodes", before, after, after / before if before else None)
        results.append(Comparison(f"{name}.{key}", state, text, badness, figures=figures))
    return results or [Comparison(name, State.OK, name)]
