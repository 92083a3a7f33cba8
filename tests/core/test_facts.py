from pathlib import Path

import pytest

from pytest_onnxperf.core.facts import CountedNode, difference_text, facts_of
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.profile_json import read_profile

DATA = Path(__file__).parents[1] / "data" / "profiles"
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def made(tmp_path: Path, *runs: list[tuple[str, str, str]], shape: str = '{"float":[64]}') -> Path:
    """Write a profile; each run is a list of name, operator and provider."""
    lines = []
    for number, nodes in enumerate(runs):
        for index, (name, op_type, provider) in enumerate(nodes):
            lines.append(
                f'{{"cat" : "Node","pid" :1,"tid" :1,"dur" :4,"ts" :{number * 1000 + 10 * index},"ph" : "X",'
                f'"name" :"{name}_kernel_time","args" : {{"op_name" : "{op_type}","provider" : "{provider}",'
                f'"input_type_shape" : [{shape}],"output_type_shape" : [{shape}]}}}}'
            )
        for name in ("SequentialExecutor::Execute", "model_run"):
            lines.append(
                f'{{"cat" : "Session","pid" :1,"tid" :1,"dur" :900,"ts" :{number * 1000},"ph" : "X","name" :"{name}",'
                '"args" : {}}'
            )
    path = tmp_path / "made.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    return path


def test_facts_of_a_session_with_memcpy_nodes() -> None:
    facts = facts_of(read_profile(DATA / "webgpu_1.27.0_det2.json"))
    assert facts.unavailable is None
    assert not facts.unstable
    assert (facts.runs, facts.memcpy, facts.memcpy_to_host, facts.memcpy_from_host) == (3, 4, 2, 2)
    assert (facts.nodes, facts.cpu_nodes) == (10, 2)
    assert facts.nodes_by_provider == {"WebGpuExecutionProvider": 8, CPU: 2}
    assert facts.ops[f"{CPU}:Det"] == 2
    assert facts.ops["WebGpuExecutionProvider:MatMul"] == 1
    assert facts.shape_nodes == ()
    copies = [row for row in facts.op_table if row.op_type.startswith("Memcpy")]
    assert facts.memcpy_ns == pytest.approx(
        (4761 + 43 + 142 + 10 + 2715 + 37 + 118 + 9 + 2395 + 26 + 67 + 59) * 1e3 / 3
    )
    assert facts.memcpy_share == pytest.approx(sum(row.self_share_ratio for row in copies))
    assert sum(row.self_share_ratio for row in facts.op_table) == pytest.approx(1)


def test_a_session_on_the_cpu_alone_counts_all_its_nodes(tmp_path: Path) -> None:
    path = made(tmp_path, [("s", "Shape", CPU), ("m", "MatMul", CPU)], shape='{"int64":[2]}')
    facts = facts_of(read_profile(path))
    assert (facts.nodes, facts.cpu_nodes, facts.shape_nodes) == (2, 2, ())


def test_without_a_log_nodes_with_small_integer_tensors_compute_shapes() -> None:
    facts = facts_of(read_profile(DATA / "11-vulkan-2026-dev0.json"))
    assert facts.nodes_by_provider == {CPU: 40, "VulkanExecutionProvider": 33}
    assert facts.cpu_nodes == 33
    assert [counted.node.op_type for counted in facts.shape_nodes] == [
        *("Shape", "Gather", "Cast", "ReduceSum", "Sub", "Cast", "Greater")
    ]
    assert facts.fused_ops == {"GroupQueryAttention": 32}


def test_with_a_log_nodes_it_names_compute_shapes_and_unnamed_ones_by_their_tensors(tmp_path: Path) -> None:
    nodes = [("a", "Gather", CPU), ("b", "Gather", CPU), ("Gather_7", "Gather", CPU), ("m", "MatMul", CUDA)]
    profile = read_profile(made(tmp_path, nodes, shape='{"int64":[2]}'))
    facts = facts_of(profile, frozenset({"a"}))
    assert facts.cpu_nodes == 1
    assert facts.shape_nodes == (
        CountedNode(NodeKey("a", "Gather", CPU), 1),
        CountedNode(NodeKey("Gather_7", "Gather", CPU), 1),
    )
    assert facts_of(profile).cpu_nodes == 0
    floats = read_profile(made(tmp_path, nodes))
    assert facts_of(floats, frozenset()).cpu_nodes == 3


def test_a_fact_that_differs_between_runs_is_unstable_and_counts_as_its_maximum(tmp_path: Path) -> None:
    node, copy = ("m", "MatMul", CUDA), ("Memcpy", "MemcpyToHost", CUDA)
    facts = facts_of(read_profile(made(tmp_path, [node], [node, copy, copy], [node])))
    assert (facts.memcpy, facts.nodes) == (2, 3)
    by_name = {difference.fact: difference for difference in facts.unstable}
    assert set(by_name) == {
        "memcpy",
        "memcpy_to_host",
        "nodes",
        f"nodes_by_provider.{CUDA}",
        f"ops.{CUDA}:MemcpyToHost",
    }
    assert by_name["memcpy"].values == (0, 2, 0)
    assert [(change.node.name, change.fewest, change.most) for change in by_name["memcpy"].nodes] == [("Memcpy", 0, 2)]
    assert difference_text(by_name["memcpy"]) == "0 in 2 runs, 2 in 1 run (MemcpyToHost Memcpy: 0 to 2)"


def test_a_difference_in_many_nodes_names_the_first(tmp_path: Path) -> None:
    many = [(f"n{index}", "Add", CPU) for index in range(5)]
    facts = facts_of(read_profile(made(tmp_path, many, [])))
    assert difference_text(facts.unstable[0]) == (
        "0 in 1 run, 5 in 1 run (Add n0: 0 to 1; Add n1: 0 to 1; Add n2: 0 to 1; and 2 more nodes)"
    )


def test_a_failed_run_makes_facts_unstable() -> None:
    profile = read_profile(DATA / "cpu_1.31.1_ORT_PARALLEL_if.json")
    assert facts_of(profile).unstable == ()


def test_a_replayed_graph_cannot_be_told() -> None:
    facts = facts_of(read_profile(DATA / "webgpu_1.27.0_graph_capture_replay.json"))
    assert facts.unavailable == (
        "5 of 6 measured runs replayed a captured graph, and a replay leaves no node events: "
        "profile without graph capture"
    )


def test_measured_replays_alone_cannot_be_told_and_the_first_run_alone_can() -> None:
    path = DATA / "webgpu_1.27.0_graph_capture_replay.json"
    runs = read_profile(path).runs
    first = facts_of(read_profile(path, [(runs[0].start_ns, runs[0].end_ns)]))
    assert (first.unavailable, first.nodes) == (None, 3)
    later = facts_of(read_profile(path, [(runs[1].start_ns, runs[5].end_ns)]))
    assert "5 of 5 measured runs" in str(later.unavailable)
    assert later.nodes == 0


def test_no_run_cannot_be_told() -> None:
    facts = facts_of(read_profile(DATA / "cuda-fallback_second-attempt_cpu.json"))
    assert facts.unavailable == "no run is in the profile"


def test_no_measured_run_cannot_be_told() -> None:
    path = DATA / "cpu_1.32.0_base_2runs.json"
    assert facts_of(read_profile(path, [])).unavailable == "no run of the profile was measured"


def test_a_line_that_could_not_be_read_cannot_be_told_and_what_was_seen_is_there(tmp_path: Path) -> None:
    path = made(tmp_path, [("m", "MatMul", CUDA), ("Memcpy", "MemcpyToHost", CUDA)])
    path.write_text(path.read_text(encoding="utf-8").replace("[\n", "[\ngarbage\n", 1), encoding="utf-8")
    facts = facts_of(read_profile(path))
    assert facts.unavailable == (
        "1 line(s) of the profile could not be read, so that counts may be too low; the first is line 2: not JSON: "
        "Expecting value"
    )
    assert facts.memcpy == 1


def test_a_profile_cut_after_its_measured_runs_can_be_told() -> None:
    path = DATA / "cpu_1.31.1_cap_TRIMMED_first20_last10_lines.json"
    first = read_profile(path).runs[0]
    assert facts_of(read_profile(path, [(first.start_ns, first.end_ns)])).unavailable is None
    last = facts_of(read_profile(path, [(first.start_ns, first.end_ns), (9_000_000_000, 9_100_000_000)]))
    assert last.unavailable == "1 measured run(s) are not in the profile, which is cut before its end"


def test_the_op_table_is_per_run_and_by_self_time() -> None:
    profile = read_profile(DATA / "cpu_1.32.0_loop_subgraph.json")
    rows = facts_of(profile).op_table
    assert [row.self_per_run_ns for row in rows] == sorted((row.self_per_run_ns for row in rows), reverse=True)
    loop = next(row for row in rows if row.op_type == "Loop")
    assert loop.executions_per_run == 1
    assert loop.self_per_run_ns < loop.duration_per_run_ns
