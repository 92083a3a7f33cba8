"""The rows of the Markdown tables: one for each measurement, A/B comparison, and test that measured nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.states import Limit, State
from pytest_onnxperf.core.text import reason
from pytest_onnxperf.core.units import change, quantity

from .comparison import attention_text, remarks, speeds
from .markdown_text import code
from .summary import MAIN_METRICS, memcpy_text, state_text
from .text import breach_count, headline, rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_onnxperf.core.ab import AbRecord
    from pytest_onnxperf.core.comparison import Comparison, Figures
    from pytest_onnxperf.core.outcome import Outcome, ReportedTest

MEASURED_HEAD: Final = ("test", "state", "what", "now", "baseline", "change [interval]", "memcpy a run", "attention")
COMPARED_HEAD: Final = ("A/B comparison", "state", "candidate [99 % interval]", "required", "outputs", "what")
_FAILED, _JUDGED = 3, 4
"""Ranks behind those of `text.rank`: a test that failed by something else, and all that did not fail."""
_UNSEEN: Final = State.CANNOT_TELL.severity


@dataclass(frozen=True, slots=True)
class Row:
    """One row, which sorts worst first."""

    rank: tuple[float, ...]
    name: str
    cells: tuple[str, ...]


def measured_rows(test: ReportedTest) -> list[Row]:
    """Return a row for each measurement of a test, or one that says that there was none."""
    found = test.found
    if not found.outcomes and not found.comparisons:
        return [_unmeasured(test)]
    return [_measured(test, outcome) for outcome in found.outcomes]


def _unmeasured(test: ReportedTest) -> Row:
    rank = (_FAILED, 0.0) if test.has_failed else (_JUDGED, _UNSEEN)
    state = f"**{test.ended}**" if test.has_failed else f"{test.ended}, **nothing measured**"
    return Row(rank, test.found.nodeid, (code(test.found.nodeid), state, code(reason(test.message)), *["-"] * 5))


def _measured(test: ReportedTest, outcome: Outcome) -> Row:
    record = outcome.record
    name = f"{record.key.module}::{record.key.entry}"
    shown = [key for key in MAIN_METRICS if key in record.metrics]
    compared = {each.name: each for each in outcome.verdict.comparisons}
    figures = {key: compared[key].figures if key in compared else None for key in shown}
    now = (f"{METRIC[key].label} {_now(key, figures[key], outcome)}" for key in shown)
    before = (_before(figures[key]) for key in shown)
    changes = (_change(key, figures[key], outcome) for key in shown)
    attention = "?" if record.facts is None else attention_text(record.facts)
    cells = (
        code(name), _state(test, state_text(outcome), is_own=outcome.verdict.fails), code(_what(outcome)),
        _lines(now), _lines(before), _lines(changes), memcpy_text(record), attention,
    )  # fmt: skip
    return Row(_rank(test, outcome), name, cells)


def _rank(test: ReportedTest, outcome: Outcome) -> tuple[float, ...]:
    verdict = outcome.verdict
    if verdict.fails and test.has_failed:
        return rank(outcome)
    if test.has_failed:
        return _FAILED, 0.0
    severity = min((each.state.severity for each in verdict.comparisons), default=State.OK.severity)
    return _JUDGED, min(severity, _UNSEEN) if verdict.cannot_tell else severity


def _state(test: ReportedTest, state: str, *, is_own: bool) -> str:
    """Return the state, and how the test ended where the state does not say it."""
    if test.has_failed:
        return f"**{state}**" if is_own else f"{state}, **test {test.ended}**"
    return state if test.ended == "passed" else f"{state}, test {test.ended}"


def _what(outcome: Outcome) -> str:
    """Return the worst of a measurement; empty where all is well."""
    verdict = outcome.verdict
    if verdict.broken or verdict.worse or verdict.cannot_tell:
        others = breach_count(outcome) - 1
        return headline(outcome) + (f" (and {others} more)" if others else "")
    worst: Comparison | None = next(iter(verdict.comparisons), None)
    return "" if worst is None or worst.state in (State.OK, State.NO_BASELINE) else f"{worst.state}: {worst.text}"


def _now(key: str, figures: Figures | None, outcome: Outcome) -> str:
    """Return the value that is compared: against another version that of the rounds in turn."""
    if outcome.against is not None and figures is not None:
        return quantity(figures.new, figures.unit)
    return METRIC[key].shown(outcome.record.metrics[key])


def _before(figures: Figures | None) -> str:
    return "-" if figures is None else quantity(figures.old, figures.unit)


def _change(key: str, figures: Figures | None, outcome: Outcome) -> str:
    """Return a change with its interval; what was judged as times of tokens, as the throughput that it stands for."""
    if figures is None or figures.ratio is None:
        return "-"
    ratios = [figures.ratio, figures.low_ratio, figures.high_ratio]
    is_of_times = bool(figures.beside) or outcome.against is not None
    if METRIC[key].better == "more" and is_of_times:
        ratios = [1 / ratio if ratio else None for ratio in (figures.ratio, figures.high_ratio, figures.low_ratio)]
    shown = ["?" if ratio is None else change(ratio) for ratio in ratios]
    return shown[0] if figures.low_ratio is None else f"{shown[0]} [{shown[1]} to {shown[2]}]"


def compared_rows(test: ReportedTest) -> list[Row]:
    """Return a row for each A/B comparison of a test."""
    return [_compared(test, record) for record in test.found.comparisons]


def _compared(test: ReportedTest, record: AbRecord) -> Row:
    name = f"{record.key.module}::{record.key.entry}"
    fails = test.has_failed and any(each.state is not Limit.HELD for each in record.requirements)
    required = (f"{each.text}: {each.state}" for each in record.requirements)
    cells = (
        code(name), _state(test, record.state or "compared", is_own=fails), _lines(speeds(record)),
        _lines(map(code, required)), record.outputs.state, _lines(map(code, remarks(record))),
    )  # fmt: skip
    severity = _JUDGED + (record.state in ("", str(Limit.HELD)))
    return Row((0.0 if fails else _FAILED if test.has_failed else severity, 0.0), name, cells)


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts) or "-"
