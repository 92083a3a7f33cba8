"""Reads the graph of a model's file, without its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.errors import ModelError
from pytest_onnxperf.core.graph import Graph, GraphNode, Model
from pytest_onnxperf.core.ops import MEMCPY_OPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto

_KEPT_BYTES: Final = 1024
"""An initializer of up to this size keeps its values: it may be a shape or an axis, which type inference reads."""


def read_graph(path: Path) -> Model:
    """Read the graph of an ONNX file; external data is not loaded, and need not be there.

    Element types that the file does not have are inferred by the onnx package, as far as it knows the operators.

    Raises:
        ModelError: The file cannot be read, or is no ONNX model.
    """
    proto = _load(path)
    if not proto.HasField("graph"):
        msg = f"{path}: the file holds no graph"
        raise ModelError(msg)
    _drop_weights(proto.graph)
    typed = _with_types(proto)
    return Model(_graph(proto.graph, typed.graph), _opsets(proto))


def read_opsets(path: Path) -> dict[str, int]:
    """Return the opsets of a model's file, empty where it is no ONNX model: domain, empty for ai.onnx -> version."""
    try:
        return _opsets(_load(path))
    except ModelError:
        return {}


def _load(path: Path) -> ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(path, load_external_data=False)
    except OSError as error:
        msg = f"{path}: the graph cannot be read: {error.strerror}"
        raise ModelError(msg) from error
    except DecodeError as error:
        msg = f"{path}: the graph cannot be read: it is no ONNX model, or cut off"
        raise ModelError(msg) from error


def _opsets(proto: ModelProto) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in proto.opset_import}


def changed_ops(opset: int, op_types: Iterable[str]) -> dict[str, int]:
    """Return the operators of ai.onnx that have a form older than that of an opset, with the opset that changed them.

    One that the onnx package does not know, or that is as it was first, is left out.
    """
    from onnx import defs

    changed: dict[str, int] = {}
    for op_type in op_types:
        try:
            since = defs.get_schema(op_type, opset, "").since_version
            defs.get_schema(op_type, since - 1, "")
        except defs.SchemaError:
            continue
        changed[op_type] = since
    return changed


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def _drop_weights(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        if tensor.ByteSize() > _KEPT_BYTES:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.t.ByteSize() > _KEPT_BYTES:
                attribute.t.ClearField("raw_data")
        for _, subgraph in _subgraphs(node):
            _drop_weights(subgraph)


def _with_types(proto: ModelProto) -> ModelProto:
    """Return the model with inferred types; a memcpy node, which onnx does not know, is read as Identity.

    The runtime saves an optimised graph without the types of its inner tensors (seen in 1.27 and 1.31).
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    _replace_copies(copy.graph)
    try:
        return onnx.shape_inference.infer_shapes(copy)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return proto


def _replace_copies(graph: GraphProto) -> None:
    for node in graph.node:
        if node.op_type in MEMCPY_OPS:
            node.op_type = "Identity"
        for _, subgraph in _subgraphs(node):
            _replace_copies(subgraph)


def _graph(proto: GraphProto, typed: GraphProto) -> Graph:
    initializers = {tensor.name for tensor in proto.initializer}
    initializers |= {tensor.values.name for tensor in proto.sparse_initializer}
    return Graph(
        name=proto.name,
        inputs=tuple(value.name for value in proto.input if value.name not in initializers),
        outputs=tuple(value.name for value in proto.output),
        initializers=frozenset(initializers),
        nodes=tuple(_nodes(proto.node, typed.node)),
        element_types=_element_types(typed),
    )


def _nodes(nodes: Iterable[NodeProto], typed: Iterable[NodeProto]) -> Iterator[GraphNode]:
    for node, twin in zip(nodes, typed, strict=True):
        subgraphs = zip(_subgraphs(node), _subgraphs(twin), strict=True)
        yield GraphNode(
            name=node.name,
            op_type=node.op_type,
            domain=_domain(node.domain),
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            attributes=dict(_attributes(node)),
            subgraphs=tuple((attribute, _graph(graph, other)) for (attribute, graph), (_, other) in subgraphs),
        )


def _attributes(node: NodeProto) -> Iterator[tuple[str, float | int | str]]:
    from onnx import AttributeProto

    for attribute in node.attribute:
        if attribute.type == AttributeProto.INT:
            yield attribute.name, attribute.i
        elif attribute.type == AttributeProto.FLOAT:
            yield attribute.name, attribute.f
        elif attribute.type == AttributeProto.STRING:
            yield attribute.name, attribute.s.decode("utf-8", "replace")


def _element_types(graph: GraphProto) -> dict[str, str]:
    from onnx import TensorProto

    numbers = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        number = value.type.tensor_type.elem_type
        if number:
            numbers[value.name] = number
    known = {number: name.lower() for name, number in TensorProto.DataType.items()}
    return {name: known[number] for name, number in numbers.items() if known.get(number, "undefined") != "undefined"}
