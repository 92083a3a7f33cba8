"""The tables of a matrix as a person, a page and a program read them."""

from __future__ import annotations

import csv
import html.parser
import io
from typing import Any

import msgspec
import pytest

from pytest_onnxperf.core.matrix import RunTest, run_tests_of, tables_of
from pytest_onnxperf.report.matrix import FORMS, matrix_text
from tests.records import MS
from tests.results import HOSTILE, everything, place, session_outcome, test_of, with_versions


def text(form: str, *cells: Any) -> str:
    return matrix_text(form, tables_of(map(RunTest, cells)))


def cell(order: int, latency_ms: float, **coordinates: str) -> Any:
    metrics = {"latency_p50": (latency_ms * MS,), "peak_rss": (2.0**28 / (order + 1),), "load": (9.0 * MS,)}
    where = place(order, **coordinates)
    return test_of(f"t.py::test_m[{where.id}]", session_outcome(metrics=metrics), matrix=where)


SKIPPED = test_of("t.py::test_m[nf4]", outcome="skipped", message="no GPU", matrix=place(2, dtype="nf4"))
CELLS = (cell(0, 10, dtype="f16"), cell(1, 4, dtype="int4"), SKIPPED)


def test_the_terminal_has_the_best_on_top_and_the_ratio_beside_the_value() -> None:
    assert text("text", *CELLS) == (
        "tests/test_a.py::test_m\n"
        "best: latency p50 int4 (4 ms, 2.5x); peak RSS int4 (128 MiB, 2x)\n"
        "cell     latency ms  peak RSS MiB\n"
        "f16          10 ref       256 ref\n"
        "int4         4 2.5x        128 2x\n"
        "(x: how many times better than the reference)\n"
        "build: onnxruntime 1.32.0, device of cpu AMD EPYC 7763, 2 cores\n"
        "nf4: skipped: no GPU\n"
    )


def test_a_matrix_of_which_nothing_ran_says_that_and_why() -> None:
    assert text("text", SKIPPED) == "tests/test_a.py::test_m\nnothing was measured\nnf4: skipped: no GPU\n"
    assert "| nf4 | skipped |" in text("markdown", SKIPPED).splitlines()


def test_rows_of_other_builds_are_said_on_a_line_of_their_own() -> None:
    mixed = with_versions(CELLS[1], onnxruntime="1.33.0")
    lines = text("text", CELLS[0], mixed).splitlines()
    assert "MIXES BUILDS: onnxruntime 1.32.0 (1 cell), 1.33.0 (1 cell)" in lines
    assert "- MIXES BUILDS: onnxruntime 1.32.0 (1 cell), 1.33.0 (1 cell)" in text("markdown", CELLS[0], mixed)


def test_a_long_id_stands_whole_and_no_line_is_wider_than_a_terminal() -> None:
    long = {"dtype": "f16", "padding": "padding_" + "x" * 60}
    lines = text("text", cell(0, 10, **long), cell(1, 4, **{**long, "dtype": "int4"})).splitlines()
    assert f"int4-{long['padding']}" in lines
    assert max(map(len, lines)) <= 80


def test_markdown_is_a_table_with_every_main_metric_and_the_state() -> None:
    lines = text("markdown", *CELLS).splitlines()
    assert lines[:9] == [
        "### tests/test\\_a.py::test\\_m",
        "",
        "best: latency p50 int4 (4 ms, 2.5x); load f16 (9 ms, and within 5 %: int4); peak RSS int4 (128 MiB, 2x)",
        "",
        "| cell | latency p50 | load | peak RSS | state |",
        "| --- | ---: | ---: | ---: | --- |",
        "| f16 | 10 ms | 9 ms | 256 MiB | no-baseline, reference |",
        "| int4 | 4 ms 2.5x | 9 ms 1x | 128 MiB 2x | no-baseline |",
        "| nf4 | - | - | - | skipped |",
    ]
    assert "- nf4: skipped: no GPU" in lines


class Cells(html.parser.HTMLParser):
    """The texts of table cells, and every tag."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in ("td", "th") and data.strip():
            self.rows[-1].append(data)


def test_html_is_the_same_table() -> None:
    parsed = Cells(text("html", *CELLS))
    assert parsed.rows[0] == ["cell", "latency p50", "load", "peak RSS", "state"]
    assert parsed.rows[2] == ["int4", "4 ms 2.5x", "9 ms 1x", "128 MiB 2x", "no-baseline"]


def test_csv_has_a_row_for_each_metric_and_the_dimensions_in_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(text("csv", *CELLS))))
    latency = [row for row in rows if row["metric"] == "latency_p50"]
    columns = ("dtype", "value", "unit", "better", "reference", "ratio")
    assert [tuple(row[name] for name in columns) for row in latency] == [
        ("f16", "10.0", "ms", "less", "", ""), ("int4", "4.0", "ms", "less", "f16", "2.5"),
    ]  # fmt: skip
    assert [row["state"] for row in rows if row["cell"] == "nf4"] == ["skipped"]
    assert len(rows) == 7


def test_names_that_try_to_break_out_stay_text_in_every_form() -> None:
    hostile = msgspec.structs.replace(SKIPPED, message=HOSTILE.replace("\n", " ").replace("\r", " "))
    assert "\t" not in text("text", *CELLS, hostile)
    assert "<script" not in text("markdown", *CELLS, hostile)
    assert "script" not in Cells(text("html", *CELLS, hostile)).tags


@pytest.mark.parametrize("form", FORMS)
def test_what_the_file_of_results_has_can_be_written_in_each_form(form: str) -> None:
    assert "test_m" in matrix_text(form, tables_of(run_tests_of(everything()))).replace("\\", "")
