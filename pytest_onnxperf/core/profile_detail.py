"""The single events of a profile with their tensors: for attention, memcpy and roofline, where counts are not enough.

It decodes every event, and is meant for the few runs of a profile process: `read_profile` counts a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .attribution import is_in_window
from .lane import TOLERANCE_US
from .profile import NodeKey
from .profile_decoding import DecodingSink
from .profile_events import KERNEL_TIME
from .profile_json import read_events
from .profile_wire import Event, tensors_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that a node read or wrote."""

    element_type: str
    """As the profile has it: `float`, `float16`, `bfloat16`, `int64`, `uint8`, ..."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeExecution:
    """One execution of one node."""

    key: NodeKey
    run: int
    """Index of its run among the measured runs of the file, by start."""
    start_ns: int
    duration_ns: int
    inputs: tuple[Tensor, ...]
    """Without those that are missing and those that are no tensors: a place in it is not the input's index."""
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """A kernel that a device ran, from a build of ONNX Runtime that profiles them."""

    name: str
    op_type: str
    """Operator that launched it, where the profile tells; else empty."""
    after: NodeKey | None
    """The node whose event stands before it in the file, which launched it."""
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Detail:
    """Events of one file."""

    runs: int
    """Measured runs."""
    executions: tuple[NodeExecution, ...]
    """Of the measured runs, by run and start."""
    kernels: tuple[KernelEvent, ...]
    """`Kernel` events of the whole file, in its order; their clock is not the profile's."""
    device_programs: tuple[tuple[str, int], ...]
    """Name of an `Api` event, `<node>&<operator>&<program>`, and how often it is in the whole file."""
    device_ns: Mapping[str, int] = field(default_factory=dict)
    """Operator -> time of the device's events for it, in the whole file."""
    all_runs: int = 0
    """Runs of the whole file, warm-up too: the device's events do not tell them apart."""


def read_detail(path: str | os.PathLike[str], windows: Sequence[tuple[int, int]] | None = None) -> Detail:
    """Read the node executions of the measured runs, with their tensors, and the device's events.

    Args:
        path: The file.
        windows: As for `read_profile`.

    Raises:
        ProfileError: As for `read_profile`.
    """
    events = _DetailEvents()
    read_events(path, events)
    return events.detail(windows)


class _DetailEvents(DecodingSink):
    """Collects the events that `Detail` keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes: list[tuple[NodeKey, Event]] = []
        self._runs: list[tuple[int, int]] = []
        self._kernels: list[KernelEvent] = []
        self._programs: Counter[str] = Counter()
        self._device_ns: Counter[str] = Counter()
        self._last: NodeKey | None = None

    def take(self, event: Event) -> None:
        if event.cat == "Node" and event.name.endswith(KERNEL_TIME):
            key = NodeKey(event.name.removesuffix(KERNEL_TIME), event.args.op_name, event.args.provider)
            self._nodes.append((key, event))
            self._last = key
        elif event.cat == "Session" and event.name == "model_run":
            self._runs.append((event.ts, event.dur))
        elif event.cat == "Kernel":
            duration_ns = event.dur * _NS_PER_US
            self._kernels.append(KernelEvent(event.name, event.args.op_name, self._last, duration_ns))
            self._device_ns[event.args.op_name or (self._last.op_type if self._last else "")] += duration_ns
        elif event.cat == "Api":
            self._programs[event.name] += 1
            parts = event.name.rsplit("&", 2)
            self._device_ns[parts[1] if len(parts) == 3 else ""] += event.dur * _NS_PER_US

    def detail(self, windows: Sequence[tuple[int, int]] | None) -> Detail:
        runs = sorted(
            run for run in self._runs if windows is None or any(is_in_window(*run, window) for window in windows)
        )
        executions = []
        for index, (start, duration) in enumerate(runs):
            end = start + duration + TOLERANCE_US
            inside = [(key, e) for key, e in self._nodes if start <= e.ts and e.ts + e.dur <= end]
            executions += [_execution(key, event, index) for key, event in sorted(inside, key=lambda pair: pair[1].ts)]
        return Detail(
            len(runs),
            tuple(executions),
            tuple(self._kernels),
            tuple(self._programs.items()),
            dict(self._device_ns),
            len(self._runs),
        )


def _execution(key: NodeKey, event: Event, run: int) -> NodeExecution:
    return NodeExecution(
        key=key,
        run=run,
        start_ns=event.ts * _NS_PER_US,
        duration_ns=event.dur * _NS_PER_US,
        inputs=_tensors(event.args.input_type_shape),
        outputs=_tensors(event.args.output_type_shape),
    )


def _tensors(value: object) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(kind, tuple(shape))
        for kind, shape in tensors_of(value)
        if isinstance(shape, list) and all(isinstance(extent, int) for extent in shape)
    )
