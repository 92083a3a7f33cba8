"""`onnxperf export`, `merge` and `matrix`, as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.cli import main
from pytest_onnxperf.core.matrix import run_tests_of, tables_of
from pytest_onnxperf.core.results import Results
from pytest_onnxperf.core.results_text import read_results, write_results
from pytest_onnxperf.report.export import FORMATS, exported
from pytest_onnxperf.report.matrix import FORMS, matrix_text
from pytest_onnxperf.runtime.results_disk import ResultsWriter
from tests.records import MS
from tests.results import everything, machine, place, run, session_outcome, test_of

if TYPE_CHECKING:
    from pathlib import Path

A, B = (Results(runs=(run(test_of(f"t.py::{name}", session_outcome()), commit=name * 40),)) for name in "ab")


def file(path: Path, results: Results) -> str:
    path.write_bytes(write_results(results))
    return str(path)


@pytest.mark.parametrize("form", FORMATS)
def test_export_writes_each_form_to_a_file_and_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    given, expected = file(tmp_path / "r.json", everything()), exported(form, everything())

    assert main(["export", form, given, "-o", str(tmp_path / "new" / "out")]) == 0
    assert (tmp_path / "new" / "out").read_bytes() == expected.encode()
    assert capsys.readouterr().out == ""

    assert main(["export", form, given]) == 0
    assert capsys.readouterr().out == expected


def test_export_shows_on_a_narrow_terminal_what_its_encoding_lacks_by_its_code(tmp_path: Path) -> None:
    given = file(tmp_path / "r.json", everything())
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}

    command = [sys.executable, "-m", "pytest_onnxperf.cli", "export", "csv", given]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)

    assert b"\\u202e" in done.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_export_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    empty = file(tmp_path / "empty.json", Results(runs=(run(),)))
    for more in [[], ["--no-header"]]:
        assert main(["export", form, empty, *more]) == 0
        reason = f"{empty}: nothing in it goes into {form}: no test ran, or it has no place for what was measured"
        assert capsys.readouterr().err == f"onnxperf: warning: {reason}\n"

        assert main(["export", form, file(tmp_path / "one.json", everything()), *more]) == 0
        assert ("of single models alone: " in capsys.readouterr().err) is (form == "pytest-benchmark")


def test_export_of_times_names_what_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without = session_outcome(metrics={"model_size": (100.0,)}, distributions={})
    tests = [test_of("t.py::timed", session_outcome()), *(test_of(f"t.py::{name}", without) for name in "abcd")]
    given = file(tmp_path / "r.json", Results(runs=(run(*tests),)))

    assert main(["export", "pytest-benchmark", given]) == 0
    why = "which takes the times of single models alone: t.py::a, t.py::b, t.py::c and 1 more"
    assert capsys.readouterr().err == f"onnxperf: warning: {given}: not in pytest-benchmark, {why}\n"

    assert main(["export", "bencher", given]) == 0
    assert capsys.readouterr().err == ""


def test_a_benchmark_is_named_without_path_and_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodeids = ("t.py::test_a", "t.py::TestB::test_b[m::a]", "t.py::test_c[x]")
    tests = [test_of(nodeid, session_outcome()) for nodeid in nodeids]
    given = file(tmp_path / "r.json", Results(runs=(run(*tests),)))

    assert main(["export", "pytest-benchmark", given]) == 0
    found = [each["name"] for each in json.loads(capsys.readouterr().out)["benchmarks"]]
    assert found == ["test_a", "test_b[m::a]", "test_c[x]"]


def test_export_of_rows_alone_has_no_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "csv", "--no-header", file(tmp_path / "r.json", A)]) == 0

    assert capsys.readouterr().out.startswith("2026-12-02T08:00:00.000+00:00,aaaa")


def test_export_takes_what_a_killed_run_left_in_its_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer, unended = ResultsWriter(tmp_path / "r.json"), run(is_complete=False)
    writer.begin(unended)
    for number in range(40):
        writer.add(unended, test_of(f"t.py::{number}", session_outcome()))
    assert len(read_results((tmp_path / "r.json").read_bytes(), "r").runs[0].tests) < 40

    assert main(["export", "bencher", str(tmp_path / "r.json")]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 40


def test_merge_joins_files_and_says_what_they_are_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Results(runs=(run(*B.runs[0].tests, machine=machine("runner-2"), is_complete=False),))
    paths = [file(tmp_path / "a.json", A), file(tmp_path / "b.json", other)]

    assert main(["merge", *paths, "-o", str(tmp_path / "all.json")]) == 0

    merged = read_results((tmp_path / "all.json").read_bytes(), "all")
    assert [test.nodeid for one in merged.runs for test in one.tests] == ["t.py::a", "t.py::b"]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"onnxperf: warning: {paths[1]}: a run in it did not come to its end")
    assert second.startswith("onnxperf: warning: these are results of 2 machines: runner-1 ")


def test_a_merged_file_may_take_the_place_of_one_of_its_parts(tmp_path: Path) -> None:
    paths = [file(tmp_path / "a.json", A), file(tmp_path / "b.json", B)]

    assert main(["merge", *paths, "-o", paths[0]]) == 0

    assert len(read_results((tmp_path / "a.json").read_bytes(), "a").runs) == 2


def test_merge_refuses_two_results_of_one_test_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slower = Results(runs=(run(test_of("t.py::a", session_outcome(metrics={"latency_p50": (99.0 * MS,)}))),))
    paths = [file(tmp_path / "a.json", A), file(tmp_path / "b.json", slower)]

    assert main(["merge", *paths, "-o", str(tmp_path / "all.json")]) == 2

    error = capsys.readouterr().err
    assert error.startswith("onnxperf: t.py::a was measured twice in the same environment")
    assert paths[0] in error
    assert paths[1] in error
    assert not (tmp_path / "all.json").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(write_results(A)[:-9], "r.json: not valid JSON, it may be cut off", id="cut off"),
        pytest.param(b'{"schema": 7, "runs": []}', "r.json: schema 7 is newer than the 1", id="newer"),
        pytest.param(None, "r.json: cannot be read: No such file or directory", id="missing"),
    ],
)
@pytest.mark.parametrize("command", [["export", "csv"], ["merge", "-o", "out.json"]])
def test_a_file_that_cannot_be_read_is_exit_code_2_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str],
    content: bytes | None, says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "r.json").write_bytes(content)

    assert main([*command, "r.json"]) == 2

    assert says in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("command", [["export", "csv"], ["report"], ["matrix", "--csv"]])
def test_what_is_read_is_not_replaced_by_another_form_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    given = file(tmp_path / "r.json", everything())
    before = (tmp_path / "r.json").read_bytes()
    link = tmp_path / "link"
    link.symlink_to(given)

    for output in (given, str(link)):
        assert main([*command, given, "-o", output]) == 2
        assert "is a file of results that is read: give another name" in capsys.readouterr().err
    assert (tmp_path / "r.json").read_bytes() == before


@pytest.mark.parametrize("command", [["export", "csv"], ["merge"]])
def test_an_output_that_is_a_directory_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    given = file(tmp_path / "r.json", A)

    assert main([*command, given, "-o", str(tmp_path)]) == 2

    assert capsys.readouterr().err.startswith(
        "onnxperf: --output: expected the path of a file to write, got a directory"
    )


def test_an_unknown_form_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["export", "xml", "r.json"])

    assert error.value.code == 2
    text = capsys.readouterr().err
    assert [form for form in FORMATS if form not in text] == []


@pytest.mark.parametrize("form", FORMS)
def test_matrix_writes_each_form_to_a_file_and_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    given = file(tmp_path / "r.json", everything())
    flags = [] if form == "text" else [f"--{form}"]
    expected = matrix_text(form, tables_of(run_tests_of(everything())))

    assert main(["matrix", given, *flags, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text("utf-8") == expected
    assert main(["matrix", given, *flags]) == 0
    assert capsys.readouterr().out.rstrip() == expected.rstrip()


def test_matrix_of_shards_is_one_table_that_says_that_it_mixes_commits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [
        file(tmp_path / f"{dtype}.json", Results(runs=(run(
            test_of(f"t.py::test_m[{dtype}]", session_outcome(), matrix=place(order, dtype=dtype)), commit=dtype * 10,
        ),)))
        for order, dtype in enumerate(["f16", "int4"])
    ]  # fmt: skip

    assert main(["matrix", *shards]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("best: ") for line in lines) == 1
    assert any(line.startswith("int4") and line.endswith("1x") for line in lines)
    assert any(line.startswith("MIXES BUILDS: commit f16f16") for line in lines)


def test_matrix_of_a_file_without_one_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = file(tmp_path / "r.json", A)
    assert main(["matrix", given]) == 2
    assert capsys.readouterr().err == f"onnxperf: {given}: no test of @pytest.mark.onnx_matrix is in it\n"
