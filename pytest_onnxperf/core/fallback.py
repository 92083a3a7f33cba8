"""Why an execution provider does not run, in the words of ONNX Runtime's log."""

from __future__ import annotations

import re
from typing import Final

from .errors import OnnxPerfError, ProviderError

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
_CODE: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_MOST_LINES: Final = 4
_NO_DRIVER: Final = "libcuda.so.1 is part of the NVIDIA driver: it is not installed, or not handed to this container"


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
            lines[_CODE.sub("", readable(message))] = None
    shown = list(lines)[:_MOST_LINES]
    if any("libcuda.so.1" in line for line in shown):
        shown.append(_NO_DRIVER)
    return "\n  ".join(shown)


def with_reason(error: OnnxPerfError, log: str) -> ProviderError:
    """Add what ONNX Runtime printed to the error that an EP does not run."""
    message, reason = readable(str(error)), fallback_reason(log)
    is_news = reason and reason not in message
    return ProviderError(f"{message}\nONNX Runtime said: {reason}" if is_news else message)
