"""What a person reads where the reference workload of a baseline cannot stand beside the rounds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.plugin.suite import MEASURE, TIMES, section

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

pytestmark = pytest.mark.needs_cpu

RECORD: Final = (*TIMES, "--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=3")
REASON: Final = (
    "raw times, without a reference workload: libcudart and libcublas are not loaded in the measuring process"
)


def on_cuda(suite: Suite) -> None:
    """Have the references of a baseline be those of CUDA, as if recorded there, with a ratio that does not vary."""
    document = json.loads(suite.baseline().read_text("utf-8"))
    (entry,) = document["tests"].values()
    references = entry["references"]["latency_p50"]
    entry["references"]["latency_p50"] = {f"cuda_{kind}": spec for kind, spec in references.items()}
    processes = range(1, len(entry["paired"]["latency_p50"]["tested"]) + 1)
    names = ("tested", "cuda_compute", "cuda_memory")
    entry["paired"]["latency_p50"] = {name: [1000 * place for place in processes] for name in names}
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def recorded(suite: Suite) -> Suite:
    suite.model()
    suite.module(MEASURE)
    suite.run(*RECORD).assert_outcomes(passed=1)
    return suite


def test_the_summary_says_why_times_are_raw_and_the_test_is_judged(recorded: Suite) -> None:
    on_cuda(recorded)

    result = recorded.run(*TIMES, "--onnxperf-tolerance=99", "-v")

    result.assert_outcomes(passed=1)
    said = " ".join(" ".join(section(result, "onnxperf")).split())
    assert f"test_mlp: {REASON}" in said
    assert re.search(r": latency p50 [^()]*\([^()]*\) \([^()]*" + re.escape(REASON) + r"\)", said)


def test_where_the_reference_runs_nothing_is_said(recorded: Suite) -> None:
    result = recorded.run(*TIMES, "--onnxperf-tolerance=99", "-v")

    result.assert_outcomes(passed=1)
    assert "raw times" not in result.stdout.str()


def test_an_update_takes_the_kinds_of_its_ep_whatever_stood_there(recorded: Suite) -> None:
    on_cuda(recorded)

    result = recorded.run(*RECORD)

    result.assert_outcomes(passed=1)
    assert "raw times" not in result.stdout.str()
    (entry,) = recorded.entries().values()
    assert set(entry["references"]["latency_p50"]) == {"compute", "dispatch", "memory"}
    assert set(entry["paired"]["latency_p50"]) == {"tested", "compute", "dispatch", "memory"}
