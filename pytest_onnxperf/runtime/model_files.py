"""The files of a model: the ONNX file and its external data, checked before a process is started for them."""

from __future__ import annotations

import difflib
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_onnxperf.core.errors import ModelError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_LFS = b"version https://git-lfs."


def model_files(model: Path) -> tuple[Path, ...]:
    """Return the model's file and the files of its external data.

    A file that is no ONNX model is returned alone: the runtime says better what is wrong with it, and it may be one of
    the runtime's own format.

    Raises:
        ModelError: The file, or a file of its external data, is missing or cannot be read.
    """
    if not model.exists():
        msg = f"{model}: there is no such file (looked from {Path.cwd()})"
        raise ModelError(msg)
    if not model.is_file():
        msg = f"{model}: this is {'a directory' if model.is_dir() else 'no regular file'}, not a model file"
        raise ModelError(msg)
    try:
        locations = sorted(_external_locations(model))
    except OSError as error:
        msg = f"{model}: cannot be read: {error.strerror}"
        raise ModelError(msg) from error
    files = [model, *(model.parent / location for location in locations)]
    for file in files[1:]:
        if not file.is_file():
            msg = f"{model}: its external data {file.name!r} is missing, it must lie at {file}"
            raise ModelError(msg)
    for file in files:
        with file.open("rb") as opened:
            if opened.read(len(_LFS)) == _LFS:
                msg = f"{file}: this is a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"
                raise ModelError(msg)
    return tuple(files)


def check_free_dimensions(model: Path, names: Iterable[str]) -> None:
    """Check that free dimensions are in the model: the runtime ignores a name that is not.

    Raises:
        SettingError: A name is no symbolic dimension of an input.
    """
    names = list(names)
    if not names:
        return
    proto = _load(model)
    if proto is None:
        return  # of the runtime's own format, or none: the runtime says what is wrong with it
    shapes = (value.type.tensor_type.shape for value in proto.graph.input)
    known = sorted({dim.dim_param for shape in shapes for dim in shape.dim if dim.dim_param})
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"it has: {', '.join(known) or 'none'}"
            msg = f"free dimension `{name}`: no input of the model has a symbolic dimension of that name, {hint}"
            raise SettingError(msg)


def _load(model: Path) -> ModelProto | None:
    """Return the model without its external data; None where it is no ONNX model."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(model, load_external_data=False)
    except DecodeError:
        return None


def _external_locations(model: Path) -> set[str]:
    """Return the locations of external data; `onnx` is imported only where the file names any."""
    with model.open("rb") as file:
        if model.stat().st_size == 0:
            return set()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b"location") < 0:  # every tensor with external data has an entry of this key
                return set()
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    proto = _load(model)
    if proto is None:
        return set()
    return {ExternalDataInfo(tensor).location for tensor in _tensors(proto) if uses_external_data(tensor)}


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _graph_tensors(subgraph)
