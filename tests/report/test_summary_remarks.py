"""What the summary says of single measurements besides their lines."""

from __future__ import annotations

import pytest

from pytest_onnxperf.core.judge import Verdict
from pytest_onnxperf.core.outcome import Outcome
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.report.summary import summary_lines
from tests.records import record


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
