"""The header and the summary of a session: what is measured, what was judged, and what was not and why."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.metrics import METRIC, PRIMARY
from pytest_onnxperf.core.providers import short_name
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.units import quantity

from .against import table_lines
from .device_state import measured_text
from .explanation import attention_lines, explanation_lines
from .wrap import WIDTH, cell, columns, hanging, shortened, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from pytest_onnxperf.core.environment import Environment
    from pytest_onnxperf.core.outcome import Outcome
    from pytest_onnxperf.core.record import Record

_NAME_WIDTH: Final = 36
_NAME_HEAD: Final = 15
_MOST_NAMES: Final = 3
_MOST_NOISY: Final = 5


def header_lines(
    environment: Environment, baseline_dir: str, recorded_keys: Sequence[str], latest: date | None, today: date, *,
    is_auto: bool, not_running: Mapping[str, str], state: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Return the lines of pytest's header.

    Args:
        environment: Of tests that demand no other EP.
        baseline_dir: As the options give it.
        recorded_keys: Environment keys that have baselines.
        latest: Date of the latest entry for this environment; None where there is none.
        today: For its age.
        is_auto: Whether the EP was chosen by `auto`.
        not_running: EPs that were tried in vain -> why they do not run.
        state: Lines about the state of the device.
    """
    short = short_name(environment.execution_provider)
    lines = []
    others = sorted({key.rsplit(".", 1)[1] for key in recorded_keys} - {short})
    if is_auto and others and not any(key.endswith("." + short) for key in recorded_keys):
        lines += prefixed_lines(
            f"WARNING: auto took {short}, which has no baselines; {baseline_dir} holds those of {', '.join(others)}"
        )
    lines.append(f"onnxperf: {environment.execution_provider} on {environment.device}")
    for name, reason in not_running.items():
        lines += prefixed_lines(f"{name} is in this build and does not run: {reason}")
    lines += prefixed_lines(", ".join(f"{name} {version}" for name, version in environment.versions.items()))
    lines += state
    where = f"{baseline_dir}/{environment.key}"
    if latest is None:
        return [*lines, f"onnxperf: no {where} yet"]
    days = (today - latest).days
    age = "today" if days <= 0 else f"{days} day{'s' if days != 1 else ''} old"
    return [*lines, f"onnxperf: {where}, latest entry of {latest} ({age})"]


def prefixed_lines(message: str) -> list[str]:
    """Return a text of pytest's header, with the prefix before each of its lines."""
    prefix = "onnxperf: "
    lines = [line for paragraph in message.splitlines() for line in wrapped(paragraph, "  ", WIDTH - len(prefix))]
    return [prefix + line for line in lines]


def summary_lines(
    outcomes: Sequence[Outcome],
    *,
    recorded: Sequence[str] | None,
    verbosity: int,
    explaining: bool = False,
) -> list[str]:
    """Return the lines of the summary section; none where nothing was measured and nothing is to be said.

    Args:
        outcomes: All measurements.
        recorded: What an update says, as `recorded_lines` writes it; None where nothing is updated.
        verbosity: pytest's.
        explaining: Whether facts are explained that break nothing.
    """
    lines: list[str] = []
    if verbosity >= 0:
        lines += [measurement_line(outcome) for outcome in outcomes]
        lines += [
            part for outcome in outcomes if verbosity > 0 for line in _details(outcome) for part in hanging(f"  {line}")
        ]
        lines += table_lines(outcomes)
    if explaining:
        lines += [line for outcome in outcomes for line in explained_lines(outcome)]
    if outcomes:
        lines += wrapped(counts_text(outcomes), "  ")
    said = [] if recorded is not None else [*not_compared(outcomes)]
    said += [*_unpaired(outcomes), *(recorded or ())]
    return lines + [line for text in said for line in wrapped(text, "  ")]


def explained_lines(outcome: Outcome) -> Iterator[str]:
    """Yield why the facts of a measurement are what they are, under its name; nothing where that was not asked for."""
    if outcome.explanation is None:
        return
    yield ""
    yield f"{outcome.record.key.entry}: {outcome.record.model}"
    yield from attention_lines(outcome.record.facts.attention if outcome.record.facts else ())
    yield from explanation_lines(outcome.explanation)
    yield ""


def measurement_line(outcome: Outcome) -> str:
    """Return the one line of a measurement: name, latency (or TTFT and decode throughput), memcpy nodes, state.

    The state is two words where facts and times came out differently.
    """
    record = outcome.record
    shown = [METRIC[key].shown(record.metrics[key]) for key in MAIN_METRICS if key in record.metrics]
    latency = ", ".join(shown) or "-"
    rest = f" {latency:>9}  memcpy {memcpy_text(record):<3} {state_text(outcome)}"
    return name_cell(record.key.entry, WIDTH - columns(rest)) + rest


MAIN_METRICS: Final = ("latency_p50", "ttft", "decode_throughput")
"""The metrics on a measurement's line: a session has the first, a generator the others."""


def memcpy_text(record: Record) -> str:
    """Return the memcpy nodes of a run; `?` where they cannot be told."""
    return "?" if record.facts is None or record.unavailable_facts else str(record.facts.memcpy)


def name_cell(name: str, room: int = _NAME_WIDTH) -> str:
    """Return the name of a test as the first column: a long one is cut in its middle, its end holds the parameters.

    Args:
        name: Of the test.
        room: Columns that the rest of the line leaves; a name has at most its own column's.
    """
    return cell(name, max(_NAME_HEAD, min(room, _NAME_WIDTH)), min(_NAME_HEAD, room // 2))


def short_test(name: str) -> str:
    """Return a name in a list of names, cut as in its column."""
    return shortened(name, _NAME_WIDTH, _NAME_HEAD)


def state_text(outcome: Outcome) -> str:
    """Return the state of a measurement: two words where facts and times came out differently."""
    verdict = outcome.verdict
    if verdict.broken or verdict.worse or verdict.cannot_tell:
        return verdict.state
    facts = _worst(c.state for c in verdict.comparisons if c.name not in METRIC)
    times = _worst(c.state for c in verdict.comparisons if c.name in METRIC)
    if facts is None or times is None or facts == times:  # requests at once, and PyTorch, have no facts
        return str(facts or times or State.OK)
    return f"{facts}, times {times}"


def _worst(states: Iterable[State]) -> State | None:
    return min(states, key=lambda state: state.severity, default=None)


def _details(outcome: Outcome) -> Iterator[str]:
    """Return every comparison and limit of a measurement, for -v."""
    record, verdict = outcome.record, outcome.verdict
    yield f"{record.key.module}::{record.key.entry}: {record.rounds} rounds, {record.threads} threads"
    if record.gpu is not None:
        yield f"  GPU: {measured_text(record.gpu)}"
    for limit in verdict.limits:
        yield f"  {limit.state}: {limit.key} {limit.actual} (budget {limit.limit})".rstrip()
    for comparison in verdict.comparisons:
        yield f"  {comparison.state}: {comparison.text}{f' ({comparison.detail})' if comparison.detail else ''}"
    if verdict.detectable:
        yield f"  the baseline sees slowdowns of {', '.join(verdict.detectable)} and more"
    for name, values in record.metrics.items():
        metric = METRIC[name]
        if not metric.gated:
            yield f"  shown: {metric.label} {quantity(median(values) / metric.per_unit, metric.unit)}"


def counts_text(outcomes: Sequence[Outcome]) -> str:
    """Count measurements, limits and comparisons by their states."""
    limits = Counter(str(limit.state) for outcome in outcomes for limit in outcome.verdict.limits)
    states = Counter(str(c.state) for outcome in outcomes for c in outcome.verdict.comparisons)
    parts = [f"{len(outcomes)} measurement{'s' if len(outcomes) != 1 else ''}"]
    if limits:
        parts.append("budgets: " + ", ".join(f"{limits[name]} {name}" for name in sorted(limits)))
    if states:
        ordered = sorted(states, key=lambda name: State(name).severity)
        what = "the reference" if any(outcome.against for outcome in outcomes) else "baselines"
        parts.append(f"against {what}: " + ", ".join(f"{states[name]} {name}" for name in ordered))
    return "; ".join(parts)


def not_compared(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say what was not compared and why, with what to do."""
    tests: dict[str, set[str]] = {}
    for outcome in outcomes:
        if missing := _missing(outcome):
            line = f"{missing} for {outcome.record.environment.key}: run --onnxperf-update"
            tests.setdefault(line, set()).add(f"{outcome.record.key.module}::{outcome.record.key.test}")
        if changes := outcome.verdict.workload_changes:
            line = f"times of another workload as baseline, {', '.join(changes)}: --onnxperf-update records these"
            tests.setdefault(line, set()).add(f"{outcome.record.key.module}::{outcome.record.key.test}")
    for line, found in sorted(tests.items()):
        yield f"{_tests(len(found))} {line}"
    others = {o.verdict.other_environment for o in outcomes if o.verdict.other_environment}
    if others:
        count = sum(bool(o.verdict.other_environment) for o in outcomes)
        yield f"{count} compared in facts alone, with another device: {', '.join(sorted(others))}"
    yield from _not_applicable(outcomes)
    yield from _warnings(outcomes)
    yield from _remarks(outcomes)


def _missing(outcome: Outcome) -> str:
    """Say what of a measurement has no baseline; empty where all has, or the times are known to be of other work."""
    compared = outcome.verdict.comparisons
    names = [c.name for c in compared if c.state is State.NO_BASELINE]
    if not names or outcome.verdict.workload_changes:
        return ""
    if {c.state for c in compared} <= {State.NO_BASELINE, State.CANNOT_TELL, State.UNSTABLE}:
        return "no baseline"
    if set(names) >= {c.name for c in compared if c.name in METRIC and METRIC[c.name].is_timed}:
        return "facts alone as baseline"
    return f"no baseline of {', '.join(METRIC[name].label if name in METRIC else name for name in names)}"


def _warnings(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say each warning once, with the measurements that it is about."""
    return _said_once((outcome.record, warning) for outcome in outcomes for warning in outcome.record.warnings)


def _unpaired(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say why times stand without the reference workload that was wanted beside them."""
    found = ((outcome.record, why) for outcome in outcomes for why in set(outcome.record.unpaired.values()))
    return _said_once((record, f"raw times, without a reference workload: {why}") for record, why in found)


def _said_once(remarks: Iterable[tuple[Record, str]]) -> Iterator[str]:
    about: dict[str, list[str]] = {}
    for record, remark in remarks:
        about.setdefault(remark, []).append(short_test(record.key.entry))
    for remark, names in about.items():
        more = ", ..." if len(names) > _MOST_NAMES else ""
        yield f"{', '.join(names[:_MOST_NAMES])}{more}: {remark}"


def _remarks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say what a reader should know of single measurements."""
    for outcome in outcomes:
        name = outcome.record.key.entry
        for comparison in outcome.verdict.comparisons:
            if comparison.state in (State.CANNOT_TELL, State.UNSTABLE):
                yield f"{name}: {comparison.text}"
            if comparison.since_anchor:
                yield f"{name}: {comparison.since_anchor}"
    yield from _noisy(outcomes)
    disturbed = [outcome.record for outcome in outcomes if outcome.record.disturbance]
    if disturbed:
        names = ", ".join(short_test(record.key.entry) for record in disturbed[:_MOST_NAMES])
        more = ", ..." if len(disturbed) > _MOST_NAMES else ""
        yield f"{len(disturbed)} disturbed, {disturbed[0].disturbance}: {names}{more}"
    changes = {change for o in outcomes if o.against is None for change in o.verdict.version_changes}
    if changes:
        yield f"since the baselines: {', '.join(sorted(changes))}"


def _noisy(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Say between what times nothing could be told, the largest change first; against a reference the table does."""
    found = [
        (comparison.badness, f"{outcome.record.key.entry}: noisy: {comparison.text}")
        for outcome in outcomes
        for comparison in outcome.verdict.comparisons
        if outcome.against is None and comparison.state is State.NOISY and comparison.name in PRIMARY
    ]
    lines = [line for _, line in sorted(found, key=lambda each: -each[0])]
    yield from lines[:_MOST_NOISY]
    if len(lines) > _MOST_NOISY:
        yield f"and {len(lines) - _MOST_NOISY} more noisy times, which -v shows"


def _not_applicable(outcomes: Sequence[Outcome]) -> Iterator[str]:
    counts = Counter((on, o.record.environment.key) for o in outcomes for on in o.verdict.not_applicable)
    for (on, key), count in sorted(counts.items()):
        yield f"{count} budget{'s' if count != 1 else ''} on={on!r} not applicable: measured on {key}"


def _tests(count: int) -> str:
    return f"{count} test has" if count == 1 else f"{count} tests have"
