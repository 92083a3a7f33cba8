"""`onnxperf reference`: options, ini and marker keys, metrics, states and terms, from the tables that the code uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .core.budget_keys import KEYS
from .core.metrics import METRIC, METRICS
from .core.notes import NOTES
from .core.states import Limit, State
from .core.terms import TERMS
from .declare import BUDGET, MEASURE, OPTIONS, Option
from .report.reference import Table, markdown_lines, text_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def lines(topic: str | None, *, as_markdown: bool) -> Iterator[str]:
    """Return the lines of one topic, or of all.

    Args:
        topic: One of `TOPICS`; None for all.
        as_markdown: True for tables, False for a terminal.
    """
    tables = [table() for name, table in TOPICS.items() if topic in (None, name)]
    return markdown_lines(tables) if as_markdown else text_lines(tables)


def option_table() -> Table:
    """Return every option with its ini key."""
    rows = tuple(
        (option.flag, option.ini if option.in_ini else "", _default(option), "yes" if option.in_marker else "",
         option.help + (f" ({', '.join(option.choices)})" if option.choices else ""))
        for option in OPTIONS
    )  # fmt: skip
    intro = (
        f"Of `pytest`, and keys of its configuration file. Those with `marker` go into `@pytest.mark.{MEASURE}(...)`, "
        f"without the prefix, for one test. Precedence: marker, command line, ini, default."
    )
    return Table("Options", intro, ("option", "ini", "default", "marker", "what"), rows, (0, 1))


def _default(option: Option) -> str:
    if option.kind == "flag":
        return "off"
    return str(option.default) or {"device": "found"}.get(option.name, "none")


def budget_table() -> Table:
    """Return every key of the budget marker."""
    rows = tuple(
        (key.name, METRIC[key.judges].label if key.judges in METRIC else key.judges, key.unit, key.help) for key in KEYS
    )
    intro = (
        f"Keys of `@pytest.mark.{BUDGET}(...)`. Markers on a parameter, function, class and module combine; the "
        f"nearest wins per key."
    )
    return Table("Budgets", intro, ("key", "judges", "unit", "what"), rows)


def metric_table() -> Table:
    """Return every metric."""
    rows = tuple(
        (metric.label, metric.stored_name, metric.unit, metric.better, _gate(metric.gated, metric.slack, metric.unit),
         metric.source, metric.help)
        for metric in METRICS
    )  # fmt: skip
    intro = (
        "Quantities with noise. All are shown, and budgets can limit those that a key judges; a baseline gates those "
        "that say so, where the change is larger than the tolerance and than the slack. Tails are never gated: they "
        "raise false alarms."
    )
    head = ("metric", "stored as", "unit", "better", "gated", "from", "what")
    return Table("Metrics", intro, head, rows, (1,))


def _gate(is_gated: bool, slack: float, unit: str) -> str:
    if not is_gated:
        return "no"
    return f"yes, slack {slack:g} {unit}" if slack else "yes"


def state_table() -> Table:
    """Return every state of a comparison with a baseline or a reference."""
    rows = tuple((str(state), state.meaning) for state in State)
    intro = (
        "How a fact or a metric compares with its baseline, or with the reference of `--onnxperf-against`. Only "
        "`regressed` fails, unless `onnxperf_strict = true`: then whatever is not `ok`."
    )
    return Table("States", intro, ("state", "meaning"), rows)


def limit_table() -> Table:
    """Return every state of a budget."""
    rows = tuple((str(limit), limit.meaning) for limit in Limit)
    intro = "How a budget came out, or what `require(...)` demands of an A/B comparison."
    return Table("States of a budget", intro, ("state", "meaning"), rows)


def term_table() -> Table:
    """Return every term."""
    return Table("Terms", "Words of reports and options.", ("term", "meaning"), tuple(map(tuple, TERMS)), ())


def note_table() -> Table:
    """Return what explains how all of it works."""
    return Table("Notes", "How it is measured and judged.", ("on", "note"), tuple(map(tuple, NOTES)), ())


TOPICS: Final[dict[str, Callable[[], Table]]] = {
    "options": option_table,
    "budgets": budget_table,
    "metrics": metric_table,
    "states": state_table,
    "limits": limit_table,
    "terms": term_table,
    "notes": note_table,
}
