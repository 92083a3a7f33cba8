"""Facts: deterministic counts and names read off a profile, compared by equality."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.op_table import OpRow, op_table_of
from pytest_onnxperf.core.ops import FUSED_OPS, MEMCPY_FROM_HOST, MEMCPY_OPS, MEMCPY_TO_HOST
from pytest_onnxperf.core.profile import NodeKey, NodeTotal, Profile, Run, is_made_up_name

CPU = "CPUExecutionProvider"
_CHANGES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CountedNode:
    """A node with its executions in one run."""

    node: NodeKey
    executions: int


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node whose executions differ between measured runs."""

    node: NodeKey
    fewest: int
    most: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact on which the measured runs do not agree."""

    fact: str
    """`memcpy`, `nodes`, ..., or an entry of a mapping: `ops.CPUExecutionProvider:MatMul`, `fused_ops.FusedConv`."""

    values: tuple[int, ...]
    """The fact in each measured run, by start of the run."""

    nodes: tuple[NodeChange, ...]
    """The nodes that make the difference, largest difference first."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the measured runs did, each count as the maximum over them.

    Where `unavailable` is set, a count is only what was seen and may be too low: a limit that it passes is broken all
    the same, but no limit is held by it.
    """

    runs: int
    """Measured runs."""

    unavailable: str | None
    """Why the facts cannot be told, as a sentence; None where they can."""

    unstable: tuple[Difference, ...]
    """The facts on which the measured runs do not agree."""

    memcpy: int
    memcpy_to_host: int
    memcpy_from_host: int
    nodes: int
    cpu_nodes: int
    """Executions on the CPU; beside another execution provider, without `shape_nodes`."""

    nodes_by_provider: Mapping[str, int]
    ops: Mapping[str, int]
    """`CUDAExecutionProvider:MatMul` -> executions."""

    fused_ops: Mapping[str, int]
    """Operator -> executions, for operators that stand for several nodes of the exported model."""

    shape_nodes: tuple[CountedNode, ...]
    """Nodes left out of `cpu_nodes`: they compute shapes, and the runtime puts them on the CPU on purpose."""

    memcpy_ns: float
    """Self time of the memcpy nodes, per run."""

    memcpy_share: float
    """Self time of the memcpy nodes over that of all nodes, 0 to 1."""

    op_table: tuple[OpRow, ...]
    """By self time, most first."""

    attention: tuple[AttentionUse, ...] = ()
    """The attention nodes and the kernels that they ran."""


def facts_of(
    profile: Profile, forced_cpu_nodes: frozenset[str] | None = None, attention: tuple[AttentionUse, ...] = ()
) -> Facts:
    """Return the facts of the measured runs of `profile`.

    Args:
        profile: The profile.
        forced_cpu_nodes: Names of the nodes that the runtime put on the CPU on purpose, from its log
            (`forced_cpu_nodes_in_log`). None: there is no log, and a node that touches small integer tensors only
            counts as such; so does, with a log, one that has no name in the model.
        attention: As `attention_of` finds it.
    """
    runs = profile.measured_runs
    deliberate = _shape_nodes(profile.nodes, forced_cpu_nodes)
    counts = _Counts(runs, deliberate)
    most = counts.most()
    op_table = op_table_of(profile.nodes, len(runs))
    copies = [row for row in op_table if row.op_type in MEMCPY_OPS]
    return Facts(
        runs=len(runs),
        unavailable=_why_unavailable(profile, runs),
        unstable=tuple(counts.differences()),
        memcpy=most["memcpy"],
        memcpy_to_host=most["memcpy_to_host"],
        memcpy_from_host=most["memcpy_from_host"],
        nodes=most["nodes"],
        cpu_nodes=most["cpu_nodes"],
        nodes_by_provider=_group(most, "nodes_by_provider"),
        ops=_group(most, "ops"),
        fused_ops=_group(most, "fused_ops"),
        shape_nodes=tuple(
            CountedNode(key, max(run.nodes.get(key, 0) for run in runs)) for key in profile.nodes if key in deliberate
        ),
        memcpy_ns=sum(row.self_per_run_ns for row in copies),
        memcpy_share=sum(row.self_share_ratio for row in copies),
        op_table=op_table,
        attention=attention,
    )


def difference_text(difference: Difference) -> str:
    """Return the values with the number of runs, and the nodes, as in `0 in 1 run, 2 in 3 runs (MatMul mm: 0 to 2)`."""
    runs = Counter(difference.values)
    text = ", ".join(f"{value} in {count} run{'' if count == 1 else 's'}" for value, count in sorted(runs.items()))
    nodes = [f"{_node_text(change.node)}: {change.fewest} to {change.most}" for change in difference.nodes]
    if len(nodes) > _CHANGES_SHOWN:
        nodes[_CHANGES_SHOWN:] = [f"and {len(nodes) - _CHANGES_SHOWN} more nodes"]
    return f"{text} ({'; '.join(nodes)})" if nodes else text


def steps_text(difference: Difference) -> str:
    """Return the steps, counted from 1, at which a fact is not what it is at most of them: `13 at step 2, else 1`.

    >>> steps_text(Difference("memcpy", (1, 13, 1), ()))
    '13 at step 2, else 1'
    """
    usual, _ = Counter(difference.values).most_common(1)[0]
    odd = [f"{value} at step {step}" for step, value in enumerate(difference.values, 1) if value != usual]
    return f"{', '.join(odd)}, else {usual}"


def _node_text(node: NodeKey) -> str:
    return f"{node.op_type} {node.name}".strip()


def _why_unavailable(profile: Profile, runs: Sequence[Run]) -> str | None:
    if profile.unread_lines:
        first = profile.unread[0]
        return (
            f"{profile.unread_lines} line(s) of the profile could not be read, so that counts may be too low; "
            f"the first is line {first.line}: {first.reason}"
        )
    if profile.windows_without_run:
        cut = ", which is cut before its end" if profile.truncated else ""
        return f"{profile.windows_without_run} measured run(s) are not in the profile{cut}"
    if not runs:
        return "no run is in the profile" if not profile.runs else "no run of the profile was measured"
    if replays := sum(run.is_replay for run in runs):
        return (
            f"{replays} of {len(runs)} measured runs replayed a captured graph, and a replay leaves no node events: "
            "profile without graph capture"
        )
    if ambiguous := sum(run.ambiguous for run in runs):
        return f"{ambiguous} of {len(runs)} measured runs overlapped in parallel mode: whose the nodes are is not known"
    return None


def _shape_nodes(nodes: Mapping[NodeKey, NodeTotal], forced: frozenset[str] | None) -> frozenset[NodeKey]:
    """Return the nodes on the CPU, beside another execution provider, that compute shapes."""
    if not {key.execution_provider for key in nodes} - {CPU, ""}:
        return frozenset()
    return frozenset(
        key
        for key, total in nodes.items()
        if key.execution_provider == CPU
        and (
            total.integer_only_small if forced is None or is_made_up_name(key.name, key.op_type) else key.name in forced
        )
    )


def _facts_of_node(key: NodeKey, deliberate: frozenset[NodeKey]) -> Iterator[str]:
    """Yield the facts that an execution of the node adds to."""
    yield "nodes"
    yield f"nodes_by_provider.{key.execution_provider}"
    yield f"ops.{key.execution_provider}:{key.op_type}"
    if key.op_type in FUSED_OPS:
        yield f"fused_ops.{key.op_type}"
    if key.op_type in MEMCPY_OPS:
        yield "memcpy"
    if key.op_type == MEMCPY_TO_HOST:
        yield "memcpy_to_host"
    if key.op_type == MEMCPY_FROM_HOST:
        yield "memcpy_from_host"
    if key.execution_provider == CPU and key not in deliberate:
        yield "cpu_nodes"


class _Counts:
    """The facts of each run. Runs share their nodes, so that each distinct set of nodes is counted once."""

    def __init__(self, runs: Sequence[Run], deliberate: frozenset[NodeKey]) -> None:
        self._kinds = [id(run.nodes) for run in runs]
        self._nodes = {id(run.nodes): run.nodes for run in runs}
        self._deliberate = deliberate
        self._counts = {kind: self._count(nodes) for kind, nodes in self._nodes.items()}

    def _count(self, nodes: Mapping[NodeKey, int]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for key, executions in nodes.items():
            for fact in _facts_of_node(key, self._deliberate):
                counts[fact] += executions
        return counts

    def most(self) -> Counter[str]:
        """Return the maximum of each fact."""
        most: Counter[str] = Counter()
        for counts in self._counts.values():
            most |= counts
        return most

    def differences(self) -> Iterator[Difference]:
        """Yield the facts that are not the same in all runs."""
        for fact in self.most():
            values = {kind: counts[fact] for kind, counts in self._counts.items()}
            if len(set(values.values())) > 1:
                yield Difference(fact, tuple(values[kind] for kind in self._kinds), tuple(self._changes(fact)))

    def _changes(self, fact: str) -> list[NodeChange]:
        keys = {key: None for nodes in self._nodes.values() for key in nodes}
        changes = []
        for key in keys:
            executions = [nodes.get(key, 0) for nodes in self._nodes.values()]
            if len(set(executions)) > 1 and fact in _facts_of_node(key, self._deliberate):
                changes.append(NodeChange(key, min(executions), max(executions)))
        return sorted(changes, key=lambda change: change.fewest - change.most)


def _group(counts: Mapping[str, int], fact: str) -> dict[str, int]:
    prefix = f"{fact}."
    found = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
    return dict(sorted(found.items(), key=_most_first))


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
