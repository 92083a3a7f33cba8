"""Where time went: put together by key, the slowest first."""

from __future__ import annotations

import msgspec
import pytest

from pytest_onnxperf.core.outcome import TestOutcome
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.core.stages import Spent, Stage, slowest

A, B, C = (TestKey("test_a.py", name) for name in "abc")


def test_what_was_done_under_one_key_is_put_together() -> None:
    spent = [Spent(A, {Stage.LOAD: 1.0}), Spent(B, {Stage.LOAD: 2.5}), Spent(A, {Stage.LOAD: 1.0, Stage.CONFIRM: 1.0})]

    assert slowest(spent, 0) == [Spent(A, {"load": 2.0, "confirm": 1.0}), Spent(B, {"load": 2.5})]


@pytest.mark.parametrize(("most", "keys"), [(0, [C, B, A]), (1, [C]), (2, [C, B]), (9, [C, B, A])])
def test_as_many_as_asked_for_are_returned_and_0_is_all(most: int, keys: list[TestKey]) -> None:
    spent = [Spent(A, {"load": 1.0}), Spent(B, {"load": 2.0}), Spent(C, {"load": 3.0})]

    assert [each.key for each in slowest(spent, most)] == keys


def test_it_crosses_a_worker_as_plain_data() -> None:
    outcome = TestOutcome("test_a.py::a", (), spent=(Spent(A, {Stage.LOAD: 1.0}),))

    plain = msgspec.to_builtins(outcome)

    assert type(next(iter(plain["spent"][0]["stages_s"]))) is str
    assert msgspec.convert(plain, TestOutcome) == outcome
