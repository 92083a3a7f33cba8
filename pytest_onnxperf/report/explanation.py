"""Why the facts are what they are, as lines of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.attention_budget import uses_text
from pytest_onnxperf.core.providers import CPU
from pytest_onnxperf.core.text import printable
from pytest_onnxperf.core.units import listed

from .profile import op_name, short_provider
from .roofline import roofline_lines
from .wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.attention import AttentionUse
    from pytest_onnxperf.core.explanation import Explanation, ModelExplanation, NotFlash
    from pytest_onnxperf.core.op_changes import OpChanges
    from pytest_onnxperf.core.placement import CpuGroup

_MOST: Final = 5
WHY_ON_CPU: Final = {
    "no_kernel": "the EP has no kernel for it",
    "type": "the EP has a kernel, not for these element types",
    "shape_computation": "on purpose, to compute shapes",
    "unknown": "no source tells why",
}


def explanation_lines(
    explanation: Explanation, *, with_attention: bool = True, with_roofline: bool = True
) -> Iterator[str]:
    """Yield what was found out: culprits, nodes on the CPU; attention and the roofline where they are wanted."""
    for model in explanation.models:
        yield from _placement(model)
        if with_attention:
            yield from not_flash_lines(model.not_flash)
        if with_roofline:
            yield from _rooflines(model)
    if explanation.why_not:
        yield from _wrapped(f"Could not be explained further: {explanation.why_not}")


def _placement(model: ModelExplanation) -> Iterator[str]:
    of = f" of {model.session}" if model.session else ""
    if model.culprits:
        yield f"Memcpy nodes{of}, and what forces them"
        for group in model.culprits[:_MOST]:
            yield from _wrapped(f"  {group.text}", "    ")
        yield from _more(len(model.culprits), "groups")
        if model.why_no_graph:
            yield from _wrapped(f"  Only suspected, without the optimised graph: {model.why_no_graph}", "    ")
    yield from _cpu_lines(model.placement.cpu_groups, of)
    for disagreement in model.placement.disagreements[:_MOST]:
        where = "; ".join(
            f"{source}: {', '.join(map(short_provider, providers))}"
            for source, providers in disagreement.execution_providers
        )
        yield from _wrapped(f"  Sources disagree on {disagreement.op_type} {disagreement.name}: {where}", "    ")
    yield from _more(len(model.placement.disagreements), "disagreements")


def _rooflines(model: ModelExplanation) -> Iterator[str]:
    for phase in model.rooflines:
        if phase.rows:
            yield ""
            yield from [f"In {phase.phase}"] if phase.phase else []
            yield from roofline_lines(phase.rows, model.ceilings)


def _cpu_lines(groups: Sequence[CpuGroup], of: str) -> Iterator[str]:
    if not groups:
        return
    yield f"Nodes on the CPU{of}, and why"
    for group in groups[:_MOST]:
        example = f", e.g. {group.example}" if group.example else ""
        yield from _wrapped(f"  {group.nodes} x {group.op_type}: {WHY_ON_CPU[group.why]}{example}", "    ")
    yield from _more(len(groups), "groups")


def attention_lines(uses: Sequence[AttentionUse]) -> Iterator[str]:
    """Yield the kernels of the attention nodes, those that ran alike on one line."""
    if uses:
        yield "Attention"
    for text in uses_text(uses):
        yield from _wrapped(f"  {text}", "    ")


def not_flash_lines(found: Sequence[NotFlash]) -> Iterator[str]:
    """Yield why attention nodes did not run Flash Attention; nodes with the same reasons are one line."""
    groups: dict[tuple[str, ...], list[NotFlash]] = {}
    for each in found:
        groups.setdefault(each.reasons, []).append(each)
    if groups:
        yield "Attention that is not Flash, and why"
    for reasons, group in list(groups.items())[:_MOST]:
        why = "; ".join(reasons) or "neither the model nor the device tells why"
        use = group[0].use
        phase = f" in {use.phase}" if use.phase else ""
        yield from _wrapped(f"  {len(group)} x {use.node.op_type}{phase}, {' and '.join(use.kernels)}: {why}", "    ")
    yield from _more(len(groups), "groups")


def op_change_lines(changes: Sequence[OpChanges]) -> Iterator[str]:
    """Yield what changed in the op tables since the baseline, and the ops that carry the lost time."""
    for change in changes:
        phase = "" if change.phase == "run" else f" in {change.phase}"
        yield f"Since the baseline, a run{phase}:"
        for moved in change.moved[:_MOST]:
            where = f"{short_provider(moved.before)} to {short_provider(moved.after)}"
            yield from _wrapped(f"  moved   {moved.executions} {moved.op_type}: {where}", " " * 10)
        yield from _more(len(change.moved), "moved")
        for word, counts in (("new", change.gained), ("lost", change.lost)):
            if counts:
                text = listed([f"{count} {op_name(op)}" for op, count in counts], _MOST)
                yield from _wrapped(f"  {word:<8}{text}", " " * 10)
        if change.counts:
            text = listed([f"{op_name(op)} {old} -> {new}" for op, old, new in change.counts], _MOST)
            yield from _wrapped(f"  count   {text}", " " * 10)
        slower = [time for time in change.times if time.lost_ms > 0][:_MOST]
        if slower and change.old_ms is not None and change.new_ms is not None:
            word, profiled = (
                ("slower", "profiled") if change.new_ms >= change.old_ms else ("time", "profiled, no slower")
            )
            yield from _wrapped(
                f"  {word:<8}node time {change.old_ms:.3g} -> {change.new_ms:.3g} ms, {profiled}: "
                + ", ".join(f"{op_name(time.op)} +{time.lost_ms:.2g} ms" for time in slower),
                " " * 10,
            )
            if any(not time.op.startswith(CPU) for time in slower):
                yield "          (the time to launch, for nodes that are not on the CPU)"


def _more(count: int, what: str) -> Iterator[str]:
    if count > _MOST:
        yield f"  and {count - _MOST} more {what}"


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return wrapped(printable(text), indent, break_long_words=True)
