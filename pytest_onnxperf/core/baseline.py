"""The baseline document: what one test module recorded in one environment, and its text, which git merges well.

One JSON object per file, entries keyed by test name and parameter id, keys sorted, one statistic a line, at most four
significant digits. An array of entries would merge into a valid file with the wrong content; an object cannot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .errors import BaselineError
from .metrics import METRIC, STORED_METRIC
from .units import significant

if TYPE_CHECKING:
    from .facts import Facts as RunFacts
    from .record import Record

SCHEMA: Final = 1

# Facts of which fewer are better. Everything else that differs has no better side, but for a fused op that is lost.
FEWER_IS_BETTER: Final = ("memcpy", "cpu_nodes")

Facts = dict[str, int | dict[str, int]]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The first values that were recorded, kept across updates, so that slow creep stays visible."""

    date: str
    facts: Facts = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """Stored metric name -> median over the processes, in the unit of the name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What was recorded for one test and label."""

    date: str
    """ISO date on which the entry last changed."""
    anchor: Anchor
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    """Of a session's run; a generator has phases instead."""
    phases: dict[str, Facts] = field(default_factory=dict)
    """For a generator: `prefill` and `decode`, each with facts of its own."""
    metrics: dict[str, list[float]] = field(default_factory=dict)
    """Stored metric name (`latency_p50_ms`) -> one value per process, in the unit of the name."""
    note: str = ""
    """Free text of a person; updates keep it."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One file: the entries of one test module in one environment."""

    device: str
    execution_provider: str
    tests: Mapping[str, Entry] = field(default_factory=dict)


def entry_of(record: Record, date: str, commit: str, with_times: bool = True) -> Entry:
    """Make a fresh entry of a record, its own anchor; without times it holds facts and the size of the model."""
    facts = {} if record.phases else stored_facts(record.facts)
    phases = {name: stored for name, each in record.phases.items() if (stored := stored_facts(each))}
    metrics: dict[str, list[float]] = {}
    for name, values in record.metrics.items():
        metric = METRIC[name]
        if metric.gated and (with_times or not metric.is_timed):
            metrics[metric.stored_name] = [significant(value / metric.per_unit) for value in values]
    counted: Facts = {name: facts[name] for name in FEWER_IS_BETTER if name in facts}
    anchor = Anchor(date, counted, {name: significant(median(values)) for name, values in metrics.items()})
    return Entry(date, anchor, commit, dict(record.environment.versions), facts, phases, metrics)


def stored_facts(found: RunFacts | None) -> Facts:
    """Return facts as they are stored: nothing where they cannot be told, none that is unstable."""
    if found is None or found.unavailable:
        return {}
    unstable = {difference.fact for difference in found.unstable}
    plain = ("memcpy", "memcpy_to_host", "memcpy_from_host", "nodes", "cpu_nodes")
    facts: Facts = {name: getattr(found, name) for name in plain if name not in unstable}
    for name in ("nodes_by_provider", "ops", "fused_ops"):
        counts: Mapping[str, int] = getattr(found, name)
        facts[name] = {key: count for key, count in counts.items() if f"{name}.{key}" not in unstable}
    return facts


def merged(old: Entry | None, new: Entry, *, replace_all: bool = False) -> Entry:
    """Return what an update makes of an entry: the old one where nothing changed, so that diffs stay small.

    A metric whose new median lies inside the interval of the old processes keeps its old values; a fact that the new
    record cannot tell keeps its own. The anchor and the note are the old ones; the anchor takes in what it never had.
    """
    if old is None:
        return new
    metrics = dict(old.metrics)
    for name, values in new.metrics.items():
        inside = name in metrics and min(metrics[name]) <= median(values) <= max(metrics[name])
        if replace_all or not inside:
            metrics[name] = values
    facts = {**old.facts, **new.facts}
    phases = {name: {**old.phases.get(name, {}), **new.phases.get(name, {})} for name in {**old.phases, **new.phases}}
    anchor = Anchor(old.anchor.date, old.anchor.facts or new.anchor.facts, new.anchor.metrics | old.anchor.metrics)
    result = replace(new, facts=facts, phases=phases, metrics=metrics, anchor=anchor, note=old.note)
    same = replace(result, date=old.date, commit=old.commit, versions=old.versions) == old
    return old if same and not replace_all else result


def changes(old: Entry | None, new: Entry) -> tuple[str, ...]:
    """Say what an update changed, `latency_p50_ms 1.2 -> 1.4`; empty where the entry stayed as it was."""
    if old is None:
        return ("new",)
    lines: list[str] = []
    for name in sorted(set(old.metrics) | set(new.metrics)):
        before, after = old.metrics.get(name, []), new.metrics.get(name, [])
        if before != after:
            lines.append(f"{name} {_median(before)} -> {_median(after)}")
    before_flat, after_flat = flat(old), flat(new)
    for name in sorted(set(before_flat) | set(after_flat)):
        if before_flat.get(name) != after_flat.get(name):
            lines.append(f"{name} {before_flat.get(name, 'none')} -> {after_flat.get(name, 'none')}")
    return tuple(lines)


def _median(values: list[float]) -> str:
    return str(significant(median(values))) if values else "none"


def flat(entry: Entry) -> dict[str, int]:
    """Flatten the facts of an entry to one level, `ops.CPUExecutionProvider:MatMul`, `decode.memcpy`."""
    parts = {"": entry.facts, **{f"{phase}.": facts for phase, facts in entry.phases.items()}}
    result: dict[str, int] = {}
    for prefix, facts in parts.items():
        for name, value in facts.items():
            if isinstance(value, dict):
                result |= {f"{prefix}{name}.{key}": count for key, count in value.items()}
            else:
                result[prefix + name] = value
    return result


def write_baseline(baseline: Baseline) -> str:
    """Return the text of a baseline's file."""
    document = {
        "schema": SCHEMA,
        "device": baseline.device,
        "execution_provider": baseline.execution_provider,
        "tests": {key: _plain(entry) for key, entry in baseline.tests.items()},
    }
    return _write(document, "") + "\n"


def _plain(entry: Entry) -> dict[str, Any]:
    plain = msgspec.to_builtins(entry)
    return {name: value for name, value in plain.items() if value not in ("", {}, [])}


def _write(value: Any, indent: str) -> str:
    """Write JSON with sorted keys, objects over several lines, and arrays on one."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    keys = sorted(value, key=lambda key: (key != "schema", key))
    rows = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_write(value[key], inner)}" for key in keys]
    return "{\n" + ",\n".join(rows) + "\n" + indent + "}"


def read_baseline(text: str, path: str) -> Baseline:
    """Read a baseline's file.

    Args:
        text: The content of the file.
        path: Where it came from, for the messages.

    Raises:
        BaselineError: It has conflict markers, is no JSON, names a test twice, is of a newer schema, or a field is
            missing or of the wrong type; the message names the file and, where there is one, the line.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<<", ">>>>>>>")):
            msg = f"{path}:{number}: an unresolved merge conflict, {line[:30]!r}: resolve it in git"
            raise BaselineError(msg)
    try:
        document = json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        msg = (
            f"{path}:{error.lineno}: not valid JSON: {error.msg}; restore the file from git, or delete it and record "
            f"with --onnxperf-update"
        )
        raise BaselineError(msg) from error
    except _Duplicate as error:
        place = _last_line_of(text, str(error))
        msg = f"{path}:{place}: the key {str(error)!r} stands twice, perhaps a wrong merge"
        raise BaselineError(msg) from None
    return _convert(document, text, path)


class _Duplicate(Exception):
    """A key stands twice in one object."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Duplicate(key)
        result[key] = value
    return result


def _last_line_of(text: str, key: str) -> int:
    needle = json.dumps(key, ensure_ascii=False) + ":"
    lines = [number for number, line in enumerate(text.splitlines(), 1) if needle in line]
    return lines[-1] if lines else 1


def _convert(document: Any, text: str, path: str) -> Baseline:
    if not isinstance(document, dict) or type(document.get("schema")) is not int:
        msg = f"{path}:1: not a baseline of pytest-onnxperf: there is no `schema` number in it"
        raise BaselineError(msg)
    if document["schema"] > SCHEMA:
        msg = (
            f"{path}:{_last_line_of(text, 'schema')}: schema {document['schema']} is newer than the {SCHEMA} that this "
            f"pytest-onnxperf understands: upgrade it (pip install -U pytest-onnxperf)"
        )
        raise BaselineError(msg)
    tests = document.get("tests", {})
    if not isinstance(tests, dict):
        msg = f"{path}:{_last_line_of(text, 'tests')}: `tests` must be an object"
        raise BaselineError(msg)
    entries = {key: _convert_entry(value, key, text, path) for key, value in tests.items()}
    head = {name: document.get(name) for name in ("device", "execution_provider")}
    for name, value in head.items():
        if not isinstance(value, str):
            msg = f"{path}:1: `{name}` must be a string, got {value!r}"
            raise BaselineError(msg)
    return Baseline(str(head["device"]), str(head["execution_provider"]), entries)


def _convert_entry(value: Any, key: str, text: str, path: str) -> Entry:
    where = f"{path}:{_last_line_of(text, key)}"
    try:
        entry = msgspec.convert(value, Entry)
    except msgspec.ValidationError as error:
        msg = f"{where}: entry {key!r}: {error}"
        raise BaselineError(msg) from error
    for name, values in entry.metrics.items():
        if name in STORED_METRIC and (not values or any(not 0 <= v < float("inf") for v in values)):
            msg = f"{where}: entry {key!r}: `{name}` must hold numbers >= 0, got {values}"
            raise BaselineError(msg)
    return entry
