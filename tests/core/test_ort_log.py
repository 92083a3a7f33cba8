"""What is read off a log: recorded ones (tests/data/profiles/*.txt), and lines that carry odd names."""

from __future__ import annotations

from pathlib import Path

from pytest_onnxperf.core.ort_log import OrtLog, PlacedNode, read_log

DATA = Path(__file__).parents[1] / "data" / "profiles"
CPU, WEBGPU = "CPUExecutionProvider", "WebGpuExecutionProvider"
PLACE = "2026-12-01 15:58:41.1 [V:onnxruntime:, session_state.cc:1355 VerifyEachNodeIsAssignedToAnEp] "
MISSING = (
    "2026-12-01 15:58:41.1 [I:onnxruntime:, x.cc:1 GetCapability] CUDA kernel not found in registries for Op type: "
)


def read(name: str) -> OrtLog:
    with (DATA / name).open(encoding="utf-8") as file:
        return read_log(file)


def test_a_recorded_log_of_two_islands() -> None:
    log = read("webgpu_1.27.0_det2_log_memcpy_and_placement.txt")

    assert log.missing_kernels == {"det": "Det", "det2": "Det"}
    assert log.copied_tensors == (
        ("MemcpyFromHost", "d"), ("MemcpyFromHost", "d2"), ("MemcpyToHost", "y"), ("MemcpyToHost", "z"),
    )  # fmt: skip
    assert log.placed == (
        PlacedNode("det", "Det", CPU),
        PlacedNode("det2", "Det", CPU),
        PlacedNode("mm", "MatMul", WEBGPU),
        PlacedNode("mul", "Mul", WEBGPU),
        PlacedNode("add", "Add", WEBGPU),
        PlacedNode("sm", "Softmax", WEBGPU),
        PlacedNode("Memcpy", "MemcpyFromHost", WEBGPU),
        PlacedNode("Memcpy_token_0", "MemcpyFromHost", WEBGPU),
        PlacedNode("Memcpy_token_1", "MemcpyToHost", WEBGPU),
        PlacedNode("Memcpy_token_2", "MemcpyToHost", WEBGPU),
    )
    assert (log.all_placed_on, log.forced_cpu_nodes, log.attention) == ("", frozenset(), ())


def test_a_recorded_log_of_a_shape_chain() -> None:
    log = read("webgpu_1.27.0_shape2_log_cpu_fallback.txt")

    assert log.copied_tensors == (("MemcpyFromHost", "cz"),)
    on_cpu = [node.op_type for node in log.placed if node.execution_provider == CPU]
    assert on_cpu == ["Gather", "Mul", "Unsqueeze", "Concat", "ConstantOfShape"]
    assert len(log.placed) == 11


def test_one_provider_for_all_nodes() -> None:
    line = PLACE + " All nodes placed on [CPUExecutionProvider]. Number of nodes: 7\n"

    assert read_log([line]) == OrtLog(all_placed_on=CPU)


def test_names_with_quotes_spaces_and_brackets_are_read_whole() -> None:
    names = ['a "b"', "two words (Det)", "x)", "Det_3", "Det node name: y"]
    lines = [PLACE + " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 5\n"]
    lines += [f"{PLACE}  Det ({name})\n" for name in names] + [f"{MISSING}Det node name: {name}\n" for name in names]

    log = read_log(lines)

    assert [node.name for node in log.placed] == names
    assert list(log.missing_kernels) == names


def test_colours_and_lines_of_others_are_passed_over() -> None:
    lines = [f"\x1b[0;93m{MISSING}Det node name: d\x1b[m\r\n", "Hello\n", "", "\x1b[m\n", "placed on [", "Operator="]

    assert read_log(lines) == OrtLog(missing_kernels={"d": "Det"})
    assert read_log([]) == OrtLog()
