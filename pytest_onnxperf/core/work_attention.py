"""The floating-point operations and the least bytes of the attention operators, from the shapes of a profile.

FLOP of S queries over T keys: 2 * S * T * d for the scores and as much for the values, a head and a batch entry; the
softmax is left out. The whole score matrix is counted: the profile shows neither `unidirectional`, `is_causal` nor
`local_window_size`, so whether a mask halves it cannot be told. Source: flash-attention, `flops()` of
benchmarks/benchmark_flash_attention.py, `4 * batch * seqlen**2 * nheads * headdim // (2 if causal else 1)`, without its
last factor. Where an operator is always causal and has more than one query, that is an upper bound, and marked as such.

Heads need not be known: heads * d is the hidden size. Shapes: ONNX Runtime's docs/ContribOperators.md, and ONNX's
docs/Operators.md for the `Attention` of `ai.onnx`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .profile_detail import Tensor
from .work import Work, tensor_bytes, total_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .work import Count, Shape, Tensors


def _is_float(tensor: Tensor) -> bool:
    return "float" in tensor.element_type


def _past_keys(inputs: Tensors, present: Shape) -> int:
    """Return how many keys the past holds, 0 without one: two neighbours that are `present` but for their keys."""
    for key, value in pairwise(inputs):
        if len(key.shape) == len(value.shape) == 4 and key.shape[:3] == value.shape[:3]:
            batch, heads, keys, size = key.shape
            if (batch, heads, size) == (*present[:2], present[3]):
                return keys
    return 0


def _keys(inputs: Tensors, outputs: Tensors, new_keys: int) -> tuple[int, bool]:
    """Return how many keys there are, and whether that is the extent of a buffer that need not be full.

    `present` is [batch, heads, keys, d]. Where it is no longer than `past` it shares its buffer, of `max_length` keys.
    """
    if len(outputs) < 2:
        return new_keys, False
    present = outputs[1].shape
    if len(present) != 4:
        return new_keys, False
    return present[2], present[2] != _past_keys(inputs, present) + new_keys


def _least_bytes(inputs: Tensors, outputs: Tensors, queries: int, *, is_shared: bool) -> int | None:
    """Return inputs and outputs once, but of what is longer than the run needs only the part that it needs.

    Of the rotary caches (float, two-dimensional) that is a row a query; of a present that shares the buffer of the past
    it is what is written, a key a query.
    """
    read = [_shortened(t, 0, queries) if _is_float(t) and len(t.shape) == 2 else t for t in inputs]
    written = [_shortened(t, 2, queries) if is_shared and len(t.shape) == 4 else t for t in outputs]
    return total_bytes(read + written)


def _shortened(tensor: Tensor, axis: int, most: int) -> Tensor:
    extents = list(tensor.shape)
    extents[axis] = min(extents[axis], most)
    return replace(tensor, shape=tuple(extents))


def _made(flop: int, least_bytes: int | None, query: Tensor, is_upper_bound: bool) -> Work | None:
    return None if least_bytes is None else Work(flop, least_bytes, query.element_type, is_upper_bound)


def _grouped(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count GroupQueryAttention, always causal. The query may hold keys and values too: `out` tells its size."""
    if not inputs or not outputs:
        return None
    query, out = inputs[0], outputs[0]
    if len(query.shape) != 3 or len(out.shape) != 3 or query.shape[:2] != out.shape[:2]:
        return None
    queries = out.shape[1]
    keys, is_shared = _keys(inputs, outputs, queries)
    least_bytes = _least_bytes(inputs, outputs, queries, is_shared=is_shared)
    return _made(4 * keys * math.prod(out.shape), least_bytes, query, is_shared or queries > 1)


def _sparse(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count SparseAttention as if it were dense: which blocks it skips is data."""
    work = _grouped(inputs, outputs)
    return None if work is None else replace(work, is_upper_bound=True)


def _multi_head(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count MultiHeadAttention and its decoder: query, key and value apart, or packed with five dimensions."""
    if not inputs or not outputs or len(outputs[0].shape) != 3:
        return None
    query, out = inputs[0], outputs[0]
    if query.shape[:2] != out.shape[:2]:
        return None
    batch, queries, _ = out.shape
    width: int | None = None
    new_keys = queries
    if len(query.shape) == 5:  # [batch, queries, heads, 3, d]
        width = query.shape[2] * query.shape[4]
    elif len(query.shape) == 3 and len(inputs) > 1 and _is_float(inputs[1]) and inputs[1].shape[:1] == (batch,):
        key = inputs[1].shape  # [batch, keys, hidden], [batch, keys, heads, 2, d] or [batch, heads, keys, d]
        if len(key) in (3, 5) or (len(key) == 4 and len(outputs) == 1):
            width, new_keys = query.shape[2], key[2] if len(key) == 4 else key[1]
    if width is None:
        return None
    keys, is_shared = _keys(inputs[1:], outputs, new_keys)
    flop = 2 * batch * queries * keys * (width + out.shape[2])
    return _made(flop, _least_bytes(inputs, outputs, queries, is_shared=is_shared), query, is_shared)


def _attention(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count `Attention`: that of `ai.onnx` has keys like its queries, that of `com.microsoft` has weights there."""
    if not inputs or not outputs:
        return None
    if len(inputs) > 2 and _is_float(inputs[1]) and len(inputs[1].shape) == len(inputs[0].shape):
        return _onnx_attention(inputs, outputs)
    return _microsoft_attention(inputs, outputs)


def _onnx_attention(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count [batch, heads, queries, d], or [batch, queries, heads * d]."""
    query, key, value, out = *inputs[:3], outputs[0]
    if len(query.shape) not in (3, 4) or query.shape[:-1] != out.shape[:-1] or key.shape[:-1] != value.shape[:-1]:
        return None
    queries, new_keys = query.shape[-2], key.shape[-2]
    keys, is_partial = _keys(inputs[3:], outputs, new_keys)
    has_lengths = any(t.element_type == "int64" and len(t.shape) == 1 for t in inputs[3:])  # nonpad_kv_seqlen
    flop = 2 * keys * (math.prod(query.shape) + math.prod(out.shape))
    least_bytes = _least_bytes(inputs, outputs, queries, is_shared=False)
    return _made(flop, least_bytes, query, is_partial or has_lengths)


def _microsoft_attention(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count the projection by weights [input, q + k + v] too; where they are packed, their width is the bias's."""
    x, out = inputs[0], outputs[0]
    if len(x.shape) != 3 or len(out.shape) != 3 or x.shape[:2] != out.shape[:2]:
        return None
    weights = [t for t in inputs[1:] if _is_float(t) and len(t.shape) == 2]
    biases = [t for t in inputs[1:] if _is_float(t) and len(t.shape) == 1]
    widths = {t.shape[-1] for t in (*weights, *biases)}
    if len(widths) != 1 or len(weights) > 1 or any(t.shape[0] != x.shape[2] for t in weights):
        return None
    width, (batch, queries, value_width) = widths.pop(), out.shape
    query_width, odd = divmod(width - value_width, 2)  # queries and keys have the same
    if odd or query_width <= 0:
        return None
    present = outputs[1].shape if len(outputs) > 1 else ()  # [2, batch, heads, keys, d]
    keys = present[3] if len(present) == 5 else queries
    past = sum(t.shape[3] for t in inputs[1:] if len(t.shape) == 5)
    flop = 2 * batch * queries * (x.shape[2] * width + keys * (query_width + value_width))
    hidden = 0 if weights else tensor_bytes(x.element_type, (x.shape[2], width))
    visible = total_bytes((*inputs, *outputs))
    least_bytes = None if visible is None or hidden is None else visible + hidden
    return _made(flop, least_bytes, x, keys != past + queries)


def _packed(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count PackedMultiHeadAttention, [tokens, ...] of a batch without padding, by `token_offset` [batch, longest].

    At most each sequence is as long as the longest; that is exact where no token is missing.
    """
    if not inputs or not outputs or len(outputs[0].shape) != 2 or inputs[0].shape[:1] != outputs[0].shape[:1]:
        return None
    query, out = inputs[0], outputs[0]
    offsets = next((t.shape for t in inputs[1:] if not _is_float(t) and len(t.shape) == 2), None)
    if offsets is None or len(query.shape) not in (2, 4):
        return None
    width = query.shape[1] if len(query.shape) == 2 else query.shape[1] * query.shape[3]  # [tokens, heads, 3, d]
    tokens, longest = out.shape[0], offsets[1]
    flop = 2 * tokens * longest * (width + out.shape[1])
    return _made(flop, total_bytes((*inputs, *outputs)), query, tokens != math.prod(offsets))


def _paged(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count PagedAttention by its block table [batch, blocks of a sequence]: how many are in use is data."""
    if not inputs or not outputs or len(outputs[0].shape) != 2 or inputs[0].shape[:1] != outputs[0].shape[:1]:
        return None
    query, out = inputs[0], outputs[0]
    table = next((t.shape for t in inputs[1:] if not _is_float(t) and len(t.shape) == 2), None)
    caches = [t.shape for t in inputs[1:] if len(t.shape) == 4]  # [blocks, tokens of a block, heads, d]
    if table is None or len(caches) != 2:
        return None
    tokens, blocks = out.shape[0], math.prod(table)
    read = [_shortened(t, 0, blocks) if len(t.shape) == 4 else t for t in inputs]
    written = [Tensor(t.element_type, (tokens, *t.shape[2:])) if len(t.shape) == 4 else t for t in outputs]
    least_bytes = _least_bytes(tuple(read), tuple(written), tokens, is_shared=False)
    return _made(4 * math.prod(out.shape) * table[1] * caches[0][1], least_bytes, query, True)


ATTENTION: Final[Mapping[str, Count]] = {
    "GroupQueryAttention": _grouped,
    "SparseAttention": _sparse,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _multi_head,
    "Attention": _attention,
    "PackedMultiHeadAttention": _packed,
    "PagedAttention": _paged,
}
"""Operator -> how its work is counted, from the inputs and outputs of one execution."""
