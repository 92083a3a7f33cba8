"""Why it ran so: what forces the copies, what is on the CPU, what bounds the operators, what changed, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.units import change, quantity
from pytest_onnxperf.report.explanation import WHY_ON_CPU
from pytest_onnxperf.report.profile import op_name, short_provider
from pytest_onnxperf.report.roofline import PREFIXES, scaled

from .markup import Markup, element, joined, long_table, table
from .plots import plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_onnxperf.core.results_facts import (
        Ceilings,
        CpuGroup,
        Culprits,
        ModelExplanation,
        OpChanges,
        RooflineRow,
    )
    from pytest_onnxperf.core.results_measured import Measurement

_ROOFLINE_HEAD: Final = (
    "operator, a run", "EP", "FLOP>", "bytes>", "FLOP/byte>", "bound", "least>", "node time>", "attained>",
)  # fmt: skip


def advice(measurement: Measurement) -> Markup | None:
    """Return what to do; None where there is nothing."""
    if not measurement.advice:
        return None
    items = [element("li", each) for each in measurement.advice]
    return joined([element("h4", "What to do"), element("ul", *items, class_="advice")])


def placement(measurement: Measurement) -> Markup | None:
    """Return what forces the memcpy nodes and what is on the CPU; None where nothing was asked or found."""
    explanation = measurement.explanation
    if explanation is None:
        return None
    parts = [part for model in explanation.models for part in _placement(model)]
    if explanation.why_not:
        parts.append(element("p", f"Could not be explained further: {explanation.why_not}", class_="dim"))
    return joined([element("h4", "Placement, and why"), *parts]) if parts else None


def _placement(model: ModelExplanation) -> list[Markup]:
    of = f" of {model.session}" if model.session else ""
    parts = []
    if model.culprits:
        rows = [_culprit_row(each) for each in model.culprits]
        head = ("memcpy nodes", "count>", "direction", "operator", "tensor")
        parts.append(table(f"What forces the memcpy nodes{of}", head, rows, "prose"))
    if model.culprits and model.why_no_graph:
        parts.append(element("p", f"Only suspected, without the optimised graph: {model.why_no_graph}"))
    if model.cpu_groups:
        columns = ("nodes on the CPU", "nodes>", "why", "for example")
        parts.append(table(f"What runs on the CPU{of}", columns, map(_cpu_row, model.cpu_groups), "prose"))
    if model.disagreements:
        parts.append(element("p", f"Profile, log and runtime disagree on where {model.disagreements} nodes ran."))
    if model.boundary:
        parts.append(element("p", model.boundary, class_="dim"))
    if model.rows_left_out:
        parts.append(element("p", f"{model.rows_left_out} more rows were left out of the file.", class_="dim"))
    return parts


def _culprit_row(group: Culprits) -> list[str | None]:
    direction = {"to_host": "to the host", "from_host": "from the host"}.get(group.direction, group.direction)
    domain = f"{group.domain}:" if group.domain else ""
    operator = f"{domain}{group.op_type}" if group.op_type else "-"
    opset = f" (opset {group.opset})" if group.opset is not None else ""
    return [group.text, str(group.count), direction, f"{operator}{opset}", group.tensor or "-"]


def _cpu_row(group: CpuGroup) -> list[str | None]:
    return [group.op_type, str(group.nodes), WHY_ON_CPU.get(group.why, group.why), group.example or "-"]


def rooflines(measurement: Measurement) -> Markup | None:
    """Return what bounds the operators; None where it was not asked for."""
    explanation = measurement.explanation
    parts = [] if explanation is None else [part for model in explanation.models for part in _rooflines(model)]
    return joined([element("h4", "Roofline"), *parts]) if parts else None


def _rooflines(model: ModelExplanation) -> list[Markup]:
    parts = []
    for phase, rows in sorted(model.rooflines.items(), key=lambda each: (each[0] != "prefill", each[0])):
        if not rows:
            continue
        of = f" of {phase}" if phase else ""
        if model.ceilings is not None:
            parts.append(_roofline_plot(f"Roofline{of}: FLOP/s over FLOP/byte", rows, model.ceilings))
        caption = f"Work and bound{of}; k, M, G are 10^3, 10^6, 10^9"
        parts.append(long_table(caption, _ROOFLINE_HEAD, [_row(row) for row in rows], "operators"))
    if parts:
        notes = "no ceilings are known for this device, so what bounds an operator is not told."
        if model.ceilings is not None:
            rates = ", ".join(f"{kind} {_scaled(rate)}FLOP/s" for kind, rate in model.ceilings.flop_per_s.items())
            notes = (
                f"ceilings of {model.ceilings.device} ({model.ceilings.source}): {rates}, memory "
                f"{_scaled(model.ceilings.bytes_per_s)}B/s. A ring stands on its roof: its time is not known."
            )
        if any(row.is_upper_bound for rows in model.rooflines.values() for row in rows):
            notes += " <: at most; causal attention is counted as the whole matrix."
        parts.append(element("p", notes[0].upper() + notes[1:], class_="dim"))
    return parts


def _scaled(value: float) -> str:
    return scaled(value, PREFIXES, " ")


def _row(row: RooflineRow) -> list[str | None]:
    mark = "<" if row.is_upper_bound else ""
    is_unknown = row.unknown >= row.executions
    return [
        row.op_type,
        short_provider(row.execution_provider),
        "-" if is_unknown else mark + _scaled(row.flop).rstrip(),
        "-" if is_unknown else mark + _scaled(row.least_bytes).rstrip(),
        "-" if row.flop_per_byte is None else _scaled(row.flop_per_byte).rstrip(),
        row.bound or "-",
        "-" if row.least_ms is None else mark + quantity(row.least_ms, "ms"),
        "-" if row.node_ms is None else quantity(row.node_ms, "ms"),
        "-" if row.attained_ratio is None else quantity(row.attained_ratio, "ratio"),
    ]


def _roofline_plot(title: str, rows: Sequence[RooflineRow], ceilings: Ceilings) -> Markup:
    """Return the plot; an operator without a time of its nodes stands on its roof, as a ring."""
    points = [
        {"label": row.op_type, "x": row.flop_per_byte, "y": row.flop / row.node_ms * 1e3 if row.node_ms else None}
        for row in rows
        if row.flop_per_byte and row.flop
    ]
    roofs = [{"label": kind, "flopPerS": rate} for kind, rate in ceilings.flop_per_s.items()]
    return plot("roofline", title, {"points": points, "roofs": roofs, "bytesPerS": ceilings.bytes_per_s})


def op_changes(measurement: Measurement) -> Markup | None:
    """Return what changed in the op tables since the baseline; None where nothing did."""
    parts = [part for each in measurement.op_changes if (part := _changes(each)) is not None]
    what = "reference" if measurement.against is not None else "baseline"
    return joined([element("h4", f"Since the {what}"), *parts]) if parts else None


def _changes(changes: OpChanges) -> Markup | None:
    phase = "" if changes.phase == "run" else f" in {changes.phase}"
    rows: list[list[str | None]] = []
    for moved in changes.moved:
        where = f"{short_provider(moved.before)} to {short_provider(moved.after)}"
        rows.append([moved.op_type, "moved", f"{moved.executions}: {where}"])
    rows += [[op_name(op), "new", str(count)] for op, count in changes.gained.items()]
    rows += [[op_name(op), "lost", str(count)] for op, count in changes.lost.items()]
    rows += [[op_name(op), "count", f"{old} to {new}"] for op, (old, new) in changes.counts.items()]
    for time in changes.times:
        by = f" ({change(time.new_ms / time.old_ms)})" if time.old_ms else ""
        rows.append(
            [op_name(time.op), "self time", f"{quantity(time.old_ms, '')} to {quantity(time.new_ms, 'ms')}{by}"]
        )
    return table(f"What changed{phase}, a run", ("operator", "what", "then to now>"), rows) if rows else None
