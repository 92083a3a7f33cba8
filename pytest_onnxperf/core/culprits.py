"""Which node makes ONNX Runtime copy a tensor between the host and a device, and why.

Source of the rules: onnxruntime transformer_memcpy.cc (032b5a3), `ModifyGraph` and `ProcessDefs`. A copy to the host is
put in where a node of the device makes a tensor and a node takes it on the host: one that runs on the CPU, or one of
the device that takes this input in host memory. A copy from the host is put in where it is the other way round, or
where a graph's input or a value from outside a subgraph is used on both sides. A copy is never put in for what only a
subgraph captures: If, Loop and Scan copy that themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .culprit import Culprit, Direction, Why
from .graph import Graph, GraphNode, Model, Place, defines, places
from .host_inputs import host_input
from .ops import CONTROL_FLOW_OPS, MEMCPY_OPS, MEMCPY_TO_HOST
from .reasons import Evidence
from .suspects import culprits_without_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .ort_log import OrtLog
    from .profile import NodeKey, NodeTotal


def culprits_of(
    model: Model | None,
    log: OrtLog,
    nodes: Mapping[NodeKey, NodeTotal],
    opsets: Mapping[str, int],
    provider: str,
    runtime: str,
    why_no_graph: str = "",
) -> tuple[Culprit, ...]:
    """Return the culprit of each memcpy node.

    Args:
        model: The optimised graph, with its memcpy nodes; None where there is none.
        log: Of the process that saved it, severity 0.
        nodes: The profile's node executions of the measured runs.
        opsets: Of the model as it was exported: domain, empty for ai.onnx -> version.
        provider: `CUDAExecutionProvider`.
        runtime: The runtime as it is to stand in texts, `ORT 1.24.4`.
        why_no_graph: Why `model` is None, as a sentence without its full stop.

    Returns:
        With a graph, one for each memcpy node in it, outer graphs first. Without, one for each tensor that the log
        names, else one for each memcpy node of the profile; none of them says which node it is.
    """
    if model is None:
        return culprits_without_graph(log, nodes, provider, runtime, why_no_graph)
    finder = _Finder(model, Evidence(log, nodes, model), opsets, provider, runtime)
    return tuple(finder.culprits())


class _Finder:
    def __init__(
        self, model: Model, evidence: Evidence, opsets: Mapping[str, int], provider: str, runtime: str
    ) -> None:
        self._model, self._evidence = model, evidence
        self._opsets = {**model.opsets, **opsets}
        self._provider, self._runtime = provider, runtime

    def culprits(self) -> Iterator[Culprit]:
        for place in places(self._model.graph):
            for node in place.graph.nodes:
                if node.op_type in MEMCPY_OPS and node.inputs and node.outputs:
                    find = self._to_host if node.op_type == MEMCPY_TO_HOST else self._from_host
                    yield find(node, place)

    def _to_host(self, copy: GraphNode, place: Place) -> Culprit:
        tensor = copy.outputs[0]
        found = [self._consumer(node, index) for node, index in _takers(place.graph, tensor)]
        found += [self._capturer(node, index) for node, index in _captures(place.graph, tensor)]
        found.sort(key=lambda entry: entry[1] in ("unknown", "boundary"))
        if found:
            node, why, index = found[0]
            others = tuple(other.name or other.op_type for other, _, _ in found[1:])
            return self._culprit(copy, place, tensor, why, node=node, input_index=index, others=others)
        if tensor in place.graph.outputs:
            why = "graph_output" if place.outer is None else "boundary"
            return self._culprit(copy, place, tensor, why, node=place.owner, detail="an output of its subgraph")
        return self._culprit(copy, place, tensor, "unknown", detail="no node of the graph takes it")

    def _consumer(self, node: GraphNode, index: int) -> tuple[GraphNode, Why, int]:
        """Return why a node takes its input on the host: a copy is there only because one does."""
        on_cpu = self._evidence.is_on_cpu(node.name, node.op_type)
        if on_cpu is False:
            return node, "host_input", index
        why = self._evidence.why(node)
        if why == "unknown" and on_cpu is None and host_input(node.domain, node.op_type, index):
            return node, "host_input", index
        return node, why, index

    def _capturer(self, node: GraphNode, index: int) -> tuple[GraphNode, Why, int]:
        """Return why a node of a subgraph takes it; one on the device does not force a copy."""
        if self._evidence.is_on_cpu(node.name, node.op_type) is False:
            return node, "boundary", index
        return node, self._evidence.why(node), index

    def _from_host(self, copy: GraphNode, place: Place) -> Culprit:
        tensor = copy.inputs[0]
        producer = _maker(place.graph, tensor)
        if producer is not None:
            if self._evidence.is_on_cpu(producer.name, producer.op_type) is False:
                return self._culprit(copy, place, tensor, "host_output", node=producer)
            return self._culprit(copy, place, tensor, self._evidence.why(producer), node=producer)
        if tensor in place.graph.initializers:
            return self._culprit(copy, place, tensor, "unknown", detail="a weight")
        return self._used_on_both_sides(copy, place, tensor)

    def _used_on_both_sides(self, copy: GraphNode, place: Place, tensor: str) -> Culprit:
        """Return the node that takes a graph's input, or a value from outside, on the host."""
        is_input = tensor in place.graph.inputs
        is_main = place.outer is None
        why: Why = "graph_input" if is_input and is_main else "boundary"
        what = "an input of the subgraph" if is_input else "a value from outside the subgraph"
        what = "an input of the model" if is_input and is_main else what
        takers = [(node, index) for node, index in _takers(place.graph, tensor) if node is not copy]
        if not takers:
            return self._culprit(copy, place, tensor, why, node=place.owner, detail=what)
        node, index = takers[0]
        _, cause, _ = self._consumer(node, index)
        others = tuple(other.name or other.op_type for other, _ in takers[1:])
        return self._culprit(
            copy, place, tensor, why, node=node, input_index=index, others=others, detail=what, cause=cause
        )

    def _culprit(
        self,
        copy: GraphNode,
        place: Place,
        tensor: str,
        why: Why,
        *,
        node: GraphNode | None = None,
        input_index: int | None = None,
        others: tuple[str, ...] = (),
        detail: str = "",
        cause: Why = "unknown",
    ) -> Culprit:
        direction: Direction = "to_host" if copy.op_type == MEMCPY_TO_HOST else "from_host"
        domain, op_type = (node.domain, node.op_type) if node else ("", "")
        index = -1 if input_index is None else input_index
        return Culprit(
            memcpy=copy.name,
            graph=place.path,
            direction=direction,
            tensor=tensor,
            node=node.name if node else "",
            op_type=op_type,
            domain=domain,
            opset=self._opsets.get(domain) if node else None,
            why=why,
            provider=self._provider,
            runtime=self._runtime,
            input_index=input_index,
            input_name=host_input(domain, op_type, index),
            element_types=_types(node, place) if node else (),
            others=others,
            detail=detail,
            cause=cause,
        )


def _takers(graph: Graph, tensor: str) -> list[tuple[GraphNode, int]]:
    return [(node, node.inputs.index(tensor)) for node in graph.nodes if tensor in node.inputs]


def _captures(graph: Graph, tensor: str) -> Iterator[tuple[GraphNode, int]]:
    """Yield the nodes inside subgraphs, at any depth, that take a tensor of this graph."""
    for node in graph.nodes:
        for _, inner in node.subgraphs:
            if not defines(inner, tensor):
                yield from _takers(inner, tensor)
                yield from _captures(inner, tensor)


def _maker(graph: Graph, tensor: str) -> GraphNode | None:
    return next((node for node in graph.nodes if tensor in node.outputs), None)


def _types(node: GraphNode, place: Place) -> tuple[str, ...]:
    """Return what `Culprit.element_types` holds: types that are no matter of course, as an index or a shape has."""
    found: dict[str, None] = {}
    if node.op_type in CONTROL_FLOW_OPS:
        return ()
    for tensor in (*node.inputs[: 0 if host_input(node.domain, node.op_type, 0) else 1], *node.outputs):
        around: Place | None = place
        while around is not None:
            if kind := around.graph.element_types.get(tensor):
                found[kind] = None
                break
            around = around.outer
    return tuple(found)
