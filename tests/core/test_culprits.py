"""Culprits of graphs that are made by hand; those of real ones are in tests/hardware/test_explain_webgpu.py."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.culprit import Culprit, boundary_note, group
from pytest_onnxperf.core.culprits import culprits_of
from pytest_onnxperf.core.graph import Graph, GraphNode, Model, all_nodes, places
from pytest_onnxperf.core.ort_log import OrtLog, PlacedNode
from pytest_onnxperf.core.profile import NodeKey, NodeTotal

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
TOTAL = NodeTotal(3, 300, 300, False)


def node(op_type: str, inputs: str, outputs: str, name: str | None = None, **changes: Any) -> GraphNode:
    """A node; tensors are separated by spaces, `-` is one that is left out."""
    found = tuple("" if tensor == "-" else tensor for tensor in inputs.split())
    return GraphNode(name if name is not None else op_type, op_type, changes.pop("domain", ""), found,
                     tuple(outputs.split()), **changes)  # fmt: skip


def graph(*nodes: GraphNode, inputs: str = "x", outputs: str = "y", **changes: Any) -> Graph:
    return Graph("main", tuple(inputs.split()), tuple(outputs.split()), frozenset({"w"}), nodes, **changes)


def to_host(tensor: str, name: str = "Memcpy") -> GraphNode:
    return node("MemcpyToHost", f"{tensor}_{CUDA}", tensor, name)


def from_host(tensor: str, name: str = "Memcpy") -> GraphNode:
    return node("MemcpyFromHost", tensor, f"{tensor}_{CUDA}", name)


def log(*placed: tuple[str, str, str], **changes: Any) -> OrtLog:
    return OrtLog(placed=tuple(PlacedNode(*each) for each in placed), **changes)


def find(main: Graph | None, said: OrtLog, *keys: NodeKey, why_no_graph: str = "") -> tuple[Culprit, ...]:
    model = Model(main, {"": 17}) if main else None
    return culprits_of(model, said, dict.fromkeys(keys, TOTAL), {"": 24}, CUDA, "ORT 1.24", why_no_graph)


ISLAND = graph(
    node("MatMul", "x w", f"a_{CUDA}"), to_host("a", "Memcpy_token_0"), node("Det", "a", "b"), from_host("b"),
    node("Relu", f"b_{CUDA}", "y"),
)  # fmt: skip
ISLAND_LOG = log(
    ("MatMul", "MatMul", CUDA), ("Det", "Det", CPU), ("Relu", "Relu", CUDA), missing_kernels={"Det": "Det"}
)  # fmt: skip


def test_a_node_between_two_copies_forces_both() -> None:
    first, second = find(ISLAND, ISLAND_LOG)

    assert (first.memcpy, first.direction, first.tensor) == ("Memcpy_token_0", "to_host", "a")
    assert (first.node, first.op_type, first.opset, first.why, first.input_index) == ("Det", "Det", 24, "no_kernel", 0)
    assert (second.memcpy, second.direction, second.tensor) == ("Memcpy", "from_host", "b")
    assert (second.node, second.why, second.input_index, second.graph) == ("Det", "no_kernel", None, ())


def test_a_kernel_of_other_element_types_is_a_matter_of_type() -> None:
    types = {"a": "double", "b": "double", "c": "float"}
    main = graph(
        node("Softmax", "x", f"c_{CUDA}", "one"), node("Cast", "c", f"a_{CUDA}"), to_host("a"),
        node("Softmax", "a", "b", "two"), element_types=types, outputs="b",
    )  # fmt: skip
    said = log(
        ("one", "Softmax", CUDA), ("two", "Softmax", CPU), ("Cast", "Cast", CUDA), missing_kernels={"two": "Softmax"}
    )  # fmt: skip

    (found,) = find(main, said)

    assert (found.node, found.why, found.element_types) == ("two", "type", ("double",))
    (line,) = group([found])
    assert line.text == (
        f"1 x Softmax (opset 24): {CUDA} has no kernel in ORT 1.24 for its element types (double), though for the "
        "operator, e.g. two (MemcpyToHost)"
    )


def test_an_operator_of_another_domain_is_another_operator() -> None:
    main = graph(
        node("Attention", "x", f"a_{CUDA}", "one", domain="com.microsoft"), to_host("a"), node("Attention", "a", "b"),
        outputs="b",
    )  # fmt: skip
    said = log(("one", "Attention", CUDA), ("Attention", "Attention", CPU), missing_kernels={"Attention": "Attention"})

    (found,) = find(main, said)

    assert (found.why, found.opset) == ("no_kernel", 24)


def test_a_node_that_computes_shapes_is_on_the_cpu_on_purpose() -> None:
    main = graph(node("Gather", "x w", "s"), from_host("s"), node("Add", f"s_{CUDA}", "y"))
    said = log(("Gather", "Gather", CPU), ("Add", "Add", CUDA), forced_cpu_nodes=frozenset({"Gather"}))

    (found,) = find(main, said)

    assert found.why == "shape_computation"
    assert "on the CPU on purpose" in group([found])[0].text


@pytest.mark.parametrize(
    ("op_type", "domain", "inputs", "named"),
    [
        ("GroupQueryAttention", "com.microsoft", "q k v - - l t", "input 6 (total_sequence_length)"),
        ("MultiHeadAttention", "com.microsoft", "q - - - - - - - t", "input 8 (past_sequence_length)"),
        ("SparseAttention", "com.microsoft", "q k v a b c t", "input 6 (total_sequence_length)"),
        ("If", "", "t", "input 0 (cond)"),
        ("Loop", "", "t w x", "input 0 (M)"),
        ("Loop", "", "- t x", "input 1 (cond)"),
        ("Reshape", "", "x t", "input 1 (shape)"),
        ("Slice", "", "x w w w t", "input 4 (steps)"),
        ("Acme", "acme", "x t", "input 1"),
    ],
)
def test_a_node_of_the_device_may_take_an_input_on_the_host(op_type: str, domain: str, inputs: str, named: str) -> None:
    main = graph(node("Add", "x x", f"t_{CUDA}"), to_host("t"), node(op_type, inputs, "y", domain=domain))

    (found,) = find(main, OrtLog(all_placed_on=CUDA))

    assert (found.node, found.why) == (op_type, "host_input")
    assert f"it runs on {CUDA} and takes {named} in host memory" in group([found])[0].text


def test_the_table_of_host_inputs_decides_where_no_source_places_the_node() -> None:
    main = graph(
        to_host("t"),
        node("Reshape", "x t", "y"),
        to_host("u", "Memcpy_token_0"),
        node("Add", "u u", "z"),
        outputs="y z",
    )

    assert [found.why for found in find(main, OrtLog())] == ["host_input", "unknown"]


def test_a_node_of_the_device_may_leave_an_output_on_the_host() -> None:
    main = graph(node("Shape", "x", "s"), from_host("s"), node("Cast", f"s_{CUDA}", "y"))

    (found,) = find(main, log(("Shape", "Shape", CUDA), ("Cast", "Cast", CUDA)))

    assert (found.node, found.why) == ("Shape", "host_output")


def test_an_input_of_the_model_that_both_sides_take_is_copied_for_one_of_them() -> None:
    main = graph(from_host("x"), node("Mul", f"x_{CUDA} w", "a"), node("Det", "x", "b"), outputs="a b")

    (found,) = find(main, log(("Mul", "Mul", CUDA), ("Det", "Det", CPU), missing_kernels={"Det": "Det"}))

    assert (found.node, found.why, found.cause) == ("Det", "graph_input", "no_kernel")
    assert group([found])[0].text == (
        f"1 x Det (opset 24): it takes 'x', an input of the model, on the host, and {CUDA} takes it too; {CUDA} has no "
        "kernel for this node, e.g. Det (MemcpyFromHost)"
    )


def test_copies_without_a_taker_say_what_they_are_of() -> None:
    main = graph(from_host("x"), from_host("w", "b"), to_host("y", "c"), to_host("z", "d"))

    found = find(main, OrtLog())

    assert [(one.why, one.op_type) for one in found] == [
        ("graph_input", ""), ("unknown", ""), ("graph_output", ""), ("unknown", "")
    ]  # fmt: skip
    assert [line.text for line in group(found)] == [
        "1 x copy from the host of 'x': 'x' is an input of the model",
        "1 x copy from the host of 'w': a weight",
        "1 x copy to the host of 'y': its output 'y' leaves the graph",
        "1 x copy to the host of 'z': no node of the graph takes it",
    ]


def nested(depth: int, innermost: Graph) -> Graph:
    inner = innermost
    for level in range(depth, 0, -1):
        inner = graph(node("If", "chosen", f"y{level}", f"if{level}", subgraphs=(("then_branch", inner),)), inputs="")
    return inner


def test_a_copy_four_graphs_deep_has_its_path_and_its_node() -> None:
    inner = graph(node("Det", "x", "b"), from_host("b"), node("Relu", f"b_{CUDA}", "y"), inputs="")
    main = nested(4, inner)

    (found,) = find(main, ISLAND_LOG)

    assert found.graph == tuple(f"if{level}:then_branch" for level in (1, 2, 3, 4))
    assert (found.node, found.why) == ("Det", "no_kernel")
    assert len(list(places(main))) == 5
    assert [each.op_type for each in all_nodes(main)].count("If") == 4


def test_what_only_a_subgraph_takes_is_found_at_any_depth_unless_the_subgraph_has_its_own() -> None:
    taker = graph(node("Det", "t", "y"), inputs="")
    hidden = graph(node("Relu", "t", "y"), inputs="t")
    main = graph(to_host("t"), *nested(2, taker).nodes, node("Loop", "w w", "z", subgraphs=(("body", hidden),)))
    on_device = log(("Det", "Det", CUDA))

    assert [(one.node, one.why, one.others) for one in find(main, ISLAND_LOG)] == [("Det", "no_kernel", ())]
    assert [(one.node, one.why) for one in find(main, on_device)] == [("Det", "boundary")]


def test_values_that_cross_into_a_body_and_out_of_it_are_of_the_boundary() -> None:
    body = graph(
        from_host("state"), from_host("outside", "b"), to_host("kept", "c"), node("Det", "outside", "d"),
        inputs="state", outputs="kept",
    )  # fmt: skip
    main = graph(node("Loop", "w w x", "y", "loop", subgraphs=(("body", body),)))

    found = find(main, ISLAND_LOG)

    assert [(one.why, one.node, one.detail) for one in found] == [
        ("boundary", "loop", "an input of the subgraph"),
        ("boundary", "Det", "a value from outside the subgraph"),
        ("boundary", "loop", "an output of its subgraph"),
    ]


def test_the_node_with_a_known_reason_is_the_culprit_and_the_others_are_named() -> None:
    main = graph(to_host("a"), node("Odd", "a", "b"), node("Det", "a", "c"), node("Det", "a", "d", ""), outputs="b c d")
    said = log(("Odd", "Odd", CPU), ("Det", "Det", CPU), ("", "Det", CPU), missing_kernels={"Det": "Det"})

    (found,) = find(main, said)

    assert (found.node, found.why, found.others) == ("Det", "no_kernel", ("Odd", "Det"))


def test_the_same_name_in_two_graphs_does_not_say_where_a_node_is() -> None:
    """Both branches of an If may have a node of one name, one of them on the device."""
    main = graph(to_host("a"), node("Add", "a", "y", "same"))
    said = log(("same", "Add", CPU), ("same", "Add", CUDA))

    assert [one.why for one in find(main, said)] == ["unknown"]


@pytest.mark.parametrize("name", ["", 'a "b"', "a b", "a (b)", " a ", "first\nsecond", "Det_3", "Force fallback"])
def test_odd_names_break_nothing(name: str) -> None:
    main = graph(to_host("a"), node("Det", "a", "y", name))
    said = OrtLog(missing_kernels={name.split("\n", maxsplit=1)[0].rstrip(): "Det"})

    (found,) = find(main, said, NodeKey(name or "Det_7", "Det", CPU))

    assert (found.node, found.why) == (name, "no_kernel")
    (line,) = group([found])
    assert "\n" not in line.text
    assert line.text.startswith("1 x Det (opset 24): ")


def test_the_profile_places_nodes_where_the_log_does_not() -> None:
    main = graph(to_host("t"), node("Acme", "t", "y", "a\nb"))

    assert [one.why for one in find(main, OrtLog(), NodeKey("a\nb", "Acme", CUDA))] == ["host_input"]


def test_a_profile_that_names_no_provider_places_nothing() -> None:
    main = graph(to_host("t"), node("Acme", "t", "y"))

    assert [one.why for one in find(main, OrtLog(), NodeKey("Acme", "Acme", ""))] == ["unknown"]


def test_groups_are_by_operator_and_direction_most_first() -> None:
    nodes = [each for i in range(3) for each in (to_host(f"t{i}", f"m{i}"), node("Det", f"t{i}", f"y{i}", f"det{i}"))]
    main = graph(node("Det", "x", "b"), from_host("b"), node("Relu", f"b_{CUDA}", "y"), *nodes)
    said = log(missing_kernels={"Det": "Det", **{f"det{i}": "Det" for i in range(3)}})

    lines = group(find(main, said))

    assert [line.text for line in lines] == [
        f"3 x Det (opset 24): {CUDA} has no kernel for it in ORT 1.24, e.g. det0 (MemcpyToHost)",
        f"1 x Det (opset 24): {CUDA} has no kernel for it in ORT 1.24, e.g. Det (MemcpyFromHost)",
    ]
    assert group([]) == ()


def test_an_opset_of_another_domain_is_named_with_it() -> None:
    main = graph(to_host("a"), node("Acme", "a", "y", domain="acme"))
    model = Model(main, {"": 17, "acme": 3})

    found = culprits_of(model, OrtLog(), {}, {}, CUDA, "ORT 1.24")

    assert group(found)[0].text.startswith("1 x Acme (acme 3): ")


def test_without_a_graph_the_log_names_the_tensors_and_the_nodes_on_the_cpu() -> None:
    said = OrtLog(
        copied_tensors=(("MemcpyToHost", "a"), ("MemcpyFromHost", "b")), missing_kernels={"det": "Det"}
    )  # fmt: skip

    found = find(None, said, NodeKey("det", "Det", CPU), NodeKey("g", "Gather", CPU), why_no_graph="it is compiled")

    assert [(one.tensor, one.direction, one.why, one.op_type) for one in found] == [
        ("a", "to_host", "unknown", ""), ("b", "from_host", "unknown", "")
    ]  # fmt: skip
    assert found[0].others == ("Det det", "Gather g")
    assert group(found)[0].text == (
        "1 x copy to the host of 'a': which node forces it cannot be told: it is compiled; on the CPU: Det det, "
        "Gather g"
    )


def test_without_graph_and_log_the_profile_counts_and_no_tensor_is_named() -> None:
    keys = [NodeKey("Memcpy", "MemcpyToHost", CUDA), NodeKey("Memcpy", "MemcpyFromHost", CUDA)]

    found = find(None, OrtLog(), *keys, *(NodeKey(f"n{i}", "Add", CPU) for i in range(5)))

    assert [(one.memcpy, one.direction, one.tensor) for one in found] == [
        ("Memcpy", "to_host", ""), ("Memcpy", "from_host", "")
    ]  # fmt: skip
    assert group(found)[0].text == (
        "1 x copy to the host of a tensor: which node forces it cannot be told: the optimised graph is not there; on "
        "the CPU: Add n0, Add n1, Add n2 and 2 more"
    )
    assert find(None, OrtLog()) == ()


def test_copies_where_a_run_begins_are_no_culprits_and_have_a_note() -> None:
    assert "are no nodes and are not counted" in boundary_note(CUDA, feeds_on_host=True)
    assert boundary_note(CUDA, feeds_on_host=False) == ""
    assert boundary_note(CPU, feeds_on_host=True) == ""
