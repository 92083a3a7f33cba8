"""What an ONNX Runtime profile holds, as plain values: runs, node executions and what could not be read.

Times are integer nanoseconds on the profile's own clock, which starts at 0 when profiling starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Which node of the model: name, operator and execution provider."""

    name: str
    """The node's name; `<OpType>_<index>` where the model gives it none."""

    op_type: str
    """`MatMul`, `MemcpyToHost`, ...; "" where the file has none."""

    execution_provider: str
    """ONNX Runtime's own string, `CUDAExecutionProvider`; "" where the file has none."""


def is_made_up_name(name: str, op_type: str) -> bool:
    """Tell whether the profile made the name of a node up, which has none in the model.

    Source: onnxruntime profiler.cc names such a node by its operator and index.

    >>> is_made_up_name("MatMul_12", "MatMul"), is_made_up_name("/head/MatMul_12", "MatMul")
    (True, False)
    """
    return re.fullmatch(re.escape(op_type) + r"_[0-9]+", name) is not None


@dataclass(frozen=True, slots=True)
class NodeTotal:
    """The sum over the executions of one node."""

    executions: int
    duration_ns: int
    """Time in the node and in the subgraphs it ran. On an asynchronous execution provider: time to launch it."""

    self_ns: int
    """`duration_ns` less the time of the nodes of its subgraphs."""

    integer_only_small: bool
    """True: every tensor it was seen with, in the whole file, is integer or bool with at most 100 elements.

    False: another tensor was seen, or the file has no shapes.
    """


@dataclass(frozen=True, slots=True)
class Run:
    """One `model_run`: one inference, or one prefill or decode step."""

    start_ns: int
    duration_ns: int
    nodes: Mapping[NodeKey, int]
    """Executions of each node in this run. Runs with equal nodes share one mapping."""

    measured: bool
    """True: inside a measured window. False: warm-up."""

    executed: bool
    """True: the session executed its graph. False: it did not, as in the replay of a captured graph."""

    ambiguous: bool
    """True: another run overlapped and the file does not say which of them a node belongs to."""

    thread_id: int

    @property
    def end_ns(self) -> int:
        """When the run ended."""
        return self.start_ns + self.duration_ns

    @property
    def is_replay(self) -> bool:
        """True: a run of which the profile shows no node, so that nothing can be said about its nodes."""
        return not self.nodes and not self.executed


@dataclass(frozen=True, slots=True)
class DeviceTotal:
    """The sum over the `Api` or `Kernel` events of one name; their clock is not the profile's."""

    events: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class UnreadLine:
    """A line, or a piece of a file that has no event a line, that could not be read."""

    line: int
    """Counted from 1."""

    reason: str
    text: str
    """Its first characters."""


@dataclass(frozen=True, slots=True)
class Profile:
    """All that is known from one profile file."""

    path: str
    events: int
    """Events that were read, of every category."""

    categories: Mapping[str, int]
    """Events by category: `Session`, `Node`, `Kernel`, `Api`."""

    runs: tuple[Run, ...]
    """Every `model_run` of the file, by start."""

    nodes: Mapping[NodeKey, NodeTotal]
    """Node executions of the measured runs."""

    all_nodes: Mapping[NodeKey, NodeTotal]
    """Node executions of the whole file, those outside any run included."""

    op_time_us: Mapping[str, int]
    """Operator -> sum of the durations of its node executions in the whole file, as they stand there."""

    api_events: Mapping[str, DeviceTotal]
    kernel_events: Mapping[str, DeviceTotal]

    unread_lines: int
    """Lines, or pieces, that could not be read: counts may be too low by them."""

    unread: tuple[UnreadLine, ...]
    """The first of them."""

    repaired_lines: int
    """Lines that are not valid JSON, or say something else than the runtime meant, and were read all the same."""

    truncated: bool
    """True: events are missing at the end, by the runtime's limit of 1,000,000 or because the file is cut."""

    dropped_events: int | None
    """How many events the runtime says it dropped; None where it says nothing."""

    unattributed_nodes: int
    """Node executions outside any run."""

    windows_without_run: int
    """Measured windows in which the file has no run."""

    notes: tuple[str, ...]
    """What a reader of the numbers has to know, as sentences."""

    @property
    def measured_runs(self) -> tuple[Run, ...]:
        """The runs inside the measured windows, by start."""
        return tuple(run for run in self.runs if run.measured)
