"""Why an attention node did not run Flash Attention: each reason, and its neighbour that is none."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.graph import Graph, GraphNode, Model
from pytest_onnxperf.core.not_flash import reasons_not_flash
from pytest_onnxperf.core.profile import NodeKey
from tests.records import CUDA

WEBGPU = "WebGpuExecutionProvider"
GQA, MHA = "GroupQueryAttention", "MultiHeadAttention"
MICROSOFT = "com.microsoft"


def use(op_type: str = GQA, provider: str = CUDA, *kernels: str, **changes: Any) -> AttentionUse:
    plain: dict[str, Any] = {"element_type": "float16", "head_size": 64, "query_length": 8}
    return AttentionUse(NodeKey("attn", op_type, provider), kernels or ("efficient",), "", **{**plain, **changes})


def graph(op_type: str = GQA, domain: str = MICROSOFT, inputs: tuple[str, ...] = ("q",), **attributes: Any) -> Model:
    """A model with a node of that name, in a subgraph."""
    node = GraphNode("attn", op_type, domain, inputs, ("y",), attributes)
    inner = Graph("body", (), ("y",), frozenset(), (node,))
    loop = GraphNode("loop", "Loop", "", (), ("y",), {}, (("body", inner),))
    return Model(Graph("main", (), ("y",), frozenset(), (loop,)), {"": 17})


def test_a_node_of_which_nothing_is_known_has_no_reason() -> None:
    assert reasons_not_flash(use(), None, {}) == ()
    assert reasons_not_flash(use(), graph(), {}, "NVIDIA A100-SXM4-80GB") == ()


@pytest.mark.parametrize(
    ("head_size", "reason"),
    [
        (256, None),
        (257, "head size 257: Flash takes at most 256"),
        (264, "head size 264: Flash takes at most 256"),
        (248, None),
        (252, "head size 252: Flash takes multiples of 8"),
        (8, None),
        (7, "head size 7: Flash takes multiples of 8"),
        (None, None),
    ],
)
def test_a_head_size_over_256_or_no_multiple_of_8_is_a_reason(head_size: int | None, reason: str | None) -> None:
    assert reasons_not_flash(use(head_size=head_size), None, {}) == ((reason,) if reason else ())


@pytest.mark.parametrize(
    ("provider", "element_type", "is_reason"),
    [(CUDA, "float", True), (CUDA, "float32", True), (CUDA, "float16", False), (CUDA, "bfloat16", False),
     (CUDA, "", False), (WEBGPU, "float", False)],
)  # fmt: skip
def test_float32_is_a_reason_on_cuda(provider: str, element_type: str, is_reason: bool) -> None:
    found = reasons_not_flash(use(GQA, provider, element_type=element_type), None, {})
    assert found == (("float32: CUDA's Flash takes float16 and bfloat16",) if is_reason else ())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sdpa_kernel": "2"}, "sdpa_kernel=2 leaves Flash out"),
        ({"sdpa_kernel": "16"}, "sdpa_kernel=16 leaves Flash out"),
        ({"sdpa_kernel": "1"}, None),
        ({"sdpa_kernel": "3"}, None),
        ({"sdpa_kernel": "0"}, None),
        ({"sdpa_kernel": "many"}, None),
        ({"sdpa_kernel": ""}, None),
        ({"ORT_DISABLE_FLASH_ATTENTION": "1"}, "ORT_DISABLE_FLASH_ATTENTION=1"),
        ({"ORT_DISABLE_FLASH_ATTENTION": "0"}, None),
        ({"ORT_DISABLE_FLASH_ATTENTION": ""}, None),
        ({"ORT_DISABLE_FLASH_DECODE": "1"}, None),
        ({"ORT_ENABLE_XQA": "1"}, None),
    ],
)
def test_options_that_leave_flash_out_are_reasons_on_cuda_alone(options: dict[str, str], reason: str | None) -> None:
    assert reasons_not_flash(use(), None, options) == ((reason,) if reason else ())
    assert reasons_not_flash(use(GQA, WEBGPU), None, options) == ()


@pytest.mark.parametrize(("query_length", "is_reason"), [(1, True), (2, False), (None, False)])
def test_the_switch_of_flash_decode_is_a_reason_for_a_query_of_one_token(
    query_length: int | None, is_reason: bool
) -> None:
    found = reasons_not_flash(use(query_length=query_length), None, {"ORT_DISABLE_FLASH_DECODE": "1"})
    assert found == (("ORT_DISABLE_FLASH_DECODE=1",) if is_reason else ())


BIASED = ("q", "k", "v", "", "", "bias")


@pytest.mark.parametrize(
    ("op_type", "domain", "inputs", "is_reason"),
    [
        (MHA, MICROSOFT, BIASED, True),
        (MHA, MICROSOFT, BIASED[:5], False),
        (MHA, MICROSOFT, (*BIASED[:5], ""), False),
        (MHA, "", BIASED, False),
        (GQA, MICROSOFT, BIASED, False),
        (GQA, MICROSOFT, ("q",) * 10 + ("bias",), True),
        ("Attention", "", ("q", "k", "v", "bias"), True),
        ("Attention", "", ("q", "k", "v"), False),
        ("Attention", MICROSOFT, ("x", "w", "b", "bias"), True),
        ("DecoderMaskedMultiHeadAttention", MICROSOFT, ("q", "k", "v", "m", "bias"), True),
        ("PagedAttention", MICROSOFT, ("q",) * 9 + ("bias", "bias"), False),
    ],
)
def test_a_mask_or_bias_is_a_reason_by_its_place(
    op_type: str, domain: str, inputs: tuple[str, ...], is_reason: bool
) -> None:
    found = reasons_not_flash(use(op_type), graph(op_type, domain, inputs), {})
    assert found == (("a mask or bias is given (bias)",) if is_reason else ())


@pytest.mark.parametrize(
    ("provider", "attributes", "reason"),
    [
        (CUDA, {"local_window_size": 128}, "a window of 128, which some kernels lack"),
        (WEBGPU, {"local_window_size": 128}, "a window of 128"),
        (CUDA, {"local_window_size": -1}, None),
        (CUDA, {"local_window_size": 0}, None),
        (CUDA, {"softcap": 50.0}, "softcap 50, which some kernels lack"),
        (CUDA, {"softcap": 0.0}, None),
        (CUDA, {"smooth_softmax": 1}, "smooth_softmax"),
        (CUDA, {"smooth_softmax": 0}, None),
        (CUDA, {"local_window_size": "text"}, None),
        (CUDA, {"num_heads": 32}, None),
    ],
)
def test_attributes_that_kernels_lack_are_reasons(
    provider: str, attributes: dict[str, Any], reason: str | None
) -> None:
    assert reasons_not_flash(use(GQA, provider), graph(**attributes), {}) == ((reason,) if reason else ())


def test_a_node_of_another_name_or_operator_tells_nothing() -> None:
    model = graph(MHA, local_window_size=128)
    assert reasons_not_flash(use(GQA), model, {}) == ()


@pytest.mark.parametrize(
    ("device", "is_reason"),
    [
        ("Tesla T4", True), ("Tesla V100-SXM2-16GB", True), ("Tesla P100-PCIE-16GB", True), ("TITAN V", True),
        ("NVIDIA GeForce GTX 1080 Ti", True), ("NVIDIA GeForce RTX 2080 Ti", True), ("Quadro RTX 6000", True),
        ("NVIDIA A100-SXM4-80GB", False), ("NVIDIA A10", False), ("NVIDIA L4", False), ("NVIDIA H200", False),
        ("NVIDIA GeForce RTX 3090", False), ("NVIDIA RTX 6000 Ada Generation", False), ("NVIDIA L40S", False),
        ("", False),
        ("NVIDIA GeForce RTX 4090", False), ("NVIDIA T400 4GB", True), ("RTX A4000", False),
    ],
)  # fmt: skip
def test_a_device_before_compute_capability_8_is_a_reason(device: str, is_reason: bool) -> None:
    found = reasons_not_flash(use(), None, {}, device)
    assert found == ((f"{device}: Flash needs compute capability 8.0, Ampere",) if is_reason else ())
    assert reasons_not_flash(use(GQA, WEBGPU), None, {}, device) == ()


@pytest.mark.parametrize(
    ("kernel", "words"), [("cudnn_flash", "from compute capability 9.0 on"), ("xqa", "a query of one token")]
)
def test_a_kernel_that_goes_before_flash_is_the_only_reason(kernel: str, words: str) -> None:
    (reason,) = reasons_not_flash(use(GQA, CUDA, kernel, head_size=512), graph(softcap=1.0), {"sdpa_kernel": "2"})
    assert words in reason
    assert f"allow `{kernel}` too" in reason


def test_attention_of_separate_operators_is_the_only_reason() -> None:
    found = reasons_not_flash(use("MatMul+Softmax+MatMul", CUDA, "unfused", head_size=512), None, {"sdpa_kernel": "2"})
    assert found == ("it is written as separate operators, and no fusion of ONNX Runtime matched them",)


def test_several_reasons_stand_beside_each_other() -> None:
    node = use(GQA, CUDA, head_size=512, element_type="float")
    found = reasons_not_flash(node, graph(softcap=30.0), {"ORT_DISABLE_FLASH_ATTENTION": "1"}, "Tesla T4")

    assert found == (
        "head size 512: Flash takes at most 256",
        "float32: CUDA's Flash takes float16 and bfloat16",
        "ORT_DISABLE_FLASH_ATTENTION=1",
        "softcap 30, which some kernels lack",
        "Tesla T4: Flash needs compute capability 8.0, Ampere",
    )
