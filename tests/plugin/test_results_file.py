"""`--onnxperf-json`: what a session writes, when, and what it does where it cannot."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Final

import pytest

import pytest_onnxperf.results_file  # noqa: F401 -- pytester takes away what a session in this process loads
from pytest_onnxperf.core.results_text import read_results
from pytest_onnxperf.core.sample import QUANTILES
from pytest_onnxperf.core.text import printable
from pytest_onnxperf.runtime.lock import file_lock
from pytest_onnxperf.runtime.results_disk import read_file
from pytest_onnxperf.runtime.target import journal_of
from tests import genai_models
from tests.plugin.suite import FACTS, MEASURE, ON, OVER_AND_HELD, QUICK, TIMES

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Run, Test
    from tests.plugin.suite import Suite

JSON: Final = "--onnxperf-json=r.json"


def written(suite: Suite, name: str = "r.json") -> Run:
    """The run in the file alone, without a journal."""
    (run,) = read_results((suite.path / name).read_bytes(), name).runs
    return run


def by_name(run: Run) -> dict[str, Test]:
    return {test.nodeid.rpartition("::")[2]: test for test in run.tests}


def test_a_session_writes_each_test_that_measures_and_what_it_ran_on(suite: Suite) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)

    result = suite.run(*QUICK, JSON)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([f"*- onnxperf results: {suite.path / 'r.json'} -*"])
    run = written(suite)
    assert (run.is_complete, run.exit_status) == (True, 1)
    assert (run.options["timing"], run.options["tolerance"]) == ("off", 0.05)
    assert run.machine.cores >= 1
    tests = by_name(run)
    assert {name: (test.outcome, test.is_breach) for name, test in tests.items()} == {
        "test_over": ("failed", True), "test_held": ("passed", False),
    }  # fmt: skip
    assert tests["test_over"].message.startswith("max_nodes: 2 a run, budget at most 1")
    (measured,) = tests["test_over"].measurements
    assert (measured.model, measured.state, measured.fails) == ("mlp.onnx", "over budget", True)
    assert (measured.environment.key, measured.environment.device) == ("bench-1.cpu", "Bench 1")
    assert "onnxruntime" in measured.environment.versions
    (limit,) = measured.budgets
    assert (limit.key, limit.state, limit.actual_value, limit.limit_value) == ("max_nodes", "broken", 2.0, 1.0)
    assert measured.facts is not None
    assert measured.facts.nodes == 2
    assert [row.op_type for row in measured.facts.op_table] == ["FusedGemm"]
    assert measured.not_measured["latency_p50"] == "times were not measured (--onnxperf-timing=off)"


def test_without_the_option_nothing_is_written_and_nothing_loaded_for_it(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import sys

        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            assert [name for name in sys.modules if name.startswith("pytest_onnxperf") and "results" in name] == []
    """)

    suite.run_apart(*QUICK).assert_outcomes(passed=1)

    assert list(suite.path.glob("*.json")) == []


def test_times_have_a_value_and_a_distribution_for_each_process(suite: Suite) -> None:
    suite.model()
    suite.module()

    update = ("--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=3")
    suite.run(*TIMES, *update).assert_outcomes(passed=1)
    suite.run(*TIMES, "--onnxperf-tolerance=50", JSON).assert_outcomes(passed=1)

    (measured,) = by_name(written(suite))["test_mlp"].measurements
    metric, (spread, *_) = measured.metrics["latency_p50"], measured.distributions["latency"]
    assert len(metric.values) == len(measured.distributions["latency"]) == measured.processes
    assert spread.quantiles_ms[QUANTILES.index(0.5)] == pytest.approx(metric.values[0], rel=1e-4)
    assert list(spread.quantiles_ms) == sorted(spread.quantiles_ms)
    assert sum(each.rounds for each in measured.distributions["latency"]) == measured.rounds
    assert measured.baseline is not None
    assert measured.baseline.path == "baselines/bench-1.cpu/test_perf.json"
    (latency,) = [each for each in measured.comparisons if each.name == "latency_p50"]
    assert latency.unit == "ms"
    assert latency.old
    assert latency.new == metric.value
    assert latency.limit_ratio
    assert latency.detectable_ratio
    (nodes,) = [each for each in measured.comparisons if each.name == "nodes"]
    assert (nodes.state, nodes.old, nodes.new, nodes.ratio) == ("ok", 2.0, 2.0, 1.0)


def test_a_comparison_has_its_speedup_and_both_arms(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_ab(onnx_compare):
            onnx_compare("mlp.onnx", "mlp.onnx", shapes={"batch": 1}).require(max_slowdown=50)
    """)

    suite.run(*TIMES, JSON).assert_outcomes(passed=1)

    (found,) = by_name(written(suite))["test_ab"].comparisons
    assert found.speedup
    assert found.low
    assert found.high
    assert found.low <= found.speedup <= found.high
    assert [(each.text, each.state) for each in found.requirements] == [("max_slowdown=50", "held")]
    assert found.outputs == "equal"
    assert found.reference.distributions["latency"][0].rounds == found.candidate.rounds == found.pairs


@pytest.mark.needs_genai
def test_a_generator_has_its_phases_and_the_latency_of_each_token(suite: Suite) -> None:
    genai_models.decoder(suite.path / "decoder")
    suite.module("""
        def test_g(genai_generator):
            genai_generator("decoder").measure(prompt_tokens=8, new_tokens=12)
    """)

    suite.run(*TIMES, JSON).assert_outcomes(passed=1)

    (measured,) = by_name(written(suite))["test_g"].measurements
    assert set(measured.phases) == {"prefill", "decode"}
    assert measured.phases["decode"].op_table
    assert measured.token_times is not None
    assert (measured.token_times.tokens_per_point, len(measured.token_times.itl_ms[0])) == (1, 11)
    assert set(measured.distributions) == {"ttft", "prefill", "itl"}


def test_a_test_that_measured_nothing_is_there_with_the_reason(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_measure(ep="cuda")
        def test_skipped(onnx_session):
            onnx_session("mlp.onnx")

        @pytest.mark.onnx_budget(max_memcopy=1)
        def test_wrong(onnx_session):
            pass

        @pytest.mark.xfail(reason="one day")
        def test_expected(onnx_session):
            onnx_session("missing.onnx").measure(shapes={"batch": 1})

        @pytest.fixture
        def broken():
            yield
            raise ValueError("in teardown")

        def test_teardown(onnx_session, broken):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_memcpy=1)
        def test_nothing():
            pass

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over_and_teardown(onnx_session, broken):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_own_failure(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            assert False, "x" * 100000
    """)

    suite.run(*QUICK, JSON)

    tests = by_name(written(suite))
    assert {name: (test.outcome, len(test.measurements)) for name, test in tests.items()} == {
        "test_skipped": ("skipped", 0),
        "test_wrong": ("error", 0),
        "test_expected": ("xfailed", 0),
        "test_teardown": ("error", 1),
        "test_nothing": ("failed", 0),
        "test_over_and_teardown": ("failed", 1),
        "test_own_failure": ("failed", 1),
    }
    assert tests["test_skipped"].message.startswith("demands CUDAExecutionProvider, which does not run here")
    assert "max_memcopy" in tests["test_wrong"].message
    assert tests["test_expected"].message == "one day"
    assert "in teardown" in tests["test_teardown"].message
    assert "In its teardown" not in tests["test_teardown"].message, "nothing stands before it"
    assert re.search(r"max_nodes.*\n\nIn its teardown:\n.*in teardown", tests["test_over_and_teardown"].message, re.S)
    assert "more characters" in tests["test_own_failure"].message
    assert len(tests["test_own_failure"].message) < 8100
    assert [name for name, test in tests.items() if test.is_breach] == ["test_over_and_teardown"]


def test_a_session_that_stopped_before_its_last_test_says_so(suite: Suite) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)

    suite.run(*QUICK, JSON, "-x", "--onnxperf-markdown=r.md", "--onnxperf-html=r.html").assert_outcomes(failed=1)

    assert written(suite).stopped == "stopping after 1 failures"
    assert "did not come to its end: stopping after 1 failures" in (suite.path / "r.md").read_text("utf-8")
    assert "did not come to its end: stopping after 1 failures" in (suite.path / "r.html").read_text("utf-8")
    suite.run(*QUICK, JSON)
    assert not written(suite).stopped


FILES: Final = (JSON, "--onnxperf-markdown=r.md", "--onnxperf-html=r.html")


@pytest.mark.parametrize(
    ("interrupt", "why"),
    [
        ("raise KeyboardInterrupt", "it was interrupted"),
        ("pytest.exit('enough')", "enough"),
    ],
)
def test_what_a_test_measured_before_an_interrupt_is_there_and_has_not_passed(
    suite: Suite, interrupt: str, why: str
) -> None:
    suite.model()
    suite.module(f"""
        import pytest

        def test_whole(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})

        def test_cut(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
            {interrupt}
    """)

    result = suite.run_apart(*QUICK, *FILES, "--onnxperf-update")

    run = written(suite)
    assert (run.exit_status, run.stopped) == (2, why)
    ended = {test.nodeid.rpartition("::")[2]: test for test in run.tests}
    assert {name: (test.outcome, len(test.measurements)) for name, test in ended.items()} == {
        "test_whole": ("passed", 1),
        "test_cut": ("error", 1),
    }
    assert ended["test_cut"].message == "it did not come to its end: the session ended before"
    assert f"did not come to its end: {why}" in (suite.path / "r.md").read_text("utf-8")
    assert f"did not come to its end: {why}" in (suite.path / "r.html").read_text("utf-8")
    assert set(suite.entries()) == {"test_whole"}
    result.stdout.fnmatch_lines(["not recorded, since a test must pass: 1 error (test_cut)"])


def test_an_interrupt_in_a_teardown_leaves_a_test_that_has_not_passed(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def long():
            yield
            raise KeyboardInterrupt

        def test_cut(onnx_session, long):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run_apart(*QUICK, *FILES, "--onnxperf-update")

    (test,) = written(suite).tests
    assert (test.outcome, len(test.measurements)) == ("error", 1)
    assert not suite.baseline().exists()


@pytest.mark.parametrize("reruns", [(), ("--reruns=1",)], ids=["plain", "reruns"])
def test_an_interrupt_in_a_fixture_keeps_the_test_and_what_it_measured(suite: Suite, reruns: tuple[str, ...]) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def measured(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            pytest.exit("enough")

        def test_cut(measured):
            pass
    """)

    result = suite.run_apart(*QUICK, *FILES, *reruns, "--onnxperf-update")

    (test,) = written(suite).tests
    assert (test.outcome, test.is_breach, len(test.measurements)) == ("error", False, 1)
    assert "test_perf.py::test_cut" in (suite.path / "r.md").read_text("utf-8")
    result.stdout.fnmatch_lines(["not recorded, since a test must pass: 1 error (test_cut)"])


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "pytest.exit('enough', returncode=0)"])
def test_a_try_that_failed_has_not_passed_though_the_next_is_interrupted(suite: Suite, end: str) -> None:
    suite.model()
    suite.module(f"""
        import pytest

        TRIES = []

        def test_cut(onnx_session):
            TRIES.append(1)
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
            if len(TRIES) == 2:
                {end}
            assert not TRIES
    """)

    suite.run_apart(*QUICK, *FILES, "--reruns=1", "--onnxperf-update")

    (test,) = written(suite).tests
    assert (test.outcome, len(test.measurements)) == ("failed", 1)
    assert not suite.baseline().exists()


def test_a_breach_is_kept_though_the_next_try_is_interrupted_before_it_measures(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        TRIES = []

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_cut(onnx_session):
            TRIES.append(1)
            if len(TRIES) == 2:
                pytest.exit("enough")
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run_apart(*QUICK, *FILES, "--reruns=1")

    (test,) = written(suite).tests
    assert (test.outcome, test.is_breach, len(test.measurements)) == ("failed", True, 1)


def test_a_teardown_that_skips_does_not_change_how_a_test_ended(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture(params=["skip", "xfail"])
        def clean(request):
            yield
            getattr(pytest, request.param)("nothing to clean up")

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_breach(clean, onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_setup(clean, onnx_session, unknown): ...

        def test_whole(clean, onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run_apart(*QUICK, *FILES, "--onnxperf-update")

    found = {test.nodeid.rpartition("::")[2]: (test.outcome, test.is_breach) for test in written(suite).tests}
    for how in ("skip", "xfail"):
        assert found[f"test_breach[{how}]"] == ("failed", True)
        assert found[f"test_setup[{how}]"] == ("error", False)
        assert found[f"test_whole[{how}]"] == ("passed", False)
    assert set(suite.entries()) == {"test_whole[skip]", "test_whole[xfail]"}


def test_a_broken_budget_is_one_though_an_interrupt_came_before_the_end(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_cut(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            raise KeyboardInterrupt
    """)

    suite.run_apart(*QUICK, *FILES)

    (test,) = written(suite).tests
    assert (test.outcome, test.is_breach) == ("error", True)
    assert "max_nodes: 2 a run, budget at most 1" in test.message
    page = (suite.path / "r.md").read_text("utf-8")
    assert page.startswith("### onnxperf: 1 of 1 test failed by performance\n")


def test_an_interrupt_while_a_breach_is_explained_keeps_it(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        from pytest_onnxperf.runtime.measure import Measurement

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_cut(onnx_session, monkeypatch):
            def explain(*_, **__):  # Ctrl-C at this moment cannot be timed
                raise KeyboardInterrupt

            monkeypatch.setattr(Measurement, "explain", explain)
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run_apart(*QUICK, *FILES)

    (test,) = written(suite).tests
    assert (test.outcome, test.is_breach, len(test.measurements)) == ("error", True, 1)


def test_one_that_is_expected_to_fail_is_no_breach(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.xfail
        @pytest.mark.onnx_budget(max_nodes=1)
        def test_expected(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*QUICK, JSON).assert_outcomes(xfailed=1)

    (test,) = written(suite).tests
    assert (test.outcome, test.is_breach) == ("xfailed", False)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_modules_that_could_not_be_collected_are_named_where_pytest_goes_on(
    suite: Suite, workers: tuple[str, ...]
) -> None:
    suite.model()
    suite.module(MEASURE)
    suite.module("import no_such_module", "test_lost.py")

    suite.run_apart(*QUICK, *FILES, *workers, "--continue-on-collection-errors")

    run = written(suite)
    assert run.uncollected == ("test_lost.py",)
    assert [test.outcome for test in run.tests] == ["passed"]
    said = "**1 module could not be collected**, whose tests are missing: `test_lost.py`."
    assert said in (suite.path / "r.md").read_text("utf-8")
    assert "could not collect test_lost.py" in (suite.path / "r.html").read_text("utf-8")


def test_a_second_interrupt_is_no_end_without_one(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_cut(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            raise KeyboardInterrupt
    """)
    (suite.path / "conftest.py").write_text(
        "def pytest_keyboard_interrupt():\n    raise KeyboardInterrupt\n", encoding="utf-8"
    )

    suite.run_apart(*QUICK, JSON)

    assert (written(suite).exit_status, written(suite).stopped) == (2, "it was interrupted")


FINISH = "@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish():\n    "


@pytest.mark.parametrize(
    ("hook", "status", "why"),
    [
        (f"{FINISH}raise OSError('no place')", 1, "a plugin failed as the session finished: OSError: no place"),
        (f"{FINISH}pytest.exit('enough', 7)", 7, "enough"),
        (f"{FINISH}raise KeyboardInterrupt", 2, "it was interrupted"),
        (f"{FINISH}raise SystemExit(5)", 5, "a plugin failed as the session finished: SystemExit: 5"),
        (f"{FINISH}raise SystemExit", 0, "a plugin failed as the session finished: SystemExit: "),
        (f"{FINISH}raise pytest.UsageError('how')", 4, "a plugin failed as the session finished: UsageError: how"),
        (
            "@pytest.hookimpl(wrapper=True)\ndef pytest_sessionfinish():\n    raise OSError('early')\n    yield",
            1,
            "a plugin failed as the session finished: OSError: early",
        ),
        ("def pytest_terminal_summary():\n    pytest.exit('late', 9)", 9, "late"),
    ],
)
def test_nothing_is_lost_where_another_plugin_fails_as_the_session_finishes(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, hook: str, status: int, why: str
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "summary.md"))
    suite.model()
    suite.module(MEASURE)
    (suite.path / "conftest.py").write_text(f"import pytest\n\n{hook}\n", encoding="utf-8")

    result = suite.run_apart(*QUICK, *FILES, "--onnxperf-update")

    assert result.ret == status or why == "it was interrupted"  # Python itself ends by the signal then
    run = written(suite)
    assert (run.is_complete, run.exit_status, run.stopped, len(run.tests)) == (True, status, why, 1)
    assert f"did not come to its end: {why}" in (suite.path / "r.md").read_text("utf-8")
    assert f"did not come to its end: {why}" in (suite.path / "r.html").read_text("utf-8")
    assert (suite.path / "summary.md").read_text("utf-8").count("### onnxperf") == 1
    assert len(suite.entries()) == 1


@pytest.mark.parametrize(
    ("hook", "outcome"),
    [
        ("def pytest_runtest_logreport(report):\n    if report.when == 'teardown':", "passed"),
        ("def pytest_runtest_makereport(item, call):\n    if call.when == 'call':", "error"),
    ],
)
def test_what_a_test_measured_stays_where_a_plugin_fails_at_its_report(suite: Suite, hook: str, outcome: str) -> None:
    suite.model()
    suite.module(MEASURE)
    (suite.path / "conftest.py").write_text(f"{hook}\n        raise OSError\n", encoding="utf-8")

    assert suite.run_apart(*QUICK, *FILES).ret == pytest.ExitCode.INTERNAL_ERROR

    (test,) = written(suite).tests
    assert (test.outcome, len(test.measurements)) == (outcome, 1)
    assert "test_mlp" in (suite.path / "r.html").read_text("utf-8")


def test_tests_that_no_worker_is_left_for_are_counted(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import os

        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(onnx_session, number):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            if number == 1:
                os._exit(9)
    """)

    suite.run_apart(*QUICK, *FILES, "-n", "1", "--max-worker-restart=0")

    run = written(suite)
    assert (run.stopped, len(run.tests)) == ("2 tests did not run", 2)
    assert "did not come to its end: 2 tests did not run" in (suite.path / "r.md").read_text("utf-8")


def test_what_cannot_be_collected_says_so_in_every_file(suite: Suite) -> None:
    suite.module("import no_such_module")

    suite.run_apart(*QUICK, *FILES)

    assert written(suite).stopped == "1 error during collection"
    page = (suite.path / "r.md").read_text("utf-8")
    assert page.startswith("### onnxperf: nothing was measured\n")
    assert "did not come to its end: 1 error during collection" in page
    assert "1 error during collection" in (suite.path / "r.html").read_text("utf-8")


def test_what_a_fixture_measured_is_there_though_its_setup_fails(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def measured(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            pytest.fail("no further")

        def test_fixture(measured):
            pass
    """)

    suite.run(*QUICK, JSON).assert_outcomes(errors=1)

    (test,) = written(suite).tests
    assert (test.outcome, len(test.measurements)) == ("error", 1)
    assert "no further" in test.message


@pytest.mark.parametrize("kinds", list(itertools.combinations(("json", "html", "markdown"), 2)))
def test_two_options_cannot_write_one_file(suite: Suite, kinds: tuple[str, str]) -> None:
    suite.module(OVER_AND_HELD)

    result = suite.run(*QUICK, *(f"--onnxperf-{kind}=./r" for kind in kinds))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    first, second = (f"--onnxperf-{kind}" for kind in kinds)
    result.stderr.fnmatch_lines([f"ERROR: {first} and {second}: expected two files, got the same one*"])
    assert not (suite.path / "r").exists()


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        (("--onnxperf-json=a.json", "--junitxml=./a.json"), "--onnxperf-json", "--junitxml"),
        (("--onnxperf-markdown=sum.md",), "--onnxperf-markdown", "GITHUB_STEP_SUMMARY"),
        (("--junitxml=$PLACE/sum.md",), "--junitxml", "GITHUB_STEP_SUMMARY"),
        (
            ("--onnxperf-json=a.json", "--onnxperf-html=a.json.journal"),
            "the journal of --onnxperf-json",
            "--onnxperf-html",
        ),
        (("--onnxperf-html=log", "--log-file=log"), "--onnxperf-html", "--log-file"),
    ],
)
def test_no_file_of_another_writer_is_written(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], first: str, second: str
) -> None:
    monkeypatch.setenv("PLACE", str(suite.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "sum.md"))
    suite.module(OVER_AND_HELD)

    result = suite.run(*QUICK, *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {first} and {second}: expected two files, got the same one*"])


@pytest.mark.parametrize("kind", ["json", "html", "markdown"])
def test_a_loop_of_links_is_no_place_for_a_file(suite: Suite, kind: str) -> None:
    (suite.path / "loop").symlink_to("loop")
    suite.module(OVER_AND_HELD)

    result = suite.run(*QUICK, f"--onnxperf-{kind}=loop")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --onnxperf-{kind}: *loop cannot be written: Too many levels*"])


def test_what_only_collects_writes_nothing_twice(suite: Suite) -> None:
    suite.module(OVER_AND_HELD)
    assert suite.run(*QUICK, "--onnxperf-json=r", "--onnxperf-html=r", "--collect-only").ret == pytest.ExitCode.OK


def test_two_sessions_cannot_write_one_file(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)
    suite.run(*QUICK, JSON).assert_outcomes(passed=1)
    before = (suite.path / "r.json").read_bytes()

    with file_lock(suite.path / "r.json"):
        result = suite.run_apart(*QUICK, JSON)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *r.json: another session of pytest writes it: wait for its end, or give*"])
    assert (suite.path / "r.json").read_bytes() == before
    suite.run(*QUICK, JSON).assert_outcomes(passed=1)


def test_a_session_without_a_test_writes_a_valid_file_with_none(suite: Suite) -> None:
    result = suite.run(*QUICK, JSON)

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    run = written(suite)
    assert (run.tests, run.is_complete, run.exit_status) == ((), True, 5)


def test_a_test_that_runs_again_is_written_as_it_ended(suite: Suite) -> None:
    pytest.importorskip("pytest_rerunfailures")
    suite.model()
    suite.module("""
        TRIES = []

        def test_flaky(onnx_session):
            TRIES.append(1)
            onnx_session("mlp.onnx").measure(shapes={"batch": len(TRIES)})
            assert len(TRIES) == 2
    """)

    suite.run(*QUICK, JSON, "--reruns=1").assert_outcomes(passed=1)

    (test,) = written(suite).tests
    assert (test.outcome, len(test.measurements)) == ("passed", 1)


def test_hostile_names_of_models_and_parameters_are_written(suite: Suite) -> None:
    name = "<script>'\u202e\u200f\n.onnx"
    suite.model(name)
    suite.module(f"""
        import pytest

        @pytest.mark.parametrize("name", [{name!r}], ids=['<b>"'])
        def test_hostile(onnx_session, name):
            onnx_session(name).measure(shapes={{"batch": 1}}, label='"<i>')
    """)

    suite.run(*QUICK, JSON).assert_outcomes(passed=1)

    (test,) = written(suite).tests
    assert test.nodeid == 'test_perf.py::test_hostile[<b>"]'
    assert (test.measurements[0].model, test.measurements[0].label) == (printable(name), '"<i>')


# -- workers and kills -------------------------------------------------------------------------------------------------


def test_workers_write_one_file_by_the_controller_with_the_same_results(suite: Suite) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)
    suite.run_apart(*FACTS, "--onnxperf-json=one.json")

    suite.run_apart(*FACTS, "-n", "2", JSON)

    one, many = by_name(written(suite, "one.json")), by_name(written(suite))
    assert set(one) == set(many)
    for name in one:
        assert one[name].outcome == many[name].outcome
        assert one[name].measurements[0].budgets == many[name].measurements[0].budgets
    assert [path.name for path in suite.path.glob("*.journal")] == []


def test_a_worker_that_crashes_loses_no_result_and_its_test_is_an_error(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import os

        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(onnx_session, number):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            if number == 3:
                os._exit(1)
    """)

    suite.run_apart(*QUICK, "-n", "2", JSON)

    tests = by_name(written(suite))
    assert {name: test.outcome for name, test in tests.items()} == {
        f"test_it[{number}]": "error" if number == 3 else "passed" for number in range(6)
    }
    assert all(len(test.measurements) == 1 for name, test in tests.items() if name != "test_it[3]")
    assert "crashed" in tests["test_it[3]"].message


def test_after_kill_9_the_file_is_valid_and_no_finished_test_is_missing(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import os, signal

        import pytest

        @pytest.mark.parametrize("number", range(9))
        def test_it(onnx_session, number):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            if number == 7:
                os.kill(os.getpid(), signal.SIGKILL)
    """)

    suite.run_apart(*QUICK, JSON)

    run = written(suite)
    assert not run.is_complete
    assert len(run.tests) >= 5
    assert journal_of(suite.path / "r.json").is_file()
    assert len(read_file(suite.path / "r.json").runs[0].tests) == 7

    suite.run_apart(*QUICK, JSON, "-k", "0 or 1").assert_outcomes(passed=2, deselected=7)
    assert len(read_file(suite.path / "r.json").runs[0].tests) == 2


def test_an_interrupt_leaves_a_whole_file(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_first(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_second(onnx_session):
            raise KeyboardInterrupt
    """)

    suite.run_apart(*QUICK, JSON)

    run = written(suite)
    assert (run.is_complete, run.exit_status) == (True, 2)
    assert [test.nodeid for test in run.tests] == ["test_perf.py::test_first", "test_perf.py::test_second"]


# -- where it is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param(".", "--onnxperf-json: expected the path of a file to write, got a directory: *", id="directory"),
        pytest.param("mlp.onnx/r.json", "--onnxperf-json: */mlp.onnx/r.json cannot be written: Not a directory",
                     id="below-a-file"),
        pytest.param("/proc/r.json", "--onnxperf-json: /proc/r.json cannot be written: *", id="no-file-there"),
        pytest.param("", "--onnxperf-json: expected a text that is not empty, got ''", id="empty"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_written_is_a_usage_error_before_anything_is_measured(
    suite: Suite, path: str, says: str
) -> None:
    suite.model()
    suite.module("""
        open("measured", "w").close()
    """)

    result = suite.run(*QUICK, f"--onnxperf-json={path}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {says}"])
    assert not (suite.path / "measured").exists()


def test_a_path_in_ini_is_taken_from_the_root_and_one_on_the_command_line_from_where_pytest_starts(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.model()
    suite.module(name="sub/test_perf.py", source="def test_it(): pass")
    suite.pytester.makeini("[pytest]\nonnxperf_json = out/ini.json\n")
    monkeypatch.chdir(suite.path / "sub")

    suite.run(*QUICK, "--rootdir", str(suite.path), "-c", str(suite.path / "tox.ini"))
    suite.run(*QUICK, "--rootdir", str(suite.path), "-c", str(suite.path / "tox.ini"), JSON)

    assert (suite.path / "out" / "ini.json").is_file()
    assert (suite.path / "sub" / "r.json").is_file()


def test_a_wrong_path_in_ini_names_the_key(suite: Suite) -> None:
    suite.pytester.makeini("[pytest]\nonnxperf_json = .\n")

    result = suite.run(*QUICK)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: onnxperf_json: expected the path of a file to write, got a directory: *"])


@pytest.mark.parametrize("arguments", [[*ON, "--collect-only"], ["-q"]])
def test_a_session_that_measures_nothing_leaves_an_earlier_file_alone(suite: Suite, arguments: list[str]) -> None:
    suite.module("def test_it(): pass")
    (suite.path / "r.json").write_text(json.dumps("earlier"))

    suite.run(*arguments, JSON)

    assert json.loads((suite.path / "r.json").read_text()) == "earlier"


def test_a_session_that_fails_before_its_tests_leaves_no_results_of_an_earlier_one(suite: Suite) -> None:
    (suite.path / "r.json").write_text(json.dumps("earlier"))

    suite.run(*ON, "missing.py", JSON)

    run = written(suite)
    assert (run.tests, run.exit_status) == ((), pytest.ExitCode.USAGE_ERROR)
