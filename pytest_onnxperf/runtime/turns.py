"""Rounds of two measuring processes in turn: one timed run at a time, in random order within each pair."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.pairs import MOST_PAIRS, log_ratio
from pytest_onnxperf.core.stages import interval_text
from pytest_onnxperf.core.stopping import Decision, Stopping, pair_plan

from .process import ProcessWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_ALIVE_S: Final = 0.5

Times = dict[str, int]
"""Metric -> ns of one round."""


class HeldWorker(ProcessWorker):
    """Stays open when a subject has done its timing, so that it can be stepped further."""

    def __init__(self, directory: Path, after_open: Callable[[Mapping[str, Any]], None], **options: Any) -> None:
        """Start the process; `after_open` is called with what its step `open` answered."""
        super().__init__(directory, **options)
        self.answers: dict[str, dict[str, Any]] = {}
        self._after_open = after_open

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Do one step, and keep what it answered."""
        answer = super().call(command, **arguments)
        self.answers[command] = answer
        if command == "open":
            self._after_open(answer)
        return answer

    def close(self) -> dict[str, Any]:
        """Do nothing yet: `end` does it."""
        self._after_step = None  # no meter between the rounds in turn
        return {"profile_path": ""}

    def end(self) -> None:
        """End the session and the process."""
        super().close()

    def round(self, untimed: int = 0) -> Times:
        """Run one round, after untimed ones, and return its times by the metric that they judge."""
        answer = super().call("round", untimed=untimed)
        if "round_ns" in answer:
            return {"latency_p50": answer["round_ns"]}
        times = {"ttft": answer["append_ns"] + answer["first_ns"]}
        return times | {"decode_throughput": sum(answer["gaps_ns"])} if answer["gaps_ns"] else times

    @property
    def decoded_tokens(self) -> int:
        """Tokens after the first in one round of a generator, of all rows."""
        prepared = self.answers["prepare"]
        return int(prepared["batch_size"] * (prepared["new_tokens"] - 1))


def take_turns(
    reference: Callable[[], Times],
    tested: Callable[[], Times],
    *,
    min_pairs: int,
    max_time_s: float,
    floor_ratio: float,
    seed: int,
    tell: Callable[..., None] = lambda *_: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple[Times, Times]]:
    """Time pairs of rounds, one round at a time in random order, until every metric is certain or the time is over.

    Args:
        reference: Runs a round of the reference arm.
        tested: Runs a round of the tested arm.
        min_pairs: At least so many.
        max_time_s: For more of them.
        floor_ratio: A median within it is no change.
        seed: Of the order.
        tell: Called about twice a second with texts: how many pairs there are, and the interval so far.
        clock: In seconds.

    Returns:
        The times of (reference, tested) of each pair, by metric.
    """
    reference()  # it has waited while the other was opened
    tested()
    order = random.Random(seed)
    pairs: list[tuple[Times, Times]] = []
    stoppings: dict[str, Stopping] = {}
    begin_s = told_s = clock()
    while True:
        if order.random() < 0.5:
            before = reference()
            pairs.append((before, tested()))
        else:
            after = tested()
            pairs.append((reference(), after))
        now_s = clock()
        if now_s - told_s >= _ALIVE_S:
            told_s = now_s
            tell(f"{len(pairs)} pairs", *(interval_text(*each.interval) for each in [*stoppings.values()][:1]))
        if len(pairs) < min_pairs:
            continue
        new = pairs[-1:] if stoppings else pairs
        if not stoppings:
            fitting = int(len(pairs) * max_time_s / max(now_s - begin_s, 1e-9))
            plan = pair_plan(min(max(fitting, min_pairs), MOST_PAIRS), floor_ratio=floor_ratio)
            stoppings = {name: Stopping(plan) for name in pairs[0][0]}
        is_over = now_s - begin_s >= max_time_s
        decisions = [
            stopping.add([_log_ratio(name, pair) for pair in new], is_out_of_time=is_over)
            for name, stopping in stoppings.items()
        ]
        if Decision.GO_ON not in decisions:
            return pairs


def _log_ratio(name: str, pair: tuple[Times, Times]) -> float:
    before, tested = pair
    return log_ratio(before[name], tested[name])
