"""The ONNX element types: how ONNX Runtime names them, how a value is stored, which of them numpy lacks.

A type that numpy lacks is fed as an `OrtValue` made from raw storage (`OrtValue.ortvalue_from_numpy_with_onnx_type`).
Types below eight bits are packed, the first value in the lowest bits of the first byte, while the storage array still
has one byte for each value: the runtime reads only the packed bytes at its front. Measured on onnxruntime 1.20.1 to
1.32.0.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class InputError(Exception):
    """A model's inputs cannot be made, checked or bound; the message says which, what was expected and what to do."""


def closest(name: str, valid: Sequence[str]) -> str:
    """Return "; did you mean `x`?" for the valid name most like `name`, or "" when there is none.

    >>> closest("inputs_id", ["input_ids", "mask"])
    '; did you mean `input_ids`?'
    """
    matches = difflib.get_close_matches(name, valid, n=1, cutoff=0.0)
    return f"; did you mean `{matches[0]}`?" if matches else ""


@dataclass(frozen=True)
class ElementType:
    """One element type of ONNX."""

    name: str
    """As in ONNX Runtime's `tensor(<name>)`."""
    number: int
    """`TensorProto.DataType` of ONNX."""
    numpy_name: str
    """The numpy dtype that holds it; for a type that numpy lacks, the unsigned one that holds its bits."""
    bits: int
    """Bits of one stored value; below eight, values are packed."""
    is_native: bool = True
    """Whether numpy has the type, so that an array is fed as it is."""
    exponent_bits: int = 0
    """Of a small float (`float8...`, `float4...`); 0 for all others."""
    bias: int = 0
    """Exponent bias of a small float."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the storage."""
        return np.dtype(self.numpy_name)


_TYPES = (
    ElementType("float", 1, "float32", 32),
    ElementType("uint8", 2, "uint8", 8),
    ElementType("int8", 3, "int8", 8),
    ElementType("uint16", 4, "uint16", 16),
    ElementType("int16", 5, "int16", 16),
    ElementType("int32", 6, "int32", 32),
    ElementType("int64", 7, "int64", 64),
    ElementType("string", 8, "object", 0),
    ElementType("bool", 9, "bool", 8),
    ElementType("float16", 10, "float16", 16),
    ElementType("double", 11, "float64", 64),
    ElementType("uint32", 12, "uint32", 32),
    ElementType("uint64", 13, "uint64", 64),
    ElementType("complex64", 14, "complex64", 64),
    ElementType("complex128", 15, "complex128", 128),
    ElementType("bfloat16", 16, "uint16", 16, is_native=False),
    ElementType("float8e4m3fn", 17, "uint8", 8, is_native=False, exponent_bits=4, bias=7),
    ElementType("float8e4m3fnuz", 18, "uint8", 8, is_native=False, exponent_bits=4, bias=8),
    ElementType("float8e5m2", 19, "uint8", 8, is_native=False, exponent_bits=5, bias=15),
    ElementType("float8e5m2fnuz", 20, "uint8", 8, is_native=False, exponent_bits=5, bias=16),
    ElementType("uint4", 21, "uint8", 4, is_native=False),
    ElementType("int4", 22, "uint8", 4, is_native=False),
    ElementType("float4e2m1", 23, "uint8", 4, is_native=False, exponent_bits=2, bias=1),
    ElementType("float8e8m0", 24, "uint8", 8, is_native=False, exponent_bits=8, bias=127),
    ElementType("uint2", 25, "uint8", 2, is_native=False),
    ElementType("int2", 26, "uint8", 2, is_native=False),
)
BY_NAME: dict[str, ElementType] = {element.name: element for element in _TYPES}
BY_NUMBER: dict[int, ElementType] = {element.number: element for element in _TYPES}


def element_type_of(ort_type: str) -> ElementType | None:
    """Return the element type of a tensor, or None for a sequence, a map, an optional or a type not known here.

    >>> element_type_of("tensor(float16)").number
    10
    >>> element_type_of("seq(tensor(float))") is None
    True
    """
    match = re.fullmatch(r"tensor\((\w+)\)", ort_type)
    return BY_NAME.get(match.group(1)) if match else None


def is_native(ort_type: str) -> bool:
    """Whether a type is a tensor of a type that numpy has.

    >>> is_native("tensor(float16)"), is_native("tensor(bfloat16)"), is_native("seq(tensor(float))")
    (True, False, False)
    """
    element = element_type_of(ort_type)
    return element is not None and element.is_native


@dataclass(frozen=True)
class RawTensor:
    """A tensor whose element type numpy lacks, as it travels from an `ml_dtypes` array to the measuring process."""

    data: bytes
    """The array's bytes in C order, one stored element for each value (`array.tobytes()`): 4-bit values one a byte."""
    element_type: int
    """`TensorProto.DataType` of ONNX."""
    shape: Sequence[int]


def decode(element: ElementType) -> NDArray[np.float64]:
    """Return the value of each code of a type of at most eight bits; NaN where a code is infinite or no number.

    Source: the OCP 8-bit floating point and microscaling formats, as ONNX's `float8` page restates them.

    >>> decode(BY_NAME["float4e2m1"])[:8].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    >>> decode(BY_NAME["int4"])[[0, 7, 8, 15]].tolist()
    [0.0, 7.0, -8.0, -1.0]
    """
    codes = np.arange(2**element.bits)
    if element.name == "float8e8m0":
        return np.asarray(np.where(codes == 255, np.nan, 2.0 ** (codes - float(element.bias))))
    if not element.exponent_bits:
        wraps = codes >= 2 ** (element.bits - 1) if element.name.startswith("int") else np.zeros(len(codes), bool)
        return np.asarray(codes - wraps * 2.0**element.bits)
    mantissa_bits = element.bits - 1 - element.exponent_bits
    sign = np.where(codes >> (element.bits - 1), -1.0, 1.0)
    exponent = codes >> mantissa_bits & (2**element.exponent_bits - 1)
    fraction = (codes & (2**mantissa_bits - 1)) / 2.0**mantissa_bits
    values = np.where(
        exponent == 0,
        sign * fraction * 2.0 ** (1 - element.bias),
        sign * (1 + fraction) * 2.0 ** (exponent - float(element.bias)),
    )
    not_finite = {
        "float8e4m3fn": codes & 0x7F == 0x7F,
        "float8e4m3fnuz": codes == 0x80,
        "float8e5m2": exponent == 31,
        "float8e5m2fnuz": codes == 0x80,
    }.get(element.name, np.zeros(len(codes), bool))
    return np.asarray(np.where(not_finite, np.nan, values))


def pack(codes: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return `codes`, one a byte, packed to the front of an array of the same shape.

    >>> [hex(byte) for byte in pack(np.array([1, 2, 3], np.uint8), 4)]
    ['0x21', '0x3', '0x0']
    """
    if bits >= 8:
        return np.ascontiguousarray(codes)
    per_byte = 8 // bits
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes.reshape(-1) & (2**bits - 1)
    packed = np.zeros(len(padded) // per_byte, np.uint8)
    for position in range(per_byte):
        packed |= padded[position::per_byte] << np.uint8(bits * position)
    storage = np.zeros(codes.size, np.uint8)
    storage[: len(packed)] = packed
    return storage.reshape(codes.shape)
