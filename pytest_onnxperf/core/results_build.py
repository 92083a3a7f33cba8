"""From what a session has in memory to what the file of `--onnxperf-json` holds; see `results`."""

from __future__ import annotations

from pathlib import PurePath
from statistics import median
from typing import TYPE_CHECKING, cast

from .advice import advice_on
from .metrics import METRIC
from .results_build_facts import explanation_of, facts_of, finite, ms, op_changes_of, rounded
from .results_build_state import gpu_of, machine_of
from .results_judged import Against, Baseline, Budget, Comparison, LimitState, Requirement, Turns
from .results_measured import (
    MOST_POINTS,
    AbComparison,
    Distribution,
    Environment,
    Measurement,
    Metric,
    Paired,
    Speedup,
    TokenTimes,
)
from .tokens import gaps_by_token

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .ab import AbRecord
    from .ab import Speedup as FoundSpeedup
    from .against import Against as AgainstFound
    from .comparison import Comparison as Compared
    from .environment import Environment as Place
    from .judge import Verdict
    from .limits import LimitResult
    from .outcome import Outcome
    from .paired import Paired as PairedFound
    from .record import Record
    from .sample import Distribution as Spread
    from .states import Limit


def measurement_of(outcome: Outcome, root: str) -> Measurement:
    """Return one measurement with its verdict; `root` is pytest's root directory, which paths are relative to."""
    verdict = outcome.verdict
    compared = [_comparison_of(each, verdict.detectable_ratios) for each in verdict.comparisons]
    return _record_of(
        outcome.record,
        state=verdict.state,
        fails=verdict.fails,
        budgets=tuple(map(_budget_of, verdict.limits)),
        not_applicable=verdict.not_applicable,
        baseline=_baseline_of(verdict, root) if outcome.against is None and verdict.baseline_path else None,
        comparisons=tuple(compared),
        op_changes=tuple(map(op_changes_of, verdict.op_changes)),
        against=None if outcome.against is None else _against_of(outcome.against),
        explanation=None if outcome.explanation is None else explanation_of(outcome.explanation),
        advice=tuple(advice.text for advice in advice_on(outcome)) if verdict.fails else (),
        kept=outcome.kept,
    )


def comparison_of(record: AbRecord) -> AbComparison:
    """Return one call of `onnx_compare` or `genai_compare`."""
    whole = _speedup_of(record.speedup())
    return AbComparison(
        label=record.key.label,
        state=record.state,
        speedup=whole.ratio,
        low=whole.low,
        high=whole.high,
        parts={name: _speedup_of(record.speedup(name)) for name in list(record.times)[1:]},
        pairs=record.pairs,
        processes=record.processes,
        outputs=record.outputs.state,
        outputs_text=record.outputs.text,
        noise=record.noise,
        self_ratio=None if record.sensor is None else finite(record.sensor.ratio),
        settings={arm: dict(own) for arm, own in (record.settings or {}).items()},
        requirements=tuple(
            Requirement(
                text=each.text, limit_ratio=rounded(each.limit_ratio), state=_limit_state(each.state), why=each.why
            )
            for each in record.requirements
        ),
        why_not=record.why_not,
        reference=_record_of(record.reference),
        candidate=_record_of(record.candidate),
    )


def _speedup_of(found: FoundSpeedup) -> Speedup:
    low = finite(found.low) if found.low else None  # 0 and infinite are what it is where there is no interval
    return Speedup(ratio=finite(found.ratio), low=low, high=finite(found.high))


def _record_of(record: Record, **judged: object) -> Measurement:
    phases = {phase: facts_of(facts) for phase, facts in record.phases.items()}
    spreads = {name: tuple(map(_distribution_of, each)) for name, each in record.distributions.items()}
    return Measurement(
        label=record.key.label,
        model=record.model,
        environment=_environment_of(record.environment),
        processes=max((len(each) for name, each in record.metrics.items() if METRIC[name].is_timed), default=0),
        rounds=record.rounds,
        threads=record.threads,
        options=dict(record.options),
        workload=dict(record.workload),
        metrics={name: _metric_of(name, values) for name, values in record.metrics.items()},
        distributions=spreads,
        token_times=_token_times(record),
        paired={name: tuple(map(_paired_of, pairs)) for name, pairs in record.paired.items()},
        facts=None if record.facts is None else facts_of(record.facts, with_tables=not phases),
        phases=phases,
        not_measured=dict(record.not_measured),
        disturbance=record.disturbance,
        gpu=None if record.gpu is None else gpu_of(record.gpu),
        machine=None if record.machine is None else machine_of(record.machine),
        other_load_ratio=rounded(record.other_load_ratio),
        warnings=record.warnings,
        **judged,  # type: ignore[arg-type]  # fields of the same struct, from the functions here
    )


def _environment_of(place: Place) -> Environment:
    return Environment(
        key=place.key,
        device=place.device,
        execution_provider=place.execution_provider,
        versions=dict(place.versions),
    )


def _metric_of(name: str, values: Sequence[float]) -> Metric:
    metric = METRIC[name]
    shown = [value / metric.per_unit for value in values]
    return Metric(
        unit=metric.unit,
        better=metric.better,
        value=rounded(median(shown)),
        values=tuple(map(rounded, shown)),
    )


def _distribution_of(spread: Spread) -> Distribution:
    return Distribution(
        rounds=spread.rounds,
        mean_ms=ms(spread.mean_ns),
        stddev_ms=ms(spread.stddev_ns),
        quantiles_ms=tuple(map(ms, spread.quantiles_ns)),
    )


def _token_times(record: Record) -> TokenTimes | None:
    found = [gaps_by_token(generations, MOST_POINTS) for generations in record.generations]
    if not any(points for _, points in found):
        return None
    return TokenTimes(
        tokens_per_point=max(step for step, _ in found),
        itl_ms=tuple(tuple(map(ms, points)) for _, points in found),
    )


def _paired_of(paired: PairedFound) -> Paired:
    return Paired(
        tested_ms=ms(paired.tested_ns),
        references_ms={kind: ms(each) for kind, each in paired.references_ns.items()},
        spread_ratio=rounded(paired.spread_ratio),
    )


def _limit_state(state: Limit) -> LimitState:
    return cast("LimitState", state.value)


def _budget_of(limit: LimitResult) -> Budget:
    return Budget(
        key=limit.key,
        state=_limit_state(limit.state),
        limit=limit.limit,
        actual=limit.actual,
        limit_value=finite(limit.limit_value),
        actual_value=finite(limit.actual_value),
        unit=limit.unit,
        why=limit.why,
    )


def _comparison_of(compared: Compared, detectable_ratios: Mapping[str, float]) -> Comparison:
    figures = compared.figures
    numbers = {} if figures is None else {
        name: finite(getattr(figures, name))
        for name in ("old", "new", "ratio", "low_ratio", "high_ratio", "limit_ratio")
    }  # fmt: skip
    return Comparison(
        name=compared.name,
        state=str(compared.state),
        text=compared.text,
        detail=compared.detail,
        since_anchor=compared.since_anchor,
        unit=figures.unit if figures is not None else "",
        beside=figures.beside if figures is not None else "",
        detectable_ratio=finite(detectable_ratios.get(compared.name)),
        **numbers,
    )


def _baseline_of(verdict: Verdict, root: str) -> Baseline:
    path = PurePath(verdict.baseline_path)
    return Baseline(
        path=(path.relative_to(root) if path.is_relative_to(root) else path).as_posix(),
        date=verdict.baseline_date,
        other_environment=verdict.other_environment,
        version_changes=verdict.version_changes,
        option_changes=(*verdict.option_changes, *verdict.workload_changes),
    )


def _against_of(against: AgainstFound) -> Against:
    timed = {
        turns.name: Turns(state=str(turns.verdict.state), pairs=turns.pairs, repetitions=turns.repetitions)
        for turns in against.timed
    }
    return Against(
        reference=against.reference,
        versions=dict(against.versions),
        timed=timed,
        changed_files=against.changed_files,
        note=against.note,
        why_not=against.why_not,
    )
