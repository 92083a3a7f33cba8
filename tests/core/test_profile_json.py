import contextlib
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_onnxperf.core import profile_build
from pytest_onnxperf.core.errors import NotAProfile, ProfileEmpty, ProfileError, ProfileMissing
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_json import read_profile

DATA = Path(__file__).parents[1] / "data" / "profiles"
BASE = DATA / "cpu_1.32.0_base_2runs.json"
IN_TMP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def table() -> list[list[str]]:
    lines = (DATA / "INDEX.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0].endswith(".json")]


def everything(profile: Profile) -> dict[str, object]:
    """All but the path, with mappings by value."""
    return {
        name: getattr(profile, name) for name in Profile.__dataclass_fields__ if name not in {"path", "unread", "notes"}
    }


def write(tmp_path: Path, content: bytes | str) -> Path:
    path = tmp_path / "profile.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0])
def test_every_recorded_profile_has_the_counts_of_its_index(row: list[str]) -> None:
    name, events, runs, nodes, to_host, from_host, providers = row
    profile = read_profile(DATA / name)
    ops: Counter[str] = Counter()
    by_provider: Counter[str] = Counter()
    for key, total in profile.all_nodes.items():
        ops[key.op_type] += total.executions
        by_provider[key.execution_provider] += total.executions
    assert profile.events == int(events)
    assert profile.events == sum(profile.categories.values())
    assert len(profile.runs) == int(runs)
    assert ops.total() == int(nodes)
    assert ops["MemcpyToHost"] == int(to_host)
    assert ops["MemcpyFromHost"] == int(from_host)
    assert dict(by_provider) == {p: int(n) for p, n in (item.split() for item in providers.split(",") if item)}
    assert profile.unread_lines == 0


def test_the_index_names_every_file() -> None:
    listed = {row[0] for row in table()}
    assert listed | {"cpu_1.31.1_sigkill_empty.json"} == {path.name for path in DATA.glob("*.json")}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("backslash", "a\\b"),
        ("bsn", "C:\\new\\tab"),
        ("ctrl", "a\x01b"),
        ("empty", "MatMul_0"),
        ("jsoninj", 'a","args":{},"x":"'),
        ("kt", "x_kernel_time"),
        ("newline", "a\nb"),
        ("quote", 'a"b'),
        ("tab", "a\tb"),
        ("trailbs", "abc\\"),
        ("utf8", "ä日本"),
    ],
)
def test_a_name_that_is_not_escaped_is_read_as_it_was_meant(kind: str, name: str) -> None:
    profile = read_profile(DATA / f"cpu_1.15.1_nodename-{kind}.json")
    assert [key.name for key in profile.nodes] == [name, "sm"]
    assert profile.repaired_lines == (0 if kind in {"empty", "kt", "utf8"} else 3)


def test_a_name_that_is_escaped_is_read_as_json(tmp_path: Path) -> None:
    text = BASE.read_text(encoding="utf-8").replace('"mm_kernel_time"', '"a\\"b\\\\c\\n_kernel_time"')
    profile = read_profile(write(tmp_path, text))
    assert {key.name for key in profile.nodes} == {'a"b\\c\n', "relu", "sm"}
    assert profile.repaired_lines == 0


def test_latin_1_bytes_in_a_name_are_read(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path, BASE.read_bytes().replace(b'"mm_k', b'"m\xe4_k')))
    assert {key.name for key in profile.nodes} == {"mä", "relu", "sm"}
    assert profile.repaired_lines == 2


def indented(text: str) -> str:
    return json.dumps(json.loads(text), indent=4)


def compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


def an_event_a_line_by_another_program(text: str) -> str:
    return "[" + ",\n".join(json.dumps(event) for event in json.loads(text)) + "]\n"


def wrapped(text: str) -> str:
    return json.dumps({"traceEvents": json.loads(text), "displayTimeUnit": "ms"})


def keys_sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, indent=1)


@pytest.mark.parametrize(
    "rewrite",
    [
        indented,
        compact,
        an_event_a_line_by_another_program,
        wrapped,
        keys_sorted,
        lambda text: indented(wrapped(text)),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\n  " + text.replace("[\n", "[\n\n", 1) + "\n\n",
        lambda text: text.rstrip("\n"),
    ],
    ids=["indented", "compact", "lines", "wrapped", "sorted", "wrapped-indented", "crlf", "bom", "blank", "no-newline"],
)
@pytest.mark.parametrize(
    "name", ["cpu_1.32.0_loop_subgraph.json", "webgpu_1.27.0_if.json", "02-olive-2019-mkldnn.json"]
)
def test_a_rewritten_profile_says_the_same(tmp_path: Path, rewrite: Callable[[str], str], name: str) -> None:
    original = read_profile(DATA / name)
    rewritten = read_profile(write(tmp_path, rewrite((DATA / name).read_text(encoding="utf-8"))))
    assert everything(rewritten) == everything(original)


@pytest.mark.parametrize(("name", "events"), [("mm_kernel_time", 2), ("model_run", 2)])
def test_durations_below_zero_are_named(tmp_path: Path, name: str, events: int) -> None:
    written = [json.loads(line.rstrip(",")) for line in BASE.read_text("utf-8").splitlines() if line.startswith("{")]
    for event in written:
        if event["name"] == name:
            event["dur"] = -event["dur"] - 1
    profile = read_profile(write(tmp_path, "[\n" + ",\n".join(map(json.dumps, written)) + "\n]\n"))
    assert f"{events} events with an end before the begin" in " ".join(profile.notes)
    assert "before the begin" not in " ".join(read_profile(BASE).notes)


def test_two_profiles_in_one_file_are_not_mixed(tmp_path: Path) -> None:
    longer, shorter = (DATA / "cpu_1.32.0_loop_subgraph.json").read_bytes(), BASE.read_bytes()
    profile = read_profile(write(tmp_path, shorter + longer[len(shorter) :]))
    assert len(profile.runs) == 2
    assert {key.name for key in profile.all_nodes} == {"mm", "relu", "sm"}
    assert profile.unread_lines == len(longer[len(shorter) :].splitlines())
    assert "two files in one" in profile.unread[0].reason
    assert profile.unread[0].line == 15
    assert any("could not be read" in note for note in profile.notes)


def test_a_line_that_is_damaged_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = BASE.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[4] = lines[4][:150] + "\n"
    profile = read_profile(write(tmp_path, "".join(lines)))
    assert (profile.events, profile.unread_lines) == (11, 1)
    assert profile.unread[0].line == 5
    assert profile.unread[0].text.startswith('{"cat" : "Node"')


def test_an_event_cut_by_a_file_of_one_line_is_counted(tmp_path: Path) -> None:
    text = compact(BASE.read_text(encoding="utf-8"))
    profile = read_profile(write(tmp_path, text[: text.rindex('"cat"') + 30]))
    assert (profile.events, profile.unread_lines, profile.truncated) == (11, 1, True)


def test_a_file_without_its_end_is_truncated_and_a_group_without_its_run_is_set_aside(tmp_path: Path) -> None:
    lines = BASE.read_text(encoding="utf-8").splitlines(keepends=True)
    profile = read_profile(write(tmp_path, "".join(lines[:10])))
    assert (profile.events, len(profile.runs), profile.unattributed_nodes) == (9, 1, 2)
    assert profile.truncated
    assert sum(total.executions for total in profile.nodes.values()) == 3
    assert sum(total.executions for total in profile.all_nodes.values()) == 5


def test_the_mark_of_truncation_says_how_many_events_are_lost() -> None:
    profile = read_profile(DATA / "cpu_1.31.1_cap_TRIMMED_first20_last10_lines.json")
    assert profile.truncated
    assert profile.dropped_events == 2002
    assert "the runtime reached its limit of 1,000,000 events and dropped 2,002 events" in profile.notes


def test_as_many_events_as_the_runtime_keeps_are_taken_for_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_build, "MOST_EVENTS", 12)
    assert read_profile(BASE).truncated
    monkeypatch.setattr(profile_build, "MOST_EVENTS", 13)
    assert not read_profile(BASE).truncated


def test_api_events_keep_their_own_clock() -> None:
    profile = read_profile(DATA / "webgpu_1.27.0_graph_capture_replay.json")
    assert {name: total.events for name, total in profile.api_events.items()} == {
        "mm&MatMul&MatMul": 6,
        "relu&Relu&Relu": 6,
        "sm&Softmax&Softmax": 6,
    }
    assert [run.is_replay for run in profile.runs] == [False, True, True, True, True, True]
    assert "MatMul&MatMul" not in " ".join(key.name for key in profile.all_nodes)


def test_kernel_events_are_summed_by_name_and_are_no_nodes(tmp_path: Path) -> None:
    kernel = (
        '{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :4,"ts" :7,"ph" : "X","name" :"BinaryElementWise",'
        '"args" : {"op_name" : "Add","stream" : "13"}},\n'
    )
    text = BASE.read_text(encoding="utf-8").replace("[\n", "[\n" + kernel + kernel, 1)
    profile = read_profile(write(tmp_path, text))
    assert profile.kernel_events["BinaryElementWise"].events == 2
    assert profile.kernel_events["BinaryElementWise"].duration_ns == 8000
    assert profile.nodes == read_profile(BASE).nodes


def test_a_file_of_0_bytes_says_why_it_is_empty() -> None:
    with pytest.raises(ProfileEmpty, match=r"(?s)0 bytes.*end_profiling"):
        read_profile(DATA / "cpu_1.31.1_sigkill_empty.json")


@pytest.mark.parametrize("name", ["no such file.json", "", "nul\0byte.json"])
def test_a_file_that_is_not_there_is_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProfileMissing):
        read_profile(f"{tmp_path}/{name}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "[]")
    path.chmod(0)
    with pytest.raises(ProfileMissing, match="Permission denied"):
        read_profile(path)


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01\x01\0\0\0",
        gzip.compress(b"[\n]\n", mtime=0),
        b"hello\n",
        b"[1, 2, 3]",
        b'{"a": 1}',
        b'[{"a": 1}]',
        b'[{"cat": "cpu_op", "name": "aten::mm", "ph": "X", "ts": 1.5, "dur": 2}]',
        b"[",
        b" \n",
        b"[" * 100_000,
        b'[{"cat": ' * 10_000,
        b'[{"cat": "Node", "name": "x", "ts": 1e999, "dur": 1}]',
        '[\n{"cat" : "Nod'.encode("utf-16"),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NotAProfile, match="not an ONNX Runtime profile"):
        read_profile(write(tmp_path, content))


@pytest.mark.parametrize("name", ["first-attempt_orphan_118B", "second-attempt_cpu"])
def test_an_orphan_is_readable_and_says_why_it_has_no_run(name: str) -> None:
    profile = read_profile(DATA / f"cuda-fallback_{name}.json")
    assert not profile.runs
    assert any("no run is in the file" in note for note in profile.notes)


def test_an_empty_array_is_a_profile_without_events(tmp_path: Path) -> None:
    assert read_profile(write(tmp_path, "[\n]\n")).events == 0


def many_runs(runs: int, *, later: str = "") -> str:
    """A profile long enough for the short cut that trusts names; `later` are lines after the first half."""
    args = (
        '"args" : {{"op_name" : "{op}","provider" : "CPUExecutionProvider","input_type_shape" : [{{"int64":[{size}]}}],'
        '"output_type_shape" : [{{"int64":[{size}]}}]}}}},\n'
    )
    head = '{{"cat" : "{cat}","pid" :1,"tid" :1,"dur" :{dur},"ts" :{ts},"ph" : "X","name" :"{name}",'
    lines = []
    for run in range(runs):
        begin = 1000 * run
        for index, name in enumerate(("a", "b")):
            line = head.format(cat="Node", dur=5, ts=begin + 10 * index, name=f"{name}_kernel_time")
            lines.append(line + args.format(op="Add", size=4))
        if run == runs // 2:
            lines.append(later)
        for name in ("SequentialExecutor::Execute", "model_run"):
            lines.append(head.format(cat="Session", dur=30, ts=begin, name=name) + '"args" : {}},\n')
    return "[\n" + "".join(lines)[:-2] + "\n]\n"


def test_a_long_file_is_read_like_a_short_one(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path, many_runs(2000)))
    assert len(profile.runs) == 2000
    assert len({id(run.nodes) for run in profile.runs}) == 1
    assert {key.name: total.executions for key, total in profile.nodes.items()} == {"a": 2000, "b": 2000}
    assert profile.op_time_us == {"Add": 20_000}
    assert not profile.notes


def test_a_name_that_comes_again_with_another_operator_in_a_subgraph_is_another_node(tmp_path: Path) -> None:
    text = (DATA / "cpu_1.32.0_loop_subgraph.json").read_text(encoding="utf-8")
    text = text.replace('"loop_mm_kernel_time"', '"loop_id_kernel_time"')
    profile = read_profile(write(tmp_path, text))
    assert {key.op_type: total.executions for key, total in profile.nodes.items() if key.name == "loop_id"} == {
        "Identity": 3,
        "MatMul": 3,
    }


def test_a_damaged_line_in_a_long_file_is_found_by_its_number(tmp_path: Path) -> None:
    lines = many_runs(2000).splitlines(keepends=True)
    lines[5000] = "garbage,\n"
    profile = read_profile(write(tmp_path, "".join(lines)))
    assert profile.unread_lines == 1
    assert profile.unread[0].line == 5001
    assert profile.events == 7999


def test_only_integer_tensors_of_at_most_100_elements_are_small(tmp_path: Path) -> None:
    for shape, is_small in (("100", True), ("101", False), ("10,10", True), ("", True), ("2,51", False)):
        text = many_runs(1).replace('"int64":[4]', f'"int64":[{shape}]')
        profile = read_profile(write(tmp_path, text))
        assert {total.integer_only_small for total in profile.nodes.values()} == {is_small}


def test_a_tensor_of_floats_later_in_the_file_is_seen(tmp_path: Path) -> None:
    lines = many_runs(3).splitlines(keepends=True)
    lines[9] = lines[9].replace("int64", "float")
    profile = read_profile(write(tmp_path, "".join(lines)))
    assert {key.name: total.integer_only_small for key, total in profile.nodes.items()} == {"a": False, "b": True}


@IN_TMP
@given(content=st.binary(max_size=300), starts_well=st.sampled_from([b"", b"[\n", b"[", b'[\n{"cat" : "Node",']))
def test_arbitrary_bytes_raise_nothing_but_a_profile_error(tmp_path: Path, content: bytes, starts_well: bytes) -> None:
    with contextlib.suppress(ProfileError):
        read_profile(write(tmp_path, starts_well + content))


@IN_TMP
@given(data=st.data())
def test_a_profile_with_bytes_changed_raises_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(BASE.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        profile = read_profile(write(tmp_path, bytes(content)))
    except ProfileError:
        return
    assert profile.events == sum(profile.categories.values())
    assert profile.events + profile.unread_lines <= 16


def test_an_event_cut_at_the_end_of_an_inner_object_is_no_event(tmp_path: Path) -> None:
    content = (DATA / "cpu_1.15.1_nodename-newline.json").read_bytes()
    end = content.index(b"}}", content.index(b"sm_kernel_time")) + 2

    profile = read_profile(write(tmp_path, content[:end]))

    assert profile.truncated
    assert [key.op_type for key in profile.all_nodes] == ["MatMul"], "the node before it"


@pytest.mark.parametrize("name", [BASE.name, "cpu_1.15.1_nodename-newline.json"])
def test_a_profile_that_is_cut_behind_an_array_of_an_event_is_cut(tmp_path: Path, name: str) -> None:
    content = (DATA / name).read_bytes()
    lengths = [at + 2 for at in range(len(content) - 3) if content[at : at + 2] == b"}]"]

    assert lengths
    assert all(read_profile(write(tmp_path, content[:length])).truncated for length in lengths)


@IN_TMP
@given(data=st.data())
def test_a_prefix_yields_no_more_than_the_whole(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([BASE.name, "webgpu_1.27.0_if.json", "cpu_1.15.1_nodename-newline.json"]))
    content = (DATA / name).read_bytes()
    whole = read_profile(DATA / name)
    length = data.draw(st.integers(0, len(content) - 3))
    try:
        profile = read_profile(write(tmp_path, content[:length]))
    except ProfileError:
        return
    assert profile.truncated
    assert profile.events <= whole.events
    assert len(profile.runs) <= len(whole.runs)
    assert all(total.executions <= whole.all_nodes[key].executions for key, total in profile.all_nodes.items())


@IN_TMP
@given(bad=st.sets(st.integers(1, 12)))
def test_events_are_read_or_counted_as_unread(tmp_path: Path, bad: set[int]) -> None:
    lines = BASE.read_bytes().splitlines(keepends=True)
    for number in bad:
        lines[number] = b"{bad},\n"
    try:
        profile = read_profile(write(tmp_path, b"".join(lines)))
    except NotAProfile:
        assert len(bad) == 12
        return
    assert (profile.events, profile.unread_lines) == (12 - len(bad), len(bad))


def test_messages_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "hello")
    with pytest.raises(NotAProfile, match=re.escape(str(path))):
        read_profile(path)
