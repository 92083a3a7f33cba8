"""Turns what a test feeds into arrays that can cross a pipe; types that only `ml_dtypes` has travel as raw bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_onnxperf.core.errors import SettingError

from .child.element_types import RawTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .child.protocol import Array

# ml_dtypes dtype name -> TensorProto.DataType. Source: onnx.helper and the ml_dtypes documentation.
_ML_DTYPES: Final = {
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
    "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24,
    "uint2": 25,
    "int2": 26,
}


def as_arrays(feeds: Mapping[str, object]) -> dict[str, Array]:
    """Check that every feed is an array, and return them.

    Raises:
        SettingError: A value is no array (a list has no type: `np.array(x, np.float32)` has), or its dtype is unknown.
    """
    for name in feeds:
        if not isinstance(name, str):
            msg = f"feeds: expected names of inputs as keys, got {name!r}"
            raise SettingError(msg)
    return {name: _as_array(name, value) for name, value in feeds.items()}


def _as_array(name: str, value: object) -> Array:
    if isinstance(value, RawTensor):
        return value
    if not isinstance(value, np.ndarray | np.generic):
        msg = (
            f"input `{name}`: expected a numpy array, got {type(value).__name__}; write np.array(..., np.float32) with "
            f"the input's type"
        )
        raise SettingError(msg)
    array = np.asarray(value)
    if array.dtype.name in _ML_DTYPES:
        return RawTensor(array.tobytes(), _ML_DTYPES[array.dtype.name], array.shape)
    if array.dtype.kind not in "biufcOUS":
        msg = f"input `{name}`: dtype {array.dtype} has no ONNX element type"
        raise SettingError(msg)
    return array
