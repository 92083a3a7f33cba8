"""The parts of the file of `--onnxperf-json` that say what ran, and why; see `results`."""

from __future__ import annotations

from typing import Final

import msgspec

MOST_ROWS: Final = 256
"""Rows of a table; a choice: more than the op types of any model, and the attention nodes of nearly all."""


class OpRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All nodes of one operator on one execution provider."""

    op_type: str
    """`MatMul`."""
    execution_provider: str
    """That ran them."""
    executions: float
    """In one run."""
    duration_ms: float
    """In one run, with the subgraphs it ran; on an asynchronous execution provider the time to launch it."""
    self_ms: float
    """The same without the subgraphs."""
    share_ratio: float
    """Of the self time of all nodes, 0 to 1."""
    op_class: str
    """`compute`, `memory`, `copy`, `metadata` or `other`."""


class AttentionNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attention node, in the order of first execution."""

    node: str
    """Its name."""
    op_type: str
    """`GroupQueryAttention`; `MatMul+Softmax+MatMul` where it is written as these."""
    execution_provider: str
    """That ran it."""
    kernels: tuple[str, ...]
    """As in a budget, more than one where runs differ; empty where it cannot be told."""
    evidence: str
    """What shows it; where it cannot be told, why, and what would."""
    element_type: str = ""
    """Of the query."""
    head_size: int | None = None
    """Null where it is not known."""
    query_length: int | None = None
    """Null where it is not known."""
    phase: str = ""
    """`prefill`, `decode`; empty for a session's run."""


class Unstable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact on which the measured runs do not agree."""

    fact: str
    """Its name."""
    values: tuple[int, ...]
    """By run."""
    text: str
    """With the nodes that make the difference."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the runs did, each count as the maximum over them. `ops`, `nodes_by_provider` and `fused_ops` are whole."""

    runs: int
    """Profiled runs."""
    unavailable: str = ""
    """Why they cannot be told: then a count is only what was seen, and may be too low."""
    memcpy: int
    """Memcpy nodes in one run."""
    memcpy_to_host: int
    """Of these to the host."""
    memcpy_from_host: int
    """Of these from the host."""
    nodes: int
    """Node executions in one run."""
    cpu_nodes: int
    """Of these on the CPU; beside another execution provider without `shape_nodes`."""
    shape_nodes: int = 0
    """On the CPU on purpose, to compute shapes."""
    nodes_by_provider: dict[str, int]
    """Execution provider -> executions."""
    ops: dict[str, int]
    """`<provider>:<op type>` -> executions."""
    fused_ops: dict[str, int] = {}
    """Operator that stands for several nodes -> executions."""
    memcpy_ms: float = 0.0
    """Self time of the memcpy nodes in one run."""
    memcpy_share_ratio: float = 0.0
    """Of the self time of all nodes, 0 to 1."""
    unstable: tuple[Unstable, ...] = ()
    """Facts on which the runs do not agree."""
    op_table: tuple[OpRow, ...] = ()
    """Most self time first; of a generator in its phases alone."""
    attention: tuple[AttentionNode, ...] = ()
    """Of a generator in its phases alone."""
    rows_left_out: int = 0
    """Of both tables together."""


class MovedOps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Executions of one operator that another execution provider runs now."""

    op_type: str
    """`MatMul`."""
    executions: int
    """In one run."""
    before: str
    """Execution provider."""
    after: str
    """Execution provider."""


class OpTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The self time of one op type, then and now."""

    op: str
    """`<provider>:<op type>`."""
    old_ms: float
    """In one profiled run."""
    new_ms: float
    """In one profiled run."""


class OpChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed in the op table of one phase since the baseline."""

    phase: str
    """`run` for a session."""
    moved: tuple[MovedOps, ...] = ()
    """To another execution provider."""
    gained: dict[str, int] = {}
    """Op that did not run -> executions."""
    lost: dict[str, int] = {}
    """Op that runs no more -> executions then."""
    counts: dict[str, tuple[int, int]] = {}
    """Op -> executions then and now."""
    times: tuple[OpTime, ...] = ()
    """Most time lost first."""


class Culprits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memcpy nodes that are alike, and what forces them."""

    count: int
    """Memcpy nodes."""
    text: str
    """What they are and why, for people."""
    direction: str
    """`to_host` or `from_host`."""
    op_type: str
    """Of the node that forces the copy; empty where it is not known."""
    domain: str = ""
    """Of that operator; empty for ai.onnx."""
    opset: int | None = None
    """Of its domain; null where it is not known."""
    why: str
    """`no_kernel`, `type`, `shape_computation`, `host_input`, `host_output`, `graph_input`, `graph_output`, `boundary`
    or `unknown`."""
    node: str = ""
    """One of these nodes."""
    tensor: str = ""
    """That it copies."""


class CpuGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nodes of one operator that are on the CPU for one reason."""

    op_type: str
    """`Reshape`."""
    why: str
    """`shape_computation`, `type`, `no_kernel` or `unknown`."""
    nodes: int
    """How many."""
    example: str = ""
    """Name of the first."""


class NotFlash(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attention node that did not run Flash Attention."""

    node: str
    """Its name."""
    op_type: str
    """Its operator."""
    phase: str = ""
    """`prefill`, `decode`; empty for a session's run."""
    kernels: tuple[str, ...]
    """That it ran."""
    reasons: tuple[str, ...] = ()
    """Empty where neither the model nor the device tells."""


class RooflineRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All executions of one operator on one execution provider, in one run."""

    op_type: str
    """`MatMul`."""
    execution_provider: str
    """That ran them."""
    executions: float
    """In one run."""
    unknown: float = 0.0
    """Executions of which the work is not known."""
    flop: float
    """Without those."""
    least_bytes: float
    """The least that must move."""
    flop_per_byte: float | None = None
    """Arithmetic intensity."""
    is_upper_bound: bool = False
    """FLOP and bytes are the most that they can be."""
    bound: str = ""
    """`compute` or `memory`; empty without ceilings."""
    least_ms: float | None = None
    """At the ceilings."""
    node_ms: float | None = None
    """Measured; null where the profile has only the time to launch it."""
    share_ratio: float | None = None
    """Of all nodes, 0 to 1."""
    attained_ratio: float | None = None
    """Least time / measured time, 1 is at the ceiling."""


class Ceilings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most that a device can do."""

    device: str
    """Its name."""
    flop_per_s: dict[str, float]
    """By element type."""
    bytes_per_s: float
    """Of its memory."""
    source: str
    """Where the values come from."""


class ModelExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the facts of one session of a model are what they are."""

    session: str = ""
    """`decoder`, `vision`; empty where the model is one session."""
    opsets: dict[str, int] = {}
    """Domain, empty for ai.onnx -> version."""
    culprits: tuple[Culprits, ...] = ()
    """What forces its memcpy nodes, most first."""
    why_no_graph: str = ""
    """Why the optimised graph could not be had, without which a culprit is only suspected."""
    cpu_groups: tuple[CpuGroup, ...] = ()
    """What is on the CPU, and why; most first."""
    disagreements: int = 0
    """Nodes that profile, log and runtime put on different providers."""
    boundary: str = ""
    """What is copied where a run begins and ends, which is not counted."""
    not_flash: tuple[NotFlash, ...] = ()
    """Attention nodes that ran another kernel."""
    rooflines: dict[str, tuple[RooflineRow, ...]] = {}
    """Phase, empty for a session's run -> rows, longest least time first."""
    ceilings: Ceilings | None = None
    """Null where they are not known."""
    rows_left_out: int = 0
    """Of all its tables together."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the facts of a measurement are what they are."""

    models: tuple[ModelExplanation, ...] = ()
    """One for each session of the model that could be explained."""
    why_not: str = ""
    """Why there is none, or none of a further session."""
