"""One process of an A/B: both arms opened, given one input and warmed up, their outputs compared, and pairs timed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.ab import ARMS, CANDIDATE, REFERENCE, Outputs, TimedPairs, is_precise
from pytest_onnxperf.core.errors import ProviderError, about
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.pairs import FEWEST_PAIRS, MOST_PAIRS, judge_repetitions
from pytest_onnxperf.core.sample import Distribution, Sample
from pytest_onnxperf.core.stages import Stage, interval_text
from pytest_onnxperf.core.stopping import FIRST_LOOK, GROWTH
from pytest_onnxperf.core.tokens import Generation, generation_distributions, generation_metrics

from .generator_job import GeneratorJob
from .session_job import SessionJob

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .plan import Plan, Worker

_WHOLE_SESSION: Final = "latency_p50"
_GENERATION: Final = ("total_throughput", "ttft", "decode_throughput")

Job = SessionJob | GeneratorJob
Rounds = Mapping[str, Sequence[Any]]
"""Arm -> what each of its rounds returned: ns of a session, the times of a generator's tokens."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Of outputs: |candidate - reference| <= atol + rtol * |reference|."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class PairProcess:
    """What one process found."""

    pairs: TimedPairs
    metrics: Mapping[str, Mapping[str, float]]
    """Arm -> metrics of its rounds."""
    distributions: Mapping[str, Mapping[str, Distribution]]
    """Arm -> how its times are spread, by the names of `Record.distributions`."""
    generations: Mapping[str, tuple[Generation, ...]]
    """Arm -> its rounds, of generators; else empty."""
    loaded_first: str
    load_ns: Mapping[str, int]
    cold_start_ns: Mapping[str, int]
    inputs: Mapping[str, Mapping[str, str]]
    """Arm -> input -> type."""
    other_load: float | None
    threads: Mapping[str, int]
    """Arm -> intra-op threads."""
    outputs: Outputs


def named(arm: str, job: Job) -> AbstractContextManager[None]:
    """Say in an error which arm it is about."""
    return about(f"the {arm}, {job.model_text}")


def timed_process(
    worker: Worker, jobs: Mapping[str, Job], order: Sequence[str], plan: Plan, tolerances: Tolerances | None
) -> PairProcess:
    """Do the steps of one process.

    Args:
        worker: Of the kind `pair` or `generator_pair`; it is closed.
        jobs: Arm -> what it runs; of sessions the reference has the feeds, or the shapes to make them of.
        order: In which the arms are loaded.
        plan: How to measure.
        tolerances: Of outputs; None leaves their comparison out.

    Raises:
        OnnxPerfError: It says which arm failed, where that can be told.
    """
    cores = worker.call("hello")["cores"]
    threads, outputs = plan.threads or cores, Outputs("not checked")
    opened = {arm: _open(worker, arm, jobs[arm], threads) for arm in order}
    given = _give_input(worker, jobs)
    cold_start_ns = {}
    for arm in order:
        with named(arm, jobs[arm]):
            answer = worker.call("warm_up", arm=arm, rounds=max(plan.warmup_rounds, 1))
        cold_start_ns[arm] = answer["cold_start_ns"]
    if tolerances is not None:
        found = worker.call("outputs", rtol=tolerances.rtol, atol=tolerances.atol)
        largest = found["largest_difference"]
        outputs = Outputs(found["state"], found["text"], math.nan if largest is None else largest)
    rounds, other_load = time_rounds(worker, plan)
    worker.close()
    return PairProcess(
        pairs=pairs_of(rounds),
        **_summed_up(rounds, given),
        loaded_first=order[0],
        load_ns={arm: answer["load_ns"] for arm, answer in opened.items()},
        cold_start_ns=cold_start_ns,
        inputs={
            arm: {each["name"]: each["type"] for each in answer.get("inputs", ())} for arm, answer in opened.items()
        },
        other_load=other_load,
        threads={arm: job.threads(threads) for arm, job in jobs.items()},
        outputs=outputs,
    )


def _open(worker: Worker, arm: str, job: Job, threads: int) -> dict[str, Any]:
    with named(arm, job):
        try:
            return worker.call("open", arm=arm, job=job.open_arguments(threads, ""))
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error


def _give_input(worker: Worker, jobs: Mapping[str, Job]) -> dict[str, dict[str, Any]]:
    """Give both arms the same feeds or prompt; return what the step said of each prompt."""
    reference, candidate = jobs[REFERENCE], jobs[CANDIDATE]
    if isinstance(reference, GeneratorJob):
        given = {}
        for arm, job in jobs.items():
            assert isinstance(job, GeneratorJob)
            with named(arm, job):
                given[arm] = worker.call("prepare", arm=arm, **job.prompt)
        return given
    with named(REFERENCE, reference):
        if reference.feeds is not None:
            worker.call("set_feeds", feeds=reference.feeds)
        else:
            worker.call("make_feeds", shapes=dict(reference.shapes), ranges=dict(reference.ranges))
    with named(CANDIDATE, candidate):
        worker.call("share_feeds")
    return {}


def time_rounds(worker: Worker, plan: Plan) -> tuple[Rounds, float | None]:
    """Time pairs until the interval of each metric is narrow, or the time is over: `max_time` for each arm.

    Returns:
        The rounds of each arm, and the share of the cores that others used meanwhile.
    """
    fewest, max_time_s = max(plan.min_rounds, FEWEST_PAIRS), 2 * plan.max_time_s
    rounds: dict[str, list[Any]] = {arm: [] for arm in ARMS}
    end_s = time.monotonic() + max_time_s
    while True:
        count = len(rounds[REFERENCE])
        wanted = max(fewest, FIRST_LOOK, math.ceil(count * GROWTH))
        left_s = max(end_s - time.monotonic(), 0.0)
        found = worker.call("block", pairs=wanted - count, max_time_s=left_s)
        for arm in ARMS:
            rounds[arm] += found[arm]
        worker.stages.at(Stage.ROUNDS, *_texts(rounds))
        is_over = time.monotonic() >= end_s or len(rounds[REFERENCE]) >= MOST_PAIRS
        is_enough = len(rounds[REFERENCE]) >= fewest
        if is_enough and (is_over or all(map(is_precise, pairs_of(rounds).values()))):
            return rounds, found["other_load"]


def _texts(rounds: Rounds) -> tuple[str, str]:
    """Say how many pairs there are, and the time of the candidate / that of the reference so far, of a whole round."""
    verdict = judge_repetitions([next(iter(pairs_of(rounds).values()))])
    interval = interval_text(verdict.ratio, verdict.low_ratio, verdict.high_ratio)
    return f"{len(rounds[REFERENCE])} pairs", interval


def pairs_of(rounds: Rounds) -> TimedPairs:
    """Return the times of both arms by metric, that of a whole round first."""
    times = {arm: [_times_ns(each) for each in rounds[arm]] for arm in ARMS}
    return {
        name: tuple(
            (before[name], after[name]) for before, after in zip(times[REFERENCE], times[CANDIDATE], strict=True)
        )
        for name in times[REFERENCE][0]
    }


def metrics_of(job: Job) -> tuple[str, ...]:
    """Return what two arms of such a job are timed for, that of a whole round first."""
    if not isinstance(job, GeneratorJob):
        return (_WHOLE_SESSION,)
    return _GENERATION if job.prompt["new_tokens"] > 1 else _GENERATION[:-1]


def _times_ns(found: Any) -> dict[str, int]:
    if not isinstance(found, Mapping):
        return {_WHOLE_SESSION: found}
    one = _generation(found)
    times = dict(zip(_GENERATION, (one.ttft_ns + one.decode_ns, one.ttft_ns, one.decode_ns), strict=True))
    return times if one.gaps_ns else {name: times[name] for name in _GENERATION[:-1]}


def _generation(found: Mapping[str, Any]) -> Generation:
    return Generation(found["append_ns"], found["first_ns"], tuple(found["gaps_ns"]))


def _summed_up(rounds: Rounds, prompts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if not prompts:
        samples = {arm: Sample.of(rounds[arm]) for arm in ARMS}
        return {
            "metrics": {arm: sample.metrics() for arm, sample in samples.items()},
            "distributions": {arm: {"latency": sample.distribution()} for arm, sample in samples.items()},
            "generations": {},
        }
    generations = {arm: tuple(map(_generation, rounds[arm])) for arm in ARMS}
    return {
        "metrics": {
            arm: generation_metrics(each, prompts[arm]["prompt_tokens"], prompts[arm]["batch_size"])
            for arm, each in generations.items()
        },
        "distributions": {arm: generation_distributions(each) for arm, each in generations.items()},
        "generations": generations,
    }
