"""Which kernel each attention node ran, by every source there is, and what is said where none tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse, attention_of
from pytest_onnxperf.core.ort_log import OrtLog, read_log
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.profile_detail import Detail, KernelEvent, NodeExecution, Tensor, read_detail
from tests.records import CPU, CUDA

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parents[1] / "data" / "profiles"
WEBGPU = "WebGpuExecutionProvider"
GQA, MHA = "GroupQueryAttention", "MultiHeadAttention"


def tensors(*shapes: Sequence[int], of: str = "float16") -> tuple[Tensor, ...]:
    return tuple(Tensor(of, tuple(shape)) for shape in shapes)


def executed(
    name: str = "attn", op_type: str = GQA, ep: str = CUDA, *, run: int = 0, place: int = 0, **changes: Any
) -> NodeExecution:
    """An attention with four heads of 64 and two of the cache, over 8 tokens."""
    plain: dict[str, Any] = {
        "inputs": tensors((1, 8, 256), (1, 8, 128), (1, 8, 128), (1, 2, 0, 64), (1, 2, 0, 64)),
        "outputs": tensors((1, 8, 256), (1, 2, 8, 64), (1, 2, 8, 64)),
    }
    key = NodeKey(name, op_type, ep)
    return NodeExecution(key=key, run=run, start_ns=place, duration_ns=1, **{**plain, **changes})


def decoded(name: str = "attn", op_type: str = GQA, ep: str = CUDA, **changes: Any) -> NodeExecution:
    """The same over one token, with 8 in the cache."""
    inputs = tensors((1, 1, 256), (1, 1, 128), (1, 1, 128), (1, 2, 8, 64), (1, 2, 8, 64))
    return executed(
        name, op_type, ep, inputs=inputs, outputs=tensors((1, 1, 256), (1, 2, 9, 64), (1, 2, 9, 64)), **changes
    )


def detail(*executions: NodeExecution, runs: int = 1, **changes: Any) -> Detail:
    plain: dict[str, Any] = {"kernels": (), "device_programs": ()}
    return Detail(runs=runs, executions=executions, **{**plain, **changes})


def printed(*kernels: str, node: str = "attn", operator: str = GQA) -> list[str]:
    name = f" Node={node}" if node else ""
    return [f"\x1b[36mOperator={operator}{name} DataType=fp16 SdpaKernel={kernel}\x1b[0m" for kernel in kernels]


def log_of(*lines: str, phase: str = "") -> OrtLog:
    return read_log([f"onnxperf-step begin {phase}", *lines, "onnxperf-step end"])


def uses(*details: Detail, log: OrtLog | None = None, wanted: str = CUDA, **changes: Any) -> tuple[AttentionUse, ...]:
    return attention_of(details, log, wanted=wanted, **changes)


def kernels(*details: Detail, log: OrtLog | None = None, wanted: str = CUDA, **changes: Any) -> list[tuple[str, ...]]:
    return [use.kernels for use in uses(*details, log=log, wanted=wanted, **changes)]


# -- what a node is ----------------------------------------------------------------------------------------------------


def test_a_use_has_the_node_its_element_type_and_its_sizes() -> None:
    (use,) = uses(detail(executed()), log=log_of(*printed("FLASH_ATTENTION"), phase="prefill"), phase="prefill")

    assert use == AttentionUse(
        node=NodeKey("attn", GQA, CUDA),
        kernels=("flash",),
        evidence="ONNX Runtime printed FLASH_ATTENTION",
        element_type="float16",
        head_size=64,
        query_length=8,
        phase="prefill",
    )


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "head_size", "query_length"),
    [
        pytest.param(GQA, [(2, 7, 256)], [(2, 7, 256), (2, 2, 9, 64), (2, 2, 9, 64)], 64, 7, id="packed with cache"),
        pytest.param(MHA, [(2, 7, 256)] * 3, [(2, 7, 256)], None, 7, id="heads in one extent"),
        pytest.param(MHA, [(2, 7, 256)] * 3 + [(2, 4, 7, 99)], [(2, 7, 256)], None, 7, id="with a mask of rank 4"),
        pytest.param("Attention", [(2, 4, 7, 32)] * 3, [(2, 4, 7, 32)], 32, 7, id="heads apart"),
        pytest.param(
            "Attention", [(2, 4, 7, 32)] * 3 + [(1, 1, 7, 99)], [(2, 4, 7, 32)], 32, 7, id="heads apart, mask"
        ),
        pytest.param(MHA, [(2, 7, 4, 3, 48)], [(2, 7, 192)], 48, 7, id="query, key and value in one"),
        pytest.param("PagedAttention", [(14, 256)], [(14, 256)], None, None, id="sequences behind one another"),
        pytest.param("PackedMultiHeadAttention", [(14, 4, 3, 64)], [(14, 256)], 64, None, id="packed"),
        pytest.param(GQA, [], [], None, None, id="no shapes"),
    ],
)
def test_sizes_are_read_off_the_shapes_or_not_at_all(
    op_type: str,
    inputs: list[tuple[int, ...]],
    outputs: list[tuple[int, ...]],
    head_size: int | None,
    query_length: int | None,
) -> None:
    (use,) = uses(detail(executed("a", op_type, inputs=tensors(*inputs), outputs=tensors(*outputs))))

    assert (use.head_size, use.query_length) == (head_size, query_length)


@pytest.mark.parametrize(
    ("op_type", "is_one"),
    [
        (GQA, True),
        (MHA, True),
        ("Attention", True),
        ("PagedAttention", True),
        ("DecoderMaskedMultiHeadAttention", True),
        ("LinearAttention", False),
        ("AttentionMask", False),
        ("MatMul", False),
    ],
)
def test_attention_operators_are_uses_and_others_are_none(op_type: str, is_one: bool) -> None:
    assert bool(uses(detail(executed("a", op_type)))) is is_one


def test_a_node_that_runs_often_is_one_use_and_two_nodes_are_two_in_the_order_they_ran() -> None:
    runs = detail(executed("b"), executed("a"), executed("b", run=1), executed("a", run=1), runs=2)

    assert [use.node.name for use in uses(runs, runs)] == ["b", "a"]


# -- CUDA's debug lines ------------------------------------------------------------------------------------------------


def test_each_node_has_the_kernel_of_the_lines_with_its_name() -> None:
    log = log_of(*printed("FLASH_ATTENTION", node="a"), *printed("MATH", node="b"))

    assert kernels(detail(executed("a"), executed("b")), log=log) == [("flash",), ("unfused",)]


def test_kernels_that_differ_between_runs_are_all_told() -> None:
    log = log_of(*printed("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "FLASH_ATTENTION"))
    (use,) = uses(detail(executed(), runs=3), log=log)

    assert use.kernels == ("efficient", "flash")
    assert use.evidence == "ONNX Runtime printed FLASH_ATTENTION, EFFICIENT_ATTENTION"


def test_the_lines_of_another_phase_tell_nothing() -> None:
    log = read_log([
        "onnxperf-step begin prefill", *printed("CUDNN_FLASH_ATTENTION"), "onnxperf-step end",
        "onnxperf-step begin decode", *printed("XQA"), "onnxperf-step end",
    ])  # fmt: skip

    assert kernels(detail(executed()), log=log, phase="prefill") == [("cudnn_flash",)]
    assert kernels(detail(decoded()), log=log, phase="decode") == [("xqa",)]
    assert kernels(detail(executed()), log=log, phase="prefill.vision") == [("cudnn_flash",)]


@pytest.mark.parametrize("name", ["", f"{GQA}_3", f"{GQA}_12"])
def test_a_node_without_a_name_has_the_kernel_of_the_lines_without_one(name: str) -> None:
    log = log_of(*printed("FLASH_ATTENTION", node=""))

    assert kernels(detail(executed(name)), log=log) == [("flash",)]


def test_nodes_without_a_name_have_all_kernels_of_their_operator_and_of_no_other() -> None:
    log = log_of(*printed("FLASH_ATTENTION", "MATH", node=""), *printed("EFFICIENT_ATTENTION", node="", operator=MHA))

    nodes = detail(executed(f"{GQA}_1"), executed(f"{GQA}_2"), executed(f"{MHA}_3", MHA))
    assert kernels(nodes, log=log) == [("flash", "unfused"), ("flash", "unfused"), ("efficient",)]


def test_nodes_of_two_operators_with_an_empty_name_each_have_the_kernels_of_their_own() -> None:
    log = log_of(*printed("FLASH_ATTENTION", node=""), *printed("MATH", node="", operator=MHA))

    assert kernels(detail(executed(""), executed("", MHA)), log=log) == [("flash",), ("unfused",)]


def test_a_line_without_a_name_is_no_evidence_of_a_named_node_beside_lines_with_names() -> None:
    log = log_of(*printed("FLASH_ATTENTION", node=""), *printed("FLASH_ATTENTION", node="printed"))

    nodes = detail(executed("printed"), executed("silent"), executed(f"{GQA}_2"))
    assert kernels(nodes, log=log) == [("flash",), (), ("flash",)]


def test_an_unknown_kernel_has_its_own_word_and_is_no_fused_one() -> None:
    (use,) = uses(detail(executed()), log=log_of(*printed("SPARKLING_ATTENTION")))

    assert use.kernels == ("sparkling_attention",)


def test_a_line_without_a_kernel_cannot_tell() -> None:
    log = log_of(f"Operator={GQA} Node=attn DataType=fp16 FLASH_ATTENTION=0")

    assert kernels(detail(executed()), log=log) == [()]


# -- ONNX Runtime 1.25 and 1.26, which have no word for XQA ------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "node", "word", "expected"),
    [
        pytest.param("1.24.4", decoded(), "MATH", ("unfused",), id="1.24 has no XQA"),
        pytest.param("1.25.0", decoded(), "MATH", (), id="1.25"),
        pytest.param("1.26.1", decoded(), "MATH", (), id="1.26"),
        pytest.param("1.27.0", decoded(), "MATH", ("unfused",), id="1.27 has the word"),
        pytest.param("1.26.0", executed(), "MATH", ("unfused",), id="prefill is never XQA"),
        pytest.param("1.26.0", decoded(), "FLASH_ATTENTION", ("flash",), id="a fused kernel is told"),
    ],
)
def test_unfused_decode_is_told_only_where_the_version_would_say_xqa(
    version: str, node: NodeExecution, word: str, expected: tuple[str, ...]
) -> None:
    assert kernels(detail(node), log=log_of(*printed(word)), runtime_version=version) == [expected]


def test_another_operator_than_group_query_attention_has_no_xqa() -> None:
    log = log_of(*printed("MATH", operator=MHA))

    assert kernels(detail(decoded(op_type=MHA)), log=log, runtime_version="1.26.0") == [("unfused",)]


def test_what_may_be_xqa_says_how_to_tell() -> None:
    (use,) = uses(detail(decoded()), log=log_of(*printed("MATH")), runtime_version="1.26.0")

    assert use.evidence == (
        "ONNX Runtime 1.26.0 has no word for XQA and may print that of unfused attention: with ORT_ENABLE_XQA=0 it is "
        "told"
    )
    assert (use.head_size, use.query_length, use.element_type) == (64, 1, "float16")


# -- the log of ai.onnx Attention, which names no node -----------------------------------------------------------------

FLASH_LINE = "ONNX Attention: using Flash Attention"
UNFUSED_LINE = "Attention: using unified unfused path (is_gqa=0)"


def onnx_nodes(*names: str, runs: int = 1) -> Detail:
    return detail(*(executed(name, "Attention") for name in names), runs=runs)


@pytest.mark.parametrize("lines", [1, 2, 5, 6])
def test_lines_that_all_say_the_same_tell_of_every_node(lines: int) -> None:
    assert kernels(onnx_nodes("a", "b", runs=3), log=log_of(*[FLASH_LINE] * lines)) == [("flash",), ("flash",)]


def test_as_many_lines_as_nodes_and_runs_tell_by_their_order() -> None:
    log = log_of(*[FLASH_LINE, UNFUSED_LINE] * 3)

    assert kernels(onnx_nodes("a", "b", runs=3), log=log) == [("flash",), ("unfused",)]


def test_lines_by_order_may_differ_between_runs() -> None:
    log = log_of(FLASH_LINE, UNFUSED_LINE, FLASH_LINE, FLASH_LINE)

    assert kernels(onnx_nodes("a", "b", runs=2), log=log) == [("flash",), ("flash", "unfused")]


@pytest.mark.parametrize("lines", [5, 7])
def test_another_number_of_lines_that_differ_cannot_tell(lines: int) -> None:
    log = log_of(*([FLASH_LINE, UNFUSED_LINE] * 4)[:lines])

    assert kernels(onnx_nodes("a", "b", runs=3), log=log) == [(), ()]


def test_runs_of_several_files_count_together() -> None:
    log = log_of(*[FLASH_LINE, UNFUSED_LINE] * 2, phase="decode")
    steps = [onnx_nodes("a", "b"), onnx_nodes("a", "b")]

    assert kernels(*steps, log=log, phase="decode") == [("flash",), ("unfused",)]


def test_a_node_on_the_cpu_prints_no_line_and_is_not_counted() -> None:
    nodes = detail(executed("a", "Attention"), executed("b", "Attention", CPU), executed("c", "Attention"))

    assert kernels(nodes, log=log_of(FLASH_LINE, UNFUSED_LINE)) == [("flash",), ("cpu",), ("unfused",)]


def test_lines_of_onnx_attention_tell_nothing_of_another_operator() -> None:
    assert kernels(detail(executed()), log=log_of(FLASH_LINE)) == [()]


def test_a_debug_line_of_the_contrib_operator_of_the_same_name_counts_by_node() -> None:
    log = log_of(*printed("TRT_FUSED_ATTENTION", node="a", operator="Attention"), FLASH_LINE)

    assert kernels(onnx_nodes("a"), log=log) == [("trt_fused",)]


# -- kernels of a build with CUPTI -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("void onnxruntime::flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Params)", "flash"),
        ("void onnxruntime::flash::flash_fwd_splitkv_kernel<...>", "flash"),
        ("void onnxruntime::flash::flash_fwd_splitkv_combine_kernel<...>", "flash"),
        ("_ZN11onnxruntime5flash16flash_fwd_kernelILi64EEEvNS0_6ParamsE", "flash"),
        ("void onnxruntime::lean::lean_fwd_kernel<...>", "lean"),
        ("void attention_kernel_batched_impl<AttentionKernel<cutlass::half_t>>", "efficient"),
        ("onnxruntime::contrib::cuda::attention_kernel_batched_impl_right_padding<...>", "efficient"),
        ("fmha_v2_flash_attention_fp16_64_64_S_64_sm80_kernel", "trt_fused"),
        ("onnxruntime::contrib::cuda::fused_multihead_attention::device_flash_attention<...>", "trt_fused"),
        ("fmha_mhca_fp16_128_64_sm80_kernel", "trt_fused"),
        ("void device_mhca_1xN<Kernel_traits>(Params)", "trt_fused"),
        ("void onnxruntime::contrib::cuda::H128::grp4_fp16::kernel_mha(...)", "xqa"),
        ("void onnxruntime::contrib::cuda::masked_multihead_attention_kernel<half, 64>", "decoder"),
        ("PagedDecodeSplitKV<half>", "decoder"),
        ("PagedDecodeReduce<half>", "decoder"),
        ("PagedLatentAttentionKernel<half>", "latent"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "cudnn_flash"),
        ("void onnxruntime::contrib::attention_softmax_cuda::MaskedSoftmaxKernel<float, 1024>", "unfused"),
        ("void onnxruntime::contrib::attention_softmax_cuda::SoftmaxWithRawMaskSmallKernel<half>", "unfused"),
    ],
)
def test_the_name_of_a_cuda_kernel_tells_the_kernel_of_the_node_before_it(name: str, kernel: str) -> None:
    node = executed()
    helper = KernelEvent("UnpackRoPEAppend<half>", GQA, node.key, 1)
    (use,) = uses(detail(node, kernels=(helper, KernelEvent(name, GQA, node.key, 1))))

    assert use.kernels == (kernel,)
    assert use.evidence == f"kernels of the profile: {name}"


@pytest.mark.parametrize("name", ["ConcatNewToPastKVHeadSize<half>", "UnpackRoPEAppend<half>", "ampere_h16816gemm"])
def test_a_helper_of_attention_tells_nothing(name: str) -> None:
    node = executed()

    assert kernels(detail(node, kernels=(KernelEvent(name, GQA, node.key, 1),))) == [()]


def test_a_kernel_of_another_node_or_operator_tells_nothing() -> None:
    node, other = executed(), executed("other")
    events = (
        KernelEvent("flash_fwd_kernel", GQA, other.key, 1),
        KernelEvent("lean_fwd_kernel", "MatMul", node.key, 1),
        KernelEvent("lean_fwd_kernel", "", None, 1),
    )

    assert kernels(detail(node, other, kernels=events)) == [(), ("flash",)]


def test_a_kernel_that_ran_is_stronger_than_what_was_printed() -> None:
    node = executed()
    ran = (KernelEvent("flash_fwd_kernel", "", node.key, 1),)

    assert kernels(detail(node, kernels=ran), log=log_of(*printed("MATH"))) == [("flash",)]


def test_a_kernel_that_ran_is_told_where_the_version_has_no_word_for_xqa() -> None:
    node = decoded()
    ran = (KernelEvent("attention_softmax_cuda::SoftmaxKernel", "", node.key, 1),)

    assert kernels(detail(node, kernels=ran), runtime_version="1.26.0") == [("unfused",)]


# -- WebGPU ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (["CopyKVCache", "FlashAttention"], ("flash",)),
        (["FlashAttentionDecodeQKT", "FlashAttentionDecodeSplitVx", "FlashAttentionDecodeVxReduce"], ("flash",)),
        (["TransferBSDToBNSH", "AttentionProbs", "InPlaceSoftmax", "VxAttentionScore"], ("unfused",)),
        (["InPlaceSoftmax", "FlashAttention"], ("flash", "unfused")),
        (["CopyKVCache", "SplitPackedQKV", "FusedQKRotaryEmbedding"], ()),
        ([], ()),
    ],
)
@pytest.mark.parametrize("name", ["attn", "a & b", "a&MatMul&FlashAttention"])
def test_the_programs_of_webgpu_tell_the_kernel(name: str, programs: list[str], expected: tuple[str, ...]) -> None:
    found = tuple((f"{name}&{GQA}&{program}", 3) for program in programs)

    assert kernels(detail(executed(name, ep=WEBGPU), device_programs=found), wanted=WEBGPU) == [expected]


def test_the_programs_of_another_node_tell_nothing() -> None:
    found = ((f"other&{GQA}&FlashAttention", 1), (f"attn&{MHA}&FlashAttention", 1), ("FlashAttention", 1))

    assert kernels(detail(executed(ep=WEBGPU), device_programs=found), wanted=WEBGPU) == [()]


@pytest.mark.parametrize("name", ["", f"{GQA}_4"])
def test_programs_without_a_name_are_those_of_the_nodes_without_one(name: str) -> None:
    found = ((f"&{GQA}&FlashAttention", 1),)

    assert kernels(detail(executed(name, ep=WEBGPU), device_programs=found), wanted=WEBGPU) == [("flash",)]


@pytest.mark.parametrize(
    ("name", "op_type", "expected", "query_length"),
    [
        ("webgpu_1.27.0_gqa_prefill_f32", GQA, "flash", 32),
        ("webgpu_1.27.0_gqa_decode_f32", GQA, "flash", 1),
        ("webgpu_1.27.0_g2_packed_rot_prefill", GQA, "flash", 32),
        ("webgpu_1.27.0_g2_packed_rot_decode", GQA, "flash", 1),
        ("webgpu_1.27.0_mha_f32", MHA, "flash", 32),
        ("webgpu_1.27.0_mha_s1_f32", MHA, "flash", 1),
        ("webgpu_1.27.0_att23_f32", "Attention", "cpu", 32),
    ],
)
def test_recorded_profiles_tell_the_kernel(name: str, op_type: str, expected: str, query_length: int) -> None:
    (use,) = uses(read_detail(DATA / f"{name}.json"), wanted=WEBGPU)

    assert (use.node.op_type, use.kernels) == (op_type, (expected,))
    assert (use.element_type, use.query_length) == ("float", query_length)


@pytest.mark.parametrize("name", ["05-ppq-2023-cuda", "webgpu_1.27.0_det2", "cpu_1.31.1_base_2runs"])
def test_recorded_profiles_without_attention_have_no_use(name: str) -> None:
    assert uses(read_detail(DATA / f"{name}.json"), wanted=CUDA) == ()


# -- the CPU, and no evidence ------------------------------------------------------------------------------------------


def test_a_node_on_the_cpu_ran_no_kernel_of_the_device_whatever_was_printed() -> None:
    (use,) = uses(detail(executed(ep=CPU)), log=log_of(*printed("FLASH_ATTENTION")))

    assert (use.kernels, use.evidence) == (("cpu",), f"it ran on the CPU, not on {CUDA}")


@pytest.mark.parametrize(
    ("ep", "wanted", "log", "reason"),
    [
        pytest.param(CUDA, CUDA, None, "--onnxperf-isolation=process keeps one", id="cuda without a log"),
        pytest.param(CUDA, CUDA, read_log([]), "versions before 1.19 print none", id="cuda printed nothing"),
        pytest.param(CUDA, CUDA, read_log([]), f"{GQA} may be an operator that does not print", id="which operator"),
        pytest.param(WEBGPU, WEBGPU, None, "onnxruntime-webgpu 1.25 to 1.27 name them", id="webgpu"),
        pytest.param(CPU, CPU, None, f"{CPU} does not tell which kernel it runs", id="cpu that was asked for"),
        pytest.param("AcmeExecutionProvider", CUDA, None, "AcmeExecutionProvider does not tell", id="another"),
        pytest.param("", CUDA, None, "the execution provider does not tell", id="an old profile"),
    ],
)
def test_without_evidence_the_reason_says_what_would_give_it(
    ep: str, wanted: str, log: OrtLog | None, reason: str
) -> None:
    (use,) = uses(detail(executed(ep=ep)), log=log, wanted=wanted)

    assert use.kernels == ()
    assert reason in use.evidence


# -- MatMul, Softmax, MatMul -------------------------------------------------------------------------------------------


def test_three_operators_that_fit_together_are_one_unfused_use_with_the_softmaxs_name() -> None:
    scores = (1, 4, 8, 8)
    nodes = [
        executed("qk", "MatMul", inputs=tensors((1, 4, 8, 64), (1, 4, 64, 8)), outputs=tensors(scores)),
        executed("soft", "Softmax", inputs=tensors(scores), outputs=tensors(scores)),
        executed("pv", "MatMul", inputs=tensors(scores, (1, 4, 8, 64)), outputs=tensors((1, 4, 8, 64))),
    ]
    again = [executed(n.key.name, n.key.op_type, run=1, inputs=n.inputs, outputs=n.outputs) for n in nodes]

    assert uses(detail(*nodes, *again, runs=2), phase="prefill") == (
        AttentionUse(
            node=NodeKey("soft", "MatMul+Softmax+MatMul", CUDA),
            kernels=("unfused",),
            evidence="MatMul, Softmax and MatMul one by one",
            element_type="float16",
            head_size=64,
            query_length=8,
            phase="prefill",
        ),
    )
