"""Says which stage a measurement is in, from the steps of its processes."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.stages import Doing, Held, Stage

from .lock import claimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_onnxperf.core.stages import Tell

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

    def __init__(self, tell: Tell = lambda _: None) -> None:
        """Begin; `tell` hears of all."""
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

    def relay(self, told: Doing | Held) -> None:
        """Hear of another measurement that is part of this one."""
        if isinstance(told, Held):
            self._tell(told)
        else:
            self.at(told.stage, *told.details)

    def tick(self) -> None:
        """Say that the stage goes on."""
        if self._doing is not None:
            self._tell(self._doing)

    @contextmanager
    def alone_on(self, device: str) -> Iterator[None]:
        """Hold the lock of a device, and wait for it first where another has it.

        Raises:
            MeasurementError: There can be no lock.
        """
        with claimed(device, partial(self.at, Stage.WAITING, f"`{device}`")):
            begin_s = time.time()
            try:
                yield
            finally:
                self._tell(Held(device, begin_s, time.time()))

    @contextmanager
    def whole(self, stage: Stage) -> Iterator[None]:
        """Count all steps of the block to one stage."""
        self.at(stage)
        self._whole = stage
        try:
            yield
        finally:
            self._whole = None
