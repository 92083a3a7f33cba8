"""The tables of a matrix: ratios to the reference, the best cells, mixed builds, and what cannot be compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_onnxperf.core.matrix import RunTest, Table, run_tests_of, tables_of
from pytest_onnxperf.core.results import Results
from tests.records import MS, environment
from tests.results import everything, place, run, session_outcome, test_of, with_versions

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Test


def cell(order: int, latency_ms: float, decode: float = 0.0, label: str = "", **coordinates: str) -> Test:
    metrics = {"latency_p50": (latency_ms * MS,), **({"decode_throughput": (decode,)} if decode else {})}
    outcome = session_outcome(metrics=metrics)
    record = replace(outcome.record, key=replace(outcome.record.key, label=label))
    outcome = replace(outcome, record=record)
    where = place(order, **coordinates)
    return test_of(f"t.py::test_m[{where.id}]", outcome, matrix=where)


def with_outcome(test: Test, outcome: Any, **changes: Any) -> Test:
    return msgspec.structs.replace(test, outcome=outcome, **changes)


def table(*tests: Test) -> Table:
    (found,) = tables_of(map(RunTest, tests))
    return found


def test_a_ratio_above_one_is_better_whichever_side_of_the_metric_is() -> None:
    found = table(cell(0, 10, 100, dtype="f16"), cell(1, 4, 50, dtype="int4"))
    reference, other = found.rows
    assert (reference.ratios, reference.reference) == ({}, "")
    assert other.reference == "f16"
    assert other.ratios == {"latency_p50": 2.5, "decode_throughput": 0.5}


def test_rows_stand_in_the_order_of_the_matrix_whichever_ended_first() -> None:
    found = table(cell(2, 1, dtype="nf4"), cell(0, 1, dtype="f16"), cell(1, 1, dtype="int4"))
    assert [row.name for row in found.rows] == ["f16", "int4", "nf4"]


def test_the_best_cell_of_a_metric_is_named_and_those_as_good_within_the_tolerance() -> None:
    found = table(cell(0, 10, 100, dtype="f16"), cell(1, 10.49, 105.1, dtype="int4"), cell(2, 10.51, 101, dtype="nf4"))
    best = {each.metric: (each.row.name, [row.name for row in each.ties]) for each in found.best}
    assert best == {"latency_p50": ("f16", ["int4"]), "decode_throughput": ("int4", ["nf4"])}


def test_a_reference_that_was_not_run_is_said_and_is_no_ratio_of_one() -> None:
    found = table(cell(1, 4, dtype="int4"))
    assert found.rows[0].ratios == {}
    assert found.notes == {"no ratio to f16: it was not run": ("int4",)}


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_what_failed_by_something_else_than_a_limit_is_neither_fast_nor_a_reference(outcome: str) -> None:
    wrong = with_outcome(cell(0, 1, dtype="f16"), outcome, message="wrong numbers\nmore")
    found = table(wrong, cell(1, 4, dtype="int4"))
    assert found.rows[1].ratios == {}
    assert found.notes == {f"{outcome}: wrong numbers": ("f16",), f"no ratio to f16: {outcome}": ("int4",)}
    assert [each.row.name for each in found.best] == ["int4"]


def test_of_a_failure_with_its_source_the_exception_is_the_reason() -> None:
    message = "cell = <object>\n\n    def test():\n>       assert x\nE       AssertionError: wrong\nE       assert 2"
    found = table(with_outcome(cell(0, 1, dtype="f16"), "failed", message=message))
    assert found.notes == {"failed: AssertionError: wrong": ("f16",)}


def test_of_a_message_of_ours_the_whole_first_sentence_is_the_reason() -> None:
    message = "a model could not be measured:\n  there is none\n  in this place\n\nMore"
    found = table(with_outcome(cell(0, 1, dtype="f16"), "failed", message=message))
    assert found.notes == {"failed: a model could not be measured: there is none in this place": ("f16",)}


def test_a_cell_over_its_budget_keeps_its_numbers_and_its_state() -> None:
    found = table(with_outcome(cell(0, 10, dtype="f16"), "failed", is_breach=True), cell(1, 5, dtype="int4"))
    assert found.rows[1].ratios == {"latency_p50": 2.0}


def test_a_metric_that_the_reference_lacks_has_no_ratio() -> None:
    found = table(cell(0, 10, dtype="f16"), cell(1, 5, 70, dtype="int4"))
    assert found.rows[1].ratios == {"latency_p50": 2.0}
    assert found.metrics == ("latency_p50", "decode_throughput")


def test_each_model_has_a_table_unless_the_reference_is_another_model() -> None:
    names = [("a", "f16"), ("a", "int4"), ("b", "f16"), ("b", "int4")]
    cells = [cell(number, 5, model=model, dtype=dtype) for number, (model, dtype) in enumerate(names)]
    assert [(each.title, len(each.rows)) for each in tables_of(map(RunTest, cells))] == [
        ("tests/test_a.py::test_m, a", 2), ("tests/test_a.py::test_m, b", 2),
    ]  # fmt: skip
    reference = {"model": "a", "dtype": "f16"}
    across = [
        msgspec.structs.replace(each, matrix=msgspec.structs.replace(each.matrix, reference=reference))
        for each in cells
        if each.matrix is not None
    ]
    (one,) = tables_of(map(RunTest, across))
    assert [row.reference for row in one.rows] == ["", "a-f16", "a-f16", "a-f16"]


def test_each_label_has_a_table_and_a_cell_that_measured_nothing_stands_in_all() -> None:
    skipped = test_of("t.py::test_m[nf4]", outcome="skipped", message="no GPU", matrix=place(2, dtype="nf4"))
    found = tables_of(
        map(RunTest, [cell(0, 1, label="cold", dtype="f16"), cell(1, 1, label="warm", dtype="int4"), skipped])
    )
    assert [each.title.partition("#")[2] for each in found] == ["cold", "warm"]
    assert all("skipped: no GPU" in each.notes for each in found)


def test_rows_of_one_build_are_not_said_to_be_mixed_and_those_of_two_are() -> None:
    one, other = cell(0, 10, dtype="f16"), cell(1, 10, dtype="int4")
    assert table(one, other).mixed == {}
    newer = with_versions(other, onnxruntime="1.33.0", torch="2.13.0")
    assert table(one, newer).mixed == {"onnxruntime": {"1.32.0": 1, "1.33.0": 1}}


def test_one_execution_provider_on_two_devices_and_two_commits_are_mixed() -> None:
    other = session_outcome(environment=environment(device="Another CPU"), metrics={"latency_p50": (MS,)})
    second = test_of("t.py::test_m[int4]", other, matrix=place(1, dtype="int4"))
    (found,) = tables_of([
        RunTest(cell(0, 10, dtype="f16"), 0, {"commit": "a"}), RunTest(second, 1, {"commit": "b"}),
    ])  # fmt: skip
    assert found.mixed == {
        "commit": {"a": 1, "b": 1}, "device of cpu": {"AMD EPYC 7763, 2 cores": 1, "Another CPU": 1},
    }  # fmt: skip


def test_shards_make_one_table_and_a_cell_of_two_runs_is_compared_within_its_own() -> None:
    f16, int4 = cell(0, 10, dtype="f16"), cell(1, 5, dtype="int4")
    newer = [with_versions(each, onnxruntime="1.33.0") for each in (cell(0, 8, dtype="f16"), cell(1, 2, dtype="int4"))]
    (shards,) = tables_of([RunTest(f16, 0), RunTest(int4, 1)])
    assert shards.rows[1].ratios == {"latency_p50": 2.0}
    (twice,) = tables_of([RunTest(f16, 0), RunTest(int4, 0), *(RunTest(each, 1) for each in newer)])
    assert {row.name: row.ratios.get("latency_p50") for row in twice.rows} == {
        "f16 [onnxruntime 1.32.0]": None, "f16 [onnxruntime 1.33.0]": None,
        "int4 [onnxruntime 1.32.0]": 2.0, "int4 [onnxruntime 1.33.0]": 4.0,
    }  # fmt: skip


def test_a_reference_of_two_other_runs_is_none() -> None:
    found = table(cell(1, 5, dtype="int4"))
    (found,) = tables_of([
        RunTest(cell(0, 10, dtype="f16"), 0), RunTest(cell(0, 9, dtype="f16"), 1), RunTest(cell(1, 5, dtype="int4"), 2),
    ])  # fmt: skip
    assert [row.name for row in found.rows] == ["f16 [1]", "f16 [2]", "int4"]
    assert found.notes == {"no ratio to f16: it stands 2 times, none of them of the same run": ("int4",)}


def test_tests_of_no_matrix_are_left_out() -> None:
    assert [len(each.rows) for each in tables_of(run_tests_of(everything()))] == [2]
    assert tables_of(run_tests_of(Results(runs=(run(test_of("t.py::test_a", session_outcome())),)))) == []


def test_a_disturbed_cell_is_said() -> None:
    outcome = session_outcome(disturbance="other processes used 50 %")
    found = table(test_of("t.py::test_m[f16]", outcome, matrix=place(0, dtype="f16")))
    assert found.notes == {"disturbed by other processes while it was timed": ("f16",)}
