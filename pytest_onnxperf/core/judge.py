"""The verdict on one measurement: its budgets and its baseline together, and which of it fails the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from .baseline import Entry, without_times
from .budget import Budget, check, tolerance_of
from .budget_keys import KEY
from .compare import compare
from .compare_metrics import detectable, seen_slowdowns
from .comparison import Comparison
from .limits import LimitResult
from .metrics import METRIC, PRIMARY
from .op_changes import OpChanges, op_changes
from .phases import DECODE, PREFILL
from .states import Limit, State
from .workload import option_changes, workload_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .record import Record


@dataclass(frozen=True, slots=True)
class Policy:
    """How strictly a session judges."""

    tolerance: float
    """Ratio for metrics against a baseline; a budget's `max_regression` overrides it."""
    strict: bool = False
    """Fail everything but `ok`."""
    unverifiable: Literal["fail", "skip", "pass"] = "fail"
    """What happens to a declared budget that cannot be judged."""
    updating: bool = False
    """True while baselines are rewritten: then only budgets fail."""


@dataclass(frozen=True, slots=True)
class Found:
    """The baseline that was found for a measurement."""

    entry: Entry | None = None
    path: str = ""
    """The file for this environment, whether it exists or not."""
    other_environment: str = ""
    """Key of another device with the same EP, where only that has an entry."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one measurement came out."""

    limits: tuple[LimitResult, ...]
    comparisons: tuple[Comparison, ...]
    baseline_path: str = ""
    baseline_date: str = ""
    other_environment: str = ""
    version_changes: tuple[str, ...] = ()
    detectable_ratios: Mapping[str, float] = field(default_factory=dict)
    """Metric -> the smallest slowdown that the baseline can see, 1.031 for 3.1 %."""
    option_changes: tuple[str, ...] = ()
    """What was set otherwise when the baseline was recorded, `share_buffer true -> false`."""
    workload_changes: tuple[str, ...] = ()
    """In what the times of the baseline are of another workload, `threads 2 -> 1`: then they are not compared."""
    op_changes: tuple[OpChanges, ...] = ()
    """What the op tables have to do with it, where something differs from the baseline."""
    not_applicable: tuple[str, ...] = ()
    """`on` of the budgets that belong to other devices."""
    failing_states: tuple[State, ...] = (State.REGRESSED,)
    unverifiable: str = "fail"

    @property
    def detectable(self) -> tuple[str, ...]:
        """The smallest slowdowns that can be seen of the times of what was measured, `3.1 % (latency p50)`."""
        return seen_slowdowns(self.detectable_ratios)

    @property
    def broken(self) -> tuple[LimitResult, ...]:
        """The budgets that were broken."""
        return tuple(result for result in self.limits if result.state is Limit.BROKEN)

    @property
    def cannot_tell(self) -> tuple[LimitResult, ...]:
        """The budgets that could not be judged."""
        return tuple(result for result in self.limits if result.state is Limit.CANNOT_TELL)

    @property
    def worse(self) -> tuple[Comparison, ...]:
        """The comparisons that fail the test."""
        return tuple(result for result in self.comparisons if result.state in self.failing_states)

    @property
    def failed_names(self) -> frozenset[str]:
        """Names of the facts and metrics that broke a budget or got worse, without their phases."""
        names = [KEY[limit.key.split(".")[-1]].judges for limit in self.broken]
        for comparison in self.worse:
            if comparison.state in (State.NO_BASELINE, State.OTHER_ENVIRONMENT):  # nothing is known of it
                continue
            parts = [part for part in comparison.name.split(".") if part not in (PREFILL, DECODE)]
            names.append(parts[0])
        return frozenset(names)

    @property
    def fails(self) -> bool:
        """Whether the test fails."""
        return bool(self.broken or self.worse or (self.cannot_tell and self.unverifiable == "fail"))

    @property
    def skips(self) -> bool:
        """Whether the test is skipped: nothing failed, and a budget could not be judged."""
        return not self.fails and bool(self.cannot_tell) and self.unverifiable == "skip"

    @property
    def state(self) -> str:
        """One word for the whole: `over budget`, `cannot tell`, or the worst comparison."""
        if self.broken:
            return "over budget"
        if self.worse:
            return str(self.worse[0].state)
        if self.cannot_tell:
            return str(Limit.CANNOT_TELL)
        return str(self.comparisons[0].state) if self.comparisons else str(State.OK)


def judge(record: Record, budgets: Sequence[Budget], found: Found, policy: Policy) -> Verdict:
    """Judge a record against the budgets that belong to its device, and against its baseline."""
    applicable = [budget for budget in budgets if budget.applies_to(record.environment)]
    tolerance = tolerance_of(budgets, record.environment, policy.tolerance)
    entry, other_workload = found.entry, []
    if entry is not None and not found.other_environment:
        other_workload = workload_changes(entry.workload, record.workload)
        entry = without_times(entry) if other_workload else entry
    comparisons = compare(record, entry, tolerance=tolerance, same_environment=not found.other_environment)
    if other_workload:
        comparisons = tuple(_of_another_workload(each, other_workload) for each in comparisons)
    limits = [result for budget in applicable for result in check(budget, record)]
    failing: tuple[State, ...] = (State.REGRESSED,)
    if policy.strict:
        failing = tuple(state for state in State if state is not State.OK)
    if policy.updating:
        failing = ()
    return Verdict(
        limits=tuple(sorted(limits, key=lambda r: (r.state is not Limit.BROKEN, r.state is Limit.HELD, -r.excess))),
        comparisons=comparisons,
        baseline_path=found.path,
        baseline_date=found.entry.date if found.entry else "",
        other_environment=found.other_environment,
        version_changes=record.environment.differing_versions(found.entry.versions) if found.entry else (),
        detectable_ratios=_detectable(record, entry, tolerance) if not found.other_environment else {},
        option_changes=tuple(option_changes(found.entry.options, record.options)) if found.entry else (),
        workload_changes=tuple(other_workload),
        op_changes=op_changes(record, entry) if entry and _differs(comparisons) else (),
        not_applicable=tuple(b.on for b in budgets if b.on and b not in applicable),
        failing_states=failing,
        unverifiable=policy.unverifiable,
    )


def _of_another_workload(comparison: Comparison, changes: Sequence[str]) -> Comparison:
    if comparison.state is not State.NO_BASELINE or comparison.name not in METRIC:
        return comparison
    return replace(comparison, detail=f"the baseline's times are of another workload: {', '.join(changes)}")


def _detectable(record: Record, entry: Entry | None, tolerance: float) -> dict[str, float]:
    if entry is None:
        return {}
    gated = [METRIC[name] for name in record.metrics if METRIC[name].gated]
    seen = {metric.name: detectable(entry, metric, tolerance) for metric in gated}
    return {name: ratio for name, ratio in seen.items() if ratio is not None}


def _differs(comparisons: Sequence[Comparison]) -> bool:
    return any(comparison.state in (State.REGRESSED, State.CHANGED) for comparison in comparisons)


def is_suspicious(verdict: Verdict) -> bool:
    """Tell whether two more processes should decide.

    The times of what was measured are looked at again on suspicion; load, cold start and memory, which say less, only
    where they would fail.
    """
    return any(
        comparison.is_suspicious and (comparison.name in PRIMARY or comparison.state is State.REGRESSED)
        for comparison in verdict.comparisons
        if comparison.name in METRIC
    )
