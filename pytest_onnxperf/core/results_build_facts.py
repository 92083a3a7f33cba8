"""Facts and explanations, as the file of `--onnxperf-json` holds them; see `results_facts`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from .facts import difference_text
from .results_facts import (
    MOST_ROWS,
    AttentionNode,
    Ceilings,
    CpuGroup,
    Culprits,
    Explanation,
    Facts,
    ModelExplanation,
    MovedOps,
    NotFlash,
    OpChanges,
    OpRow,
    OpTime,
    RooflineRow,
    Unstable,
)
from .units import NS_PER_MS, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .attention import AttentionUse
    from .culprit import CulpritGroup
    from .explanation import Explanation as Explained
    from .explanation import ModelExplanation as ExplainedModel
    from .explanation import NotFlash as NoFlash
    from .facts import Facts as Found
    from .op_changes import OpChanges as Changed
    from .op_table import OpRow as TableRow
    from .roofline import RooflineRow as RoofRow

_DIGITS = 6
_Row = TypeVar("_Row")


def facts_of(found: Found, *, with_tables: bool = True) -> Facts:
    """Return facts; without tables where those of the phases hold them."""
    op_table, attention = (found.op_table, found.attention) if with_tables else ((), ())
    return Facts(
        runs=found.runs,
        unavailable=found.unavailable or "",
        memcpy=found.memcpy,
        memcpy_to_host=found.memcpy_to_host,
        memcpy_from_host=found.memcpy_from_host,
        nodes=found.nodes,
        cpu_nodes=found.cpu_nodes,
        shape_nodes=sum(counted.executions for counted in found.shape_nodes),
        nodes_by_provider=dict(found.nodes_by_provider),
        ops=dict(found.ops),
        fused_ops=dict(found.fused_ops),
        memcpy_ms=ms(found.memcpy_ns),
        memcpy_share_ratio=rounded(found.memcpy_share),
        unstable=tuple(
            Unstable(fact=each.fact, values=each.values, text=difference_text(each)) for each in found.unstable
        ),
        op_table=tuple(map(_op_row, _cut(op_table))),
        attention=tuple(map(_attention_node, _cut(attention))),
        rows_left_out=_left_out(op_table, attention),
    )


def op_changes_of(changed: Changed) -> OpChanges:
    """Return what changed in the op table of one phase."""
    return OpChanges(
        phase=changed.phase,
        moved=tuple(
            MovedOps(op_type=each.op_type, executions=each.executions, before=each.before, after=each.after)
            for each in changed.moved
        ),
        gained=dict(changed.gained),
        lost=dict(changed.lost),
        counts={op: (before, after) for op, before, after in changed.counts},
        times=tuple(
            OpTime(op=each.op, old_ms=rounded(each.old_ms), new_ms=rounded(each.new_ms)) for each in changed.times
        ),
    )


def explanation_of(explained: Explained) -> Explanation:
    """Return an explanation."""
    return Explanation(models=tuple(map(_model, explained.models)), why_not=explained.why_not)


def _model(model: ExplainedModel) -> ModelExplanation:
    groups, ceilings = model.placement.cpu_groups, model.ceilings
    tables = [model.culprits, groups, model.not_flash, *(each.rows for each in model.rooflines)]
    return ModelExplanation(
        session=model.session,
        opsets=dict(model.opsets),
        culprits=tuple(map(_culprits, _cut(model.culprits))),
        why_no_graph=model.why_no_graph,
        cpu_groups=tuple(
            CpuGroup(op_type=each.op_type, why=each.why, nodes=each.nodes, example=each.example)
            for each in _cut(groups)
        ),
        disagreements=len(model.placement.disagreements),
        boundary=model.boundary,
        not_flash=tuple(map(_not_flash, _cut(model.not_flash))),
        rooflines={each.phase: tuple(map(_roofline_row, _cut(each.rows))) for each in model.rooflines},
        ceilings=None if ceilings is None else Ceilings(
            device=ceilings.device,
            flop_per_s=dict(ceilings.flop_per_s),
            bytes_per_s=ceilings.bytes_per_s,
            source=ceilings.source,
        ),
        rows_left_out=_left_out(*tables),
    )  # fmt: skip


def _culprits(group: CulpritGroup) -> Culprits:
    one = group.example
    return Culprits(
        count=group.count,
        text=group.text,
        direction=one.direction,
        op_type=one.op_type,
        domain=one.domain,
        opset=one.opset,
        why=one.why,
        node=one.node,
        tensor=one.tensor,
    )


def _not_flash(found: NoFlash) -> NotFlash:
    node = found.use.node
    return NotFlash(
        node=node.name,
        op_type=node.op_type,
        phase=found.use.phase,
        kernels=found.use.kernels,
        reasons=found.reasons,
    )


def _op_row(row: TableRow) -> OpRow:
    return OpRow(
        op_type=row.op_type,
        execution_provider=row.execution_provider,
        executions=rounded(row.executions_per_run),
        duration_ms=ms(row.duration_per_run_ns),
        self_ms=ms(row.self_per_run_ns),
        share_ratio=rounded(row.self_share_ratio),
        op_class=row.op_class,
    )


def _attention_node(use: AttentionUse) -> AttentionNode:
    return AttentionNode(
        node=use.node.name,
        op_type=use.node.op_type,
        execution_provider=use.node.execution_provider,
        kernels=use.kernels,
        evidence=use.evidence,
        element_type=use.element_type,
        head_size=use.head_size,
        query_length=use.query_length,
        phase=use.phase,
    )


def _roofline_row(row: RoofRow) -> RooflineRow:
    return RooflineRow(
        op_type=row.op_type,
        execution_provider=row.execution_provider,
        executions=rounded(row.executions_per_run),
        unknown=rounded(row.unknown_per_run),
        flop=rounded(row.flop_per_run),
        least_bytes=rounded(row.bytes_per_run),
        flop_per_byte=finite(row.flop_per_byte),
        is_upper_bound=row.is_upper_bound,
        bound=row.bound,
        least_ms=None if row.least_ns_per_run is None else ms(row.least_ns_per_run),
        node_ms=None if row.node_ns_per_run is None else ms(row.node_ns_per_run),
        share_ratio=finite(row.node_share_ratio),
        attained_ratio=finite(row.attained_ratio),
    )


def _cut(rows: Sequence[_Row]) -> Sequence[_Row]:
    return rows[:MOST_ROWS]


def _left_out(*tables: Sequence[object]) -> int:
    return sum(max(len(table) - MOST_ROWS, 0) for table in tables)


def ms(time_ns: float) -> float:
    """Return a time in ms, rounded as the file has it."""
    return rounded(time_ns / NS_PER_MS)


def rounded(value: float) -> float:
    """Return a number with at most six significant digits."""
    return float(significant(value, _DIGITS))


def finite(value: float | None) -> float | None:
    """Return a number rounded; None for what JSON cannot hold."""
    return None if value is None or not math.isfinite(value) else rounded(value)
