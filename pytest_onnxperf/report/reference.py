"""Reference tables, as text for a terminal and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Table:
    """One table. Its first column names something, its last says what that is."""

    title: str
    intro: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: tuple[int, ...] = (0,)
    """The columns whose cells are names that people type or read, and that Markdown shows as code."""


def text_lines(tables: Sequence[Table]) -> Iterator[str]:
    """Yield tables for a terminal: for each row its name, what else is known of it, and below what it is."""
    for number, table in enumerate(tables):
        yield from ["", table.title] if number else [table.title]
        yield from wrapped(table.intro)
        for name, *others, meaning in table.rows:
            yield ""
            known = ", ".join(f"{head} {cell}" for head, cell in zip(table.head[1:-1], others, strict=True) if cell)
            yield from wrapped(f"  {name}   ({known})" if known else f"  {name}", "      ")
            yield from wrapped(f"      {meaning}", "      ")


def markdown_lines(tables: Sequence[Table]) -> Iterator[str]:
    """Yield tables as Markdown, each under a heading."""
    for number, table in enumerate(tables):
        yield from ["", f"### {table.title}"] if number else [f"### {table.title}"]
        yield from ["", table.intro, ""]
        yield from table_lines(table)


def table_lines(table: Table) -> Iterator[str]:
    """Yield a table as Markdown, without its heading."""
    yield _row(table.head)
    yield _row(["---"] * len(table.head))
    for row in table.rows:
        yield _row([f"`{cell}`" if cell and place in table.names else cell for place, cell in enumerate(row)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
