"""What `--onnxperf-against` found: the line of the header, the table of the summary, and the part of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.units import listed

from .wrap import cell, shortened, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_onnxperf.core.against import Against
    from pytest_onnxperf.core.outcome import Outcome

_NAME_WIDTH: Final = 25
_MOST_CHANGES: Final = 6


def header_line(reference: str, versions: Mapping[str, str]) -> str:
    """Say what the reference was taken for.

    Args:
        reference: `revision main (1a2b3c4)`.
        versions: Of its interpreter; empty where both arms share one.
    """
    known = f" with {_versions(versions)}" if versions else ""
    return f"against {reference}{known}, and no baseline"


def table_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the table of ratios, and what was left out; nothing without a reference."""
    compared = [(outcome, outcome.against) for outcome in outcomes if outcome.against is not None]
    if not compared:
        return
    yield from wrapped(
        f"against {compared[0][1].reference}: reference -> tested, ratio of times [99 % interval]", "    "
    )
    for outcome, against in compared:
        name = outcome.record.key.entry
        for turns in against.timed:
            metric = "" if turns.name == "latency_p50" else f" {METRIC[turns.name].label.removesuffix(' throughput')}"
            state = turns.verdict.state
            yield f"{_named(name, metric)} {turns.values_text:>19}  {turns.interval_text:<22}  {state}"
        if not against.timed and not against.why_not:
            yield f"{cell(name, _NAME_WIDTH)} facts alone were compared, no times"
        if against.why_not:
            yield from wrapped(f"{name}: {State.CANNOT_TELL}: {against.why_not}", "    ")
    yield from wrapped(f"what differs: {_difference(compared)}", "    ")
    if any(against.timed for _, against in compared):
        yield from wrapped("not compared: baselines, and load and cold start, which a process has once", "    ")


def _difference(compared: Sequence[tuple[Outcome, Against]]) -> str:
    measured = [outcome for outcome, against in compared if not against.why_not]
    changes = {change for outcome in measured for change in outcome.verdict.version_changes}
    files = {name for _, against in compared for name in against.changed_files}
    notes = dict.fromkeys(against.note for _, against in compared if against.note)
    return "; ".join([_listed([*sorted(changes), *sorted(files)]), *notes])


def _listed(changes: Sequence[str]) -> str:
    return listed(changes, _MOST_CHANGES) or "nothing that is known"


def failure_lines(outcome: Outcome, against: Against) -> Iterator[str]:
    """Yield what a failing measurement was compared with: both arms' versions, and what differs."""
    yield from wrapped(f"Against {against.reference}", "    ")
    if against.why_not:
        yield from wrapped(f"  {State.CANNOT_TELL}: {against.why_not}", "    ")
        return
    yield from wrapped(f"  reference: {_versions(against.versions)}", "    ")
    yield from wrapped(f"  tested: {_versions(outcome.record.environment.versions)}", "    ")
    since = [*outcome.verdict.version_changes, *against.changed_files, *outcome.verdict.option_changes]
    yield from wrapped(f"  what differs: {_listed(since)}; {against.note}", "    ")


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _named(name: str, metric: str) -> str:
    """Return the first column: a long name is cut at its front, its end holds the parameters and the label."""
    return cell(shortened(name, _NAME_WIDTH - len(metric)) + metric, _NAME_WIDTH)
