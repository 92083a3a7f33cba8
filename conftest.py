"""Fixtures and marks of the tests: pytester, and the lanes that need a device."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Final

import pytest

pytest_plugins = ["pytester"]

_LANES: Final = {
    "needs_cpu": ("onnxruntime", "the CPU package, onnxruntime"),
    "needs_webgpu": ("onnxruntime-webgpu", "onnxruntime-webgpu and a (software) Vulkan device"),
    "needs_genai": ("onnxruntime-genai", "onnxruntime-genai"),
    "needs_cuda_package": ("onnxruntime-gpu", "onnxruntime-gpu"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of the lanes."""
    for mark, (_, what) in _LANES.items():
        config.addinivalue_line("markers", f"{mark}: needs {what}; the lane of .ci/run that has it runs it")
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what another lane runs, with the reason."""
    for mark, (distribution, what) in _LANES.items():
        if item.get_closest_marker(mark) and not _is_installed(distribution):
            pytest.skip(f"needs {what}")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
