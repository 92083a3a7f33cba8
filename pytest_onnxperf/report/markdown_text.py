"""Text out of tests and models as Markdown: whatever it holds, it stays text, and what cannot be seen is written out.

Names go into code, where no renderer looks for markup, links or names of users. A code span keeps most of them readable
in the source; what ends a cell of a table, or begins HTML, is written as character references in an element instead.
Source: GitHub Flavored Markdown Spec 0.29, sections 4.10 (tables), 6.2 (references) and 6.3 (code spans).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_CHARACTERS: Final = 200
"""Of one name or phrase; a choice. A row of eight cells is then a few kB at worst."""
_NOT_IN_A_SPAN: Final = re.compile(r"[|\\<&]|^\s|\s$")
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")


def code(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Return a text of one line as code, cut in its middle where it is longer than `most` characters; empty stays so.

    >>> code("test_a[x]"), code("a|b"), code("a\nb"), code("a `b`")
    ('`test_a[x]`', '<code>a&#124;b</code>', '<code>a&#92;nb</code>', '`` a `b` ``')
    """
    shown = printable(cut(text, most))
    if not shown:
        return ""
    if _NOT_IN_A_SPAN.search(shown):
        return code_element(text, most)
    fence = "`" * (_longest_run(shown) + 1)
    margin = " " if "`" in shown else ""  # one on either side is no part of a span
    return f"{fence}{margin}{shown}{margin}{fence}"


def code_element(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text as `code` does, for a line of HTML, which holds no Markdown.

    >>> code_element("a`b`")
    '<code>a&#96;b&#96;</code>'
    """
    shown = printable(cut(text, most))
    return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', shown)}</code>"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


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
    fence = "`" * max(3, 1 + max(map(_longest_run, shown), default=0))
    return "\n".join([f"{fence}text", *shown, fence])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def details(summary: str, block: str) -> str:
    """Return what is folded until a reader opens it; the summary is HTML."""
    return f"<details><summary>{summary}</summary>\n\n{block}\n\n</details>"
