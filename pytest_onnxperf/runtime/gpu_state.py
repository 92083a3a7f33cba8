"""The state of an NVIDIA GPU while it is measured on, as NVML tells it.

It is read in pytest's process, about twice a second while that waits for an answer, and after each step: the measuring
process does not notice, and no thread is needed. Only readings in steps that time rounds say how busy and how fast it
was.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.device_state import OTHERS_ON_GPU_RATIO, GpuReading, GpuState, summed_up

if TYPE_CHECKING:
    from .nvml import Nvml

TIMED_STEPS: Final = frozenset({"block", "paired", "load"})
"""Steps of a measuring process that time rounds."""
_LONGEST_AVERAGE_S: Final = 1.1
"""NVML's utilisation is an average over at most the last second. (Source: nvml.h, `nvmlUtilization_t`.)"""
_HASH_DIGITS: Final = 12


class GpuMeter:
    """Reads the state of one GPU: `begin`, `sample` as often as there is time, `state`."""

    def __init__(self, nvml: Nvml, physical: str) -> None:
        """Find the device.

        Args:
            nvml: Which answers.
            physical: The device, as `Nvml.device` takes it.
        """
        self._nvml, self._device = nvml, nvml.device(physical)
        self._before: GpuReading | None = None
        self._before_pids: frozenset[int] = frozenset()
        self._timed: list[GpuReading] = []
        self._others: list[GpuReading] = []
        self._seen_us = 0
        """CPU timestamp of the latest sample of processes' use."""

    def begin(self) -> None:
        """Read the state before the first process is started. What has just ended may still be in its averages."""
        if self._device is None:
            return
        self._before_pids = frozenset(self._nvml.processes(self._device))
        self._before = self._read(None)
        if self._before.other_processes and (self._before.utilisation_ratio or 0.0) > OTHERS_ON_GPU_RATIO:
            time.sleep(_LONGEST_AVERAGE_S)
            self._before = self._read(None)

    def sample(self, pid: int, step: str) -> None:
        """Read the state while the process `pid` is in a step."""
        if self._before is not None:
            (self._timed if step in TIMED_STEPS else self._others).append(self._read(pid))

    def state(self) -> GpuState | None:
        """Return the state from `begin` until now; None where there is nothing to say."""
        if self._before is None:
            return None
        return summed_up(self._identity(), self._before, self._timed, self._others, self._read(None))

    def _identity(self) -> GpuState:
        ask, device = self._nvml.ask, self._device
        uuid, mig = self._nvml.text("nvmlDeviceGetUUID", device), ask("nvmlDeviceGetMigMode", device)
        power_mw = ask("nvmlDeviceGetEnforcedPowerLimit", device)
        return GpuState(
            name=self._nvml.text("nvmlDeviceGetName", device),
            uuid_hash=sha256(uuid.encode()).hexdigest()[:_HASH_DIGITS] if uuid else "",
            driver=self._nvml.text("nvmlSystemGetDriverVersion"),
            mig="" if mig is None else "on" if mig[0] else "off",
            power_limit_w=None if power_mw is None else power_mw / 1000,
            max_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", device, self._nvml.constant("NVML_CLOCK_SM")),
        )

    def _read(self, child: int | None) -> GpuReading:
        ask, device = self._nvml.ask, self._device
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", device)
        if reasons is None:  # its name before driver 535
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
        memory, busy = ask("nvmlDeviceGetMemoryInfo", device), ask("nvmlDeviceGetUtilizationRates", device)
        others = self._other_pids(child)
        return GpuReading(
            clock_mhz=ask("nvmlDeviceGetClockInfo", device, self._nvml.constant("NVML_CLOCK_SM")),
            throttle_reasons=reasons,
            temperature_c=ask("nvmlDeviceGetTemperature", device, self._nvml.constant("NVML_TEMPERATURE_GPU")),
            memory_used_bytes=None if memory is None else memory.used,
            utilisation_ratio=None if busy is None else busy.gpu / 100,
            other_processes=len(others),
            other_use_ratio=self._other_use(others),
        )

    def _other_pids(self, child: int | None) -> frozenset[int]:
        """Return who else computes on it.

        In a container process ids may be the host's, and the child's is then not among them: who came after `begin`
        cannot be told from it, and only those who were there before are others.
        """
        listed = frozenset(self._nvml.processes(self._device))
        if child is not None and child not in listed:
            listed &= self._before_pids
        return frozenset(pid for pid in listed if pid != child and not _is_ours(pid))

    def _other_use(self, others: frozenset[int]) -> float | None:
        """Return the share of its time that others took since the last reading; None where NVML does not tell."""
        samples = self._nvml.process_use(self._device, self._seen_us)
        if samples is None:
            return None
        used = {pid: [sample.smUtil for sample in samples if sample.pid == pid] for pid in others}
        self._seen_us = max([self._seen_us, *(sample.timeStamp for sample in samples)])
        return float(sum(sum(values) / len(values) for values in used.values() if values) / 100)


def _is_ours(pid: int) -> bool:
    """True: this process, or one that it started, or one that those started."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])  # its parent, behind the name in brackets. Source: proc(5)
    return False
