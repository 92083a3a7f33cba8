"""`onnxperf report`, as it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_onnxperf.cli import main
from pytest_onnxperf.core.results import Results
from pytest_onnxperf.core.results_text import write_results
from pytest_onnxperf.report.html.page import page
from tests.results import everything, run, session_outcome, test_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DAYS = [
    Results(runs=(run(test_of("t.py::a", session_outcome()), started=f"2026-12-0{day}T08:00:00.000+00:00"),))
    for day in (1, 2)
]


def file(path: Path, results: Results) -> str:
    path.write_bytes(write_results(results))
    return str(path)


def test_report_writes_the_page_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "page.html"

    assert main(["report", file(tmp_path / "r.json", everything()), "-o", str(out)]) == 0

    assert out.read_text("utf-8") == page([everything()])
    assert capsys.readouterr().out == ""


def test_report_of_several_files_has_the_history_in_whatever_order_they_are(tmp_path: Path) -> None:
    names = [file(tmp_path / f"{number}.json", each) for number, each in enumerate(DAYS)]
    there, back = tmp_path / "there.html", tmp_path / "back.html"

    assert main(["report", *names, "-o", str(there)]) == 0
    assert main(["report", *reversed(names), "-o", str(back)]) == 0

    assert there.read_text("utf-8") == back.read_text("utf-8")
    assert "Metrics of 2 runs, newest first" in there.read_text("utf-8")


def test_report_refuses_a_directory_and_a_file_that_is_none_of_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = file(tmp_path / "r.json", everything())

    assert main(["report", given, "-o", str(tmp_path)]) == 2
    assert "--output: expected the path of a file to write, got a directory" in capsys.readouterr().err

    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    assert main(["report", given, str(tmp_path / "other.json"), "-o", str(tmp_path / "p.html")]) == 2
    assert "other.json: not a file of --onnxperf-json" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()
