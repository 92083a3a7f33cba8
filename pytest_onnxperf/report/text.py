"""The text of a failure, its tables, and the numbers for JUnit: what a person reads of one test."""

from __future__ import annotations

import shlex
from statistics import median
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.advice import advice_on
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.states import Limit, State
from pytest_onnxperf.core.units import significant

from .against import failure_lines
from .explanation import explanation_lines, op_change_lines
from .profile import op_table_lines
from .wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.judge import Verdict
    from pytest_onnxperf.core.outcome import Outcome
    from pytest_onnxperf.core.record import Record

_TOP_ROWS: Final = 5
_UNTOLD: Final = (State.NOISY, State.DISTURBED, State.CANNOT_TELL, State.UNSTABLE)
"""They fail under --onnxperf-strict, and are no change that could be intended."""


def nothing_measured(*, has_benchmark: bool, has_compared: bool) -> str:
    """Return the text for a test with a budget that measured nothing: what counts, beside what it did."""
    if has_compared:
        return (
            "a budget was declared and nothing was measured, so it was not judged: a\n"
            "comparison has none.\n\n"
            "Write onnx_compare(...).require(max_slowdown=...), measure one of the models\n"
            "in a test of its own, or take @pytest.mark.onnx_budget away."
        )
    text = (
        "a budget was declared and nothing was measured, so it was not judged.\n\n"
        "Ask for the fixture onnx_session and call onnx_session(MODEL).measure(...) in\n"
        "the test, or take @pytest.mark.onnx_budget away."
    )
    if not has_benchmark:
        return text
    return f"{text}\n" + (
        "Of pytest-benchmark benchmark(session.run, feeds) counts, and pedantic without\n"
        "setup and teardown: a function of the test's own is more than the session."
    )


def failure(nodeid: str, outcomes: Sequence[Outcome]) -> str:
    """Return the text of a test that its budget or baseline fails: every breach with both numbers, worst first."""
    failing = sorted((outcome for outcome in outcomes if outcome.verdict.fails), key=rank)
    if not failing:
        return ""
    others = sum(breach_count(outcome) for outcome in failing) - 1
    more = f" (and {others} more)" if others else ""
    texts = ["\n".join(_failure(nodeid, outcome)) for outcome in failing]
    return f"{headline(failing[0])}{more}\n" + "\n\n".join(texts)


def skip_reason(outcomes: Sequence[Outcome]) -> str:
    """Return the one line for a test that is skipped because a budget could not be judged."""
    return "; ".join(headline(outcome) for outcome in outcomes if outcome.verdict.skips)


def rank(outcome: Outcome) -> tuple[int, float]:
    """Rank a failing measurement for sorting, worst first, as the rows in it are."""
    verdict = outcome.verdict
    if verdict.broken:
        return 0, -verdict.broken[0].excess
    return (1, -verdict.worse[0].badness) if verdict.worse else (2, 0.0)


def _failure(nodeid: str, outcome: Outcome) -> Iterator[str]:
    record, verdict = outcome.record, outcome.verdict
    label = f" ({record.key.label})" if record.key.label else ""
    yield from wrapped(f"{record.model}{label}", "  ")
    yield from wrapped(f"on {record.environment.execution_provider}, {record.environment.device}", "  ")
    yield ""
    yield from _breaches(verdict)
    yield ""
    yield from _evidence(record)
    if outcome.explanation is not None:
        with_attention = "attention" in verdict.failed_names
        lines = list(explanation_lines(outcome.explanation, with_attention=with_attention, with_roofline=False))
        yield from [*lines, ""] if lines else []
    if outcome.against is not None:
        yield from failure_lines(outcome, outcome.against)
        yield from (line.replace("the baseline", "the reference") for line in op_change_lines(verdict.op_changes))
        yield ""
    elif verdict.worse:
        yield f"Baseline of {verdict.baseline_date}, in" if verdict.baseline_date else "There is no baseline in"
        yield f"    {verdict.other_environment or verdict.baseline_path}"
        if since := (*verdict.version_changes, *verdict.option_changes):
            yield from wrapped(f"Since then: {', '.join(since)}")
        if verdict.detectable:
            yield from wrapped(f"It can see slowdowns of {', '.join(verdict.detectable)} and more.", "  ")
        yield from op_change_lines(verdict.op_changes)
        yield ""
    yield "What to do"
    for advice in _advice(outcome):
        yield from wrapped(f"- {advice}", "  ")
    yield from _if_intended(nodeid, outcome)
    if outcome.kept:
        is_profile = outcome.kept.endswith(".json")
        yield "- Look closer:" if is_profile else "- Logs of its processes:"
        yield f"    onnxperf profile {shlex.quote(outcome.kept)}" if is_profile else f"    {outcome.kept}"


def _if_intended(nodeid: str, outcome: Outcome) -> Iterator[str]:
    """Yield how to take what got worse, where it is known to have."""
    worse = outcome.verdict.worse
    if all(each.state in _UNTOLD for each in worse):
        return
    if outcome.against is None:
        first = "change the budget, which an update keeps to, and " if outcome.verdict.broken else ""
        yield from wrapped(f"- If this is intended, {first}record it:", "  ")
        yield f"    pytest --onnxperf-update {shlex.quote(nodeid)}"
    elif any(each.name in METRIC for each in worse):  # of facts nothing allows more
        allow = "`@pytest.mark.onnx_budget(max_regression=...)` allows more of a metric"
        yield from wrapped(f"- If this is intended, {allow}; a reference stores nothing", "  ")


def _breaches(verdict: Verdict) -> Iterator[str]:
    for limit in verdict.limits:
        if limit.state is Limit.BROKEN:
            yield from _row("over budget", f"{limit.key}: {limit.actual}, budget {limit.limit}", limit.why)
        if limit.state is Limit.CANNOT_TELL:
            yield from _row("cannot tell", f"{limit.key}: budget {limit.limit}", limit.why)
    # While baselines are updated a regression does not fail, and is still worth a line.
    for comparison in verdict.comparisons:
        if comparison in verdict.worse or comparison.state is State.REGRESSED:
            detail = "; ".join(part for part in (comparison.detail, comparison.since_anchor) if part)
            yield from _row(str(comparison.state), comparison.text, detail)


def breach_count(outcome: Outcome) -> int:
    """Count what is over budget, worse or cannot be told."""
    verdict = outcome.verdict
    return len(verdict.broken) + len(verdict.worse) + len(verdict.cannot_tell)


def headline(outcome: Outcome) -> str:
    """Return the worst of what failed, for the one line that pytest's short summary shows."""
    verdict = outcome.verdict
    if verdict.broken:
        worst = verdict.broken[0]
        return f"{worst.key}: {worst.actual}, budget {worst.limit}"
    if verdict.worse:
        return f"{verdict.worse[0].state}: {verdict.worse[0].text}"
    return f"{verdict.cannot_tell[0].key}: cannot tell, {verdict.cannot_tell[0].why.splitlines()[0]}"


def _row(state: str, what: str, detail: str) -> Iterator[str]:
    indent = " " * 15
    yield from wrapped(f"  {state:<11}  {what}", indent)
    if detail:
        yield from wrapped(indent + detail, indent)


def _evidence(record: Record) -> Iterator[str]:
    """Return the rows of the op table that cost most."""
    facts = record.facts
    if facts is None:
        return
    if facts.op_table:
        yield from op_table_lines(facts.op_table, top=_TOP_ROWS, with_advice=False)
        yield ""


def _advice(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    found = [advice.text for advice in advice_on(outcome)]
    if verdict.cannot_tell:
        found.append("A budget that cannot be judged fails its test (onnxperf_unverifiable = fail, skip or pass).")
    return found


def tables(outcomes: Sequence[Outcome]) -> str:
    """Return the whole op table of each measurement."""
    blocks = []
    for outcome in outcomes:
        if outcome.record.facts is not None:
            rows = op_table_lines(outcome.record.facts.op_table, top=None)
            blocks.append("\n".join([f"{outcome.record.model} {outcome.record.key.label}".rstrip(), *rows]))
    return "\n\n".join(blocks)


def properties(outcomes: Sequence[Outcome]) -> list[tuple[str, object]]:
    """Return JUnit properties of a test: plain int, float and str, since anything else breaks pytest-xdist."""
    result: list[tuple[str, object]] = []
    for outcome in outcomes:
        record = outcome.record
        prefix = f"onnxperf.{record.key.label}." if record.key.label else "onnxperf."
        result.append((f"{prefix}state", outcome.verdict.state))
        result.append((f"{prefix}execution_provider", record.environment.execution_provider))
        for turns in outcome.against.timed if outcome.against is not None else ():
            result.append((f"{prefix}against_{turns.name}_ratio", significant(turns.verdict.ratio)))
        for name, values in record.metrics.items():
            metric = METRIC[name]
            result.append((f"{prefix}{metric.stored_name}", significant(median(values) / metric.per_unit)))
        if record.facts is not None and not record.unavailable_facts:
            for name in ("memcpy", "cpu_nodes", "nodes"):
                result.append((f"{prefix}{name}", int(getattr(record.facts, name))))
    return result
