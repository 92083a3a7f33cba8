"""Why an attention node did not run Flash Attention, as far as the model, the options and the device tell.

Sources: onnxruntime contrib_ops/cuda/bert/flash_attention/flash_api.h (`is_supported`), docs/contrib_ops/cuda/gqa.md,
attention_kernel_options.cc; for WebGPU profiles of 1.25 and 1.27.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .attention_backend import OPTION
from .graph import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .attention import AttentionUse
    from .graph import GraphNode, Model

_CUDA: Final = "CUDAExecutionProvider"
_WEBGPU: Final = "WebGpuExecutionProvider"
# Healthy choices of the runtime. Source: docs/contrib_ops/cuda/gqa.md: XQA, cuDNN, Flash, efficient, unfused.
_PREFERRED: Final = {
    "cudnn_flash": "cuDNN's Flash Attention goes before it from compute capability 9.0 on: allow `cudnn_flash` too",
    "xqa": "XQA goes before it for a query of one token: allow `xqa` too",
}
_MOST_HEAD_SIZE: Final = 256
_HEAD_SIZE_STEP: Final = 8
_FLASH_BIT: Final = 1
# Devices before compute capability 8.0, by the names that NVML gives. Source: developer.nvidia.com/cuda-gpus.
_BEFORE_AMPERE: Final = re.compile(
    r"\b(T4|V100\S*|P100\S*|P40|P4|TITAN (V|RTX|X)|(GTX|Quadro P|Quadro M)\S* ?\d+|RTX 20\d\d\S*|Quadro RTX \d+)",
    re.IGNORECASE,
)
# Input that holds an attention bias or mask of its own, by operator. Source: docs/ContribOperators.md, ai.onnx.
_BIAS_INPUTS: Final = {
    "GroupQueryAttention": 10,
    "MultiHeadAttention": 5,
    "DecoderMaskedMultiHeadAttention": 4,
    "Attention": 3,
}


def reasons_not_flash(
    use: AttentionUse, model: Model | None, options: Mapping[str, str], device: str = ""
) -> tuple[str, ...]:
    """Return what stands in the way; empty where nothing that is known does.

    Args:
        use: A node that ran another kernel.
        model: The graph, for its attributes and inputs; None where there is none.
        options: What was set: `sdpa_kernel` and environment variables.
        device: Its name; empty where it is not known.
    """
    preferred = [_PREFERRED[kernel] for kernel in use.kernels if kernel in _PREFERRED]
    if preferred:
        return tuple(preferred)
    if "+" in use.node.op_type:
        return ("it is written as separate operators, and no fusion of ONNX Runtime matched them",)
    node = _node(use, model)
    return (
        *_by_shape(use),
        *_by_type(use),
        *_by_options(use, options),
        *_by_node(use, node),
        *_by_device(use, device),
    )


def _node(use: AttentionUse, model: Model | None) -> GraphNode | None:
    nodes = all_nodes(model.graph) if model else iter(())
    return next((node for node in nodes if (node.name, node.op_type) == (use.node.name, use.node.op_type)), None)


def _by_shape(use: AttentionUse) -> Iterator[str]:
    if use.head_size and use.head_size > _MOST_HEAD_SIZE:
        yield f"head size {use.head_size}: Flash takes at most {_MOST_HEAD_SIZE}"
    elif use.head_size and use.head_size % _HEAD_SIZE_STEP:
        yield f"head size {use.head_size}: Flash takes multiples of {_HEAD_SIZE_STEP}"


def _by_type(use: AttentionUse) -> Iterator[str]:
    if use.node.execution_provider == _CUDA and use.element_type in ("float", "float32"):
        yield "float32: CUDA's Flash takes float16 and bfloat16"


def _by_options(use: AttentionUse, options: Mapping[str, str]) -> Iterator[str]:
    if use.node.execution_provider != _CUDA:
        return
    mask = options.get(OPTION, "0")
    if mask.isdigit() and int(mask) and not int(mask) & _FLASH_BIT:
        yield f"{OPTION}={mask} leaves Flash out"
    for name in ("ORT_DISABLE_FLASH_ATTENTION", "ORT_DISABLE_FLASH_DECODE"):
        if options.get(name, "0") not in ("", "0") and (not name.endswith("DECODE") or use.query_length == 1):
            yield f"{name}={options[name]}"


def _by_node(use: AttentionUse, node: GraphNode | None) -> Iterator[str]:
    if node is None:
        return
    bias = _BIAS_INPUTS.get(node.op_type) if node.domain or node.op_type == "Attention" else None
    if bias is not None and len(node.inputs) > bias and node.inputs[bias]:
        yield f"a mask or bias is given ({node.inputs[bias]})"
    window = _number(node, "local_window_size")
    if window > 0:
        some = "" if use.node.execution_provider == _WEBGPU else ", which some kernels lack"
        yield f"a window of {window:g}{some}"
    if _number(node, "softcap") > 0:
        yield f"softcap {_number(node, 'softcap'):g}, which some kernels lack"
    if _number(node, "smooth_softmax") > 0:
        yield "smooth_softmax"


def _number(node: GraphNode, name: str) -> float:
    value = node.attributes.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _by_device(use: AttentionUse, device: str) -> Iterator[str]:
    if use.node.execution_provider == _CUDA and _BEFORE_AMPERE.search(device):
        yield f"{device}: Flash needs compute capability 8.0, Ampere"
