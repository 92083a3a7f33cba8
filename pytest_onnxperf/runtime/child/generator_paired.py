"""Generations beside reference workloads: between generations for TTFT, between steps for decode."""

from __future__ import annotations

import gc
import random
import time
from typing import TYPE_CHECKING, Any

from .reference import TESTED, prepared

if TYPE_CHECKING:
    from .generator_rounds import Generation

_MOST_ROUNDS = 10_000


class _Side:
    """The reference workloads of one metric, and the times."""

    def __init__(self, sizes: dict[str, dict[str, int]], usual_ns: int) -> None:
        self._references = prepared(sizes, usual_ns)
        self.times_ns: dict[str, list[int]] = {TESTED: [], **{kind: [] for kind in sizes}}

    def run(self) -> None:
        """Run each reference once, in random order."""
        clock = time.perf_counter_ns
        for reference in random.sample(self._references, len(self._references)):
            begin_ns = clock()
            reference.run()
            self.times_ns[reference.kind].append(clock() - begin_ns)

    def found(self) -> dict[str, Any]:
        return {"times_ns": self.times_ns, "specs": {each.kind: each.described() for each in self._references}}


def paired(
    generation: Generation, sizes: dict[str, dict[str, dict[str, int]]], min_rounds: int, max_time_s: float
) -> dict[str, Any]:
    """Time generations (see `GeneratorSteps.paired`)."""
    first_ns, steps_ns = generation.interleaved_round(lambda: None)
    sides = {"ttft": _Side(sizes.get("ttft", {}), first_ns)}
    if steps_ns:
        sides["decode"] = _Side(sizes.get("decode", {}), sorted(steps_ns)[len(steps_ns) // 2])
    ttft, decode = sides["ttft"], sides.get("decode")
    end_ns = time.perf_counter_ns() + int(max_time_s * 1e9)
    gc.collect()
    gc.disable()
    try:
        for count in range(_MOST_ROUNDS):
            if count >= min_rounds and time.perf_counter_ns() >= end_ns:
                break
            is_before = random.random() < 0.5
            if is_before:
                ttft.run()
            first_ns, steps_ns = generation.interleaved_round(decode.run if decode else lambda: None)
            ttft.times_ns[TESTED].append(first_ns)
            if decode is not None:
                decode.times_ns[TESTED] += steps_ns
            if not is_before:
                ttft.run()
    finally:
        gc.enable()
    return {name: side.found() for name, side in sides.items()}
