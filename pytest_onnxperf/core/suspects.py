"""What can be said of memcpy nodes where the optimised graph is not there: which tensors, which nodes on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .culprit import Culprit, Direction
from .ops import MEMCPY_OPS, MEMCPY_TO_HOST
from .providers import CPU
from .units import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .ort_log import OrtLog
    from .profile import NodeKey, NodeTotal

_MOST: Final = 3


def culprits_without_graph(
    log: OrtLog, nodes: Mapping[NodeKey, NodeTotal], provider: str, runtime: str, why_no_graph: str
) -> tuple[Culprit, ...]:
    """Return one for each copy that the log names, else for each memcpy node of the profile; see `culprits_of`."""
    copies = [("", op_type, tensor) for op_type, tensor in log.copied_tensors]
    copies = copies or [(key.name, key.op_type, "") for key in nodes if key.op_type in MEMCPY_OPS]
    suspects = _on_cpu(log, nodes)
    detail = f"which node forces it cannot be told: {why_no_graph or 'the optimised graph is not there'}"
    if suspects:
        detail += f"; on the CPU: {listed(suspects, _MOST)}"
    return tuple(
        Culprit(
            memcpy=name,
            graph=(),
            direction=_direction(op_type),
            tensor=tensor,
            node="",
            op_type="",
            domain="",
            opset=None,
            why="unknown",
            provider=provider,
            runtime=runtime,
            others=suspects,
            detail=detail,
        )
        for name, op_type, tensor in copies
    )


def _direction(op_type: str) -> Direction:
    return "to_host" if op_type == MEMCPY_TO_HOST else "from_host"


def _on_cpu(log: OrtLog, nodes: Mapping[NodeKey, NodeTotal]) -> tuple[str, ...]:
    """Return operator and name of the nodes on the CPU, those without a kernel first."""
    found = {f"{op_type} {name}".strip(): None for name, op_type in log.missing_kernels.items()}
    on_cpu = [(key.op_type, key.name) for key in nodes if key.execution_provider == CPU]
    on_cpu += [(node.op_type, node.name) for node in log.placed if node.execution_provider == CPU]
    return tuple(found | {f"{op_type} {name}".strip(): None for op_type, name in on_cpu})
