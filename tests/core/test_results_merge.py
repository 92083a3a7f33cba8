"""Files of results made one."""

from __future__ import annotations

import msgspec
import pytest

from pytest_onnxperf.core.errors import ResultsError
from pytest_onnxperf.core.results import Results, Test
from pytest_onnxperf.core.results_build import comparison_of
from pytest_onnxperf.core.results_merge import merge
from tests.records import MS
from tests.results import ab_record, everything, machine, run, session_outcome, test_of, with_versions


def file(*tests: Test, **changes: object) -> Results:
    return Results(runs=(run(*tests, **changes),))


A, B = test_of("t.py::a", session_outcome()), test_of("t.py::b", session_outcome())
OTHER_A = test_of("t.py::a", session_outcome(metrics={"latency_p50": (3.0 * MS,)}))
SKIPPED = test_of("t.py::a", outcome="skipped")


def names(results: Results) -> list[list[str]]:
    return [[test.nodeid for test in one.tests] for one in results.runs]


def test_two_shards_of_one_machine_become_two_runs_of_one_file_without_a_warning() -> None:
    merged, warnings = merge([("a.json", file(A)), ("b.json", file(B, started="2026-12-02T08:00:01.000+00:00"))])

    assert names(merged) == [["t.py::a"], ["t.py::b"]]
    assert warnings == ()


def test_a_merged_file_can_be_merged_again_in_any_grouping() -> None:
    files = [(f"{i}.json", file(test_of(f"t.py::{i}", session_outcome()), commit=str(i) * 40)) for i in range(3)]

    left, _ = merge([("l", merge(files[:2])[0]), files[2]])
    right, _ = merge([files[0], ("r", merge(files[1:])[0])])

    assert left == right == merge(files)[0]


def test_a_file_merged_with_itself_is_itself() -> None:
    assert merge([("a.json", everything()), ("a.json", everything())]) == merge([("a.json", everything())])
    assert merge([("a.json", everything())])[0] == everything()


def test_two_machines_are_kept_with_a_warning_that_names_both() -> None:
    merged, (warning,) = merge([("a.json", file(A)), ("b.json", file(B, machine=machine("runner-2")))])

    assert names(merged) == [["t.py::a"], ["t.py::b"]]
    assert "2 machines: runner-1 (AMD EPYC, 2 cores, a.json), runner-2 (AMD EPYC, 2 cores, b.json)" in warning


def test_a_run_that_was_killed_is_kept_with_a_warning() -> None:
    _, (warning,) = merge([("a.json", file(A, is_complete=False))])

    assert warning == "a.json: a run in it did not come to its end; 1 test had ended"


@pytest.mark.parametrize("started", ["2026-12-02T08:00:00.000+00:00", "2026-12-02T09:00:00.000+00:00"])
def test_the_same_test_in_the_same_environment_with_other_results_is_refused(started: str) -> None:
    with pytest.raises(ResultsError) as error:
        merge([("a.json", file(A)), ("b.json", file(OTHER_A, started=started))])

    assert str(error.value) == (
        "t.py::a was measured twice in the same environment, with different results: in a.json and in b.json. Leave "
        "one of them out"
    )


def test_the_same_test_in_the_same_environment_with_the_same_results_is_kept_once() -> None:
    merged, _ = merge([("a.json", file(A)), ("b.json", file(A, B, started="2026-12-02T09:00:00.000+00:00"))])

    assert names(merged) == [["t.py::a"], ["t.py::b"]]


def test_the_same_test_with_another_version_is_of_another_environment() -> None:
    newer = with_versions(OTHER_A, onnxruntime="1.33.0")

    merged, _ = merge([("a.json", file(A)), ("b.json", file(newer))])

    assert [test for one in merged.runs for test in one.tests] == [A, newer]


def test_a_test_that_was_skipped_on_one_side_is_no_second_result() -> None:
    merged, _ = merge([("a.json", file(A)), ("b.json", file(SKIPPED, started="later"))])

    assert names(merged) == [["t.py::a"], ["t.py::a"]]


def test_a_second_label_of_the_same_test_is_another_result() -> None:
    labelled = msgspec.structs.replace(
        OTHER_A, measurements=tuple(msgspec.structs.replace(one, label="x") for one in OTHER_A.measurements)
    )

    assert names(merge([("a", file(A)), ("b", file(labelled))])[0]) == [["t.py::a", "t.py::a"]]


def test_a_comparison_that_stands_twice_with_other_results_is_refused() -> None:
    first = test_of("t.py::ab", comparisons=(comparison_of(ab_record()),))
    second = test_of("t.py::ab", comparisons=(comparison_of(ab_record(pairs=99)),))

    with pytest.raises(ResultsError, match="measured twice"):
        merge([("a", file(first)), ("b", file(second))])


def test_files_without_tests_merge() -> None:
    merged, warnings = merge([("a", file()), ("b", file(started="later"))])

    assert names(merged) == [[], []]
    assert warnings == ()
