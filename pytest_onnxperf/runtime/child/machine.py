"""What the operating system says of this process and of the machine while it measures."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

# Fields of the `cpu` line of /proc/stat in which the machine worked, for anyone: user nice system irq softirq steal.
# (Guest time is part of user; idle and iowait are rest.) Source: proc(5).
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_rss_bytes() -> int | None:
    """Return the high-water mark of resident memory of this process; None where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


class LoadMeter:
    """Measures how much of the usable cores other processes used since `clock_s`, a reading of the monotonic clock."""

    def __init__(self, clock_s: float) -> None:
        self._start_s = clock_s
        self._start = _busy_s()

    def other_load(self, clock_s: float) -> float | None:
        """Return the share of the usable cores that others used, 0 to 1; None where it cannot be known."""
        end = _busy_s()
        wall_s = clock_s - self._start_s
        if self._start is None or end is None or wall_s <= 0.05:
            return None
        others = (end["machine"] - self._start["machine"]) - (end["own"] - self._start["own"])
        return max(0.0, others / (wall_s * cores()))


class Metered:
    """Steps that know what others do meanwhile."""

    def __init__(self) -> None:
        self.begin_block()

    def begin_block(self) -> None:
        """Count from here on."""
        self._meter = LoadMeter(time.monotonic())

    def others(self) -> dict[str, Any]:
        """Return `other_load` since the block began, as `LoadMeter` tells it."""
        return {"other_load": self._meter.other_load(time.monotonic())}


def _busy_s() -> dict[str, float] | None:
    try:
        usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        with open("/proc/stat", encoding="ascii") as stat:
            rows = [line.split() for line in stat if line.split(" ", 1)[0] in usable]
        ticks_per_s = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    times = os.times()
    ticks = sum(int(row[1 + place]) for row in rows for place in _BUSY_FIELDS if 1 + place < len(row))
    return {"machine": ticks / ticks_per_s, "own": times.user + times.system}
