"""Text as lines and columns of a terminal, where a Chinese character takes two."""

from __future__ import annotations

from typing import Final

import wcwidth

WIDTH: Final = 78
"""Columns of what stands below a test or a summary, where pytest may put something before it."""

_DOTS: Final = "..."


def wrapped(text: str, indent: str = "", width: int = WIDTH, *, break_long_words: bool = False) -> list[str]:
    """Break prose into lines; the first keeps the margin of the text, the others have `indent`.

    Args:
        text: What is to be read; a newline in it counts as a space.
        indent: Before every line but the first.
        width: In columns.
        break_long_words: False leaves a path or a command whole, however long, so that it can be copied.
    """
    content = text.lstrip()
    return wcwidth.wrap(
        content, width, initial_indent=text[: len(text) - len(content)], subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=break_long_words, control_codes="ignore", propagate_sgr=False,
    )  # fmt: skip


def hanging(text: str, width: int = WIDTH) -> list[str]:
    """Break prose into lines, of which all but the first stand two columns further in than its own margin."""
    return wrapped(text, " " * (len(text) - len(text.lstrip()) + 2), width)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> columns("test_mlp"), columns("模型")
    (8, 4)
    """
    return wcwidth.width(text, control_codes="ignore")


def shortened(text: str, width: int, head: int = 0) -> str:
    """Cut what is longer than `width` columns after its first `head`, and keep its end.

    >>> shortened("test_decoder[f16-p500]", 14), shortened("test_decoder[f16-p500]", 14, head=6)
    ('...[f16-p500]', 'test_d...p500]')
    """
    taken = columns(text)
    if taken <= width:
        return text
    tail = width - head - len(_DOTS)
    return wcwidth.clip(text, 0, head).rstrip() + _DOTS + wcwidth.clip(text, taken - tail, taken)


def cell(text: str, width: int, head: int = 0) -> str:
    """Return a text in exactly `width` columns: cut as `shortened`, or filled on its right."""
    return wcwidth.ljust(shortened(text, width, head), width, control_codes="ignore")
