"""Prose as lines of a terminal."""

from __future__ import annotations

import textwrap
from typing import Final

WIDTH: Final = 78
"""Columns of what stands below a test or a summary, where pytest may put something before it."""


def wrapped(text: str, indent: str = "", width: int = WIDTH, *, break_long_words: bool = False) -> list[str]:
    """Break prose into lines; the first keeps the margin of the text, the others have `indent`.

    Args:
        text: What is to be read; a newline in it counts as a space.
        indent: Before every line but the first.
        width: In columns.
        break_long_words: False leaves a path or a command whole, however long, so that it can be copied.
    """
    content = text.lstrip()
    return textwrap.wrap(
        content, width, initial_indent=text[: len(text) - len(content)], subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=break_long_words,
    )  # fmt: skip
