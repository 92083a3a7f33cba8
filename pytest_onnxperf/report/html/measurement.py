"""One measurement: its headline, then numbers, then what ran, then why, then where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.units import quantity
from pytest_onnxperf.report.device_state import measured_text

from .checked import broken_of, fact_table, label_of, metric_table, remarks
from .history import history
from .markup import Markup, element, folded, joined
from .plots import spread_plots, spread_table, token_plot, token_summary
from .ran import ran
from .states import chip
from .why import advice, op_changes, placement, rooflines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results_facts import NotFlash
    from pytest_onnxperf.core.results_measured import Measurement

    from .history import Entry

_OF_PHASE: Final = {"prefill": ("ttft", "prefill"), "decode": ("itl",)}
"""Phase -> the distributions that show it."""
_METRICS_OF_PHASE: Final = {
    "prefill": ("ttft", "prefill", "prefill_throughput"),
    "decode": ("decode_throughput", "itl_p50", "itl_p99"),
}


def measurement_section(entry: Entry, measurement: Measurement) -> Markup:
    """Return all that is known of one measurement."""
    title = f"{measurement.label}: {measurement.model}" if measurement.label else measurement.model
    place = measurement.environment
    return element(
        "section",
        element("h3", title),
        element("p", f"on {place.execution_provider}, {place.device}", class_="dim"),
        _headline(measurement),
        advice(measurement),
        element("div", metric_table(measurement), fact_table(measurement), class_="beside"),
        _remarks(measurement),
        _rounds(measurement, entry.quantiles),
        op_changes(measurement),
        _what_ran(measurement, entry.quantiles),
        placement(measurement),
        rooflines(measurement),
        history(entry, measurement),
        environment(measurement),
        class_="measurement",
    )


def _headline(measurement: Measurement) -> Markup | None:
    broken = broken_of(measurement)
    if not broken:
        return element("p", chip(measurement.state)) if measurement.state else None
    items = [
        element(
            "li", chip(state), element("strong", f" {text}"), element("div", detail, class_="dim") if detail else None
        )
        for state, text, detail in broken
    ]
    return element("ul", *items, class_="broken")


def _remarks(measurement: Measurement) -> Markup | None:
    items = [element("li", each) for each in remarks(measurement)]
    return element("ul", *items, class_="dim remarks") if items else None


def _rounds(measurement: Measurement, quantiles: Sequence[float]) -> Markup | None:
    """Return the distributions; those of a phase stand with it."""
    numbers = spread_table(measurement, quantiles)
    if numbers is None:
        return None
    own = {name for phase in measurement.phases for name in _OF_PHASE.get(phase, ())}
    names = [name for name in measurement.distributions if name not in own]
    plots = list(spread_plots(measurement, quantiles, names))
    return joined([element("h4", "Rounds"), element("div", *plots, numbers, class_="plots") if plots else numbers])


def _what_ran(measurement: Measurement, quantiles: Sequence[float]) -> Markup | None:
    """Return what ran: of a generator prefill and decode beside each other."""
    if measurement.phases:
        names = sorted(measurement.phases, key=lambda name: (name != "prefill", name))
        return element("div", *(_phase(measurement, name, quantiles) for name in names), class_="phases")
    if measurement.facts is None:
        return None
    return joined([element("h4", "What ran"), ran(measurement.facts, _not_flash(measurement, ""))])


def _phase(measurement: Measurement, phase: str, quantiles: Sequence[float]) -> Markup:
    metrics = measurement.metrics
    shown = [name for name in _METRICS_OF_PHASE.get(phase, ()) if name in metrics]
    figures = [
        element("div", element("dt", label_of(name)), element("dd", quantity(metrics[name].value, metrics[name].unit)))
        for name in shown
    ]
    by_token = [token_summary(measurement), token_plot(measurement)] if phase == "decode" else [None, None]
    return element(
        "section",
        element("h4", phase.capitalize()),
        element("dl", *figures, class_="figures") if figures else None,
        element("p", by_token[0]) if by_token[0] else None,
        by_token[1],
        *spread_plots(measurement, quantiles, _OF_PHASE.get(phase, ())),
        ran(measurement.phases[phase], _not_flash(measurement, phase)),
    )


def _not_flash(measurement: Measurement, phase: str) -> list[NotFlash]:
    explained = measurement.explanation.models if measurement.explanation is not None else ()
    return [each for model in explained for each in model.not_flash if each.phase == phase]


def environment(measurement: Measurement) -> Markup:
    """Return where it was measured, and what differs from where the baseline was."""
    pairs = [element("div", element("dt", name), element("dd", text)) for name, text in _environment(measurement)]
    baseline = measurement.baseline
    differs = [*baseline.version_changes, *baseline.option_changes] if baseline is not None else []
    parts = [element("dl", *pairs, class_="pairs")]
    if differs:
        items = [element("li", each.replace("->", "\N{RIGHTWARDS ARROW}")) for each in differs]
        parts = [element("h4", "What differs from the baseline"), element("ul", *items), *parts]
    return joined([*parts[:-1], folded("Environment", parts[-1], is_open=bool(differs))])


def _environment(measurement: Measurement) -> Iterator[tuple[str, str]]:
    place, baseline, against = measurement.environment, measurement.baseline, measurement.against
    yield "device", place.device
    yield "execution provider", place.execution_provider
    yield "environment key", place.key
    yield from place.versions.items()
    yield "timing", f"{measurement.rounds} rounds in {measurement.processes} processes"
    yield "threads", str(measurement.threads or "not timed")
    yield from ((name, text) for name, text in measurement.workload.items() if name != "threads")
    yield from measurement.options.items()
    if measurement.gpu is not None:
        yield "GPU", measured_text(measurement.gpu)
    if measurement.machine is not None:
        yield from measurement.machine.recorded.items()
    if baseline is not None:
        yield "baseline", f"{baseline.path}, {f'of {baseline.date}' if baseline.date else 'no entry'}"
        if baseline.other_environment:
            yield "compared with", f"{baseline.other_environment}, facts alone"
    if against is not None:
        yield "reference", against.reference
        yield from ((f"reference {name}", version) for name, version in against.versions.items())
        yield from (
            (f"{name} in turn", f"{turns.state}, {turns.pairs} pairs, {turns.repetitions} repetitions")
            for name, turns in against.timed.items()
        )
        yield from (("differs", name) for name in against.changed_files)
        yield from (("reference", text) for text in (against.note, against.why_not) if text)
    if measurement.kept:
        yield "profile kept", measurement.kept
