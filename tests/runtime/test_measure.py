"""One measurement of a real model in real processes: what it finds, and what it says where it finds nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_onnxperf.core.errors import MeasurementError, ModelError, OnnxPerfError, ProviderError, SettingError
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.core.stages import Doing, Held, Stage
from pytest_onnxperf.runtime.arrays import as_arrays
from pytest_onnxperf.runtime.measure import CONFIRMATIONS, Measurement
from pytest_onnxperf.runtime.model_files import model_files
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("own_locks")

CPU = "CPUExecutionProvider"
TIMES = {"latency_p50", "latency_p90", "latency_p99", "latency_min", "throughput", "cold_start", "load"}
PLAN: dict[str, Any] = {
    "warmup_rounds": 3, "min_rounds": 4, "max_time_s": 0.0, "profile_runs": 2, "timeout_s": 120.0,
    "isolation": "process", "threads": 1,
}  # fmt: skip
THREADS = "intra_op_num_threads"
BATCH: dict[str, Any] = {"shapes": {"batch": 2}}
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., Record]:
    """Measures a model; its files lie in `tmp_path / "files"`."""

    def measure(
        model: Path,
        *,
        ep: str = "cpu",
        plan: dict[str, Any] | None = None,
        is_suspicious: Callable[[Record], bool] = lambda _: False,
        **changes: Any,
    ) -> Record:
        job = SessionJob(model, model.name, provider_of(ep), **changes)
        measurement = Measurement(job, Plan(**{**PLAN, **(plan or {})}), tmp_path / "files", lambda _: None)
        return measurement.record(TestKey("test_a.py", "test_a"), is_suspicious)

    return measure


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return models.mlp(tmp_path / "mlp.onnx")


# -- what is found -----------------------------------------------------------------------------------------------------


def test_a_model_has_facts_metrics_and_an_environment(measure: Callable[..., Record], mlp: Path) -> None:
    record = measure(mlp, **BATCH)

    assert record.facts is not None
    assert record.facts.unavailable is None
    assert record.facts.unstable == ()
    assert record.facts.ops == {f"{CPU}:FusedGemm": 2}
    assert set(record.metrics) == TIMES | {"peak_rss", "model_size"}
    assert all(len(values) == 1 and values[0] > 0 for values in record.metrics.values())
    assert record.metrics["model_size"] == (mlp.stat().st_size,)
    assert record.not_measured == {"peak_vram": "the device has no NVML"}
    assert (record.rounds, record.threads, record.model) == (PLAN["min_rounds"], 1, "mlp.onnx")
    assert record.environment.execution_provider == CPU
    assert record.environment.versions["onnxruntime"] == onnxruntime.__version__


def test_warm_up_is_neither_in_the_rounds_nor_in_the_facts(
    measure: Callable[..., Record], mlp: Path, tmp_path: Path
) -> None:
    record = measure(mlp, plan={"warmup_rounds": 7}, **BATCH)

    (path,) = (tmp_path / "files").glob("profile_*.json")
    whole = read_profile(path)
    assert record.facts is not None
    assert record.facts.runs == PLAN["profile_runs"]
    assert len(whole.runs) == 7 + PLAN["profile_runs"]
    assert record.facts.nodes == sum(whole.runs[-1].nodes.values())
    assert record.rounds == PLAN["min_rounds"]


def test_the_first_run_is_the_cold_start_and_no_round(measure: Callable[..., Record], tmp_path: Path) -> None:
    record = measure(models.slow_model(tmp_path / "slow.onnx", blocks=300), shapes={"batch": 64})

    assert record.metrics["cold_start"][0] > record.metrics["latency_min"][0]


def test_rounds_go_on_for_the_time_that_is_planned(measure: Callable[..., Record], mlp: Path) -> None:
    assert measure(mlp, plan={"max_time_s": 0.2}, **BATCH).rounds > PLAN["min_rounds"]


def test_each_process_gives_one_value_of_each_metric(measure: Callable[..., Record], mlp: Path, tmp_path: Path) -> None:
    record = measure(mlp, plan={"processes": 2}, **BATCH)

    assert {name: len(values) for name, values in record.metrics.items() if name != "model_size"} == dict.fromkeys(
        TIMES | {"peak_rss"}, 2
    )
    assert record.rounds == 2 * PLAN["min_rounds"]
    assert sorted(path.name for path in (tmp_path / "files").iterdir() if path.is_dir()) == [
        "1-timing", "2-timing", "3-profile",
    ]  # fmt: skip


def test_a_suspicious_record_is_confirmed_by_more_processes(measure: Callable[..., Record], mlp: Path) -> None:
    seen: list[int] = []

    def is_suspicious(record: Record) -> bool:
        seen.append(len(record.metrics["latency_p50"]))
        return True

    record = measure(mlp, is_suspicious=is_suspicious, **BATCH)

    assert seen == [1]
    assert len(record.metrics["latency_p50"]) == 1 + CONFIRMATIONS


def test_without_timing_there_are_facts_and_no_timing_process(
    measure: Callable[..., Record], mlp: Path, tmp_path: Path
) -> None:
    record = measure(mlp, plan={"timing": False}, **BATCH)

    assert record.facts is not None
    assert record.facts.nodes == 2
    assert set(record.metrics) == {"model_size"}
    assert set(record.not_measured) == TIMES | {"peak_rss", "peak_vram"}
    assert [path.name for path in (tmp_path / "files").iterdir() if path.is_dir()] == ["1-profile"]


def test_the_own_process_finds_the_same_facts(
    measure: Callable[..., Record], mlp: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    apart = measure(mlp, **BATCH)
    inside = measure(mlp, plan={"isolation": "none"}, **BATCH)

    assert apart.facts is not None
    assert inside.facts is not None
    for fact in ("runs", "nodes", "cpu_nodes", "nodes_by_provider", "ops", "fused_ops", "memcpy", "unavailable"):
        assert getattr(inside.facts, fact) == getattr(apart.facts, fact)
    assert set(inside.metrics) == set(apart.metrics) - {"peak_rss"}
    assert "--onnxperf-isolation=none" in inside.not_measured["peak_rss"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("write", "shapes", "ops"),
    [
        pytest.param(models.loop_model, {"batch": 2}, {"Loop": 1, "Gemm": 4}, id="loop"),
        pytest.param(models.if_model, {"batch": 2}, {"If": 1, "MatMul": 1}, id="if"),
        pytest.param(
            models.transformer_block,
            {"batch": 1, "seq": 4, "past": 0, "total": 4},
            {"GroupQueryAttention": 1},
            id="transformer",
        ),
        pytest.param(models.string_input, {"n": 3}, {"LabelEncoder": 1}, id="strings"),
        pytest.param(
            models.opset24,
            {"batch": 1, "seq": 4},
            {"Attention": 1, "Reshape": 1},
            id="opset24",
            marks=pytest.mark.skipif(VERSION < (1, 24), reason="opset 24 needs onnxruntime 1.24"),
        ),
    ],
)
def test_models_of_all_kinds_are_measured(
    measure: Callable[..., Record],
    tmp_path: Path,
    write: Callable[[Path], Path],
    shapes: dict[str, int],
    ops: dict[str, int],
) -> None:
    record = measure(write(tmp_path / "model.onnx"), shapes=shapes)

    assert record.facts is not None
    assert record.facts.unavailable is None
    assert {op: record.facts.ops.get(f"{CPU}:{op}") for op in ops} == ops


@pytest.mark.parametrize("bind", [False, True])
def test_feeds_of_the_test_are_measured_bound_or_not(measure: Callable[..., Record], mlp: Path, bind: bool) -> None:
    record = measure(mlp, feeds=as_arrays({"x": np.ones((2, 32), np.float32)}), bind=bind)

    assert record.facts is not None
    assert record.facts.nodes == 2


# -- options -----------------------------------------------------------------------------------------------------------


def test_free_dimensions_take_the_place_of_shapes(measure: Callable[..., Record], mlp: Path) -> None:
    assert measure(mlp, free_dimensions={"batch": 4}).facts is not None


@pytest.mark.parametrize(
    ("own", "threads"),
    [({}, 4), ({THREADS: 0}, 4), ({THREADS: 3}, 3), ({THREADS: np.int64(3)}, 3), ({THREADS: True}, 1)],
)
def test_threads_of_the_session_options_come_first_as_a_plain_number(
    mlp: Path, own: dict[str, Any], threads: int
) -> None:
    found = SessionJob(mlp, mlp.name, provider_of("cpu"), session_options=own).threads(4)
    assert (found, type(found)) == (threads, int)


def test_session_options_reach_the_session(measure: Callable[..., Record], mlp: Path) -> None:
    options = {
        "graph_optimization_level": "disable",
        "execution_mode": "parallel",
        "intra_op_num_threads": 2,
        "session.disable_prepacking": "1",
        "log_severity_level": 3,
    }

    record = measure(mlp, session_options=options, **BATCH)

    assert record.facts is not None
    assert record.facts.ops == {f"{CPU}:{op}": 2 for op in ("Add", "MatMul", "Relu")}
    assert record.threads == 2
    names = ("graph_optimization_level", "execution_mode", "session.disable_prepacking")
    assert record.options == {name: str(options[name]) for name in names}


def test_the_facts_of_a_test_that_silences_the_log_are_the_same(measure: Callable[..., Record], mlp: Path) -> None:
    record = measure(mlp, session_options={"log_severity_level": 4}, **BATCH)

    assert record.facts is not None
    assert record.facts.cpu_nodes == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"session_options": {"graph_optimisation_level": "all"}}, "did you mean `graph_optimization_level`"),
        ({"session_options": {"graph_optimization_level": "most"}}, "expected one of disable, basic, .* got 'most'"),
        ({"session_options": {"graph_optimization_level": [1]}}, r"expected one of disable, basic, .* got \[1\]"),
        ({"session_options": {"execution_mode": 1}}, "expected one of sequential, parallel, got 1"),
        ({"session_options": {"intra_op_num_threads": "two"}}, "`intra_op_num_threads`: 'two' has the wrong type"),
        ({"session_options": {"enable_profiling": False}}, "`enable_profiling`: the plugin sets it itself"),
        ({"free_dimensions": {"bacth": 2}}, "free dimension `bacth`: no input .* did you mean `batch`"),
        ({"free_dimensions": {"batch": "two"}}, "free dimension `batch`: expected an int of at least 1, got 'two'"),
        ({"free_dimensions": {"batch": -3}}, "free dimension `batch`: expected an int of at least 1, got -3"),
        ({"custom_op_libraries": ("/no/such.so",)}, "custom op library /no/such.so: .*No such file"),
        ({"shapes": {}}, "dimension 0 `batch`"),
        ({"shapes": {"bacth": 2}}, "`bacth` is no dimension .* did you mean `batch`"),
        ({"shapes": {"batch": None}}, "`batch`: a dimension's size is an int of at least 0, got None"),
        ({"shapes": {"batch": 2, "x": [2, 7]}}, "`x`: dimension 1 is 7, the model fixes it at 32"),
        ({"ranges": {"z": [0, 1]}}, "ranges: the model has no input `z`"),
        ({"ranges": {"x": 1}}, "expected two finite numbers"),
        ({"ranges": {"x": {1}}}, "takes numbers and texts"),
        ({"feeds": {"x": np.ones((2, 32))}}, "`x`: dtype is float64, the model takes float32"),
        ({"feeds": {"x": np.ones((2, 3), np.float32)}}, "`x`: dimension 1 is 3, the model fixes it at 32"),
        ({"feeds": {"y": np.ones((2, 32), np.float32)}}, "`x` has no feed"),
    ],
)
def test_what_is_wrong_with_an_option_or_an_input_is_said_in_one_message(
    measure: Callable[..., Record], mlp: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(OnnxPerfError, match=message) as raised:
        measure(mlp, **{**BATCH, **changes})

    assert "Traceback" not in str(raised.value)


def test_an_array_of_no_onnx_type_is_named() -> None:
    with pytest.raises(SettingError, match=r"input `x`: dtype datetime64\[s\] has no ONNX element type"):
        as_arrays({"x": np.zeros(1, "datetime64[s]")})
    with pytest.raises(SettingError, match="input `x`: expected a numpy array, got list"):
        as_arrays({"x": [1, 2]})


# -- models that are no good -------------------------------------------------------------------------------------------


def _empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def _pointer(path: Path) -> Path:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    return path


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(lambda path: path, "there is no such file .looked from /", id="missing"),
        pytest.param(lambda path: path.mkdir() or path, "this is a directory, not a model file", id="directory"),
        pytest.param(models.not_onnx, "the file is no ONNX model or is cut off", id="text"),
        pytest.param(models.truncated, "the file is no ONNX model or is cut off", id="truncated"),
        pytest.param(_empty, "the file is no ONNX model or is cut off", id="empty"),
        pytest.param(_pointer, "a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`", id="lfs"),
        pytest.param(models.unknown_op, "NoSuchOperator", id="unknown-op"),
        pytest.param(models.bad_opset, "[Oo]pset 99", id="opset"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named_with_the_reason(
    measure: Callable[..., Record], tmp_path: Path, write: Callable[[Path], Path], message: str
) -> None:
    model = write(tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=message) as raised:
        measure(model, shapes={"n": 1})

    text = str(raised.value)
    assert str(model) in text
    assert not re.search(r"\[ONNXRuntimeError\]|onnxruntime_src|Traceback", text)


def test_a_run_that_fails_says_which_node(measure: Callable[..., Record], tmp_path: Path) -> None:
    model = models.several_inputs(tmp_path / "model.onnx")
    with pytest.raises(
        MeasurementError, match=r"failed in a run: .*Name:'row/Gather'.* idx=100 must be within"
    ) as raised:
        measure(model, ranges={"ids": [100, 100]}, **BATCH)

    assert "\x1b" not in str(raised.value)


# -- external data -----------------------------------------------------------------------------------------------------


def test_external_data_counts_for_the_size_of_the_model(measure: Callable[..., Record], tmp_path: Path) -> None:
    model = models.external_data(tmp_path / "model.onnx")

    record = measure(model, **BATCH)

    assert record.metrics["model_size"] == (model.stat().st_size + (tmp_path / "model.onnx.data").stat().st_size,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(Path.unlink, r"model\.onnx: its external data 'model\.onnx\.data' is missing", id="missing"),
        pytest.param(lambda data: data.write_bytes(b"123"), r"External initializer: \w+ offset: \d+", id="short"),
        pytest.param(_pointer, r"model\.onnx\.data: this is a pointer of Git LFS", id="lfs"),
    ],
)
def test_external_data_that_is_not_right_is_named(
    measure: Callable[..., Record], tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    model = models.external_data(tmp_path / "model.onnx")
    change(tmp_path / "model.onnx.data")

    with pytest.raises(ModelError, match=message):
        measure(model, **BATCH)


def _external(name: str, location: str) -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.ones((4, 4), np.float32), name)
    onnx.external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    return tensor


def _branch(name: str, location: str) -> onnx.GraphProto:
    """A branch whose weights lie in a file, with a branch in it whose constant does."""
    value = helper.make_node("Constant", [], [f"{name}_constant"], value=_external("", f"deep/{location}"))
    node = helper.make_node("Add", [f"{name}_weight", f"{name}_constant"], [name])
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])
    return helper.make_graph([value, node], name, [], [output], [_external(f"{name}_weight", location)])


def nested_external(path: Path) -> Path:
    """A model with external data in two branches of an If, in a constant, and in a function."""
    condition = helper.make_tensor_value_info("chosen", TensorProto.BOOL, [])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])
    branches = {"then_branch": _branch("then", "then.data"), "else_branch": _branch("else", "else.data")}
    nodes = [helper.make_node("If", ["chosen"], ["y"], **branches)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_node("If", ["c"], ["z"], **{**branches, "then_branch": _branch("in", "function.data")})
    function = helper.make_function("local", "Choose", ["c"], ["z"], [inner], opsets)
    graph = helper.make_graph(nodes, "main", [condition], [output])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function])
    (path.parent / "deep").mkdir(parents=True)
    for name in ("then.data", "else.data", "function.data"):
        for place in (path.parent, path.parent / "deep"):
            (place / name).write_bytes(np.ones((4, 4), np.float32).tobytes())
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_of_subgraphs_and_functions_is_found(tmp_path: Path) -> None:
    model = nested_external(tmp_path / "models" / "model.onnx")

    names = {str(file.relative_to(model.parent)) for file in model_files(model)}

    assert names == {"model.onnx"} | {
        f"{place}{name}" for place in ("", "deep/") for name in ("then.data", "else.data", "function.data")
    }


def test_external_data_of_a_subgraph_that_is_missing_is_named(tmp_path: Path) -> None:
    model = nested_external(tmp_path / "models" / "model.onnx")
    (model.parent / "deep" / "else.data").unlink()

    with pytest.raises(
        ModelError, match=r"its external data .*else\.data' is missing, it must lie at .*deep/else\.data"
    ):
        model_files(model)


def test_a_file_that_only_speaks_of_a_location_is_returned_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.ort"
    path.write_bytes(b"\x08\xffORTM a location is named here")

    assert model_files(path) == (path,)


# -- execution providers -----------------------------------------------------------------------------------------------


def test_an_ep_that_is_not_in_the_build_is_said_with_those_that_are(measure: Callable[..., Record], mlp: Path) -> None:
    with pytest.raises(ProviderError, match=f"has no AcmeExecutionProvider, only .*{CPU}"):
        measure(mlp, ep="AcmeExecutionProvider", **BATCH)


def test_an_ep_that_takes_no_node_of_the_model_is_an_error(measure: Callable[..., Record], tmp_path: Path) -> None:
    name = "AzureExecutionProvider"  # in the CPU package; it runs nothing but calls of Azure
    if name not in onnxruntime.get_available_providers():
        pytest.skip(f"this build has no {name}")
    with pytest.raises(
        ProviderError, match=f"{name} was asked for and is there, but not one node .* ran on it: 2 on {CPU}"
    ):
        measure(models.mlp(tmp_path / "mlp.onnx"), ep=name, **BATCH)


# -- nothing is left, everything is said -------------------------------------------------------------------------------


def test_who_measures_hears_what_is_done_and_that_a_device_is_waited_for(mlp: Path, tmp_path: Path) -> None:
    said: list[Doing | Held] = []
    model = models.loop_model(tmp_path / "endless.onnx", trips=10**12)
    job = SessionJob(model, model.name, provider_of("cpu"), shapes={"batch": 1})
    measurement = Measurement(job, Plan(**{**PLAN, "timeout_s": 4.0}), tmp_path / "files", said.append)

    with pytest.raises(MeasurementError, match="ended after 4 s"):
        measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)

    assert {doing.stage for doing in said if isinstance(doing, Doing)} - {Stage.WAITING} == {Stage.LOAD, Stage.WARM_UP}
