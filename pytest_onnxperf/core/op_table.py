"""The op table: what each operator on each execution provider costs a run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_onnxperf.core.ops import ADVICE, op_class
from pytest_onnxperf.core.profile import NodeKey, NodeTotal


@dataclass(frozen=True, slots=True)
class OpRow:
    """One row of the op table: all nodes of one operator on one execution provider."""

    op_type: str
    execution_provider: str
    executions_per_run: float
    duration_per_run_ns: float
    self_per_run_ns: float
    self_share_ratio: float
    """Its part of the self time of all nodes, 0 to 1."""

    op_class: str
    """`compute`, `memory`, `copy`, `metadata` or `other`."""

    advice: str
    """What to do about time spent in this class, in one line."""


def op_table_of(nodes: Mapping[NodeKey, NodeTotal], runs: int) -> tuple[OpRow, ...]:
    """Return the rows of node executions in `runs` runs, by self time, most first."""
    executions: Counter[tuple[str, str]] = Counter()
    duration_ns: Counter[tuple[str, str]] = Counter()
    self_ns: Counter[tuple[str, str]] = Counter()
    for key, total in nodes.items():
        op = key.op_type, key.execution_provider
        executions[op] += total.executions
        duration_ns[op] += total.duration_ns
        self_ns[op] += total.self_ns
    all_ns = self_ns.total() or 1
    per_run = runs or 1
    rows = [
        OpRow(
            op_type=op[0],
            execution_provider=op[1],
            executions_per_run=executions[op] / per_run,
            duration_per_run_ns=duration_ns[op] / per_run,
            self_per_run_ns=self_ns[op] / per_run,
            self_share_ratio=self_ns[op] / all_ns,
            op_class=op_class(op[0]),
            advice=ADVICE[op_class(op[0])],
        )
        for op in executions
    ]
    return tuple(sorted(rows, key=lambda row: (-row.self_per_run_ns, row.op_type, row.execution_provider)))
