"""Comparison with a baseline: every state, both sides of each boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.baseline import Entry, entry_of
from pytest_onnxperf.core.compare import compare
from pytest_onnxperf.core.facts import Difference, Facts
from pytest_onnxperf.core.metrics import METRICS
from pytest_onnxperf.core.phases import worse_of
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.states import State
from tests.records import CPU, CUDA, MS, facts, record

if TYPE_CHECKING:
    from pytest_onnxperf.core.comparison import Comparison
    from pytest_onnxperf.core.record import Record

PROCESSES = tuple(10 * MS * factor for factor in (0.998, 0.999, 1.0, 1.001, 1.002))


def baseline(**changes: Any) -> Entry:
    """Of five processes that hardly differ."""
    return entry_of(record(**{"metrics": {"latency_p50": PROCESSES}, **changes}), "2026-11-30", "abc1234")


def states(comparisons: tuple[Comparison, ...]) -> dict[str, State]:
    return {comparison.name: comparison.state for comparison in comparisons}


def test_without_an_entry_everything_is_no_baseline() -> None:
    assert states(compare(record(), None, tolerance=0.1)) == {
        "facts": State.NO_BASELINE,
        "latency_p50": State.NO_BASELINE,
    }


def test_the_same_record_is_ok_in_everything() -> None:
    assert set(states(compare(record(), baseline(), tolerance=0.1)).values()) == {State.OK}


@pytest.mark.parametrize("fact", ["memcpy", "cpu_nodes"])
def test_more_memcpy_or_cpu_nodes_regress_and_fewer_improve(fact: str) -> None:
    old = baseline(of=facts(**{fact: 2}))
    assert states(compare(record(of=facts(**{fact: 3})), old, tolerance=0.1))[fact] is State.REGRESSED
    assert states(compare(record(of=facts(**{fact: 1})), old, tolerance=0.1))[fact] is State.IMPROVED


def test_other_nodes_are_changed_whichever_way() -> None:
    new = record(of=facts(nodes=1, ops={f"{CPU}:FusedMatMul": 1}))
    found = states(compare(new, baseline(), tolerance=0.1))
    assert found["nodes"] is State.CHANGED
    assert found[f"ops.{CPU}:MatMul"] is State.CHANGED
    assert found[f"ops.{CPU}:FusedMatMul"] is State.CHANGED


def test_a_fused_op_that_is_lost_regresses() -> None:
    old = baseline(of=facts(fused_ops={"GroupQueryAttention": 2}))
    lost = compare(record(of=facts(fused_ops={"GroupQueryAttention": 1})), old, tolerance=0.1)
    gained = compare(record(of=facts(fused_ops={"GroupQueryAttention": 3})), old, tolerance=0.1)
    assert states(lost)["fused_ops.GroupQueryAttention"] is State.REGRESSED
    assert states(gained)["fused_ops.GroupQueryAttention"] is State.IMPROVED


def test_fewer_fused_ops_of_a_smaller_model_are_a_change() -> None:
    old = baseline(of=facts(nodes=20, fused_ops={"FusedGemm": 10}))
    smaller = compare(record(of=facts(nodes=4, fused_ops={"FusedGemm": 2})), old, tolerance=0.1)
    as_large = compare(record(of=facts(nodes=20, fused_ops={"FusedGemm": 2})), old, tolerance=0.1)
    assert states(smaller)["fused_ops.FusedGemm"] is State.CHANGED
    assert states(as_large)["fused_ops.FusedGemm"] is State.REGRESSED


def test_an_unstable_fact_is_said_and_not_compared() -> None:
    new = record(of=facts(memcpy=5, unstable=(Difference("memcpy", (4, 5, 5), ()),)))
    found = [c for c in compare(new, baseline(), tolerance=0.1) if c.name == "memcpy"]
    assert [c.state for c in found] == [State.UNSTABLE]
    assert found[0].text == "memcpy differs between runs: 4 in 1 run, 5 in 2 runs"


def test_a_fact_that_the_baseline_does_not_hold_is_no_baseline() -> None:
    old = replace(baseline(), facts={"memcpy": 0, "ops": 3})
    found = states(compare(record(), old, tolerance=0.1))
    assert (found["memcpy"], found["cpu_nodes"], found["ops"]) == (State.OK, State.NO_BASELINE, State.NO_BASELINE)


def test_facts_that_cannot_be_told_are_never_ok() -> None:
    new = record(of=facts(unavailable="a captured graph was replayed"))
    found = states(compare(new, baseline(), tolerance=0.1))
    assert found["facts"] is State.CANNOT_TELL
    assert "memcpy" not in found


def test_another_device_compares_facts_and_not_times() -> None:
    found = states(compare(record(ep=CUDA), baseline(ep=CUDA), tolerance=0.1, same_environment=False))
    assert found["latency_p50"] is State.OTHER_ENVIRONMENT
    assert found["memcpy"] is State.OK


def test_a_disturbed_record_does_not_regress_in_time_and_does_in_facts() -> None:
    slow = record({"latency_p50": (19 * MS,)}, of=facts(memcpy=1), disturbance="others used 50 %")
    found = states(compare(slow, baseline(), tolerance=0.1))
    assert found["latency_p50"] is State.DISTURBED
    assert found["memcpy"] is State.REGRESSED


def test_a_slowdown_that_the_others_cannot_explain_regresses_all_the_same() -> None:
    busy: dict[str, Any] = {"disturbance": "others used 50 %", "other_load_ratio": 0.5}
    within = compare(record({"latency_p50": (39 * MS,)}, **busy), baseline(), tolerance=0.1)
    beyond = compare(record({"latency_p50": (41 * MS,)}, **busy), baseline(), tolerance=0.1)
    assert states(within)["latency_p50"] is State.DISTURBED
    assert states(beyond)["latency_p50"] is State.REGRESSED
    assert not any(comparison.since_anchor for comparison in (*within, *beyond))


def test_a_record_without_facts_by_its_nature_has_none_to_compare() -> None:
    found = states(compare(record(facts=None, has_facts=False), baseline(), tolerance=0.1))
    assert set(found) == {"latency_p50"}


def test_a_regression_says_both_numbers_with_their_unit_and_comes_first() -> None:
    slow = record({"latency_p50": (12 * MS,)})
    first = compare(slow, baseline(), tolerance=0.1)[0]
    assert first.text == "latency p50 10 -> 12 ms (+20 %)"


def test_creep_since_the_anchor_is_said() -> None:
    old = baseline()
    crept = replace(old, metrics={"latency_p50_ms": [11.9, 11.95, 12.0, 12.05, 12.1]})
    found = compare(record({"latency_p50": (12 * MS,)}), crept, tolerance=0.1)
    (latency,) = [c for c in found if c.name == "latency_p50"]
    assert latency.state is State.OK
    assert latency.since_anchor == "latency p50 +20 % since its first record of 2026-11-30"


def test_there_is_no_creep_where_nothing_can_be_told_or_the_machine_is_busy() -> None:
    one_process = replace(baseline(), metrics={"latency_p50_ms": [12.0]})
    of_five = replace(baseline(), metrics={"latency_p50_ms": [11.9, 11.95, 12.0, 12.05, 12.1]})
    slow = record({"latency_p50": (12 * MS,)})
    for found in (
        compare(slow, one_process, tolerance=0.1),
        compare(replace(slow, disturbance="x"), of_five, tolerance=0.1),
    ):
        assert not any(comparison.since_anchor for comparison in found)


def test_metrics_that_no_baseline_gates_are_not_compared() -> None:
    every = record({metric.name: (1.0,) for metric in METRICS})
    compared = {c.name for c in compare(every, None, tolerance=0.1)}
    assert compared == {m.name for m in METRICS if m.gated} | {"facts"}


def test_a_metric_recorded_as_zero_is_compared_without_dividing_by_it() -> None:
    old = replace(baseline(), metrics={"latency_p50_ms": [0.0]})
    (found,) = [c for c in compare(record(), old, tolerance=0.1) if c.name == "latency_p50"]
    assert (found.state, found.detail) == (State.NOISY, "a value is 0, which has no ratio to the others")


# -- kernels of attention ----------------------------------------------------------------------------------------------


def attending(*kernels: str, **changes: Any) -> Facts:
    """Facts with a node for each text: `flash`, or `flash+unfused` where its runs differ, or nothing if not told."""
    key = NodeKey("attn", "GroupQueryAttention", CUDA)
    uses = tuple(
        AttentionUse(key, tuple(kernel.split("+")) if kernel else (), "nothing was printed") for kernel in kernels
    )
    return facts(attention=uses, **changes)


@pytest.mark.parametrize(
    ("old", "new", "state", "text"),
    [
        (["flash"] * 2, ["flash"] * 2, State.OK, "attention 2 flash"),
        (["flash"] * 2, ["unfused"] * 2, State.REGRESSED, "attention 2 flash -> 2 unfused"),
        (["flash"] * 2, ["flash", "unfused"], State.REGRESSED, "attention 2 flash -> 1 flash, 1 unfused"),
        (["flash"] * 2, ["flash", "flash+unfused"], State.REGRESSED, "attention 2 flash -> 1 flash, 1 flash+unfused"),
        (["flash"], ["efficient"], State.REGRESSED, "attention 1 flash -> 1 efficient"),
        (["efficient"], ["unfused"], State.REGRESSED, "attention 1 efficient -> 1 unfused"),
        (["unfused"], ["cpu"], State.REGRESSED, "attention 1 unfused -> 1 cpu"),
        (["unfused"] * 2, ["flash"] * 2, State.IMPROVED, "attention 2 unfused -> 2 flash"),
        (["unfused"], ["efficient"], State.IMPROVED, "attention 1 unfused -> 1 efficient"),
        (["cpu"], ["unfused"], State.IMPROVED, "attention 1 cpu -> 1 unfused"),
        (["cpu", "flash"], ["unfused"] * 2, State.IMPROVED, "attention 1 cpu, 1 flash -> 2 unfused"),
        (["flash"], ["cudnn_flash"], State.CHANGED, "attention 1 flash -> 1 cudnn_flash"),
        (["xqa"], ["flash"], State.CHANGED, "attention 1 xqa -> 1 flash"),
        (["flash"] * 2, ["flash"] * 3, State.CHANGED, "attention 2 flash -> 3 flash"),
        (["flash"], ["sparkling"], State.CHANGED, "attention 1 flash -> 1 sparkling"),
        (["unfused"], ["sparkling"], State.CHANGED, "attention 1 unfused -> 1 sparkling"),
        (["flash"], ["sparkling+unfused"], State.CHANGED, "attention 1 flash -> 1 sparkling+unfused"),
        (["flash"], [""], State.CANNOT_TELL, "attention was 1 flash: nothing was printed"),
        (["flash"] * 2, ["flash", ""], State.CANNOT_TELL, "attention was 2 flash: nothing was printed"),
        (["flash"], [], State.CHANGED, "attention 1 flash -> none"),
        ([], ["flash"], State.NO_BASELINE, "attention"),
    ],
)
def test_kernels_of_attention_are_compared_by_how_fast_they_are(
    old: list[str], new: list[str], state: State, text: str
) -> None:
    comparisons = compare(record(of=attending(*new)), baseline(of=attending(*old)), tolerance=0.1)

    (found,) = [each for each in comparisons if each.name == "attention"]
    assert (found.state, found.text) == (state, text)


def test_without_attention_on_either_side_there_is_nothing_to_compare() -> None:
    for new in ([], [""]):
        comparisons = compare(record(of=attending(*new)), baseline(of=attending()), tolerance=0.1)
        assert "attention" not in states(comparisons)


def test_the_kernels_of_a_phase_are_compared_with_those_of_the_same_phase() -> None:
    def of(prefill: str, decode: str) -> dict[str, Any]:
        phases = {"prefill": attending(prefill), "decode": attending(decode)}
        return {"of": worse_of(phases), "phases": phases}

    found = states(compare(record(**of("flash", "unfused")), baseline(**of("flash", "xqa")), tolerance=0.1))
    assert (found["prefill.attention"], found["decode.attention"]) == (State.OK, State.REGRESSED)


def test_a_layout_of_the_cpu_excuses_no_nodes_beside_a_gpu() -> None:
    ops = {f"{CPU}:ReorderOutput": 1}
    gpu = replace(record().environment, execution_provider="WebGpuExecutionProvider")
    old = entry_of(replace(record(of=facts(ops=ops, cpu_nodes=1)), environment=gpu), "2026-12-03", "")
    new = replace(record(of=facts(ops=ops, cpu_nodes=8)), environment=gpu)
    found = {each.name: each for each in compare(new, old, tolerance=0.05, same_environment=False)}
    assert found["cpu_nodes"].state is State.REGRESSED


CONV, REORDER, GELU = f"{CPU}:Conv", f"{CPU}:ReorderOutput", f"{CPU}:Gelu"
LAID_OUT = {CONV: 2, REORDER: 1}


@pytest.mark.parametrize(
    ("old", "new", "same", "state"),
    [
        (LAID_OUT, {CONV: 2, REORDER: 2}, False, State.OTHER_ENVIRONMENT),
        (LAID_OUT, {CONV: 2, REORDER: 2}, True, State.REGRESSED),
        ({CONV: 2}, {CONV: 2, REORDER: 2}, False, State.OTHER_ENVIRONMENT),
        ({f"{CPU}:FusedConv": 2}, {CONV: 2, f"{CPU}:Relu": 1}, False, State.REGRESSED),  # no layout at all
        (LAID_OUT, {CONV: 3, REORDER: 1}, False, State.REGRESSED),  # a layout makes no convolutions
        ({**LAID_OUT, GELU: 1}, {**LAID_OUT, f"{CPU}:Erf": 1, f"{CPU}:Div": 1}, False, State.REGRESSED),
        ({**LAID_OUT, GELU: 1}, {CONV: 2, REORDER: 3, GELU: 1}, False, State.OTHER_ENVIRONMENT),
        (LAID_OUT, {f"{CPU}:FusedConv": 1, CONV: 1, f"{CPU}:Add": 1, REORDER: 2}, False, State.OTHER_ENVIRONMENT),
        (LAID_OUT, {**LAID_OUT, f"{CPU}:Add": 2, f"{CPU}:Tanh": 2}, False, State.OTHER_ENVIRONMENT),
        (LAID_OUT, {**LAID_OUT, f"{CPU}:Add": 3}, False, State.REGRESSED),  # more than two convolutions take in
        (LAID_OUT, {**LAID_OUT, f"{CPU}:Mul": 2, f"{CPU}:HardSigmoid": 2}, False, State.OTHER_ENVIRONMENT),
        ({CONV: 2, f"{CPU}:Resize": 1}, {**LAID_OUT, f"{CPU}:Upsample": 1}, False, State.OTHER_ENVIRONMENT),
        ({CONV: 2, f"{CPU}:Resize": 1}, {**LAID_OUT, f"{CPU}:Upsample": 2}, False, State.REGRESSED),
    ],
)
def test_only_nodes_of_a_layout_that_follows_the_cpu_are_not_compared_with_another(
    old: dict[str, int], new: dict[str, int], same: bool, state: State
) -> None:
    def of(ops: dict[str, int], memcpy: int) -> Record:
        nodes = sum(ops.values())
        fused_ops = {key.partition(":")[2]: count for key, count in ops.items() if "Gelu" in key or "Fused" in key}
        return record(of=facts(ops=ops, nodes=nodes, cpu_nodes=nodes, fused_ops=fused_ops, memcpy=memcpy))

    comparisons = compare(
        of(new, 1), entry_of(of(old, 0), "2026-12-03", ""), tolerance=0.05, same_environment=same
    )  # fmt: skip
    found = {each.name: each.state for each in comparisons}
    assert found["cpu_nodes"] is state
    assert found["memcpy"] is State.REGRESSED
    assert (found.get("fused_ops.Gelu") is State.REGRESSED) is (GELU in old and GELU not in new)
