"""The files of a model: the ONNX file and its external data, checked before a process is started for them."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_onnxperf.core.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import GraphProto, ModelProto, TensorProto


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
        msg = f"{model}: this is a directory, not a model file"
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
    return tuple(files)


def _external_locations(model: Path) -> set[str]:
    """Return the locations of external data; `onnx` is imported only where the file names any."""
    with model.open("rb") as file:
        if model.stat().st_size == 0:
            return set()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b"location") < 0:  # every tensor with external data has an entry of this key
                return set()
    import onnx
    from google.protobuf.message import DecodeError
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    try:
        proto = onnx.load(model, load_external_data=False)
    except DecodeError:
        return set()
    return {ExternalDataInfo(tensor).location for tensor in _tensors(proto) if uses_external_data(tensor)}


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            for attribute in node.attribute:
                yield attribute.t
                yield from attribute.tensors


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _graph_tensors(subgraph)
