"""What bounds each operator, arithmetic or memory, and how near it comes to the ceiling of its device.

A node needs at least the longer of FLOP / peak FLOP/s and bytes / peak bytes/s; the first is longer where its intensity
(FLOP / byte) is above peak FLOP/s / peak bytes/s. Source: Williams, Waterman, Patterson, "Roofline: An Insightful
Visual Performance Model for Multicore Architectures", CACM 52(4), 2009.

The memory is the device's main one: a node whose tensors are in a cache already can be above 100 %.

Only operators whose work is known (`work_of`) have a row: products, convolutions and attention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .ops import CONTROL_FLOW_OPS
from .providers import CPU
from .units import NS_PER_S
from .work import PRODUCTS, Work
from .work_attention import ATTENTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .profile_detail import NodeExecution

COMPUTE_BOUND, MEMORY_BOUND = "compute", "memory"
_COUNTS: Final = {**PRODUCTS, **ATTENTION}


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most that a device can do."""

    device: str
    flop_per_s: Mapping[str, float]
    """By element type of the profile, `float`, `float16`, `bfloat16`, `int8`: FLOP/s (for `int8` operations/s), > 0."""
    bytes_per_s: float
    """Of the device's memory, > 0."""
    source: str
    """Where the values come from, as a phrase."""
    execution_provider: str | None = None
    """The only one whose nodes they are held against; None: every one but the CPU, as for a GPU from its datasheet."""

    def holds_for(self, execution_provider: str) -> bool:
        """Return whether nodes of an execution provider run on the device that these are the ceilings of."""
        if self.execution_provider is None:
            return execution_provider != CPU
        return execution_provider == self.execution_provider


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """All executions of one operator on one execution provider; what is per run is a mean over the measured runs."""

    op_type: str
    execution_provider: str
    executions_per_run: float
    unknown_per_run: float
    """Executions whose shapes do not tell their work; FLOP and bytes are without them."""
    flop_per_run: float
    bytes_per_run: float
    """The least that must move: inputs once, outputs once."""
    flop_per_byte: float | None
    """Arithmetic intensity; None where no byte is known to move."""
    is_upper_bound: bool
    """FLOP, bytes and least time of some execution are the most that they can be, see `Work`."""
    bound: str
    """`compute` or `memory`, as most of the least time has it; empty without ceilings for the executions."""
    least_ns_per_run: float | None
    """Sum of the least times of the executions at the ceilings; None without ceilings for each."""
    node_ns_per_run: float | None
    """Measured time of the nodes on the CPU, else of the device's events; None where the profile has neither: the time
    of a node on a device is the time to launch it."""
    node_share_ratio: float | None
    """Of all nodes on the CPU, those that run subgraphs left out, or of all events of the device, 0 to 1."""
    attained_ratio: float | None
    """Least time / measured time: 1.0 is at the ceiling. None where one is missing, is an upper bound or incomplete."""


def work_of(execution: NodeExecution) -> Work | None:
    """Return the FLOP and the least bytes of an execution, None where its operator or its shapes do not tell them."""
    count = _COUNTS.get(execution.key.op_type)
    return None if count is None else count(execution.inputs, execution.outputs)


def least_ns(work: Work, ceilings: Ceilings) -> tuple[float, str] | None:
    """Return the least time in ns and what bounds it, None where the ceilings lack the element type.

    At the ridge, where both take as long, it is bound by compute. Source: see the module.
    """
    flop_per_s = ceilings.flop_per_s.get(work.arithmetic)
    if flop_per_s is None:
        return None
    compute_s, memory_s = work.flop / flop_per_s, work.least_bytes / ceilings.bytes_per_s
    bound = COMPUTE_BOUND if compute_s >= memory_s else MEMORY_BOUND
    return max(compute_s, memory_s) * NS_PER_S, bound


def roofline(
    executions: Sequence[NodeExecution],
    runs: int,
    ceilings: Ceilings | None,
    device_ns: Mapping[str, float] | None = None,
) -> tuple[RooflineRow, ...]:
    """Return a row for each operator and execution provider, the longest least time first, else the most FLOP.

    Args:
        executions: Of all measured runs.
        runs: Measured runs; without one there is no row.
        ceilings: Of the device that ran them; None: what bounds them is not told, as where they do not hold for a node.
        device_ns: Operator -> time of the device's events for it in one run, where the profile has such events.
    """
    if runs < 1:
        return ()
    groups: dict[tuple[str, str], list[NodeExecution]] = defaultdict(list)
    for execution in executions:
        if execution.key.op_type in _COUNTS:
            groups[execution.key.op_type, execution.key.execution_provider].append(execution)
    cpu_ns = sum(e.duration_ns for e in executions if _is_timed(e) and e.key.op_type not in CONTROL_FLOW_OPS)
    rows = [_row(group, runs, ceilings, _times(group, runs, cpu_ns, device_ns or {})) for group in groups.values()]
    return tuple(sorted(rows, key=lambda row: (-(row.least_ns_per_run or 0), -row.flop_per_run, row.op_type)))


def _is_timed(execution: NodeExecution) -> bool:
    return execution.key.execution_provider == CPU


def _times(
    group: Sequence[NodeExecution], runs: int, cpu_ns: int, device_ns: Mapping[str, float]
) -> tuple[float | None, float | None]:
    """Return the time of a group in one run and its share: of its nodes on the CPU, else of the device's events."""
    if _is_timed(group[0]):
        node_ns = sum(e.duration_ns for e in group)
        return node_ns / runs, node_ns / cpu_ns if cpu_ns else None
    found, every = device_ns.get(group[0].key.op_type, 0.0), sum(device_ns.values())
    return (found, found / every) if found else (None, None)


def _row(
    group: Sequence[NodeExecution], runs: int, ceilings: Ceilings | None, times: tuple[float | None, float | None]
) -> RooflineRow:
    works = [work for work in map(work_of, group) if work is not None]
    flop, total_bytes = sum(work.flop for work in works), sum(work.least_bytes for work in works)
    is_upper_bound, unknown = any(work.is_upper_bound for work in works), len(group) - len(works)
    held = ceilings if ceilings is not None and ceilings.holds_for(group[0].key.execution_provider) else None
    bound, least = _bound(works, held)
    node_ns_per_run, share_ratio = times
    is_honest = least is not None and node_ns_per_run and not unknown and not is_upper_bound
    return RooflineRow(
        op_type=group[0].key.op_type,
        execution_provider=group[0].key.execution_provider,
        executions_per_run=len(group) / runs,
        unknown_per_run=unknown / runs,
        flop_per_run=flop / runs,
        bytes_per_run=total_bytes / runs,
        flop_per_byte=flop / total_bytes if total_bytes else None,
        is_upper_bound=is_upper_bound,
        bound=bound,
        least_ns_per_run=None if least is None else least / runs,
        node_ns_per_run=node_ns_per_run,
        node_share_ratio=share_ratio,
        attained_ratio=least / runs / node_ns_per_run if is_honest and least is not None and node_ns_per_run else None,
    )


def _bound(works: Sequence[Work], ceilings: Ceilings | None) -> tuple[str, float | None]:
    """Return what most of the least time is bound by, and the least time in ns."""
    if ceilings is None or not works:
        return "", None
    by_bound = {COMPUTE_BOUND: 0.0, MEMORY_BOUND: 0.0}
    for work in works:
        least = least_ns(work, ceilings)
        if least is None:
            return "", None
        by_bound[least[1]] += least[0]
    compute_ns, memory_ns = by_bound[COMPUTE_BOUND], by_bound[MEMORY_BOUND]
    if not compute_ns + memory_ns:
        return "", 0.0  # empty tensors
    return COMPUTE_BOUND if compute_ns >= memory_ns else MEMORY_BOUND, compute_ns + memory_ns
