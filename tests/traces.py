"""What the Trace Event Format asks of a file, and made profiles that make it hard to keep to."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

Event = dict[str, Any]


def slices_of(text: str) -> dict[str, list[Event]]:
    """Check a trace against the rules of the format and return its slices by the name of their track.

    Every event has `ph`, `ts`, `pid` and `tid`; metadata names each process and each track once; a complete event has a
    duration of 0 or more; and those of one track nest: they come by start, the outer one first, and none ends after the
    one that holds it.
    """
    events = json.loads(text)["traceEvents"]
    names: dict[tuple[int, int], str] = {}
    processes: dict[int, str] = {}
    found: dict[str, list[Event]] = {}
    open_ends: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        assert {"ph", "ts", "pid", "tid", "name", "args"} <= set(event)
        track = event["pid"], event["tid"]
        assert all(type(number) is int and number > 0 for number in track)
        if event["ph"] == "M":
            _name(event, track, names, processes)
            continue
        assert event["ph"] == "X"
        assert track in names, "a slice on a track without a name"
        assert event["name"].isprintable()
        assert event["name"]
        assert type(event["ts"]) is int
        assert type(event["dur"]) is int
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        _nest(event, open_ends[track])
        found.setdefault(names[track], []).append(event)
    assert len(set(names.values())) == len(names), "two tracks of one name"
    assert {pid for pid, _ in names} == set(processes)
    return found


def _name(event: Event, track: tuple[int, int], names: dict[tuple[int, int], str], processes: dict[int, str]) -> None:
    assert event["name"] in {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}
    if event["name"] == "thread_name":
        assert track not in names
        names[track] = event["args"]["name"]
    if event["name"] == "process_name":
        assert track[0] not in processes
        processes[track[0]] = event["args"]["name"]


def _nest(event: Event, ends: list[tuple[int, int]]) -> None:
    start, end = event["ts"], event["ts"] + event["dur"]
    if ends:
        assert start >= ends[-1][0], "not by start"
    last = None
    while ends and ends[-1][1] <= start:
        last = ends.pop()
    if last is not None and last[0] == start:
        assert last[1] == start, "of two that begin at once the outer one comes first"
    assert not ends or end <= ends[-1][1], "it overlaps the one before it"
    ends.append((start, end))


def line(cat: str, name: str, start: int, duration: int, thread: int = 7, args: str = "") -> str:
    """Return an event as the runtime writes it; `name` as it stands in the file."""
    return (
        f'{{"cat" : "{cat}","pid" :5,"tid" :{thread},"dur" :{duration},"ts" :{start},"ph" : "X",'
        f'"name" :"{name}","args" : {{{args}}}}}'
    )


def node(name: str, start: int, duration: int, op_type: str = "Relu", ep: str = "CPU", **more: Any) -> str:
    """Return the event of a node."""
    args = f'"op_name" : "{op_type}","provider" : "{ep}ExecutionProvider"{more.pop("args", "")}'
    return line("Node", f"{name}_kernel_time", start, duration, args=args, **more)


def run(start: int, duration: int, **more: Any) -> str:
    """Return the event of a run."""
    return line("Session", "model_run", start, duration, **more)


def profile(*lines: str) -> str:
    """Return a profile of these events."""
    return "[\n" + ",\n".join(lines) + "\n]\n"
