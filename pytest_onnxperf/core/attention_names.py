"""The names of attention kernels: those that budgets use, and the runtimes' own words for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

UNFUSED: Final = "unfused"
ON_CPU: Final = "cpu"
"""Not a kernel: the node ran on the CPU although another execution provider was asked for."""
FUSED: Final = "fused"
"""In a budget: any of the fused kernels."""

KERNELS: Final[Mapping[str, str]] = {
    "flash": "Flash Attention",
    "cudnn_flash": "cuDNN's Flash Attention",
    "xqa": "XQA, for decode with grouped queries",
    "decoder": "decoder attention, for a query of one token",
    "efficient": "memory-efficient attention of CUTLASS",
    "trt_fused": "the fused kernels of TensorRT",
    "lean": "Lean Attention",
    "latent": "latent attention",
    UNFUSED: "products and a softmax, each a kernel of its own",
}
"""Name of a kernel -> what it is."""

FUSED_KERNELS: Final = frozenset(KERNELS) - {UNFUSED}

# Slower ones come later; kernels of one row have no order among them, since which is fastest depends on the shapes.
TIERS: Final = (FUSED_KERNELS - {"efficient"}, frozenset({"efficient"}), frozenset({UNFUSED}), frozenset({ON_CPU}))

# Words of CUDA's debug lines. Source: contrib_ops/cpu/bert/attention_common.h and attention_kernel_options.cc, 1.19 on.
_SDPA_KERNELS: Final = {
    "FLASH_ATTENTION": "flash",
    "LEAN_ATTENTION": "lean",
    "EFFICIENT_ATTENTION": "efficient",
    "TRT_FUSED_ATTENTION": "trt_fused",
    "TRT_FLASH_ATTENTION": "trt_fused",
    "TRT_CROSS_ATTENTION": "trt_fused",
    "TRT_CAUSAL_ATTENTION": "trt_fused",
    "CUDNN_FLASH_ATTENTION": "cudnn_flash",
    "DECODER_ATTENTION": "decoder",
    "FT_CAUSAL_ATTENTION": "decoder",
    "XQA": "xqa",
    "LATENT_ATTENTION": "latent",
    "MATH": UNFUSED,
    # Words of ai.onnx Attention's log. Source: core/providers/cuda/llm/attention.cc.
    "cuDNN SDPA": "cudnn_flash",
    "Flash Attention": "flash",
    "Memory Efficient Attention": "efficient",
    "unified unfused path": UNFUSED,
}

# Names of CUDA kernels, demangled or not; the first that matches counts. Source: the kernels in the released libraries.
_CUDA_KERNELS: Final = (
    (re.compile(r"cudnn.*sdpa|sdpa.*cudnn", re.IGNORECASE), "cudnn_flash"),
    (re.compile(r"fmha_v2_flash|fused_multihead_attention|device_flash_attention|fmha_mhca|device_mhca|device_1xN"
                r"|device_2x2"), "trt_fused"),
    (re.compile(r"flash_fwd_"), "flash"),
    (re.compile(r"lean_fwd_kernel"), "lean"),
    (re.compile(r"attention_kernel_batched_impl|fmha_cutlass"), "efficient"),
    (re.compile(r"kernel_mha"), "xqa"),
    (re.compile(r"masked_multihead_attention_kernel|PagedDecodeSplitKV|PagedDecodeReduce"), "decoder"),
    (re.compile(r"PagedLatentAttention"), "latent"),
    (re.compile(r"attention_softmax_cuda|UnfusedSoftmaxKernel|UnfusedGqa|SoftmaxWithRawMask|MaskedSoftmax"), UNFUSED),
)  # fmt: skip

# Names of WebGPU programs. Source: contrib_ops/webgpu/bert; profiles of 1.25 and 1.27.
_WEBGPU_PROGRAMS: Final = (
    (re.compile(r"^FlashAttention"), "flash"),
    (re.compile(r"^(AttentionProbs|InPlaceSoftmax|VxAttentionScore)$"), UNFUSED),
)


def kernels_of_word(word: str) -> frozenset[str]:
    """Return the kernels that a word of CUDA's debug lines or of ai.onnx Attention's log means.

    The set of words is open: one that is not known is returned in lower case.

    >>> sorted(kernels_of_word("FLASH_ATTENTION")), sorted(kernels_of_word("NEW_ATTENTION"))
    (['flash'], ['new_attention'])
    """
    return frozenset(_SDPA_KERNELS.get(part, part.lower()) for part in word.split("+") if part != "?")


def kernel_of_cuda(name: str) -> str:
    """Return the kernel that a CUDA kernel's name shows; empty where it is a helper or not known.

    >>> kernel_of_cuda("void onnxruntime::flash::flash_fwd_splitkv_kernel<...>"), kernel_of_cuda("ConcatNewToPastKV")
    ('flash', '')
    """
    return next((kernel for pattern, kernel in _CUDA_KERNELS if pattern.search(name)), "")


def kernel_of_webgpu(program: str) -> str:
    """Return the kernel that a WebGPU program shows; empty where it is a helper or not known.

    >>> kernel_of_webgpu("FlashAttentionDecodeQKT"), kernel_of_webgpu("CopyKVCache")
    ('flash', '')
    """
    return next((kernel for pattern, kernel in _WEBGPU_PROGRAMS if pattern.search(program)), "")


def is_attention(op_type: str) -> bool:
    """Tell whether an operator is softmax attention, in any domain.

    >>> is_attention("DecoderMaskedMultiHeadAttention"), is_attention("LinearAttention")
    (True, False)
    """
    return op_type.endswith("Attention") and not op_type.startswith("Linear")
