"""What a measurement is doing, stage by stage, and where its time went."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .record import TestKey
from .units import change


class Stage(StrEnum):
    """One part of a measurement, as reports write it."""

    WAITING = "waiting for the device"
    """Another measurement holds it."""
    LOAD = "load"
    """A process starts, imports the runtime and opens the model; what is prepared before it counts too."""
    WARM_UP = "warm-up"
    OUTPUTS = "outputs"
    """Those of two arms are compared."""
    ROUNDS = "timed rounds"
    REFERENCE = "reference"
    """Rounds beside the reference workload."""
    PROFILE = "profile"
    """The whole profile process, and reading what it wrote."""
    CONFIRM = "confirm"
    """More processes, because the first looked worse."""
    AGAINST_ITSELF = "A/A"
    """The reference of an A/B against itself."""
    EXPLAIN = "explain"
    """Why the facts are what they are."""


@dataclass(frozen=True, slots=True)
class Doing:
    """A stage, and how far it is."""

    stage: Stage
    details: tuple[str, ...] = ()
    """Such as `45 rounds` and the interval so far, the most important first."""


@dataclass(frozen=True, slots=True)
class Held:
    """A time in which nobody else measured on a device."""

    device: str
    """`cpu`, `cuda-0`: the name of its lock."""
    begin_s: float
    """Seconds since 1970, UTC."""
    end_s: float
    """Seconds since 1970, UTC."""


Tell = Callable[[Doing | Held], None]
"""Hears of each new stage, about twice a second of the one that goes on, and of the times that a device was held."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the time of one measurement went, also of one that failed. Plain data, so that it can cross a worker."""

    key: TestKey
    stages_s: Mapping[str, float]
    """Stage -> seconds; all of them together are the whole."""
    held: tuple[Held, ...] = ()
    """When it held which device, in the order of the ends."""

    @property
    def total_s(self) -> float:
        """The whole."""
        return math.fsum(self.stages_s.values())


def slowest(spent: Sequence[Spent], most: int) -> list[Spent]:
    """Return what took longest, that first, with all that was done under one key put together.

    Args:
        spent: Of a session.
        most: How many; 0 returns all.
    """
    whole: dict[TestKey, dict[str, float]] = {}
    for each in spent:
        stages = whole.setdefault(each.key, {})
        for name, seconds in each.stages_s.items():
            stages[name] = stages.get(name, 0.0) + seconds
    ordered = sorted((Spent(key, stages) for key, stages in whole.items()), key=lambda each: -each.total_s)
    return ordered[:most] if most else ordered


def interval_text(ratio: float, low_ratio: float, high_ratio: float) -> str:
    """Write an estimate with its interval, as changes; an end that is not known yet is a question mark.

    >>> interval_text(1.012, 0.997, 1.03), interval_text(1.2, 0.0, math.inf)
    ('+1.2 % [-0.3 % to +3 %]', '+20 % [? to ?]')
    """
    ends = [change(end) if 0 < end < math.inf else "?" for end in (low_ratio, high_ratio)]
    return f"{change(ratio)} [{ends[0]} to {ends[1]}]"
