"""FLOP and bytes worked out by hand, what bounds an operator, and what is not told."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.peaks import PEAKS, ceilings_of, measured_ceilings
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.profile_detail import NodeExecution, Tensor, read_detail
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.roofline import Ceilings, RooflineRow, least_ns, roofline, work_of
from pytest_onnxperf.core.work import Work, tensor_bytes

DATA = Path(__file__).parents[1] / "data" / "profiles"
CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


def tensor(text: str) -> Tensor:
    """Read `float 2x3`, `int8 5`, and `float` for a scalar."""
    kind, _, extents = text.partition(" ")
    return Tensor(kind, tuple(int(extent) for extent in extents.split("x")) if extents else ())


def execution(
    op_type: str, inputs: str, outputs: str, provider: str = CPU, duration_ns: int = 1000, run: int = 0
) -> NodeExecution:
    """Return an execution; tensors stand between commas."""
    read, written = (
        tuple(tensor(part.strip()) for part in text.split(",") if part.strip()) for text in (inputs, outputs)
    )
    return NodeExecution(NodeKey("n", op_type, provider), run, 0, duration_ns, read, written)


def work(op_type: str, inputs: str, outputs: str) -> Work | None:
    return work_of(execution(op_type, inputs, outputs))


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "flop", "least_bytes", "arithmetic"),
    [
        # 2 * (2*4) * 3; 4 * (6 + 12 + 8)
        ("MatMul", "float 2x3, float 3x4", "float 2x4", 48, 104, "float"),
        ("MatMul", "float16 2x3, float16 3x4", "float16 2x4", 48, 52, "float16"),
        ("MatMul", "bfloat16 2x3, bfloat16 3x4", "bfloat16 2x4", 48, 52, "bfloat16"),
        ("MatMul", "float8e4m3fn 2x3, float8e4m3fn 3x4", "float 2x4", 48, 6 + 12 + 32, "float8e4m3fn"),
        # a vector on each side, and on both
        ("MatMul", "float 3, float 3x4", "float 4", 24, 4 * 19, "float"),
        ("MatMul", "float 2x3, float 3", "float 2", 12, 4 * 11, "float"),
        ("MatMul", "float 3, float 3", "float", 6, 4 * 7, "float"),
        # the batches broadcast: 5x1 with 7 makes 5x7
        ("MatMul", "float 5x1x2x3, float 7x3x4", "float 5x7x2x4", 2 * 5 * 7 * 2 * 4 * 3, 4 * (30 + 84 + 280), "float"),
        # the weights are packed, so not in the profile: 3x4 all the same
        ("MatMul", "float 5x2x3", "float 5x2x4", 2 * 40 * 3, 4 * (30 + 12 + 40), "float"),
        # empty: nothing to do, but B is there
        ("MatMul", "float 0x3, float 3x4", "float 0x4", 0, 48, "float"),
        ("MatMul", "float 2x0, float 0x4", "float 2x4", 0, 32, "float"),
        # transposed, which the profile does not say: K is the extent of A that is not in Y
        ("FusedMatMul", "float 3x2, float 3x4", "float 2x4", 48, 104, "float"),
        ("FusedMatMul", "float 2x3, float 4x3", "float 2x4", 48, 104, "float"),
        ("FusedMatMul", "float 3x2, float 4x3", "float 2x4", 48, 104, "float"),
        ("TransposeMatMul", "float 6x3x2, float 6x4x3", "float 6x2x4", 6 * 48, 6 * 104, "float"),
        ("FusedMatMul", "float 3x2", "float 2x4", 48, 104, "float"),
        ("FusedMatMul", "float 3x3, float 4x3", "float 3x4", 72, 4 * (9 + 12 + 12), "float"),
        ("Gemm", "float 3x2, float 4x3, float 4", "float 2x4", 48, 120, "float"),
        ("Gemm", "float 2x3, float 3x4", "float 2x4", 48, 104, "float"),
        ("Gemm", "float 2x3, float 4", "float 2x4", 48, 120, "float"),  # B packed, C there
        ("Gemm", "float 3x2", "float 2x4", 48, 104, "float"),
        ("FusedGemm", "float 2x3, float 3x4, float 2x1", "float 2x4", 48, 112, "float"),
        # 4-bit weights: K = 40 is the last extent of A, not the 2 * 32 of the padded blocks; 8 rows of 2 blocks of 16 B
        (
            "MatMulNBits",
            "float16 1x3x40, uint8 8x2x16, float16 16",
            "float16 1x3x8",
            2 * 3 * 8 * 40,
            2 * 120 + 256 + 32 + 2 * 24,
            "float16",
        ),
        # 8 bits: blobs are twice as long, the FLOP the same
        ("MatMulNBits", "float 3x40, uint8 8x2x32, float 16", "float 3x8", 1920, 480 + 512 + 64 + 96, "float"),
        ("MatMulInteger", "uint8 2x3, int8 3x4, uint8, int8 4", "int32 2x4", 48, 6 + 12 + 1 + 4 + 32, "int8"),
        ("MatMulInteger", "uint8 2x3, uint8", "int32 2x4", 48, 6 + 1 + 12 + 32, "int8"),
        (
            "QLinearMatMul",
            "uint8 2x3, float, uint8, uint8 3x4, float, uint8, float, uint8",
            "uint8 2x4",
            48,
            6 + 12 + 8 + 3 * 5,
            "int8",
        ),
        (
            "MatMulIntegerToFloat",
            "uint8 2x3, uint8 3x4, float, float, uint8, uint8",
            "float 2x4",
            48,
            6 + 12 + 8 + 2 + 32,
            "int8",
        ),
        ("DynamicQuantizeMatMul", "float 2x3, int8 3x4, float 4", "float 2x4", 48, 24 + 12 + 16 + 32, "int8"),
        # 2 * (8 * 6 * 6) * (3 * 3 * 3)
        ("Conv", "float 1x3x8x8, float 8x3x3x3, float 8", "float 1x8x6x6", 15552, 4 * (192 + 216 + 8 + 288), "float"),
        ("FusedConv", "float 1x3x8x8, float 8x3x3x3", "float 1x8x6x6", 15552, 4 * (192 + 216 + 288), "float"),
        # depthwise: one channel a group
        ("Conv", "float 1x8x8x8, float 8x1x3x3", "float 1x8x6x6", 2 * 288 * 9, 4 * (512 + 72 + 288), "float"),
        ("Conv", "float 2x3x10, float 4x3x3", "float 2x4x8", 2 * 64 * 9, 4 * (60 + 36 + 64), "float"),
        ("NhwcConv", "float16 1x8x8x3, float16 8x3x3x3", "float16 1x6x6x8", 15552, 2 * (192 + 216 + 288), "float16"),
        ("NhwcFusedConv", "float 1x8x8x6, float 8x3x3x6", "float 1x6x6x8", 31104, 4 * (384 + 432 + 288), "float"),
        (
            "QLinearConv",
            "uint8 1x3x8x8, float, uint8, int8 8x3x3x3, float 8, int8, float, uint8, int32 8",
            "uint8 1x8x6x6",
            15552,
            192 + 216 + 288 + 4 + 1 + 32 + 1 + 4 + 1 + 32,
            "int8",
        ),
        ("ConvInteger", "uint8 1x3x8x8, uint8 8x3x3x3, uint8", "int32 1x8x6x6", 15552, 192 + 216 + 1 + 1152, "int8"),
        # 2 * (3 * 8 * 8) * (5 * 3 * 3)
        ("ConvTranspose", "float 1x3x8x8, float 3x5x3x3", "float 1x5x10x10", 17280, 4 * (192 + 135 + 500), "float"),
    ],
)
def test_products_and_convolutions(
    op_type: str, inputs: str, outputs: str, flop: int, least_bytes: int, arithmetic: str
) -> None:
    assert work(op_type, inputs, outputs) == Work(flop, least_bytes, arithmetic)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "flop", "least_bytes", "is_upper_bound"),
    [
        # prompt of 4 over 4 keys, 64 hidden: 4 * 4 * 4 * 64, the whole matrix though it is causal
        (
            "GroupQueryAttention",
            "float 1x4x64, float 1x4x32, float 1x4x32, float 1x2x0x16, float 1x2x0x16, int32 1, int32",
            "float 1x4x64, float 1x2x4x16, float 1x2x4x16",
            4096,
            4 * (256 + 128 + 128 + 1 + 1 + 256 + 128 + 128),
            True,
        ),
        # one token after 4, in buffers of their own: exact
        (
            "GroupQueryAttention",
            "float 1x1x64, float 1x1x32, float 1x1x32, float 1x2x4x16, float 1x2x4x16, int32 1, int32",
            "float 1x1x64, float 1x2x5x16, float 1x2x5x16",
            4 * 5 * 64,
            4 * (64 + 32 + 32 + 128 + 128 + 1 + 1 + 64 + 160 + 160),
            False,
        ),
        # one token in a shared buffer of 512: at most; the past is read, of the present one key is written
        (
            "GroupQueryAttention",
            "float16 1x1x64, float16 1x1x32, float16 1x1x32, float16 1x2x512x16, float16 1x2x512x16, int32 1, int32",
            "float16 1x1x64, float16 1x2x512x16, float16 1x2x512x16",
            4 * 512 * 64,
            2 * (64 + 32 + 32 + 2 * 16384 + 64 + 2 * 32) + 8,
            True,
        ),
        # query, key and value in one, and rotary caches of 4096 rows, of which one is read
        (
            "GroupQueryAttention",
            "float16 1x1x9216, float16 1x32x0x96, float16 1x32x0x96, int32 1x1, int32, "
            "float16 4096x48, float16 4096x48",
            "float16 1x1x3072, float16 1x32x1x96, float16 1x32x1x96",
            4 * 3072,
            2 * (9216 + 2 * 48 + 3 * 3072) + 8,
            False,
        ),
        # no past at all, an attention bias of four dimensions, and a present that is not one
        (
            "GroupQueryAttention",
            "float 1x1x64, float 1x1x32, float 1x1x32, float 1x4x1x1, float 1x2x1x1",
            "float 1x1x64, float 1x2x1x16, float 1x2x1x16",
            4 * 64,
            4 * (64 + 32 + 32 + 4 + 2 + 64 + 32 + 32),
            False,
        ),
        (
            "GroupQueryAttention",
            "float 1x1x64, float 1x1x32, float 1x1x32, float 1x2x1x1, float 1x2x1x1",
            "float 1x1x64, float 1x2x1x16, float 1x2x1x16",
            4 * 64,
            4 * (64 + 32 + 32 + 2 + 2 + 64 + 32 + 32),
            False,
        ),
        (
            "GroupQueryAttention",
            "float 1x1x64, float 1x1x32, float 1x1x32",
            "float 1x1x64, float 7, float 7",
            4 * 64,
            4 * (64 + 32 + 32 + 64 + 7 + 7),
            False,
        ),
        (
            "SparseAttention",
            "float 1x1x64, float 1x1x32, float 1x1x32, float 1x2x8x16, float 1x2x8x16, "
            "int32 1x3, int32 1x4, int32, int32 1",
            "float 1x1x64, float 1x2x8x16, float 1x2x8x16",
            4 * 8 * 64,
            4 * (64 + 32 + 32 + 512 + 3 + 4 + 1 + 1 + 64 + 64),
            True,
        ),
        # 2 * 5 queries * 7 keys * (8 + 12)
        (
            "MultiHeadAttention",
            "float 2x5x8, float 2x7x8, float 2x7x12, float 28",
            "float 2x5x12",
            2 * 2 * 5 * 7 * 20,
            4 * (80 + 112 + 168 + 28 + 120),
            False,
        ),
        ("MultiHeadAttention", "float 1x5x2x3x4", "float 1x5x8", 4 * 25 * 8, 4 * (120 + 40), False),
        ("MultiHeadAttention", "float 1x5x8, float 1x7x2x2x4", "float 1x5x8", 4 * 35 * 8, 4 * (40 + 112 + 40), False),
        (
            "MultiHeadAttention",
            "float 1x5x8, float 1x2x7x4, float 1x2x7x4",
            "float 1x5x8",
            4 * 35 * 8,
            4 * (40 + 56 + 56 + 40),
            False,
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            "float 1x1x8, float 1x1x8, float 1x1x8, float 1x2x16x4, float 1x2x16x4, int32 1",
            "float 1x1x8, float 1x2x16x4, float 1x2x16x4",
            4 * 16 * 8,
            4 * (24 + 256 + 1 + 8 + 16),
            True,
        ),
        # ai.onnx, heads apart and together, and after a past of 3
        (
            "Attention",
            "float 1x4x5x8, float 1x2x7x8, float 1x2x7x6",
            "float 1x4x5x6",
            2 * 7 * (160 + 120),
            4 * (160 + 112 + 84 + 120),
            False,
        ),
        (
            "Attention",
            "float 1x5x32, float 1x7x16, float 1x7x12",
            "float 1x5x24",
            2 * 7 * (160 + 120),
            4 * (160 + 112 + 84 + 120),
            False,
        ),
        (
            "Attention",
            "float 1x4x5x8, float 1x2x7x8, float 1x2x7x8, bool 5x10, float 1x2x3x8, float 1x2x3x8",
            "float 1x4x5x8, float 1x2x10x8, float 1x2x10x8",
            4 * 10 * 160,
            4 * (160 + 112 + 112 + 48 + 48 + 160 + 160 + 160) + 50,
            False,
        ),
        (
            "Attention",
            "float 1x4x1x8, float 1x2x64x8, float 1x2x64x8, int64 1",
            "float 1x4x1x8",
            4 * 64 * 32,
            4 * (32 + 1024 + 1024 + 32) + 8,
            True,
        ),
        # com.microsoft: the projection 2 * 7 * 64 * 192 besides 4 * 7 * 7 * 64
        (
            "Attention",
            "float 1x7x64, float 64x192, float 192",
            "float 1x7x64",
            2 * 7 * 64 * 192 + 4 * 49 * 64,
            4 * (448 + 12288 + 192 + 448),
            False,
        ),
        (
            "Attention",
            "float 1x7x64, float 192",
            "float 1x7x64",
            2 * 7 * 64 * 192 + 4 * 49 * 64,
            4 * (448 + 12288 + 192 + 448),
            False,
        ),
        (
            "Attention",
            "float 1x1x64, float 64x192, float 192, float 2x1x4x6x16",
            "float 1x1x64, float 2x1x4x7x16",
            2 * 64 * 192 + 4 * 7 * 64,
            4 * (64 + 12288 + 192 + 768 + 64 + 896),
            False,
        ),
        # 6 tokens of 2 sequences, of which the longer has 4
        (
            "PackedMultiHeadAttention",
            "float 6x8, float 6x8, float 6x8, int32 2x4, int32 3",
            "float 6x8",
            4 * 6 * 4 * 8,
            4 * (144 + 8 + 3 + 48),
            True,
        ),
        ("PackedMultiHeadAttention", "float 8x2x3x4, int32 2x4, int32 3", "float 8x8", 4 * 8 * 4 * 8, 4 * 267, False),
        # 3 tokens over at most 2 blocks of 16; of 100 blocks 4 are in the table
        (
            "PagedAttention",
            "float16 3x64, float16 3x32, float16 3x32, float16 100x16x2x16, float16 100x16x2x16, "
            "int32 3, int32 2, int32 2x2",
            "float16 3x64, float16 100x16x2x16, float16 100x16x2x16",
            4 * 3 * 64 * 32,
            2 * (192 + 96 + 96 + 2 * 4 * 512 + 192 + 2 * 96) + 4 * 9,
            True,
        ),
    ],
)
def test_attention(op_type: str, inputs: str, outputs: str, flop: int, least_bytes: int, is_upper_bound: bool) -> None:
    got = work(op_type, inputs, outputs)
    assert got is not None
    assert (got.flop, got.least_bytes, got.is_upper_bound) == (flop, least_bytes, is_upper_bound)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs"),
    [
        ("Relu", "float 2", "float 2"),  # no operator of the table
        ("MatMul", "", ""),  # no shapes: profiles before 1.11, or sequences
        ("MatMul", "float 2x3, float 3x4", ""),
        ("MatMul", "float 2x3, float 4x3", "float 2x4"),  # does not fit
        ("MatMul", "float 2x3, float 3x4", "float 2x5"),
        ("MatMul", "float 2x2x3, float 3x3x4", "float 3x2x4"),
        ("MatMul", "float, float 3", "float 3"),
        ("MatMul", "float 2x3, float 3x4, float 4", "float 2x4"),  # a third is not of the operator
        ("MatMul", "float 3", "float 4"),  # packed beside a vector is not told apart from nothing
        ("MatMul", "string 2x3, string 3x4", "string 2x4"),  # no size
        ("MatMul", "mystery 2x3", "float 2x4"),
        ("Gemm", "float 2x3, float 5", "float 2x4"),
        ("Gemm", "float 2x3, float 2x4, float 4", "float 2x4"),
        ("Gemm", "float 5x3", "float 2x4"),
        ("Gemm", "float 2x3, float 3x4", "float 1x2x4"),
        ("Gemm", "", "float 2x4"),
        ("MatMulInteger", "", ""),
        ("MatMulInteger", "uint8 2x3, int8 5x4", "int32 2x4"),
        ("MatMulInteger", "uint8 2x3, float 3x4", "int32 2x4"),
        ("MatMulNBits", "float 3x64, float 64", "float 3x32"),  # packed: bits are not known
        ("MatMulNBits", "float 3x64, uint8 32x2x16, float 64", "float 3x16"),
        ("MatMulNBits", "float 3x64", "float 3x32"),
        ("Conv", "float 1x3x8x8, float 8", "float 1x8x6x6"),  # packed
        ("Conv", "float 1x3x8x8, float 8x2x3x3", "float 1x8x6x6"),
        ("Conv", "float 1x3x8x8, float 8x3x3x3", "float 1x7x6x6"),
        ("Conv", "", ""),
        ("ConvTranspose", "float 1x3x8x8", "float 1x5x10x10"),
        ("ConvTranspose", "float 1x3x8x8, float 4x5x3x3", "float 1x5x10x10"),
        ("ConvTranspose", "float 1x3x8x8, float 3x4x3x3", "float 1x5x10x10"),
        ("GroupQueryAttention", "", ""),
        ("GroupQueryAttention", "float 4x64", "float 1x4x64"),
        ("GroupQueryAttention", "string 1x4x64", "float 1x4x64"),
        ("SparseAttention", "", ""),
        ("MultiHeadAttention", "", ""),
        ("MultiHeadAttention", "float 1x5x8", "float 1x5x8"),
        ("MultiHeadAttention", "float 1x5x8, float 1x7x8", "float 1x6x8"),
        ("MultiHeadAttention", "float 2x5x8, float 24", "float 2x5x8"),
        ("MultiHeadAttention", "float 1x5x8, float 1x2x7x4, float 1x2x7x4", "float 1x5x8, float 1x2x7x4"),
        ("Attention", "", ""),
        ("Attention", "float 1x7x64", "float 1x7x64"),
        ("Attention", "float 1x7x64, float 64x192, float 191", "float 1x7x64"),
        ("Attention", "float 1x7x64, float 64x193", "float 1x7x64"),
        ("Attention", "float 7x64, float 64x192", "float 7x64"),
        ("Attention", "float 1x4x5x8, float 1x2x7x8, float 1x2x6x8", "float 1x4x5x8"),
        ("Attention", "mystery 1x7x64, float 64x192", "float 1x7x64"),
        ("PackedMultiHeadAttention", "", ""),
        ("PackedMultiHeadAttention", "float 6x8", "float 6x8"),
        ("PagedAttention", "", ""),
        ("PagedAttention", "float 3x64, int32 2x2", "float 3x64"),
    ],
)
def test_shapes_that_are_missing_or_do_not_fit_tell_no_work(op_type: str, inputs: str, outputs: str) -> None:
    assert work(op_type, inputs, outputs) is None


@pytest.mark.parametrize(
    ("element_type", "shape", "size"),
    [
        ("int4", (3,), 2),
        ("uint4", (4, 4), 8),
        ("int4", (0,), 0),
        ("uint2", (5,), 2),
        ("double", (), 8),
        ("bool", (3,), 3),
    ],
)
def test_types_below_eight_bits_are_packed(element_type: str, shape: tuple[int, ...], size: int) -> None:
    assert tensor_bytes(element_type, shape) == size


@given(
    a_batch=st.lists(st.integers(1, 3), max_size=2),
    b_batch=st.lists(st.integers(1, 3), max_size=2),
    extents=st.tuples(*[st.integers(1, 4)] * 3),
)
def test_flop_of_a_batched_product_is_what_counting_the_loops_gives(
    a_batch: list[int], b_batch: list[int], extents: tuple[int, int, int]
) -> None:
    rank = max(len(a_batch), len(b_batch))
    pairs = list(zip([1] * (rank - len(a_batch)) + a_batch, [1] * (rank - len(b_batch)) + b_batch, strict=True))
    m, k, n = extents
    batch = [max(pair) for pair in pairs]
    node = NodeExecution(
        NodeKey("n", "MatMul", CPU),
        0,
        0,
        0,
        (Tensor("float", (*a_batch, m, k)), Tensor("float", (*b_batch, k, n))),
        (Tensor("float", (*batch, m, n)),),
    )
    got = work_of(node)
    if any(left != right and 1 not in (left, right) for left, right in pairs):
        assert got is None
        return
    flop = 0
    for _ in itertools.product(*(range(extent) for extent in (*batch, m, n, k))):
        flop += 2
    assert got is not None
    assert got.flop == flop
    assert got.least_bytes == 4 * sum(math.prod(t.shape) for t in (*node.inputs, *node.outputs))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.booleans(), st.booleans())
def test_a_transposed_operand_changes_neither_flop_nor_bytes(m: int, k: int, n: int, left: bool, right: bool) -> None:
    a, b = (f"{k}x{m}" if left else f"{m}x{k}"), (f"{n}x{k}" if right else f"{k}x{n}")
    plain = work("MatMul", f"float {m}x{k}, float {k}x{n}", f"float {m}x{n}")
    for op_type in ("Gemm", "FusedMatMul"):
        assert work(op_type, f"float {a}, float {b}", f"float {m}x{n}") == plain


RIDGE = Ceilings("a device", {"float": 100e9, "float16": 200e9}, 10e9, "made up", CPU)
"""10 FLOP/byte for `float`."""


@pytest.mark.parametrize(
    ("flop", "least_bytes", "ns", "bound"),
    [
        (999, 100, 10.0, "memory"),
        (1000, 100, 10.0, "compute"),  # at the ridge
        (1001, 100, 10.01, "compute"),
        (0, 100, 10.0, "memory"),
        (0, 0, 0.0, "compute"),
    ],
)
def test_the_longer_of_arithmetic_and_memory_bounds(flop: int, least_bytes: int, ns: float, bound: str) -> None:
    least = least_ns(Work(flop, least_bytes, "float"), RIDGE)
    assert least is not None
    assert least[0] == pytest.approx(ns)
    assert least[1] == bound


def test_an_element_type_without_a_ceiling_has_no_least_time() -> None:
    assert least_ns(Work(1000, 100, "int8"), RIDGE) is None


def one_row(*executions: NodeExecution, runs: int = 1, ceilings: Ceilings | None = RIDGE) -> RooflineRow:
    rows = roofline(executions, runs, ceilings)
    assert len(rows) == 1
    return rows[0]


PRODUCT = ("MatMul", "float 2x3, float 3x4", "float 2x4")  # 48 FLOP, 104 bytes: 10.4 ns of memory


def test_a_row_is_the_mean_over_the_runs() -> None:
    nodes = [execution(*PRODUCT, duration_ns=ns, run=run) for run in (0, 1) for ns in (100, 200, 300)]
    row = one_row(*nodes, runs=2)
    assert (row.op_type, row.execution_provider, row.bound, row.is_upper_bound) == ("MatMul", CPU, "memory", False)
    assert (row.executions_per_run, row.unknown_per_run) == (3, 0)
    assert (row.flop_per_run, row.bytes_per_run, row.flop_per_byte) == (144, 312, 48 / 104)
    assert (row.node_ns_per_run, row.node_share_ratio) == (600, 1)
    assert row.least_ns_per_run == pytest.approx(31.2)
    assert row.attained_ratio == pytest.approx(31.2 / 600)


def test_time_of_nodes_that_run_subgraphs_is_not_counted_twice_in_the_share() -> None:
    loop = execution("Loop", "float 2", "float 2", duration_ns=10_000)
    relu = execution("Relu", "float 2", "float 2", duration_ns=300)
    assert one_row(execution(*PRODUCT, duration_ns=100), relu, loop).node_share_ratio == 0.25


def test_without_ceilings_what_bounds_is_not_told() -> None:
    row = one_row(execution(*PRODUCT), ceilings=None)
    assert (row.bound, row.least_ns_per_run, row.attained_ratio) == ("", None, None)
    assert (row.flop_per_run, row.node_ns_per_run) == (48, 1000)


@pytest.mark.parametrize("provider", [CUDA, "WebGpuExecutionProvider", "OpenVINOExecutionProvider", ""])
def test_launch_time_is_never_held_against_a_ceiling(provider: str) -> None:
    device = Ceilings("a GPU", {"float": 100e9}, 10e9, "made up")
    row = one_row(execution(*PRODUCT, provider=provider), ceilings=device)
    assert (row.node_ns_per_run, row.node_share_ratio, row.attained_ratio) == (None, None, None)
    assert row.bound == "memory"
    assert row.least_ns_per_run == pytest.approx(10.4)


def test_ceilings_of_a_gpu_do_not_hold_for_the_cpu_nor_the_other_way() -> None:
    nodes = [execution(*PRODUCT), execution(*PRODUCT, provider=CUDA)]
    device = Ceilings("a GPU", {"float": 100e9}, 10e9, "made up")
    assert {row.execution_provider: row.bound for row in roofline(nodes, 1, device)} == {CUDA: "memory", CPU: ""}
    assert {row.execution_provider: row.bound for row in roofline(nodes, 1, RIDGE)} == {CUDA: "", CPU: "memory"}


def test_an_execution_of_unknown_work_takes_the_attained_ratio_away() -> None:
    row = one_row(execution(*PRODUCT), execution("MatMul", "", ""), runs=2)
    assert (row.executions_per_run, row.unknown_per_run, row.flop_per_run) == (1.0, 0.5, 24.0)
    assert row.least_ns_per_run is not None
    assert row.attained_ratio is None


def test_a_row_of_unknown_work_alone_says_so() -> None:
    row = one_row(execution("Conv", "float 1x3x8x8", "float 1x8x6x6"))
    assert (row.unknown_per_run, row.flop_per_run, row.flop_per_byte, row.bound) == (1, 0, None, "")
    assert (row.least_ns_per_run, row.attained_ratio, row.node_ns_per_run) == (None, None, 1000)


def test_an_upper_bound_is_no_attained_ratio() -> None:
    row = one_row(execution("GroupQueryAttention", "float 1x4x64, float 1x4x32, float 1x4x32", "float 1x4x64"))
    assert (row.is_upper_bound, row.bound, row.attained_ratio) == (True, "memory", None)


def test_a_type_without_a_ceiling_leaves_the_row_without_a_least_time() -> None:
    row = one_row(execution(*PRODUCT), execution("MatMul", "double 2x3, double 3x4", "double 2x4"))
    assert (row.bound, row.least_ns_per_run, row.attained_ratio) == ("", None, None)


def test_empty_tensors_are_bound_by_nothing() -> None:
    row = one_row(execution("MatMul", "float 0x0, float 0x0", "float 0x0"))
    assert (row.bound, row.least_ns_per_run, row.flop_per_byte, row.attained_ratio) == ("", 0, None, 0)


def test_a_node_of_no_measured_time_has_no_attained_ratio() -> None:
    row = one_row(execution(*PRODUCT, duration_ns=0))
    assert (row.node_ns_per_run, row.node_share_ratio, row.attained_ratio) == (0, None, None)


def test_most_of_the_least_time_decides_what_bounds_a_row() -> None:
    square = ("MatMul", "float 512x512, float 512x512", "float 512x512")
    assert one_row(execution(*PRODUCT), execution(*square)).bound == "compute"
    thin = execution("MatMul", "float 1x512, float 512x512", "float 1x512")
    assert one_row(*[thin] * 200, execution(*square)).bound == "memory"


def test_rows_go_by_least_time_and_without_by_flop() -> None:
    small, large = execution(*PRODUCT), execution("Gemm", "float 20x30, float 30x40", "float 20x40")
    for ceilings in (RIDGE, None):
        assert [row.op_type for row in roofline([small, large], 1, ceilings)] == ["Gemm", "MatMul"]


def test_other_operators_and_no_runs_make_no_row() -> None:
    assert roofline([execution("Relu", "float 2", "float 2")], 1, RIDGE) == ()
    assert roofline([execution(*PRODUCT)], 0, RIDGE) == ()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        # ShuffleNet on CUDA: all shapes are there
        ("05-ppq-2023-cuda.json", {"FusedConv": 279_448_960, "Conv": 8_319_024, "Gemm": 2 * 1000 * 1024}),
        ("06-quadric-2025-1thread.json", {"QLinearConv": 0}),  # packed
        ("cpu_1.32.0_base_2runs.json", {"MatMul": 2 * 64**3}),
        ("cpu_1.10.0_base_graph-index_fences.json", {"MatMul": 0}),  # no shapes
        ("genai_0.18_run-level_0.json", {"MatMul": 2 * 4 * 64 * (3 * 32 + 64), "GroupQueryAttention": 4 * 16 * 64}),
        ("webgpu_1.27.0_gqa_decode_f32.json", {"GroupQueryAttention": 4 * 64 * 256}),
        ("webgpu_1.27.0_g2_packed_rot_prefill.json", {"GroupQueryAttention": 4 * 32 * 32 * 256}),
        ("webgpu_1.27.0_mha_s1_f32.json", {"MultiHeadAttention": 4 * 32 * 256}),
        ("webgpu_1.27.0_att23_f32.json", {"Attention": 4 * 32 * 32 * 256}),
        ("11-vulkan-2026-dev0.json", {"GroupQueryAttention": 32 * 4 * 3072}),
    ],
)
def test_real_profiles(file: str, expected: dict[str, int]) -> None:
    detail = read_detail(DATA / file)
    assert {row.op_type: row.flop_per_run for row in roofline(detail.executions, detail.runs, None)} == expected


@pytest.mark.parametrize(
    ("name", "float_flop_per_s", "float16_flop_per_s", "bytes_per_s"),
    [
        ("NVIDIA H200", 494.5e12, 989.5e12, 4.8e12),
        ("NVIDIA H100 80GB HBM3", 494.5e12, 989.5e12, 3.35e12),
        ("NVIDIA A100-SXM4-80GB", 156e12, 312e12, 2.039e12),
        ("A100-SXM4-40GB", 156e12, 312e12, 1.555e12),
        ("NVIDIA A100 80GB PCIe", 156e12, 312e12, 1.935e12),
        ("Tesla T4", 8.1e12, 65e12, 320e9),
        ("NVIDIA GeForce RTX 4090", 82.6e12, 165.2e12, 1.008e12),
        ("NVIDIA RTX 6000 Ada Generation", 182.1e12, 364.2e12, 960e9),
    ],
)
def test_gpus_are_found_by_the_name_of_nvml(
    name: str, float_flop_per_s: float, float16_flop_per_s: float, bytes_per_s: float
) -> None:
    ceilings = ceilings_of(name)
    assert ceilings is not None
    assert ceilings.flop_per_s["float"] == pytest.approx(float_flop_per_s)
    assert ceilings.flop_per_s["float16"] == pytest.approx(float16_flop_per_s)
    assert ceilings.bytes_per_s == pytest.approx(bytes_per_s)
    assert ceilings.source.startswith("NVIDIA ")


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A10G",
        "NVIDIA H20",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "AMD EPYC",
        "NVIDIA",
        "",
    ],
)
def test_a_gpu_that_is_not_in_the_table_has_no_ceilings(name: str) -> None:
    assert ceilings_of(name) is None


def test_without_tf32_float_is_the_plain_rate_and_volta_has_no_bfloat16() -> None:
    plain, volta = ceilings_of("NVIDIA H200", use_tf32=False), ceilings_of("Tesla V100-SXM2-16GB")
    assert plain is not None
    assert volta is not None
    assert (plain.flop_per_s["float"], plain.source) == (67e12, "NVIDIA H200 datasheet, 2024, dense")
    assert volta.flop_per_s == {"float": pytest.approx(15.7e12), "float16": 125e12}


def test_the_table_is_consistent() -> None:
    names = [name for peak in PEAKS for name in peak.names]
    assert len(names) == len(set(names))
    for peak in PEAKS:
        # On tensor cores TF32 has half the rate of float16, int8 twice (GeForce: four times), up to rounding.
        if peak.tf32_tflop_per_s is not None:
            assert peak.tf32_tflop_per_s == pytest.approx(peak.float16_tflop_per_s / 2, rel=0.02)
            assert peak.tf32_tflop_per_s >= peak.float32_tflop_per_s
        if peak.int8_tflop_per_s is not None:
            ratio = peak.int8_tflop_per_s / peak.float16_tflop_per_s
            assert min(abs(ratio - 2), abs(ratio - 4)) < 0.05


MEASURED = {
    "flop_per_s": {"float": 8e10}, "bytes_per_s": 1.5e10, "execution_provider": CPU, "product_extent": 512,
    "tensor_bytes": 1 << 27,
}  # fmt: skip


def test_measured_ceilings_say_how() -> None:
    assert measured_ceilings("AMD EPYC", MEASURED) == Ceilings(
        "AMD EPYC",
        {"float": 8e10},
        1.5e10,
        "measured here by ONNX Runtime on CPUExecutionProvider: MatMul of 512x512, Neg over 128 MiB",
        CPU,
    )


@pytest.mark.parametrize("missing", [{"flop_per_s": {}}, {"bytes_per_s": None}, {"flop_per_s": None}])
def test_a_rate_that_could_not_be_measured_leaves_no_ceilings(missing: dict[str, object]) -> None:
    assert measured_ceilings("AMD EPYC", {**MEASURED, **missing}) is None


# -- time of the device's events -------------------------------------------------------------------------------------


def test_the_devices_events_are_the_time_of_nodes_off_the_cpu() -> None:
    ceilings = Ceilings("GPU", {"float": 1e12}, 1e12, "a table")
    product = execution("MatMul", "float 1000x1000, float 1000x1000", "float 1000x1000", CUDA, duration_ns=10)

    (without,) = roofline([product], 1, ceilings)
    (found,) = roofline([product], 1, ceilings, {"MatMul": 4e6, "Add": 1e6})

    assert (without.node_ns_per_run, without.node_share_ratio, without.attained_ratio) == (None, None, None)
    assert (found.node_ns_per_run, found.node_share_ratio) == (4e6, 0.8)
    assert found.attained_ratio == pytest.approx(0.5)  # 2 GFLOP at 1 TFLOP/s are 2 ms


def test_nodes_on_the_cpu_keep_their_own_time_beside_a_device() -> None:
    product = execution("MatMul", "float 10x10, float 10x10", "float 10x10", CPU, duration_ns=500)
    (found,) = roofline([product], 1, None, {"MatMul": 4e6})
    assert found.node_ns_per_run == 500


def test_a_profile_gives_the_time_of_its_programs_by_operator() -> None:
    detail = read_detail(DATA / "webgpu_1.27.0_gqa_decode_f32.json")
    profile = read_profile(DATA / "webgpu_1.27.0_gqa_decode_f32.json")
    assert detail.all_runs == 2
    assert dict(detail.device_ns) == {"GroupQueryAttention": sum(e.duration_ns for e in profile.api_events.values())}
