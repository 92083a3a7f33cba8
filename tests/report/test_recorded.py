"""What an update says."""

from __future__ import annotations

import pytest

from pytest_onnxperf.report.recorded import recorded_lines
from tests.reported import held, unmeasured

NEW = ("updated: a.json", "  test_held: new")


def test_what_was_written_and_what_could_not_be() -> None:
    assert recorded_lines([held()], NEW, ["b.json: full"]) == [*NEW, "NOT UPDATED: b.json: full"]


def test_where_all_is_as_recorded_it_says_so() -> None:
    assert recorded_lines([held()], (), ()) == ["updated: nothing, all is as recorded"]


def test_the_mode_that_writes_new_entries_alone_does_not_say_that_all_is_as_recorded() -> None:
    (line,) = recorded_lines([held()], (), (), new_alone=True)
    assert line == "updated: nothing, every measurement has an entry, which the mode `new` keeps"


def test_where_no_test_measures_nothing_is_said() -> None:
    assert recorded_lines([], (), ()) == []


def test_tests_that_did_not_pass_are_named_with_their_ends() -> None:
    failed = [unmeasured("failed", nodeid=f"a.py::TestA::test_{n}[a::b]") for n in range(4)]
    skipped = unmeasured("skipped", nodeid="a.py::test_s")
    assert recorded_lines([held(), *failed, skipped], NEW, ()) == [
        *NEW,
        "not recorded, since a test must pass: 4 failed (TestA::test_0[a::b], TestA::test_1[a::b], TestA::test_2[a::b] "
        "and 1 more), 1 skipped (test_s)",
    ]


@pytest.mark.parametrize("ended", ["failed", "error", "skipped", "xfailed"])
def test_nothing_is_as_recorded_where_a_test_was_left_out(ended: str) -> None:
    assert recorded_lines([unmeasured(ended)], (), ()) == [
        f"not recorded, since a test must pass: 1 {ended} (test_none)"
    ]


def test_a_test_that_passed_against_its_mark_is_recorded() -> None:
    assert recorded_lines([unmeasured("xpassed")], (), ()) == ["updated: nothing, all is as recorded"]
