"""What a comparison needs of its test: the measurement of two arms that is kept, and arguments that are checked."""

from __future__ import annotations

import difflib
import math
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .arguments import checked_mapping
from .core.ab import CANDIDATE, REFERENCE, AbRecord, Outputs, timed_of
from .core.errors import OnnxPerfError, SettingError
from .runtime.arrays import as_arrays
from .runtime.compare_job import AbMeasurement, loaded_first
from .runtime.pair_process import Tolerances
from .session import BROKEN, COMPARISONS
from .workbench import Workbench, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

    from .core.record import TestKey
    from .runtime.pair_process import Job
    from .session import ActiveSession

_MAPPINGS: Final = ("provider_options", "session_options", "free_dimensions", "overlay")


class CompareBench(Workbench):
    """One test that compares by a function; it keeps what was compared for the report."""

    def __init__(
        self, active: ActiveSession, item: pytest.Item, new_directory: Callable[[], Path], function: str
    ) -> None:
        super().__init__(active, item, new_directory)
        self.function = function

    @property
    def records(self) -> list[AbRecord]:
        """What the test has compared so far."""
        return self._item.stash[COMPARISONS]

    def check_running(self) -> None:
        """Refuse to measure where the test's own code has ended."""
        if self._active.is_judged(self._item):
            msg = f"{self.function} was called after the test's own code had ended, where nothing reports its result"
            raise failed(msg)

    def key(self, label: object) -> TestKey:
        """Return where a comparison stands, if its label is a good one."""
        if not isinstance(label, str) or not (label.isprintable() or not label):
            msg = f"{self.function}(label=...): expected a text of one line, got {label!r}"
            raise failed(msg)
        if label in {record.key.label for record in self.records}:
            what = f"label {label!r}" if label else "without a label"
            msg = (
                f"this test has compared {what} already: give each comparison its own, {self.function}(..., label=...)"
            )
            raise failed(msg)
        return super().key(label)

    def measurement(self, jobs: Mapping[str, Job]) -> AbMeasurement:
        """Return a measurement of two arms."""
        tell = self._active.progress.tell
        return AbMeasurement(jobs[REFERENCE], jobs[CANDIDATE], self._plan({}), self._new_directory(), tell)

    def measured(self, key: TestKey, measurement: AbMeasurement, measure: Callable[[], AbRecord]) -> AbRecord:
        """Measure, and say in one text what went wrong; the logs stay where something did."""
        try:
            with self.underway(key):
                record = measure()
        except OnnxPerfError as error:
            msg = f"{self.function} could not measure {error}"
            raise failed(msg) from None
        except BaseException:  # Ctrl-C: nothing is left behind
            shutil.rmtree(measurement.directory, ignore_errors=True)
            raise
        shutil.rmtree(measurement.directory, ignore_errors=True)
        return record

    def compare(self, key: TestKey, measurement: AbMeasurement, tolerances: Tolerances | None) -> AbRecord:
        """Time both arms in one process, and profile each; the first of a device also asks how noisy it is."""
        measurement.check()
        is_timed = self.settings.timing == "on"
        outputs, sensor = Outputs("not checked"), None
        if is_timed:
            outputs = measurement.compare(tolerances).outputs
            sensor = self._active.aa_sensor(measurement.device, measurement.sense)
        reference, candidate = measurement.records(key)
        record = AbRecord(
            key=key,
            reference=reference,
            candidate=candidate,
            times={},
            outputs=outputs,
            sensor=sensor,
            settings=measurement.differing_settings(),
            why_not="" if is_timed else "times were not measured (--onnxperf-timing=off)",
        )
        return with_times(record, measurement) if is_timed else record

    def fail(self, text: str) -> BaseException:
        """Return the exception of a requirement that does not hold: a result, not an error of the test."""
        self._item.stash[BROKEN] = exception = failed(text)
        return exception


def with_times(record: AbRecord, measurement: AbMeasurement) -> AbRecord:
    """Return the record with what all processes so far have timed in turn, of which there is at least one."""
    processes = measurement.processes
    return replace(
        record,
        times=timed_of([one.pairs for one in processes]),
        pairs=measurement.pair_count,
        processes=len(processes),
        loaded_first=loaded_first(processes),
    )


def check_ratio(name: str, value: object, least: float) -> None:
    """Refuse what is no ratio; `least` is 0 where it must be positive alone."""
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or (value < least if least else value <= 0):  # type: ignore[operator]  # it is a number
        at_least = f"a ratio of at least {least:g} (a file differs from itself by that), such as 1.05"
        expected = at_least if least else "a positive ratio"
        msg = f"require({name}=...): expected {expected}, got {value!r:.80}"
        raise failed(msg)


def checked_inputs(function: str, feeds: object, shapes: Any, ranges: Any) -> dict[str, Any]:
    """Return the inputs of a job.

    Raises:
        SettingError: They are given twice, or one is none.
    """
    if feeds is not None and (shapes is not None or ranges is not None):
        msg = f"{function} takes feeds, or shapes and ranges, not both"
        raise SettingError(msg)
    if feeds is not None:
        return {"feeds": as_arrays(checked_mapping("feeds", feeds, function))}  # type: ignore[arg-type]  # it checks
    return {
        "shapes": checked_mapping("shapes", shapes, function),
        "ranges": checked_mapping("ranges", ranges, function),
    }


def checked_tolerances(function: str, rtol: object, atol: object) -> Tolerances:
    """Return the tolerances of outputs.

    Raises:
        SettingError: One is no number of at least 0.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            msg = f"{function}({name}=...): expected a number of at least 0, got {value!r:.80}"
            raise SettingError(msg)
    return Tolerances(float(str(rtol)), float(str(atol)))


def merged_options(
    function: str, name: str, common: Mapping[str, Any], own: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Lay the options of one arm over those of both, which are all that there are.

    Raises:
        SettingError: One is unknown, or no dict.
    """
    options = checked_mapping(name, own, function)
    for key in options:
        if key not in common:
            close = difflib.get_close_matches(str(key), common, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(common)}"
            msg = f"{function}({name}=...): unknown key `{key}`, {hint}"
            raise SettingError(msg)
    merged: dict[str, Any] = {**common, **options}
    for key in set(_MAPPINGS).intersection(common):
        both = checked_mapping(key, common[key], function)
        merged[key] = both | checked_mapping(f"{name}, {key}", options.get(key), function)
    return merged
