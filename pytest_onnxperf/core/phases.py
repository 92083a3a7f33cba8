"""Prefill and decode: a generator's runs by phase, and the facts of which every count is the worse of both."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .profile import NodeKey, NodeTotal, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .facts import Facts

PREFILL: Final = "prefill"
DECODE: Final = "decode"


def joined(profiles: Sequence[Profile]) -> Profile:
    """Join profiles of one step each into one, as if all had been runs of one session, in the given order.

    Times of the runs stay on the clock of their own file; counts and sums add up.
    """
    first = profiles[0]
    return replace(
        first,
        events=sum(profile.events for profile in profiles),
        runs=tuple(run for profile in profiles for run in profile.runs),
        nodes=summed([profile.nodes for profile in profiles]),
        all_nodes=summed([profile.all_nodes for profile in profiles]),
        categories=_counted([profile.categories for profile in profiles]),
        op_time_us=_counted([profile.op_time_us for profile in profiles]),
        unread_lines=sum(profile.unread_lines for profile in profiles),
        unread=tuple(line for profile in profiles for line in profile.unread),
        repaired_lines=sum(profile.repaired_lines for profile in profiles),
        truncated=any(profile.truncated for profile in profiles),
        unattributed_nodes=sum(profile.unattributed_nodes for profile in profiles),
        windows_without_run=sum(profile.windows_without_run for profile in profiles),
        notes=tuple(dict.fromkeys(note for profile in profiles for note in profile.notes)),
    )


def summed(parts: Sequence[Mapping[NodeKey, NodeTotal]]) -> dict[NodeKey, NodeTotal]:
    """Add up the executions and times of nodes that stand in several parts."""
    result: dict[NodeKey, NodeTotal] = {}
    for part in parts:
        for key, total in part.items():
            if (known := result.get(key)) is not None:
                total = NodeTotal(
                    known.executions + total.executions,
                    known.duration_ns + total.duration_ns,
                    known.self_ns + total.self_ns,
                    known.integer_only_small and total.integer_only_small,
                )
            result[key] = total
    return result


def _counted(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    result: Counter[str] = Counter()
    for part in parts:
        result.update(part)
    return dict(result)


def worse_of(phases: Mapping[str, Facts]) -> Facts:
    """Return facts of which each count is the larger of the phases, so that a plain budget judges the worse of them.

    What differs within a phase, or cannot be told of one, is so for the whole, with the name of the phase. The op table
    is that of the phase with more node time a run: a prefill, as a rule, unless there is none.
    """
    facts = list(phases.values())
    heaviest = max(facts, key=lambda each: sum(row.self_per_run_ns for row in each.op_table))
    reasons = [f"{name}: {each.unavailable}" for name, each in phases.items() if each.unavailable]
    return replace(
        heaviest,
        runs=sum(each.runs for each in facts),
        unavailable="; ".join(reasons) or None,
        unstable=tuple(difference for each in facts for difference in each.unstable),
        memcpy=max(each.memcpy for each in facts),
        memcpy_to_host=max(each.memcpy_to_host for each in facts),
        memcpy_from_host=max(each.memcpy_from_host for each in facts),
        nodes=max(each.nodes for each in facts),
        cpu_nodes=max(each.cpu_nodes for each in facts),
        nodes_by_provider=_largest([each.nodes_by_provider for each in facts]),
        ops=_largest([each.ops for each in facts]),
        fused_ops=_largest([each.fused_ops for each in facts]),
        memcpy_share=max(each.memcpy_share for each in facts),
        attention=tuple(use for each in facts for use in each.attention),
    )


def _largest(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {key: max(part.get(key, 0) for part in parts) for part in parts for key in part}
