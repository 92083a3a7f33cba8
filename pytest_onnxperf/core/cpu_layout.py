"""What the CPU's own layout of convolutions, NCHWc, changes in the nodes of a model, and what it does not.

Its blocks hold as many channels as a vector of the CPU, 8 or 16, and not every CPU has it, so that the same model has
other nodes on another CPU. Measured: one ReorderOutput on an AMD EPYC of family 25, two on one of family 26. Source of
the ops: ONNX Runtime's nchwc_transformer.cc, and conv_activation_fusion.cc for what it leaves to FusedConv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REORDERS: Final = frozenset({"ReorderInput", "ReorderOutput"})
_CONVOLUTIONS: Final = frozenset({"BatchNormalization", "Conv", "FusedConv"})
_RESIZES: Final = frozenset({"Resize", "Upsample"})
# Of these one becomes another, and none is lost.
_TAKEN_IN: Final = (
    frozenset({"Add", "Sum"}),
    frozenset({"Clip", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh"}),
    frozenset({"Mul"}),  # of HardSwish
    frozenset({"Transpose"}),
)
"""A convolution, or the reordering behind it, takes in at most one of each."""
_COUNTS: Final = ("nodes", "cpu_nodes", "nodes_by_provider.", "ops.", "fused_ops.FusedConv")


def explains(old_ops: Mapping[str, int], new_ops: Mapping[str, int]) -> bool:
    """Tell whether another CPU alone may have made one of these graphs of the other.

    Args:
        old_ops: `<provider>:<op type>` -> nodes, with `ReorderInput` or `ReorderOutput` on at least one side.
        new_ops: The same of the other graph.

    >>> explains({"CPU:Conv": 2, "CPU:ReorderOutput": 1}, {"CPU:Conv": 1, "CPU:FusedConv": 1})
    True
    >>> explains({"CPU:Conv": 2, "CPU:ReorderOutput": 1}, {"CPU:Conv": 3, "CPU:ReorderOutput": 1})
    False
    """
    old, new = _by_op(old_ops), _by_op(new_ops)
    if not _REORDERS & (old.keys() | new.keys()):
        return False
    most = sum(old.get(op, 0) for op in _CONVOLUTIONS)
    is_whole = all(_lost(old, new, ops) == 0 for ops in (_CONVOLUTIONS, _RESIZES))
    is_taken_in = all(abs(_lost(old, new, ops)) <= most for ops in _TAKEN_IN)
    rest = (old.keys() | new.keys()) - _REORDERS.union(_CONVOLUTIONS, _RESIZES, *_TAKEN_IN)
    return is_whole and is_taken_in and all(old.get(op, 0) == new.get(op, 0) for op in rest)


def _lost(old: Mapping[str, int], new: Mapping[str, int], ops: Iterable[str]) -> int:
    return sum(old.get(op, 0) - new.get(op, 0) for op in ops)


def touches(fact: str) -> bool:
    """Tell whether a layout changes a fact, `cpu_nodes` or `ops.CPUExecutionProvider:Conv`; it copies no memory."""
    return fact.startswith(_COUNTS)


def _by_op(ops: Mapping[str, int]) -> dict[str, int]:
    result: dict[str, int] = {}
    for name, count in ops.items():
        op_type = name.partition(":")[2]
        result[op_type] = result.get(op_type, 0) + count
    return result
