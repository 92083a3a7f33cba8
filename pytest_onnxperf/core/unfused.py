"""Finds attention that runs as separate operators, by the shapes of MatMul, Softmax, MatMul in a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .profile_detail import NodeExecution

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PRODUCTS: Final = frozenset({"MatMul", "FusedMatMul", "TransposeMatMul", "Gemm", "Einsum", "MatMulIntegerToFloat"})
_SOFTMAXES: Final = frozenset({"Softmax", "BiasSoftmax"})
# Between the products and the softmax stand scale, mask, casts and reshapes: a choice, above what exporters write.
_APART: Final = 24
_LEAST_RANK: Final = 3  # scores are [batch, heads, query, key] or [batch * heads, query, key]; classes are [batch, n]


@dataclass(frozen=True, slots=True)
class UnfusedAttention:
    """The three operators of one attention."""

    product: NodeExecution
    """Query times key."""
    softmax: NodeExecution
    second: NodeExecution
    """Probabilities times value."""

    @property
    def query_length(self) -> int:
        """The last extent but one of the scores."""
        return self.softmax.inputs[0].shape[-2]

    @property
    def head_size(self) -> int:
        """The last extent of what the second product makes."""
        return self.second.outputs[0].shape[-1]


def unfused_attention(executions: Sequence[NodeExecution]) -> Iterator[UnfusedAttention]:
    """Yield each MatMul, Softmax, MatMul of one run of which the shapes fit: scores in, and the same shape on.

    A profile without shapes yields none.

    Args:
        executions: The nodes of one run, in order.
    """
    for place, softmax in enumerate(executions):
        if softmax.key.op_type not in _SOFTMAXES or not softmax.inputs or not softmax.outputs:
            continue
        shape = softmax.inputs[0].shape
        if len(shape) < _LEAST_RANK:
            continue
        before = executions[max(place - _APART, 0) : place]
        after = executions[place + 1 : place + 1 + _APART]
        product = next((each for each in reversed(before) if _makes(each, shape)), None)
        second = next((each for each in after if _takes(each, shape)), None)
        if product is not None and second is not None:
            yield UnfusedAttention(product, softmax, second)


def _makes(execution: NodeExecution, shape: tuple[int, ...]) -> bool:
    """Tell whether a product has the scores for its output, heads apart or not."""
    if execution.key.op_type not in _PRODUCTS or not execution.outputs:
        return False
    return _is_alike(execution.outputs[0].shape, shape)


def _takes(execution: NodeExecution, shape: tuple[int, ...]) -> bool:
    """Tell whether a product has the probabilities for its first input."""
    if execution.key.op_type not in _PRODUCTS or len(execution.inputs) < 2 or not execution.outputs:
        return False
    return _is_alike(execution.inputs[0].shape, shape)


def _is_alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if len(one) < _LEAST_RANK or one[-2:] != other[-2:]:
        return False
    return math.prod(one) == math.prod(other)
