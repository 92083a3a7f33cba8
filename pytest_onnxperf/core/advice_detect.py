"""How the causes in `advice.CAUSES` are detected: each function returns what shows one, or an empty text."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from .attention_names import UNFUSED
from .providers import CPU
from .roofline import MEMORY_BOUND
from .situation import ASKED
from .units import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .culprit import Culprit
    from .explanation import ModelExplanation
    from .facts import Facts
    from .situation import Situation

# Choices: below them a cause is there and explains little.
_SHARE: Final = 0.05
_SPIKE_RATIO: Final = 5.0
_PAIRS: Final = 2
_MOST_HEAD_SIZE: Final = 256
_MOST: Final = 3
_INTEGER_OPS: Final = frozenset(
    {"ArgMax", "ArgMin", "CumSum", "Mod", "NonZero", "Range", "ScatterND", "TopK", "Unique"}
)
_CONVOLUTIONS: Final = frozenset({"Conv", "FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv", "ConvTranspose"})
# What exporters compute shapes with; beside a Shape or Size, and in int64, they are that.
_SHAPE_OPS: Final = frozenset(
    {"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Gather", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"}
)
_METADATA_OPS: Final = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")
_COPIES: Final = frozenset({"memcpy", "memcpy_to_host", "memcpy_from_host", "memcpy_share", "cpu_nodes", "attention"})
_TIMES: Final = frozenset(
    ("latency_p50", "latency_p90", "latency_p99", "throughput", "ttft", "prefill_throughput", "decode_throughput",
     "itl_p50", "itl_p99")
)  # fmt: skip
_SLOW: Final = _TIMES | {ASKED}
_DECODE: Final = frozenset({"decode_throughput", "itl_p50", "itl_p99"})


def _culprits(situation: Situation, *why: str) -> Iterator[tuple[int, Culprit]]:
    for model in situation.models:
        for group in model.culprits:
            if group.example.why in why or group.example.cause in why:
                yield group.count, group.example


def _listed(parts: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(parts)), _MOST)


def opset_without_kernel(situation: Situation) -> str:
    """Nodes for which the EP has no kernel at this opset and these types."""
    changed = [
        f"{nodes} x {op_type} (changed in opset {model.changed_ops[op_type]})"
        for model, op_type, nodes in _without_kernel(situation)
        if op_type in model.changed_ops
    ]
    return f"no kernel for {_listed(changed)}" if changed else ""


def op_without_kernel(situation: Situation) -> str:
    """Nodes for which the EP has no kernel, and which no older opset would help."""
    found = [
        f"{nodes} x {op_type}"
        for model, op_type, nodes in _without_kernel(situation)
        if op_type not in model.changed_ops
    ]
    return f"no kernel for {_listed(found)}" if found else ""


def _without_kernel(situation: Situation) -> Iterator[tuple[ModelExplanation, str, int]]:
    """Yield operators that the EP has no kernel for, those left out that are there for their integers."""
    if not situation.failed & _COPIES:
        return
    for model in situation.models:
        others = _INTEGER_OPS | _CONVOLUTIONS | frozenset(model.rare_types)
        for group in model.placement.cpu_groups:
            if group.why == "no_kernel" and group.op_type not in others:
                yield model, group.op_type, group.nodes


def integer_op_on_cpu(situation: Situation) -> str:
    """Operators that are on the CPU because of their element types."""
    if not situation.failed & _COPIES or situation.is_on_cpu:
        return ""
    named = []
    chain = _chained(situation)
    for model in situation.models:
        for group in model.placement.cpu_groups:
            kind = model.rare_types.get(group.op_type, "")
            if group.op_type in chain:
                continue
            if group.why == "type" or (group.why == "no_kernel" and (kind or group.op_type in _INTEGER_OPS)):
                named.append(f"{group.op_type}{f' ({kind})' if kind else ''}")
    whose = "its" if len(set(named)) == 1 else "their"
    return f"{_listed(named)} on the CPU for {whose} element types" if named else ""


def _chained(situation: Situation) -> list[str]:
    """Return the operators on the CPU that compute shapes, of which the runtime does not say that it put them there."""
    if not any(op.endswith((":Shape", ":Size")) for op in _ops(situation)):
        return []
    return [
        group.op_type
        for model in situation.models
        for group in model.placement.cpu_groups
        if group.op_type in _SHAPE_OPS and model.rare_types.get(group.op_type) == "int64"
    ]


def conv_on_cpu(situation: Situation) -> str:
    """Convolutions on the CPU beside a device."""
    if situation.is_on_cpu or not situation.failed & (_COPIES | _SLOW):
        return ""
    ops = [op.split(":")[1] for op in _ops(situation) if op.startswith(f"{CPU}:")]
    found = [op for op in ops if op in _CONVOLUTIONS]
    return f"{_listed(found)} on the CPU" if found else ""


def shape_chain(situation: Situation) -> str:
    """Nodes that compute shapes on the CPU, where copies matter."""
    facts = situation.record.facts
    if not situation.failed & _COPIES or facts is None:
        return ""
    forced = [culprit.op_type for _, culprit in _culprits(situation, "shape_computation")]
    forced += [counted.node.op_type for counted in facts.shape_nodes]
    forced += _chained(situation)
    return f"shapes are computed on the CPU ({_listed(forced)})" if forced else ""


def host_input(situation: Situation) -> str:
    """Operators of the device that take an input in host memory."""
    if not situation.failed & _COPIES:
        return ""
    found = [
        f"{culprit.op_type} takes {culprit.input_name or f'input {culprit.input_index}'}"
        for _, culprit in _culprits(situation, "host_input")
    ]
    return f"{_listed(found)} in host memory" if found else ""


def large_heads(situation: Situation) -> str:
    """Attention with heads that no Flash kernel takes."""
    facts = situation.record.facts
    sizes = {use.head_size for use in (facts.attention if facts else ()) if use.head_size}
    large = sorted(size for size in sizes if size > _MOST_HEAD_SIZE)
    return f"head size {large[-1]}" if large and "attention" in situation.failed else ""


def unfused_attention(situation: Situation) -> str:
    """Attention that runs as products and a softmax."""
    facts = situation.record.facts
    if not situation.failed & (_SLOW | {"attention", "fused_ops"}) or facts is None:
        return ""
    count = sum(UNFUSED in use.kernels for use in facts.attention)
    return f"unfused attention in {count} node{'' if count == 1 else 's'}" if count else ""


def replayed_graph(situation: Situation) -> str:
    """A profile of a replayed graph, of which nothing can be told."""
    return "a captured graph was replayed" if "replayed a captured graph" in situation.record.unavailable_facts else ""


def lost_fusion(situation: Situation) -> str:
    """A required operator that did not run, or fewer fused ones than recorded."""
    if "fused_ops" in situation.failed:
        return "a fusion was lost"
    return "a required operator did not run" if "ops" in situation.failed else ""


def cast_pairs(situation: Situation) -> str:
    """Casts that are turned back."""
    pairs = sum(model.cast_pairs for model in situation.models)
    return f"{pairs} Casts are turned back by another" if pairs >= _PAIRS and situation.failed & _SLOW else ""


def transposes(situation: Situation) -> str:
    """Transposes that cost time."""
    share = _share(situation, ("Transpose",))
    return f"Transpose takes {share:.0%} of the node time" if share >= _SHARE and situation.failed & _SLOW else ""


def metadata_ops(situation: Situation) -> str:
    """Reshapes and their like that cost time."""
    share = _share(situation, _METADATA_OPS)
    if share < _SHARE or not situation.failed & _SLOW:
        return ""
    return f"operators that only change a shape take {share:.0%} of the node time"


def memory_bound_decode(situation: Situation) -> str:
    """Decode of which the products move more bytes than the device's arithmetic could use."""
    batch_size = situation.record.options.get("batch_size", "1")
    if not situation.failed & (_DECODE | {ASKED}) or batch_size != "1":
        return ""
    for model in situation.models:
        for phase in model.rooflines:
            heavy = max(phase.rows, key=lambda row: row.flop_per_run, default=None)
            if phase.phase == "decode" and heavy is not None and heavy.bound == MEMORY_BOUND:
                intensity = f"{heavy.flop_per_byte:.2g} FLOP/byte"
                return f"{heavy.op_type} of a decode step at batch 1 is bound by memory ({intensity})"
    return ""


def long_max_length(situation: Situation) -> str:
    """A KV cache as long as the context."""
    options = situation.record.options
    longest, context = options.get("max_length", ""), options.get("context_length", "")
    if not situation.failed & (_TIMES | {"peak_rss", "peak_vram"}) or not longest or longest != context:
        return ""
    return f"max_length is the whole context, {context}"


def first_run_spike(situation: Situation) -> str:
    """A first run that takes far longer than the others."""
    first, usual = (situation.record.metrics.get(name) for name in ("cold_start", "latency_p50"))
    if "cold_start" not in situation.failed:
        return ""
    if first and usual and median(first) > _SPIKE_RATIO * median(usual):
        return f"the first run takes {median(first) / median(usual):.0f} times as long as the others"
    return "the first run"


def default_threads(situation: Situation) -> str:
    """Times on the CPU with as many threads as there are cores."""
    if not situation.is_on_cpu or not situation.failed & _TIMES:
        return ""
    threads = situation.record.threads
    return f"measured with {threads} intra-op thread{'' if threads == 1 else 's'}" if threads else ""


def unexplained_memcpy(situation: Situation) -> str:
    """Memcpy nodes of which no culprit is known."""
    if not situation.failed & {"memcpy", "memcpy_to_host", "memcpy_from_host", "memcpy_share"}:
        return ""
    return "" if any(model.culprits for model in situation.models) else "memcpy nodes"


def unexplained_cpu_nodes(situation: Situation) -> str:
    """Nodes on the CPU beside a device, of which no reason is known."""
    if "cpu_nodes" not in situation.failed or situation.is_on_cpu:
        return ""
    explained = any(group.why != "unknown" for model in situation.models for group in model.placement.cpu_groups)
    return "" if explained else "nodes on the CPU"


def limited_on_the_cpu(situation: Situation) -> str:
    """A broken limit of nodes on the CPU where the CPU was asked for."""
    is_limited = "max_cpu_nodes" in situation.over_budget and situation.is_on_cpu
    return "on the CPU every node counts" if is_limited else ""


def prefill(situation: Situation) -> str:
    """A TTFT that failed."""
    return "TTFT is the prefill of the whole prompt" if situation.failed & {"ttft", "prefill_throughput"} else ""


def slower(situation: Situation) -> str:
    """Any time that failed."""
    return "slower than it should be" if situation.failed & _TIMES else ""


def _ops(situation: Situation) -> Iterable[str]:
    facts: Facts | None = situation.record.facts
    return facts.ops if facts else ()


def _share(situation: Situation, op_types: tuple[str, ...]) -> float:
    facts = situation.record.facts
    rows = facts.op_table if facts else ()
    return sum(row.self_share_ratio for row in rows if row.op_type in op_types)
