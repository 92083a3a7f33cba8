"""pytest-benchmark beside `onnx_session`: its times are judged, the facts are those of a measuring process."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.plugin.suite import FACTS, ON, section

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

pytest.importorskip("pytest_benchmark")

PLUGINS: Final = "-p no:asyncio -p no:cov -p no:timeout -p no:hypothesispytest -p no:codspeed -p no:memray"
OWN: Final = (*ON, "--onnxperf-profile-runs=2", "--benchmark-max-time=0.05", "--benchmark-min-rounds=3")
HEAD: Final = """
    import numpy as np
    import pytest

    FEEDS = {"x": np.ones((1, 32), np.float32)}
"""


def benchmarked(budget: str) -> str:
    """Return a test module that benchmarks the model `mlp.onnx` under a budget."""
    return f"""{HEAD}
    @pytest.mark.onnx_budget({budget})
    def test_mlp(onnx_session, benchmark):
        outputs = benchmark(onnx_session("mlp.onnx").run, FEEDS)
        assert outputs[0].shape[0] == 1
"""


@pytest.fixture(autouse=True)
def _with_benchmark(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", PLUGINS)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of this run; pytest-benchmark would be off
    suite.model()


def benchmark_json(suite: Suite) -> dict[str, Any]:
    """Return what pytest-benchmark wrote of the only test."""
    (found,) = json.loads((suite.path / "bench.json").read_text("utf-8"))["benchmarks"]
    result: dict[str, Any] = found
    return result


def test_the_times_of_a_benchmark_are_judged_with_the_facts_of_a_profile(suite: Suite) -> None:
    suite.module(benchmarked("max_nodes=2, max_latency_ms=10000, max_p99_ms=10000, min_throughput=0.001"))

    result = suite.run_apart(*OWN, "--benchmark-json=bench.json", "--junitxml=junit.xml")

    result.assert_outcomes(passed=1)
    assert "1 measurement; budgets: 4 held" in result.stdout.str()
    found = benchmark_json(suite)
    properties = suite.junit()["test_mlp"][0]
    assert float(properties["onnxperf.latency_p50_ms"]) == pytest.approx(found["stats"]["median"] * 1e3, rel=1e-3)
    assert float(properties["onnxperf.latency_min_ms"]) == pytest.approx(found["stats"]["min"] * 1e3, rel=1e-3)
    assert properties["onnxperf.nodes"] == "2"
    assert found["extra_info"] == {
        "onnxperf": {
            "model": "mlp.onnx",
            "environment": "bench-1.cpu",
            "facts": {
                "memcpy": 0,
                "memcpy_to_host": 0,
                "memcpy_from_host": 0,
                "nodes": 2,
                "cpu_nodes": 2,
                "nodes_by_provider": {"CPUExecutionProvider": 2},
                "ops": {"CPUExecutionProvider:FusedGemm": 2},
                "fused_ops": {"FusedGemm": 2},
            },
            "why_no_facts": "",
        }
    }


def test_a_time_and_a_fact_beyond_their_budgets_fail(suite: Suite) -> None:
    suite.module(benchmarked("max_nodes=1, max_latency_ms=1e-6"))

    result = suite.run_apart(*OWN)

    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "PERF test_perf.py::test_mlp" in text
    assert "  over budget  max_nodes: 2 a run, budget at most 1" in text
    assert "  over budget  max_latency_ms: " in text


OFF: Final = f"""{HEAD}
    @pytest.mark.onnx_budget(max_nodes=2, max_latency_ms=10000)
    def test_time(onnx_session, benchmark):
        benchmark(onnx_session("mlp.onnx").run, FEEDS)

    @pytest.mark.onnx_budget(max_nodes=2)
    def test_held(onnx_session, benchmark):
        benchmark(onnx_session("mlp.onnx").run, FEEDS)

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_broken(onnx_session, benchmark):
        benchmark(onnx_session("mlp.onnx").run, FEEDS)

    @pytest.mark.onnx_measure(unverifiable="skip")
    @pytest.mark.onnx_budget(max_latency_ms=10000)
    def test_skipped(onnx_session, benchmark):
        benchmark(onnx_session("mlp.onnx").run, FEEDS)
"""


@pytest.mark.parametrize("arguments", [["--benchmark-disable"], ["-n1"]], ids=["disabled", "xdist"])
def test_where_pytest_benchmark_times_nothing_a_budget_of_time_is_no_pass(suite: Suite, arguments: list[str]) -> None:
    suite.module(OFF)

    result = suite.run_apart(*OWN, *arguments)

    result.assert_outcomes(failed=2, passed=1, skipped=1)
    text = result.stdout.str()
    assert "max_latency_ms: cannot tell, pytest-benchmark timed nothing" in text
    assert "  over budget  max_nodes: 2 a run, budget at most 1" in text
    assert "budgets: 1 broken, 2 cannot tell, 2 held" in text


def test_pedantic_counts_and_the_tail_of_averaged_rounds_cannot_be_told(suite: Suite) -> None:
    suite.module(
        HEAD
        + """
    @pytest.mark.parametrize("iterations", [1, 7])
    @pytest.mark.onnx_budget(max_latency_ms=10000, max_p99_ms=10000)
    def test_mlp(onnx_session, benchmark, iterations):
        session = onnx_session("mlp.onnx")
        benchmark.pedantic(session.run, args=(FEEDS,), rounds=4, iterations=iterations)
    """
    )

    result = suite.run_apart(*OWN, "-v")

    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    assert "held: max_p99_ms" in text
    assert "max_p99_ms: cannot tell, a round of pytest-benchmark was the mean of 7 calls" in text
    assert "test_mlp[7]: 4 rounds" in text


def test_what_is_timed_is_warm_and_one_call_of_the_runtime(suite: Suite) -> None:
    suite.module(
        HEAD
        + """
    def test_mlp(onnx_session, benchmark):
        session = onnx_session("mlp.onnx")
        calls = []
        run = session.inference_session.run
        session.inference_session.run = lambda *given: calls.append(benchmark.stats is not None) or run(*given)
        benchmark.pedantic(session.run, args=(FEEDS,), rounds=4)
        assert calls == [False] * 3 + [True] * 4
    """
    )

    suite.run_apart(*OWN, "--onnxperf-warmup-rounds=3").assert_outcomes(passed=1)


def test_a_function_around_the_session_is_not_the_session(suite: Suite) -> None:
    suite.module(
        HEAD
        + """
    @pytest.mark.onnx_budget(max_latency_ms=10000)
    def test_budget(onnx_session, benchmark):
        session = onnx_session("mlp.onnx")
        benchmark(lambda: session.run(FEEDS))

    def test_other(onnx_session, benchmark):
        assert benchmark(sum, [1, 2]) == 3
    """
    )

    result = suite.run_apart(*OWN, "--benchmark-json=bench.json")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["Of pytest-benchmark benchmark(session.run, feeds) counts, *"])
    found = json.loads((suite.path / "bench.json").read_text("utf-8"))["benchmarks"]
    assert [each["extra_info"] for each in found] == [{}, {}]


def test_a_clock_that_counts_no_seconds_of_waiting_is_not_judged(suite: Suite) -> None:
    suite.module(benchmarked("max_latency_ms=10000"))

    for timer, outcome in (("time.process_time", {"failed": 1}), ("time.monotonic", {"passed": 1})):
        result = suite.run_apart(*OWN, f"--benchmark-timer={timer}")
        result.assert_outcomes(**outcome)
        assert ("--benchmark-timer=process_time does not tell" in result.stdout.str()) == ("failed" in outcome)


def test_without_the_flag_such_a_test_is_skipped(suite: Suite) -> None:
    suite.module(benchmarked("max_nodes=2"))

    result = suite.run_apart("-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs --onnxperf*"])


def test_with_timing_off_the_times_of_a_benchmark_are_not_judged_either(suite: Suite) -> None:
    suite.module(benchmarked("max_latency_ms=10000"))

    result = suite.run_apart(*OWN, *FACTS[-2:])

    result.assert_outcomes(failed=1)
    assert "cannot tell, times were not measured (--onnxperf-timing=off)" in result.stdout.str()


def test_a_baseline_gates_the_facts_and_holds_its_times_for_noisy(suite: Suite) -> None:
    suite.module(benchmarked("max_nodes=9"))

    suite.run_apart(*OWN, "--onnxperf-update").assert_outcomes(passed=1)
    entry = suite.entries()["test_mlp"]
    assert entry["facts"]["nodes"] == 2
    assert len(entry["metrics"]["latency_p50_ms"]) == 1

    result = suite.run_apart(*OWN, "-v")
    result.assert_outcomes(passed=1)
    assert section(result, "onnxperf")[0].endswith("ok, times noisy")
    assert "processes tell no spread: 3 are needed" in result.stdout.str()

    suite.model(layers=3)
    result = suite.run_apart(*OWN, "--onnxperf-strict")
    result.assert_outcomes(failed=1)
    assert "  changed      nodes 2 -> 3 a run" in result.stdout.str()
    assert "- If this is intended, record it:" in result.stdout.str()

    suite.run_apart(*OWN, "--onnxperf-update").assert_outcomes(passed=1)
    result = suite.run_apart(*OWN, "--onnxperf-strict")
    result.assert_outcomes(failed=1)
    assert "  noisy        latency p50" in result.stdout.str()
    assert "- If this is intended" not in result.stdout.str(), "what is noisy is no change that could be intended"


def test_variables_of_measuring_processes_cannot_be_those_of_a_benchmark(suite: Suite) -> None:
    suite.module(
        HEAD
        + """
    def test_mlp(onnx_session, benchmark):
        benchmark(onnx_session("mlp.onnx", environment={"A_SWITCH": "1"}).run, FEEDS)
    """
    )

    result = suite.run_apart(*OWN)

    result.assert_outcomes(failed=1)
    assert "A_SWITCH can be set in a measuring process alone" in result.stdout.str()


def test_a_test_measures_and_benchmarks_under_two_labels(suite: Suite) -> None:
    suite.module(
        HEAD
        + """
    @pytest.mark.onnx_budget(max_nodes=2)
    def test_mlp(onnx_session, benchmark):
        session = onnx_session("mlp.onnx")
        session.measure(FEEDS, label="fresh")
        benchmark(session.run, feeds=FEEDS)
    """
    )

    result = suite.run_apart(*OWN, "--onnxperf-max-time=0.05")

    result.assert_outcomes(passed=1)
    assert [line.split()[0] for line in section(result, "onnxperf")[:2]] == ["test_mlp#fresh", "test_mlp"]


def test_against_a_reference_the_facts_are_compared_and_the_times_are_said_not_to_be(suite: Suite) -> None:
    suite.module(benchmarked("max_latency_ms=10000"))

    result = suite.run_apart(*OWN, f"--onnxperf-against={sys.executable}")

    result.assert_outcomes(passed=1)
    text = " ".join(result.stdout.str().split())
    assert "its times, those of the test's own process, were not compared with the reference" in text
    assert "budgets: 1 held; against the reference: " in text


@pytest.mark.parametrize(
    ("companion", "arguments"),
    [
        ("pytest_codspeed", []),
        ("pytest_cov", ["--cov=.", "--cov-report="]),
        ("pytest_memray", ["--memray"]),
        ("pytest_timeout", ["--timeout=300"]),
    ],
)
def test_a_companion_that_is_loaded_changes_nothing(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, companion: str, arguments: list[str]
) -> None:
    pytest.importorskip(companion)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio")
    suite.module(OFF)

    result = suite.run_apart(*OWN, *arguments)

    result.assert_outcomes(failed=1, passed=3)
    assert "budgets: 1 broken, 4 held" in result.stdout.str()


def test_the_fixture_of_pytest_codspeed_gives_facts_and_keeps_its_times(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytest_codspeed")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio")
    suite.module(OFF)

    result = suite.run_apart(*ON, "--codspeed", "--codspeed-max-time=0.05")

    result.assert_outcomes(failed=2, passed=1, skipped=1)
    assert "max_latency_ms: cannot tell, the fixture `benchmark` is that of pytest-codspeed" in result.stdout.str()


def test_no_file_of_pytest_benchmark_is_written(suite: Suite) -> None:
    suite.module(benchmarked("max_memcpy=0"))
    result = suite.run(*OWN, "--benchmark-json=a.json", "--onnxperf-json=a.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --onnxperf-json and --benchmark-json: expected two files, got the same one*"])
