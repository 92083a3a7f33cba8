"""Which kernel each attention node ran, and what shows it. Without evidence the answer is that it cannot be told."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .attention_names import (
    ON_CPU,
    UNFUSED,
    is_attention,
    kernel_of_cuda,
    kernel_of_webgpu,
    kernels_of_word,
)
from .profile import NodeKey, is_made_up_name
from .providers import CPU
from .unfused import unfused_attention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .ort_log import AttentionLine, OrtLog
    from .profile_detail import Detail, NodeExecution

_CUDA: Final = "CUDAExecutionProvider"
_WEBGPU: Final = "WebGpuExecutionProvider"
_PRINTED: Final = "ONNX Runtime printed "
# These versions have XQA kernels and no word for them, so that what they print for XQA says something else.
# (Source: the strings in the released libraries; the word is there from 1.27.)
_NO_WORD_FOR_XQA: Final = ("1.25.", "1.26.")


@dataclass(frozen=True, slots=True)
class AttentionUse:
    """One attention node in one phase."""

    node: NodeKey
    """Of an unfused attention: its softmax, with the operator `MatMul+Softmax+MatMul`."""
    kernels: tuple[str, ...]
    """Names as in a budget, more than one where runs differ; empty where it cannot be told."""
    evidence: str
    """What shows it; where it cannot be told, why, and what would."""
    element_type: str = ""
    """Of the query, as the profile has it: `float16`."""
    head_size: int | None = None
    query_length: int | None = None
    phase: str = ""
    """`prefill`, `decode`, ...; empty for a session's run."""


@dataclass(frozen=True, slots=True)
class _Evidence:
    kernels: frozenset[str]
    text: str


def attention_of(
    details: Sequence[Detail], log: OrtLog | None, *, wanted: str, runtime_version: str = "", phase: str = ""
) -> tuple[AttentionUse, ...]:
    """Return the attention nodes of the measured runs, by first execution.

    Args:
        details: The profiles of the phase, one file or one for each step.
        log: Of the process that wrote them, with attention debug output; None where there is none.
        wanted: The execution provider that was asked for.
        runtime_version: Of ONNX Runtime, `1.26.0`.
        phase: Of which the runs are; empty for a session's run.
    """
    executions: dict[NodeKey, NodeExecution] = {}
    for detail in details:
        for execution in detail.executions:
            executions.setdefault(execution.key, execution)
    nodes = [execution for key, execution in executions.items() if is_attention(key.op_type)]
    finder = _Finder(details, log, [execution.key for execution in nodes], wanted, phase)
    found = [_use(execution, finder.evidence(execution.key), phase) for execution in nodes]
    found = [_without_guess(use, runtime_version) for use in found]
    for detail in details[:1]:
        for each in unfused_attention([e for e in detail.executions if e.run == 0]):
            text = f"{each.product.key.op_type}, {each.softmax.key.op_type} and {each.second.key.op_type} one by one"
            key = NodeKey(each.softmax.key.name, "MatMul+Softmax+MatMul", each.softmax.key.execution_provider)
            element_type = each.softmax.inputs[0].element_type
            found.append(AttentionUse(key, (UNFUSED,), text, element_type, each.head_size, each.query_length, phase))
    return tuple(found)


def _use(execution: NodeExecution, evidence: _Evidence, phase: str) -> AttentionUse:
    query = execution.inputs[0] if execution.inputs else None
    return AttentionUse(
        node=execution.key,
        kernels=tuple(sorted(evidence.kernels)),
        evidence=evidence.text,
        element_type=query.element_type if query else "",
        head_size=_head_size(execution),
        query_length=query_length(execution.key.op_type, query.shape if query else ()),
        phase=phase,
    )


def _without_guess(use: AttentionUse, runtime_version: str) -> AttentionUse:
    """Take back `unfused` where the version has no word for XQA and XQA is possible."""
    if (
        use.kernels == (UNFUSED,)
        and use.evidence.startswith(_PRINTED)
        and use.query_length == 1
        and use.node.op_type == "GroupQueryAttention"
        and use.node.execution_provider == _CUDA
        and runtime_version.startswith(_NO_WORD_FOR_XQA)
    ):
        why = (
            f"ONNX Runtime {runtime_version} has no word for XQA and may print that of unfused attention: with "
            "ORT_ENABLE_XQA=0 it is told"
        )
        return AttentionUse(use.node, (), why, use.element_type, use.head_size, use.query_length, use.phase)
    return use


def _head_size(execution: NodeExecution) -> int | None:
    """Return the last extent of a cache or of heads that stand apart, [batch, heads, length, head size].

    Behind query, key and value a mask may stand, which has four extents too; query, key and value in one have five.
    """
    tensors = [*execution.outputs[1:3], *execution.inputs[:3]]
    sizes = [tensor.shape[-1] for tensor in tensors if len(tensor.shape) in (4, 5) and tensor.element_type != "int64"]
    return sizes[0] if sizes else None


def query_length(op_type: str, query: Sequence[int]) -> int | None:
    """Return the extent of a query, [batch, length, hidden] or [batch, heads, length, head size]; None: it has none.

    Args:
        op_type: An attention operator.
        query: Shape of its first input.
    """
    if op_type.startswith(("Paged", "Packed")):
        return None  # all sequences of the batch lie behind one another
    axis = {3: 1, 4: 2, 5: 1}.get(len(query))
    return None if axis is None else query[axis]


class _Finder:
    """What each source says of each node."""

    def __init__(
        self, details: Sequence[Detail], log: OrtLog | None, nodes: Sequence[NodeKey], wanted: str, phase: str
    ) -> None:
        self._log, self._nodes, self._wanted = log, nodes, wanted
        self._runs = sum(detail.runs for detail in details)
        lines = [line for line in log.attention if line.phase in (phase.split(".")[0], "")] if log else []
        self._lines = [line for line in lines if line.text.startswith("Operator=")]
        self._onnx_lines = [line for line in lines if not line.text.startswith("Operator=")]
        self._programs = _programs(details)
        self._kernels = _kernels(details)

    def evidence(self, node: NodeKey) -> _Evidence:
        """Return the strongest evidence: a kernel that a profile names, then what the runtime printed."""
        if node.execution_provider == CPU and self._wanted != CPU:
            return _Evidence(frozenset({ON_CPU}), f"it ran on the CPU, not on {self._wanted}")
        for found in self._of_node(node):
            if found is not None:
                return found
        return _Evidence(frozenset(), self._why_not(node))

    def _of_node(self, node: NodeKey) -> Iterator[_Evidence | None]:
        yield _named("kernels of the profile", self._of_name(self._kernels, node), kernel_of_cuda)
        yield _named("programs of the profile", self._of_name(self._programs, node), kernel_of_webgpu)
        alike = [line for line in self._lines if line.operator == node.op_type]
        own = [line for line in self._lines if line.node and line.node == node.name]
        if not own and (_is_unnamed(node) or not any(line.node for line in alike)):
            own = [line for line in alike if not line.node]
        yield _printed(own)
        if node.op_type == "Attention":
            yield self._of_onnx_lines(node)

    def _of_name(self, by_name: Mapping[tuple[str, str], list[str]], node: NodeKey) -> list[str]:
        unnamed = [] if not _is_unnamed(node) else by_name.get(("", node.op_type), [])
        return by_name.get((node.name, node.op_type), unnamed)

    def _of_onnx_lines(self, node: NodeKey) -> _Evidence | None:
        """The lines name no node: they tell where they all say the same, or where each run has one for each node."""
        lines = self._onnx_lines
        if not lines or len({line.kernel for line in lines}) == 1:
            return _printed(lines)
        nodes = [each for each in self._nodes if each.op_type == "Attention" and each.execution_provider != CPU]
        if len(lines) != len(nodes) * self._runs:
            return None
        return _printed(lines[nodes.index(node) :: len(nodes)])

    def _why_not(self, node: NodeKey) -> str:
        if node.execution_provider == _CUDA:
            if self._log is None:
                return "the kernel is printed to a log, and none was kept (--onnxperf-isolation=process keeps one)"
            return (
                "ONNX Runtime printed no kernel for it: versions before 1.19 print none, a replayed graph neither, and "
                f"{node.op_type} may be an operator that does not print"
            )
        if node.execution_provider == _WEBGPU:
            return "the profile names no program of it that is known: onnxruntime-webgpu 1.25 to 1.27 name them"
        return (
            f"{node.execution_provider or 'the execution provider'} does not tell which kernel it runs, CUDA and "
            "WebGPU do: give the budget the device that it is meant for, on='cuda'"
        )


def _is_unnamed(node: NodeKey) -> bool:
    return not node.name or is_made_up_name(node.name, node.op_type)


def _named(source: str, names: Sequence[str], kernel_of: Callable[[str], str]) -> _Evidence | None:
    kernels = {kernel: name for name in reversed(names) if (kernel := kernel_of(name))}
    if not kernels:
        return None
    return _Evidence(frozenset(kernels), f"{source}: {', '.join(kernels.values())}")


def _printed(lines: Sequence[AttentionLine]) -> _Evidence | None:
    kernels = frozenset(kernel for line in lines for kernel in kernels_of_word(line.kernel))
    words = dict.fromkeys(line.kernel for line in lines)
    return _Evidence(kernels, f"{_PRINTED}{', '.join(words)}") if kernels else None


def _programs(details: Sequence[Detail]) -> dict[tuple[str, str], list[str]]:
    """Return the WebGPU programs by node and operator; `<node>&<operator>&<program>`, and a name may hold an `&`."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for detail in details:
        for name, _ in detail.device_programs:
            parts = name.rsplit("&", 2)
            if len(parts) == 3:
                found[parts[0], parts[1]].append(parts[2])
    return found


def _kernels(details: Sequence[Detail]) -> dict[tuple[str, str], list[str]]:
    """Return the CUDA kernels by the node that launched them: the one whose event stands before them."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for detail in details:
        for event in detail.kernels:
            if event.after is not None and event.op_type in ("", event.after.op_type):
                found[event.after.name, event.after.op_type].append(event.name)
    return found
