"""Budgets: what a marker may hold, and both sides of every boundary."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.budget import Budget, check, parse_budget
from pytest_onnxperf.core.budget_keys import KEYS
from pytest_onnxperf.core.errors import BudgetError
from pytest_onnxperf.core.facts import CountedNode, Difference
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.states import Limit
from tests.records import CPU, CUDA, MS, environment, facts, record

MIB = 1 << 20


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"max_memcopy": 0}, "unknown key `max_memcopy`, did you mean `max_memcpy`?"),
        ({"zzz": 0}, "unknown key `zzz`, known: max_memcpy, "),
        ({"max_memcpy": -1}, "`max_memcpy`: expected a whole number >= 0, got -1"),
        ({"max_memcpy": 1.5}, "`max_memcpy`: expected a whole number >= 0, got 1.5"),
        ({"max_memcpy": True}, "`max_memcpy`: expected a whole number >= 0, got True"),
        ({"max_nodes": "12"}, "`max_nodes`: expected a whole number >= 0, got '12'"),
        ({"max_latency_ms": 0}, "`max_latency_ms`: expected a number of ms above 0, got 0"),
        ({"max_latency_ms": math.nan}, "`max_latency_ms`: expected a number of ms above 0, got nan"),
        ({"max_latency_ms": math.inf}, "`max_latency_ms`: expected a number of ms above 0, got inf"),
        ({"max_latency_ms": None}, "`max_latency_ms`: expected a number of ms above 0, got None"),
        ({"max_memcpy_share": 1.01}, "`max_memcpy_share`: expected a ratio between 0 and 1, got 1.01"),
        ({"max_regression": -0.1}, "`max_regression`: expected a ratio >= 0, 0.05 for 5 %, got -0.1"),
        ({"max_regression": math.nan}, "`max_regression`: expected a ratio >= 0, 0.05 for 5 %, got nan"),
        ({"require_ops": []}, "`require_ops`: expected an op type or a set of them, got []"),
        ({"require_ops": [1]}, "`require_ops`: expected op types as strings, got [1]"),
        ({"allow_cpu_ops": 3}, "`allow_cpu_ops`: expected an op type or a set of them, got 3"),
        ({"attention": "flsh"}, "`attention`: unknown kernel 'flsh', did you mean `flash`?"),
        ({"attention": {"flash", 3}}, "`attention`: unknown kernel 3, known: flash, cudnn_flash"),
        ({"attention": set()}, "`attention`: expected the name of a kernel or a set of them (flash, "),
        ({"attention": None}, "`attention`: expected the name of a kernel or a set of them (flash, "),
        ({"min_attention_nodes": -1}, "`min_attention_nodes`: expected a whole number >= 0, got -1"),
        ({"prefill": {"attention": "cpu"}}, "`attention`: unknown kernel 'cpu'"),
        ({"on": ""}, "`on`: expected an EP or a device pattern"),
        ({"on": " "}, "`on`: expected an EP or a device pattern"),
        ({"on": 3}, "`on`: expected an EP or a device pattern"),
        ({"on": "cudaa"}, "`on`: 'cudaa' is no EP, did you mean `cuda`? For a device of this name write '*cudaa*'"),
        ({"on": "CudaExecutionProvder"}, "did you mean `cuda`?"),
        ({"on": "CUDA_ExecutionProvider"}, "did you mean `cuda`?"),
        ({"on": "cdua"}, "did you mean `cuda`?"),
        ({"on": "cuda-"}, "did you mean `cuda`?"),
        ({"on": "direct-ml"}, "did you mean `dml`?"),
        ({"on": "cuda,cpu"}, "`on`: 'cuda,cpu' names several EPs: a marker belongs to one, so write one for each"),
        ({"on": "cpu | CUDAExecutionProvider"}, "names several EPs"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_was_expected(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError) as error:
        parse_budget(kwargs)
    assert message in str(error.value)


def test_every_key_accepts_a_value_of_its_kind() -> None:
    values = {"count": 3, "ratio": 0.5, "quantity": 1.5, "ops": {"Gemm"}, "pattern": "cuda", "phase": {"max_memcpy": 1},
              "kernels": "flash"}  # fmt: skip
    budget = parse_budget({key.name: values[key.kind] for key in KEYS})
    assert set(budget.limits) == {key.name for key in KEYS} - {"on"}
    assert budget.on == "cuda"


def attention(kernel: str) -> AttentionUse:
    return AttentionUse(NodeKey("attn", "GroupQueryAttention", CUDA), (kernel,), "evidence")


def state(kwargs: dict[str, Any], **of: Any) -> Limit:
    (result,) = check(parse_budget(kwargs), record(**of))
    return result.state


@pytest.mark.parametrize(
    ("key", "limit", "held", "broken"),
    [
        ("max_memcpy", 2, facts(memcpy=2), facts(memcpy=3)),
        ("max_memcpy", 0, facts(memcpy=0), facts(memcpy=1)),
        ("max_memcpy_share", 0.25, facts(memcpy_share=0.25), facts(memcpy_share=0.2501)),
        ("max_cpu_nodes", 2, facts(cpu_nodes=2), facts(cpu_nodes=3)),
        ("max_nodes", 2, facts(nodes=2), facts(nodes=3)),
        ("require_ops", "Add", facts(), facts(ops={f"{CPU}:Sub": 1})),
        ("attention", "flash", facts(attention=(attention("flash"),)), facts(attention=(attention("unfused"),))),
        ("min_attention_nodes", 2, facts(attention=(attention("flash"),) * 2), facts(attention=(attention("flash"),))),
    ],
)
def test_a_limit_on_a_fact_is_held_at_its_value_and_broken_above(key: str, limit: Any, held: Any, broken: Any) -> None:
    assert state({key: limit}, of=held) is Limit.HELD
    assert state({key: limit}, of=broken) is Limit.BROKEN


@pytest.mark.parametrize(
    ("key", "limit", "metric", "held", "broken"),
    [
        ("max_latency_ms", 12, "latency_p50", 12 * MS, 12.001 * MS),
        ("max_p90_ms", 12, "latency_p90", 12 * MS, 12.001 * MS),
        ("max_p99_ms", 12, "latency_p99", 12 * MS, 12.001 * MS),
        ("min_throughput", 100, "throughput", 100.0, 99.9),
        ("max_cold_start_ms", 30, "cold_start", 30 * MS, 30.01 * MS),
        ("max_load_ms", 30, "load", 30 * MS, 30.01 * MS),
        ("max_peak_rss_mib", 64, "peak_rss", 64 * MIB, 64 * MIB + 1),
        ("max_peak_vram_mib", 64, "peak_vram", 64 * MIB, 64 * MIB + 1),
        ("max_model_size_mib", 1, "model_size", MIB, MIB + 1),
        ("max_ttft_ms", 90, "ttft", 90 * MS, 90.01 * MS),
        ("min_prefill_tok_s", 100, "prefill_throughput", 100.0, 99.9),
        ("min_decode_tok_s", 60, "decode_throughput", 60.0, 59.9),
        ("max_itl_ms", 9, "itl_p50", 9 * MS, 9.01 * MS),
        ("max_itl_p99_ms", 9, "itl_p99", 9 * MS, 9.01 * MS),
    ],
)
def test_a_limit_on_a_metric_is_held_at_its_value_and_broken_beyond(
    key: str, limit: Any, metric: str, held: float, broken: float
) -> None:
    assert state({key: limit}, metrics={metric: (held,)}) is Limit.HELD
    assert state({key: limit}, metrics={metric: (broken,)}) is Limit.BROKEN


def test_every_key_that_judges_something_is_covered_by_a_boundary_above() -> None:
    covered = {"attention", "min_attention_nodes",
               "max_memcpy", "max_memcpy_share", "max_cpu_nodes", "max_nodes", "require_ops", "max_latency_ms",
               "max_p90_ms", "max_p99_ms", "min_throughput", "max_cold_start_ms", "max_load_ms", "max_peak_rss_mib",
               "max_model_size_mib",
               "max_peak_vram_mib", "max_ttft_ms",
               "min_prefill_tok_s", "min_decode_tok_s", "max_itl_ms", "max_itl_p99_ms"}  # fmt: skip
    assert {key.name for key in KEYS if key.judges} == covered


def test_the_median_over_processes_is_judged() -> None:
    assert state({"max_latency_ms": 12}, metrics={"latency_p50": (11 * MS, 11.5 * MS, 99 * MS)}) is Limit.HELD


def test_what_was_not_measured_is_neither_held_nor_broken_and_says_why() -> None:
    (result,) = check(parse_budget({"max_peak_rss_mib": 64}), record(not_measured={"peak_rss": "no such system"}))
    assert (result.state, result.why) == (Limit.CANNOT_TELL, "no such system")


def test_facts_that_may_be_too_low_break_a_limit_and_hold_none() -> None:
    lost = facts(unavailable="3 lines could not be read", memcpy=1)
    assert state({"max_memcpy": 0}, of=lost) is Limit.BROKEN
    assert state({"max_memcpy": 1}, of=lost) is Limit.CANNOT_TELL
    assert state({"require_ops": "Add"}, of=lost) is Limit.CANNOT_TELL


def test_no_profile_at_all_is_cannot_tell() -> None:
    (result,) = check(
        parse_budget({"max_memcpy": 0}), record(facts=None, not_measured={"facts": "the profile is empty"})
    )
    assert (result.state, result.why) == (Limit.CANNOT_TELL, "the profile is empty")


def test_a_fact_that_differs_between_runs_holds_no_limit() -> None:
    unstable = facts(memcpy=1, unstable=(Difference("memcpy", (0, 1, 1), ()),))
    assert state({"max_memcpy": 0}, of=unstable) is Limit.BROKEN
    assert state({"max_memcpy": 1}, of=unstable) is Limit.CANNOT_TELL
    assert state({"max_nodes": 2}, of=unstable) is Limit.HELD


def test_allowed_ops_on_the_cpu_do_not_count_and_shape_nodes_are_not_taken_off_twice() -> None:
    on_cpu = facts(
        cpu_nodes=3,
        ops={f"{CPU}:Det": 2, f"{CPU}:Gather": 3, f"{CUDA}:MatMul": 5},
        shape_nodes=(CountedNode(NodeKey("/shape/Gather", "Gather", CPU), 2),),
    )
    assert state({"max_cpu_nodes": 1, "allow_cpu_ops": "Det"}, of=on_cpu, ep=CUDA) is Limit.HELD
    assert state({"max_cpu_nodes": 0, "allow_cpu_ops": "Det"}, of=on_cpu, ep=CUDA) is Limit.BROKEN
    assert state({"max_cpu_nodes": 0, "allow_cpu_ops": {"Det", "Gather"}}, of=on_cpu, ep=CUDA) is Limit.HELD


def test_a_missing_op_is_named_with_the_closest_that_ran() -> None:
    ran = facts(ops={f"{CPU}:GroupQueryAttention": 1})
    (result,) = check(parse_budget({"require_ops": {"GroupQueryAtention"}}), record(of=ran))
    assert "missing: GroupQueryAtention" in result.why
    assert "did you mean GroupQueryAttention?" in result.why


def test_breaches_come_worst_first() -> None:
    budget = parse_budget({"max_memcpy": 0, "max_latency_ms": 9, "max_nodes": 2, "max_load_ms": 5})
    results = check(budget, record(of=facts(memcpy=6), metrics={"latency_p50": (10 * MS,)}))
    assert [r.key for r in results] == ["max_memcpy", "max_latency_ms", "max_load_ms", "max_nodes"]
    assert [r.state for r in results] == [Limit.BROKEN, Limit.BROKEN, Limit.CANNOT_TELL, Limit.HELD]


@pytest.mark.parametrize("on", ["cuda", "CUDA", "CUDAExecutionProvider", "*epyc*", "amd-*.cuda", ""])
def test_a_budget_applies_by_ep_device_or_key(on: str) -> None:
    assert Budget({}, on).applies_to(environment(CUDA))


@pytest.mark.parametrize("on", ["cpu", "CPU", "CPUExecutionProvider", " cpu "])
def test_every_spelling_of_an_ep_is_one(on: str) -> None:
    assert parse_budget({"on": on}).on == "cpu"


@pytest.mark.parametrize("on", ["cpu", "*h200*", "epyc", "*cudaa*", "cuda-2", "AcmeExecutionProvider", "EPYC, 2 cores"])
def test_a_budget_of_another_device_does_not_apply(on: str) -> None:
    assert not Budget({}, on).applies_to(environment(CUDA))
