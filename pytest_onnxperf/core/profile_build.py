"""Makes the `Profile` out of the collected events: microseconds to nanoseconds, and the notes a reader needs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_onnxperf.core.attribution import Attribution, FoundRun, Totals, attribute, is_in_window
from pytest_onnxperf.core.profile import DeviceTotal, NodeKey, NodeTotal, Profile, Run
from pytest_onnxperf.core.profile_events import Events

_NS_PER_US = 1000

MOST_EVENTS = 1_000_000
"""The runtime keeps no more events than this (Source: onnxruntime profiler.cc, `global_max_num_events_`)."""


def build_profile(path: str, events: Events, windows: Sequence[tuple[int, int]] | None, *, is_cut: bool) -> Profile:
    """Attribute the events and sum them up; `is_cut`: the file has no end."""
    found = attribute(events.lanes, events.keys, windows)
    on_host = events.categories["Session"] + events.categories["Node"]
    is_full = on_host >= MOST_EVENTS
    all_nodes = _totals(events, found.measured, found.warmup, found.outside)
    runs = _runs(found.runs, events.keys)
    return Profile(
        path=path,
        events=events.categories.total(),
        categories={cat: count for cat, count in events.categories.items() if count},
        runs=runs,
        nodes=_totals(events, found.measured),
        all_nodes=all_nodes,
        op_time_us=_op_times(all_nodes),
        api_events=_device_totals(events, "Api"),
        kernel_events=_device_totals(events, "Kernel"),
        unread_lines=events.unread_lines,
        unread=tuple(events.unread),
        repaired_lines=events.repaired_lines,
        truncated=is_cut or is_full or events.is_marked_truncated,
        dropped_events=events.dropped_events,
        unattributed_nodes=sum(found.outside.executions),
        windows_without_run=_windows_without_run(found, windows),
        notes=tuple(_notes(events, runs, found, is_cut=is_cut, is_full=is_full)),
    )


def _totals(events: Events, *parts: Totals) -> dict[NodeKey, NodeTotal]:
    totals = {}
    for index, (key, is_small) in enumerate(zip(events.keys, events.is_small, strict=True)):
        executions = sum(part.executions[index] for part in parts)
        if executions:
            duration_us = sum(part.duration_us[index] for part in parts)
            self_us = max(0, duration_us - sum(part.child_us[index] for part in parts))
            totals[key] = NodeTotal(executions, duration_us * _NS_PER_US, self_us * _NS_PER_US, is_small)
    return totals


def _runs(found: Sequence[FoundRun], keys: Sequence[NodeKey]) -> tuple[Run, ...]:
    mappings: dict[int, Mapping[NodeKey, int]] = {}
    runs = []
    for run in found:
        nodes = mappings.get(id(run.nodes)) if run.nodes else _NO_NODES
        if nodes is None:
            nodes = mappings[id(run.nodes)] = {keys[index]: count for index, count in sorted(run.nodes.items())}
        runs.append(
            Run(
                start_ns=run.start * _NS_PER_US,
                duration_ns=run.duration * _NS_PER_US,
                nodes=nodes,
                measured=run.is_measured,
                executed=run.executed,
                ambiguous=run.is_ambiguous,
                thread_id=run.thread_id,
            )
        )
    return tuple(runs)


_NO_NODES: Mapping[NodeKey, int] = {}


def _op_times(nodes: Mapping[NodeKey, NodeTotal]) -> dict[str, int]:
    times: Counter[str] = Counter()
    for key, total in nodes.items():
        times[key.op_type] += total.duration_ns // _NS_PER_US
    return dict(times)


def _device_totals(events: Events, category: str) -> dict[str, DeviceTotal]:
    return {name: DeviceTotal(count, us * _NS_PER_US) for name, (count, us) in events.device[category].items()}


def _windows_without_run(found: Attribution, windows: Sequence[tuple[int, int]] | None) -> int:
    return sum(not any(is_in_window(run.start, run.duration, window) for run in found.runs) for window in windows or ())


def _notes(events: Events, runs: Sequence[Run], found: Attribution, *, is_cut: bool, is_full: bool) -> Iterator[str]:
    if events.unread_lines:
        first = events.unread[0]
        lines = _number(events.unread_lines, "line")
        yield f"{lines} could not be read, the first is line {first.line}: {first.reason}"
    if events.repaired_lines:
        lines = _number(events.repaired_lines, "line")
        yield f"{lines} with a name that is not escaped {_was(events.repaired_lines)} repaired"
    if events.is_marked_truncated:
        dropped = "further events" if events.dropped_events is None else _number(events.dropped_events, "event")
        yield f"the runtime reached its limit of {MOST_EVENTS:,} events and dropped {dropped}"
    elif is_full:
        yield f"the file holds {MOST_EVENTS:,} events, the runtime's limit: later events are probably missing"
    elif is_cut:
        yield "the file is cut: its closing bracket is missing"
    if backward := _backward(events):
        yield (
            f"{_number(backward, 'event')} with an end before the begin, as where the clock is set back: do not trust "
            "the durations"
        )
    yield from _run_notes(events, runs, sum(found.outside.executions))


def _run_notes(events: Events, runs: Sequence[Run], outside: int) -> Iterator[str]:
    if not runs:
        yield _why_no_run(events)
    if runs and outside:
        yield f"{_number(outside, 'node execution')} outside any run {_was(outside)} set aside"
    if replays := sum(run.is_replay for run in runs):
        yield f"{_number(replays, 'run')} of {len(runs)} without node events: a captured graph was replayed"
    if ambiguous := sum(run.ambiguous for run in runs):
        yield f"{_number(ambiguous, 'run')} overlapped in parallel mode: which of them a node belongs to is not known"


def _backward(events: Events) -> int:
    """Count events with a negative duration: the runtime's `high_resolution_clock` is often the clock of the day."""
    lanes = events.lanes.values()
    columns = [lane.durations for lane in lanes] + [[duration for _, duration in lane.runs] for lane in lanes]
    return sum(sum(duration < 0 for duration in column) for column in columns if column and min(column) < 0)


def _why_no_run(events: Events) -> str:
    if not events.categories:
        return "the file holds no event"
    return (
        "no run is in the file: the session never ran, or its execution provider failed and another session took over "
        "(whose profile is another file)"
    )


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
