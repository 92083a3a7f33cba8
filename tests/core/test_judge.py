"""The verdict: which budgets apply, what fails, and which word stands for the whole."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.budget import Budget
from pytest_onnxperf.core.judge import Found, Policy, is_suspicious, judge
from pytest_onnxperf.core.states import State
from tests.records import CUDA, MS, facts, record


def policy(**changes: Any) -> Policy:
    return Policy(**{"tolerance": 0.1, **changes})


PROCESSES = tuple(10 * MS * factor for factor in (0.998, 0.999, 1.0, 1.001, 1.002))


def found(**changes: Any) -> Found:
    """A baseline of five processes."""
    old = record(**{"metrics": {"latency_p50": PROCESSES}, **changes})
    return Found(entry_of(old, "2026-11-30", ""), "baselines/x.cpu/tests/test_a.json")


def test_a_test_without_budget_and_baseline_does_not_fail_and_is_not_ok() -> None:
    verdict = judge(record(), [], Found(), policy())
    assert not verdict.fails
    assert verdict.state == "no-baseline"


def test_only_a_regression_fails_by_default() -> None:
    slow = judge(record({"latency_p50": (20 * MS,)}), [], found(), policy())
    changed = judge(record(of=facts(nodes=3)), [], found(), policy())
    assert (slow.fails, slow.state) == (True, "regressed")
    assert (changed.fails, changed.state) == (False, "changed")


@pytest.mark.parametrize("nodes", [1, 3])
def test_strict_fails_whatever_is_not_ok(nodes: int) -> None:
    assert judge(record(of=facts(nodes=nodes)), [], found(), policy(strict=True)).fails
    assert judge(record(), [], Found(), policy(strict=True)).fails
    assert not judge(record(), [], found(), policy(strict=True)).fails


def test_while_updating_only_budgets_fail() -> None:
    slow = record({"latency_p50": (20 * MS,)})
    assert not judge(slow, [], found(), policy(updating=True, strict=True)).fails
    assert judge(slow, [Budget({"max_latency_ms": 15})], found(), policy(updating=True)).fails


@pytest.mark.parametrize(
    ("unverifiable", "fails", "skips"), [("fail", True, False), ("skip", False, True), ("pass", False, False)]
)
def test_a_budget_that_cannot_be_judged_does_as_the_option_says(unverifiable: Any, fails: bool, skips: bool) -> None:
    verdict = judge(record(), [Budget({"max_load_ms": 5})], Found(), policy(unverifiable=unverifiable))
    assert (verdict.fails, verdict.skips, verdict.state) == (fails, skips, "cannot tell")


def test_budgets_of_other_devices_are_not_applicable_and_are_said() -> None:
    budgets = [Budget({"max_memcpy": 0}, "cuda"), Budget({"max_memcpy": 5}, "cpu")]
    verdict = judge(record(of=facts(memcpy=3)), budgets, Found(), policy())
    assert not verdict.fails
    assert verdict.not_applicable == ("cuda",)


def test_two_budgets_that_apply_are_both_judged() -> None:
    budgets = [Budget({"max_memcpy": 5}), Budget({"max_memcpy": 2}, "cuda")]
    verdict = judge(record(of=facts(memcpy=3), ep=CUDA), budgets, Found(), policy())
    assert [result.state for result in verdict.limits] == ["broken", "held"]


def test_max_regression_overrides_the_tolerance_and_that_of_the_device_is_nearer() -> None:
    slower = record({"latency_p50": (13 * MS,)})
    loose, tight = Budget({"max_regression": 0.5}), Budget({"max_regression": 0.05}, "cpu")
    assert not judge(slower, [loose], found(), policy()).fails
    assert judge(slower, [loose, tight], found(), policy()).fails


def test_versions_that_differ_since_the_baseline_are_said() -> None:
    old = found()
    newer = record(environment=type(record().environment)("d", "d", CUDA, {"onnxruntime": "1.33.0"}))
    assert judge(newer, [], old, policy()).version_changes == ("onnxruntime 1.32.0 -> 1.33.0",)


@pytest.mark.parametrize(
    ("latency_ms", "suspicious"), [(10.0, False), (11.1, True), (8.0, False)]
)  # fmt: skip
def test_more_processes_are_asked_for_only_where_a_time_looks_worse(latency_ms: float, suspicious: bool) -> None:
    verdict = judge(record({"latency_p50": (latency_ms * MS,)}), [], found(), policy())
    assert is_suspicious(verdict) is suspicious


def test_a_fact_that_regressed_asks_for_no_more_processes() -> None:
    assert not is_suspicious(judge(record(of=facts(memcpy=9)), [], found(), policy()))


def test_the_word_for_the_whole_is_the_worst() -> None:
    broken = judge(record(of=facts(memcpy=1)), [Budget({"max_memcpy": 0})], found(), policy())
    assert broken.state == "over budget"
    assert broken.comparisons[0].state is State.REGRESSED
