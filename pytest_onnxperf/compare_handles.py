"""What the fixture `onnx_compare` hands to a test: it measures two arms, and the result can require a ratio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .compare_bench import (
    FUNCTION,
    CompareBench,
    check_ratio,
    checked_inputs,
    checked_tolerances,
    merged_options,
    with_times,
)
from .core.ab import CANDIDATE, REFERENCE, AbRecord, Outputs, judged, needs_more, requirements_of
from .core.errors import OnnxPerfError
from .core.states import Limit
from .report.comparison import headline, requirement_failure
from .runtime.measure import CONFIRMATIONS
from .runtime.session_job import SessionJob
from .workbench import checked_path, checked_sizes, failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .core.ab import Requirement
    from .core.record import Record
    from .runtime.compare_job import AbMeasurement


class OnnxComparer:
    """The function behind the fixture `onnx_compare`."""

    def __init__(self, bench: CompareBench) -> None:
        self._bench = bench

    def __call__(
        self,
        reference: str | Path,
        candidate: str | Path,
        *,
        feeds: Mapping[str, object] | None = None,
        shapes: Mapping[str, int | Sequence[int]] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimensions: Mapping[str, int] | None = None,
        custom_op_libraries: Sequence[str | Path] = (),
        reference_options: Mapping[str, Any] | None = None,
        candidate_options: Mapping[str, Any] | None = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
        check_outputs: bool = True,
        label: str = "",
    ) -> AbComparison:
        """Measure both models in turn and return the result, which passes unless it is asked to `require` something.

        Args:
            reference: The model to compare with.
            candidate: The model that is to be faster, or no slower.
            feeds: Input name -> array, for both; floating values are cast where an arm takes another width.
            shapes: Instead of feeds: symbolic dimension -> size, or input name -> whole shape.
            ranges: Input name -> (lowest, highest) of made values.
            ep: The execution provider of both; like what follows, of one arm by its own options.
            provider_options: Options of the EP.
            session_options: As for `onnx_session`.
            free_dimensions: As for `onnx_session`.
            custom_op_libraries: As for `onnx_session`.
            reference_options: Of the reference alone: a dict of `ep`, `provider_options`, `session_options`,
                `free_dimensions`, `custom_op_libraries`; what is a dict is laid over that of both.
            candidate_options: Of the candidate alone.
            rtol: Outputs are equal where |candidate - reference| <= atol + rtol * |reference|.
            atol: The same.
            check_outputs: False compares the speed alone.
            label: Tells several comparisons of one test apart.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        self._bench.check_running()
        key = self._bench.key(label)
        common = {
            "ep": ep,
            "provider_options": provider_options,
            "session_options": session_options,
            "free_dimensions": free_dimensions,
            "custom_op_libraries": custom_op_libraries,
        }
        try:
            inputs = checked_inputs(feeds, shapes, ranges)
            tolerances = checked_tolerances(rtol, atol)
            jobs = {
                REFERENCE: self._job(REFERENCE, reference, common, reference_options, inputs),
                CANDIDATE: self._job(CANDIDATE, candidate, common, candidate_options, inputs),
            }
        except OnnxPerfError as error:
            raise failed(str(error)) from None
        self._check_timing()
        bench, measurement = self._bench, self._bench.measurement(jobs)
        wanted = tolerances if check_outputs else None
        record = bench.measured(measurement, lambda: bench.compare(key, measurement, wanted))
        bench.records.append(record)
        return AbComparison(bench, measurement, len(bench.records) - 1)

    def _check_timing(self) -> None:
        __tracebackhide__ = True
        settings = self._bench.settings
        if settings.timing == "on" or settings.unverifiable == "pass":
            return
        why = f"{FUNCTION} compares times, and none are measured (--onnxperf-timing=off)"
        if settings.unverifiable == "skip":
            pytest.skip(why)
        msg = f"{why}: deselect this test, or set onnxperf_unverifiable = skip or pass for such a run"
        raise self._bench.fail(msg)

    def _job(
        self, arm: str, model: object, common: Mapping[str, Any], own: Mapping[str, Any] | None,
        inputs: Mapping[str, Any],
    ) -> SessionJob:  # fmt: skip
        __tracebackhide__ = True
        options = merged_options(f"{arm}_options", common, own)
        path = checked_path(model, f"{FUNCTION}: {arm}")
        return SessionJob(
            model=path.absolute(),
            model_text=path.name if path.is_absolute() else str(path),
            provider=self._bench.provider(options["ep"]),
            provider_options=options["provider_options"],
            session_options=options["session_options"],
            free_dimensions=checked_sizes(options["free_dimensions"], FUNCTION),
            custom_op_libraries=tuple(str(Path(path).absolute()) for path in options["custom_op_libraries"] or ()),
            **inputs,
        )


class AbComparison:
    """The result of `onnx_compare`. Ratios are time of reference / time of candidate: above 1 the candidate is faster.

    Peak memory is no part of it: both arms share a process.
    """

    def __init__(self, bench: CompareBench, measurement: AbMeasurement, place: int) -> None:
        self._bench, self._measurement, self._place = bench, measurement, place

    @property
    def record(self) -> AbRecord:
        """All that was found."""
        return self._bench.records[self._place]

    @property
    def speedup(self) -> float:
        """Median over the pairs; NaN where nothing was timed."""
        return self.record.speedup

    @property
    def low(self) -> float:
        """Lower end of the 99 % interval of `speedup`."""
        return self.record.low

    @property
    def high(self) -> float:
        """Upper end of the 99 % interval of `speedup`."""
        return self.record.high

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

    def require(self, *, min_speedup: float | None = None, max_slowdown: float | None = None) -> AbComparison:
        """Fail the test unless the candidate is fast enough and its outputs are those of the reference.

        What does not hold in one process is decided by three. What cannot be told is no pass: it fails, or does as
        `onnxperf_unverifiable` says.

        Args:
            min_speedup: Time of reference / time of candidate at least, 1.5: the whole interval must lie above.
            max_slowdown: Time of candidate / time of reference at most, 1.02, which is about what can be told.
        """
        __tracebackhide__ = True
        for name, value, least in (("min_speedup", min_speedup, 0.0), ("max_slowdown", max_slowdown, 1.0)):
            check_ratio(name, value, least)
        if min_speedup is None and max_slowdown is None:
            msg = "require(): give min_speedup, max_slowdown or both, as in require(max_slowdown=1.02)"
            raise failed(msg)
        required = requirements_of(min_speedup, max_slowdown)
        if any(needs_more(each, self.record) for each in required):
            self._confirm()
        results = tuple(judged(each, self.record) for each in required)
        record = replace(self.record, requirements=(*self.record.requirements, *results))
        self._bench.records[self._place] = record
        self._raise(record, results)
        return self

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

        bench.records[self._place] = bench.measured(measurement, confirmed)

    def _raise(self, record: AbRecord, results: tuple[Requirement, ...]) -> None:
        __tracebackhide__ = True
        unverifiable = self._bench.settings.unverifiable
        broken = [each for each in results if each.state is Limit.BROKEN]
        unknown = [each for each in results if each.state is Limit.CANNOT_TELL]
        if broken or (unknown and unverifiable == "fail"):
            raise self._bench.fail(requirement_failure(record, [*broken, *unknown]))
        if unknown and unverifiable == "skip":
            pytest.skip(headline(record, unknown[0]))
