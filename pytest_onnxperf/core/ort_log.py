"""What ONNX Runtime says in its log that a profile does not hold: placement, missing kernels, attention kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_FORCED_TO_CPU: Final = re.compile(
    r"Force fallback to CPU execution for node: (.*?) because the CPU execution path is deemed"
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_END_OF_COLOUR: Final = re.compile(r"\x1b\[0?m")  # what stands behind it on the line was printed by others
_MARKS: Final = re.compile(
    r"Force fallback|kernel not found in reg|placed on \[|VerifyEachNode|Add Memcpy|Operator=|Attention: using"
    r"|AttentionKernelOptions:|onnxperf-step"
)
_STEP: Final = re.compile(r"onnxperf-step (begin|end) ?(\S*)")
_MISSING_KERNEL: Final = re.compile(r"(\w+) kernel not found in registries for Op type: (\S+) node name: ?(.*)$")
_COPY: Final = re.compile(r"Add (MemcpyFromHost after|MemcpyToHost before) (.*) for \w+$")
_PLACED_ON: Final = re.compile(r"(All nodes|Node\(s\)) placed on \[(\w+)\]")
_PLACED_NODE: Final = re.compile(r"VerifyEachNodeIsAssignedToAnEp\]\s+(\S+) \((.*)\)$")
_DEBUG_LINE: Final = re.compile(r"Operator=(\w+)(?: Node=(.*))? DataType=(\w+)(.*)$", re.DOTALL)
_DEBUG_HEAD: Final = re.compile(r"Operator=\w+ Node=")
_SDPA_KERNEL: Final = re.compile(r" SdpaKernel=(\w+)")
_FLAG: Final = re.compile(r" ([A-Z_]+)=1\b")
_OPTIONS: Final = re.compile(r"AttentionKernelOptions:((?: [A-Z_]+=\d)+)")
_ONNX_ATTENTION: Final = re.compile(
    r"(?:ONNX )?Attention: using (cuDNN SDPA|Flash Attention|Memory Efficient Attention|unified unfused path)"
)
_LINES_OF_ONE_NAME: Final = 4
"""A node's name may hold newlines; a debug line that spans more is given up."""


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """What ONNX Runtime printed about the kernel of one attention node in one run."""

    phase: str
    """Of the step in which it was printed; empty where the log has no steps."""
    operator: str
    node: str
    """Empty where the line names none."""
    kernel: str
    """The runtime's own word: `FLASH_ATTENTION`, `MATH`, `Flash Attention`; several are joined by `+`."""
    text: str
    """The line without colours."""


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node and where the log says it was placed."""

    name: str
    op_type: str
    execution_provider: str


@dataclass(frozen=True, slots=True)
class OrtLog:
    """What a log says that a profile does not."""

    forced_cpu_nodes: frozenset[str] = frozenset()
    """Names of the nodes that were put on the CPU on purpose, to compute shapes there."""
    missing_kernels: Mapping[str, str] = field(default_factory=dict)
    """Name of a node for which the execution provider has no kernel -> its operator."""
    missing_unnamed: frozenset[str] = frozenset()
    """Operators of such nodes that have no name."""
    placed: tuple[PlacedNode, ...] = ()
    """Of a verbose log."""
    all_placed_on: str = ""
    """The one execution provider of all nodes; a verbose log then names none of them."""
    copied_tensors: tuple[tuple[str, str], ...] = ()
    """Operator of a memcpy node, and the tensor it copies."""
    attention: tuple[AttentionLine, ...] = ()
    """Of the marked steps, where the log has any; else of the whole log."""
    attention_options: str = ""
    """The kernels that the runtime may choose from, `FLASH_ATTENTION=1 MATH=1`."""


def read_log(lines: Iterable[str]) -> OrtLog:
    """Read the log of a process, whatever else was printed in it, ANSI colours and all.

    Source of the forms: onnxruntime fallback_cpu_capability.cc, transformer_memcpy.cc, session_state.cc,
    attention_kernel_options.cc (1.19 to 1.32), core/providers/cuda/llm/attention.cc. A step is what stands between the
    lines `onnxperf-step begin PHASE` and `onnxperf-step end`, which the measuring process prints.
    """
    reader = _Reader()
    for line in lines:
        reader.add(line)
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self._phase: str | None = None
        self._has_steps = False
        self._begun: list[str] = []
        self._forced: set[str] = set()
        self._missing: dict[str, str] = {}
        self._unnamed: set[str] = set()
        self._placed: list[PlacedNode] = []
        self._placed_on = self._all_on = self._options = ""
        self._copies: dict[tuple[str, str], None] = {}
        self._attention: list[tuple[str | None, AttentionLine]] = []

    def add(self, line: str) -> None:
        if self._begun:
            if _STEP.search(line) is None and _DEBUG_HEAD.search(line) is None:
                self._go_on(line.rstrip("\r\n"))
                return
            self._give_up()
        if _MARKS.search(line) is None:
            return
        if _DEBUG_HEAD.search(line) is not None and "DataType=" not in line:
            self._begun.append(line.rstrip("\r\n"))  # the name may go on in the next line
            return
        for part in _END_OF_COLOUR.split(line):
            self._read(_ANSI.sub("", part).rstrip())

    def _go_on(self, line: str) -> None:
        self._begun.append(line)
        if "DataType=" in line:
            line = "\n".join(self._begun)
            self._begun.clear()
            self.add(line)
        elif len(self._begun) == _LINES_OF_ONE_NAME:
            self._give_up()

    def _give_up(self) -> None:
        """Read each of the lines for itself, which belong to no name: the first was cut off."""
        _, *others = self._begun
        self._begun.clear()
        for line in others:
            self.add(line)

    def _read(self, line: str) -> None:
        if "Operator=" in line or "Attention" in line.split(" for Op type:")[0]:
            self._add_attention(line)
        self._add_placement(line)

    def _add_attention(self, line: str) -> None:
        if match := _OPTIONS.search(line):
            self._options = match[1].strip()
        if match := _DEBUG_LINE.search(line):
            operator, node, _, rest = match.groups()
            named = _SDPA_KERNEL.search(rest)
            kernel = named[1] if named else "+".join(_FLAG.findall(rest)) or "?"
            self._keep(AttentionLine(self._phase or "", operator, node or "", kernel, match[0].strip()))
        elif match := _ONNX_ATTENTION.search(line):
            self._keep(AttentionLine(self._phase or "", "Attention", "", match[1], match[0]))

    def _keep(self, line: AttentionLine) -> None:
        self._attention.append((self._phase, line))

    def _add_placement(self, line: str) -> None:
        if match := _STEP.search(line):
            self._has_steps = True
            self._phase = match[2] if match[1] == "begin" else None
        elif match := _FORCED_TO_CPU.search(line):
            self._forced.add(match[1])
        elif match := _MISSING_KERNEL.search(line):
            if match[3]:
                self._missing[match[3]] = match[2]
            else:
                self._unnamed.add(match[2])
        elif match := _COPY.search(line):
            self._copies[match[1].split()[0], match[2]] = None
        elif match := _PLACED_ON.search(line):
            self._placed_on = match[2]
            if match[1] == "All nodes":
                self._all_on = match[2]
        elif match := _PLACED_NODE.search(line):
            self._placed.append(PlacedNode(match[2], match[1], self._placed_on))

    def result(self) -> OrtLog:
        while self._begun:
            self._give_up()
        kept = [line for phase, line in self._attention if phase is not None or not self._has_steps]
        return OrtLog(
            forced_cpu_nodes=frozenset(self._forced),
            missing_kernels=self._missing,
            missing_unnamed=frozenset(self._unnamed),
            placed=tuple(self._placed),
            all_placed_on=self._all_on,
            copied_tensors=tuple(self._copies),
            attention=tuple(kept),
            attention_options=self._options,
        )
