"""`--onnxperf-against`: what a measurement is, compared with the same one in another version of the world.

Times are judged by pairs of rounds that both arms ran in turn (see `pairs`), facts, memory and size by the rules of a
baseline, whose entry is made of the record of the reference arm. Nothing is stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from .baseline import entry_of
from .budget import Budget, max_regression, tolerance_of
from .compare_metrics import compare_metric
from .comparison import Comparison, Figures
from .judge import Found, Policy, Verdict, judge
from .metrics import METRIC, STORED_METRIC
from .op_changes import op_changes
from .pairs import FLOOR_RATIO, PairVerdict, judge_repetitions, log_ratio
from .states import State
from .units import change, number, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .baseline import Entry
    from .environment import Environment
    from .record import Record

UNTIMED: Final = ("peak_rss", "peak_vram", "model_size")
"""The metrics that both arms have and that are no times. A process tells them without much noise: beyond tolerance and
slack they are worse."""


@dataclass(frozen=True, slots=True)
class Turns:
    """One metric, timed in both arms in turn."""

    name: str
    """Of the metric; `decode_throughput` is judged by the times of its tokens."""
    reference: float
    """Median over the rounds of one pair of processes, whose ratio is nearest to the verdict's, in the inner unit."""
    tested: float
    verdict: PairVerdict
    """Of time of the tested arm / time of the reference arm: above 1 is slower, also of a throughput."""
    pairs: int
    repetitions: int
    """Pairs of processes: 1, or 3 where the first looked like a change."""

    @property
    def is_suspicious(self) -> bool:
        """Whether two more pairs of processes should decide."""
        return self.verdict.is_suspicious or (self.repetitions == 1 and self.verdict.state is State.IMPROVED)

    @property
    def values_text(self) -> str:
        """The medians with their unit, `1.02 -> 1.31 ms`."""
        metric = METRIC[self.name]
        reference, tested = (number(value / metric.per_unit) for value in (self.reference, self.tested))
        return f"{reference} -> {tested} {metric.unit}"

    @property
    def contradiction(self) -> str:
        """Why the medians go the other way than the ratio that was judged; empty where they do not."""
        seen = self.tested / self.reference if METRIC[self.name].better == "less" else self.reference / self.tested
        if self.verdict.state is State.OK or (seen - 1) * (self.verdict.ratio - 1) >= 0:
            return ""
        return "the machine changed its speed: the medians are of all rounds, the ratio is of neighbouring ones"

    @property
    def interval_text(self) -> str:
        """The ratio of the times with its interval, `1.284 [1.270 to 1.301]`."""
        verdict = self.verdict
        ends = [f"{end:.3f}" if math.isfinite(end) else "?" for end in (verdict.low_ratio, verdict.high_ratio)]
        return f"{verdict.ratio:.3f} [{ends[0]} to {ends[1]}]"


@dataclass(frozen=True, slots=True)
class Against:
    """What a measurement was compared with, and how its times came out."""

    reference: str
    """For people: `revision main (1a2b3c4)`, `interpreter /envs/old/bin/python`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the reference arm; empty where it was not measured."""
    timed: tuple[Turns, ...] = ()
    changed_files: tuple[str, ...] = ()
    """Of the model, those that another revision has otherwise."""
    note: str = ""
    """What is the same in both arms."""
    why_not: str = ""
    """Why nothing could be compared; empty where it was."""


def turns_of(name: str, repetitions: Sequence[Sequence[tuple[int, int]]], per_s: float, floor_ratio: float) -> Turns:
    """Judge the pairs of one metric.

    Args:
        name: Of the metric.
        repetitions: For each pair of processes its pairs of rounds, (reference, tested), in ns.
        per_s: 0 for a time; for a throughput what it counts in one round, in tokens.
        floor_ratio: 1.02: a median within 2 % is no change.

    Raises:
        MeasurementError: There are no pairs.
    """
    verdict = judge_repetitions(repetitions, floor_ratio=floor_ratio)
    nearest = min(repetitions, key=lambda pairs: abs(_middle_log(pairs) - math.log(verdict.ratio)))
    middle_ns = [median(pair[side] for pair in nearest) for side in (0, 1)]
    reference, tested = (per_s * 1e9 / max(value, 1) if per_s else float(max(value, 1)) for value in middle_ns)
    return Turns(name, reference, tested, verdict, sum(map(len, repetitions)), len(repetitions))


def _middle_log(pairs: Sequence[tuple[int, int]]) -> float:
    return median(log_ratio(before_ns, after_ns) for before_ns, after_ns in pairs)


def floor_of(budgets: Sequence[Budget], environment: Environment, tolerance: float | None) -> float:
    """Return the ratio within which a median is no change: of the test's `max_regression`, the tolerance, or 2 %.

    Args:
        budgets: Of the test.
        environment: Where it is measured.
        tolerance: The one that was given by a person; None where it is the default of baselines.
    """
    given = max_regression(budgets, environment)
    given = tolerance if given is None else given
    return FLOOR_RATIO if given is None else 1 + given


def judge_against(
    record: Record, reference: Record, timed: Sequence[Turns], budgets: Sequence[Budget], policy: Policy
) -> Verdict:
    """Judge the tested arm: budgets as ever, times by the pairs, everything else by what the reference arm has."""
    entry = _entry(reference)
    verdict = judge(record, budgets, Found(entry), policy)
    tolerance = tolerance_of(budgets, record.environment, policy.tolerance)
    comparisons = [
        *(_told(comparison, reference) for comparison in verdict.comparisons if comparison.name not in METRIC),
        *(
            compare_metric(replace(METRIC[name], is_timed=False), record, entry, tolerance, True)
            for name in UNTIMED
            if name in record.metrics and METRIC[name].stored_name in entry.metrics
        ),
        *map(comparison_of, timed),
    ]
    is_slower = any(turns.verdict.state is State.REGRESSED for turns in timed)
    return replace(
        verdict,
        comparisons=tuple(sorted(comparisons, key=lambda c: (c.state.severity, -c.badness, c.name))),
        op_changes=op_changes(record, entry) if is_slower else verdict.op_changes,
    )


def _entry(reference: Record) -> Entry:
    entry = entry_of(reference, "", "")
    metrics = {name: values for name, values in entry.metrics.items() if STORED_METRIC[name].name in UNTIMED}
    anchor = replace(entry.anchor, metrics={})  # there is no history
    return replace(entry, metrics=metrics, anchor=anchor)


def _told(comparison: Comparison, reference: Record) -> Comparison:
    """What the reference arm does not have is no missing baseline: it cannot be told."""
    if comparison.state is not State.NO_BASELINE:
        return comparison
    reason = f": {reference.unavailable_facts}" if reference.unavailable_facts else ""
    return replace(comparison, state=State.CANNOT_TELL, text=f"{comparison.text}: the reference arm has none{reason}")


def comparison_of(turns: Turns) -> Comparison:
    """Return the comparison of one metric's times."""
    metric, verdict = METRIC[turns.name], turns.verdict
    text = (
        f"{metric.label} {turns.values_text}, ratio of times {turns.interval_text} ({change(verdict.ratio)}), "
        f"{quantity(turns.pairs, 'pairs')}"
    )
    has_interval = verdict.low_ratio > 0 and math.isfinite(verdict.high_ratio)
    figures = Figures(
        unit=metric.unit,
        old=turns.reference / metric.per_unit,
        new=turns.tested / metric.per_unit,
        ratio=verdict.ratio,
        low_ratio=verdict.low_ratio if has_interval else None,
        high_ratio=verdict.high_ratio if has_interval else None,
    )
    detail = "; ".join(part for part in (verdict.reason, turns.contradiction) if part)
    return Comparison(turns.name, verdict.state, text, verdict.ratio, detail, figures=figures)
