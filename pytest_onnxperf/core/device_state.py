"""The state of GPU and machine while rounds were timed, and what of it disturbs times.

Bits of the throttle reasons: nvml.h, `nvmlClocksEventReason...`. Those that the user or the load sets (application
clocks, sync boost, display clocks, and the power cap, at which a large product runs on a healthy data centre GPU) are
shown; those by which the hardware defends itself disturb.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Final, TypeVar

from .units import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_T = TypeVar("_T")

THROTTLE_REASONS: Final = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "thermal slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
"""Bit -> word. 0x1, idle, is no throttling."""
_DISTURBING: Final = frozenset({"hardware slowdown", "thermal slowdown", "hardware thermal slowdown", "power brake"})

DISTURBED_CORES_RATIO: Final = 0.2
"""Others that use more than this share of the usable cores while rounds are timed disturb them. A choice: on two cores
it is two fifths of one of them, more than an idle machine with a pytest in it ever uses."""
THROTTLED_READINGS_RATIO: Final = 0.1
"""Of the readings in which the GPU defended itself. A choice: one reading in ten moves a median by little."""
OTHERS_ON_GPU_RATIO: Final = 0.1
"""Share of the time in which others keep the GPU busy. A choice: a desktop's compositor takes a few per cent."""
STEAL_RATIO: Final = 0.1
"""Share of CPU time that the hypervisor gave to others. A choice, half of what processes may take: it cannot be seen
coming, and hits the core that computes."""
CGROUP_THROTTLED_RATIO: Final = 0.1
"""Of the scheduler's periods (100 ms), those in which the cgroup's limit stopped the processes. A choice."""
IDLE_GPU_RATIO: Final = 0.5
"""A GPU that is busy less of the time waits for launches more than it computes. A choice."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What NVML says at one moment; None where it does not say."""

    clock_mhz: int | None = None
    """Of the streaming multiprocessors."""
    throttle_reasons: int | None = None
    temperature_c: int | None = None
    memory_used_bytes: int | None = None
    """By all processes."""
    utilisation_ratio: float | None = None
    """Share of the last second, or of the last sixth of it, in which a kernel ran."""
    other_processes: int = 0
    other_use_ratio: float | None = None
    """Share of the multiprocessors' time that other processes took; None where NVML does not tell processes apart."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU before, while and after rounds were timed; None where NVML does not say."""

    name: str
    """As the driver gives it."""
    uuid_hash: str
    """Tells two cards apart, and is not the card's number."""
    driver: str = ""
    """Its version."""
    mig: str = ""
    """`on` or `off`; empty where the card has none."""
    power_limit_w: float | None = None
    """That is enforced."""
    max_clock_mhz: int | None = None
    """Of the streaming multiprocessors, as the other clocks."""
    clock_before_mhz: int | None = None
    """Before the first process was started."""
    clock_during_mhz: int | None = None
    """Median while rounds were timed."""
    clock_after_mhz: int | None = None
    """After the last process had ended."""
    throttled: Mapping[str, float] = field(default_factory=dict)
    """Reason -> share of the readings while rounds were timed, 0 to 1."""
    temperature_c: int | None = None
    """The highest."""
    memory_before_bytes: int | None = None
    """Of all processes, before the first of ours."""
    memory_peak_bytes: int | None = None
    """Of all processes."""
    utilisation_ratio: float | None = None
    """Mean while rounds were timed."""
    other_processes: int = 0
    """The most that were on it at once."""
    other_use_ratio: float | None = None
    """Mean share of its time that they took; None where it cannot be told."""

    @property
    def recorded(self) -> dict[str, str]:
        """What is set on it and changes times: it is kept beside the versions, and shown where it differs."""
        limit = {"power limit": quantity(self.power_limit_w, "W")} if self.power_limit_w is not None else {}
        return {**limit, "MIG": "on"} if self.mig == "on" else limit

    @property
    def disturbances(self) -> tuple[str, ...]:
        """What disturbed the times, as clauses."""
        found = []
        reasons = {name: ratio for name, ratio in self.throttled.items() if name in _DISTURBING}
        worst = max(reasons.values(), default=0.0)
        if worst >= THROTTLED_READINGS_RATIO:
            found.append(f"the GPU was throttled ({', '.join(reasons)}) in {quantity(worst, 'ratio')} of the readings")
        if self.other_processes and (self.other_use_ratio or 0.0) > OTHERS_ON_GPU_RATIO:
            others = f"{self.other_processes} other process{'es' if self.other_processes != 1 else ''}"
            found.append(f"{others} used {quantity(self.other_use_ratio or 0.0, 'ratio')} of the GPU's time")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class MachineState:
    """The CPU while rounds were timed; None, or empty, where the system has no such file."""

    governor: str = ""
    """Of the clock: `performance`, `powersave`, ...; several are listed."""
    cpu_limit_cores: float | None = None
    """Cores' worth of time that the cgroup allows."""
    steal_ratio: float | None = None
    """Share of the CPU time that the hypervisor gave to others, 0 to 1."""
    cgroup_throttled_ratio: float | None = None
    """Share of the periods in which the cgroup's limit stopped the processes, 0 to 1."""
    thermal_events: int | None = None
    """How often a core was slowed down for its temperature."""

    @property
    def recorded(self) -> dict[str, str]:
        """What is set on it and changes times: it is kept beside the versions, and shown where it differs."""
        governor = {"governor": self.governor} if self.governor else {}
        limit = self.cpu_limit_cores
        return governor if limit is None else {**governor, "CPU limit": quantity(limit, "cores")}

    @property
    def disturbances(self) -> tuple[str, ...]:
        """What disturbed the times, as clauses."""
        found = []
        if (self.steal_ratio or 0.0) > STEAL_RATIO:
            found.append(f"the hypervisor gave {quantity(self.steal_ratio or 0.0, 'ratio')} of the CPU time to others")
        if (self.cgroup_throttled_ratio or 0.0) > CGROUP_THROTTLED_RATIO:
            periods = quantity(self.cgroup_throttled_ratio or 0.0, "ratio")
            limit = "" if self.cpu_limit_cores is None else f" of {quantity(self.cpu_limit_cores, 'cores')}"
            found.append(
                f"the cgroup's limit{limit} stopped the processes in {periods} of its periods (give fewer threads, "
                "--onnxperf-threads, or a higher limit)"
            )
        if self.thermal_events:
            times = f"{self.thermal_events} time{'s' if self.thermal_events != 1 else ''}"
            found.append(f"the CPU was slowed down for its temperature {times}")
        return tuple(found)


def summed_up(
    of: GpuState, before: GpuReading, during: Sequence[GpuReading], others: Sequence[GpuReading], after: GpuReading
) -> GpuState:
    """Sum readings up.

    Args:
        of: The GPU: name, hash, driver, limits.
        before: Before the first process was started.
        during: While rounds were timed.
        others: Between them: memory has its peak in a warm-up.
        after: After the last process ended.
    """
    every = [before, *during, *others, after]
    reasons = [each.throttle_reasons for each in during if each.throttle_reasons is not None]
    counts = Counter(word for mask in reasons for bit, word in THROTTLE_REASONS.items() if mask & bit)
    clocks = _known(each.clock_mhz for each in during)
    busy = _known(each.utilisation_ratio for each in during)
    used = _known(each.other_use_ratio for each in during)
    if not used and before.other_processes and before.utilisation_ratio is not None:
        used = [before.utilisation_ratio]  # what was busy before we came is theirs
    return GpuState(
        name=of.name, uuid_hash=of.uuid_hash, driver=of.driver, mig=of.mig, power_limit_w=of.power_limit_w,
        max_clock_mhz=of.max_clock_mhz,
        clock_before_mhz=before.clock_mhz,
        clock_during_mhz=round(median(clocks)) if clocks else None,
        clock_after_mhz=after.clock_mhz,
        throttled={word: count / len(reasons) for word, count in counts.items()},
        temperature_c=max(_known(each.temperature_c for each in every), default=None),
        memory_before_bytes=before.memory_used_bytes,
        memory_peak_bytes=max(_known(each.memory_used_bytes for each in every), default=None),
        utilisation_ratio=mean(busy) if busy else None,
        other_processes=max(each.other_processes for each in every),
        other_use_ratio=mean(used) if used else None,
    )  # fmt: skip


def _known(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def disturbance_of(other_load_ratio: float, gpu: GpuState | None, machine: MachineState | None, meanwhile: str) -> str:
    """Say what disturbed times; empty where nothing did.

    Args:
        other_load_ratio: Share of the usable cores that others used.
        gpu: None where NVML says nothing.
        machine: None where it was not looked at.
        meanwhile: `rounds were timed`.
    """
    found = []
    if other_load_ratio > DISTURBED_CORES_RATIO:
        found.append(f"other processes used {quantity(other_load_ratio, 'ratio')} of the CPU cores")
    found += [*(gpu.disturbances if gpu else ()), *(machine.disturbances if machine else ())]
    return f"{' and '.join(found)} while {meanwhile}" if found else ""


def idle_hint(gpu: GpuState | None, batch_size: str) -> str:
    """Say that a decode of one sequence leaves the GPU idle; empty where it does not, or NVML does not tell.

    Args:
        gpu: While generations were timed.
        batch_size: Of the generator; empty where none was timed.
    """
    if gpu is None or gpu.utilisation_ratio is None or batch_size != "1" or gpu.utilisation_ratio >= IDLE_GPU_RATIO:
        return ""
    return (
        f"the GPU was busy {quantity(gpu.utilisation_ratio, 'ratio')} of the time with a batch of 1: it waits for "
        "launches; graph capture (enable_cuda_graph), or a larger batch, would use it"
    )
