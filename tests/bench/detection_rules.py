"""The rules that `detection.py` replays: what each says of one check."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pytest_onnxperf.core.decide import RAW_DRIFT_LOG, judge_stored, stored_limits
from pytest_onnxperf.core.order_statistics import quantile
from pytest_onnxperf.core.paired import Paired, beside_ratios, of_rounds, paired_of
from pytest_onnxperf.core.pairs import judge_pairs, median_of_three
from pytest_onnxperf.core.reference_fit import Fit, apply, best_reference, is_noisy_reference
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.stopping import Decision, Stopping, pair_plan, stored_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tests.bench.replay import Process

BENCHMARK_FIELDS: Final = ("mean", "median", "min")
STORED_REFERENCE: Final = 5
STORED_RAW: Final = 10
TOLERANCE_REFERENCE: Final = 0.03
TOLERANCE_RAW: Final = 0.05
REPEATS: Final = 3
STEPS_A_ROUND: Final = 3
"""So few, since 200 rounds that were recorded leave 66 then, enough for three looks."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check said and spent."""

    is_alarm: bool
    processes: int = 1
    rounds: int = 0
    is_noisy: bool = False
    """It said that nothing can be told, by its sensor or its interval."""


@dataclass(slots=True)
class Result:
    """One rule on one pair of files. Shares are of 1."""

    rule: str
    baseline: str
    current: str
    false_alarms: float
    false_alarms_interval: tuple[float, float]
    detection: dict[int, float]
    processes_per_check: float
    noisy: float
    """Share of the checks of unchanged files that could not tell."""
    reference: str = ""
    rounds_ratio: dict[int, float] = field(default_factory=dict)
    """By slowdown: rounds spent over those of the rule with a fixed number."""
    same_verdict: dict[int, float] = field(default_factory=dict)
    """By slowdown: share of the checks in which both raise an alarm, or neither."""
    missed: list[str] = field(default_factory=list)


def benchmark_checks(old: Sequence[Process], new: Sequence[Process], field_name: str, *, same: bool) -> list[bool]:
    """Run pytest-benchmark's own `--benchmark-compare-fail=FIELD:5%` on each pair of processes."""
    from pytest_benchmark.utils import parse_compare_fail

    check: Any = parse_compare_fail(f"{field_name}:5%")  # type: ignore[no-untyped-call]
    stored, current = ([{field_name: _benchmark_stat(each, field_name)} for each in side] for side in (old, new))
    return [
        bool(check.fails(after, before))
        for i, before in enumerate(stored)
        for j, after in enumerate(current)
        if not (same and i == j)
    ]


def _benchmark_stat(process: Process, field_name: str) -> float:
    from pytest_benchmark.stats import Stats

    stats: Any = Stats()  # type: ignore[no-untyped-call]
    for duration_ns in process.data[0]:
        stats.update(duration_ns / 1e9)
    return float(getattr(stats, field_name))


def mann_whitney_checks(old: Sequence[Process], new: Sequence[Process], *, same: bool) -> list[bool]:
    """Return p < 0.01 and a median more than 5 % above, for each pair of processes."""
    from scipy.stats import mannwhitneyu

    fewest = min(len(each.data[0]) for each in (*old, *new))
    before, after = (np.stack([each.data[0][:fewest] for each in side]) for side in (old, new))
    i, j = (index.ravel() for index in np.indices((len(old), len(new))))
    if same:
        i, j = i[i != j], j[i != j]
    p = mannwhitneyu(after[j], before[i], alternative="greater", method="asymptotic", axis=1).pvalue
    medians = np.median(after, axis=1)[j] / np.median(before, axis=1)[i]
    return [bool(each) for each in (p < 0.01) & (medians > 1.05)]


def raw_value(process: Process) -> float:
    """The minimum: on a CPU noise only ever adds."""
    return float(process.data[0].min())


def reference_value(process: Process, rounds: int | None = None) -> float:
    """The ratio to the reference in the first so many rounds, or all."""
    rounds = rounds or process.rounds
    reference, tested = process.first(rounds)
    return quantile(sorted(beside_ratios(tested.tolist(), reference.tolist(), rounds)), 0.5)


def stored_check(
    stored: Sequence[float], current: Sequence[float], *, tolerance: float, drift_log: float, fitted_weights: int = 0
) -> Check:
    """One process, and two more on suspicion."""
    spent = 1
    options: dict[str, Any] = {"drift_log": drift_log, "fitted_weights": fitted_weights}
    verdict = judge_stored(stored, current[:1], tolerance=tolerance, better="less", **options)
    if verdict.is_suspicious:
        spent = REPEATS
        verdict = judge_stored(stored, current[:REPEATS], tolerance=tolerance, better="less", **options)
    return Check(verdict.state is State.REGRESSED, spent, is_noisy=verdict.state is State.NOISY)


def raw_check(stored: Sequence[float], current: Sequence[Process]) -> Check:
    """Raw minima, K = 10."""
    return stored_check(stored, [raw_value(each) for each in current], tolerance=TOLERANCE_RAW, drift_log=RAW_DRIFT_LOG)


def reference_check(stored: Sequence[float], current: Sequence[Process]) -> Check:
    """Ratios to a reference, K = 5."""
    return _beside_reference(stored, current, lambda process: process.rounds)


def reference_check_early(stored: Sequence[float], current: Sequence[Process]) -> Check:
    """The same with rounds stopped early in each process."""
    limits = stored_limits(stored, tolerance=TOLERANCE_REFERENCE)
    assert limits is not None

    def stop(process: Process) -> int:
        reference, tested = (each.tolist() for each in process.data)
        ratios = of_rounds(beside_ratios(tested, reference, process.rounds), process.rounds)
        logs = [math.log(each) - limits.stored_log for each in ratios]
        stopping = Stopping(stored_plan(limits, process.rounds))
        return stopped_after(stopping, lambda begin, end: stopping.add(logs[begin:end]))

    return _beside_reference(stored, current, stop)


def by_steps(
    check: Callable[[Sequence[float], Sequence[Process]], Check], stored: Sequence[float], current: Sequence[Process]
) -> Check:
    """Run a check with every three rounds as the steps of one."""
    return check(stored, [_in_threes(each) for each in current])


def _in_threes(process: Process) -> Process:
    rounds = process.rounds // STEPS_A_ROUND
    return replace(process, data=process.first(rounds * STEPS_A_ROUND), rounds=rounds)


def _beside_reference(stored: Sequence[float], current: Sequence[Process], count_of: Callable[[Process], int]) -> Check:
    """Judge one process, and two more where it is suspicious or its reference noisy; noisy where most of three are."""
    values: list[float] = []
    noisy, rounds = [], 0
    for process in current:
        count = count_of(process)
        rounds += count
        values.append(reference_value(process, count))
        noisy.append(is_noisy_reference(process.first(count)[0].tolist()))
        verdict = judge_stored(stored, values, tolerance=TOLERANCE_REFERENCE, better="less")
        if len(values) == 1 and not (verdict.is_suspicious or noisy[0]):
            break
    is_noisy = sum(noisy) > len(noisy) / 2
    is_alarm = verdict.state is State.REGRESSED and not is_noisy
    return Check(is_alarm, len(values), rounds, is_noisy or verdict.state is State.NOISY)


def stopped_after(stopping: Stopping, add: Callable[[int, int], Decision]) -> int:
    """Feed blocks up to each look until it decides; return the rounds."""
    decision = Decision.GO_ON
    while decision is Decision.GO_ON:
        decision = add(stopping.rounds, stopping.rounds + stopping.until_next_look)
    return stopping.rounds


def log_ratios(process: Process) -> NDArray[np.float64]:
    """log(B / A) of each pair."""
    return np.log(process.data[1] / process.data[0])


def pair_check(processes: Sequence[NDArray[np.float64]], *, always_three: bool, early: bool) -> Check:
    """A/B: one process and two more on suspicion, or three repetitions; the median of three decides."""
    taken, rounds = [], 0
    for process in processes:
        pairs, decision = _early(process) if early else (process.tolist(), Decision.OUT_OF_TIME)
        rounds += len(pairs)
        taken.append(pairs)
        if len(taken) == 1 and not always_three:
            first = judge_pairs(pairs)
            if not first.is_suspicious:
                is_noisy = first.state is State.NOISY and decision is not Decision.CERTAIN_OK
                return Check(False, 1, rounds, is_noisy)
    verdict = median_of_three(taken)
    return Check(verdict.state is State.REGRESSED, len(taken), rounds, verdict.state is State.NOISY)


def _early(process: NDArray[np.float64]) -> tuple[list[float], Decision]:
    stopping = Stopping(pair_plan(len(process)))
    decisions: list[Decision] = []

    def add(begin: int, end: int) -> Decision:
        decisions.append(stopping.add(process[begin:end].tolist()))
        return decisions[-1]

    count = stopped_after(stopping, add)
    return process[:count].tolist(), decisions[-1]


def false_certain(processes: Sequence[NDArray[np.float64]], *, times: int, seed: int) -> tuple[float, float]:
    """Return the shares of `certain_worse` and `certain_ok` where the truth is just at its limit, the worst case.

    The pairs of each process are moved so that their median is the limit, and shuffled `times` times.
    """
    rng = np.random.default_rng(seed)
    wrong = [0, 0]
    for process in processes:
        plan = pair_plan(len(process))
        for index, limit, said in ((0, plan.worse_log, Decision.CERTAIN_WORSE), (1, plan.ok_log, Decision.CERTAIN_OK)):
            at_limit = process - np.median(process) + limit
            for _ in range(times):
                wrong[index] += _early(rng.permutation(at_limit))[1] is said
    count = len(processes) * times
    return wrong[0] / count, wrong[1] / count


def clopper_pearson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share seen in `count` independent cases (Clopper and Pearson 1934).

    Checks share their processes, so `count` is the number of distinct processes of today, not of checks.
    """
    from scipy.special import betaincinv

    hits = share * count
    low = float(betaincinv(hits, count - hits + 1, 0.025)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 0.975)) if hits < count else 1.0
    return low, min(high, 1.0) if not math.isnan(high) else 1.0


@dataclass(frozen=True, slots=True)
class Variation:
    """How processes of one model differ: standard deviations of logarithms, of 1."""

    processes: int
    raw: float
    beside: dict[str, float]
    """Kind of reference -> of the ratio to it."""
    fit: Fit
    """What the plugin would choose for all of them as a baseline."""


def variation(by_kind: dict[str, list[Process]]) -> Variation:
    """Return it for processes that were timed beside references of several kinds, in the same order for each."""
    kinds = sorted(by_kind)
    paired = [
        _paired(dict(zip(kinds, each, strict=True))) for each in zip(*(by_kind[kind] for kind in kinds), strict=True)
    ]
    beside = {kind: _spread([each.tested_ns / each.references_ns[kind] for each in paired]) for kind in kinds}
    return Variation(len(paired), _spread([each.tested_ns for each in paired]), beside, best_reference(paired))


def _paired(by_kind: dict[str, Process]) -> Paired:
    tested = next(iter(by_kind.values())).data[1]
    references = {kind: each.data[0].astype(int).tolist() for kind, each in by_kind.items()}
    return paired_of({"tested": tested.astype(int).tolist(), **references}, {})


def _spread(values: Sequence[float]) -> float:
    return float(np.std(np.log(values), ddof=1))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """One metric of one process, from a file that holds statistics alone."""

    tested_ns: float
    references_ns: dict[str, float]


def statistics_checks(
    objects: Sequence[dict[str, Any]], *, seed: int, draws: int = 400
) -> list[tuple[str, int, dict[int, list[Check]]]]:
    """Return the checks of a GenAI file by metric, with the fitted reference: K stored processes, 3 of another arm.

    The processes are drawn at random: the file has no time of day.
    """
    rng = np.random.default_rng(seed)
    found = []
    for metric, compute in (("step", "ref"), ("ttft", "rt")):
        arms = {
            percent: [
                Quantiles(each[metric], {"compute": each[compute], "memory": each["refm"]})
                for each in objects
                if each["k"] == kind
            ]
            for percent, kind in ((0, "g20"), (5, "g21"))
        }
        for stored in (5, 10):
            for only in ("raw", "fit"):
                checks: dict[int, list[Check]] = {0: [], 5: []}
                for _ in range(draws):
                    order = rng.permutation(len(arms[0]))
                    base = [arms[0][i] for i in order[:stored]]
                    fit = best_reference(base) if only == "fit" else Fit("none")
                    values = [apply(fit, each) for each in base]
                    same = [arms[0][i] for i in order[stored : stored + REPEATS]]
                    slower = [arms[5][i] for i in rng.permutation(len(arms[5]))[:REPEATS]]
                    for percent, arm in ((0, same), (5, slower)):
                        current = [apply(fit, each) for each in arm]
                        weights = fit.fitted_weights
                        checks[percent].append(
                            stored_check(
                                values, current, tolerance=TOLERANCE_REFERENCE, drift_log=0.0, fitted_weights=weights
                            )
                        )
                found.append((f"{metric} {only}", stored, checks))
    return found
