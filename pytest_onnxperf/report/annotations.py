"""Breaches as GitHub shows them at the lines of a pull request: workflow commands, one for each test, worst first.

Source: actions/toolkit, packages/core/src/command.ts (`escapeData`, `escapeProperty`), and docs/problem-matchers.md:
10 annotations of a kind for each step are shown, by the order in which they were printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.text import printable

from .markdown_rows import compared_rows, measured_rows
from .markdown_text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_onnxperf.core.outcome import ReportedTest

MOST_ERRORS: Final = 10
_MOST_CHARACTERS: Final = 2000


def annotation_lines(tests: Sequence[ReportedTest], path_of: Callable[[ReportedTest], str]) -> list[str]:
    """Return a command for each test that failed by its budget, its baseline or what it requires of an A/B.

    Args:
        tests: Those that measure.
        path_of: Returns the path of a test's file, from the root of the repository.
    """
    breaches = sorted((test for test in tests if test.ended == "failed" and test.found.is_breach), key=_worst)
    lines = [_error(test, path_of(test)) for test in breaches[:MOST_ERRORS]]
    left = len(breaches) - MOST_ERRORS
    if left > 0:
        what = f"{left} more test{'s' if left != 1 else ''} failed by performance, none worse than those annotated"
        lines.append(f"::notice title=onnxperf::{escaped(what)}")
    return lines


def _worst(test: ReportedTest) -> tuple[tuple[float, ...], str]:
    return min((row.rank, row.name) for row in [*measured_rows(test), *compared_rows(test)])


def _error(test: ReportedTest, path: str) -> str:
    """The head of a failure, and of a measurement its breaches: what stands before the op table and the advice."""
    paragraphs = test.message.strip().split("\n\n")[: 2 if test.found.outcomes else 1]
    message = "\n".join(map(printable, "\n".join(paragraphs).splitlines()))
    name = test.found.nodeid.partition("::")[2] or test.found.nodeid
    title = escaped_property(f"onnxperf: {printable(cut(name, 200))}")
    return (
        f"::error file={escaped_property(path)},line={test.line},title={title}::"
        f"{escaped(cut(message, _MOST_CHARACTERS))}"
    )


def escaped(text: str) -> str:
    r"""Return a text as the message of a workflow command.

    >>> escaped("50 %\na: b, c")
    '50 %25%0Aa: b, c'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escaped_property(text: str) -> str:
    """Return a text as a property of a workflow command.

    >>> escaped_property("test_a[x,y]: 1")
    'test_a[x%2Cy]%3A 1'
    """
    return escaped(text).replace(":", "%3A").replace(",", "%2C")
