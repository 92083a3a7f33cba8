"""What changed in the op tables since the baseline: moved, new and lost op types, and the ops that carry lost time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .baseline import op_times
from .units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .baseline import Entry
    from .facts import Facts
    from .record import Record

RUN: Final = "run"
# Shares below 1 % are not stored, so that a change of less than this part of a run can be no change at all.
_LEAST_RATIO: Final = 0.02


@dataclass(frozen=True, slots=True)
class MovedOps:
    """Executions of one operator that another execution provider runs now."""

    op_type: str
    executions: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class OpTime:
    """The self time of one op type on one execution provider in a profiled run."""

    op: str
    """`<provider>:<op type>`."""
    old_ms: float
    new_ms: float

    @property
    def lost_ms(self) -> float:
        """How much longer it takes; negative where it is faster."""
        return self.new_ms - self.old_ms


@dataclass(frozen=True, slots=True)
class OpChanges:
    """One phase."""

    phase: str
    """`run` for a session."""
    moved: tuple[MovedOps, ...]
    gained: tuple[tuple[str, int], ...]
    """Op types that did not run, with their executions a run."""
    lost: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, int, int], ...]
    """Op types that run more or less often, what moved left out, with their executions before and now."""
    times: tuple[OpTime, ...]
    """Those that changed, most time lost first; none where the baseline holds no times."""
    old_ms: float | None
    """Node time of a profiled run."""
    new_ms: float | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        is_slower = any(time.lost_ms > 0 for time in self.times)
        return not (self.moved or self.gained or self.lost or self.counts or is_slower)


def op_changes(record: Record, entry: Entry) -> tuple[OpChanges, ...]:
    """Compare the op tables of a record with those of its baseline, phase by phase."""
    _, node_ms = op_times(record)
    found = {RUN: record.facts} if not record.phases else record.phases
    stored = {RUN: entry.facts} if not record.phases else entry.phases
    changes = []
    for phase, facts in found.items():
        counts = stored.get(phase, {}).get("ops")
        if facts is None or facts.unavailable or not isinstance(counts, dict):
            continue  # what was not recorded is not new
        moved, gained, lost, changed = _counted(counts, facts)
        old_ms, new_ms = entry.node_ms.get(phase), node_ms.get(phase)
        times: tuple[OpTime, ...] = ()
        if old_ms is not None and new_ms is not None:
            times = tuple(_times(entry.op_shares.get(phase, {}), old_ms, facts))
        changes.append(OpChanges(phase, moved, gained, lost, changed, times, old_ms, new_ms))
    return tuple(each for each in changes if not each.is_empty)


def _counted(
    old: Mapping[str, int], facts: Facts
) -> tuple[
    tuple[MovedOps, ...], tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], tuple[tuple[str, int, int], ...]
]:
    """Pair what one provider lost with what another gained of the same operator; the rest is new, lost or changed."""
    fewer = {op: count - facts.ops.get(op, 0) for op, count in old.items() if count > facts.ops.get(op, 0)}
    more = {op: count - old.get(op, 0) for op, count in facts.ops.items() if count > old.get(op, 0)}
    moved = []
    for lost_op in list(fewer):
        before, _, op_type = lost_op.partition(":")
        for gained_op in list(more):
            after, _, gained_type = gained_op.partition(":")
            count = min(fewer[lost_op], more[gained_op])
            if gained_type == op_type and count:
                moved.append(MovedOps(op_type, count, before, after))
                fewer[lost_op] -= count
                more[gained_op] -= count
    gained = tuple((op, count) for op, count in more.items() if count and op not in old)
    lost = tuple((op, count) for op, count in fewer.items() if count and op not in facts.ops)
    changed = [(op, old[op], facts.ops[op]) for op, count in {**fewer, **more}.items()
               if count and op in old and op in facts.ops]  # fmt: skip
    changed.sort(key=lambda each: (-abs(each[2] - each[1]), each[0]))
    return tuple(sorted(moved, key=lambda each: -each.executions)), _most(gained), _most(lost), tuple(changed)


def _most(counts: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts, key=lambda item: (-item[1], item[0])))


def _times(old_shares: Mapping[str, float], old_ms: float, facts: Facts) -> Iterator[OpTime]:
    """Yield the op types whose time changed by more than what the baseline leaves out, 1 % of a run."""
    new = {
        f"{row.execution_provider}:{row.op_type}": row.self_per_run_ns / NS_PER_MS for row in facts.op_table
    }  # fmt: skip
    times = [OpTime(op, old_shares.get(op, 0.0) * old_ms, new.get(op, 0.0)) for op in {**new, **old_shares}]
    for time in sorted(times, key=lambda each: -each.lost_ms):
        if abs(time.lost_ms) > _LEAST_RATIO * old_ms:
            yield time
