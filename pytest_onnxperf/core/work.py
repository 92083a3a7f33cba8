"""The floating-point operations and the least bytes of matrix products and convolutions, from the shapes of a profile.

FLOP: a multiply and an add are 2. Source: the definition of the product, 2 * M * N * K, as in NVIDIA's "Matrix
Multiplication Background User's Guide" (section 2); a convolution is the product of its implicit GEMM, padding counted.

Bytes: each input read once and each output written once, whatever the caches do: the least that must move. Source:
Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009 (compulsory traffic).

The profile leaves out missing inputs, and weights that the kernel packed when the session was made: the CPU's products
show one matrix only. Such a weight is two-dimensional (ONNX Runtime, `MatMulIntegerBase::PrePack` and `GemmPackBFp32`:
"Only handle the common case of a 2D weight matrix"), so that its shape follows from those of the other two. The packed
weight of a convolution or of `MatMulNBits` does not follow, and the work is then not told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .profile_detail import Tensor

    Shape = tuple[int, ...]
    Tensors = tuple[Tensor, ...]
    Count = Callable[[Tensors, Tensors], "Work | None"]

_BITS: Final = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4e2m1": 4,
    "bool": 8, "int8": 8, "uint8": 8,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
    "float16": 16, "bfloat16": 16, "int16": 16, "uint16": 16,
    "float": 32, "int32": 32, "uint32": 32,
    "double": 64, "int64": 64, "uint64": 64, "complex64": 64, "complex128": 128,
}  # fmt: skip
_EIGHT_BIT: Final = frozenset({"int8", "uint8"})
INT8: Final = "int8"
"""The arithmetic of products of `int8` and `uint8`, which share a ceiling."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution of a node has to do."""

    flop: int
    """Floating-point (or integer) operations, multiply and add counted apart."""
    least_bytes: int
    """Inputs read once and outputs written once."""
    arithmetic: str
    """Element type whose ceiling the products are under: `float`, `float16`, `bfloat16`, `int8` or another."""
    is_upper_bound: bool = False
    """True where the shapes tell no more than the most that `flop` and `least_bytes` can be."""


def tensor_bytes(element_type: str, shape: Shape) -> int | None:
    """Return the bytes of a tensor, types below eight bits packed; None for a type whose size is not known.

    Source: ONNX `TensorProto.DataType`, and its rule that `int4` values are packed two in a byte.

    >>> tensor_bytes("float16", (2, 3)), tensor_bytes("int4", (3,)), tensor_bytes("float", ())
    (12, 2, 4)
    >>> tensor_bytes("string", (1,)) is None
    True
    """
    bits = _BITS.get(element_type)
    return None if bits is None else (math.prod(shape) * bits + 7) // 8


def total_bytes(tensors: Iterable[Tensor]) -> int | None:
    """Return the bytes of all tensors, None where the size of one is not known."""
    sizes = [tensor_bytes(tensor.element_type, tensor.shape) for tensor in tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _work(flop: int, tensors: Iterable[Tensor], arithmetic: str, hidden_bytes: int | None = 0) -> Work | None:
    visible = total_bytes(tensors)
    if visible is None or hidden_bytes is None:
        return None
    return Work(flop, visible + hidden_bytes, INT8 if arithmetic in _EIGHT_BIT else arithmetic)


def _broadcast(one: Shape, other: Shape) -> Shape | None:
    """Return the shape of both together by ONNX's (numpy's) rule, None where they do not fit."""
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    shape: list[int] = []
    for left, right in pairs:
        if left != right and 1 not in (left, right):
            return None
        shape.append(right if left == 1 else left)
    return tuple(shape)


def _orders(shape: Shape, may_transpose: bool) -> list[tuple[int, int]]:
    rows, columns = shape[-2:]
    return [(rows, columns), (columns, rows)] if may_transpose else [(rows, columns)]


def _inner(a: Shape, b: Shape, out: Shape, may_transpose: bool) -> int | None:
    """Return K of the product of `a` and `b`, None where the three shapes do not fit.

    With `may_transpose` each may be the transposed one: the profile does not show attributes. K is then the extent of
    `a` that is not in `out`; where both extents fit, the matrix is square and K the same.
    """
    if not a or not b:
        return None
    wide_a, wide_b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    batch = _broadcast(wide_a[:-2], wide_b[:-2])
    if batch is None:
        return None
    for m, k in _orders(wide_a, may_transpose and len(a) > 1):
        for other_k, n in _orders(wide_b, may_transpose and len(b) > 1):
            expected = batch + ((m,) if len(a) > 1 else ()) + ((n,) if len(b) > 1 else ())
            if k == other_k and expected == out:
                return k
    return None


def _inner_of_packed(a: Shape, out: Shape, may_transpose: bool) -> int | None:
    """Return K where the second matrix is packed, and so two-dimensional; None where the shapes do not fit."""
    if len(a) < 2 or len(out) != len(a) or a[:-2] != out[:-2]:
        return None
    return next((k for m, k in _orders(a, may_transpose) if m == out[-2]), None)


def _product(inputs: Tensors, outputs: Tensors, may_transpose: bool) -> Work | None:
    """Count `MatMul` and `FusedMatMul`: the second matrix is there, or packed."""
    if not inputs or not outputs:
        return None
    a, out = inputs[0], outputs[0]
    if len(inputs) == 2:
        k = _inner(a.shape, inputs[1].shape, out.shape, may_transpose)
        return None if k is None else _work(2 * math.prod(out.shape) * k, (*inputs, out), a.element_type)
    return _packed_product(a, (), out, a.element_type, may_transpose) if len(inputs) == 1 else None


def _packed_product(a: Tensor, rest: Tensors, out: Tensor, weight_type: str, may_transpose: bool) -> Work | None:
    k = _inner_of_packed(a.shape, out.shape, may_transpose)
    if k is None:
        return None
    hidden_bytes = tensor_bytes(weight_type, (k, out.shape[-1]))
    return _work(2 * math.prod(out.shape) * k, (a, *rest, out), weight_type, hidden_bytes)


def _matmul(inputs: Tensors, outputs: Tensors) -> Work | None:
    return _product(inputs, outputs, may_transpose=False)


def _fused_matmul(inputs: Tensors, outputs: Tensors) -> Work | None:
    return _product(inputs, outputs, may_transpose=True)


def _gemm(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count A, B and C, where B may be packed and C missing. The additions of C are left out.

    A second input that fits as B is taken as B; if it is C beside a packed B of its shape, only bytes of C are missed.
    """
    if not inputs or not outputs or len(outputs[0].shape) != 2 or len(inputs) > 3:
        return None
    a, out, rest = inputs[0], outputs[0], inputs[1:]
    if rest and (k := _inner(a.shape, rest[0].shape, out.shape, may_transpose=True)) is not None:
        return _work(2 * math.prod(out.shape) * k, (*inputs, out), a.element_type)
    if len(rest) > 1 or any(_broadcast(tensor.shape, out.shape) != out.shape for tensor in rest):
        return None
    return _packed_product(a, rest, out, a.element_type, may_transpose=True)


def _integer_product(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count a product of 8-bit matrices among scales, zero points and a bias, none of which is a matrix."""
    if not inputs or not outputs:
        return None
    a, rest, out = inputs[0], inputs[1:], outputs[0]
    matrices = [tensor for tensor in rest if len(tensor.shape) > 1]
    if not matrices:
        return _packed_product(a, rest, out, INT8, may_transpose=False)
    if matrices[0].element_type not in _EIGHT_BIT:
        return None
    k = _inner(a.shape, matrices[0].shape, out.shape, may_transpose=False)
    return None if k is None else _work(2 * math.prod(out.shape) * k, (*inputs, out), INT8)


def _matmul_nbits(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count a product with weights of 2, 4 or 8 bits in blocks, uint8 [N, blocks, bytes of a block].

    K is the last extent of A: the blocks may be padded. The products are counted in A's type, into which the weights
    are expanded. Source: ONNX Runtime's docs/ContribOperators.md, com.microsoft.MatMulNBits.
    """
    if len(inputs) < 2 or not outputs or not inputs[0].shape:
        return None
    a, b, out = inputs[0], inputs[1], outputs[0]
    if b.element_type not in _EIGHT_BIT or len(b.shape) != 3 or out.shape != (*a.shape[:-1], b.shape[0]):
        return None  # without the weights (the CPU packs them) their bits, and so their bytes, are not known
    return _work(2 * math.prod(out.shape) * a.shape[-1], (*inputs, out), a.element_type)


def _convolution(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count a convolution in any layout: 2 * output elements * weights of one output channel, padding counted."""
    if not inputs or not outputs:
        return None
    x, out = inputs[0].shape, outputs[0].shape
    w = next((tensor.shape for tensor in inputs[1:] if len(tensor.shape) > 2), ())
    if len(w) != len(x) or len(out) != len(x) or x[0] != out[0]:
        return None
    is_first = w[0] == out[1] and _divides(w[1], x[1])
    if not is_first and not (w[0] == out[-1] and (_divides(w[1], x[-1]) or _divides(w[-1], x[-1]))):
        return None
    return _work(2 * math.prod(out) * math.prod(w[1:]), (*inputs, outputs[0]), inputs[0].element_type)


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole % part == 0


def _transposed_convolution(inputs: Tensors, outputs: Tensors) -> Work | None:
    """Count 2 * input elements * weights of one input channel. W is [C, M / groups, kernel...]."""
    if len(inputs) < 2 or not outputs:
        return None
    x, w, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
    if len(x) < 3 or len(w) != len(x) or len(out) != len(x) or x[0] != out[0] or w[0] != x[1]:
        return None
    if not _divides(w[1], out[1]):
        return None
    return _work(2 * math.prod(x) * math.prod(w[1:]), (*inputs, outputs[0]), inputs[0].element_type)


PRODUCTS: Final[Mapping[str, Count]] = {
    "MatMul": _matmul,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "MatMulNBits": _matmul_nbits,
    **dict.fromkeys(
        ("MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"), _integer_product
    ),
    **dict.fromkeys(("Conv", "FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv", "ConvInteger"), _convolution),
    "ConvTranspose": _transposed_convolution,
}
"""Operator -> how its work is counted, from the inputs and outputs of one execution."""
