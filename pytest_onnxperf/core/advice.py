"""What to do about a failure: one table of causes, each with how it is detected, the advice, and where it comes from.

To add a cause, add a row to `CAUSES`: a function that returns what shows the cause, empty where it is not the case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from . import advice_detect as detect
from .situation import Situation

if TYPE_CHECKING:
    from .outcome import Outcome


@dataclass(frozen=True, slots=True)
class Cause:
    """One row of the table."""

    name: str
    shows: Callable[[Situation], str]
    """Returns what shows the cause, as a phrase; empty where it is not the case."""
    advice: str
    source: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A cause that was found."""

    cause: str
    shown_by: str
    advice: str
    source: str

    @property
    def text(self) -> str:
        """One line for a person."""
        return f"{self.shown_by[0].upper()}{self.shown_by[1:]}: {self.advice}"


def advice_on(outcome: Outcome) -> tuple[Advice, ...]:
    """Return the advice on what failed a measurement."""
    verdict = outcome.verdict
    over_budget = frozenset(limit.key.split(".")[-1] for limit in verdict.broken)
    return advice_for(Situation(outcome.record, verdict.failed_names, outcome.explanation, over_budget))


def advice_for(situation: Situation) -> tuple[Advice, ...]:
    """Return the advice for every cause that is found, in the order of the table: the nearest to a remedy first."""
    found = []
    for cause in CAUSES:
        if shown_by := cause.shows(situation):
            found.append(Advice(cause.name, shown_by, cause.advice, cause.source))
    return tuple(found)


CAUSES: Final = (
    Cause(
        "opset without a kernel",
        detect.opset_without_kernel,
        "see in docs/OperatorKernels.md whether the EP has a kernel for an older opset, and export with that, or "
        "whether a newer ONNX Runtime has one",
        "onnxruntime docs/OperatorKernels.md; kernel_registry.cc looks a kernel up by opset",
    ),
    Cause(
        "op without a kernel",
        detect.op_without_kernel,
        "replace the operator, or let it stay on the CPU (allow_cpu_ops) and keep what is around it together",
        "onnxruntime docs/OperatorKernels.md",
    ),
    Cause(
        "integer op on the CPU",
        detect.integer_op_on_cpu,
        "cast to int32 or float before it, or compute it outside of the model: kernels of devices seldom take int64",
        "onnxruntime docs/OperatorKernels.md; issues with CumSum, TopK and NonZero of int64",
    ),
    Cause(
        "Conv on the CPU",
        detect.conv_on_cpu,
        "check its type, rank and auto_pad against the EP's kernels: a convolution on the CPU costs its copies too",
        "onnxruntime docs/OperatorKernels.md",
    ),
    Cause(
        "shape chain",
        detect.shape_chain,
        "fix dynamic dimensions (free_dimensions, or at export), so that Shape, Gather and ConstantOfShape fold away",
        "onnxruntime fallback_cpu_capability.cc; docs of free dimension overrides",
    ),
    Cause(
        "input in host memory",
        detect.host_input,
        "feed or compute that tensor on the host from the start; one small copy a run is how the operator is made",
        "onnxruntime group_query_attention.cc, OrtMemTypeCPUInput",
    ),
    Cause(
        "head size over 256",
        detect.large_heads,
        "no Flash kernel takes more: split the heads differently, or expect unfused attention",
        "onnxruntime flash_api.h, is_supported: head_size % 8 == 0 and <= 256",
    ),
    Cause(
        "unfused attention",
        detect.unfused_attention,
        "export GroupQueryAttention or MultiHeadAttention (the GenAI builder, optimum, or onnxruntime.transformers' "
        "optimizer), or ai.onnx Attention on an ONNX Runtime that has a fused kernel for it",
        "onnxruntime docs/contrib_ops/cuda/gqa.md",
    ),
    Cause(
        "replayed graph",
        detect.replayed_graph,
        "measure facts with graph capture off (enable_cuda_graph=0, gpu_graph_id=-1): a replay leaves no node events",
        "onnxruntime inference_session.cc, ReplayGraph",
    ),
    Cause(
        "lost fusion",
        detect.lost_fusion,
        "check the exporter, the opset, and graph_optimization_level; compare with `onnxperf diff` where it ran",
        "onnxruntime docs/performance/graph-optimizations",
    ),
    Cause(
        "Cast pairs",
        detect.cast_pairs,
        "keep one type through the model: convert it whole (keep_io_types) rather than node by node",
        "onnxruntime insert_cast_transformer.cc; onnxconverter-common float16",
    ),
    Cause(
        "Transpose not fused",
        detect.transposes,
        "export in the layout that the EP wants (NHWC for convolutions, BSNH for attention), or raise "
        "graph_optimization_level",
        "onnxruntime transpose_optimizer; docs/performance/graph-optimizations",
    ),
    Cause(
        "metadata ops that cost time",
        detect.metadata_ops,
        "Reshape, Squeeze and Unsqueeze move nothing where shapes are known: fold constants and fix dimensions",
        "onnxruntime constant_folding.cc, reshape_fusion.cc",
    ),
    Cause(
        "decode bound by memory bandwidth",
        detect.memory_bound_decode,
        "each token reads all weights: use a smaller type (INT4, FP8), a larger batch, or speculative decoding",
        "Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009",
    ),
    Cause(
        "max_length at the context size",
        detect.long_max_length,
        "set max_length to prompt plus new tokens: with a shared buffer attention walks, and memory holds, all of it",
        "onnxruntime-genai issues 550 and 2239",
    ),
    Cause(
        "first-run spike",
        detect.first_run_spike,
        "memory is touched first in the first run, on a GPU cuBLAS handles, cuDNN's search and shader compilation are "
        "made too: warm up at each shape before serving; on CUDA set cudnn_conv_algo_search",
        "onnxruntime CUDA EP documentation, cudnn_conv_algo_search",
    ),
    Cause(
        "default thread count",
        detect.default_threads,
        "times on the CPU depend on it: set what production uses (--onnxperf-threads)",
        "onnxruntime docs/performance/tune-performance/threading",
    ),
    # What to do where nothing nearer was found.
    Cause(
        "memcpy nodes",
        detect.unexplained_memcpy,
        "each copies a tensor between host and device on every run: keep the nodes on one device",
        "onnxruntime transformer_memcpy.cc",
    ),
    Cause(
        "nodes on the CPU",
        detect.unexplained_cpu_nodes,
        "the EP has no kernel for them, or they are better there; those that may stay can be named with allow_cpu_ops",
        "onnxruntime session_state.cc, VerifyEachNodeIsAssignedToAnEp",
    ),
    Cause(
        "a limit of nodes on the CPU, on the CPU",
        detect.limited_on_the_cpu,
        "give max_cpu_nodes the device that it is meant for, onnx_budget(on='cuda', max_cpu_nodes=...), or limit "
        "max_nodes",
        "this plugin",
    ),
    Cause(
        "a longer prefill",
        detect.prefill,
        "check the attention operator, the chunk size, and that the prompt did not grow",
        "onnxruntime-genai, append_tokens",
    ),
    Cause(
        "time",
        detect.slower,
        "profile the old version too (a test that fails keeps its profile) and compare with `onnxperf diff OLD NEW`; "
        "see that nothing else used the device",
        "this plugin",
    ),
)
