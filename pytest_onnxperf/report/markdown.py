"""A session as one page of Markdown: tables with the worst first, what to do about them, and what was not judged.

It is for a job summary and for a comment on a pull request, which have no colours to rely on: states are words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.outcome import ReportedTest
from pytest_onnxperf.core.states import Limit, State
from pytest_onnxperf.core.units import listed

from .comparison import comparison_counts
from .markdown_rows import COMPARED_HEAD, MEASURED_HEAD, Row, compared_rows, measured_rows
from .markdown_text import code, code_element, cut, details, fenced, table
from .summary import counts_text, not_compared

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_ROWS: Final = 200
_MOST_COMPARED_ROWS: Final = 50
"""Of A/B comparisons, where measurements would fill the rest."""
_MOST_DETAILS: Final = 5
_MOST_UNCOLLECTED: Final = 5
_MOST_DETAIL_CHARACTERS: Final = 6000
_MOST_LINES: Final = 60
"""Of what was recorded, and of the environment; a choice, like all of these but the rows."""
_JUDGED: Final = frozenset({State.OK, State.IMPROVED, State.REGRESSED})


@dataclass(frozen=True, slots=True)
class Session:
    """What a page is made of."""

    tests: Sequence[ReportedTest]
    """Those that measure."""
    tests_run: int
    """Of all kinds."""
    recorded: Sequence[str] | None = None
    """What an update says, as `recorded_lines` writes it; None where nothing is updated."""
    stopped: str = ""
    """Why it did not come to its end, `it was interrupted`; empty where it did."""
    uncollected: Sequence[str] = ()
    """Modules whose tests could not be collected."""
    is_running: bool = False
    """True for a page that the one of its end replaces."""


def page(session: Session, most_bytes: int) -> str:
    """Return the page, with as many rows as fit; empty where not even its head does.

    Args:
        session: What it is about.
        most_bytes: Of the page in UTF-8.
    """
    measured = sorted((row for test in session.tests for row in measured_rows(test)), key=_order)
    compared = sorted((row for test in session.tests for row in compared_rows(test)), key=_order)
    head, tail = "\n\n".join(_head(session)), [*_recorded(session), *_details(session), *_environment(session)]
    sizes = [(MOST_ROWS, tail), (MOST_ROWS, tail[:1])] + [(MOST_ROWS >> shift, []) for shift in range(9)]
    for most_rows, blocks in sizes:
        text = "\n\n".join([head, *_tables(session, measured, compared, most_rows), *blocks]) + "\n"
        if len(text.encode()) <= most_bytes:
            return text
    return ""


def _order(row: Row) -> tuple[tuple[float, ...], str]:
    return row.rank, row.name


def _head(session: Session) -> Iterator[str]:
    yield f"### onnxperf: {_title(session)}"
    if session.stopped:
        yield f"**The session did not come to its end: {session.stopped}.** Tests may be missing here."
        if not session.tests:
            return
    if session.uncollected:
        names = listed([code(name) for name in session.uncollected], _MOST_UNCOLLECTED)
        count = _count(len(session.uncollected), "module")
        yield f"**{count} could not be collected**, whose tests are missing: {names}."
    outcomes = [outcome for test in session.tests for outcome in test.found.outcomes]
    compared = [record for test in session.tests for record in test.found.comparisons]
    empty = sum(not (test.found.outcomes or test.found.comparisons) for test in session.tests)
    if not outcomes and not compared:
        yield f"**Nothing was measured.** {_why_nothing(session)}"
        return
    if empty:
        why = "skipped, failed or interrupted before, or asked for nothing"
        yield f"**{_count(empty, 'test')} measured nothing**: {why}."
    lone = sum(all(each.state not in _JUDGED for each in outcome.verdict.comparisons) for outcome in outcomes)
    if lone and session.recorded is None:
        hint = "" if _is_against(session) else ": `pytest --onnxperf-update` records what is missing"
        yield f"**{lone} of {_count(len(outcomes), 'measurement')} compared with nothing**{hint}."
    counts = [counts_text(outcomes)] if outcomes else []
    yield "; ".join([*counts, *([comparison_counts(compared)] if compared else [])])


def _title(session: Session) -> str:
    if session.is_running:
        return "nothing is known yet"
    tests, measured = session.tests, [t for t in session.tests if t.found.outcomes or t.found.comparisons]
    failed = [test for test in tests if test.has_failed]
    breaches = sum(test.is_by_performance for test in failed)
    if breaches:
        others = f", {len(failed) - breaches} otherwise" if len(failed) > breaches else ""
        return f"{breaches} of {_count(len(tests), 'test')} failed by performance{others}"
    if failed:
        return f"{len(failed)} of {_count(len(tests), 'test')} failed, none by performance"
    if not measured:
        return "nothing was measured"
    if session.uncollected or len(measured) < len(tests) or not all(map(_is_judged, measured)):
        return f"{_count(len(tests), 'test')}, none failed, not all was judged"
    return f"{_count(len(tests), 'test')} within budget and baseline"


def _is_judged(test: ReportedTest) -> bool:
    """Whether nothing of a test is left open."""
    verdicts = [outcome.verdict for outcome in test.found.outcomes]
    limits = [limit.state for verdict in verdicts for limit in verdict.limits]
    states = [comparison.state for verdict in verdicts for comparison in verdict.comparisons]
    words = [record.state for record in test.found.comparisons]
    return (
        all(state is Limit.HELD for state in limits)
        and all(state in (State.OK, State.IMPROVED) for state in states)
        and all(word == str(Limit.HELD) for word in words)
    )


def _why_nothing(session: Session) -> str:
    if session.tests:
        return "What was to be measured was skipped, failed or was interrupted before."
    if session.tests_run:
        return f"No test that measures is among the {session.tests_run} that ran."
    return "No test ran."


def _tables(session: Session, measured: Sequence[Row], compared: Sequence[Row], most_rows: int) -> Iterator[str]:
    room = min(len(compared), max(most_rows - len(measured), min(_MOST_COMPARED_ROWS, most_rows)))
    outcomes = [outcome for test in session.tests for outcome in test.found.outcomes]
    head = ["reference" if _is_against(session) and name == "baseline" else name for name in MEASURED_HEAD]
    yield from _table(head, measured, most_rows - room)
    yield from _table(COMPARED_HEAD, compared, room)
    if any(each.figures and each.figures.beside for outcome in outcomes for each in outcome.verdict.comparisons):
        yield (
            "A change of a time is that of its ratio to a reference workload, which takes the machine's own speed out: "
            "it need not be now / baseline."
        )


def _is_against(session: Session) -> bool:
    return any(outcome.against is not None for test in session.tests for outcome in test.found.outcomes)


def _table(head: Sequence[str], rows: Sequence[Row], most: int) -> Iterator[str]:
    if rows and most:
        yield table(head, [row.cells for row in rows[:most]])
    left = len(rows) - most
    if left > 0:
        what = "none is worse than the last one here" if most else "there is no room for them"
        yield f"**{_count(left, 'row')} left out**: {what}."


def _recorded(session: Session) -> Iterator[str]:
    if session.recorded:
        yield "**Recorded**\n\n" + fenced(_first(session.recorded))


def _details(session: Session) -> Iterator[str]:
    """Yield what pytest says of the worst tests that failed, with what to do."""
    failed = [test for test in session.tests if test.has_failed and test.message]
    for test in sorted(failed, key=_worst)[:_MOST_DETAILS]:
        text = cut(test.message, _MOST_DETAIL_CHARACTERS)
        yield details(code_element(test.found.nodeid), fenced(text.splitlines()))
    if len(failed) > _MOST_DETAILS:
        yield f"What pytest says of {_count(len(failed) - _MOST_DETAILS, 'more test')} that failed is left out here."


def _worst(test: ReportedTest) -> tuple[tuple[float, ...], str]:
    return min(map(_order, [*measured_rows(test), *compared_rows(test)]))


def _environment(session: Session) -> Iterator[str]:
    outcomes = [outcome for test in session.tests for outcome in test.found.outcomes]
    records = [outcome.record for outcome in outcomes]
    records += [record.reference for test in session.tests for record in test.found.comparisons]
    lines: dict[str, None] = {}
    for environment in (record.environment for record in records):
        lines[f"{environment.execution_provider} on {environment.device}"] = None
        lines["  " + ", ".join(f"{name} {version}" for name, version in environment.versions.items())] = None
    notes = [] if session.recorded is not None else list(not_compared(outcomes))
    if records:
        yield details("Environment and remarks", fenced(_first([*lines, *notes])))


def _first(lines: Sequence[str]) -> list[str]:
    shown = [cut(line, _MOST_DETAIL_CHARACTERS) for line in lines[:_MOST_LINES]]
    return shown + ([f"... and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else [])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
