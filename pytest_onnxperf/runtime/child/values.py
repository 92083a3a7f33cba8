"""Seeded values for made inputs: the same on every machine, and in range for the type."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .element_types import ElementType, InputError, decode, pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

Range = tuple[float, float]
BLOCK_VALUES = 1 << 20
"""Values drawn at a time, so that a large half-precision input does not need four times its size while it is made."""
BFLOAT16_MAX = 3.3895313892515355e38


def make(name: str, element: ElementType, shape: tuple[int, ...], limits: Range | None, seed: int) -> NDArray[Any]:
    """Return the storage of a made input.

    Without `limits`: floats are uniform in [-1, 1) (complex: both parts), small floats are drawn from the values the
    type can represent there; 8-bit, 4-bit and 16-bit integers are data and take their whole range; **integers of 32
    and 64 bits are 1 everywhere, and bools true**, because these are token ids, positions, lengths, masks, trip counts
    and divisors: 1 is valid as each of them and masks nothing. Strings are "s0", "s1", ...

    Args:
        name: the input's name; its values are seeded by it too, so that inputs do not depend on each other.
        element: the input's type.
        shape: sizes, at least 0.
        limits: lowest and highest value, both included; None for the values above.
        seed: at least 0.

    Raises:
        InputError: `limits` are no range, or none of this type.
    """
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    if element.name == "string":
        if limits is not None:
            msg = f"ranges: input `{name}` holds strings, which have no range; leave it out, or give the array itself"
            raise InputError(msg)
        return np.array([f"s{index}" for index in range(math.prod(shape))], object).reshape(shape)
    low, high = _limits(name, element, limits)
    if not element.is_native and element.name != "bfloat16":
        return _draw_codes(generator, element, shape, low, high, name)
    if element.dtype.kind in "iu" and element.is_native:
        return generator.integers(int(low), int(high), shape, element.dtype, endpoint=True)
    if element.dtype.kind == "b":
        return generator.integers(int(low), int(high), shape, np.uint8, endpoint=True).astype(bool)
    return _draw_floats(generator, element, shape, low, high)


def _limits(name: str, element: ElementType, limits: Range | None) -> Range:
    lowest, highest = bounds(element)
    if limits is None:
        if element.bits >= 32 and element.dtype.kind in "iu":
            return 1, 1
        if element.dtype.kind == "b":
            return 1, 1
        return (lowest, highest) if _is_integer(element) else (max(-1, lowest), 1)
    where = f"ranges: input `{name}` ({element.name})"
    try:
        low, high = limits
        numbers = [low, high]
        is_finite = all(math.isfinite(number) for number in numbers)
    except (TypeError, ValueError):
        is_finite = False
    if not is_finite:
        msg = f"{where}: expected two finite numbers (lowest, highest), got {limits!r}"
        raise InputError(msg)
    if low > high:
        msg = f"{where}: the lowest value {low} is above the highest {high}"
        raise InputError(msg)
    if low < lowest or high > highest:
        msg = f"{where}: ({low}, {high}) leaves the range of the type, which is {lowest} to {highest}"
        raise InputError(msg)
    if _is_integer(element) and (low != int(low) or high != int(high)):
        msg = f"{where}: expected whole numbers, got ({low}, {high})"
        raise InputError(msg)
    return low, high


def _is_integer(element: ElementType) -> bool:
    return element.dtype.kind == "b" or element.name.startswith(("int", "uint"))


def bounds(element: ElementType) -> Range:
    """Return the lowest and highest finite value of a type.

    >>> from .element_types import BY_NAME
    >>> bounds(BY_NAME["int4"]), bounds(BY_NAME["float8e4m3fn"])
    ((-8, 7), (-448.0, 448.0))
    """
    if element.name == "bfloat16":
        return -BFLOAT16_MAX, BFLOAT16_MAX
    if not element.is_native:
        values = decode(element)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        return (int(low), int(high)) if _is_integer(element) else (low, high)
    if element.dtype.kind in "iu":
        integers = np.iinfo(element.dtype)
        return int(integers.min), int(integers.max)
    if element.dtype.kind == "b":
        return 0, 1
    floats = np.finfo(element.dtype)
    return float(floats.min), float(floats.max)


def _draw_codes(
    generator: np.random.Generator, element: ElementType, shape: tuple[int, ...], low: float, high: float, name: str
) -> NDArray[Any]:
    values = decode(element)
    codes = np.flatnonzero((values >= low) & (values <= high)).astype(np.uint8)
    if not len(codes):
        msg = f"ranges: input `{name}` ({element.name}): the type has no value between {low} and {high}"
        raise InputError(msg)
    return pack(codes[generator.integers(0, len(codes), shape)], element.bits)


def _draw_floats(
    generator: np.random.Generator, element: ElementType, shape: tuple[int, ...], low: float, high: float
) -> NDArray[Any]:
    parts = 2 if element.dtype.kind == "c" else 1
    part = np.dtype(f"f{element.dtype.itemsize // 2}") if parts == 2 else element.dtype
    flat = np.empty(math.prod(shape) * parts, part)
    for start in range(0, len(flat), BLOCK_VALUES):
        uniform = generator.random(min(BLOCK_VALUES, len(flat) - start))
        drawn = low * (1 - uniform) + high * uniform  # never overflows, unlike low + (high - low) * uniform
        flat[start : start + BLOCK_VALUES] = _bfloat16_bits(drawn) if element.name == "bfloat16" else drawn
    return flat.view(element.dtype).reshape(shape)


def _bfloat16_bits(values: NDArray[np.float64]) -> NDArray[Any]:
    """Round to nearest, ties to even, as ONNX does."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded: NDArray[Any] = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype(np.uint16)
