"""`--onnxperf-html`: the page that a session writes, with and without `--onnxperf-json`, and where it cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

import pytest_onnxperf.results_file  # noqa: F401 -- pytester takes away what a session in this process loads
from pytest_onnxperf.report.html.page import page
from pytest_onnxperf.runtime.results_disk import read_file
from tests.plugin.suite import QUICK

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

HTML: Final = "--onnxperf-html=out/r.html"
TWO: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_over(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    def test_held(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""


def written(suite: Suite) -> str:
    return (suite.path / "out" / "r.html").read_text("utf-8")


def test_a_session_writes_a_page_alone(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    result = suite.run(*QUICK, HTML)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"*- onnxperf page: {suite.path / 'out' / 'r.html'} -*"])
    text = written(suite)
    assert "1 of 2 tests fails" in text
    assert "max_nodes: 2 a run, budget at most 1" in text
    assert list(suite.path.glob("**/*.json")) == []


def test_the_page_is_made_of_what_the_file_of_results_holds(suite: Suite) -> None:
    suite.model()
    suite.module(TWO)

    suite.run(*QUICK, HTML, "--onnxperf-json=r.json").assert_outcomes(passed=1, failed=1)

    of_file = page([read_file(suite.path / "r.json")])
    assert of_file.count("mlp.onnx") == written(suite).count("mlp.onnx") > 2
    assert "max_nodes: 2 a run, budget at most 1" in of_file


def test_workers_of_xdist_write_no_page_and_the_controller_one_of_all(suite: Suite) -> None:
    pytest.importorskip("xdist")
    suite.model()
    suite.module(TWO)

    suite.run(*QUICK, HTML, "-n", "2").assert_outcomes(passed=1, failed=1)

    assert "1 of 2 tests fails" in written(suite)
    assert sorted(each.name for each in (suite.path / "out").iterdir()) == ["r.html"]


def test_a_session_without_such_tests_writes_a_page_that_says_so(suite: Suite) -> None:
    suite.module("def test_other():\n    pass\n")

    suite.run(*QUICK, HTML).assert_outcomes(passed=1)

    assert "No test that measures has ended." in written(suite)


def test_the_page_of_an_earlier_run_does_not_outlive_the_start_of_the_next(suite: Suite) -> None:
    suite.module(f"""
        from pathlib import Path

        def test_other():
            text = Path({str(suite.path / "out" / "r.html")!r}).read_text("utf-8")
            assert "did not come to its end" in text
    """)
    (suite.path / "out").mkdir()
    (suite.path / "out" / "r.html").write_text("old", encoding="utf-8")

    suite.run(*QUICK, HTML).assert_outcomes(passed=1)

    assert "did not come to its end" not in written(suite)


def test_a_directory_is_refused_before_anything_runs(suite: Suite) -> None:
    suite.module(TWO)
    (suite.path / "there").mkdir()

    result = suite.run(*QUICK, "--onnxperf-html=there")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --onnxperf-html: expected the path of a file to write, got a directory: *there"]
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_refused(suite: Suite) -> None:
    (suite.path / "r.html").touch(0o400)

    result = suite.run(*QUICK, "--onnxperf-html=r.html")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --onnxperf-html: *r.html may not be written"])


def test_a_path_below_a_file_is_refused(suite: Suite) -> None:
    (suite.path / "file").touch()

    result = suite.run(*QUICK, "--onnxperf-html=file/r.html")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --onnxperf-html: *r.html cannot be written: *"])


def test_one_path_for_both_files_is_refused(suite: Suite) -> None:
    result = suite.run(*QUICK, "--onnxperf-html=r", "--onnxperf-json=./r")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --onnxperf-json and --onnxperf-html: expected two files, got the same one*"])
