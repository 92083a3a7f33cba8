"""What a person reads of an A/B: its line in the summary, and the text of a requirement that does not hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.ab import CANDIDATE, REFERENCE
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.states import Limit
from pytest_onnxperf.core.units import significant

from .summary import name_cell
from .wrap import WIDTH, cell, columns, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.ab import AbRecord, Requirement
    from pytest_onnxperf.core.facts import Facts
    from pytest_onnxperf.core.record import Record

_LABEL_WIDTH: Final = 19
_COLUMN_WIDTH: Final = (WIDTH - 2 - _LABEL_WIDTH) // 2
_SHOWN: Final = (
    "latency_p50", "latency_min", "ttft", "decode_throughput", "itl_p50", "cold_start", "load", "model_size",
)  # fmt: skip
_CLOSE: Final = 1.1
"""Below this factor two decimals say too little."""


def speed_text(record: AbRecord, metric: str = "") -> str:
    """Return the ratio of a metric, of a whole round where it is empty: `1.62x faster [1.58 to 1.66]`."""
    if not record.times:
        return "not compared"
    speedup = record.speedup(metric)
    is_faster = speedup.ratio >= 1
    values = [speedup.ratio, speedup.low, speedup.high]
    if not is_faster:
        values = [1 / value if value else math.inf for value in (speedup.ratio, speedup.high, speedup.low)]
    digits = 3 if values[0] < _CLOSE else 2
    ratio, low, high = ("?" if math.isinf(value) or not value else f"{value:.{digits}f}" for value in values)
    return f"{ratio}x {'faster' if is_faster else 'slower'} [{low} to {high}]"


def speeds(record: AbRecord) -> list[str]:
    """Return the ratio of each metric, with its name where there are several."""
    if len(record.times) < 2:
        return [speed_text(record)]
    return [f"{METRIC[name].label} {speed_text(record, name)}" for name in record.times]


def comparison_lines(records: Sequence[AbRecord], verbosity: int) -> list[str]:
    """Return the lines of the summary: one for each comparison, more of each with -v, a count alone with -q."""
    if not records:
        return []
    lines: list[str] = []
    for record in records if verbosity >= 0 else ():
        line = f"{name_cell(record.key.entry)} {speed_text(record)}"
        whole = f"{line}  {record.state}".rstrip()
        lines += [whole] if columns(whole) <= WIDTH else [line, f"    {record.state}"]
        if verbosity > 0:
            lines += [f"  {line}" for line in _details(record) if line]
        else:
            lines += [f"  {speed}" for speed in speeds(record)[1:]]
        for why in remarks(record):
            lines += wrapped(f"  {why}", "    ")
    return [*lines, *wrapped(comparison_counts(records))]


def comparison_counts(records: Sequence[AbRecord]) -> str:
    """Count comparisons by their states."""
    states = [record.state or "compared" for record in records]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return f"{len(records)} A/B comparison{'s' if len(records) != 1 else ''}: {counts}"


def remarks(record: AbRecord) -> Iterator[str]:
    """Yield why a comparison cannot be trusted: nothing was compared, the outputs, noise."""
    if record.why_not:
        yield record.why_not
    if record.outputs.state in ("differ", "cannot tell"):
        yield f"outputs: {record.outputs.text}"
    if record.noise:
        yield record.noise


def _details(record: AbRecord) -> Iterator[str]:
    yield f"{record.reference.model} against {record.candidate.model}"
    yield from _evidence(record)
    if record.reference.not_measured.get("peak_rss"):
        yield from wrapped(f"Not measured: {record.reference.not_measured['peak_rss']}", "  ")


def requirement_failure(record: AbRecord, failing: Sequence[Requirement]) -> str:
    """Return the text of a requirement that is broken or cannot be told, with both sides and what to do."""
    lines = [headline(record, failing[0]), ""]
    for each in failing[1:]:
        lines += [*wrapped(headline(record, each), "  "), ""]
    lines += [*_evidence(record), "", "What to do"]
    for advice in _advice(record, failing):
        lines += wrapped(f"- {advice}", "  ")
    return "\n".join(lines)


def headline(record: AbRecord, requirement: Requirement) -> str:
    """Return the one line that pytest's short summary shows."""
    what = "cannot tell" if requirement.state is Limit.CANNOT_TELL else "not held"
    if requirement.why:
        why = requirement.why
        if requirement.state is Limit.CANNOT_TELL and record.times and not record.noise:
            why = f"{speed_text(record, requirement.metric)}, {why}"
        return f"{requirement.text}: {what}, {why}"
    return f"{requirement.text}: {what}, {speed_text(record, requirement.metric)}"


def _evidence(record: AbRecord) -> Iterator[str]:
    """Return both sides in columns, and what the ratio comes from."""
    yield _row("", REFERENCE, CANDIDATE)
    yield from _both("model", record.reference.model, record.candidate.model)
    providers = [each.environment.execution_provider for each in (record.reference, record.candidate)]
    yield from _both("EP", *providers)
    for name in dict.fromkeys(name for settings in (record.settings or {}).values() for name in settings):
        values = [(record.settings or {}).get(arm, {}).get(name, "-") for arm in (REFERENCE, CANDIDATE)]
        yield from _both(name, *values)
    for name in _SHOWN:
        if name in record.reference.metrics and name in record.candidate.metrics:
            metric = METRIC[name]
            sides = [metric.shown(each.metrics[name]) for each in (record.reference, record.candidate)]
            yield _row(metric.label, *sides)
    if "load" in record.reference.metrics:
        yield "  (load, cold start: the arm that opened first paid what both share)"
    for label, *sides in fact_rows(record.reference, record.candidate):
        yield from _both(label, *sides)
    yield ""
    if record.times:
        processes = f"{record.processes} process{'es' if record.processes != 1 else ''}"
        first, *others = speeds(record)
        yield f"Speed: {first}, 99 %, {record.pairs} pairs in {processes}"
        yield from (f"Speed: {other}" for other in others)
    if record.outputs.state != "not checked":
        yield from wrapped(f"Outputs: {record.outputs.state}; {record.outputs.text}", "  ")
    if record.sensor is not None:
        yield f"The reference against itself: {record.sensor.ratio:.3f} (noisy beyond 2 %)"
    if record.reference.disturbance:
        yield from wrapped(f"Meanwhile {record.reference.disturbance}", "  ")


def fact_rows(reference: Record, candidate: Record) -> list[tuple[str, str, str]]:
    """Return the facts of both sides, each with its name."""
    sides = [_facts(each) for each in (reference, candidate)]
    return [(name, sides[0].get(name, "?"), sides[1].get(name, "?")) for name in sides[0] | sides[1]]


def _facts(record: Record) -> dict[str, str]:
    facts = record.facts
    if facts is None:
        return {"facts": "cannot tell"}
    counts = {"memcpy": facts.memcpy, "CPU nodes": facts.cpu_nodes, "nodes": facts.nodes}
    mark = "?" if facts.unavailable else ""
    return {name: f"{count}{mark}" for name, count in counts.items()} | {
        "attention": attention_text(facts),
        "fused ops": ", ".join(f"{count} {name}" for name, count in facts.fused_ops.items()) or "none",
    }


def attention_text(facts: Facts) -> str:
    """Return the kernels that attention nodes ran; `?` among them where one cannot be told."""
    kernels = {name for use in facts.attention for name in use.kernels or ("?",)}
    return ", ".join(sorted(kernels)) or "none"


def _advice(record: AbRecord, failing: Sequence[Requirement]) -> Iterator[str]:
    states = {each.state for each in failing}
    if record.outputs.state == "differ":
        yield (
            "A faster wrong answer is no speed-up: mend the candidate, or give the tolerances that its outputs may "
            "have: rtol=... and atol=... of the comparison."
        )
    elif record.why_not:
        pass
    elif record.outputs.state == "cannot tell":
        yield "Compare the speed alone where outputs cannot be: check_outputs=False."
    elif record.noise:
        yield "Measure where less else runs, or with fewer threads (--onnxperf-threads); no ratio can be trusted here."
    elif Limit.BROKEN in states:
        differing = [label for label, *sides in fact_rows(record.reference, record.candidate) if sides[0] != sides[1]]
        if differing:
            yield f"Begin with the facts that differ: {', '.join(differing)}."
        else:
            yield "The facts are the same on both sides: what differs is inside the kernels, types or settings."
        yield f"See why they are what they are: onnxperf explain {record.candidate.model}"
    else:
        yield "Give it more time (--onnxperf-max-time), a quieter machine, or a limit that is further away."
    if Limit.CANNOT_TELL in states:
        yield "What cannot be told fails its test (onnxperf_unverifiable = fail, skip or pass)."


def comparison_properties(records: Sequence[AbRecord]) -> list[tuple[str, object]]:
    """Return JUnit properties: plain float and str, since anything else breaks pytest-xdist."""
    result: list[tuple[str, object]] = []
    for record in records:
        prefix = f"onnxperf.{record.key.label}." if record.key.label else "onnxperf."
        result.append((f"{prefix}compare.state", record.state or "compared"))
        for name in record.times:
            metric = "" if len(record.times) == 1 else f"{name}."
            speedup = record.speedup(name)
            values = {"speedup": speedup.ratio, "speedup_low": speedup.low, "speedup_high": speedup.high}
            result += [
                (f"{prefix}compare.{metric}{key}", significant(value))
                for key, value in values.items()
                if math.isfinite(value)
            ]
    return result


def _both(label: str, reference: str, candidate: str) -> Iterator[str]:
    """Return one row, or where a side is too long for its column one line for each."""
    if max(columns(reference), columns(candidate)) < _COLUMN_WIDTH and columns(label) < _LABEL_WIDTH:
        yield _row(label, reference, candidate)
        return
    yield f"  {label}"
    for name, value in ((REFERENCE, reference), (CANDIDATE, candidate)):
        yield from wrapped(f"    {name}: {value}", "      ")


def _row(label: str, reference: str, candidate: str) -> str:
    return f"  {cell(label, _LABEL_WIDTH)}{cell(reference, _COLUMN_WIDTH)}{candidate}".rstrip()
