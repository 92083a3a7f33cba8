"""Casts that another Cast turns back, by the tensors of a profiled run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .profile_detail import NodeExecution, Tensor


def cast_pairs(executions: Sequence[NodeExecution]) -> int:
    """Count the casts from one type to another of which a later Cast, of the same shape, goes the other way.

    The profile has no names of tensors, so that two casts with equal shapes may be no pair: a hint, and no fact.

    Args:
        executions: The nodes of one run, in order.
    """
    open_casts: Counter[tuple[Tensor, Tensor]] = Counter()
    pairs = 0
    for execution in executions:
        if execution.key.op_type != "Cast" or len(execution.inputs) != 1 or len(execution.outputs) != 1:
            continue
        source, target = execution.inputs[0], execution.outputs[0]
        if open_casts[target, source]:
            open_casts[target, source] -= 1
            pairs += 1
        else:
            open_casts[source, target] += 1
    return pairs
