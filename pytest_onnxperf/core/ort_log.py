"""What ONNX Runtime says in its log that a profile does not hold: nodes put on the CPU on purpose, an EP that fails."""

from __future__ import annotations

import re
from typing import Final

_FORCED_TO_CPU: Final = re.compile(
    r"Force fallback to CPU execution for node: (.*?) because the CPU execution path is deemed"
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_LINE: Final = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \[([VIWEF]):[^\]]*\] (.*)$")
_REASONS: Final = (
    "Failed to load",
    "Failed to create",
    "EP Error",
    "CUDA failure",
    "CUDNN failure",
    "WebGPU",
    "Vulkan",
)
_MOST_LINES: Final = 4


def forced_cpu_nodes_in_log(text: str) -> frozenset[str]:
    """Return the names of the nodes that the runtime put on the CPU on purpose, to compute shapes there.

    The log must have been written with severity 1 (info) or below: nothing is said otherwise.
    (Source: onnxruntime fallback_cpu_capability.cc.)

    >>> forced_cpu_nodes_in_log(
    ...     "ORT optimization- Force fallback to CPU execution for node: gather because the CPU execution path is "
    ...     "deemed faster than overhead involved with execution on other EPs  capable of executing this node"
    ... )
    frozenset({'gather'})
    """
    return frozenset(_FORCED_TO_CPU.findall(text))


def readable(message: str) -> str:
    """Take the place in ONNX Runtime's source and the broken condition off a message, where it says more behind them.

    >>> readable("RuntimeError: /src/webgpu_context.cc:65 void f(int) status == Success was false. No adapter")
    'RuntimeError: No adapter'
    """
    return re.sub(r"\S+\.(?:cc|cpp|h):\d+ (?:.* was false\.\s*(?=\S)|.*?(?=\[ONNXRuntimeError\]))", "", message)


def fallback_reason(text: str) -> str:
    """Return the lines of a log that say why an execution provider does not run; empty where none does.

    Warnings and errors that name a library, a device or a provider count; time stamps and colours are taken off.

    >>> fallback_reason("2026-12-02 00:00:00.1 [E:onnxruntime:Default, x.cc:1 f] Failed to load library libx.so: no")
    'Failed to load library libx.so: no'
    """
    lines: dict[str, None] = {}
    for line in _ANSI.sub("", text).splitlines():
        match = _LINE.match(line.strip())
        if match and match.group(1) not in "WEF":
            continue
        message = match.group(2) if match else line.strip()
        if any(mark in message for mark in _REASONS) and not message.startswith("at "):
            lines[readable(message)] = None
    return "\n  ".join(list(lines)[:_MOST_LINES])
