"""Makes and checks the feeds of an `onnxruntime.InferenceSession`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import shapes as shape_rules
from . import values
from .element_types import BY_NUMBER, ElementType, InputError, RawTensor, closest, element_type_of, pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    import onnxruntime
    from numpy.typing import NDArray

    Feed: TypeAlias = NDArray[Any] | onnxruntime.OrtValue | list[Any] | dict[Any, Any]
    """What a session is fed with: an array, or an `OrtValue`; lists and maps only for inputs that are no tensors."""

__all__ = ["InputError", "RawTensor", "check_feeds", "describe_inputs", "make_feeds"]


def describe_inputs(session: onnxruntime.InferenceSession) -> list[dict[str, Any]]:
    """Return name, ONNX Runtime's type string and shape (ints, symbolic names, None) of every input."""
    return [{"name": each.name, "type": each.type, "shape": list(each.shape)} for each in session.get_inputs()]


def make_feeds(
    session: onnxruntime.InferenceSession,
    shapes: Mapping[str, int | Sequence[int]],
    ranges: Mapping[str, tuple[float, float]],
    seed: int = 0,
) -> dict[str, Feed]:
    """Make a feed for every input of a session, the same on every machine for the same seed.

    Args:
        session: an `onnxruntime.InferenceSession`.
        shapes: size of a symbolic dimension by its name, `{"batch": 1, "seq": 128}`, or a whole shape by the input's
            name, `{"input_ids": [1, 128]}`. Every dynamic dimension must be bound; a size may be 0.
        ranges: lowest and highest value, both included, by input name. What is made without: see `values.make`.
        seed: at least 0.

    Returns:
        input name -> numpy array, or `OrtValue` where numpy lacks the element type; both go into `binding.run`.

    Raises:
        InputError: an input cannot be made, or `shapes` or `ranges` do not fit the model.
    """
    inputs = describe_inputs(session)
    elements = _elements(inputs)
    for name in ranges:
        if name not in elements:
            msg = f"ranges: the model has no input `{name}`{closest(name, list(elements))}"
            raise InputError(msg)
    solved = shape_rules.solve({each["name"]: each["shape"] for each in inputs}, shapes)
    return {
        name: _feed(name, element, values.make(name, element, solved[name], ranges.get(name), seed))
        for name, element in elements.items()
    }


def _elements(inputs: Sequence[Mapping[str, Any]]) -> dict[str, ElementType]:
    """Return the element type of every input, or say which inputs are none that can be made."""
    elements = {each["name"]: element_type_of(each["type"]) for each in inputs}
    strange = [f"  {each['name']}: {each['type']}" for each in inputs if elements[each["name"]] is None]
    if strange:
        lines = [
            f"values can be made for tensors only; onnxruntime {_version()} shows for this model:",
            *strange,
            "",
            "Give these inputs yourself: measure({name: value, ...}).",
        ]
        raise InputError("\n".join(lines))
    return {name: element for name, element in elements.items() if element is not None}


def check_feeds(session: onnxruntime.InferenceSession, feeds: Mapping[str, object]) -> dict[str, Feed]:
    """Check the user's arrays against the inputs of a session; nothing is cast.

    Args:
        session: an `onnxruntime.InferenceSession`.
        feeds: input name -> numpy array, or `RawTensor` where numpy lacks the element type.

    Returns:
        input name -> contiguous numpy array, or `OrtValue`; both go into `binding.run`. A feed of an input that is no
        tensor (sequence, map, optional) is handed on unchecked.

    Raises:
        InputError: lists all that does not fit.
    """
    declared = {each["name"]: each for each in describe_inputs(session)}
    overridable = {each.name: each for each in session.get_overridable_initializers()}
    for name, each in overridable.items():
        declared[name] = {"name": name, "type": each.type, "shape": list(each.shape)}
    problems = [
        f"`{name}` has no feed: the model needs {each['type']} of shape {shape_rules.text(each['shape'])}"
        for name, each in declared.items()
        if name not in feeds and name not in overridable and not each["type"].startswith("optional")
    ]
    sizes: dict[str, tuple[int, str]] = {}
    for name, value in feeds.items():
        if name not in declared:
            problems.append(f"`{name}` is no input of the model{closest(name, list(declared))}")
        elif element_type_of(declared[name]["type"]) is not None:
            problems += _misfits(name, declared[name], value, sizes)
    if problems:
        raise InputError("\n".join(["the feeds do not fit the model:", *(f"  {problem}" for problem in problems)]))
    return {name: _checked_feed(name, declared[name]["type"], value) for name, value in feeds.items()}


def _misfits(name: str, declared: Mapping[str, Any], value: object, sizes: dict[str, tuple[int, str]]) -> list[str]:
    """Say what is wrong with one feed; `sizes` remembers symbolic dimension -> (size, input that gave it)."""
    element = element_type_of(declared["type"])
    if element is None:
        return []
    if not isinstance(value, (np.ndarray, RawTensor)):
        return [f"`{name}`: expected a numpy array, got {type(value).__name__}: use np.asarray(value, dtype)"]
    problem = _raw_misfit(name, element, value) if isinstance(value, RawTensor) else _dtype_misfit(name, element, value)
    problems = [problem] if problem else []
    problems += shape_rules.mismatches(name, declared["shape"], value.shape)
    if len(declared["shape"]) == len(value.shape):
        for axis, dim in enumerate(declared["shape"]):
            if not isinstance(dim, str) or not dim:
                continue
            size, giver = sizes.setdefault(dim, (value.shape[axis], name))
            if size != value.shape[axis]:
                problems.append(f"`{name}`: dimension {axis} `{dim}` is {value.shape[axis]}, but {size} in `{giver}`")
    return problems


def _dtype_misfit(name: str, element: ElementType, value: NDArray[Any]) -> str:
    if not element.is_native:
        return f"`{name}`: dtype is {value.dtype}, the model takes {element.name}: give an ml_dtypes array of that type"
    if element.name == "string":
        is_text = value.dtype.kind == "U" or (
            value.dtype.kind == "O" and all(isinstance(each, str) for each in value.reshape(-1))
        )
        return "" if is_text else f"`{name}`: dtype is {value.dtype}, the model takes strings: use an array of str"
    if value.dtype == element.dtype:
        return ""
    return f"`{name}`: dtype is {value.dtype}, the model takes {element.dtype}: use {name}.astype(np.{element.dtype})"


def _raw_misfit(name: str, element: ElementType, value: RawTensor) -> str:
    given = BY_NUMBER.get(value.element_type)
    if given != element:
        given_name = given.name if given else f"ONNX element type {value.element_type}"
        return f"`{name}`: element type is {given_name}, the model takes {element.name}"
    count = 1
    for size in value.shape:
        count *= size
    expected = count * element.dtype.itemsize
    if len(value.data) != expected:
        return f"`{name}`: {len(value.data)} bytes, expected {expected} for {element.name} of shape {list(value.shape)}"
    return ""


def _checked_feed(name: str, ort_type: str, value: Any) -> Feed:
    element = element_type_of(ort_type)
    if element is None:
        return cast("Feed", value)
    if isinstance(value, RawTensor):
        storage: NDArray[Any] = np.frombuffer(value.data, element.dtype).reshape(tuple(value.shape))
        return _feed(name, element, storage if element.is_native else pack(storage, element.bits).copy())
    return _feed(name, element, np.ascontiguousarray(value).reshape(value.shape))


def _feed(name: str, element: ElementType, storage: NDArray[Any]) -> Feed:
    """Return the array itself, or an `OrtValue` over it where numpy lacks the type."""
    if element.is_native:
        return storage
    import onnxruntime

    try:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(storage, element.number)
    except (AttributeError, RuntimeError, ValueError) as error:
        msg = f"onnxruntime {_version()} cannot be fed {element.name} from Python, which input `{name}` takes: {error}"
        raise InputError(msg) from error


def _version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)
