"""Asks NVML, NVIDIA's library of management, through the package `nvidia-ml-py` (module `pynvml`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pytest_onnxperf.core.environment import slug


class Nvml:
    """NVML, where package and driver are there; where not, it says why and answers nothing."""

    def __init__(self) -> None:
        self.why_not = ""
        """Why nothing can be asked; empty where NVML answers."""
        self.devices: list[Any] = []
        self._library: Any = None
        try:
            import pynvml
        except ImportError:
            self.why_not = "NVML cannot be asked: nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self.devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError as error:
            self.why_not = f"NVML does not answer: {error}"
            return
        self._library = pynvml

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function by its name; None where the package, the driver or the device does not have it."""
        with suppress(AttributeError):  # an older package
            call = getattr(self._library, function)
            with suppress(self._library.NVMLError):
                return call(*arguments)
        return None

    def constant(self, name: str) -> int:
        """Return a constant of the package."""
        return int(getattr(self._library, name))

    def device(self, physical: str) -> Any:
        """Return the handle of a device; None where NVML has none of that name.

        Args:
            physical: Its index, or its UUID, or the beginning of it, as a slug: `0`, `gpu-4f2a`, `mig-9c1e`.
        """
        if physical.isdigit():
            return self.devices[int(physical)] if int(physical) < len(self.devices) else None
        for device in self.devices:
            for handle in (device, *self._instances(device)):
                if slug(self.text("nvmlDeviceGetUUID", handle)).startswith(physical):
                    return device  # clocks, power and load are the whole card's
        return None

    def text(self, function: str, *arguments: Any) -> str:
        """Return what a function answers as text, which old packages give as bytes; empty where it does not."""
        answer = self.ask(function, *arguments)
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer or "")

    def processes(self, device: Any) -> dict[int, int]:
        """Return the processes that compute on a device -> the memory that each holds, 0 where it is not told."""
        found = self.ask("nvmlDeviceGetComputeRunningProcesses", device) or ()
        return {process.pid: process.usedGpuMemory or 0 for process in found}

    def process_use(self, device: Any, since_us: int) -> list[Any] | None:
        """Return the samples of processes' use since a CPU timestamp, none where nobody used it; None: it cannot tell.

        Args:
            device: Its handle.
            since_us: The latest timestamp that was seen; 0 at first.
        """
        if self._library is None:
            return None
        try:
            return list(self._library.nvmlDeviceGetProcessUtilization(device, since_us))
        except AttributeError:  # an older package
            return None
        except self._library.NVMLError as error:
            nobody = (self._library.NVML_SUCCESS, self._library.NVML_ERROR_NOT_FOUND)
            return [] if error.value in nobody else None

    def _instances(self, device: Any) -> list[Any]:
        """Return the MIG instances of a card."""
        most = self.ask("nvmlDeviceGetMaxMigDeviceCount", device) or 0
        found = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index) for index in range(most))
        return [handle for handle in found if handle is not None]
