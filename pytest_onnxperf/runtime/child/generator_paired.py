"""Generations beside reference workloads: between generations for TTFT, between steps for decode."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any

from .reference import NotPossibleError
from .references import TESTED, References

if TYPE_CHECKING:
    from .generator_rounds import Generation


class PairedSteps:
    """Keeps what is timed from one step `paired` to the next."""

    def __init__(self) -> None:
        self._paired: PairedGenerations | None = None

    def take(
        self, generation: Generation, sizes: dict[str, dict[str, dict[str, int]]], rounds: int, device_id: int
    ) -> dict[str, Any]:
        """Do one step (see `GeneratorSteps.paired`)."""
        try:
            if self._paired is None or self._paired.sizes != sizes:
                self.close()
                self._paired = PairedGenerations(generation, sizes, device_id)
            return self._paired.take(rounds)
        except NotPossibleError as error:
            self.close()
            return {name: {"times_ns": {}, "specs": {}, "why_not": str(error)} for name in sizes}

    def close(self) -> None:
        """Drop it."""
        if self._paired is not None:
            self._paired.close()
        self._paired = None


class PairedGenerations:
    """Takes as many generations as are asked for, again and again, beside the same reference workloads.

    They stay from one piece to the next: their sizes are found once, and the memory reference walks on where it was.
    """

    def __init__(self, generation: Generation, sizes: dict[str, dict[str, dict[str, int]]], device_id: int) -> None:
        """Prepare the workloads (see `GeneratorSteps.paired`).

        Raises:
            NotPossibleError: One cannot run here.
        """
        self.sizes = sizes
        self._generation = generation
        first_ns, steps_ns = generation.interleaved_round(lambda: None)
        usual_ns = {"ttft": first_ns, "decode": sorted(steps_ns)[len(steps_ns) // 2] if steps_ns else first_ns}
        self._sides: dict[str, _Side] = {}
        try:
            for name, kinds in sizes.items():
                self._sides[name] = _Side(kinds, usual_ns[name], device_id)
        except NotPossibleError:
            self.close()
            raise

    def take(self, rounds: int) -> dict[str, Any]:
        """Time so many generations, with the garbage collector off."""
        for side in self._sides.values():
            side.clear()
        gc.collect()
        gc.disable()
        try:
            for _ in range(rounds):
                self._generate()
        finally:
            gc.enable()
        return {name: side.found() for name, side in self._sides.items()}

    def close(self) -> None:
        """Free what the workloads hold on the device."""
        for side in self._sides.values():
            side.close()

    def _generate(self) -> None:
        ttft, decode = self._sides["ttft"], self._sides.get("decode")
        is_before = random.random() < 0.5
        if is_before:
            ttft.run()
        first_ns, steps_ns = self._generation.interleaved_round(decode.run if decode else lambda: None)
        ttft.times_ns[TESTED].append(first_ns)
        if decode is not None:
            decode.times_ns[TESTED] += steps_ns
        if not is_before:
            ttft.run()


class _Side:
    """The reference workloads of one metric, and the times of a piece."""

    def __init__(self, sizes: dict[str, dict[str, int]], usual_ns: int, device_id: int) -> None:
        self._references = References(sizes, usual_ns, device_id)
        self._kinds = list(sizes)
        self.times_ns: dict[str, list[int]] = {}

    def clear(self) -> None:
        self.times_ns = {TESTED: [], **{kind: [] for kind in self._kinds}}

    def run(self) -> None:
        """Run each reference once, in random order."""
        self._references.run(self.times_ns)

    def found(self) -> dict[str, Any]:
        return {"times_ns": self.times_ns, "specs": self._references.described(), "why_not": ""}

    def close(self) -> None:
        self._references.close()
