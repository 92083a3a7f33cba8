"""Rounds of two arms in one process in turn, in random order within each pair."""

from __future__ import annotations

import gc
import os
import random
import time
from typing import TYPE_CHECKING, Any

from .machine import LoadMeter
from .session import StepError, runtime_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REFERENCE, CANDIDATE = "reference", "candidate"


class Turns:
    """Times blocks of pairs, and knows what else ran on the machine since the first."""

    def __init__(self) -> None:
        self._meter: LoadMeter | None = None

    def block(self, rounds: Mapping[str, Callable[[], Any]], pairs: int, max_time_s: float) -> dict[str, Any]:
        """Run pairs of rounds until there are `pairs` or the time is over, at least one, without garbage collection.

        Args:
            rounds: Arm -> runs a round and returns its times.
            pairs: At most so many.
            max_time_s: For them.

        Returns:
            `reference` and `candidate`, what each round returned, `reference_first` (0 or 1 for each pair), and
            `other_load` since the first block.

        Raises:
            StepError: A round failed; the text says of which arm (`run`).
        """
        order = random.Random(os.urandom(16))
        first_flags = [order.getrandbits(1) for _ in range(max(pairs, 1))]
        found: dict[str, list[Any]] = {REFERENCE: [], CANDIDATE: []}
        self._meter = self._meter or LoadMeter(time.monotonic())
        gc.collect()
        gc.disable()
        end_s = time.monotonic() + max_time_s
        try:
            for is_first in first_flags:
                for arm in (REFERENCE, CANDIDATE) if is_first else (CANDIDATE, REFERENCE):
                    found[arm].append(_named(arm, len(found[arm]) + 1, rounds[arm]))
                if time.monotonic() >= end_s:
                    break
        finally:
            gc.enable()
        return {
            **found,
            "reference_first": first_flags[: len(found[REFERENCE])],
            "other_load": self._meter.other_load(time.monotonic()),
        }


def _named(arm: str, number: int, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except StepError as error:
        raise StepError(error.kind, f"the {arm}, round {number}: {error}") from error
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        kind = "run"
        raise StepError(kind, f"the {arm}, round {number}: {runtime_words(error)}") from error
