"""What an update makes of an entry: what stays, what is replaced, and how it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.baseline_update import changes, merged
from pytest_onnxperf.core.compare_metrics import compare_metric, with_detectable
from pytest_onnxperf.core.facts import Difference
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.paired import Paired, ReferenceSpec
from pytest_onnxperf.core.states import State
from tests.records import CPU, MS, entry, facts, record, timed

if TYPE_CHECKING:
    from pytest_onnxperf.core.record import Record


def test_op_shares_alone_are_no_reason_to_write() -> None:
    old = entry_of(timed(), "2026-11-30", "")
    assert merged(old, entry_of(timed(5.0), "2026-12-02", "")) is old


def test_op_shares_are_written_beside_what_else_changed() -> None:
    old = entry_of(timed(), "2026-11-30", "")
    new = merged(old, entry_of(timed(5.0, metrics={"latency_p50": (99 * MS,)}), "2026-12-02", ""))
    assert new.op_shares["run"][f"{CPU}:MatMul"] == 0.5


def test_an_update_with_another_workload_takes_its_times_alone() -> None:
    size = {"model_size": (5.0 * (1 << 20),)}
    before = replace(record({"latency_p50": (10.0 * MS,), "load": (3.0 * MS,)} | size), workload={"threads": "2"})
    old = replace(entry_of(before, "2026-11-30", ""), note="kept", detectable={"load_ms": 1.1})
    new = entry_of(
        replace(record({"latency_p50": (10.0 * MS,)}), workload={"threads": "1"}), "2026-12-01", ""
    )  # fmt: skip
    found = merged(old, new)
    assert found.metrics == {"latency_p50_ms": [10.0], "model_size_mib": [5.0]}
    assert (found.anchor, found.workload, found.note) == (new.anchor, new.workload, "kept")
    assert found.detectable == {}
    assert "threads 2 -> 1" in changes(old, found)


def test_an_update_of_facts_alone_keeps_the_workload_of_the_times() -> None:
    timed = replace(record(), workload={"threads": "2"})
    old = entry_of(timed, "2026-11-30", "")
    facts_alone = entry_of(replace(timed, workload={"threads": "1"}), "2026-12-01", "", with_times=False)
    assert merged(old, facts_alone) == old


def test_an_update_of_facts_alone_keeps_the_op_shares() -> None:
    old = entry_of(timed(), "2026-11-30", "")
    new = merged(old, entry_of(record({}, of=facts(memcpy=1)), "2026-12-02", ""))
    assert new.facts["memcpy"] == 1
    assert (new.op_shares, new.node_ms) == (old.op_shares, old.node_ms)


def test_another_option_is_a_reason_to_write() -> None:
    old = entry_of(timed(), "2026-11-30", "")
    new = merged(old, replace(old, options={"max_length": "1024"}))
    assert new.options == {"max_length": "1024"}


@pytest.mark.parametrize(("p50_ms", "is_kept"), [(10.4, True), (20.0, False)])
def test_times_without_a_reference_keep_no_ratios_of_other_times(p50_ms: float, is_kept: bool) -> None:
    pairs = {"latency_p50": {"tested": [1.0], "compute": [2.0]}, "load": {"tested": [1.0], "compute": [2.0]}}
    stored = {"latency_p50_ms": [10.0, 11.0], "load_ms": [3.0]}
    old = replace(entry_of(record(), "2026-11-30", ""), metrics=stored, paired=pairs)
    old = replace(old, references={name: {"compute": ReferenceSpec({"extent": 1}, 1, "")} for name in pairs})
    found = merged(old, entry_of(record({"latency_p50": (p50_ms * MS,)}), "2026-12-01", ""))
    names = {"latency_p50", "load"} if is_kept else {"load"}
    assert set(found.paired) == set(found.references) == names


def test_an_update_inside_the_old_interval_changes_nothing() -> None:
    old = replace(entry(), metrics={"latency_p50_ms": [9.5, 10.5]})
    assert merged(old, entry(10.4, date="2026-12-02")) is old
    assert merged(old, entry(10.6, date="2026-12-02")).metrics == {"latency_p50_ms": [10.6]}


def test_an_update_in_mode_all_replaces_also_inside_the_interval() -> None:
    old = replace(entry(), metrics={"latency_p50_ms": [9.5, 10.5]})
    assert merged(old, entry(10.4, date="2026-12-02"), replace_all=True).metrics == {"latency_p50_ms": [10.4]}


def test_an_update_keeps_the_anchor_and_the_note() -> None:
    old = replace(entry(10), note="fan broken on this runner")
    new = merged(old, entry(20, memcpy=3, date="2026-12-02"))
    assert new.anchor == old.anchor
    assert (new.note, new.date) == ("fan broken on this runner", "2026-12-02")


def test_the_anchor_takes_in_what_it_never_had() -> None:
    facts_only = entry_of(record(), "2026-11-30", "", with_times=False)
    new = merged(facts_only, entry(20, date="2026-12-02"))
    assert new.anchor.metrics == {"latency_p50_ms": 20}
    assert new.anchor.date == "2026-11-30"


def test_a_record_without_facts_keeps_the_old_ones() -> None:
    blind = entry_of(record(of=facts(unavailable="replayed")), "2026-12-02", "")
    assert merged(entry(), blind).facts == entry().facts


def test_a_fact_that_became_unstable_keeps_its_old_value() -> None:
    unstable = facts(memcpy=3, unstable=(Difference("memcpy", (2, 3), ()),))
    assert merged(entry(memcpy=2), entry_of(record(of=unstable), "2026-12-02", "")).facts["memcpy"] == 2


def test_what_changed_is_said_old_to_new() -> None:
    assert changes(None, entry()) == ("new",)
    assert changes(entry(), entry(12.5, memcpy=2)) == ("latency_p50_ms 10 -> 12.5", "memcpy 0 -> 2")


SPECS = {"compute": ReferenceSpec({"extent": 32, "repeats": 4}, 1, "4.58e+03")}


def paired(ratio: float, *machines: float) -> Record:
    """Processes that took `ratio` times as long as the reference beside them, on a machine of these speeds."""
    wobbles = (1.0, 1.002, 0.998, 1.001, 0.999)
    pairs = tuple(
        Paired(ratio * wobble * machine * MS, {"compute": machine * MS}, 0.05, SPECS)
        for wobble, machine in zip(wobbles, machines, strict=False)
    )
    return record({"latency_p50": tuple(each.tested_ns for each in pairs)}, paired={"latency_p50": pairs})


def test_an_intended_change_that_the_ratios_see_is_recorded_where_raw_times_hide_it() -> None:
    old = entry_of(paired(10, 1.0, 1.6, 1.0, 1.5, 1.0), "2026-11-30", "")
    slower = paired(12, 1.0, 1.1, 1.0, 1.1, 1.0)
    assert compare_metric(METRIC["latency_p50"], slower, old, 0.05, same=True).state is State.REGRESSED

    found = merged(old, entry_of(slower, "2026-12-01", ""))

    assert compare_metric(METRIC["latency_p50"], slower, found, 0.05, same=True).state is State.OK
    assert changes(old, found) == ("latency_p50_ms 10 -> 12",)


@pytest.mark.parametrize(("ratio", "is_kept"), [(10.0, True), (10.5, False), (9.5, False)])
def test_a_faster_machine_is_no_change_and_another_ratio_is_one(ratio: float, is_kept: bool) -> None:
    old = entry_of(paired(10, 1.0, 1.01, 1.0, 0.99, 1.0), "2026-11-30", "")
    found = merged(old, entry_of(paired(ratio, 0.5, 0.5, 0.5), "2026-12-01", ""))
    assert (found.metrics == old.metrics) is is_kept
    assert len(found.paired["latency_p50"]["tested"]) == (8 if is_kept else 3)


def test_one_outlier_does_not_hide_a_change_that_a_check_finds() -> None:
    pairs = tuple(
        Paired(ratio * MS * (1 + number % 3), {"compute": MS * (1.0 + number % 3)}, 0.05, SPECS)
        for number, ratio in enumerate((10.0, 10.02, 9.98, 10.01, 9.99, 10.0, 10.01, 9.99, 10.0, 11.0))
    )
    times = tuple(each.tested_ns for each in pairs)
    old = entry_of(record({"latency_p50": times}, paired={"latency_p50": pairs}), "2026-11-30", "")
    slower = paired(10.8, 1.0, 2.0, 3.0)
    assert compare_metric(METRIC["latency_p50"], slower, old, 0.05, same=True).state is State.REGRESSED

    found = merged(old, entry_of(slower, "2026-12-01", ""))

    assert compare_metric(METRIC["latency_p50"], slower, found, 0.05, same=True).state is State.OK


@pytest.mark.parametrize(
    ("name", "stored", "current", "is_kept"),
    [
        ("peak_rss", (63.29, 63.28, 63.30), (63.35, 63.36, 63.37), True),  # less than the slack of 8 MiB
        ("peak_rss", (63.29, 63.28, 63.30), (83.35, 83.36, 83.37), False),
        ("load", (100.0, 101.0, 99.0), (104.0, 103.0, 104.0), True),  # what another hour explains
        ("load", (100.0, 101.0, 99.0), (140.0, 141.0, 142.0), False),
        ("model_size", (5.0,), (5.1,), False),  # has no noise
    ],
)
def test_what_no_check_would_mind_is_not_written(
    name: str, stored: tuple[float, ...], current: tuple[float, ...], is_kept: bool
) -> None:
    unit = METRIC[name].per_unit
    old, new = (
        entry_of(record({name: tuple(value * unit for value in values)}), date, "")
        for values, date in ((stored, "2026-11-30"), (current, "2026-12-01"))
    )
    assert (merged(old, new).metrics == old.metrics) is is_kept


def test_more_processes_of_an_unchanged_metric_are_said() -> None:
    old = entry_of(paired(10, 1.0, 1.01, 1.0, 0.99, 1.0), "2026-11-30", "")
    found = merged(old, entry_of(paired(10, 1.0, 1.0, 1.0, 1.0, 1.0), "2026-12-01", ""))
    assert changes(old, found) == ("latency_p50 keeps 10 processes, not 5",)


def test_an_update_says_what_the_entry_can_see_where_that_is_new() -> None:
    first = with_detectable(entry_of(paired(10, 1.0, 1.01, 1.0, 0.99, 1.0), "2026-11-30", ""), 0.05)
    assert changes(None, first) == ("new", "it can see slowdowns of 5.3% (latency p50) and more")
    assert changes(first, replace(first, detectable={"latency_p50_ms": 1.08})) == (
        "it can see slowdowns of 8.0% (latency p50) and more",
    )
    assert changes(first, replace(first, commit="def")) == ()


def test_an_entry_with_all_the_processes_it_keeps_is_not_written_again() -> None:
    machines = (1.0, 1.01, 1.0, 0.99, 1.0)
    first = entry_of(paired(10, *machines), "2026-11-30", "")
    old = with_detectable(merged(first, entry_of(paired(10, *machines), "2026-12-01", "")), 0.05)
    assert merged(old, entry_of(paired(10, *machines), "2026-12-02", "")) is old


def test_ratios_of_a_metric_that_is_not_known_here_are_kept() -> None:
    old = replace(entry(10), paired={"of_tomorrow": {"tested": [1.0], "compute": [2.0]}})
    assert merged(old, entry(20)).paired == old.paired
