"""The state of the CPU, read from a tree of files as Linux has it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.device_state import MachineState
from pytest_onnxperf.runtime.machine_state import MachineMeter

if TYPE_CHECKING:
    from pathlib import Path

CPU = "sys/devices/system/cpu"


class Machine:
    """A root directory with the files of a machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")

    def state(self, *changes: tuple[str, str]) -> MachineState:
        """Return the state after a block in which files changed."""
        meter = MachineMeter(self.root)
        with meter.running():
            for path, text in changes:
                self.write(path, text)
        return meter.state()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_without_these_files_says_nothing(machine: Machine) -> None:
    assert machine.state() == MachineState()


def test_governors_of_all_cores_are_named_once(machine: Machine) -> None:
    for core, governor in enumerate(("powersave", "performance", "powersave")):
        machine.write(f"{CPU}/cpu{core}/cpufreq/scaling_governor", governor)
    machine.write(f"{CPU}/cpufreq/policy0/scaling_governor", "ondemand")
    assert machine.state().governor == "performance, powersave"


def test_stolen_time_is_a_share_of_all_time_of_the_block(machine: Machine) -> None:
    machine.write("proc/stat", "cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 2 3")
    state = machine.state(("proc/stat", "cpu  150 0 120 715 0 0 0 115 99 0\ncpu0 1 2 3"))
    assert state.steal_ratio == pytest.approx(15 / 100)


@pytest.mark.parametrize("old_kernel", ["cpu  100 0 100 700", "", "cpu"])
def test_a_kernel_that_counts_no_stolen_time_has_none(machine: Machine, old_kernel: str) -> None:
    machine.write("proc/stat", old_kernel)
    assert machine.state().steal_ratio is None


@pytest.mark.parametrize(("text", "cores"), [("150000 100000", 1.5), ("max 100000", None), ("nonsense", None)])
def test_the_limit_of_a_cgroup_of_version_2(machine: Machine, text: str, cores: float | None) -> None:
    machine.write("proc/self/cgroup", "0::/job")
    machine.write("sys/fs/cgroup/job/cpu.max", text)
    assert machine.state().cpu_limit_cores == cores


def test_the_lowest_limit_above_it_holds(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/pod/job")
    machine.write("sys/fs/cgroup/pod/job/cpu.max", "400000 100000")
    machine.write("sys/fs/cgroup/pod/cpu.max", "200000 100000")
    assert machine.state().cpu_limit_cores == 2.0


def test_a_container_that_sees_its_own_cgroup_as_the_root(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/")
    machine.write("sys/fs/cgroup/cpu.max", "50000 100000")
    assert machine.state().cpu_limit_cores == 0.5


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2.5), ("-1", None)])
@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_the_limit_of_a_cgroup_of_version_1(machine: Machine, mount: str, quota: str, cores: float | None) -> None:
    machine.write("proc/self/cgroup", "9:memory:/job\n4:cpu,cpuacct:/job\n2:cpuset:/other")
    machine.write(f"sys/fs/cgroup/{mount}/job/cpu.cfs_quota_us", quota)
    machine.write(f"sys/fs/cgroup/{mount}/job/cpu.cfs_period_us", "100000")
    assert machine.state().cpu_limit_cores == cores


def test_a_path_that_is_not_below_the_mount_is_read_at_the_mount(machine: Machine) -> None:
    """In a container `/proc/self/cgroup` of version 1 has the host's path."""
    machine.write("proc/self/cgroup", "4:cpu:/docker/4f2a")
    machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000")
    machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert machine.state().cpu_limit_cores == 1.0


def test_periods_in_which_the_limit_stopped_the_processes(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/job")
    machine.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_periods 100\nnr_throttled 10\nthrottled_usec 7")
    path = "sys/fs/cgroup/job/cpu.stat"
    state = machine.state((path, "usage_usec 9\nnr_periods 120\nnr_throttled 15\nthrottled_usec 9"))
    assert state.cgroup_throttled_ratio == 0.25


def test_thermal_events_of_siblings_are_one(machine: Machine) -> None:
    for core in (0, 1):
        machine.write(f"{CPU}/cpu{core}/thermal_throttle/core_throttle_count", "7")
        machine.write(f"{CPU}/cpu{core}/thermal_throttle/package_throttle_count", "9")
    changes = [(f"{CPU}/cpu{core}/thermal_throttle/package_throttle_count", "11") for core in (0, 1)]
    assert machine.state(*changes).thermal_events == 2
    assert machine.state().thermal_events == 0


def test_blocks_add_up_and_what_lies_between_does_not_count(machine: Machine) -> None:
    meter = MachineMeter(machine.root)

    def stat(idle: int, steal: int) -> None:
        machine.write("proc/stat", f"cpu  0 0 0 {idle} 0 0 0 {steal}")

    stat(0, 0)
    with meter.running():
        stat(90, 10)
    stat(90, 5000)
    with meter.running():
        stat(190, 5000)
    assert meter.state().steal_ratio == pytest.approx(10 / 200)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads files of Linux")
def test_this_machine_can_be_read() -> None:
    meter = MachineMeter()
    with meter.running():
        sum(range(3_000_000))
    state = meter.state()
    shares: list[Any] = [state.steal_ratio, state.cgroup_throttled_ratio]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert state.cpu_limit_cores is None or state.cpu_limit_cores > 0
