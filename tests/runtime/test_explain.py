"""What a session says of its model without a run: real processes on the CPU; those of a device are in hardware/."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest

from pytest_onnxperf.core.culprits import culprits_of
from pytest_onnxperf.core.errors import MeasurementError, ModelError, ProviderError
from pytest_onnxperf.core.graph import all_nodes
from pytest_onnxperf.core.ort_log import PlacedNode
from pytest_onnxperf.core.placement import placement_of
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime import explain as explaining
from pytest_onnxperf.runtime.explain import explain
from pytest_onnxperf.runtime.graph_file import read_graph, read_opsets
from pytest_onnxperf.runtime.process import ProcessWorker
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_onnxperf.runtime.explain import ModelEvidence

pytestmark = pytest.mark.skipif(
    "CPUExecutionProvider" not in onnxruntime.get_available_providers(), reason="needs onnxruntime"
)

LONG_S = 60.0
CPU = "CPUExecutionProvider"
RECORDS_ASSIGNMENT = hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A directory that must be empty when the test ends."""
    directory = tmp_path / "room"
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []


def run(model: Path, room: Path, timeout_s: float = LONG_S, **changes: Any) -> ModelEvidence:
    job = SessionJob(model, model.name, provider_of("cpu"), **changes)
    return explain(job.open_arguments(1, ""), room, timeout_s=timeout_s)


def test_on_the_cpu_all_nodes_are_placed_there_and_nothing_is_copied(tmp_path: Path, room: Path) -> None:
    found = run(models.cpu_island(tmp_path / "island.onnx"), room)

    assert found.model is not None
    assert found.why_no_graph == ""
    assert [node.op_type for node in found.model.graph.nodes] == ["MatMul", "Det", "Mul"]
    assert found.model.opsets[""] == 17
    assert found.log.all_placed_on == CPU
    assert found.log.missing_kernels == {}
    assert culprits_of(found.model, found.log, {}, {}, CPU, "ORT") == ()
    placement = placement_of({}, found.log, found.assignment, found.model)
    assert (placement.all_on, placement.disagreements, placement.cpu_groups) == (CPU, (), ())


@pytest.mark.skipif(not RECORDS_ASSIGNMENT, reason="onnxruntime before 1.24")
def test_the_assignment_is_recorded(tmp_path: Path, room: Path) -> None:
    found = run(models.cpu_island(tmp_path / "island.onnx"), room)

    assert found.assignment == (
        PlacedNode("product/MatMul", "MatMul", CPU),
        PlacedNode("determinants/Det", "Det", CPU),
        PlacedNode("y/Mul", "Mul", CPU),
    )
    assert found.why_no_assignment == ""


@pytest.mark.skipif(RECORDS_ASSIGNMENT, reason="onnxruntime 1.24 or later")
def test_an_older_runtime_says_that_it_records_no_assignment(tmp_path: Path, room: Path) -> None:
    found = run(models.mlp(tmp_path / "mlp.onnx"), room)

    assert found.assignment is None
    assert found.why_no_assignment == (
        f"onnxruntime {onnxruntime.__version__} does not record it, 1.24 and later do"
    )  # fmt: skip


def test_subgraphs_are_read_at_any_depth(tmp_path: Path, room: Path) -> None:
    found = run(models.nested_islands(tmp_path / "nested.onnx"), room)

    assert found.model is not None
    assert [node.op_type for node in all_nodes(found.model.graph)].count("Hardmax") == 1
    assert [node.op_type for node in all_nodes(found.model.graph)].count("If") == 4


def test_odd_names_come_back_as_they_are(tmp_path: Path, room: Path) -> None:
    found = run(models.odd_names(tmp_path / "odd.onnx"), room)

    assert found.model is not None
    assert [node.name for node in found.model.graph.nodes if node.op_type == "Hardmax"] == list(models.ODD_NAMES)
    if RECORDS_ASSIGNMENT:
        assert found.assignment is not None
        assert [node.name for node in found.assignment if node.op_type == "Hardmax"] == list(models.ODD_NAMES)


def test_weights_of_a_model_with_external_data_are_not_left_behind(tmp_path: Path, room: Path) -> None:
    model = models.external_data(tmp_path / "external.onnx", width=64)
    before = sorted(tmp_path.iterdir())

    found = run(model, room)

    assert found.model is not None
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_directory_that_cannot_be_written_costs_the_graph_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    found = run(models.mlp(tmp_path / "mlp.onnx"), tmp_path / name)

    assert found.model is None
    assert found.why_no_graph.startswith(f"{tmp_path / name} cannot be written: ")
    assert found.log.all_placed_on == CPU


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_full_disk_costs_the_graph_alone(tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(2**40, 2**40 - 2**20, 2**20))

    found = run(models.mlp(tmp_path / "mlp.onnx"), room)

    assert found.model is None
    assert found.why_no_graph == f"its weights may need 16 MiB in {room}, where 1 MiB are free"
    assert found.log.all_placed_on == CPU


def test_a_session_that_cannot_save_its_graph_is_made_again_without(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiling EP refuses so: `Unable to serialize model as it contains compiled nodes`."""
    message = "ONNX Runtime cannot load the model: Unable to serialize model as it contains compiled nodes [FAIL]"
    paths = refuse(monkeypatch, message, lambda path: bool(path))

    found = run(models.mlp(tmp_path / "mlp.onnx"), room)

    assert [bool(path) for path in paths] == [True, False]
    assert found.model is None
    assert found.why_no_graph == f"ONNX Runtime did not save it: {message}"
    assert found.log.all_placed_on == CPU


def refuse(monkeypatch: pytest.MonkeyPatch, message: str, refuses: Callable[[str], bool]) -> list[str]:
    """Make a process refuse to open some jobs; return the list of the paths that it is given."""
    paths: list[str] = []

    class Refusing(ProcessWorker):
        def call(self, command: str, **arguments: Any) -> dict[str, Any]:
            if command == "open":
                path = arguments["job"]["optimized_model_path"]
                paths.append(path)
                if refuses(path):
                    raise ModelError(message)
            return super().call(command, **arguments)

    monkeypatch.setattr(explaining, "ProcessWorker", Refusing)
    return paths


def test_a_graph_that_cannot_be_read_costs_the_graph_alone(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "read_graph", lambda path: read_graph(path.with_name("other.onnx")))

    found = run(models.mlp(tmp_path / "mlp.onnx"), room)

    assert found.model is None
    assert "other.onnx: the graph cannot be read: No such file or directory" in found.why_no_graph


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (models.unknown_op, ModelError, "NoSuchOperator"),
        (models.truncated, ModelError, "cannot load the model"),
    ],
)
def test_a_model_that_the_runtime_refuses_is_an_error_and_leaves_nothing(
    tmp_path: Path, room: Path, make: Callable[[Path], Path], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(make(tmp_path / "model.onnx"), room)


def test_a_missing_model_and_a_missing_provider_are_errors(tmp_path: Path, room: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        run(tmp_path / "none.onnx", room)
    job = SessionJob(models.mlp(tmp_path / "mlp.onnx"), "m", provider_of("qnn"))
    with pytest.raises(ProviderError, match="QNN"):
        explain(job.open_arguments(1, ""), room, timeout_s=LONG_S)


def test_a_process_that_takes_too_long_is_ended_and_leaves_nothing(tmp_path: Path, room: Path) -> None:
    with pytest.raises(MeasurementError, match=r"was ended after 0\.01 s"):
        run(models.mlp(tmp_path / "mlp.onnx"), room, timeout_s=0.01)


def test_options_of_the_test_do_not_hide_the_log_nor_save_the_graph_elsewhere(tmp_path: Path, room: Path) -> None:
    elsewhere = tmp_path / "elsewhere.onnx"
    options = {"log_severity_level": 3, "optimized_model_filepath": str(elsewhere)}

    found = run(models.mlp(tmp_path / "mlp.onnx"), room, session_options=options)

    assert found.log.all_placed_on == CPU
    assert found.model is not None
    assert not elsewhere.exists()


def test_the_graph_keeps_types_and_inputs_that_are_left_out(tmp_path: Path) -> None:
    model = read_graph(models.device_length(tmp_path / "length.onnx"))

    attention = next(node for node in model.graph.nodes if node.op_type == "GroupQueryAttention")
    assert attention.inputs[3:5] == ("", "")
    assert attention.inputs[6] == "total_sequence_length"
    assert attention.domain == "com.microsoft"
    assert model.graph.element_types["total_sequence_length"] == "int32"
    assert model.graph.inputs == ("query", "key", "value", "seqlens_k", "total")
    assert model.graph.initializers == {"nothing"}
    assert model.opsets == {"": 17, "com.microsoft": 1}


def test_types_are_inferred_past_copies_and_into_subgraphs(tmp_path: Path) -> None:
    path = models.loop_island(tmp_path / "loop.onnx")
    proto = onnx.load(path)
    copy = onnx.helper.make_node("MemcpyToHost", ["start_device"], ["start"], name="Memcpy")
    proto.graph.node[0].output[0] = "start_device"
    proto.graph.node.insert(1, copy)
    onnx.save(proto, path)

    model = read_graph(path)

    assert [node.op_type for node in model.graph.nodes] == ["Relu", "MemcpyToHost", "Loop", "Tanh"]
    assert model.graph.element_types["start"] == "float"
    ((attribute, body),) = model.graph.nodes[2].subgraphs
    assert attribute == "body"
    assert body.element_types["body/hardmax"] == "float"


def test_a_graph_of_which_types_cannot_be_inferred_has_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: onnx.ModelProto) -> onnx.ModelProto:
        raise onnx.shape_inference.InferenceError

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", refuse)

    model = read_graph(models.two_islands(tmp_path / "islands.onnx"))

    assert model.graph.element_types == {"x": "float", "y": "float", "w": "float", "factor": "float", "b": "float"}


def test_weights_that_are_attributes_do_not_hide_types(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.zeros(1024, np.float32), "weights")
    nodes = [
        onnx.helper.make_node("Constant", [], ["w"], value=weights),
        onnx.helper.make_node("Add", ["w", "w"], ["y"]),
    ]
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1024])
    path = tmp_path / "constant.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "main", [], [y])), path)

    assert read_graph(path).graph.element_types == {"w": "float", "y": "float"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"this is no model\n", "it is no ONNX model"),
        (b"", "the file holds no graph"),
    ],
)
def test_a_file_that_holds_no_graph_is_an_error(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ModelError, match=words):
        read_graph(path)
    assert read_opsets(path) == {}


def test_opsets_are_those_of_the_exported_model(tmp_path: Path) -> None:
    assert read_opsets(models.opset24(tmp_path / "24.onnx")) == {"": 24, "com.microsoft": 1}


def test_the_lines_of_a_log_come_whole_whatever_their_length(tmp_path: Path) -> None:
    with ProcessWorker(tmp_path, timeout_s=LONG_S) as worker:
        worker.call("hello")
        with (tmp_path / "stdout.log").open("wb") as file:
            file.write(b"first\r\n\nlast of stdout")
        with (tmp_path / "stderr.log").open("wb") as file:
            file.write(b"a" * (200 << 10) + b"\n" + b"\xff\n")
        lines = list(worker.log_lines())

    assert lines[:3] == ["first", "", "last of stdout"]
    assert max(map(len, lines)) == 64 << 10
    assert "".join(lines[3:-1]) == "a" * (200 << 10)
    assert lines[-1] == "\ufffd"
    (tmp_path / "stdout.log").unlink()
    assert next(worker.log_lines()).startswith("a")
