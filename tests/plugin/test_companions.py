"""Beside other plugins, other ways to write a test, and other ways to start pytest."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import pytest

from pytest_onnxperf.core.results_text import read_results
from tests.plugin.suite import FACTS, MEASURE, QUICK, TIMES, section

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

TWO: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_over(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    @pytest.mark.onnx_budget(max_nodes=2)
    def test_held(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""
SUMMARY: Final = [
    "test_over                                    -  memcpy 0   over budget",
    "test_held                                    -  memcpy 0   no-baseline",
    "2 measurements; budgets: 1 broken, 1 held; against baselines: 4 no-baseline",
    "2 tests have no baseline for bench-1.cpu: run --onnxperf-update",
]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-p", "xdist", "-n0"], id="xdist-n0"),
        pytest.param(["-p", "no:xdist"], id="no-xdist"),
        pytest.param(["-p", "no:cacheprovider"], id="no-cache"),
        pytest.param(["-p", "no:rerunfailures"], id="no-rerunfailures"),
        pytest.param(["-s"], id="s"),
        pytest.param(["--capture=sys"], id="capture-sys"),
        pytest.param(["--capture=tee-sys"], id="capture-tee-sys"),
        pytest.param(["--color=yes"], id="color"),
        pytest.param(["-p", "no:logging", "-p", "no:junitxml", "-p", "no:faulthandler"], id="no-logging"),
        pytest.param(["--import-mode=importlib", "--tb=line"], id="importlib"),
    ],
)
def test_a_session_says_the_same_however_it_is_started(suite: Suite, arguments: list[str]) -> None:
    suite.model()
    suite.module(TWO)

    is_about_processes = "-s" in arguments or "-n0" in arguments or "--capture=sys" in arguments
    result = suite.run_apart(*(FACTS if is_about_processes else QUICK), *arguments)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in result.stdout.str()
    assert "1 passed" in result.stdout.str()
    if "--color=yes" not in arguments:
        assert section(result, "onnxperf") == SUMMARY
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_workers_say_the_same_as_one_process(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    result = suite.run_apart(*FACTS, "-n", "2")

    result.assert_outcomes(passed=1, failed=1)
    assert sorted(section(result, "onnxperf")[:2]) == sorted(SUMMARY[:2])
    assert section(result, "onnxperf")[2:] == SUMMARY[2:]
    result.stdout.fnmatch_lines(["onnxperf: CPUExecutionProvider on Bench 1", "PERF test_perf.py::test_over - *"])
    assert result.stdout.str().count("onnxperf: CPUExecutionProvider") == 1


def test_a_worker_that_crashes_takes_nothing_of_the_others_along(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import os

        def test_a_measures(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_b_crashes(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            os._exit(3)
    """)

    result = suite.run_apart(*FACTS, "--onnxperf-update", "-n", "1")

    assert "1 failed, 1 passed" in result.stdout.str()
    assert list(suite.entries()) == ["test_a_measures"]


def test_without_a_terminal_budgets_judge_and_junit_is_written(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    result = suite.run_apart(*FACTS, "-p", "no:terminal", "--junitxml=junit.xml")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    cases = suite.junit()
    assert cases["test_over"][1].startswith("max_nodes: 2 a run, budget at most 1")
    assert cases["test_held"][1] == ""


def test_a_collection_neither_looks_at_the_runtime_nor_measures(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """It works where no runtime is: the named EP could not be probed."""
    suite.module(TWO)
    monkeypatch.setenv("PATH", "")

    for arguments in (["--co"], ["--co", "-q"], ["--collect-only", "--onnxperf-update"]):
        result = suite.run("--onnxperf", "--onnxperf-ep=tensorrt", *arguments)
        assert result.ret == pytest.ExitCode.OK
        text = result.stdout.str()
        assert "test_over" in text
        assert "2 tests collected" in text
        assert "onnxperf:" not in text
    assert not (suite.path / "baselines").exists()


def test_listings_do_not_look_at_the_runtime(suite: Suite) -> None:
    suite.module(TWO)

    for listing in ("--fixtures", "--markers", "--setup-plan", "--version"):
        result = suite.run("--onnxperf", "--onnxperf-ep=tensorrt", "--no-header", listing)
        assert result.ret == pytest.ExitCode.OK, listing
    assert "onnx_session" in suite.run("--onnxperf", "--fixtures").stdout.str()


def test_exitfirst_stops_at_a_breach_and_last_failed_runs_it_again(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    result = suite.run(*QUICK, "-x")
    result.assert_outcomes(failed=1)
    assert section(result, "onnxperf")[0] == SUMMARY[0]

    result = suite.run(*QUICK, "--lf")
    result.assert_outcomes(failed=1)
    suite.model(layers=1)
    suite.run(*QUICK, "--lf").assert_outcomes(passed=1)


def test_a_rerun_measures_anew_and_only_its_last_try_counts(suite: Suite) -> None:
    suite.model("small.onnx", layers=1)
    suite.model("large.onnx", layers=3)
    suite.module("""
        import pytest

        tries = []

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_twice(onnx_session):
            tries.append(1)
            model = "large.onnx" if len(tries) == 1 else "small.onnx"
            onnx_session(model).measure(shapes={"batch": 1})
    """)

    result = suite.run(*QUICK, "--onnxperf-update", "--reruns=1", "--junitxml=junit.xml")

    assert result.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert section(result, "onnxperf")[1].startswith("1 measurement; budgets: 1 held;")
    assert suite.entries()["test_twice"]["facts"]["nodes"] == 1
    properties, text = suite.junit()["test_twice"]
    assert properties["onnxperf.nodes"] == "1"
    assert text == ""


def test_a_rerun_that_fails_again_is_one_breach(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    result = suite.run(*QUICK, "--reruns=1", "--junitxml=junit.xml", "-k", "over")

    assert result.parseoutcomes() == {"failed": 1, "rerun": 1, "deselected": 1}
    assert section(result, "onnxperf")[1].startswith("1 measurement; budgets: 1 broken;")
    tries = (suite.path / "junit.xml").read_text("utf-8").split("<testcase")[1:]
    assert [text.count('name="onnxperf.nodes"') for text in tries] == [1] * len(tries)


def test_tests_in_classes_have_the_class_in_their_name(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        class TestOuter:
            class TestInner:
                @pytest.mark.parametrize("batch", [1, 2])
                def test_mlp(self, onnx_session, batch):
                    onnx_session("mlp.onnx").measure(shapes={"batch": batch})
    """)

    suite.run(*QUICK, "--onnxperf-update").assert_outcomes(passed=2)

    assert list(suite.entries()) == ["TestOuter::TestInner::test_mlp[1]", "TestOuter::TestInner::test_mlp[2]"]


UNITTEST: Final = """
    import unittest
    import pytest

    @pytest.mark.usefixtures("bound")
    class TestModels(unittest.TestCase):
        @pytest.fixture
        def bound(self, onnx_session):
            self.onnx_session = onnx_session

        @pytest.mark.onnx_budget(max_nodes=2)
        def test_held(self):
            self.onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(self):
            self.onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_wrong(self):
            self.onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            self.assertEqual(1, 2)

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_nothing(self):
            pass

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_skipped(self):
            self.skipTest("not today")
"""


def test_a_unittest_test_case_is_judged_like_any_other(suite: Suite) -> None:
    suite.model()
    suite.module(UNITTEST)

    result = suite.run(*QUICK)

    result.assert_outcomes(passed=1, failed=3, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "PERF test_perf.py::TestModels::test_over - Failed: max_nodes: 2 a *",
            "FAILED test_perf.py::TestModels::test_wrong - AssertionError: 1 != 2",
            "FAILED test_perf.py::TestModels::test_nothing - Failed: a budget*",
        ]
    )
    wrong = section(result, "TestModels.test_wrong")
    assert "  over budget  max_nodes: 2 a run, budget at most 1" in result.outlines[result.outlines.index(wrong[0]) :]


def test_an_async_test_is_judged_like_any_other(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytest_asyncio")
    monkeypatch.delenv("PYTEST_ADDOPTS")
    suite.pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    suite.model()
    suite.module("""
        import asyncio
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.onnx_budget(max_nodes=2)
        async def test_held(onnx_session):
            await asyncio.sleep(0)
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.asyncio
        @pytest.mark.onnx_budget(max_nodes=1)
        async def test_over(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            await asyncio.sleep(0)
    """)

    result = suite.run_apart(*QUICK)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_over - *"])


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="subtests belong to pytest from 9 on")
def test_a_subtest_that_is_skipped_does_not_skip_its_test(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import time

        import pytest

        def test_part(onnx_session, subtests):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            with subtests.test("slow"):
                time.sleep(3)
            with subtests.test("left out"):
                pytest.skip("only a part")
    """)

    started_s = time.monotonic()
    suite.run_apart(*QUICK, "--onnxperf-json=r.json", "--onnxperf-update")

    (test,) = read_results((suite.path / "r.json").read_bytes(), "r.json").runs[0].tests
    assert (test.outcome, test.message) == ("passed", "")
    assert test.duration_s < time.monotonic() - started_s
    assert set(suite.entries()) == {"test_part"}


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="subtests belong to pytest from 9 on")
def test_subtests_measure_under_labels_of_their_own(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=2)
        def test_batches(onnx_session, subtests):
            for batch in (1, 2):
                with subtests.test(batch=batch):
                    onnx_session("mlp.onnx").measure(shapes={"batch": batch}, label=f"batch {batch}")

        def test_one_fails(onnx_session, subtests):
            for batch in (1, 2):
                with subtests.test(batch=batch):
                    onnx_session("mlp.onnx").measure(shapes={"batch": batch}, label=f"batch {batch}")
                    assert batch == 1
    """)

    result = suite.run(*QUICK, "--onnxperf-update", "--junitxml=junit.xml")

    assert "INTERNALERROR" not in result.stdout.str()
    assert list(suite.entries()) == ["test_batches#batch 1", "test_batches#batch 2"]
    assert "4 measurements; budgets: 2 held; " in result.stdout.str()
    assert (suite.path / "junit.xml").read_text("utf-8").count('name="onnxperf.batch 1.nodes"') == 2


def test_a_doctest_and_other_items_are_no_concern_of_the_plugin(suite: Suite) -> None:
    suite.module('''
        def double(x):
            """
            >>> double(2)
            4
            """
            return 2 * x
    ''')

    suite.run(*QUICK, "--no-header", "--doctest-modules").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "companion",
    ["pytest_benchmark", "pytest_codspeed", "pytest_cov", "pytest_memray", "pytest_timeout", "hypothesis"],
)
def test_a_companion_that_is_loaded_changes_nothing(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, companion: str
) -> None:
    pytest.importorskip(companion)
    arguments = {
        "pytest_benchmark": ["--benchmark-disable-gc"],
        "pytest_codspeed": ["--codspeed-max-time=1"],
        "pytest_cov": ["--cov=.", "--cov-report="],
        "pytest_memray": ["--memray"],
        "pytest_timeout": ["--timeout=300"],
        "hypothesis": [],
    }[companion]
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio")
    suite.model()
    suite.module(TWO)

    result = suite.run_apart(*(FACTS if companion == "pytest_cov" else QUICK), *arguments)

    result.assert_outcomes(passed=1, failed=1)
    assert section(result, "onnxperf") == SUMMARY


def test_what_a_test_prints_and_the_runtime_logs_stays_where_it_belongs(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_mlp(onnx_session, capfd):
            print("before")
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            print("after")
            captured = capfd.readouterr()
            assert captured.out == "before\\nafter\\n"
            assert captured.err == ""
    """)

    suite.run_apart(*FACTS).assert_outcomes(passed=1)
    suite.run_apart(*FACTS, "-s").assert_outcomes(passed=1)


def test_nothing_is_left_in_the_working_directory(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)
    suite.run_apart("--version")  # pytester's own files

    def files() -> set[str]:
        return {path.name for path in suite.path.rglob("*") if path.suffix != ".pyc" and "runpytest" not in str(path)}

    before = files()

    suite.run_apart(*TIMES, "-p", "no:cacheprovider").assert_outcomes(passed=1)
    suite.run_apart(*QUICK, "-p", "no:cacheprovider").assert_outcomes(passed=1)

    assert files() - before <= {"__pycache__"}


def test_a_fixture_that_measures_before_the_test_counts_for_it(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def record(onnx_session):
            return onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(record):
            assert record.facts.nodes == 2
    """)

    suite.run(*QUICK).assert_outcomes(failed=1)


def test_the_working_directory_of_the_test_is_where_models_are_looked_for(suite: Suite) -> None:
    suite.model("models/mlp.onnx")
    suite.module("""
        def test_mlp(onnx_session, monkeypatch):
            monkeypatch.chdir("models")
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*FACTS).assert_outcomes(passed=1)
    assert os.getcwd() == str(suite.path)
