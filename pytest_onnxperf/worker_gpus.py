"""A GPU for each worker of pytest-xdist, where this machine has several that are alike."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Final

import pytest

from .core.visible_gpus import VisibleGpus
from .report.summary import prefixed_lines
from .runtime.devices import visible_gpus
from .runtime.nvml import Nvml

_KEY: Final = "onnxperf_cuda_visible_devices"
_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"


def take(config: pytest.Config) -> None:
    """In a worker, take the GPUs that the controller gave it, before a test module loads what uses them."""
    devices = getattr(config, "workerinput", {}).get(_KEY)
    if devices:
        os.environ[_VARIABLE] = devices


class WorkerGpus:
    """Registered under --onnxperf, and not in a worker of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @cached_property
    def _gpus(self) -> VisibleGpus | None:
        """The GPUs of this machine; None where there is no choice, or where there are no workers on it."""
        specs = self._config.getoption("tx", None) or []  # of pytest-xdist: `popen`, or `3*popen`
        if not specs or not all("popen" in spec for spec in specs):
            return None
        names = visible_gpus(Nvml(), os.environ)
        return VisibleGpus(names) if len(names) > 1 else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker its GPU."""
        if self._gpus is not None:
            node.workerinput[_KEY] = self._gpus.take(node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Give the GPU of a worker that ended, or crashed, to the next."""
        if self._gpus is not None:
            self._gpus.free(node.gateway.id)

    def pytest_report_header(self) -> list[str]:
        """Say which GPUs the workers have."""
        if self._gpus is None:
            return []
        return prefixed_lines(f"each worker has a GPU as its first, in turn: {', '.join(self._gpus.names)}")
