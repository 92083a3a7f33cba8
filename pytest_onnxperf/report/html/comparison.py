"""One call of `onnx_compare`: the ratio, what was required of it, both arms side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_onnxperf.core.units import change, quantity

from .checked import label_of
from .markup import Markup, element, joined, table
from .measurement import environment
from .plots import plot, spread_table
from .ran import ran
from .states import chip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results_measured import AbComparison, Measurement


def speed_text(found: AbComparison) -> str:
    """Return the ratio with its 99 % interval; the candidate is faster above 1."""
    if found.speedup is None:
        return f"not compared: {found.why_not}" if found.why_not else "not compared"
    interval = f" [{found.low:.3f} to {found.high:.3f}]" if found.low is not None and found.high is not None else ""
    return f"speed-up {found.speedup:.3f}{interval}, {found.pairs} pairs in {found.processes} processes"


def comparison_section(found: AbComparison, quantiles: Sequence[float]) -> Markup:
    """Return all that is known of one comparison."""
    models = dict.fromkeys((found.reference.model, found.candidate.model))
    title = f"{found.label}: " if found.label else ""
    return element(
        "section",
        element("h3", f"{title}A/B of {' and '.join(models)}"),
        element("p", chip(found.state) if found.state else None, element("strong", f" {speed_text(found)}")),
        element("ul", *(element("li", each) for each in _remarks(found)), class_="remarks"),
        _sides(found),
        _rounds(found, quantiles),
        element("div", _arm("Reference", found.reference), _arm("Candidate", found.candidate), class_="phases"),
        environment(found.candidate),
        class_="measurement",
    )  # fmt: skip


def _remarks(found: AbComparison) -> Iterator[Markup]:
    for each in found.requirements:
        yield joined([chip(each.state), f" {each.text}{f': {each.why}' if each.why else ''}"])
    if found.outputs not in ("", "not checked"):
        yield joined([f"outputs: {found.outputs}; {found.outputs_text}"])
    if found.noise:
        yield joined([found.noise])
    if found.self_ratio is not None:
        yield joined([f"The reference against itself: {found.self_ratio:.3f} (noisy beyond 2 %)."])


def _sides(found: AbComparison) -> Markup:
    one, other = found.reference, found.candidate
    rows: list[list[str | None]] = [
        ["EP", one.environment.execution_provider, other.environment.execution_provider, None]
    ]
    for name in dict.fromkeys(name for own in found.settings.values() for name in own):
        rows.append([name, *(found.settings.get(arm, {}).get(name, "-") for arm in ("reference", "candidate")), None])
    for name, metric in one.metrics.items():
        if name in other.metrics:
            now = other.metrics[name].value
            by = change(now / metric.value) if metric.value else None
            rows.append([label_of(name), quantity(metric.value, metric.unit), quantity(now, metric.unit), by])
    return table("Both arms", ("", "reference>", "candidate>", "change>"), rows)


def _rounds(found: AbComparison, quantiles: Sequence[float]) -> Markup | None:
    """Return the rounds of both arms on one scale, as they were timed in turn."""
    arms = {"reference": found.reference, "candidate": found.candidate}
    numbers = [spread_table(arm, quantiles, f"Rounds of the {name}, in ms") for name, arm in arms.items()]
    if not any(numbers):
        return None
    drawn = {
        f"{name} {process}": each.quantiles_ms
        for name, arm in arms.items()
        for process, each in enumerate(arm.distributions.get("latency", ()), 1)
    }
    figure = (
        plot(
            "boxes",
            "Latency: the rounds of both arms",
            {
                "unit": "ms",
                "quantiles": quantiles,
                "rows": list(drawn.values()),
                "labels": list(drawn),
            },
        )
        if drawn
        else None
    )
    return joined([element("h4", "Rounds"), element("div", figure, element("div", *numbers), class_="plots")])


def _arm(title: str, measurement: Measurement) -> Markup:
    return element(
        "section",
        element("h4", title),
        ran(measurement.facts) if measurement.facts is not None else None,
    )
