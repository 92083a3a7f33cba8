"""Which stage a measurement is in, by the steps of its processes."""

from __future__ import annotations

import contextlib
import time

import pytest

from pytest_onnxperf.core.stages import Doing, Held, Stage
from pytest_onnxperf.runtime.stages import Stages


def test_a_step_begins_a_stage_and_others_belong_to_the_stage_before_them() -> None:
    told: list[Doing | Held] = []
    stages = Stages(told.append)

    for command in ("hello", "open", "make_feeds", "warm_up", "block", "close"):
        stages.step(command)

    assert told == [Doing(Stage.LOAD), Doing(Stage.WARM_UP), Doing(Stage.ROUNDS)]


def test_how_far_a_stage_is_stays_said_until_the_next() -> None:
    told: list[Doing | Held] = []
    stages = Stages(told.append)

    stages.step("paired")
    stages.at(Stage.REFERENCE, "20 rounds")
    stages.step("paired")
    stages.tick()
    stages.step("open")

    assert told[1:] == [*[Doing(Stage.REFERENCE, ("20 rounds",))] * 2, Doing(Stage.LOAD)]


def test_what_is_one_whole_has_one_stage_whatever_its_steps_and_parts() -> None:
    told: list[Doing | Held] = []
    stages = Stages(told.append)
    part = Stages(stages.relay)

    with stages.whole(Stage.CONFIRM):
        stages.step("open")
        stages.at(Stage.REFERENCE, "20 rounds")
        part.step("block")
    part.step("profile")

    assert told == [
        Doing(Stage.CONFIRM),
        Doing(Stage.CONFIRM, ("20 rounds",)),
        Doing(Stage.CONFIRM),
        Doing(Stage.PROFILE),
    ]


def test_nothing_is_told_before_the_first_step() -> None:
    told: list[Doing | Held] = []

    Stages(told.append).tick()

    assert told == []


@pytest.mark.usefixtures("own_locks")
def test_who_listens_hears_when_a_device_was_held_also_of_a_part_and_of_one_that_failed() -> None:
    told: list[Doing | Held] = []
    part = Stages(Stages(told.append).relay)

    begin_s = time.time()
    with contextlib.suppress(ZeroDivisionError), part.alone_on("cpu"):
        part.step("open")
        _ = 1 / 0

    doing, held = told
    assert doing == Doing(Stage.LOAD)
    assert isinstance(held, Held)
    assert held.device == "cpu"
    assert begin_s <= held.begin_s <= held.end_s <= time.time()
