"""The steps of an A/B: two sessions in one process, fed with the same values and timed in turn.

Steps that are about one arm name it, so that whoever asks knows which one failed.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from . import inputs, running
from .element_types import InputError, element_type_of
from .output_check import compare_outputs
from .pair_turns import CANDIDATE, REFERENCE, Turns
from .session import StepError, create_session
from .step_marks import no_mark
from .steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class PairSteps:
    """Two sessions and what is done with them. Times are ns of the monotonic clock."""

    def __init__(self) -> None:
        self._sessions: dict[str, Any] = {}
        self._feeds: dict[str, Any] = {}
        self._runs: dict[str, Callable[[], Any]] = {}
        self._turns = Turns()
        self.mark = no_mark

    def hello(self) -> dict[str, Any]:
        """Say which interpreter and runtime these are, as `Steps.hello`."""
        return Steps().hello()

    def open(self, arm: str, job: dict[str, Any]) -> dict[str, Any]:
        """Create the session of one arm (see `create_session`) and return `load_ns` and `inputs`."""
        self._sessions[arm], load_ns = create_session(job)
        return {"load_ns": load_ns, "inputs": inputs.describe_inputs(self._sessions[arm])}

    def make_feeds(self, shapes: dict[str, Any], ranges: dict[str, Any]) -> dict[str, Any]:
        """Make seeded feeds of the given shapes for the reference."""
        return self._take(inputs.make_feeds(self._sessions[REFERENCE], shapes, ranges))

    def set_feeds(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Take the arrays of the test, once they are checked against the reference."""
        return self._take(inputs.check_feeds(self._sessions[REFERENCE], dict(feeds)))

    def _take(self, feeds: dict[str, Any]) -> dict[str, Any]:
        self._feeds = feeds
        self._runs[REFERENCE] = running.runner(self._sessions[REFERENCE], feeds)
        return {"feeds": sorted(feeds)}

    def share_feeds(self) -> dict[str, Any]:
        """Feed the candidate with the same values; floating ones are cast where it takes another width.

        Raises:
            StepError: Its inputs have other names (`input`).
            InputError: One has another type or shape.
        """
        session = self._sessions[CANDIDATE]
        names = {arm: [each.name for each in one.get_inputs()] for arm, one in self._sessions.items()}
        if set(names[REFERENCE]) != set(names[CANDIDATE]):
            kind = "input"
            raise StepError(
                kind,
                "the models have inputs of other names, so that the same feeds cannot go to both: "
                f"{_listed(names[REFERENCE])} in the reference, {_listed(names[CANDIDATE])} in the candidate",
            )
        types = {each.name: each.type for each in self._sessions[REFERENCE].get_inputs()}
        feeds = dict(self._feeds)
        for each in session.get_inputs():
            if each.name in feeds and each.type != types[each.name]:
                feeds[each.name] = _cast(each.name, feeds[each.name], types[each.name], each.type)
        arrays = {name: feed for name, feed in feeds.items() if hasattr(feed, "dtype")}
        if len(arrays) == len(feeds):  # values that numpy lacks are of the same type, and the runtime checks them
            feeds = inputs.check_feeds(session, arrays)
        self._runs[CANDIDATE] = running.runner(session, feeds)
        return {"feeds": sorted(feeds)}

    def warm_up(self, arm: str, rounds: int) -> dict[str, Any]:
        """Run `rounds` untimed rounds of one arm; the time of the first is its cold start."""
        run, times_ns = self._runs[arm], []
        for _ in range(rounds):
            times_ns.append(_timed_ns(run))
        return {"cold_start_ns": times_ns[0] if times_ns else None}

    def outputs(self, rtol: float, atol: float) -> dict[str, Any]:
        """Run both arms once and compare their outputs (see `compare_outputs`)."""
        found = compare_outputs(self._outputs(REFERENCE), self._outputs(CANDIDATE), rtol, atol)
        if found["state"] == "differ":
            again = compare_outputs(self._outputs(REFERENCE), self._outputs(REFERENCE), rtol, atol)
            if again["state"] == "differ":  # of random operators, say
                text = f"the reference differs from itself in two runs, {again['text']}"
                return {**again, "state": "cannot tell", "text": text}
        return found

    def _outputs(self, arm: str) -> dict[str, Any]:
        names = [each.name for each in self._sessions[arm].get_outputs()]
        return dict(zip(names, self._runs[arm]()))

    def block(self, pairs: int, max_time_s: float) -> dict[str, Any]:
        """Time pairs of rounds (see `Turns.block`); each round is its time in ns."""
        return self._turns.block({arm: partial(_timed_ns, run) for arm, run in self._runs.items()}, pairs, max_time_s)

    def close(self) -> dict[str, Any]:
        """Drop both sessions."""
        self._sessions, self._runs, self._feeds, self._turns = {}, {}, {}, Turns()
        gc.collect()
        return {}


def _timed_ns(run: Callable[[], Any]) -> int:
    begin_ns = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin_ns


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _cast(name: str, feed: Any, given: str, wanted: str) -> Any:
    types = [element_type_of(given), element_type_of(wanted)]
    if all(each is not None and each.is_native and each.dtype.kind == "f" for each in types):
        return feed.astype(types[1].dtype)  # type: ignore[union-attr]  # none of them is None
    msg = f"input `{name}` is a {given} in the reference and a {wanted} in the candidate: they cannot get one value"
    raise InputError(msg)
