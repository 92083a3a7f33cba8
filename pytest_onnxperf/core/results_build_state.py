"""States of devices, and where time went, as the file of `--onnxperf-json` holds them; see `results`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .results import TimeSpent
from .results_build_facts import finite, rounded
from .stages import Held

if TYPE_CHECKING:
    from .device_state import GpuState, MachineState
    from .stages import Spent


def gpu_of(state: GpuState) -> GpuState:
    """Return the state of a GPU with few digits."""
    return replace(
        state,
        power_limit_w=finite(state.power_limit_w),
        throttled={reason: rounded(ratio) for reason, ratio in state.throttled.items()},
        utilisation_ratio=finite(state.utilisation_ratio),
        other_use_ratio=finite(state.other_use_ratio),
    )


def machine_of(state: MachineState) -> MachineState:
    """Return the state of a CPU with few digits."""
    return replace(
        state,
        cpu_limit_cores=finite(state.cpu_limit_cores),
        steal_ratio=finite(state.steal_ratio),
        cgroup_throttled_ratio=finite(state.cgroup_throttled_ratio),
    )


def time_spent_of(spent: Spent) -> TimeSpent:
    """Return where the time of one measurement went."""
    stages_s = {str(stage): rounded(seconds) for stage, seconds in spent.stages_s.items()}
    held = [Held(each.device, round(each.begin_s, 6), round(each.end_s, 6)) for each in spent.held]
    return TimeSpent(label=spent.key.label, stages_s=stages_s, held=tuple(held))
