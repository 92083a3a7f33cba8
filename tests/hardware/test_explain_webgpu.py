"""Real memcpy nodes on a (software) Vulkan device, each with the node that forces it and the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.culprit import group
from pytest_onnxperf.core.culprits import culprits_of
from pytest_onnxperf.core.placement import CpuGroup, placement_of
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.explain import explain
from pytest_onnxperf.runtime.graph_file import read_opsets
from pytest_onnxperf.runtime.process import ProcessWorker
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_onnxperf.core.culprit import Culprit
    from pytest_onnxperf.core.placement import Placement
    from pytest_onnxperf.core.profile import NodeKey, NodeTotal
    from pytest_onnxperf.runtime.explain import ModelEvidence

pytestmark = pytest.mark.needs_webgpu

LONG_S = 300.0
WEBGPU, CPU = "WebGpuExecutionProvider", "CPUExecutionProvider"
TO, FROM = "to_host", "from_host"
THEN, BODY = ("end/If:then_branch",), ("end/Loop:body",)


class Explained:
    """A model with its evidence and the profile of a run."""

    def __init__(self, model: Path, directory: Path, shapes: Mapping[str, Any] | None) -> None:
        job = SessionJob(model, model.name, provider_of("webgpu"))
        room = directory / "room"
        room.mkdir()
        self.evidence: ModelEvidence = explain(job.open_arguments(1, ""), room, timeout_s=LONG_S)
        assert list(room.iterdir()) == []
        self.nodes: Mapping[NodeKey, NodeTotal] = {} if shapes is None else profiled(job, directory, shapes)
        self.opsets = read_opsets(model)

    def culprits(self) -> tuple[Culprit, ...]:
        model, log = self.evidence.model, self.evidence.log
        assert model is not None
        return culprits_of(model, log, self.nodes, self.opsets, WEBGPU, "ORT")

    def placement(self) -> Placement:
        return placement_of(self.nodes, self.evidence.log, self.evidence.assignment, self.evidence.model)


def profiled(job: SessionJob, directory: Path, shapes: Mapping[str, Any]) -> Mapping[NodeKey, NodeTotal]:
    logs = directory / "logs"
    logs.mkdir()
    with ProcessWorker(logs, timeout_s=LONG_S) as worker:
        worker.call("open", job=job.open_arguments(1, str(directory / "profile")))
        worker.call("make_feeds", shapes=dict(shapes), ranges={"x": [0.5, 1.0]} if "x" in shapes else {}, bind=False)
        windows = worker.call("profile", runs=2)["windows"]
        path = worker.close()["profile_path"]
    return read_profile(path, [tuple(window) for window in windows]).nodes


Found = tuple[tuple[str, ...], str, str, str, str]

CASES: list[Any] = [
    pytest.param(
        models.cpu_island, {"batch": 2},
        [
            ((), TO, "product", "determinants/Det", "no_kernel"),
            ((), FROM, "determinants", "determinants/Det", "no_kernel"),
        ], id="an island",
    ),
    pytest.param(
        models.two_islands, {"batch": 2},
        [
            ((), TO, "product", "first/Hardmax", "no_kernel"),
            ((), FROM, "first", "first/Hardmax", "no_kernel"),
            ((), TO, "scaled", "second/Hardmax", "no_kernel"),
            ((), FROM, "second", "second/Hardmax", "no_kernel"),
        ], id="two islands",
    ),
    pytest.param(
        models.if_island, {"batch": 2},
        [
            (THEN, TO, "then/scaled", "then/hardmax/Hardmax", "no_kernel"),
            (THEN, FROM, "then/hardmax", "then/hardmax/Hardmax", "no_kernel"),
        ], id="If",
    ),
    pytest.param(
        models.loop_island, {"batch": 2},
        [
            ((), TO, "start", "end/Loop", "no_kernel"),
            ((), FROM, "end", "end/Loop", "no_kernel"),
            (BODY, TO, "body/scaled", "body/hardmax/Hardmax", "no_kernel"),
            (BODY, FROM, "body/hardmax", "body/hardmax/Hardmax", "no_kernel"),
        ], id="Loop",
    ),
    pytest.param(
        models.scan_island, {"seq": 3},
        [
            ((), TO, "start", "last/Scan", "no_kernel"),
            ((), FROM, "rows", "last/Scan", "no_kernel"),
            (("last/Scan:body",), TO, "body/scaled", "body/hardmax/Hardmax", "no_kernel"),
            (("last/Scan:body",), FROM, "body/hardmax", "body/hardmax/Hardmax", "no_kernel"),
        ], id="Scan",
    ),
    pytest.param(
        models.nested_islands, {"batch": 2},
        [
            (
                ("y/If:then_branch", *(f"level{level}_y/If:then_branch" for level in (1, 2, 3))),
                FROM, "innermost", "innermost/Hardmax", "no_kernel",
            ),
        ], id="four deep",
    ),
    pytest.param(
        models.shape_chain, {"batch": 2}, [((), FROM, "zeros", "zeros/ConstantOfShape", "no_kernel")], id="shapes",
    ),
    pytest.param(
        models.dynamic_shapes, {"batch": 1, "seq": 4, "other": 4}, [], id="shapes without a copy",
    ),
    pytest.param(
        models.transformer_block, {"batch": 1, "seq": 8, "past": 0, "total": 8},
        [((), FROM, "seqlens_k", "seqlens_k/Cast", "no_kernel")], id="lengths of attention",
    ),
    pytest.param(
        models.device_length, None,
        [((), TO, "total_sequence_length", "attention/GroupQueryAttention", "host_input")], id="a host input",
    ),
    pytest.param(
        models.opset24, {"batch": 1, "seq": 4},
        [
            *(((), TO, part, "attended/Attention", "no_kernel") for part in "vqk"),
            ((), FROM, "attended", "attended/Attention", "no_kernel"),
        ], id="ai.onnx Attention",
    ),
    pytest.param(
        models.other_type, {"batch": 2},
        [
            ((), TO, "float_scores", "wide/Cast", "no_kernel"),
            ((), FROM, "narrow", "narrow/Cast", "no_kernel"),
        ], id="double",
    ),
    pytest.param(
        models.shared_values, {"batch": 2},
        [
            ((), FROM, "x", "hard/Hardmax", "graph_input"),
            ((), TO, "chosen", "end/If", "host_input"),
            ((), FROM, "hard", "hard/Hardmax", "no_kernel"),
            (THEN, FROM, "start", "then_hard/Hardmax", "boundary"),
            (THEN, FROM, "then_hard", "then_hard/Hardmax", "no_kernel"),
        ], id="values of both sides",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "shapes", "expected"), CASES)
def test_every_memcpy_node_has_its_culprit(
    tmp_path: Path, make: Callable[[Path], Path], shapes: Mapping[str, Any] | None, expected: list[Found]
) -> None:
    explained = Explained(make(tmp_path / "model.onnx"), tmp_path, shapes)

    found = explained.culprits()

    assert [(one.graph, one.direction, one.tensor, one.node, one.why) for one in found] == expected
    copied = {(f"Memcpy{'ToHost' if one.direction == TO else 'FromHost'}", one.tensor) for one in found}
    assert copied == set(explained.evidence.log.copied_tensors)
    placement = explained.placement()
    assert placement.disagreements == ()
    executed = [key for key in explained.nodes if key.op_type.startswith("Memcpy")]
    assert {key.execution_provider for key in executed} <= {WEBGPU}
    assert {node.op_type for node in placement.nodes if "profile" in node.sources} == {
        key.op_type for key in explained.nodes
    }


def test_a_node_of_other_element_types_is_a_matter_of_type(tmp_path: Path) -> None:
    """WebGPU has a Softmax for float, which runs there, and none for double."""
    groups = Explained(models.other_type(tmp_path / "types.onnx"), tmp_path, None).placement().cpu_groups

    assert groups == (
        CpuGroup("Cast", "no_kernel", 2, "wide/Cast"),
        CpuGroup("Softmax", "type", 1, "double_scores/Softmax"),
    )


def test_the_groups_of_attention_say_what_to_look_for(tmp_path: Path) -> None:
    found = Explained(models.opset24(tmp_path / "24.onnx"), tmp_path, None).culprits()

    why = f"Attention (opset 24): {WEBGPU} has no kernel for it in ORT, e.g. attended/Attention"
    assert [line.text for line in group(found)] == [f"3 x {why} (MemcpyToHost)", f"1 x {why} (MemcpyFromHost)"]


def test_odd_names_have_their_culprits_too(tmp_path: Path) -> None:
    explained = Explained(models.odd_names(tmp_path / "odd.onnx"), tmp_path, {"batch": 2})

    found = explained.culprits()

    assert [one.node for one in found if one.direction == TO] == list(models.ODD_NAMES)
    assert [one.node for one in found if one.direction == FROM] == list(models.ODD_NAMES)
    assert {one.op_type for one in found} == {"Hardmax"}
    assert {one.why for one in found} == {"no_kernel"}
    assert explained.placement().disagreements == ()


def test_without_the_graph_the_tensors_are_named_and_the_node_is_not(tmp_path: Path) -> None:
    explained = Explained(models.cpu_island(tmp_path / "island.onnx"), tmp_path, {"batch": 2})

    found = culprits_of(None, explained.evidence.log, explained.nodes, explained.opsets, WEBGPU, "ORT", "it is lost")

    assert {(one.direction, one.tensor, one.node, one.why) for one in found} == {
        (TO, "product", "", "unknown"), (FROM, "determinants", "", "unknown"),
    }  # fmt: skip
    assert found[0].others == ("Det determinants/Det",)
    assert "cannot be told: it is lost; on the CPU: Det determinants/Det" in group(found)[0].text
