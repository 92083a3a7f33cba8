"""Where a node ran and why it is on the CPU, as far as the log, the profile and the graph tell.

Source of the rules: onnxruntime kernel_registry.cc (a kernel is looked up by operator, domain, opset and element
types), cuda_execution_provider.cc and webgpu_execution_provider.cc (`kernel not found in registries`),
fallback_cpu_capability.cc (`Force fallback`), session_state.cc (the placements of a verbose log).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal

from .graph import GraphNode, Model, places
from .profile import is_made_up_name
from .providers import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .ort_log import OrtLog
    from .profile import NodeKey, NodeTotal

WhyOnCpu = Literal["shape_computation", "type", "no_kernel", "unknown"]
"""It was put there to compute shapes; the provider has a kernel, not for these element types; it has none; no source
tells."""

_OF_TWO_DOMAINS: Final = frozenset(
    (
        "Attention", "CausalConvWithState", "DequantizeLinear", "GatherND", "Gelu", "GridSample", "LinearAttention",
        "Pad", "QLinearConv", "QuantizeLinear", "Range", "RotaryEmbedding", "SwiGLU", "Trilu", "Unique",
    )
)  # fmt: skip
"""Operators that ai.onnx and com.microsoft both have (the schemas of 1.32): a log, which has no domain, mixes them."""


def log_name(name: str) -> str:
    """Return what the log has of a node's name: its first line."""
    return name.split("\n", 1)[0].rstrip()


class Evidence:
    """What is known of the nodes of one session."""

    def __init__(self, log: OrtLog, nodes: Mapping[NodeKey, NodeTotal], model: Model | None = None) -> None:
        """Gather it.

        Args:
            log: At least of severity 1; the placements stand in a verbose one only.
            nodes: The profile's, perhaps empty.
            model: The optimised graph, which tells the domains.
        """
        self._log = log
        self._logged: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for node in log.placed:
            self._logged[node.name, node.op_type].add(node.execution_provider)
        self._profiled: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for key in nodes:
            if key.execution_provider:
                self._profiled[key.name, key.op_type].add(key.execution_provider)
                if is_made_up_name(key.name, key.op_type):
                    self._profiled["", key.op_type].add(key.execution_provider)
        self._has_domains = model is not None
        self._on_device = self._ops_of(model) if model else self._ops()

    def _ops(self) -> set[tuple[str, str]]:
        found = (*self._logged.items(), *self._profiled.items())
        return {("", op_type) for (_, op_type), providers in found if CPU not in providers}

    def _ops_of(self, model: Model) -> set[tuple[str, str]]:
        nodes = (node for place in places(model.graph) for node in place.graph.nodes)
        return {(node.domain, node.op_type) for node in nodes if self.is_on_cpu(node.name, node.op_type) is False}

    def providers(self, name: str, op_type: str) -> frozenset[str]:
        """Return where nodes of that name and operator are; several where the name is not unique, none if unknown."""
        found = self._logged.get((name, op_type)) or self._profiled.get((name, op_type))
        if found:
            return frozenset(found)
        return frozenset({self._log.all_placed_on} - {""})

    def is_on_cpu(self, name: str, op_type: str) -> bool | None:
        """Tell whether a node is on the CPU; None where that is not known or differs between nodes of that name."""
        found = self.providers(name, op_type)
        if CPU in found:
            return True if len(found) == 1 else None
        return False if found else None

    def why_on_cpu(self, name: str, op_type: str, domain: str = "") -> WhyOnCpu:
        """Return why a node of the CPU is there."""
        if log_name(name) in self._log.forced_cpu_nodes:
            return "shape_computation"
        if not self._lacks_kernel(name, op_type):
            return "unknown"
        if not self._has_domains and op_type in _OF_TWO_DOMAINS:
            return "no_kernel"
        return "type" if (domain if self._has_domains else "", op_type) in self._on_device else "no_kernel"

    def _lacks_kernel(self, name: str, op_type: str) -> bool:
        if self._log.missing_kernels.get(log_name(name)) == op_type:
            return True
        is_unnamed = not name or is_made_up_name(name, op_type)
        return is_unnamed and op_type in self._log.missing_unnamed

    def why(self, node: GraphNode) -> WhyOnCpu:
        """Return why a node of the graph is on the CPU."""
        return self.why_on_cpu(node.name, node.op_type, node.domain)
