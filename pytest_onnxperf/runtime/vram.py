"""Peak device memory of one process, as NVML tells it; sampled, since NVML keeps no high-water mark of a process."""

from __future__ import annotations

import contextlib
from typing import Any, Final

_BESIDE_REFERENCES: Final = ("paired", "close")


class VramMeter:
    """Samples the device memory of a process.

    The package `nvidia-ml-py` (module `pynvml`) and a driver must be there. In a container whose process ids are not
    those of the host, NVML does not name the process, and nothing is measured.
    """

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.why_not = ""
        """Why nothing can be measured; empty where NVML answers."""
        self._nvml: Any = None
        self._devices: list[Any] = []
        try:
            import pynvml
        except ImportError:
            self.why_not = "NVML cannot be asked: nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError as error:
            self.why_not = f"NVML does not answer: {error}"
            return
        self._nvml = pynvml

    def sample(self, pid: int, step: str) -> None:
        """Take the memory that the process holds now, over all devices, until a reference workload takes some too."""
        if self._nvml is None or step in _BESIDE_REFERENCES:
            return
        used = 0
        for device in self._devices:
            with contextlib.suppress(self._nvml.NVMLError):
                for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(device):
                    used += (process.usedGpuMemory or 0) if process.pid == pid else 0
        self.peak_bytes = max(self.peak_bytes, used)

    def take(self) -> int:
        """Return the peak, 0 where none was seen, and begin anew: the next process has its own."""
        peak_bytes, self.peak_bytes = self.peak_bytes, 0
        return peak_bytes

    def reason(self) -> str:
        """Return why there is no peak; empty where there is one."""
        if self.why_not or self.peak_bytes:
            return self.why_not
        return "NVML names no memory of the measuring process (in a container its process ids may not be the host's)"
