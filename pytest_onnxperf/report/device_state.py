"""The state of GPU and machine, as lines of the header and of a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_onnxperf.core.units import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_onnxperf.core.device_state import GpuState, MachineState

_MIB = 1 << 20


def state_lines(gpu: GpuState | None, why_no_gpu: str, machine: MachineState, cores: int) -> Iterator[str]:
    """Yield what the header says of the state before anything is measured; nothing where nothing is to be said.

    Args:
        gpu: None where nothing is known of it.
        why_no_gpu: Why not; empty where the EP runs on no GPU of NVIDIA.
        machine: Of the CPU.
        cores: That may be used.
    """
    if gpu is not None:
        parts = [f"GPU {gpu.uuid_hash}".strip(), *(f"{name} {value}" for name, value in gpu.recorded.items())]
        parts += _parts(gpu)
        if gpu.memory_before_bytes is not None:
            parts.append(f"{_mib(gpu.memory_before_bytes)} in use")
        if gpu.other_processes:
            parts.append(f"{gpu.other_processes} other process{'es' if gpu.other_processes != 1 else ''} on it")
        yield ", ".join(parts)
    elif why_no_gpu:
        yield f"the state of the GPU is not known: {why_no_gpu}"
    parts = [f"governor {machine.governor}"] if machine.governor not in ("", "performance") else []
    if machine.cpu_limit_cores is not None and machine.cpu_limit_cores < cores:
        parts.append(f"limited to the time of {quantity(machine.cpu_limit_cores, 'cores')} by its cgroup")
    if parts:
        yield f"CPU {', '.join(parts)}"


def measured_text(gpu: GpuState) -> str:
    """Return what is known of the GPU while a measurement was timed."""
    clocks = ", ".join(
        f"{clock} {when}"
        for clock, when in (
            (gpu.clock_before_mhz, "before"), (gpu.clock_during_mhz, "meanwhile"), (gpu.clock_after_mhz, "after"),
        )
        if clock is not None
    )  # fmt: skip
    parts = [f"clock {clocks} MHz"] if clocks else []
    if gpu.utilisation_ratio is not None:
        parts.append(f"busy {quantity(gpu.utilisation_ratio, 'ratio')} of the time")
    if gpu.temperature_c is not None:
        parts.append(f"{gpu.temperature_c} C")
    if gpu.memory_before_bytes is not None and gpu.memory_peak_bytes is not None:
        parts.append(f"{_mib(gpu.memory_before_bytes)} in use before, {_mib(gpu.memory_peak_bytes)} at peak")
    if gpu.throttled:
        reasons = ", ".join(f"{name} {quantity(ratio, 'ratio')}" for name, ratio in gpu.throttled.items())
        parts.append(f"clock held back by {reasons} of the readings")
    if gpu.other_processes:
        parts.append(f"{gpu.other_processes} other process{'es' if gpu.other_processes != 1 else ''} on it")
    return "; ".join(parts)


def _parts(gpu: GpuState) -> Iterator[str]:
    if gpu.clock_before_mhz is not None:
        most = f" of {gpu.max_clock_mhz}" if gpu.max_clock_mhz is not None else ""
        yield f"clock {gpu.clock_before_mhz}{most} MHz"
    if gpu.temperature_c is not None:
        yield f"{gpu.temperature_c} C"


def _mib(size_bytes: int) -> str:
    return quantity(size_bytes / _MIB, "MiB")
