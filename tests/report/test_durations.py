"""The lines of --onnxperf-durations."""

from __future__ import annotations

from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.core.stages import Spent, Stage
from pytest_onnxperf.report.durations import duration_lines


def test_a_measurement_has_its_whole_time_its_name_and_its_stages_the_longest_first() -> None:
    stages: dict[str, float] = {
        Stage.LOAD: 0.8, Stage.WARM_UP: 0.0049, Stage.ROUNDS: 1.01, Stage.REFERENCE: 1.2, Stage.PROFILE: 0.7,
        Stage.CONFIRM: 6.0, Stage.WAITING: 12.5,
    }  # fmt: skip

    lines = list(duration_lines([Spent(TestKey("perf/test_a.py", "test_a[1]", "big"), stages)]))

    assert lines == [
        "   22.21s  perf/test_a.py::test_a[1]#big",
        "           waiting for the device 12.50, confirm 6.00, reference 1.20,",
        "           timed rounds 1.01, load 0.80, profile 0.70",
    ]


def test_nothing_is_said_to_be_nothing() -> None:
    assert list(duration_lines([])) == ["nothing was measured"]
