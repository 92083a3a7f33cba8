import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_onnxperf.core.facts import facts_of
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_json import read_profile

DATA = Path(__file__).parents[1] / "data" / "profiles"
SHUFFLED = sorted(
    path.name for path in DATA.glob("*.json") if "sigkill" not in path.name and "nodename" not in path.name
)


def line(event: tuple[str, str, int, int, int]) -> str:
    category, name, thread_id, start, duration = event
    args = ""
    if category == "Node":
        name, op_type = (name, name.split("_")[0].capitalize())
        args = f'"op_name" : "{op_type}","provider" : "CPUExecutionProvider"'
        name += "_kernel_time"
    return (
        f'{{"cat" : "{category}","pid" :1,"tid" :{thread_id},"dur" :{duration},"ts" :{start},"ph" : "X",'
        f'"name" :"{name}","args" : {{{args}}}}}'
    )


def profile_of(
    tmp_path: Path, *events: tuple[str, str, int, int, int], windows: list[tuple[int, int]] | None = None
) -> Profile:
    path = tmp_path / "made.json"
    path.write_text("[\n" + ",\n".join(map(line, events)) + "\n]\n", encoding="utf-8")
    return read_profile(path, windows)


def node(name: str, start: int, duration: int, thread_id: int = 1) -> tuple[str, str, int, int, int]:
    return "Node", name, thread_id, start, duration


def run(start: int, duration: int, thread_id: int = 1) -> list[tuple[str, str, int, int, int]]:
    return [
        ("Session", "SequentialExecutor::Execute", thread_id, start, duration),
        ("Session", "model_run", thread_id, start, duration),
    ]


def nodes_by_run(profile: Profile) -> list[dict[str, int]]:
    return [{key.name: count for key, count in run.nodes.items()} for run in profile.runs]


def self_us(profile: Profile) -> dict[str, int]:
    return {key.name: total.self_ns // 1000 for key, total in profile.nodes.items()}


def test_a_node_belongs_to_the_run_that_contains_it(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("a", 1, 2), *run(0, 5), node("a", 11, 2), node("b", 14, 1), *run(10, 6))
    assert nodes_by_run(profile) == [{"a": 1}, {"a": 1, "b": 1}]
    assert [(run.start_ns, run.duration_ns) for run in profile.runs] == [(0, 5000), (10_000, 6000)]


def test_an_end_that_seems_2_us_late_is_within_the_run_and_3_us_is_not(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("a", 1, 6), *run(0, 5), node("a", 11, 7), *run(10, 5))
    assert nodes_by_run(profile) == [{"a": 1}, {}]
    assert profile.unattributed_nodes == 1


def test_threads_are_kept_apart(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("b", 2, 2, 7), node("a", 1, 2), *run(0, 6), *run(1, 6, 7))
    assert nodes_by_run(profile) == [{"a": 1}, {"b": 1}]
    assert not any(run.ambiguous for run in profile.runs)


def test_in_parallel_mode_nodes_of_workers_go_to_the_run_around_them(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path,
        node("a", 1, 2, 8),
        node("b", 1, 3, 9),
        *run(0, 5),
        node("a", 11, 2, 9),
        *run(10, 5),
        node("c", 20, 1, 9),
    )
    assert nodes_by_run(profile) == [{"a": 1, "b": 1}, {"a": 1}]
    assert profile.unattributed_nodes == 1


def test_runs_that_overlap_in_parallel_mode_are_ambiguous(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("a", 4, 1, 8), *run(0, 6), *run(3, 6, 2), node("a", 21, 1, 8), *run(20, 3))
    assert [run.ambiguous for run in profile.runs] == [True, True, False]
    assert any("overlapped in parallel mode" in note for note in profile.notes)
    assert "overlapped in parallel mode" in str(facts_of(profile).unavailable)


def test_a_worker_s_nodes_do_not_go_to_a_replay(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("a", 1, 2, 8), ("Session", "model_run", 1, 0, 5))
    assert nodes_by_run(profile) == [{}]
    assert profile.unattributed_nodes == 1
    assert profile.runs[0].is_replay


def test_a_run_that_executed_a_graph_without_nodes_is_no_replay(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, *run(0, 5))
    assert not profile.runs[0].is_replay
    assert facts_of(profile).unavailable is None


def test_self_time_of_a_parent_leaves_out_its_subgraph(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path,
        node("a", 1, 2),
        node("x", 5, 3),
        node("y", 9, 4),
        node("if", 8, 6),
        node("x", 14, 2),
        node("loop", 4, 14),
        node("b", 19, 1),
        *run(0, 21),
    )
    assert self_us(profile) == {"a": 2, "x": 5, "y": 4, "if": 2, "loop": 3, "b": 1}
    assert sum(self_us(profile).values()) == 17
    assert {key.name: total.duration_ns for key, total in profile.nodes.items()}["loop"] == 14_000


def test_a_parent_with_the_interval_of_its_child_is_the_parent(tmp_path: Path) -> None:
    assert self_us(profile_of(tmp_path, node("x", 1, 3), node("if", 1, 3), *run(0, 5))) == {"x": 3, "if": 0}
    assert self_us(profile_of(tmp_path, node("if", 1, 3), node("x", 1, 3), *run(0, 5))) == {"x": 3, "if": 0}


def test_the_time_of_a_loop_and_its_body_adds_up_in_a_recorded_profile() -> None:
    profile = read_profile(DATA / "cpu_1.32.0_loop_subgraph.json")
    loop = next(total for key, total in profile.nodes.items() if key.op_type == "Loop")
    body = sum(total.duration_ns for key, total in profile.nodes.items() if key.name.startswith("loop_"))
    assert loop.self_ns == loop.duration_ns - body
    assert loop.self_ns > 0


@pytest.mark.parametrize("name", SHUFFLED)
def test_a_shuffled_profile_says_the_same(tmp_path: Path, name: str) -> None:
    lines = [text.rstrip(",\n") for text in (DATA / name).read_text(encoding="utf-8").splitlines()[1:-1]]
    random.Random(name).shuffle(lines)
    path = tmp_path / "shuffled.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    shuffled, original = read_profile(path), read_profile(DATA / name)
    assert shuffled.runs == original.runs
    assert shuffled.nodes == original.nodes
    assert shuffled.all_nodes == original.all_nodes
    assert shuffled.unattributed_nodes == original.unattributed_nodes


@st.composite
def runs_with_nodes(draw: st.DrawFn) -> list[tuple[str, str, int, int, int]]:
    """Runs on two threads, in the order of ends, with loops, and nodes outside any run."""
    events = []
    for thread_id in (1, 2):
        clock = 0
        for _ in range(draw(st.integers(0, 4))):
            begin, inner = clock, []
            for name in draw(st.lists(st.sampled_from(["a", "b", "loop"]), max_size=5)):
                start = clock = clock + draw(st.integers(0, 3)) + 1
                for _ in range(draw(st.integers(0, 3)) if name == "loop" else 0):
                    inner.append(node("x", clock, 2, thread_id))
                    clock += 3
                clock += draw(st.integers(1, 4))
                inner.append(node(name, start, clock - start, thread_id))
            events += inner
            if draw(st.booleans()):
                events += run(begin, clock - begin + 1, thread_id)
            clock += 10
    return sorted(events, key=lambda event: event[3] + event[4])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(events=runs_with_nodes(), seed=st.integers(0, 100))
def test_the_order_of_the_file_does_not_matter(
    tmp_path: Path, events: list[tuple[str, str, int, int, int]], seed: int
) -> None:
    ordered = profile_of(tmp_path, *events)
    random.Random(seed).shuffle(events)
    shuffled = profile_of(tmp_path, *events)
    assert shuffled.runs == ordered.runs
    assert shuffled.all_nodes == ordered.all_nodes
    assert facts_of(shuffled).op_table == facts_of(ordered).op_table


def test_only_runs_inside_a_window_are_measured(tmp_path: Path) -> None:
    events = [event for begin in (0, 100, 200) for event in (node("a", begin + 1, 2), *run(begin, 50))]
    profile = profile_of(tmp_path, *events, windows=[(101_900, 148_100), (199_000, 260_000)])
    assert [run.measured for run in profile.runs] == [False, True, True]
    assert next(iter(profile.nodes.values())).executions == 2
    assert next(iter(profile.all_nodes.values())).executions == 3


def test_a_run_that_starts_more_than_2_us_before_its_window_is_not_measured(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("a", 101, 2), *run(100, 50), windows=[(102_001, 160_000)])
    assert [run.measured for run in profile.runs] == [False]
    assert profile.windows_without_run == 1
    assert facts_of(profile).unavailable == "1 measured run(s) are not in the profile"
