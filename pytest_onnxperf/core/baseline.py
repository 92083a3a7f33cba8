"""The baseline document: what one test module recorded in one environment, and its text, which git merges well.

One JSON object per file, entries keyed by test name and parameter id, keys sorted, one statistic a line, at most four
significant digits. An array of entries would merge into a valid file with the wrong content; an object cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from .metrics import METRIC, METRICS
from .paired import TESTED, Paired, ReferenceSpec
from .units import NS_PER_MS, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import Facts as RunFacts
    from .record import Record

SCHEMA: Final = 1

# Facts of which fewer are better. Everything else that differs has no better side, but for a fused op that is lost.
FEWER_IS_BETTER: Final = ("memcpy", "cpu_nodes")

_LEAST_SHARE: Final = 0.01

_Count = Annotated[int, Meta(ge=0)]
Facts = dict[str, _Count | dict[str, _Count]]


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
    paired: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Metric -> `tested`, and each kind of reference workload -> its time in each process, in ns (`Paired`)."""
    references: dict[str, dict[str, ReferenceSpec]] = field(default_factory=dict)
    """Metric -> kind -> the reference workload that stood beside it."""
    detectable: dict[str, float] = field(default_factory=dict)
    """Stored metric name -> the smallest slowdown that the entry can see, as a ratio: 1.03 for 3 %."""
    options: dict[str, str] = field(default_factory=dict)
    """What was set that changes what runs."""
    workload: dict[str, str] = field(default_factory=dict)
    """What the times are of: `inputs` (`batch=8`), `tokens`, `concurrency`, `threads`."""
    op_shares: dict[str, dict[str, float]] = field(default_factory=dict)
    """Phase (`run` for a session) -> `<provider>:<op type>` -> its share of the node time of a profiled run, 0 to 1."""
    node_ms: dict[str, float] = field(default_factory=dict)
    """Phase -> that node time, in ms. Profiling costs time itself: it explains, and is never judged."""
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
    is_timed = any(METRIC[name].is_timed for name in record.metrics)
    counted: Facts = {name: facts[name] for name in FEWER_IS_BETTER if name in facts}
    anchor = Anchor(date, counted, {name: significant(median(values)) for name, values in metrics.items()})
    shares, node_ms = op_times(record) if with_times and is_timed else ({}, {})
    return Entry(
        date=date,
        anchor=anchor,
        commit=commit,
        versions=dict(record.environment.versions),
        facts=facts,
        phases=phases,
        metrics=metrics,
        paired={name: stored_pairs(pairs) for name, pairs in record.paired.items()} if with_times else {},
        references={name: dict(pairs[0].specs) for name, pairs in record.paired.items()} if with_times else {},
        options=dict(record.options),
        workload=dict(record.workload) if with_times else {},
        op_shares=shares,
        node_ms=node_ms,
    )


def stored_pairs(pairs: Sequence[Paired]) -> dict[str, list[float]]:
    """Return `tested` and each kind of reference -> one value per process, in ns."""
    columns = {TESTED: [significant(each.tested_ns) for each in pairs]}
    for kind in pairs[0].specs:
        columns[kind] = [significant(each.references_ns[kind]) for each in pairs]
    return columns


def op_times(record: Record) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return the shares of the op types in each phase, those of at least 1 % (a choice), and the node time in ms."""
    tables = {"run": record.facts} if not record.phases else record.phases
    shares: dict[str, dict[str, float]] = {}
    node_ms: dict[str, float] = {}
    for phase, facts in tables.items():
        if facts is None or facts.unavailable or not facts.op_table:
            continue
        node_ms[phase] = significant(sum(row.self_per_run_ns for row in facts.op_table) / NS_PER_MS)
        shares[phase] = {
            f"{row.execution_provider}:{row.op_type}": round(row.self_share_ratio, 3)
            for row in facts.op_table
            if row.self_share_ratio >= _LEAST_SHARE
        }
    return shares, node_ms


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
    if found.attention and all(use.kernels for use in found.attention):
        facts["attention"] = dict(Counter("+".join(use.kernels) for use in found.attention))
    return facts


def without_times(entry: Entry) -> Entry:
    """Return an entry with its facts and the size of the model alone."""
    timed = {metric.stored_name for metric in METRICS if metric.is_timed}
    metrics = {name: values for name, values in entry.metrics.items() if name not in timed}
    return replace(entry, metrics=metrics, paired={}, references={}, detectable={}, op_shares={}, node_ms={})


def stored_processes(entry: Entry, metric_name: str) -> list[Paired]:
    """Return the processes of an entry that were timed beside a reference workload."""
    columns = entry.paired.get(metric_name, {})
    tested, specs = columns.get(TESTED, []), entry.references.get(metric_name, {})
    kinds = [kind for kind in columns if kind != TESTED and len(columns[kind]) == len(tested)]
    return [Paired(time, {kind: columns[kind][i] for kind in kinds}, 0.0, specs) for i, time in enumerate(tested)]
