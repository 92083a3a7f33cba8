"""Recorded processes: JSON lines, one fresh process each, and how checks are drawn from them.

A line holds `kind`, `t0` (wall clock at the start, s) and `data`, one or two lists of round times in ns. Kinds: `A` the
base and `B5` one that is 5 % slower; `dAA`, `dA5` both in one process, in random order within each pair; `pAA`, `pA5`
two processes stepped in turn; `rnp100`, `rnp105` the model (the second list) beside a reference `np` (the first);
`gtiny_decode_memory105` the same of a generator, whose lists hold several times for each of its `rounds` generations.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_KINDS: Final = (
    (re.compile(r"^(A)$|^B(\d+)$"), "single"),
    (re.compile(r"^dA(?:(A)|(\d+))$"), "pairs"),
    (re.compile(r"^pA(?:(A)|(\d+))$"), "lockstep"),
)
_REFERENCE: Final = re.compile(r"^([rg])([a-z_]+)(\d+)$")
BESIDE: Final = {"r": "reference", "g": "generator"}
"""First letter of a kind that was timed beside a reference -> first word of its series."""


@dataclass(frozen=True, slots=True)
class Process:
    """The rounds of one process, in ns, in the order they were run."""

    start_s: float
    data: tuple[NDArray[np.float64], ...]
    rounds: int
    """Each list holds equally many times of each."""

    def first(self, rounds: int) -> tuple[NDArray[np.float64], ...]:
        """Return the times of the first so many rounds."""
        return tuple(each[: len(each) // self.rounds * rounds] for each in self.data)


@dataclass(frozen=True, slots=True)
class Recording:
    """One file: series (`single`, `pairs`, `lockstep`, `reference np`) -> slowdown in percent -> processes by start."""

    name: str
    series: dict[str, dict[int, list[Process]]]


def series_of(kind: str) -> tuple[str, int]:
    """Return the series and the slowdown of a kind.

    >>> series_of("dA5"), series_of("rnp103"), series_of("gtiny_ttft_compute100")
    (('pairs', 5), ('reference np', 3), ('generator tiny_ttft_compute', 0))
    """
    for pattern, series in _KINDS:
        if found := pattern.match(kind):
            return series, 0 if found[1] else int(found[2])
    if found := _REFERENCE.match(kind):
        return f"{BESIDE[found[1]]} {found[2]}", int(found[3]) - 100
    msg = f"{kind!r} is no kind of recorded process: A, B5, dA5, pA5, rnp105 and gtiny_ttft_compute105 are"
    raise ValueError(msg)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, gzipped or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def files(directory: Path) -> list[Path]:
    """Return the files of recordings, by name."""
    return sorted(path for path in directory.iterdir() if path.name.endswith((".jsonl", ".jsonl.gz")))


def load(path: Path) -> Recording | None:
    """Read a file; None where it holds no rounds but statistics."""
    series: dict[str, dict[int, list[Process]]] = defaultdict(lambda: defaultdict(list))
    for each in lines(path):
        if "data" not in each:
            return None
        name, percent = series_of(each["kind"])
        data = tuple(np.array(rounds, float) for rounds in each["data"])
        series[name][percent].append(Process(each["t0"], data, each.get("rounds", len(data[0]))))
    for by_percent in series.values():
        for processes in by_percent.values():
            processes.sort(key=lambda process: process.start_s)
    return Recording(path.name, {name: dict(by_percent) for name, by_percent in series.items()})


def consecutive(
    stored_count: int, stored: int, current_count: int, current: int, *, same: bool, seed: int, draws: int
) -> list[tuple[range, range]]:
    """Draw checks: `stored` processes that follow one another in time, and `current` others that do.

    An update records its processes within a minute, and a check runs its own likewise: neighbours in time resemble one
    another, so this is stricter than to draw each process by itself. With `same` both come from one series and do not
    overlap.
    """
    rng = np.random.default_rng(seed)
    checks: list[tuple[range, range]] = []
    if stored_count < stored or current_count < current or (same and stored_count < stored + current):
        return []
    while len(checks) < draws:
        old = int(rng.integers(stored_count - stored + 1))
        new = int(rng.integers(current_count - current + 1))
        if not same or new >= old + stored or new + current <= old:
            checks.append((range(old, old + stored), range(new, new + current)))
    return checks
