"""Times that another plugin took of a session in the test's own process, and the record of its facts, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from .baseline import stored_facts
from .providers import short_name
from .sample import Sample
from .units import NS_PER_S
from .workload import workload

if TYPE_CHECKING:
    from .record import Record

_OF_MEANS: Final = ("latency_p50", "throughput")
"""What the means of several calls tell too. Their tails and their least are not those of single calls."""
_OF_CALLS: Final = ("latency_p90", "latency_p99", "latency_min")
_ELSEWHERE: Final = "benchmark(session.run, ...) times warm runs alone; measure() finds it"


@dataclass(frozen=True, slots=True)
class BenchmarkTimes:
    """What pytest-benchmark found."""

    rounds_s: Sequence[float] = ()
    """Seconds of one call, in each round the mean of `calls_per_round`."""
    calls_per_round: int = 1
    why_not: str = ""
    """Why there are no times; empty where there are."""
    other_load_ratio: float = 0.0
    """Share of the usable CPU cores that others used meanwhile, 0 to 1."""
    disturbance: str = ""
    """The same as a text, where it is too much."""
    threads: int = 0
    """Intra-op threads of the session."""
    inputs: str = ""
    """What it was fed with, as a workload names it."""


def with_benchmark(record: Record, times: BenchmarkTimes) -> Record:
    """Return a record without times with those of pytest-benchmark: raw ones, of one process, without a reference.

    Raises:
        MeasurementError: A time is negative.
    """
    sample = None if times.why_not else Sample.of([round(each * NS_PER_S) for each in times.rounds_s])
    found = sample.metrics() if sample else {}
    is_mean = times.calls_per_round > 1
    taken = {name: (found[name],) for name in (*_OF_MEANS, *(() if is_mean else _OF_CALLS)) if name in found}
    of_means = f"a round of pytest-benchmark was the mean of {times.calls_per_round} calls, which hides single ones"
    reasons = dict.fromkeys(_OF_MEANS, times.why_not) | dict.fromkeys(_OF_CALLS, times.why_not or of_means)
    missing = {
        name: why if name == "facts" else reasons.get(name, _ELSEWHERE)
        for name, why in record.not_measured.items()
        if name not in taken
    }
    return replace(
        record,
        metrics={**taken, **record.metrics},
        not_measured=missing,
        rounds=len(times.rounds_s),
        distributions={"latency": (sample.distribution(),)} if sample else {},
        threads=times.threads,
        workload=workload(short_name(record.environment.execution_provider), times.threads, inputs=times.inputs),
        other_load_ratio=times.other_load_ratio,
        disturbance=times.disturbance,
    )


def extra_info(record: Record) -> dict[str, Any]:
    """Return what pytest-benchmark keeps of a record beside its times: plain data, facts named as in a baseline.

    Where no fact can be told there is none, and `why_no_facts` says why.
    """
    return {
        "model": record.model,
        "environment": record.environment.key,
        "facts": stored_facts(record.facts),
        "why_no_facts": record.unavailable_facts,
    }
