"""What changed in the op tables since the baseline: counts that moved, came, went and changed, and lost time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.judge import Found, Policy, judge
from pytest_onnxperf.core.op_changes import MovedOps, OpChanges, OpTime, op_changes
from pytest_onnxperf.core.op_table import OpRow
from tests.records import CPU, CUDA, MS, facts, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.baseline import Entry
    from pytest_onnxperf.core.facts import Facts
    from pytest_onnxperf.core.record import Record


def rows(times_ms: Mapping[str, float]) -> tuple[OpRow, ...]:
    """An op table of self times by `<provider>:<op type>`."""
    total = sum(times_ms.values())
    return tuple(
        OpRow(op.split(":")[1], op.split(":")[0], 1, ms * MS, ms * MS, ms / total, "compute", "")
        for op, ms in times_ms.items()
    )


def table(counts: Mapping[str, int], times_ms: Mapping[str, float] | None = None, **changes: Any) -> Facts:
    return facts(ops=dict(counts), op_table=rows(times_ms or {}), **changes)


def changed(old: Facts, new: Facts, *, with_times: bool = True) -> tuple[OpChanges, ...]:
    return op_changes(record(of=new), entry_of(record(of=old), "2026-11-30", "", with_times=with_times))


def only(found: tuple[OpChanges, ...]) -> OpChanges:
    (change,) = found
    return change


BASE = {f"{CUDA}:MatMul": 30, f"{CUDA}:GroupQueryAttention": 10}
MATMUL, GQA = f"{CUDA}:MatMul", f"{CUDA}:GroupQueryAttention"


def test_the_same_ops_are_no_change() -> None:
    assert changed(table(BASE), table(BASE)) == ()


@pytest.mark.parametrize("staying", [0, 29])
def test_what_another_provider_runs_now_has_moved(staying: int) -> None:
    now = {GQA: 10, f"{CPU}:MatMul": 30 - staying} | ({MATMUL: staying} if staying else {})
    change = only(changed(table(BASE), table(now)))

    assert change.moved == (MovedOps("MatMul", 30 - staying, CUDA, CPU),)
    assert (change.gained, change.lost, change.counts) == ((), (), ())


def test_what_moved_is_sorted_most_first() -> None:
    now = {f"{CPU}:MatMul": 30, f"{CPU}:GroupQueryAttention": 10}
    assert [moved.executions for moved in only(changed(table(BASE), table(now))).moved] == [30, 10]


def test_another_operator_on_the_cpu_has_not_moved_there() -> None:
    change = only(changed(table(BASE), table({MATMUL: 30, f"{CPU}:Attention": 10})))

    assert change.moved == ()
    assert change.gained == ((f"{CPU}:Attention", 10),)
    assert change.lost == ((GQA, 10),)


def test_more_than_moved_is_new_for_the_rest() -> None:
    change = only(changed(table(BASE), table({GQA: 10, f"{CPU}:MatMul": 33})))

    assert change.moved == (MovedOps("MatMul", 30, CUDA, CPU),)
    assert change.gained == ((f"{CPU}:MatMul", 3),)


def test_new_and_lost_op_types_are_sorted_most_first() -> None:
    now = {MATMUL: 30, f"{CUDA}:Softmax": 10, f"{CUDA}:Transpose": 40, f"{CUDA}:Add": 10}
    change = only(changed(table({**BASE, f"{CUDA}:Mul": 11}), table(now)))

    assert change.gained == ((f"{CUDA}:Transpose", 40), (f"{CUDA}:Add", 10), (f"{CUDA}:Softmax", 10))
    assert change.lost == ((f"{CUDA}:Mul", 11), (GQA, 10))


def test_an_op_type_that_runs_more_or_less_often_is_named_with_both_counts() -> None:
    change = only(changed(table(BASE), table({MATMUL: 32, GQA: 9})))

    assert change.counts == ((MATMUL, 30, 32), (GQA, 10, 9))
    assert (change.moved, change.gained, change.lost) == ((), (), ())


def test_the_ops_that_carry_the_lost_time_come_first() -> None:
    old = table(BASE, {MATMUL: 60.0, GQA: 40.0})
    new = table(BASE, {MATMUL: 63.0, GQA: 70.0})
    change = only(changed(old, new))

    assert [(time.op, time.old_ms, time.new_ms) for time in change.times] == [(GQA, 40.0, 70.0), (MATMUL, 60.0, 63.0)]
    assert [time.lost_ms for time in change.times] == [30.0, 3.0]
    assert (change.old_ms, change.new_ms) == (100, 133)


@pytest.mark.parametrize(("gqa_ms", "is_named"), [(42.0, False), (42.1, True)])
def test_a_change_of_up_to_two_per_cent_of_the_run_is_not_named(gqa_ms: float, is_named: bool) -> None:
    found = changed(table(BASE, {MATMUL: 60.0, GQA: 40.0}), table(BASE, {MATMUL: 60.0, GQA: gqa_ms}))
    assert bool(found) is is_named


def test_an_op_type_below_the_stored_share_is_no_lost_time_for_being_seen_again() -> None:
    times = {MATMUL: 99.1, GQA: 0.9}
    entry = entry_of(record(of=table(BASE, times)), "2026-11-30", "")

    assert list(entry.op_shares["run"]) == [MATMUL]
    assert op_changes(record(of=table(BASE, times)), entry) == ()


def test_time_of_a_new_op_type_is_lost_whole() -> None:
    softmax = f"{CUDA}:Softmax"
    new = table({**BASE, softmax: 1}, {MATMUL: 60.0, GQA: 40.0, softmax: 5.0})
    change = only(changed(table(BASE, {MATMUL: 60.0, GQA: 40.0}), new))

    assert change.times == (OpTime(softmax, 0.0, 5.0),)


def test_a_run_that_is_only_faster_has_no_lost_time_to_explain() -> None:
    assert changed(table(BASE, {MATMUL: 60.0, GQA: 40.0}), table(BASE, {MATMUL: 10.0, GQA: 40.0})) == ()


def test_a_faster_op_stands_behind_the_slower_ones() -> None:
    new = table(BASE, {MATMUL: 10.0, GQA: 90.0})
    change = only(changed(table(BASE, {MATMUL: 60.0, GQA: 40.0}), new))

    assert [(time.op, time.lost_ms) for time in change.times] == [(GQA, 50.0), (MATMUL, -50.0)]


def test_a_baseline_without_times_tells_counts_alone() -> None:
    old, new = table(BASE, {MATMUL: 60.0}), table({MATMUL: 31, GQA: 10}, {MATMUL: 90.0})
    change = only(changed(old, new, with_times=False))

    assert change.counts == ((MATMUL, 30, 31),)
    assert (change.times, change.old_ms, change.new_ms) == ((), None, 90)


def test_a_baseline_without_ops_makes_nothing_new() -> None:
    assert changed(table(BASE, unavailable="replayed"), table(BASE)) == ()


def test_facts_that_cannot_be_told_are_not_compared() -> None:
    assert changed(table(BASE), table({}, unavailable="replayed")) == ()
    no_facts = record(of=table(BASE), not_measured={"facts": "broken"})
    entry = entry_of(no_facts, "2026-11-30", "")
    assert op_changes(record(facts=None), entry) == ()


def generator(prefill: Facts, decode: Facts) -> Record:
    return record({"ttft": (MS,)}, of=prefill, phases={"prefill": prefill, "decode": decode})


def test_phases_are_compared_each_for_itself() -> None:
    entry: Entry = entry_of(generator(table(BASE), table({MATMUL: 30})), "2026-11-30", "")
    found = op_changes(generator(table(BASE), table({MATMUL: 31})), entry)

    assert [(change.phase, change.counts) for change in found] == [("decode", ((MATMUL, 30, 31),))]


def test_a_phase_that_the_baseline_lacks_is_left_out() -> None:
    entry = entry_of(record(of=table(BASE)), "2026-11-30", "")
    assert op_changes(generator(table(BASE), table({MATMUL: 31})), entry) == ()


@pytest.mark.parametrize(
    ("cpu_nodes", "size_mib", "is_explained"), [(2, 10, False), (3, 10, True), (2, 99, True), (1, 10, False)]
)
def test_a_verdict_holds_them_where_something_regressed_or_changed(
    cpu_nodes: int, size_mib: int, is_explained: bool
) -> None:
    old = record(_size(10), of=table(BASE, {MATMUL: 60.0}, cpu_nodes=2, nodes_by_provider={}))
    new = record(_size(size_mib), of=table(BASE, {MATMUL: 66.0}, cpu_nodes=cpu_nodes, nodes_by_provider={}))
    found = judge(new, [], Found(entry_of(old, "2026-11-30", "")), Policy(0.1))

    assert bool(found.op_changes) is is_explained


def _size(size_mib: int) -> dict[str, tuple[float, ...]]:
    return {"latency_p50": (10 * MS,), "model_size": (float(size_mib << 20),)}
