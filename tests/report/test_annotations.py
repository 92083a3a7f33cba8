"""Workflow commands: which tests have one, and what would end a command before its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.report.annotations import MOST_ERRORS, annotation_lines, escaped, escaped_property
from tests.reported import compared, held, over, reported, unmeasured

if TYPE_CHECKING:
    from pytest_onnxperf.core.outcome import ReportedTest


def lines_of(*tests: ReportedTest) -> list[str]:
    return annotation_lines(tests, lambda test: test.path)


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as the runner does. Source: actions/runner, ActionCommand.TryParseV2."""
    found = re.fullmatch(r"::(\w+) ([^\n]*?)::([^\n]*)", line)
    assert found is not None, line
    pairs = (pair.split("=", 1) for pair in found[2].split(","))
    properties = {name: unescaped(value, property_too=True) for name, value in pairs}
    return found[1], properties, unescaped(found[3])


def unescaped(text: str, *, property_too: bool = False) -> str:
    for code, char in [("%0D", "\r"), ("%0A", "\n"), *([("%3A", ":"), ("%2C", ",")] if property_too else [])]:
        text = text.replace(code, char)
    return text.replace("%25", "%")


def test_a_breach_is_an_error_at_the_line_of_its_test() -> None:
    (line,) = lines_of(held(), over("test_over", 2, path="tests/test_a.py", line=12))
    assert line == (
        "::error file=tests/test_a.py,line=12,title=onnxperf%3A test_over::"
        "tests/test_a.py::test_over is over budget%0Aa.onnx%0A  over budget  it"
    )


def test_only_what_failed_by_performance_is_annotated() -> None:
    assert lines_of(held(), unmeasured("failed", "no model"), unmeasured("skipped")) == []
    assert lines_of(over("test_x", 2, ended="xfailed")) == []
    assert len(lines_of(reported(comparisons=(compared("test_pays", 1.25, least=1.5),)))) == 1


@pytest.mark.parametrize("count", [MOST_ERRORS, MOST_ERRORS + 1, MOST_ERRORS + 2])
def test_ten_errors_are_the_worst_and_a_notice_counts_the_rest(count: int) -> None:
    lines = lines_of(*[over(f"test_{number:02}", number + 2) for number in range(count)])
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == MOST_ERRORS
    assert [re.findall(r"test_\d\d", line)[0] for line in errors] == [
        f"test_{number:02}" for number in reversed(range(count - MOST_ERRORS, count))
    ]
    left = count - MOST_ERRORS
    assert lines[MOST_ERRORS:] == (
        [f"::notice title=onnxperf::{left} more test{'s' if left > 1 else ''} failed by performance, none worse than "
         "those annotated"] if left else []
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a,b", "a:b", "a::error ::b", "50 %", "%0A", "a\nb", "a\r::error::b", "\u202ea"])
def test_a_hostile_name_ends_no_command(name: str) -> None:
    test = over("test_x", 2, nodeid=f"t.py::{name}", path="a,b:c%/t.py", message=f"{name}\n{name}")
    (line,) = lines_of(test)
    assert "\n" not in line
    assert "\r" not in line
    command, properties, message = parsed(line)
    visible = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
    assert (command, properties["file"], properties["line"]) == ("error", "a,b:c%/t.py", "1")
    assert properties["title"] == f"onnxperf: {visible}"
    shown = "\n".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in part) for part in name.splitlines())
    assert message == f"{shown}\n{shown}"


@given(st.text())
def test_what_is_escaped_comes_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert unescaped(escaped_property(text), property_too=True) == text
    assert not set(escaped_property(text)) & set("\r\n:,")
    assert not set(escaped(text)) & set("\r\n")


def test_a_long_message_is_cut() -> None:
    (line,) = lines_of(over("test_x", 2, message="x" * 100_000))
    assert 1000 < len(line) < 3000
