"""A model's graph as plain values: its nodes with their tensors, and the graphs inside them.

Source of the form: onnx/onnx.proto, GraphProto and NodeProto. Weights are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node."""

    name: str
    """Empty where the model gives it none; unique in its graph at most."""
    op_type: str
    domain: str
    """Empty for ai.onnx."""
    inputs: tuple[str, ...]
    """"" for one that is left out, so that a place here is the operator's input index."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, float | int | str] = field(default_factory=dict)
    """Those that are one number or text."""
    subgraphs: tuple[tuple[str, Graph], ...] = ()
    """Attribute and graph: `then_branch`, `else_branch`, `body`."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: frozenset[str]
    nodes: tuple[GraphNode, ...]
    element_types: Mapping[str, str] = field(default_factory=dict)
    """Tensor -> element type in lower case, `float16`, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model's file."""

    graph: Graph
    opsets: Mapping[str, int]
    """Domain, empty for ai.onnx -> version."""


@dataclass(frozen=True, slots=True)
class Place:
    """A graph of a model and where it stands."""

    graph: Graph
    owner: GraphNode | None = None
    """The node whose subgraph it is; None for the main graph."""
    attribute: str = ""
    outer: Place | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Where it stands, from the main graph inwards: `("end/Loop:body",)`; empty for the main graph."""
        if self.owner is None or self.outer is None:
            return ()
        return (*self.outer.path, f"{self.owner.name or self.owner.op_type}:{self.attribute}")


def places(graph: Graph) -> Iterator[Place]:
    """Yield the graph and all inside it, outer ones first."""
    stack = [Place(graph)]
    while stack:
        place = stack.pop()
        yield place
        stack += [
            Place(inner, node, attribute, place) for node in place.graph.nodes for attribute, inner in node.subgraphs
        ]


def all_nodes(graph: Graph) -> Iterator[GraphNode]:
    """Yield the nodes of the graph and of all inside it."""
    for place in places(graph):
        yield from place.graph.nodes


def defines(graph: Graph, tensor: str) -> bool:
    """Tell whether the tensor is made in the graph itself, and not in one around it."""
    return tensor in graph.inputs or tensor in graph.initializers or any(tensor in node.outputs for node in graph.nodes)
