"""Performance regression tests for ONNX models, as a pytest plugin.

The names below are for annotations in tests; they are loaded when asked for, since a pytest session that measures
nothing must not notice the plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.record import Record
    from .generator_handles import GenaiGenerator, GenaiGenerators
    from .handles import OnnxSession, OnnxSessions

__all__ = ["GenaiGenerator", "GenaiGenerators", "OnnxSession", "OnnxSessions", "Record", "__version__"]
__version__ = "0.1.0"

_HOMES = {
    "GenaiGenerator": "generator_handles",
    "GenaiGenerators": "generator_handles",
    "OnnxSession": "handles",
    "OnnxSessions": "handles",
    "Record": "core.record",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
