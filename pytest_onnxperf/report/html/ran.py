"""What ran, of a measurement or of each of its phases: operators, where they ran, attention kernels layer by layer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.providers import CPU
from pytest_onnxperf.core.units import number, quantity
from pytest_onnxperf.report.profile import short_provider

from .markup import Markup, bar, element, joined, long_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_onnxperf.core.results_facts import AttentionNode, Facts, NotFlash, OpRow

_OPS_HEAD: Final = ("operator", "EP", "share>", "of self time", "a run>", "ms self>", "ms total>", "class")
_ATTENTION_HEAD: Final = ("attention node", "operator", "kernel", "type", "head>", "queries>")


def ran(facts: Facts, not_flash: Sequence[NotFlash] = ()) -> Markup:
    """Return what ran in one run or phase."""
    left = f"{facts.rows_left_out} more rows were left out of the file." if facts.rows_left_out else None
    return joined([
        element("p", _summary(facts)),
        _ops(facts.op_table) if facts.op_table else None,
        _attention(facts.attention, not_flash) if facts.attention else None,
        element("p", left, class_="dim") if left else None,
    ])  # fmt: skip


def _summary(facts: Facts) -> str:
    mark = "?" if facts.unavailable else ""
    parts = [f"{facts.nodes}{mark} node executions a run"]
    if facts.nodes_by_provider:
        where = ", ".join(f"{count} on {short_provider(name)}" for name, count in facts.nodes_by_provider.items())
        parts.append(where)
    shape = f", beside {facts.shape_nodes} that compute shapes there on purpose" if facts.shape_nodes else ""
    if any(name != CPU for name in facts.nodes_by_provider):
        parts.append(f"{facts.cpu_nodes}{mark} count as nodes on the CPU{shape}")
    directions = f" ({facts.memcpy_to_host} to the host, {facts.memcpy_from_host} from it)" if facts.memcpy else ""
    share = f", {quantity(facts.memcpy_share_ratio, 'ratio')} of node time" if facts.memcpy else ""
    parts.append(f"{facts.memcpy}{mark} memcpy nodes{directions}{share}")
    if facts.fused_ops:
        parts.append("fused: " + ", ".join(f"{count} {name}" for name, count in facts.fused_ops.items()))
    return "; ".join(parts) + "."


def _ops(rows: Sequence[OpRow]) -> Markup:
    launch = any(row.execution_provider not in {CPU, ""} for row in rows)
    note = "Node time here is the time to launch it, not the time on the device." if launch else None
    caption = "Operators, by self time in one profiled run"
    has_subgraphs = any(row.duration_ms != row.self_ms for row in rows)
    body = [_op_row(row, has_subgraphs=has_subgraphs) for row in rows]
    return joined([
        long_table(caption, _OPS_HEAD, body, "operators"),
        element("p", note, class_="dim") if note else None,
    ])  # fmt: skip


def _op_row(row: OpRow, *, has_subgraphs: bool) -> list[str | None]:
    return [
        row.op_type or "(none)",
        short_provider(row.execution_provider),
        f"{row.share_ratio:.1%}".replace("%", " %"),
        bar(row.share_ratio),
        f"{row.executions:.4g}",
        f"{row.self_ms:.3f}",
        f"{row.duration_ms:.3f}" if has_subgraphs else None,
        row.op_class,
    ]


def _attention(nodes: Sequence[AttentionNode], not_flash: Sequence[NotFlash]) -> Markup:
    caption = "Attention, layer by layer in the order of execution"
    body = [_attention_row(node) for node in nodes]
    evidence = Counter(node.evidence for node in nodes if node.evidence)
    reasons = Counter((each.kernels, each.reasons) for each in not_flash)
    texts = [element("li", f"{count} x evidence: {text}") for text, count in evidence.most_common()]
    for (kernels, why), count in reasons.most_common():
        what = " and ".join(kernels) or "an unknown kernel"
        reason = "; ".join(why) or "neither the model nor the device tells why"
        texts.append(element("li", f"{count} x {what} and not Flash: {reason}"))
    return joined([
        long_table(caption, _ATTENTION_HEAD, body, "attention nodes"),
        element("ul", *texts, class_="why") if texts else None,
    ])  # fmt: skip


def _attention_row(node: AttentionNode) -> list[str | None]:
    sizes = (node.head_size, node.query_length)
    kernels = ", ".join(node.kernels) or "cannot tell"
    kind = "kernel" if node.kernels else "dim"
    shown = ["-" if size is None else number(size) for size in sizes]
    return [node.node, node.op_type, element("span", kernels, class_=kind), node.element_type or "-", *shown]
