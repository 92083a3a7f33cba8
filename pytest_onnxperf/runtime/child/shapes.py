"""Gives every input of a model a shape: binds dynamic dimensions by name, or whole inputs at once."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .element_types import InputError, closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Dims = dict[str, list[Any]]
"""Input name -> its dimensions as the model declares them: int, a symbolic name, or None. [] is a scalar *or* a tensor
of unknown rank: ONNX Runtime shows both alike."""


def solve(declared: Dims, shapes: Mapping[str, int | Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input.

    Args:
        declared: input name -> dimensions.
        shapes: symbolic dimension -> size, or input name -> whole shape. A whole shape also binds the symbolic
            dimensions of its input everywhere else.

    Raises:
        InputError: something in `shapes` is unknown, negative or contradicts the model, or dimensions stay unbound.
    """
    sizes, wholes, problems = _read(declared, shapes)
    if not problems:
        problems = _bind_whole_shapes(declared, wholes, sizes)
    if problems:
        raise InputError("\n".join(["shapes does not fit the model:", *(f"  {problem}" for problem in problems)]))
    solved = {}
    unbound = {}
    for name, dims in declared.items():
        if name in wholes:
            solved[name] = wholes[name]
            continue
        missing = [axis for axis, dim in enumerate(dims) if not _is_fixed(dim) and (not dim or dim not in sizes)]
        if missing:
            unbound[name] = missing
        else:
            solved[name] = tuple(dim if _is_fixed(dim) else sizes[dim] for dim in dims)
    if unbound:
        raise InputError(_unbound_text(declared, unbound))
    return solved


def _is_fixed(dim: object) -> bool:
    return isinstance(dim, int) and dim >= 0


def symbols(declared: Dims) -> list[str]:
    """Return the names of the symbolic dimensions, each once, in order of appearance."""
    return list(dict.fromkeys(dim for dims in declared.values() for dim in dims if isinstance(dim, str) and dim))


def _read(
    declared: Dims, shapes: Mapping[str, int | Sequence[int]]
) -> tuple[dict[str, int], dict[str, tuple[int, ...]], list[str]]:
    """Split `shapes` into sizes of symbolic dimensions and whole shapes; say what is neither."""
    sizes: dict[str, int] = {}
    wholes: dict[str, tuple[int, ...]] = {}
    problems = []
    known = symbols(declared)
    for key, value in shapes.items():
        whole = _sizes(value)
        size = _size(value)
        if key in known and size is not None:
            sizes[key] = size
        elif key in declared and whole is not None:
            wholes[key] = whole
        elif key in known:
            problems.append(f"`{key}`: a dimension's size is an int of at least 0, got {value!r}")
        elif key in declared:
            problems.append(f"`{key}`: an input's shape is a sequence of ints of at least 0, got {value!r}")
        else:
            valid = "dimensions " + _names(known) + ", inputs " + _names(declared)
            problems.append(
                f"`{key}` is no dimension and no input of the model{closest(key, [*known, *declared])} ({valid})"
            )
    return sizes, wholes, problems


def _size(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        size = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return size if size >= 0 else None


def _sizes(value: object) -> tuple[int, ...] | None:
    if isinstance(value, (str, bytes)):
        return None
    try:
        sizes = tuple(_size(each) for each in value)  # type: ignore[attr-defined]
    except TypeError:
        return None
    return None if None in sizes else sizes  # type: ignore[return-value]


def _bind_whole_shapes(declared: Dims, wholes: dict[str, tuple[int, ...]], sizes: dict[str, int]) -> list[str]:
    """Check whole shapes against the model and add the sizes that they give to symbolic dimensions."""
    problems = []
    bound_by = dict.fromkeys(sizes, "shapes")
    for name, whole in wholes.items():
        problems += mismatches(name, declared[name], whole)
        if len(whole) != len(declared[name]):
            continue
        for axis, dim in enumerate(declared[name]):
            size = whole[axis]
            if not isinstance(dim, str) or not dim:
                continue
            if sizes.setdefault(dim, size) != size:
                problems.append(f"`{name}`: dimension `{dim}` is {size} here, but {sizes[dim]} by {bound_by[dim]}")
            bound_by.setdefault(dim, f"`{name}`")
    return problems


def mismatches(name: str, declared: Sequence[Any], shape: Sequence[int]) -> list[str]:
    """Say where a shape contradicts the rank or a fixed dimension; one name with two sizes is for the caller.

    >>> mismatches("x", ["batch", 3], [1, 4])
    ['`x`: dimension 1 is 4, the model fixes it at 3']
    """
    if not declared:
        return []
    if len(declared) != len(shape):
        return [
            f"`{name}`: shape {list(shape)} has rank {len(shape)}, the model declares {text(declared)}, "
            f"rank {len(declared)}"
        ]
    return [
        f"`{name}`: dimension {axis} is {shape[axis]}, the model fixes it at {dim}"
        for axis, dim in enumerate(declared)
        if _is_fixed(dim) and dim != shape[axis]
    ]


def text(dims: Sequence[Any]) -> str:
    """Return dimensions as a person reads them.

    >>> text(["batch", 3, None])
    '[batch, 3, ?]'
    """
    return "[" + ", ".join(str(dim) if dim or _is_fixed(dim) else "?" for dim in dims) + "]"


def _names(names: Sequence[str] | Dims) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _unbound_text(declared: Dims, unbound: dict[str, list[int]]) -> str:
    lines = ["the model has dynamic dimensions without a size:"]
    example: dict[str, Any] = {}
    for name, axes in unbound.items():
        dims = declared[name]
        lines.append(
            f"  {name}: "
            + ", ".join(f"dimension {axis} " + (f"`{dims[axis]}`" if dims[axis] else "(unnamed)") for axis in axes)
        )
        if all(dims[axis] for axis in axes):
            example.update({dims[axis]: 1 for axis in axes})
        else:
            example[name] = [dim if _is_fixed(dim) else 1 for dim in dims]
    lines += ["", f"Bind a dimension by its name, or an input's whole shape by the input's name: shapes={example!r}"]
    return "\n".join(lines)
