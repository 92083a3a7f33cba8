"""Where each node runs: the profile, the verbose log and the runtime's own list of assignments, set side by side.

Source of their limits: session_state.cc `VerifyEachNodeIsAssignedToAnEp` (final nodes, unnamed ones as ""; no names
where all are on one provider); onnxruntime_c_api.h, note of `Session_GetEpGraphAssignmentInfo` (taken before extended
fusions and before memcpy nodes are put in); WebGPU 1.27 lists its CPU nodes only (measured); profiler.cc names an
unnamed node `<OpType>_<index>`. A node that only one source has is therefore no disagreement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .profile import is_made_up_name
from .providers import CPU
from .reasons import Evidence, WhyOnCpu, log_name

if TYPE_CHECKING:
    from .graph import Model
    from .ort_log import OrtLog, PlacedNode
    from .profile import NodeKey, NodeTotal

PROFILE: Final = "profile"
LOG: Final = "log"
ASSIGNMENT: Final = "assignment"
_Node = tuple[str, str]
_Source = Mapping[_Node, Counter[str]]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node and where it runs."""

    name: str
    """As the profile has it, else as the log; empty for one without a name that only the log has."""
    op_type: str
    execution_provider: str
    sources: tuple[str, ...]
    """Which sources have it there: `profile`, `log`, `assignment`."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A node that the sources put on different providers."""

    name: str
    op_type: str
    execution_providers: tuple[tuple[str, tuple[str, ...]], ...]
    """Source -> provider of each node of that name, `(("log", ("CPUExecutionProvider",)), ...)`."""


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """Nodes of one operator that are on the CPU for one reason."""

    op_type: str
    why: WhyOnCpu
    nodes: int
    example: str
    """Name of the first."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the nodes run."""

    nodes: tuple[NodePlace, ...]
    """One for each name, operator and provider; a name that stands several times is one entry a provider."""
    disagreements: tuple[Disagreement, ...]
    cpu_groups: tuple[CpuGroup, ...]
    """Most nodes first; empty where nothing but the CPU was asked for."""
    all_on: str
    """The provider of all nodes, where the log says so; else empty."""


def placement_of(
    nodes: Mapping[NodeKey, NodeTotal],
    log: OrtLog,
    assignment: tuple[PlacedNode, ...] | None,
    model: Model | None = None,
) -> Placement:
    """Return where each node runs.

    Args:
        nodes: The profile's.
        log: Of severity 0.
        assignment: The runtime's list; None where it has none.
        model: The optimised graph, which tells operators of two domains apart.
    """
    logged = _counted((node.name, node.op_type, node.execution_provider) for node in log.placed)
    profiled = _profiled(nodes, set(logged))
    assigned = _counted((node.name, node.op_type, node.execution_provider) for node in assignment or ())
    sources = {PROFILE: profiled, LOG: logged, ASSIGNMENT: assigned}
    providers = {provider for source in sources.values() for found in source.values() for provider in found}
    places = _places(sources)
    is_device = bool(providers - {CPU} or log.missing_kernels or log.missing_unnamed or log.forced_cpu_nodes)
    return Placement(
        nodes=places,
        disagreements=tuple(_disagreements(sources, log.all_placed_on)),
        cpu_groups=_cpu_groups(places, sources, Evidence(log, nodes, model)) if is_device else (),
        all_on=log.all_placed_on,
    )


def _counted(found: Iterable[tuple[str, str, str]]) -> dict[_Node, Counter[str]]:
    """Count providers by node; a name is cut where the log cuts it, at its first line."""
    counts: defaultdict[_Node, Counter[str]] = defaultdict(Counter)
    for name, op_type, provider in found:
        if provider:
            counts[log_name(name), op_type][provider] += 1
    return dict(counts)


def _profiled(nodes: Mapping[NodeKey, NodeTotal], known: set[_Node]) -> dict[_Node, Counter[str]]:
    """Count the profile's nodes; what it had to name itself has no name in the other sources."""

    def name(key: NodeKey) -> str:
        made_up = is_made_up_name(key.name, key.op_type)
        return "" if made_up and (key.name, key.op_type) not in known and ("", key.op_type) in known else key.name

    return _counted((name(key), key.op_type, key.execution_provider) for key in nodes)


def _places(sources: Mapping[str, _Source]) -> tuple[NodePlace, ...]:
    found: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for source, counts in sources.items():
        for (name, op_type), providers in counts.items():
            for provider in providers:
                found[name, op_type, provider].append(source)
    return tuple(NodePlace(*node, sources=tuple(where)) for node, where in found.items())


def _disagreements(sources: Mapping[str, _Source], all_on: str) -> Iterator[Disagreement]:
    """Yield the nodes that a source has on a provider on which the source with most nodes of that name has fewer.

    Names repeat: each branch of an If, and each Loop body, has its own. A source may have run, or list, only some of
    them, so that fewer nodes of a name are no disagreement.
    """
    names = dict.fromkeys(node for counts in sources.values() for node in counts)
    for name, op_type in names:
        found = {source: counts[name, op_type] for source, counts in sources.items() if (name, op_type) in counts}
        if all_on and PROFILE in found:
            found[LOG] = Counter({all_on: max(counts.total() for counts in found.values())})
        largest = max(found.values(), key=Counter.total)
        if any(counts - largest for counts in found.values()):
            listed = tuple((source, tuple(sorted(counts.elements()))) for source, counts in found.items())
            yield Disagreement(name, op_type, listed)


def _cpu_groups(
    places: tuple[NodePlace, ...], sources: Mapping[str, _Source], evidence: Evidence
) -> tuple[CpuGroup, ...]:
    counts: Counter[tuple[str, WhyOnCpu]] = Counter()
    examples: dict[tuple[str, WhyOnCpu], str] = {}
    is_final = bool(sources[PROFILE] or sources[LOG])
    for place in places:
        is_gone = is_final and place.sources == (ASSIGNMENT,)  # fused with another since
        if place.execution_provider == CPU and not is_gone:
            key = place.op_type, evidence.why_on_cpu(place.name, place.op_type)
            node = place.name, place.op_type
            counts[key] += max(found[node][CPU] for found in sources.values() if node in found)
            examples.setdefault(key, place.name)
    return tuple(CpuGroup(*key, nodes=count, example=examples[key]) for key, count in counts.most_common())
