"""`--onnxperf-durations`: the slowest measurements of a session, and where their time went."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests import models
from tests.plugin.suite import FACTS, ON, QUICK, section

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

pytestmark = pytest.mark.usefixtures("own_locks")

THREE: Final = """
    import pytest

    def test_fast(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_slow(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1}, label="over")

    @pytest.mark.onnx_measure(timeout=4)
    def test_hangs(onnx_session):
        onnx_session("endless.onnx").measure(shapes={"batch": 1})
"""


def rows(result: pytest.RunResult) -> dict[str, tuple[float, dict[str, float]]]:
    """Return the measurements of the section: name -> whole time, and that of each stage."""
    found: dict[str, tuple[float, dict[str, float]]] = {}
    for line in section(result, "onnxperf durations"):
        if match := re.fullmatch(r" *(\d+\.\d\d)s  (\S+)", line):
            name = match[2]
            found[name] = (float(match[1]), {})
        else:
            found[name][1].update(
                (each[1], float(each[2])) for each in re.finditer(r"([a-zA-Z][\w/ -]*?) (\d+\.\d\d)", line)
            )
    return found


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "xdist"])
def test_the_slowest_come_first_those_that_failed_too(suite: Suite, workers: list[str]) -> None:
    suite.model()
    suite.model("endless.onnx", models.loop_model, trips=10**12)
    suite.module(THREE)

    result = suite.run_apart(*FACTS, *workers, "--onnxperf-durations=0")

    result.assert_outcomes(passed=1, failed=2)
    found = rows(result)
    assert set(found) == {
        "test_perf.py::test_fast",
        "test_perf.py::test_slow#over",
        "test_perf.py::test_hangs",
    }
    assert found["test_perf.py::test_hangs"][0] >= 4
    assert [total for total, _ in found.values()] == sorted((total for total, _ in found.values()), reverse=True)
    for total, stages in found.values():
        assert sum(stages.values()) == pytest.approx(total, abs=0.06)
        assert "profile" in stages
    assert "explain" in found["test_perf.py::test_slow#over"][1]


def test_no_more_than_asked_for_are_listed_and_none_where_nothing_is_asked(suite: Suite) -> None:
    suite.model()
    suite.module(THREE)

    result = suite.run(*QUICK, "--onnxperf-durations=1", "-k", "not hangs")
    assert len(rows(result)) == 1

    for arguments in (["-k", "not hangs"], ["--collect-only", "--onnxperf-durations=1"]):
        result = suite.run(*QUICK, *arguments)
        assert "onnxperf durations" not in result.stdout.str()


def test_where_nothing_was_measured_that_is_said(suite: Suite) -> None:
    suite.module("def test_other(): pass")

    result = suite.run("--onnxperf", "--onnxperf-durations=0")

    assert section(result, "onnxperf durations") == ["nothing was measured"]


def test_a_fixture_that_fails_while_it_measures_is_listed(suite: Suite) -> None:
    suite.model("endless.onnx", models.loop_model, trips=10**12)
    suite.module("""
        import pytest

        @pytest.fixture
        def record(onnx_session):
            return onnx_session("endless.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_measure(timeout=3)
        def test_mlp(record):
            pass
    """)

    result = suite.run_apart(*FACTS, "--onnxperf-durations=3")

    result.assert_outcomes(errors=1)
    assert "test_perf.py::test_mlp" in rows(result)


def test_a_comparison_is_one_measurement_with_all_its_stages(suite: Suite) -> None:
    suite.model()
    suite.model("large.onnx", layers=30)
    suite.module("""
        def test_pays(onnx_compare):
            onnx_compare("mlp.onnx", "large.onnx", shapes={"batch": 1}, check_outputs=False).require(min_speedup=1.5)
    """)

    result = suite.run_apart(*ON, "--onnxperf-max-time=0.05", "--onnxperf-durations=0")

    ((total, stages),) = rows(result).values()
    assert {"load", "timed rounds", "A/A", "profile"} <= set(stages)
    assert sum(stages.values()) == pytest.approx(total, abs=0.06)
