"""Inputs that an operator takes in host memory though it runs on a device.

Source: the kernel definitions with `InputMemoryType(OrtMemTypeCPUInput, index)` in onnxruntime/core/providers/cuda,
.../webgpu and contrib_ops/cuda. A provider may have fewer of them. The names are those of the operators' schemas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_AXES: Final = {1: "axes"}
_REDUCTIONS: Final = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

_ONNX: Final[Mapping[str, Mapping[int, str]]] = {
    "If": {0: "cond"},
    "Loop": {0: "M", 1: "cond"},
    "Reshape": {1: "shape"},
    "Expand": {1: "shape"},
    "Tile": {1: "repeats"},
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Squeeze": _AXES,
    "Unsqueeze": _AXES,
    "Pad": {1: "pads", 2: "constant_value", 3: "axes"},
    "Resize": {1: "roi", 2: "scales", 3: "sizes"},
    "Upsample": {1: "scales"},
    "ConstantOfShape": {0: "input"},
    "Range": {0: "start", 1: "limit", 2: "delta"},
    "TopK": {1: "K"},
    "OneHot": {1: "depth"},
    "CumSum": {1: "axis"},
    "Split": {1: "split"},
    "Trilu": {1: "k"},
    "Clip": {1: "min", 2: "max"},
    **{f"Reduce{name}": _AXES for name in _REDUCTIONS},
}
_MICROSOFT: Final[Mapping[str, Mapping[int, str]]] = {
    "GroupQueryAttention": {6: "total_sequence_length"},
    "MultiHeadAttention": {8: "past_sequence_length"},
    "SparseAttention": {6: "total_sequence_length"},
}
_DOMAINS: Final = {"": _ONNX, "com.microsoft": _MICROSOFT}


def host_input(domain: str, op_type: str, index: int) -> str:
    """Return the name of an input that is taken in host memory, empty where none is known to be.

    >>> host_input("com.microsoft", "GroupQueryAttention", 6)
    'total_sequence_length'
    >>> host_input("", "MatMul", 0)
    ''
    """
    return _DOMAINS.get(domain, {}).get(op_type, {}).get(index, "")
