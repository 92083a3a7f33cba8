"""The meters beside a measurement: GPU, machine and the memory of the measuring process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .devices import NVIDIA
from .gpu_state import GpuMeter
from .lock import device_name
from .machine_state import MachineMeter
from .nvml import Nvml
from .vram import VramMeter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.device_state import GpuState


class StateMeter:
    """What is read beside a measurement on one device."""

    def __init__(self, execution_provider: str, provider_options: Mapping[str, object]) -> None:
        """Find the device.

        Args:
            execution_provider: The EP's short name.
            provider_options: `device_id` is read.
        """
        self.machine = MachineMeter()
        self.vram: VramMeter | None = None
        self.why_no_gpu = ""
        """Why nothing is known of the GPU; empty where it is, or where the EP runs on none of NVIDIA's."""
        self._gpu: GpuMeter | None = None
        if execution_provider in NVIDIA:
            nvml = Nvml()
            physical = device_name(execution_provider, provider_options, os.environ).removeprefix("cuda-")
            self.vram, self.why_no_gpu = VramMeter(nvml), nvml.why_not
            self._gpu = GpuMeter(nvml, physical)

    def begin(self) -> None:
        """Read the state before the first process is started."""
        if self._gpu is not None:
            self._gpu.begin()

    def sample(self, pid: int, step: str) -> None:
        """Read the state while the process `pid` is in a step."""
        if self.vram is not None and self._gpu is not None:
            self.vram.sample(pid, step)
            self._gpu.sample(pid, step)

    def gpu(self) -> GpuState | None:
        """Return the state of the GPU since `begin`; None where nothing is known."""
        return self._gpu.state() if self._gpu is not None else None
