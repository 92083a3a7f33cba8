from pathlib import Path

import pytest

from pytest_onnxperf.core.facts import facts_of
from pytest_onnxperf.core.op_table import OpRow
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.report.profile import diff_lines, op_table_lines, profile_lines, short_provider
from pytest_onnxperf.report.profile_diff import changes_between

DATA = Path(__file__).parents[1] / "data" / "profiles"


def shown(name: str, top: int | None = None) -> list[str]:
    profile = read_profile(DATA / name)
    return list(profile_lines(profile, facts_of(profile), top))[1:]


def test_a_profile_with_memcpy_nodes_reads_like_this() -> None:
    assert shown("webgpu_1.27.0_det2.json", top=3) == [
        "50 events (Api 12, Node 30, Session 8), 3 runs",
        "",
        "Facts, a run:",
        "  memcpy nodes 4 (to host 2, from host 2)",
        "  memcpy time  3.461 ms, 1.2% of node time",
        "  nodes        10 (WebGpuExecutionProvider 8, CPUExecutionProvider 2)",
        "  CPU nodes    2",
        "",
        "Node time here is the time to launch it, not the time on the device.",
        "op type                   EP           a run  ms total   ms self  share class",
        "MatMul                    WebGpu           1   263.298   263.298  91.3% compute",
        "Softmax                   WebGpu           1    19.126    19.126   6.6% memory",
        "MemcpyToHost              WebGpu           2     3.399     3.399   1.2% copy",
        "and 4 more",
        "compute: arithmetic: try a lower precision, a fused operator or fewer, larger",
        "  products",
        "memory: bound by memory traffic: fuse it with its neighbours, or use a smaller",
        "  type",
        "copy: moves data and computes nothing: keep one device and one layout, and",
        "  export without it",
        "",
        "Api events, whole file, on the clock of the device              events        ms",
        "sm&Softmax&Softmax                                                   3    19.827",
        "mm&MatMul&MatMul                                                     3     7.450",
        "mul&Mul&Mul                                                          3     0.193",
        "and 1 more",
    ]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_no_line_is_wider_than_80_columns(path: Path) -> None:
    if path.stat().st_size:
        lines = shown(path.name)
        assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []
        assert all(line.isprintable() for line in lines)


def test_on_the_cpu_node_time_is_not_called_launch_time() -> None:
    assert not any("launch" in line for line in shown("cpu_1.32.0_base_2runs.json"))


def test_a_replayed_graph_is_not_shown_as_0_memcpy_without_its_reason() -> None:
    lines = shown("webgpu_1.27.0_graph_capture_replay.json")
    reason = lines.index("Facts cannot be told: 5 of 6 measured runs replayed a captured graph, and a")
    assert lines[reason + 2] == "Seen all the same, and maybe too low, a run:"


def test_an_orphan_shows_no_facts() -> None:
    lines = shown("cuda-fallback_first-attempt_orphan_118B.json")
    assert lines[0] == "1 event (Session 1), 0 runs"
    assert "Facts cannot be told: no run is in the profile." in lines
    assert not any("memcpy" in line for line in lines)


def test_long_names_are_cut_at_the_front() -> None:
    row = OpRow("Prefix" * 10 + "_17", "C" * 40, 1, 1, 1, 1.0, "other", "not known")
    line = list(op_table_lines([row], None))[2]
    assert line.startswith("...")
    assert "Prefix_17 " in line
    assert len(line) == 80 - len("metadata") + len("other")


def test_short_providers() -> None:
    assert [short_provider(name) for name in ("WebGpuExecutionProvider", "MyEP", "")] == ["WebGpu", "MyEP", "-"]


def diff(old: str, new: str) -> list[str]:
    profiles = [read_profile(DATA / old), read_profile(DATA / new)]
    first, second = profiles
    return list(diff_lines(changes_between(first, facts_of(first), second, facts_of(second))))[3:]


def test_a_diff_shows_nodes_gained_and_lost_and_then_time() -> None:
    lines = diff("webgpu_1.27.0_det2.json", "webgpu_1.27.0_if.json")
    assert lines[:3] == [
        "a run                                                          A       B  change",
        "memcpy                                                         4       1      -3",
        "memcpy_to_host                                                 2       1      -1",
    ]
    assert "CPUExecutionProvider:Det                                       2       0      -2" in lines
    assert "MatMul                                                 263.298  186.946     -29%" in lines
    assert all(len(line) <= 80 for line in lines)


def test_a_diff_of_the_same_facts_says_so_and_shows_time() -> None:
    lines = diff("cpu_1.31.1_base_2runs.json", "cpu_1.32.0_base_2runs.json")
    assert lines[0] == "The facts are the same."
    assert "noise" in lines[2]


def test_a_diff_says_whose_facts_cannot_be_told() -> None:
    lines = diff("cpu_1.32.0_base_2runs.json", "cuda-fallback_second-attempt_cpu.json")
    assert lines[0] == "Facts of B cannot be told: no run is in the profile."
