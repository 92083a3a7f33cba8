"""The culprit of a memcpy node: what is known of it, and the sentence that says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .ops import MEMCPY_FROM_HOST, MEMCPY_TO_HOST
from .providers import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable

Direction = Literal["to_host", "from_host"]
Why = Literal[
    "no_kernel",
    "type",
    "shape_computation",
    "host_input",
    "host_output",
    "graph_input",
    "graph_output",
    "boundary",
    "unknown",
]
"""`no_kernel`: the provider has none for the node. `type`: it has one for the operator, not for these element types.
`shape_computation`: the runtime puts it on the CPU on purpose. `host_input`, `host_output`: it runs on the device and
takes, or leaves, this tensor in host memory. `graph_input`: an input is used on both sides. `graph_output`: it leaves
the graph. `boundary`: it enters or leaves a subgraph. `unknown`: no source tells."""

RARE_TYPES: Final = frozenset({"int64", "double", "string", "uint64", "complex64", "complex128"})
"""Element types that a kernel of a device seldom takes: they are worth a word."""
_CAUSES: Final[dict[Why, str]] = {
    "no_kernel": "; {provider} has no kernel for this node",
    "type": "; {provider} has no kernel for this node's element types",
    "shape_computation": "; this node is on the CPU on purpose, to compute shapes",
    "host_input": "; this node runs on {provider}",
}


@dataclass(frozen=True, slots=True)
class Culprit:
    """A memcpy node and the node that makes it necessary."""

    memcpy: str
    """The memcpy node's name, unique in its graph only; empty without a graph."""
    graph: tuple[str, ...]
    """Subgraphs it stands in, from the main graph inwards: `("end/Loop:body",)`."""
    direction: Direction
    tensor: str
    """Its name in the model; empty where it is not known."""
    node: str
    """The node that forces the copy; empty where it has no name or is not known, which `op_type` tells."""
    op_type: str
    """Empty where the node is not known."""
    domain: str
    opset: int | None
    """Of the node's domain; None where it is not known."""
    why: Why
    provider: str
    runtime: str
    """`ORT 1.24.4`."""
    input_index: int | None = None
    """Which input of the node takes the tensor; None for a copy of what the node makes."""
    input_name: str = ""
    """Of an input that is known to be taken in host memory."""
    element_types: tuple[str, ...] = ()
    """Of the node's first input and its outputs, as far as they are known, without what it takes in host memory."""
    others: tuple[str, ...] = ()
    """Further nodes that take the tensor on the host; without a graph, the nodes on the CPU, which may force it."""
    detail: str = ""
    """What the tensor is, or why the node is not known."""
    cause: Why = "unknown"
    """For `graph_input` and `boundary`: why the node takes the tensor on the host."""


@dataclass(frozen=True, slots=True)
class CulpritGroup:
    """Culprits that are alike."""

    count: int
    """Memcpy nodes, not their executions."""
    example: Culprit
    """The first of them."""

    @property
    def text(self) -> str:
        """What they are and why, with one node's name."""
        one = self.example
        if not one.op_type:
            of = " of" if self.count == 1 else ", e.g. of"
            return f"{self.count} x copy {_where(one)}{of} {_tensor(one)}: {_reason(one)}"
        version = f" ({_opset(one)})" if one.opset is not None else ""
        example = repr(one.node) if one.node != one.node.strip() or "\n" in one.node else one.node
        example = example or f"the one without a name at {_tensor(one)}"
        copy = MEMCPY_TO_HOST if one.direction == "to_host" else MEMCPY_FROM_HOST
        return f"{self.count} x {one.op_type}{version}: {_reason(one)}, e.g. {example} ({copy})"


def group(culprits: Iterable[Culprit]) -> tuple[CulpritGroup, ...]:
    """Return culprits by operator, opset, reason and direction, most first."""
    counts: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Culprit] = {}
    for one in culprits:
        index = one.input_index if one.why == "host_input" else None
        alike = one.domain, one.op_type, one.opset, one.why, one.direction, one.cause, index, one.detail
        counts[alike] += 1
        first.setdefault(alike, one)
    return tuple(CulpritGroup(count, first[alike]) for alike, count in counts.most_common())


def boundary_note(provider: str, feeds_on_host: bool) -> str:
    """Return what to know of the copies where a run begins and ends, which are no nodes and no culprits.

    Source: onnxruntime utils.cc, `CopyInputsAcrossDevices`; issues #25852 and #11254.
    """
    if provider == CPU or not feeds_on_host:
        return ""
    return (
        f"{provider} copies inputs that are given on the host, and outputs that are wanted there, where a run begins "
        "and ends: these copies are no nodes and are not counted. Bind inputs and outputs to the device to avoid them"
    )


def _opset(one: Culprit) -> str:
    return f"opset {one.opset}" if not one.domain else f"{one.domain} {one.opset}"


def _where(one: Culprit) -> str:
    return "to the host" if one.direction == "to_host" else "from the host"


def _tensor(one: Culprit) -> str:
    return repr(one.tensor) if one.tensor else "a tensor"


def _reason(one: Culprit) -> str:
    types = f" ({', '.join(one.element_types)})" if one.element_types else ""
    rare_types = types if RARE_TYPES & set(one.element_types) else ""
    which = f" {one.input_index}" if one.input_index is not None else ""
    named = f" ({one.input_name})" if one.input_name else ""
    texts: dict[Why, str] = {
        "no_kernel": f"{one.provider} has no kernel for it in {one.runtime}{rare_types}",
        "type": f"{one.provider} has no kernel in {one.runtime} for its element types{types}, though for the operator",
        "shape_computation": f"{one.runtime} puts it on the CPU on purpose, to compute shapes there",
        "host_input": f"it runs on {one.provider} and takes input{which}{named} in host memory",
        "host_output": f"it runs on {one.provider} and leaves its output in host memory",
        "graph_output": f"its output {_tensor(one)} leaves the graph",
        "unknown": one.detail or "it takes or makes the tensor on the host, and no source tells why",
    }
    if one.why in texts:
        return texts[one.why]
    cause = _CAUSES.get(one.cause, "").format(provider=one.provider)
    if one.input_index is None:
        return f"{_tensor(one)} is {one.detail}"
    return f"it takes {_tensor(one)}, {one.detail}, on the host, and {one.provider} takes it too{cause}"
