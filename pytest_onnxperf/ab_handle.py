"""What a comparison hands to a test: the result of two arms, which can require a ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from .compare_bench import CompareBench, check_ratio, checked_tolerances, with_times
from .core.ab import (
    CANDIDATE,
    REFERENCE,
    AbRecord,
    Outputs,
    Speedup,
    judged,
    metric_among,
    needs_more,
    requirements_of,
)
from .core.errors import OnnxPerfError, SettingError
from .core.pairs import FLOOR_RATIO
from .core.states import Limit
from .report.comparison import headline, requirement_failure
from .runtime.measure import CONFIRMATIONS
from .workbench import failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .core.ab import Requirement
    from .core.record import Record
    from .runtime.compare_job import AbMeasurement
    from .runtime.pair_process import Job


def compared(
    bench: CompareBench, label: str, make_jobs: Callable[[], Mapping[str, Job]], tolerances: tuple[float, float] | None
) -> AbComparison:
    """Measure two arms in turn and return the result, which passes unless it is asked to `require` something.

    Args:
        bench: Of the test.
        label: Tells several comparisons of one test apart.
        make_jobs: Returns the job of each arm, or raises an `OnnxPerfError`.
        tolerances: `rtol` and `atol` of the outputs; None compares the speed alone.
    """
    __tracebackhide__ = True  # the place of a skip is the test's line
    bench.check_running()
    key = bench.key(label)
    try:
        jobs = make_jobs()
        wanted = checked_tolerances(bench.function, *tolerances) if tolerances is not None else None
        measurement = bench.measurement(jobs)
    except OnnxPerfError as error:
        raise failed(str(error)) from None
    _check_timing(bench)
    record = bench.measured(key, measurement, lambda: bench.compare(key, measurement, wanted))
    bench.records.append(record)
    return AbComparison(bench, measurement, len(bench.records) - 1)


def _check_timing(bench: CompareBench) -> None:
    __tracebackhide__ = True
    settings = bench.settings
    if settings.timing == "on" or settings.unverifiable == "pass":
        return
    why = f"{bench.function} compares times, and none are measured (--onnxperf-timing=off)"
    if settings.unverifiable == "skip":
        pytest.skip(why)
    msg = f"{why}: deselect this test, or set onnxperf_unverifiable = skip or pass for such a run"
    raise bench.fail(msg)


class AbComparison:
    """The result of a comparison. Ratios are time of reference / time of candidate: above 1 the candidate is faster.

    Of generators the whole generation is one metric (`total_throughput`), beside `ttft` and `decode_throughput`. Peak
    memory is no part of it: both arms share a process.
    """

    def __init__(self, bench: CompareBench, measurement: AbMeasurement, place: int) -> None:
        self._bench, self._measurement, self._place = bench, measurement, place

    @property
    def record(self) -> AbRecord:
        """All that was found."""
        return self._bench.records[self._place]

    @property
    def speedup(self) -> float:
        """Median over the pairs, of a whole round; NaN where nothing was timed."""
        return self.record.speedup().ratio

    @property
    def low(self) -> float:
        """Lower end of the 99 % interval of `speedup`."""
        return self.record.speedup().low

    @property
    def high(self) -> float:
        """Upper end of the 99 % interval of `speedup`."""
        return self.record.speedup().high

    def speedup_of(self, metric: str) -> Speedup:
        """Return the ratio of one metric with its interval: `ttft`, `decode_throughput`."""
        __tracebackhide__ = True
        try:
            return self.record.speedup(metric)
        except SettingError as error:
            raise failed(str(error)) from None

    @property
    def reference(self) -> Record:
        """Facts and metrics of the reference: latency quantiles, cold start, load."""
        return self.record.reference

    @property
    def candidate(self) -> Record:
        """Facts and metrics of the candidate."""
        return self.record.candidate

    @property
    def outputs(self) -> Outputs:
        """How the outputs of both compare."""
        return self.record.outputs

    def require(
        self, *, min_speedup: float | None = None, max_slowdown: float | None = None, metric: str | None = None
    ) -> AbComparison:
        """Fail the test unless the candidate is fast enough and its outputs are those of the reference.

        What does not hold in one process is decided by three. What cannot be told is no pass: it fails, or does as
        `onnxperf_unverifiable` says.

        Args:
            min_speedup: Time of reference / time of candidate at least, 1.5: the whole interval must lie above.
            max_slowdown: Time of candidate / time of reference at most, from 1.02 on: a file differs from itself by
                up to that.
            metric: Of generators `ttft`, `decode_throughput` or `total_throughput`; None requires it of each.
        """
        __tracebackhide__ = True
        for name, value, least in (("min_speedup", min_speedup, 0.0), ("max_slowdown", max_slowdown, FLOOR_RATIO)):
            check_ratio(name, value, least)
        if min_speedup is None and max_slowdown is None:
            msg = "require(): give min_speedup, max_slowdown or both, as in require(max_slowdown=1.02)"
            raise failed(msg)
        required = self._required(min_speedup, max_slowdown, metric)
        if any(needs_more(each, self.record) for each in required):
            self._confirm()
        results = tuple(judged(each, self.record) for each in required)
        record = replace(self.record, requirements=(*self.record.requirements, *results))
        self._bench.records[self._place] = record
        self._raise(record, results)
        return self

    def _required(
        self, min_speedup: float | None, max_slowdown: float | None, metric: str | None
    ) -> tuple[Requirement, ...]:
        __tracebackhide__ = True
        names = self._measurement.metrics
        try:
            wanted = names if metric is None else (metric_among(names, metric),)
        except SettingError as error:
            msg = f"require({error})"
            raise failed(msg) from None
        return requirements_of(min_speedup, max_slowdown, wanted, are_named=len(names) > 1)

    def _confirm(self) -> None:
        self._bench.check_running()
        bench, measurement, record = self._bench, self._measurement, self.record

        def confirmed() -> AbRecord:
            for _ in range(CONFIRMATIONS):
                measurement.compare(None)
            return replace(
                with_times(record, measurement),
                reference=measurement.with_times(REFERENCE, record.reference),
                candidate=measurement.with_times(CANDIDATE, record.candidate),
            )

        bench.records[self._place] = bench.measured(record.key, measurement, confirmed)

    def _raise(self, record: AbRecord, results: tuple[Requirement, ...]) -> None:
        __tracebackhide__ = True
        unverifiable = self._bench.settings.unverifiable
        broken = [each for each in results if each.state is Limit.BROKEN]
        unknown = [each for each in results if each.state is Limit.CANNOT_TELL]
        if broken or (unknown and unverifiable == "fail"):
            raise self._bench.fail(requirement_failure(record, [*broken, *unknown]))
        if unknown and unverifiable == "skip":
            pytest.skip(headline(record, unknown[0]))
