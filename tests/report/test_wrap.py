"""Columns: what a terminal gives to a text, not its number of characters."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.report.wrap import WIDTH, cell, columns, shortened, wrapped

MODEL = "\u6a21\u578b"


@given(st.text("ab -/.,", max_size=300).map(str.lstrip), st.integers(0, 6), st.integers(10, 100))
def test_plain_text_wraps_as_the_standard_library_does(content: str, margin: int, width: int) -> None:
    assert wrapped(" " * margin + content, "  ", width) == textwrap.wrap(
        content, width, initial_indent=" " * margin, subsequent_indent="  ", break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def test_wide_characters_stay_within_the_columns() -> None:
    lines = wrapped(f"{MODEL} " * 60, "  ")

    assert max(map(columns, lines)) <= WIDTH
    assert "".join("".join(lines).split()) == MODEL * 60


@given(st.text(MODEL + "ab e\u0301-[]", max_size=60), st.integers(0, 15))
def test_a_cell_takes_its_columns_whatever_is_in_it(text: str, head: int) -> None:
    assert columns(cell(text, 20, head)) == 20


@pytest.mark.parametrize(
    ("text", "head", "expected"),
    [
        ("0123456789", 0, "0123456789"),
        ("0123456789a", 0, "...456789a"),
        ("0123456789a", 3, "012...789a"),
        ("0123456789a", 7, "0123456..."),
        (f"{MODEL}--{MODEL}", 4, f"{MODEL}--{MODEL}"),
        (f"{MODEL}---{MODEL}", 4, f"{MODEL}... {MODEL[1:]}"),  # half of a wide character is a space
    ],
)
def test_a_text_is_cut_into_ten_columns(text: str, head: int, expected: str) -> None:
    assert shortened(text, 10, head) == expected
