"""Text out of tests and models as Markdown: whatever it holds, it stays text, and what cannot be seen is written out.

Names go into code, where no renderer looks for markup, links or names of users. A code span keeps most of them readable
in the source; what ends a span or a cell of a table, or begins HTML, is written as character references in an element
instead. Source: GitHub Flavored Markdown Spec 0.29, sections 4.10 (tables), 6.2 (references) and 6.3 (code spans).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_CHARACTERS: Final = 200
"""Of one name or phrase; a choice. A row of eight cells is then a few kB at worst."""
_NOT_IN_A_SPAN: Final = re.compile(r"[`|\\<>&]|^\s|\s$")
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")


def code(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Return a text of one line as code, cut in its middle where it is longer than `most` characters; empty stays so.

    >>> code("test_a[x]"), code("a|b"), code("a\nb")
    ('`test_a[x]`', '<code>a&#124;b</code>', '<code>a&#92;nb</code>')
    """
    shown = printable(cut(text, most))
    if not shown:
        return ""
    if not _NOT_IN_A_SPAN.search(shown):
        return f"`{shown}`"
    return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', shown)}</code>"


def cut(text: str, most: int) -> str:
    """Cut a long text in its middle: the end of a name holds its parameters and label.

    >>> cut("abcdefghij", 7)
    'ab...ij'
    """
    if len(text) <= most:
        return text
    side = (most - 3) // 2
    return f"{text[:side]}...{text[-side:]}"


def fenced(lines: Iterable[str]) -> str:
    """Return lines as a block of code, whose fence is longer than any in it."""
    shown = [printable(line.expandtabs()) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def details(summary: str, block: str) -> str:
    """Return what is folded until a reader opens it; the summary is what `code` returned, or plain words."""
    return f"<details><summary>{_as_html(summary)}</summary>\n\n{block}\n\n</details>"


def _as_html(summary: str) -> str:
    """A line of HTML holds no Markdown: a code span is written as an element there."""
    return re.sub(r"^`(.*)`$", r"<code>\1</code>", summary)
