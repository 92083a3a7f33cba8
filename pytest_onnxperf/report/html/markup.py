"""HTML by construction: what is no `Markup` is escaped, so that no name out of a model or a test becomes an element."""

from __future__ import annotations

import functools
from html import escape
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pytest_onnxperf.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Cell = TypeVar("_Cell")
_VOID: Final = frozenset({"br", "hr", "input", "link", "meta"})
_IN_SCRIPT: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Written as JSON's own escapes, so that a browser finds no end of a script, and no comment, in the data."""


SHOWN_ROWS: Final = 12
"""Rows of a long table before the rest is folded; a choice: what a screen shows."""


class Markup(str):
    """Text that is HTML already. Whatever is made of it by `str` methods or an f-string is not."""

    __slots__ = ()


def text(value: str) -> Markup:
    r"""Escape a text; control characters and marks that turn the direction of writing are written out.

    >>> text("<b>\u202e\n")
    '&lt;b&gt;\\u202e\n'
    """
    shown = value if value.isprintable() else "\n".join(printable(line) for line in value.split("\n"))
    return Markup(escape(shown))


def joined(parts: Iterable[str | None]) -> Markup:
    """Put parts behind one another; those that are no `Markup` are escaped, None is left out."""
    return Markup("".join([part if isinstance(part, Markup) else text(part) for part in parts if part is not None]))


def element(tag: str, *content: str | None, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        tag: Its name.
        content: Escaped, unless it is `Markup`; None is left out.
        attributes: A trailing `_` is cut off and `_` is `-`; True is an attribute without value, None and False none.

    >>> element("a", "1 < 2", href="#x", class_="y", data_z=1, hidden=True, title=None)
    '<a href="#x" class="y" data-z="1" hidden>1 &lt; 2</a>'
    """
    head = "".join([_attribute(name, value) for name, value in attributes.items()]) if attributes else ""
    if tag in _VOID:
        return Markup(f"<{tag}{head}>")
    return Markup(f"<{tag}{head}>{joined(content)}</{tag}>")


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = _attribute_name(name)
    return f" {written}" if value is True else f' {written}="{text(str(value))}"'


@functools.cache
def _attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def island(data: object) -> Markup:
    """Return data for the script of the page, as JSON that cannot end its element."""
    written = msgspec.json.encode(data).decode()
    for char, escaped in _IN_SCRIPT.items():
        written = written.replace(char, escaped)
    return Markup(f'<script type="application/json">{written}</script>')


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str | None]], class_: str = "") -> Markup:
    """Return a table that scrolls in its own box; the first cell of a row is its head.

    Args:
        caption: Its name; shown.
        head: Names of the columns; `>` at the end of one sets its cells to the right, as numbers are.
        rows: A cell for each column; None is an empty one.
        class_: Of the table.
    """
    kinds = ["n" if name.endswith(">") else None for name in head]
    names = [
        element("th", name.removesuffix(">"), scope="col", class_=kind) for name, kind in zip(head, kinds, strict=True)
    ]
    body = []
    for row in rows:
        first, *others = row
        cells = [element("td", cell, class_=kind) for cell, kind in zip(others, kinds[1:], strict=True)]
        body.append(element("tr", element("th", first, scope="row"), *cells))
    inner = [element("caption", caption), element("thead", element("tr", *names)), element("tbody", *body)]
    return element("div", element("table", *inner, class_=class_ or None), class_="scroll")


def compact(caption: str, head: Sequence[str], rows: Sequence[Sequence[str | None]], class_: str = "") -> Markup:
    """Return a table without the columns that are empty in every row."""
    used = [column == 0 or any(row[column] for row in rows) for column in range(len(head))]
    return table(caption, _only(head, used), [_only(row, used) for row in rows], class_)


def long_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str | None]], what: str) -> Markup:
    """Return a table without empty columns, of whose rows those beyond `SHOWN_ROWS` are folded; `what` names them."""
    if len(rows) <= SHOWN_ROWS + 1:
        return compact(caption, head, rows)
    rest = compact(f"{caption}, continued", head, rows[SHOWN_ROWS:])
    return joined([
        compact(caption, head, rows[:SHOWN_ROWS]), folded(f"{len(rows) - SHOWN_ROWS} more {what}", rest),
    ])  # fmt: skip


def _only(values: Sequence[_Cell], used: Sequence[bool]) -> list[_Cell]:
    return [value for value, is_used in zip(values, used, strict=True) if is_used]


def folded(summary: str, *content: str | None, is_open: bool = False) -> Markup:
    """Return content that opens under its summary."""
    return element("details", element("summary", summary), *content, open=is_open, class_="fold")


def bar(share_ratio: float) -> Markup:
    """Return a bar as long as a share; of presentation attributes, which need no style."""
    width = f"{min(max(share_ratio, 0.0), 1.0):.1%}"
    return Markup(f'<svg class="bar" aria-hidden="true"><rect width="{width}" height="100%"/></svg>')
