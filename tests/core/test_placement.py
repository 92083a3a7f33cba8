from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.graph import Graph, GraphNode, Model
from pytest_onnxperf.core.ort_log import OrtLog, PlacedNode
from pytest_onnxperf.core.placement import CpuGroup, Disagreement, NodePlace, Placement, placement_of
from pytest_onnxperf.core.profile import NodeKey, NodeTotal

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def placed(*nodes: tuple[str, str, str]) -> tuple[PlacedNode, ...]:
    return tuple(PlacedNode(*node) for node in nodes)


def place(
    profile: tuple[tuple[str, str, str], ...] = (),
    log: tuple[tuple[str, str, str], ...] = (),
    assignment: tuple[tuple[str, str, str], ...] | None = None,
    **said: Any,
) -> Placement:
    nodes = {NodeKey(*node): NodeTotal(1, 1, 1, False) for node in profile}
    recorded = None if assignment is None else placed(*assignment)
    return placement_of(nodes, OrtLog(placed=placed(*log), **said), recorded)


def test_a_node_has_all_its_sources() -> None:
    nodes = (("a", "Add", CUDA), ("d", "Det", CPU))

    found = place(nodes, nodes, nodes, missing_kernels={"d": "Det"})

    everywhere = ("profile", "log", "assignment")
    assert found.nodes == (NodePlace("a", "Add", CUDA, everywhere), NodePlace("d", "Det", CPU, everywhere))
    assert found.disagreements == ()
    assert found.cpu_groups == (CpuGroup("Det", "no_kernel", 1, "d"),)


def test_a_node_that_one_source_alone_has_is_no_disagreement() -> None:
    """The assignment is taken before fusions and memcpy nodes; WebGPU 1.27 lists the nodes of the CPU only."""
    found = place(
        profile=(("f", "FusedMatMul", CUDA), ("Memcpy", "MemcpyToHost", CUDA)),
        log=(("f", "FusedMatMul", CUDA), ("Memcpy", "MemcpyToHost", CUDA), ("not run", "Add", CUDA)),
        assignment=(("gone", "MatMul", CPU),),
    )

    assert found.disagreements == ()
    assert found.cpu_groups == ()


def test_sources_that_put_a_node_elsewhere_disagree() -> None:
    found = place((("a", "Add", CPU),), (("a", "Add", CUDA),), (("a", "Add", CUDA),))

    assert found.disagreements == (
        Disagreement("a", "Add", (("profile", (CPU,)), ("log", (CUDA,)), ("assignment", (CUDA,)))),
    )


def test_a_node_that_ran_elsewhere_than_all_nodes_were_placed_is_a_disagreement() -> None:
    found = place((("a", "Add", CPU), ("b", "Add", CUDA)), all_placed_on=CUDA)

    assert [each.name for each in found.disagreements] == ["a"]
    assert found.all_on == CUDA


def test_a_node_that_was_fused_since_does_not_disagree_with_one_provider_for_all() -> None:
    assert place((("b", "Add", CUDA),), (), (("gone", "Add", CPU),), all_placed_on=CUDA).disagreements == ()


def test_names_that_repeat_are_compared_as_multisets() -> None:
    """Each branch of an If has its own `a`; only one of them ran."""
    both = (("a", "Add", CPU), ("a", "Add", CUDA))

    assert place((("a", "Add", CPU),), both, both).disagreements == ()
    (found,) = place((), (*both, ("a", "Add", CUDA)), (("a", "Add", CPU),) * 2).disagreements
    assert found.execution_providers == (("log", (CPU, CUDA, CUDA)), ("assignment", (CPU, CPU)))


def test_nodes_without_a_name_are_compared_by_operator() -> None:
    unnamed = (("", "Mul", CUDA), ("", "Mul", CUDA), ("Mul_9", "Mul", CPU))

    found = place((("Mul_0", "Mul", CUDA), ("Mul_2", "Mul", CUDA), ("Mul_9", "Mul", CPU)), unnamed, unnamed)

    assert found.disagreements == ()
    assert {(node.name, node.execution_provider) for node in found.nodes} == {("", CUDA), ("Mul_9", CPU)}


def test_a_name_of_two_lines_is_known_by_its_first() -> None:
    node = ("first\nsecond", "Det", CPU)

    found = place((node, ("a", "Add", CUDA)), (("a", "Add", CUDA),), (node,), missing_kernels={"first": "Det"})

    assert found.cpu_groups == (CpuGroup("Det", "no_kernel", 1, "first"),)
    assert found.disagreements == ()


def test_groups_of_the_cpu_say_why() -> None:
    found = place(
        log=(
            ("s1", "Softmax", CUDA), ("s2", "Softmax", CPU), ("g1", "Gather", CPU), ("g2", "Gather", CPU),
            ("d", "Det", CPU), ("o", "Odd", CPU), ("a", "Attention", CPU), ("m", "Attention", CUDA),
        ),
        missing_kernels={"s2": "Softmax", "d": "Det", "a": "Attention"},
        forced_cpu_nodes=frozenset({"g1", "g2"}),
    )  # fmt: skip

    assert found.cpu_groups == (
        CpuGroup("Gather", "shape_computation", 2, "g1"),
        CpuGroup("Softmax", "type", 1, "s2"),
        CpuGroup("Det", "no_kernel", 1, "d"),
        CpuGroup("Odd", "unknown", 1, "o"),
        CpuGroup("Attention", "no_kernel", 1, "a"),
    )


@pytest.mark.parametrize(("domain", "why"), [("", "type"), ("com.microsoft", "no_kernel")])
def test_the_graph_tells_operators_of_two_domains_apart(domain: str, why: str) -> None:
    nodes = (GraphNode("on", "Pad", domain, (), ()), GraphNode("off", "Pad", "", (), ()))
    model = Model(Graph("main", (), (), frozenset(), nodes), {"": 17})
    log = OrtLog(placed=placed(("on", "Pad", CUDA), ("off", "Pad", CPU)), missing_kernels={"off": "Pad"})

    assert [group.why for group in placement_of({}, log, None, model).cpu_groups] == [why]


def test_nodes_without_a_device_are_in_no_group() -> None:
    assert place((("a", "Add", CPU),), all_placed_on=CPU).cpu_groups == ()
    assert place().nodes == ()
    assert place((("a", "Add", ""),)).nodes == ()


def test_the_assignment_alone_gives_groups_too() -> None:
    found = place(assignment=(("a", "Add", CUDA), ("b", "Mul", CPU)))

    assert found.cpu_groups == (CpuGroup("Mul", "unknown", 1, "b"),)
