"""Says which stage a measurement is in, from the steps of its processes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.stages import Doing, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STAGES: Final = {
    "hello": Stage.LOAD,
    "open": Stage.LOAD,
    "warm_up": Stage.WARM_UP,
    "outputs": Stage.OUTPUTS,
    "block": Stage.ROUNDS,
    "round": Stage.ROUNDS,
    "load": Stage.ROUNDS,
    "paired": Stage.REFERENCE,
    "profile": Stage.PROFILE,
}
"""Step -> the stage that begins with it. Other steps belong to the stage before them."""


class Stages:
    """The stages of one measurement, whichever of its processes is at work."""

    def __init__(self, tell: Callable[[Doing], None] = lambda _: None) -> None:
        """Begin; `tell` hears each new stage, and about twice a second the one that goes on."""
        self._tell = tell
        self._doing: Doing | None = None
        self._whole: Stage | None = None

    def step(self, command: str) -> None:
        """Take the stage that a step belongs to."""
        before = self._doing.stage if self._doing is not None else None
        stage = self._whole or _STAGES.get(command, before)
        if stage is not None and stage is not before:
            self.at(stage)

    def at(self, stage: Stage, *details: str) -> None:
        """Be in a stage, and say how far it is."""
        self._doing = Doing(self._whole or stage, details)
        self._tell(self._doing)

    def relay(self, doing: Doing) -> None:
        """Hear of another measurement that is part of this one."""
        self.at(doing.stage, *doing.details)

    def tick(self) -> None:
        """Say that the stage goes on."""
        if self._doing is not None:
            self._tell(self._doing)

    @contextmanager
    def whole(self, stage: Stage) -> Iterator[None]:
        """Count all steps of the block to one stage."""
        self.at(stage)
        self._whole = stage
        try:
            yield
        finally:
            self._whole = None
