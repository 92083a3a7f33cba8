"""`--onnxperf-markdown`, GitHub's job summary and annotations: what a session writes, when, and where it cannot."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pytest

import pytest_onnxperf.markdown_file  # noqa: F401 -- pytester takes away what a session in this process loads
from pytest_onnxperf.runtime.report_file import SUMMARY_BYTES
from tests.plugin.suite import FACTS, MEASURE, OVER_AND_HELD, QUICK, TIMES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.suite import Suite

FILE: Final = "--onnxperf-markdown=page.md"


def read(suite: Suite, name: str = "page.md") -> str:
    return (suite.path / name).read_text("utf-8")


def names(text: str) -> list[str]:
    """The tests in the tables, in their order."""
    return [re.split(r"\W", line.split("::")[1])[0] for line in text.splitlines() if line.startswith("| `test_perf")]


@pytest.fixture
def summary(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job summary, as a step of GitHub has it."""
    path = suite.path / "summary.md"
    path.touch()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


@pytest.fixture
def github(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of GitHub, whose workspace is the directory above that of the tests."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(suite.path.parent))


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_session_writes_the_tests_that_measure_with_the_worst_first(suite: Suite) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)

    result = suite.run(*QUICK, FILE)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([f"*- onnxperf Markdown: {suite.path / 'page.md'} -*"])
    text = read(suite)
    assert text.startswith("### onnxperf: 1 of 2 tests failed by performance\n")
    assert names(text) == ["test_over", "test_held"]
    assert "What to do\n" in text
    assert "CPUExecutionProvider on Bench 1\n" in text


def test_without_the_option_and_without_github_nothing_is_written(suite: Suite) -> None:
    suite.model()
    suite.module()

    result = suite.run(*QUICK)

    result.assert_outcomes(passed=1)
    assert not list(suite.path.glob("*.md"))
    assert "::error" not in result.stdout.str()


def test_a_status_that_pytest_does_not_know_is_said_and_kept(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_first(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)
    suite.module(
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):  # as a plugin that fails a session by a status of its own
            session.exitstatus = 7
    """,
        "conftest.py",
    )

    result = suite.run_apart(*QUICK, "--onnxperf-markdown=m.md", "--onnxperf-json=r.json")

    assert result.ret == 7
    text = (suite.path / "m.md").read_text("utf-8")
    assert "did not come to its end: it ended with exit status 7, which is not one of pytest's" in text
    assert "test_first" in text
    assert not (suite.path / "r.json.journal").exists()


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

        @pytest.mark.onnx_budget(max_memcpy=1)
        def test_nothing():
            pass

        def test_unused(onnx_session):
            pass

        @pytest.fixture
        def broken():
            yield
            raise ValueError("in teardown")

        def test_teardown(onnx_session, broken):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*QUICK, FILE)

    text = read(suite)
    assert "**4 tests measured nothing**" in text
    row = {
        line.split("::")[1].split("`")[0]: line.split(" | ")[1:3] for line in text.splitlines() if "| `test_" in line
    }
    assert row["test_skipped"][0] == "skipped, **nothing measured**"
    assert "demands CUDAExecutionProvider" in row["test_skipped"][1]
    assert row["test_wrong"][0] == "**error**"
    assert "max_memcopy" in row["test_wrong"][1]
    assert row["test_nothing"][0] == "**failed**"
    assert row["test_unused"] == ["passed, **nothing measured**", ""]
    assert row["test_teardown"][0] == "no-baseline, **test error**"


@pytest.mark.parametrize(
    ("source", "said"),
    [(None, "No test ran."), ("def test_a(): pass", "No test that measures is among the 1 that ran.")],
)
def test_a_session_that_measures_nothing_writes_a_page_that_says_so(
    suite: Suite, summary: Path, source: str | None, said: str
) -> None:
    if source:
        suite.module(source)
    suite.run(*QUICK, FILE)
    expected = f"### onnxperf: nothing was measured\n\n**Nothing was measured.** {said}\n"
    assert read(suite) == summary.read_text("utf-8") == expected


def test_an_update_says_what_was_recorded(suite: Suite) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)

    suite.run(*QUICK, FILE, "--onnxperf-update")

    recorded = "updated: baselines/bench-1.cpu/test_perf.json\n  test_held: new\nnot recorded, since a test "
    assert f"**Recorded**\n\n```text\n{recorded}" in read(suite)


def test_a_baseline_has_its_place_beside_what_is_measured_now(suite: Suite) -> None:
    suite.model()
    suite.module()
    update = ("--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=3")
    suite.run(*TIMES, *update).assert_outcomes(passed=1)

    suite.run(*TIMES, "--onnxperf-tolerance=50", FILE)

    (row,) = [line for line in read(suite).splitlines() if "test_mlp" in line and line.startswith("| ")]
    now, before, change = row.split(" | ")[3:6]
    assert re.fullmatch(r"latency p50 [\d.]+ ms", now)
    assert re.fullmatch(r"[\d.]+ ms", before)
    assert re.match(r"([+-][\d.]+|0) %", change)


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

    suite.run(*QUICK, FILE, "--reruns=1").assert_outcomes(passed=1)

    assert names(read(suite)) == ["test_flaky"]
    assert "failed" not in read(suite).splitlines()[0].replace("none failed", "")


def test_hostile_names_of_models_and_parameters_are_written_as_text(suite: Suite, github: None) -> None:
    name = "<script>|`x`'\u202e\n.onnx"
    suite.model(name)
    suite.module(f"""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        @pytest.mark.parametrize("name", [{name!r}], ids=['<b>|%,:'])
        def test_hostile(onnx_session, name):
            onnx_session(name).measure(shapes={{"batch": 1}}, label='"<i>')
    """)

    result = suite.run(*QUICK, FILE)

    result.assert_outcomes(failed=1)
    text = read(suite)
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"</?([a-z]+)", outside)) <= {"code", "br", "details", "summary"}
    assert "\u202e" not in text
    (line,) = [line for line in result.outlines if line.startswith("::error")]
    assert "title=onnxperf%3A test_hostile[<b>|%25%2C%3A]::" in line
    assert "\\u202e" in line


# -- workers and endings -----------------------------------------------------------------------------------------------


def test_workers_write_once_by_the_controller_and_the_same(suite: Suite, summary: Path, github: None) -> None:
    suite.model()
    suite.module(OVER_AND_HELD)

    alone = suite.run_apart(*FACTS, "--onnxperf-markdown=one.md")
    once = summary.read_text("utf-8")
    summary.write_text("", encoding="utf-8")
    many = suite.run_apart(*FACTS, "-n", "2", FILE)

    assert summary.read_text("utf-8") == read(suite)
    assert names(read(suite)) == names(read(suite, "one.md")) == names(once)
    found = [[line for line in each.outlines if line.startswith("::error")] for each in (alone, many)]
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_a_worker_that_dies_leaves_its_test_in_the_page(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import os

        def test_dies(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            os._exit(1)
    """)

    suite.run_apart(*FACTS, "-n", "1", FILE)

    assert read(suite).startswith("### onnxperf: 1 of 1 test failed, none by performance\n")


def test_an_interrupted_session_says_so(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_a(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_b():
            raise KeyboardInterrupt
    """)

    suite.run_apart(*QUICK, FILE)

    assert "**The session did not come to its end: it was interrupted.**" in read(suite)
    assert names(read(suite)) == ["test_a"]


def test_a_session_that_is_killed_leaves_no_page_of_an_earlier_one(suite: Suite) -> None:
    (suite.path / "page.md").write_text("all is well", encoding="utf-8")
    suite.module("""
        import os

        def test_kill():
            os._exit(9)
    """)

    suite.run_apart(*QUICK, FILE)

    assert "it still runs, or was killed" in read(suite)
    assert read(suite).startswith("### onnxperf: nothing is known yet\n")
    assert "No test ran" not in read(suite)


@pytest.mark.parametrize("arguments", [("--collect-only",), ("--help",)])
def test_a_session_that_runs_nothing_leaves_the_file_alone(
    suite: Suite, summary: Path, arguments: tuple[str, ...]
) -> None:
    suite.model()
    suite.module()
    (suite.path / "page.md").write_text("earlier", encoding="utf-8")

    suite.run(*QUICK, FILE, *arguments)

    assert read(suite) == "earlier"
    assert summary.read_text("utf-8") == ""


# -- where it cannot ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "said"),
    [("folder", "expected the path of a file to write, got a directory"), ("file/page.md", "Not a directory")],
)
def test_a_path_that_cannot_be_written_is_a_usage_error_at_the_start(suite: Suite, path: str, said: str) -> None:
    suite.model()
    suite.module()
    (suite.path / "folder").mkdir()
    (suite.path / "file").touch()

    result = suite.run(*QUICK, f"--onnxperf-markdown={path}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --onnxperf-markdown: *{said}*"])
    assert "passed" not in result.stdout.str()


def test_the_ini_key_is_from_the_root_directory_and_the_option_from_where_pytest_started(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.model()
    suite.module(name="sub/test_perf.py")
    (suite.path / "pytest.ini").write_text("[pytest]\nonnxperf_markdown = page.md\n", encoding="utf-8")
    monkeypatch.chdir(suite.path / "sub")

    suite.run(*QUICK)
    assert (suite.path / "page.md").is_file()
    suite.run(*QUICK, "--onnxperf-markdown=deep/other.md")
    assert (suite.path / "sub" / "deep" / "other.md").is_file()


def test_a_file_that_vanishes_fails_the_session(suite: Suite) -> None:
    suite.module("""
        import pathlib, shutil

        def test_a():
            shutil.rmtree(pathlib.Path(__file__).parent / "out")
    """)

    result = suite.run(*QUICK, "--onnxperf-markdown=out/page.md")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["onnxperf: WARNING: *page.md could not be written: No such file or directory"])


@pytest.mark.parametrize("used", [SUMMARY_BYTES - 3000, SUMMARY_BYTES])
def test_a_summary_stays_under_its_limit_and_says_where_nothing_fits(suite: Suite, summary: Path, used: int) -> None:
    summary.write_bytes(b"x" * used)
    suite.model()
    suite.module()

    result = suite.run(*QUICK)

    result.assert_outcomes(passed=1)
    assert result.ret == 0
    warnings = [line for line in result.outlines if "WARNING: no job summary" in line]
    if used < SUMMARY_BYTES:
        assert used < summary.stat().st_size < SUMMARY_BYTES
        assert "### onnxperf: " in summary.read_text("utf-8")
        assert warnings == []
    else:
        assert summary.stat().st_size == used
        assert len(warnings) == 1
        assert "no page fits" in warnings[0]


def test_a_summary_that_cannot_be_written_fails_nothing(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(suite.path / "none" / "summary.md"))
    suite.model()
    suite.module()

    result = suite.run(*QUICK)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["onnxperf: WARNING: no job summary, GITHUB_STEP_SUMMARY=*: No such file or directory"])


# -- annotations -------------------------------------------------------------------------------------------------------


def test_a_breach_is_annotated_at_its_line_from_the_workspace(suite: Suite, github: None) -> None:
    suite.model()
    suite.module(OVER_AND_HELD, name="deep/test_perf.py")

    result = suite.run(*QUICK)

    (line,) = [line for line in result.outlines if line.startswith("::")]
    file = f"{suite.path.name}/deep/test_perf.py"
    assert line.startswith(
        f"::error file={file},line=3,title=onnxperf%3A test_over::max_nodes: 2 a run, budget at most 1"
    )
    assert (suite.path / "deep" / "test_perf.py").read_text("utf-8").splitlines()[2].startswith("@pytest.mark")


@pytest.mark.parametrize("workspace", ["", "/somewhere/else"])
def test_outside_of_a_workspace_the_path_is_from_the_root_directory(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, workspace: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", workspace)
    suite.model()
    suite.module(OVER_AND_HELD)

    assert "::error file=test_perf.py,line=3," in suite.run(*QUICK).stdout.str()


@pytest.mark.parametrize("value", ["", "false", "1"])
def test_elsewhere_than_on_github_nothing_is_annotated(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, value: str, summary: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", value)
    suite.model()
    suite.module(OVER_AND_HELD)

    assert "::error" not in suite.run(*QUICK).stdout.str()
    assert summary.stat().st_size > 0


def test_more_than_ten_breaches_are_ten_errors_and_a_notice(suite: Suite, github: None) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        @pytest.mark.parametrize("n", range(12))
        def test_over(onnx_session, n):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    lines = [line for line in suite.run(*QUICK).outlines if line.startswith("::")]

    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::notice"]
    assert "2 more tests failed by performance" in lines[-1]


def test_without_onnxperf_github_gets_nothing(suite: Suite, summary: Path, github: None) -> None:
    suite.module(MEASURE)

    result = suite.run()

    result.assert_outcomes(skipped=1)
    assert summary.read_text("utf-8") == ""
    assert os.environ["GITHUB_ACTIONS"] == "true"
