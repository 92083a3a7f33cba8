"""One process of an A/B: both sessions opened, fed and warmed up, their outputs compared, and pairs timed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_onnxperf.core.ab import CANDIDATE, REFERENCE, Outputs, Pairs, is_precise
from pytest_onnxperf.core.errors import ProviderError, about
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.pairs import FEWEST_PAIRS, MOST_PAIRS
from pytest_onnxperf.core.stopping import FIRST_LOOK, GROWTH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from .plan import Plan, Worker
    from .session_job import SessionJob


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Of outputs: |candidate - reference| <= atol + rtol * |reference|."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class PairProcess:
    """What one process found."""

    pairs: Pairs
    loaded_first: str
    load_ns: Mapping[str, int]
    cold_start_ns: Mapping[str, int]
    inputs: Mapping[str, Mapping[str, str]]
    """Arm -> input -> type."""
    other_load: float | None
    threads: int
    outputs: Outputs


def named(arm: str, job: SessionJob) -> AbstractContextManager[None]:
    """Say in an error which arm it is about."""
    return about(f"the {arm}, {job.model_text}")


def timed_process(
    worker: Worker, jobs: Mapping[str, SessionJob], order: Sequence[str], plan: Plan, tolerances: Tolerances | None
) -> PairProcess:
    """Do the steps of one process.

    Args:
        worker: Of the kind `pair`; it is closed.
        jobs: Arm -> what it runs; the reference has the feeds, or the shapes to make them of.
        order: In which the arms are loaded.
        plan: How to measure.
        tolerances: Of outputs; None leaves their comparison out.

    Raises:
        OnnxPerfError: It says which arm failed, where that can be told.
    """
    cores = worker.call("hello")["cores"]
    threads, outputs = plan.threads or cores, Outputs("not checked")
    opened = {arm: _open(worker, arm, jobs[arm], threads) for arm in order}
    _feed(worker, jobs)
    cold_start_ns = {}
    for arm in order:
        with named(arm, jobs[arm]):
            answer = worker.call("warm_up", arm=arm, rounds=max(plan.warmup_rounds, 1))
        cold_start_ns[arm] = answer["cold_start_ns"]
    if tolerances is not None:
        found = worker.call("outputs", rtol=tolerances.rtol, atol=tolerances.atol)
        largest = found["largest_difference"]
        outputs = Outputs(found["state"], found["text"], math.nan if largest is None else largest)
    pairs, other_load = time_pairs(worker, plan)
    worker.close()
    return PairProcess(
        pairs=pairs,
        loaded_first=order[0],
        load_ns={arm: answer["load_ns"] for arm, answer in opened.items()},
        cold_start_ns=cold_start_ns,
        inputs={arm: {each["name"]: each["type"] for each in answer["inputs"]} for arm, answer in opened.items()},
        other_load=other_load,
        threads=threads,
        outputs=outputs,
    )


def _open(worker: Worker, arm: str, job: SessionJob, threads: int) -> dict[str, Any]:
    with named(arm, job):
        threads = 0 if "intra_op_num_threads" in job.session_options else threads
        try:
            return worker.call("open", arm=arm, job=job.open_arguments(threads, ""))
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error


def _feed(worker: Worker, jobs: Mapping[str, SessionJob]) -> None:
    reference, candidate = jobs[REFERENCE], jobs[CANDIDATE]
    with named(REFERENCE, reference):
        if reference.feeds is not None:
            worker.call("set_feeds", feeds=reference.feeds)
        else:
            worker.call("make_feeds", shapes=dict(reference.shapes), ranges=dict(reference.ranges))
    with named(CANDIDATE, candidate):
        worker.call("share_feeds")


def time_pairs(worker: Worker, plan: Plan) -> tuple[Pairs, float | None]:
    """Time pairs until their interval is narrow, or the time is over: `max_time` for each arm.

    Returns:
        The pairs, and the share of the cores that others used meanwhile.
    """
    fewest, max_time_s = max(plan.min_rounds, FEWEST_PAIRS), 2 * plan.max_time_s
    pairs: list[tuple[int, int]] = []
    end_s = time.monotonic() + max_time_s
    while True:
        wanted = max(fewest, FIRST_LOOK, math.ceil(len(pairs) * GROWTH))
        left_s = max(end_s - time.monotonic(), 0.0)
        found = worker.call("block", pairs=wanted - len(pairs), max_time_s=left_s)
        pairs += zip(found["reference_ns"], found["candidate_ns"], strict=True)
        is_over = time.monotonic() >= end_s or len(pairs) >= MOST_PAIRS
        if len(pairs) >= fewest and (is_over or is_precise(tuple(pairs))):
            return tuple(pairs), found["other_load"]
