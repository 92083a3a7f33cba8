"""The state of the CPU while it is measured on: clock governor, limit of the cgroup, stolen time, throttling.

Read from files of Linux before and after, which costs nothing meanwhile; what has no file is absent.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.device_state import MachineState

if TYPE_CHECKING:
    from collections.abc import Iterator

_CPU_FILES: Final = "sys/devices/system/cpu"
_STEAL: Final = 7
"""Field of the `cpu` line of /proc/stat; the first eight add up to all time. Source: proc(5)."""


class MachineMeter:
    """Adds up what happened in the blocks that it was `running` in."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._sums: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens in the block."""
        before = self._counters()
        yield
        after = self._counters()
        for name in before.keys() & after.keys():
            self._sums[name] += max(after[name] - before[name], 0)

    def state(self) -> MachineState:
        """Return the settings as they are, and what was counted so far."""
        sums = self._sums
        return MachineState(
            governor=", ".join(sorted({self._text(path) for path in self._paths("cpufreq/scaling_governor")} - {""})),
            cpu_limit_cores=self._limit_cores(),
            steal_ratio=sums["steal"] / sums["cpu"] if sums["cpu"] else None,
            cgroup_throttled_ratio=sums["throttled"] / sums["periods"] if sums["periods"] else None,
            thermal_events=sums.get("thermal"),
        )

    def _counters(self) -> dict[str, int]:
        counters: dict[str, int] = {}
        fields = [int(field) for field in self._text(self._root / "proc/stat").partition("\n")[0].split()[1:9]]
        if len(fields) > _STEAL:
            counters |= {"cpu": sum(fields), "steal": fields[_STEAL]}
        throttles = [self._text(path) for path in self._paths("thermal_throttle/*_throttle_count")]
        if any(throttles):  # hyperthreads of a core, and cores of a package, count the same events
            counters["thermal"] = max(int(text) for text in throttles if text)
        for directory in self._cgroups():
            words = self._text(directory / "cpu.stat").split()
            found = dict(zip(words[::2], words[1::2], strict=False))
            if int(found.get("nr_periods", 0)):
                counters |= {"periods": int(found["nr_periods"]), "throttled": int(found.get("nr_throttled", 0))}
                break
        return counters

    def _limit_cores(self) -> float | None:
        """Return the lowest limit of this process's cgroup and those above it."""
        limits = []
        for directory in self._cgroups():
            quota, _, period = self._text(directory / "cpu.max").partition(" ")  # version 2: `max 100000`
            if not quota:
                quota = self._text(directory / "cpu.cfs_quota_us")  # version 1: -1 is no limit
                period = self._text(directory / "cpu.cfs_period_us")
            with suppress(ValueError):
                if int(quota) > 0 and int(period) > 0:
                    limits.append(int(quota) / int(period))
        return min(limits, default=None)

    def _cgroups(self) -> Iterator[Path]:
        """Yield the directories of this process's cgroup, and of those above it, in which the CPU may be limited."""
        for line in self._text(self._root / "proc/self/cgroup").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number != "0" and "cpu" not in controllers.split(","):
                continue
            mounts = ("sys/fs/cgroup",) if number == "0" else (f"sys/fs/cgroup/{controllers}", "sys/fs/cgroup/cpu")
            mount = next((self._root / name for name in mounts if (self._root / name).is_dir()), None)
            if mount is not None:
                inside = mount / path.strip("/")
                yield from (at for at in (inside, *inside.parents) if at.is_relative_to(mount))

    def _paths(self, pattern: str) -> Iterator[Path]:
        return (self._root / _CPU_FILES).glob(f"cpu[0-9]*/{pattern}")

    def _text(self, path: Path) -> str:
        try:
            return path.read_text("ascii", "replace").strip()
        except OSError:
            return ""
