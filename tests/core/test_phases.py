"""Prefill and decode: joined profiles, the worse of two phases, and their budgets and baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.baseline import Baseline, entry_of
from pytest_onnxperf.core.baseline_text import read_baseline, write_baseline
from pytest_onnxperf.core.budget import check, parse_budget
from pytest_onnxperf.core.compare import compare
from pytest_onnxperf.core.errors import BudgetError
from pytest_onnxperf.core.facts import Difference, Facts, facts_of
from pytest_onnxperf.core.phases import joined, worse_of
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.states import Limit, State
from tests.records import CPU, facts, record

if TYPE_CHECKING:
    from pytest_onnxperf.core.record import Record

PROFILES: Final = Path(__file__).parent.parent / "data" / "profiles"


def generator_record(**phases: Facts) -> Record:
    return record(of=worse_of(phases), phases=phases)


def test_profiles_of_one_step_each_are_the_runs_of_one() -> None:
    paths = sorted(PROFILES.rglob("genai_0.18_run-level_*.json"))
    assert len(paths) == 2
    whole = joined([read_profile(path) for path in paths])
    found = facts_of(whole)
    assert (found.runs, found.nodes, found.unstable) == (2, 12, ())
    assert sum(total.executions for total in whole.nodes.values()) == 24


def test_steps_that_differ_are_unstable() -> None:
    small, large = PROFILES.rglob("cpu_1.31.1_run-level.json"), PROFILES.rglob("genai_0.18_run-level_0.json")
    found = facts_of(joined([read_profile(next(small)), read_profile(next(large))]))
    assert "nodes" in {difference.fact for difference in found.unstable}


def test_the_worse_phase_is_what_a_plain_budget_judges() -> None:
    both = worse_of({"prefill": facts(memcpy=0, nodes=40), "decode": facts(memcpy=3, nodes=38)})
    assert (both.memcpy, both.nodes, both.unavailable) == (3, 40, None)
    assert both.ops == {f"{CPU}:Add": 1, f"{CPU}:MatMul": 1}


def test_what_cannot_be_told_of_one_phase_cannot_be_told_of_the_whole() -> None:
    both = worse_of({"prefill": facts(), "decode": facts(unavailable="replayed")})
    assert both.unavailable == "decode: replayed"


@pytest.mark.parametrize(
    ("kwargs", "states"),
    [
        ({"decode": {"max_memcpy": 1}}, {"decode.max_memcpy": Limit.HELD}),
        ({"prefill": {"max_memcpy": 1}}, {"prefill.max_memcpy": Limit.BROKEN}),
        ({"max_memcpy": 1}, {"max_memcpy": Limit.BROKEN}),
        (
            {"prefill": {"require_ops": "Add", "max_nodes": 1}},
            {"prefill.max_nodes": Limit.BROKEN, "prefill.require_ops": Limit.HELD},
        ),
    ],
)
def test_a_phase_has_limits_of_its_own(kwargs: dict[str, Any], states: dict[str, Limit]) -> None:
    measured = generator_record(prefill=facts(memcpy=2), decode=facts(memcpy=1))
    assert {result.key: result.state for result in check(parse_budget(kwargs), measured)} == states


def test_what_is_allowed_is_taken_off_in_each_session_and_phase_and_not_off_the_worst() -> None:
    vision = facts(cpu_nodes=10, ops={f"{CPU}:Conv": 10})
    decoder = facts(cpu_nodes=36, ops={f"{CPU}:MatMul": 36})
    phases = {"prefill": decoder, "prefill.vision": vision, "decode": decoder}
    measured = record(of=worse_of(phases), phases=phases)
    for kwargs in (
        {"max_cpu_nodes": 35, "allow_cpu_ops": "Conv"},
        {"prefill": {"max_cpu_nodes": 35, "allow_cpu_ops": "Conv"}},
    ):
        (result,) = check(parse_budget(kwargs), measured)
        assert (result.state, result.actual) == (Limit.BROKEN, "36 a run")


def test_a_phase_budget_covers_all_sessions_of_the_phase() -> None:
    measured = record(phases={"prefill": facts(), "prefill.vision": facts(memcpy=4), "decode": facts()})
    (result,) = check(parse_budget({"prefill": {"max_memcpy": 3}}), measured)
    assert result.state is Limit.BROKEN


def test_a_phase_budget_on_a_session_cannot_be_told() -> None:
    (result,) = check(parse_budget({"decode": {"max_memcpy": 3}}), record())
    assert (result.state, result.why) == (Limit.CANNOT_TELL, "a session has no phases")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "`decode`: expected a dict of limits"),
        ({}, "`decode`: expected a dict of limits"),
        ({"max_memcopy": 1}, "unknown key `max_memcopy`, did you mean `max_memcpy`?"),
        ({"max_ttft_ms": 1}, "`decode`: `max_ttft_ms` is no limit on a fact of one phase"),
        ({"decode": {"max_memcpy": 1}}, "`decode`: `decode` is no limit"),
        ({"on": "cuda"}, "`decode`: `on` is no limit"),
        ({"max_regression": 0.1}, "`decode`: `max_regression` is no limit"),
    ],
)
def test_a_wrong_phase_budget_is_named(value: object, message: str) -> None:
    with pytest.raises(BudgetError) as error:
        parse_budget({"decode": value})
    assert message in str(error.value)


def test_a_baseline_keeps_the_phases_and_compares_them_by_name() -> None:
    old = entry_of(generator_record(prefill=facts(memcpy=1), decode=facts()), "2026-11-30", "abc")
    assert old.facts == {}
    assert read_baseline(write_baseline(Baseline("d", CPU, {"test_a": old})), "b.json").tests["test_a"] == old
    worse = compare(generator_record(prefill=facts(memcpy=1), decode=facts(memcpy=2)), old, tolerance=0.1)
    assert worse[0].name == "decode.memcpy"
    assert (worse[0].state, worse[0].text) == (State.REGRESSED, "decode: memcpy 0 -> 2 a run")
    assert {c.state for c in worse if c.name.startswith("prefill")} == {State.OK}


def test_a_phase_that_is_unstable_or_new_is_said() -> None:
    old = entry_of(generator_record(decode=facts()), "2026-11-30", "abc")
    unstable = facts(memcpy=2, unstable=(Difference("memcpy", (1, 1, 2, 1), ()),))
    compared = compare(generator_record(prefill=facts(), decode=unstable), old, tolerance=0.1)
    found = {c.name: c.state for c in compared}
    texts = {c.name: c.text for c in compared}
    assert found["decode.memcpy"] is State.UNSTABLE
    assert texts["decode.memcpy"] == "decode: memcpy differs between steps: 2 at step 3, else 1"
    assert found["prefill.facts"] is State.NO_BASELINE
