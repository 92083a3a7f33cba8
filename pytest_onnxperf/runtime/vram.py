"""Peak device memory of one process, as NVML tells it; sampled, since NVML keeps no high-water mark of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .nvml import Nvml

_BESIDE_REFERENCES: Final = ("paired", "close")


class VramMeter:
    """Samples the device memory of a process.

    In a container whose process ids are not those of the host, NVML does not name the process, and nothing is measured.
    """

    def __init__(self, nvml: Nvml) -> None:
        self.peak_bytes = 0
        self._nvml = nvml

    def sample(self, pid: int, step: str) -> None:
        """Take the memory that the process holds now, over all devices, until a reference workload takes some too."""
        if step in _BESIDE_REFERENCES:
            return
        used = sum(self._nvml.processes(device).get(pid, 0) for device in self._nvml.devices)
        self.peak_bytes = max(self.peak_bytes, used)

    def take(self) -> int:
        """Return the peak, 0 where none was seen, and begin anew: the next process has its own."""
        peak_bytes, self.peak_bytes = self.peak_bytes, 0
        return peak_bytes

    def reason(self) -> str:
        """Return why there is no peak; empty where there is one."""
        if self._nvml.why_not or self.peak_bytes:
            return self._nvml.why_not
        return "NVML names no memory of the measuring process (in a container its process ids may not be the host's)"
