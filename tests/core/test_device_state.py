from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.device_state import (
    GpuReading,
    GpuState,
    MachineState,
    disturbance_of,
    idle_hint,
    summed_up,
)
from pytest_onnxperf.report.device_state import measured_text, state_lines

GPU = GpuState("NVIDIA H200", "4f2a")
IDLE = GpuReading()


def gpu_state(*during: GpuReading, before: GpuReading = IDLE) -> GpuState:
    return summed_up(GPU, before, during, [], IDLE)


def throttled(count: int, of: int, mask: int = 0x20) -> GpuState:
    return gpu_state(*[GpuReading(throttle_reasons=mask if index < count else 0) for index in range(of)])


def test_readings_are_summed_up_over_those_that_say_something() -> None:
    state = gpu_state(
        GpuReading(clock_mhz=1000, utilisation_ratio=0.5), GpuReading(clock_mhz=1900), GpuReading(clock_mhz=1800),
        GpuReading(utilisation_ratio=0.7, temperature_c=50),
    )  # fmt: skip
    assert (state.clock_during_mhz, state.temperature_c) == (1800, 50)
    assert state.utilisation_ratio == pytest.approx(0.6)
    assert (state.clock_before_mhz, state.memory_peak_bytes, state.other_use_ratio) == (None, None, None)


@pytest.mark.parametrize(("count", "of", "disturbs"), [(1, 10, True), (1, 11, False), (0, 5, False)])
def test_one_reading_in_ten_is_enough_throttling_to_disturb(count: int, of: int, disturbs: bool) -> None:
    assert bool(throttled(count, of).disturbances) is disturbs


def test_a_power_cap_is_shown_and_does_not_disturb() -> None:
    state = throttled(5, 5, 0x4)
    assert state.throttled == {"power cap": 1.0}
    assert state.disturbances == ()


@pytest.mark.parametrize(
    ("state", "disturbs"),
    [
        (MachineState(), False),
        (MachineState(steal_ratio=0.1), False),
        (MachineState(steal_ratio=0.11), True),
        (MachineState(cgroup_throttled_ratio=0.1), False),
        (MachineState(cgroup_throttled_ratio=0.11), True),
        (MachineState(thermal_events=0), False),
        (MachineState(thermal_events=1), True),
        (MachineState(governor="powersave", cpu_limit_cores=0.5), False),
    ],
)
def test_what_of_the_machine_disturbs(state: MachineState, disturbs: bool) -> None:
    assert bool(state.disturbances) is disturbs


@pytest.mark.parametrize(
    ("load", "gpu", "machine", "text"),
    [
        (0.2, GPU, MachineState(), ""),
        (0.21, None, None, "other processes used 21 % of the CPU cores while rounds were timed"),
        (
            0.5, throttled(1, 1), MachineState(thermal_events=2),
            "other processes used 50 % of the CPU cores and the GPU was throttled (thermal slowdown) in 100 % of the "
            "readings and the CPU was slowed down for its temperature 2 times while rounds were timed",
        ),
        (
            0.0, None, MachineState(cgroup_throttled_ratio=0.4, cpu_limit_cores=1.5),
            "the cgroup's limit of 1.5 cores stopped the processes in 40 % of its periods (give fewer threads, "
            "--onnxperf-threads, or a higher limit) while rounds were timed",
        ),
    ],
)  # fmt: skip
def test_all_that_disturbed_is_said(load: float, gpu: Any, machine: Any, text: str) -> None:
    assert disturbance_of(load, gpu, machine, "rounds were timed") == text


@pytest.mark.parametrize(
    ("busy", "batch", "hints"),
    [(0.49, "1", True), (0.5, "1", False), (0.1, "8", False), (0.1, "", False), (None, "1", False)],
)
def test_a_batch_of_one_that_leaves_the_gpu_idle_is_a_hint(busy: float | None, batch: str, hints: bool) -> None:
    state = gpu_state(GpuReading(utilisation_ratio=busy))
    assert bool(idle_hint(state, batch)) is hints
    assert idle_hint(None, batch) == ""


def test_what_is_set_is_recorded_and_what_changes_is_not() -> None:
    state = GpuState("H", "4f", mig="on", power_limit_w=350.0, clock_during_mhz=1000, temperature_c=60)
    assert state.recorded == {"power limit": "350 W", "MIG": "on"}
    assert GpuState("H", "4f", mig="off").recorded == {}
    machine = MachineState("powersave", 1.5, steal_ratio=0.5)
    assert machine.recorded == {"governor": "powersave", "CPU limit": "1.5 cores"}
    assert MachineState().recorded == {}


def test_the_header_says_what_is_known_of_the_gpu() -> None:
    state = GpuState(
        "NVIDIA H200", "4f2a", power_limit_w=700.0, max_clock_mhz=1980, clock_before_mhz=345, temperature_c=34,
        memory_before_bytes=3 << 20, other_processes=2,
    )  # fmt: skip
    assert list(state_lines(state, "", MachineState(), 2)) == [
        "GPU 4f2a, power limit 700 W, clock 345 of 1980 MHz, 34 C, 3 MiB in use, 2 other processes on it"
    ]


def test_without_nvml_the_header_says_so_once_and_on_a_cpu_nothing() -> None:
    assert list(state_lines(None, "nvidia-ml-py is not installed", MachineState(), 2)) == [
        "the state of the GPU is not known: nvidia-ml-py is not installed"
    ]
    assert list(state_lines(None, "", MachineState(), 2)) == []


@pytest.mark.parametrize(
    ("machine", "lines"),
    [
        (MachineState("performance"), []),
        (MachineState("powersave"), ["CPU governor powersave"]),
        (MachineState(cpu_limit_cores=2.0), []),
        (MachineState("ondemand", 1.5), ["CPU governor ondemand, limited to the time of 1.5 cores by its cgroup"]),
    ],
)
def test_the_header_says_what_holds_the_cpu_back(machine: MachineState, lines: list[str]) -> None:
    assert list(state_lines(None, "", machine, 2)) == lines


def test_the_line_of_a_measurement() -> None:
    state = summed_up(
        GPU,
        GpuReading(345, 0, 34, 1 << 20, 0.0),
        [GpuReading(1755, 0x4, 61, 1 << 30, 0.9)],
        [],
        GpuReading(1980, 0, 50, 1 << 20, 0.0, 1),
    )
    assert measured_text(state) == (
        "clock 345 before, 1755 meanwhile, 1980 after MHz; busy 90 % of the time; 61 C; 1 MiB in use before, "
        "1024 MiB at peak; clock held back by power cap 100 % of the readings; 1 other process on it"
    )
