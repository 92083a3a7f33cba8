from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pytest_onnxperf.core.chrome_trace import TraceSummary, write_trace
from pytest_onnxperf.core.errors import NotAProfile
from pytest_onnxperf.core.nesting import Lanes, in_order
from tests.traces import Event, line, node, profile, run, slices_of

DATA = Path(__file__).parents[1] / "data" / "profiles"
FILES = sorted(path for path in DATA.glob("*.json") if path.stat().st_size)


def traced(path: Path, **options: Any) -> tuple[str, TraceSummary]:
    out = io.BytesIO()
    summary = write_trace(path, out, io.BytesIO(), **options)
    return out.getvalue().decode(), summary


@pytest.fixture
def made(tmp_path: Path) -> Any:
    def make(*lines: str, **options: Any) -> dict[str, list[Event]]:
        path = tmp_path / "profile.json"
        path.write_text(profile(*lines), "utf-8")
        return slices_of(traced(path, **options)[0])

    return make


def names(slices: list[Event]) -> list[str]:
    return [event["name"] for event in slices]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_real_profile_becomes_a_trace_that_keeps_the_rules(path: Path) -> None:
    text, summary = traced(path)
    tracks = slices_of(text)
    assert summary.events == sum(map(len, tracks.values()))
    assert summary.tracks == len(tracks)
    try:
        events = json.loads(path.read_text("utf-8"), strict=False)
    except ValueError:
        return
    if "jsoninj" in path.name:
        return  # JSON that says something else than the runtime meant
    shown = [e for e in events if e["cat"] != "Node" or e["name"].endswith("_kernel_time")]
    phases = [e for e in tracks.get("phases", []) if e["name"] in ("prefill", "decode")]
    assert summary.events == len(shown) + len(phases)


def test_runs_phases_providers_and_memcpy_are_tracks_and_the_device_stands_apart() -> None:
    text, _ = traced(DATA / "webgpu_1.27.0_det2.json")
    tracks = slices_of(text)
    assert list(tracks) == [
        "phases", "runs", "WebGpuExecutionProvider", "CPUExecutionProvider", "memcpy", "Api events",
    ]  # fmt: skip
    assert names(tracks["phases"]) == ["model_loading_uri", "session initialization"]
    assert [e["name"] for e in tracks["runs"] if "index" in e["args"]] == ["run 0", "run 1", "run 2"]
    assert {len(tracks[name]) for name in ("WebGpuExecutionProvider", "memcpy", "Api events")} == {12}
    assert {e["args"]["op_type"] for e in tracks["memcpy"]} == {"MemcpyToHost", "MemcpyFromHost"}
    assert {e["pid"] for e in tracks["Api events"]}.isdisjoint({e["pid"] for e in tracks["runs"]})


def test_a_node_says_operator_provider_run_shapes_and_bytes() -> None:
    text, _ = traced(DATA / "webgpu_1.27.0_det2.json")
    first = slices_of(text)["WebGpuExecutionProvider"][0]
    assert (first["name"], first["ts"], first["dur"]) == ("mm", 37990, 789671)
    assert first["args"] == {
        "op_type": "MatMul", "execution_provider": "WebGpuExecutionProvider", "run": 0,
        "inputs": "float[64,64], float[64,64]", "outputs": "float[64,64]",
        "input_bytes": 16384, "parameter_bytes": 16384, "output_bytes": 16384,
    }  # fmt: skip


def test_a_node_of_a_version_without_shapes_has_none() -> None:
    text, _ = traced(DATA / "cpu_1.10.0_base_graph-index_fences.json")
    for event in slices_of(text)["CPUExecutionProvider"]:
        assert not {"inputs", "outputs"} & set(event["args"])
        assert event["args"]["output_bytes"] > 0


def test_fence_events_are_left_out() -> None:
    path = DATA / "cpu_1.15.1_base_2runs.json"
    assert "_fence_before" in path.read_text("utf-8")
    assert "fence" not in traced(path)[0]


def test_threads_that_run_at_once_have_tracks_of_their_own() -> None:
    text, _ = traced(DATA / "cpu_1.31.1_4threads_3runs_each.json")
    tracks = slices_of(text)
    of_runs = [name for name in tracks if name.startswith("runs, thread ")]
    assert len(of_runs) == 4
    for name in of_runs:
        runs = [event for event in tracks[name] if "index" in event["args"]]
        assert len(runs) == 3
        nodes = tracks[name.replace("runs", "CPUExecutionProvider")]
        assert {e["args"]["run"] for e in nodes} == {e["args"]["index"] for e in runs}


def test_nodes_of_a_subgraph_lie_in_the_node_that_ran_it() -> None:
    text, _ = traced(DATA / "cpu_1.32.0_loop_subgraph.json")
    nodes = slices_of(text)["CPUExecutionProvider"]
    (loop,) = [event for event in nodes if event["args"]["op_type"] == "Loop"]
    inside = [e for e in nodes if loop["ts"] <= e["ts"] and e["ts"] + e["dur"] <= loop["ts"] + loop["dur"]]
    assert len(inside) == 10  # itself and three trips of three nodes


def test_replays_of_a_captured_graph_are_runs_that_say_so() -> None:
    text, summary = traced(DATA / "webgpu_1.27.0_graph_capture_replay.json")
    runs = [event for event in slices_of(text)["runs"] if "index" in event["args"]]
    assert ["note" in event["args"] for event in runs] == [False] + [True] * 5
    assert any("a captured graph was replayed" in note for note in summary.notes)
    assert json.loads(text)["otherData"]["notes"] == list(summary.notes)


@pytest.mark.parametrize(("warmup", "expected"), [(0, ["run 0", "run 1"]), (1, ["warm-up run 0", "run 1"])])
def test_warmup_runs_are_told_apart(made: Any, warmup: int, expected: list[str]) -> None:
    tracks = made(run(0, 10), run(20, 10), warmup_runs=warmup)
    assert names(tracks["runs"]) == expected
    assert [event["args"]["measured"] for event in tracks["runs"]] == [warmup == 0, True]


def attention(start: int, tokens: int) -> str:
    shapes = f',"input_type_shape" : [{{"float":[1,{tokens},64]}}]'
    return node("gqa", start, 5, "GroupQueryAttention", args=shapes)


def test_a_generator_has_prefill_and_decode_as_phases(made: Any) -> None:
    lines = []
    for index, tokens in enumerate((4, 1, 1, 7, 1)):
        lines += [attention(100 * index + 1, tokens), run(100 * index, 50)]
    phases = made(*lines)["phases"]
    assert [(e["name"], e["ts"], e["dur"], e["args"]["runs"]) for e in phases] == [
        ("prefill", 0, 50, 1), ("decode", 100, 150, 2), ("prefill", 300, 50, 1), ("decode", 400, 50, 1),
    ]  # fmt: skip


def test_a_model_that_keeps_no_cache_has_no_phases(made: Any) -> None:
    shapes = ',"input_type_shape" : [{"float":[1,128,64]}]'
    assert "phases" not in made(node("mha", 1, 5, "MultiHeadAttention", args=shapes), run(0, 50))


def test_a_child_that_seems_to_end_after_its_parent_is_cut_and_keeps_its_place(made: Any) -> None:
    """`ts` and `dur` are each cut to microseconds."""
    nodes = made(node("child", 12, 10), node("parent", 10, 11, "If"), run(0, 50))["CPUExecutionProvider"]
    assert [(e["name"], e["ts"], e["dur"]) for e in nodes] == [("parent", 10, 11), ("child", 12, 9)]


def test_of_two_that_begin_at_once_the_outer_one_comes_first(made: Any) -> None:
    nodes = made(node("child", 10, 5), node("parent", 10, 20, "If"), run(0, 50))["CPUExecutionProvider"]
    assert names(nodes) == ["parent", "child"]


def test_what_overlaps_in_part_stands_on_a_second_track(made: Any) -> None:
    tracks = made(node("a", 0, 10), node("b", 5, 10), node("c", 20, 5), run(0, 50))
    assert names(tracks["CPUExecutionProvider"]) == ["a", "c"]
    assert names(tracks["CPUExecutionProvider (2)"]) == ["b"]


def test_kernels_of_each_stream_have_a_track(made: Any) -> None:
    def kernel(stream: int, start: int) -> str:
        args = f'"op_name" : "Add","stream" : "{stream}"'
        return line("Kernel", f"kernel{start}", start, 10, -1, args)

    tracks = made(node("add", 1, 2), run(0, 50), kernel(7, 5), kernel(13, 8), kernel(7, 20))
    assert names(tracks["Kernel events, stream 7"]) == ["kernel5", "kernel20"]
    assert names(tracks["Kernel events, stream 13"]) == ["kernel8"]
    assert tracks["Kernel events, stream 7"][0]["args"] == {"op_type": "Add"}


HOSTILE = ["a\\nb", "\\u0007bell", "\\u202eright to left", "日本", "a" * 5000, 'q"uote', "tab\there", "", "\\ud800"]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:12]))
def test_a_hostile_name_is_written_out_on_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile(node(name, 1, 2, args=',"mem_in_use_peak" : "1"'), run(0, 50)), "utf-8")
    text, _ = traced(path)
    (shown,) = names(slices_of(text)["CPUExecutionProvider"])
    assert shown.isprintable()
    assert 0 < len(shown) < 400


def test_names_of_operators_and_providers_are_cleaned_too(made: Any) -> None:
    tracks = made(node("a", 1, 2, "Re\\u0007lu", "C\\nPU"), run(0, 50))
    assert tracks["C\\nPUExecutionProvider"][0]["args"]["op_type"] == "Re\\x07lu"


@pytest.mark.parametrize(
    ("start", "duration", "stays"),
    [(-1, 5, False), (0, -1, False), (0, 0, True), (2**53 - 5, 5, True), (2**53 - 5, 6, False), (2**62, 1, False)],
)
def test_times_that_no_clock_could_make_are_left_out_and_counted(
    tmp_path: Path, start: int, duration: int, stays: bool
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile(node("odd", start, duration), node("a", 1, 2), run(0, 50)), "utf-8")
    text, summary = traced(path)
    assert names(slices_of(text)["CPUExecutionProvider"]).count("odd") == stays
    assert ("1 event(s) with impossible times left out" in summary.notes) is not stays


def test_a_file_sorted_by_start_makes_the_same_trace(tmp_path: Path) -> None:
    source = DATA / "cpu_1.32.0_loop_subgraph.json"
    lines = [row.rstrip(",") for row in source.read_text("utf-8").splitlines()[1:-1]]
    path = tmp_path / "sorted.json"
    path.write_text(profile(*sorted(lines, key=lambda row: (json.loads(row)["ts"], -json.loads(row)["dur"]))), "utf-8")
    assert slices_of(traced(path)[0]) == slices_of(traced(source)[0])


def test_a_profile_without_events_is_a_trace_without_any(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("[\n]\n")
    text, summary = traced(path)
    assert slices_of(text) == {}
    assert summary.notes == ("the file holds no event",)


def test_what_the_runtime_dropped_is_marked(made: Any) -> None:
    mark = line("Session", "profile_truncated", 60, 0, args='"dropped_event_count" : "2002"')
    (event,) = made(node("a", 1, 2), run(0, 50), mark)["phases"]
    assert (event["name"], event["ts"], event["args"]) == ("profile truncated", 60, {"dropped_events": "2002"})


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('[{"ph": "X"}]')
    with pytest.raises(NotAProfile):
        traced(path)


def test_places_come_by_start_the_longer_first_whatever_the_order_of_the_file() -> None:
    rng = random.Random(3)
    for _ in range(200):
        count = rng.randrange(1, 30)
        starts, durations = ([rng.randrange(20) for _ in range(count)] for _ in range(2))
        places = list(in_order(starts, durations))
        assert sorted(places) == list(range(count))
        keys = [(starts[place], -durations[place]) for place in places]
        assert keys == sorted(keys)


@pytest.mark.parametrize(("end", "expected"), [(12, (0, 8)), (13, (1, 11))])
def test_two_microseconds_after_its_parent_is_a_cut_and_three_an_overlap(end: int, expected: tuple[int, int]) -> None:
    lanes = Lanes()
    assert lanes.place(0, 10) == (0, 10)
    assert lanes.place(2, end - 2) == expected
