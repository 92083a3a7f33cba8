"""What the summary says of single measurements besides their lines."""

from __future__ import annotations

import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.comparison import Comparison
from pytest_onnxperf.core.judge import Found, Policy, Verdict, judge
from pytest_onnxperf.core.outcome import Outcome
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.core.states import State
from pytest_onnxperf.report.summary import measurement_line, summary_lines
from pytest_onnxperf.report.wrap import columns
from tests.records import MS, record


@pytest.mark.parametrize("name", ["test_a", "test_" + "a" * 60, "test_\u6a21\u578b" * 12])
@pytest.mark.parametrize("states", [("ok", "other-environment"), ("changed", "no-baseline"), ("ok", "ok")])
@pytest.mark.parametrize("ms", [0.123456, 123456.0])
def test_a_line_of_a_measurement_fits_into_80_columns(name: str, states: tuple[str, str], ms: float) -> None:
    found = [Comparison(name, State(state), name) for name, state in zip(("ops", "latency_p50"), states, strict=True)]
    made = record({"latency_p50": (ms * MS,)}, key=TestKey("test_a.py", name))
    line = measurement_line(Outcome(made, Verdict((), tuple(found))))
    assert columns(line) <= 80
    assert line.endswith(states[1])


@pytest.mark.parametrize("updating", [False, True])
def test_a_reference_workload_that_could_not_run_is_said_once_for_all_in_checks_and_in_updates(updating: bool) -> None:
    why = {"ttft": "the device is lost", "decode_throughput": "the device is lost"}
    outcomes = [
        Outcome(record(key=TestKey("test_a.py", f"test_{name}"), unpaired=unpaired), Verdict((), ()))
        for name, unpaired in (("a", why), ("b", why), ("c", {}))
    ]

    lines = summary_lines(outcomes, recorded=[] if updating else None, verbosity=-1)

    remark = "test_a, test_b: raw times, without a reference workload: the device is lost"
    assert " ".join(" ".join(lines).split()).count(remark) == 1
    assert "test_c" not in " ".join(lines)


def test_noisy_times_are_said_with_both_sides_the_largest_change_first() -> None:
    """A baseline of one process tells no spread, so that every change is noisy."""

    def noisy(name: str, after_ms: float) -> Outcome:
        key = TestKey("tests/test_a.py", name)
        old = entry_of(record({"latency_p50": (10.0 * MS,), "load": (10.0 * MS,)}), "2026-11-30", "")
        new = record({"latency_p50": (after_ms * MS,), "load": (9.0 * MS,)}, key=key)
        return Outcome(new, judge(new, [], Found(old, "b.json"), Policy(0.05)))

    outcomes = [noisy(f"test_{number}", 10.0 + number) for number in range(7)]
    lines = summary_lines(outcomes, recorded=None, verbosity=0)
    said = [line for line in lines if ": noisy: " in line]
    assert said[0] == "test_6: noisy: latency p50 10 -> 16 ms (+60 %)"
    assert len(said) == 5
    assert lines[-1] == "and 2 more noisy times, which -v shows"
    assert all("load" not in line for line in said)
