"""Every cause of the table of advice: found in a situation made for it, and not in the one next to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.advice import CAUSES, Advice, advice_for
from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.budget_keys import KEY
from pytest_onnxperf.core.culprit import Culprit, CulpritGroup
from pytest_onnxperf.core.explanation import Explanation, ModelExplanation, PhaseRoofline
from pytest_onnxperf.core.facts import CountedNode
from pytest_onnxperf.core.op_table import OpRow
from pytest_onnxperf.core.placement import CpuGroup, Placement
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.roofline import RooflineRow
from pytest_onnxperf.core.situation import ASKED, Situation
from tests.records import CPU, CUDA, MS, facts, record

if TYPE_CHECKING:
    from pytest_onnxperf.core.record import Record

NAMES = [cause.name for cause in CAUSES]
REPLAYED = "3 of 3 measured runs replayed a captured graph, and a replay leaves no node events"


def on_cpu(op_type: str, why: Any = "no_kernel", nodes: int = 1) -> CpuGroup:
    return CpuGroup(op_type, why, nodes, f"/{op_type}")


def culprit(op_type: str, why: Any, cause: Any = "unknown", **changes: Any) -> CulpritGroup:
    plain: dict[str, Any] = {
        "memcpy": "Memcpy", "graph": (), "direction": "to_host", "tensor": "t", "node": f"/{op_type}",
        "op_type": op_type, "domain": "", "opset": 17, "why": why, "provider": CUDA, "runtime": "ORT", "cause": cause,
    }  # fmt: skip
    return CulpritGroup(1, Culprit(**{**plain, **changes}))


def model(*groups: CpuGroup, **changes: Any) -> ModelExplanation:
    plain: dict[str, Any] = {
        "session": "", "opsets": {"": 24}, "culprits": (), "why_no_graph": "", "boundary": "",
        "placement": Placement((), (), groups, ""),
    }  # fmt: skip
    return ModelExplanation(**{**plain, **changes})


def row(op_type: str, share: float) -> OpRow:
    return OpRow(op_type, CUDA, 1, 0, 0, share, "memory", "")


def heads(size: int | None = 64, *kernels: str) -> AttentionUse:
    return AttentionUse(NodeKey("attn", "GroupQueryAttention", CUDA), kernels, "", "float16", size, 1)


def product(bound: str, flop: float = 100.0, op_type: str = "MatMul") -> RooflineRow:
    return RooflineRow(op_type, CUDA, 1, 0, flop, 200.0, 0.5, False, bound, 1.0, None, None, None)


def shown_by(name: str, *failed: str, of: Record | None = None, explained: ModelExplanation | None = None) -> str:
    """What shows the cause; empty where it is not found."""
    explanation = Explanation((explained,)) if explained else None
    over_budget = frozenset(each for each in failed if each in KEY)
    situation = Situation(of or record(ep=CUDA), frozenset(failed), explanation, over_budget)
    found = {advice.cause: advice.shown_by for advice in advice_for(situation)}
    return found.get(name, "")


def table(**changes: Any) -> Record:
    return record(of=facts(**changes), ep=CUDA)


def options(**given: str) -> Record:
    return record(ep=CUDA, options=given)


def decode(*rows: RooflineRow, phase: str = "decode") -> ModelExplanation:
    return model(rooflines=(PhaseRoofline(phase, rows),))


RESHAPES = model(on_cpu("Reshape", nodes=70), changed_ops={"Reshape": 24})
DET = model(on_cpu("Det"))
CUMSUM = model(on_cpu("CumSum"))
CHAIN = model(on_cpu("Gather"), on_cpu("ConstantOfShape"), rare_types={"Gather": "int64", "ConstantOfShape": "int64"})
WITH_SHAPE = table(ops={f"{CUDA}:Shape": 1, f"{CPU}:Gather": 1})
GATHER = CountedNode(NodeKey("g", "Gather", CPU), 1)
LENGTH = culprit("GroupQueryAttention", "host_input", input_index=6, input_name="total_sequence_length")
SHAPES = culprit("Gather", "shape_computation")
PAIRS = replace(model(), cast_pairs=2)
WHOLE = options(max_length="8192", context_length="8192")

LIMITED: Final = "a limit of nodes on the CPU, on the CPU"
FOUND: list[Any] = [
    # Cause, what failed, the record, the explanation, and what shows it; empty: it is not found.
    ("opset without a kernel", "memcpy", None, RESHAPES, "no kernel for 70 x Reshape (changed in opset 24)"),
    ("opset without a kernel", "cpu_nodes", None, RESHAPES, "no kernel for 70 x Reshape (changed in opset 24)"),
    ("opset without a kernel", "memcpy", None, DET, ""),
    ("opset without a kernel", "latency_p50", None, RESHAPES, ""),
    ("opset without a kernel", "memcpy", None, None, ""),
    ("opset without a kernel", "memcpy", None, model(on_cpu("Reshape", "type"), changed_ops={"Reshape": 24}), ""),
    ("op without a kernel", "memcpy", None, DET, "no kernel for 1 x Det"),
    ("op without a kernel", "memcpy", None, RESHAPES, ""),
    ("op without a kernel", "memcpy", None, CUMSUM, ""),
    ("op without a kernel", "memcpy", None, model(on_cpu("Conv")), ""),
    ("op without a kernel", "memcpy", None, model(on_cpu("Det"), rare_types={"Det": "double"}), ""),
    ("op without a kernel", "memcpy", None, model(on_cpu("Det", "unknown")), ""),
    ("op without a kernel", "memcpy_share", None,
     model(*[on_cpu(f"Op{number}") for number in range(5)]), "no kernel for 1 x Op0, 1 x Op1, 1 x Op2 and 2 more"),
    ("integer op on the CPU", "memcpy", None, CUMSUM, "CumSum on the CPU for its element types"),
    ("integer op on the CPU", "memcpy", None, model(on_cpu("Softmax", "type")),
     "Softmax on the CPU for its element types"),
    ("integer op on the CPU", "memcpy", None, model(on_cpu("Where"), rare_types={"Where": "int64"}),
     "Where (int64) on the CPU for its element types"),
    ("integer op on the CPU", "memcpy", None, model(on_cpu("CumSum"), on_cpu("TopK")),
     "CumSum, TopK on the CPU for their element types"),
    ("integer op on the CPU", "memcpy", None, model(on_cpu("CumSum", "shape_computation")), ""),
    ("integer op on the CPU", "memcpy", None, DET, ""),
    ("integer op on the CPU", "latency_p50", None, CUMSUM, ""),
    ("integer op on the CPU", "cpu_nodes", record(), CUMSUM, ""),
    ("integer op on the CPU", "memcpy", WITH_SHAPE, CHAIN, ""),
    ("Conv on the CPU", "latency_p50", table(ops={f"{CPU}:Conv": 9, f"{CUDA}:Relu": 9}), None, "Conv on the CPU"),
    ("Conv on the CPU", "latency_p50", table(ops={f"{CUDA}:Conv": 9, f"{CPU}:Relu": 9}), None, ""),
    ("Conv on the CPU", "latency_p50", record(of=facts(ops={f"{CPU}:Conv": 9})), None, ""),
    ("shape chain", "memcpy", None, model(culprits=(SHAPES,)), "shapes are computed on the CPU (Gather)"),
    ("shape chain", "cpu_nodes", table(shape_nodes=(GATHER, GATHER)), None, "shapes are computed on the CPU (Gather)"),
    ("shape chain", "memcpy", WITH_SHAPE, CHAIN, "shapes are computed on the CPU (Gather, ConstantOfShape)"),
    ("shape chain", "memcpy", table(ops={f"{CPU}:Gather": 1}), CHAIN, ""),
    ("shape chain", "memcpy", WITH_SHAPE, model(on_cpu("Gather")), ""),
    ("shape chain", "memcpy", None, model(culprits=(culprit("Gather", "no_kernel"),)), ""),
    ("shape chain", "latency_p50", table(shape_nodes=(GATHER,)), None, ""),
    ("input in host memory", "memcpy", None, model(culprits=(LENGTH,)),
     "GroupQueryAttention takes total_sequence_length in host memory"),
    ("input in host memory", "memcpy", None, model(culprits=(culprit("If", "host_input", input_index=0),)),
     "If takes input 0 in host memory"),
    ("input in host memory", "memcpy", None,
     model(culprits=(culprit("If", "graph_input", "host_input", input_index=0),)), "If takes input 0 in host memory"),
    ("input in host memory", "memcpy", None, model(culprits=(culprit("If", "host_output"),)), ""),
    ("input in host memory", "ttft", None, model(culprits=(LENGTH,)), ""),
    ("head size over 256", "attention", table(attention=(heads(64), heads(257))), None, "head size 257"),
    ("head size over 256", "attention", table(attention=(heads(256),)), None, ""),
    ("head size over 256", "attention", table(attention=(heads(None),)), None, ""),
    ("head size over 256", "latency_p50", table(attention=(heads(257),)), None, ""),
    ("unfused attention", "attention", table(attention=(heads(64, "unfused"), heads(64, "flash"))), None,
     "unfused attention in 1 node"),
    ("unfused attention", ASKED, table(attention=(heads(64, "unfused"),) * 2), None, "unfused attention in 2 nodes"),
    ("unfused attention", "attention", table(attention=(heads(64, "flash"), heads(64))), None, ""),
    ("unfused attention", "memcpy", table(attention=(heads(64, "unfused"),)), None, ""),
    ("replayed graph", "memcpy", table(unavailable=REPLAYED), None, "a captured graph was replayed"),
    ("replayed graph", "memcpy", table(unavailable="no run is in the profile"), None, ""),
    ("replayed graph", "memcpy", table(), None, ""),
    ("lost fusion", "fused_ops", None, None, "a fusion was lost"),
    ("lost fusion", "ops", None, None, "a required operator did not run"),
    ("lost fusion", "nodes", None, None, ""),
    ("Cast pairs", "latency_p50", None, PAIRS, "2 Casts are turned back by another"),
    ("Cast pairs", "latency_p50", None, replace(PAIRS, cast_pairs=1), ""),
    ("Cast pairs", "memcpy", None, PAIRS, ""),
    ("Transpose not fused", "itl_p99", table(op_table=(row("Transpose", 0.05),)), None,
     "Transpose takes 5% of the node time"),
    ("Transpose not fused", "itl_p99", table(op_table=(row("Transpose", 0.049),)), None, ""),
    ("Transpose not fused", "memcpy", table(op_table=(row("Transpose", 0.05),)), None, ""),
    ("Transpose not fused", "itl_p99", table(op_table=(row("MatMul", 0.9),)), None, ""),
    ("metadata ops that cost time", "ttft", table(op_table=(row("Reshape", 0.03), row("Unsqueeze", 0.02))), None,
     "operators that only change a shape take 5% of the node time"),
    ("metadata ops that cost time", "ttft", table(op_table=(row("Reshape", 0.029), row("Squeeze", 0.02))), None, ""),
    ("metadata ops that cost time", "nodes", table(op_table=(row("Reshape", 0.5),)), None, ""),
    ("decode bound by memory bandwidth", "decode_throughput", None, decode(product("memory")),
     "MatMul of a decode step at batch 1 is bound by memory (0.5 FLOP/byte)"),
    ("decode bound by memory bandwidth", ASKED, options(batch_size="1"), decode(product("memory")),
     "MatMul of a decode step at batch 1 is bound by memory (0.5 FLOP/byte)"),
    ("decode bound by memory bandwidth", ASKED, options(batch_size="2"), decode(product("memory")), ""),
    ("decode bound by memory bandwidth", ASKED, None, decode(product("compute")), ""),
    ("decode bound by memory bandwidth", ASKED, None, decode(product("memory", 1), product("compute", 9)), ""),
    ("decode bound by memory bandwidth", ASKED, None, decode(product("")), ""),
    ("decode bound by memory bandwidth", ASKED, None, decode(), ""),
    ("decode bound by memory bandwidth", ASKED, None, decode(product("memory"), phase="prefill"), ""),
    ("decode bound by memory bandwidth", "ttft", None, decode(product("memory")), ""),
    ("max_length at the context size", "decode_throughput", WHOLE, None, "max_length is the whole context, 8192"),
    ("max_length at the context size", "peak_vram", WHOLE, None, "max_length is the whole context, 8192"),
    ("max_length at the context size", "peak_vram", options(max_length="8191", context_length="8192"), None, ""),
    ("max_length at the context size", "peak_vram", options(), None, ""),
    ("max_length at the context size", "memcpy", WHOLE, None, ""),
    ("first-run spike", "cold_start", record({"cold_start": (51 * MS,), "latency_p50": (10 * MS,)}), None,
     "the first run takes 5 times as long as the others"),
    ("first-run spike", "cold_start", record({"cold_start": (50 * MS,), "latency_p50": (10 * MS,)}), None,
     "the first run"),
    ("first-run spike", "cold_start", record({"cold_start": (50 * MS,)}), None, "the first run"),
    ("first-run spike", "latency_p50", record({"cold_start": (99 * MS,), "latency_p50": (MS,)}), None, ""),
    ("default thread count", "latency_p50", record(threads=8), None, "measured with 8 intra-op threads"),
    ("default thread count", "latency_p50", record(threads=1), None, "measured with 1 intra-op thread"),
    ("default thread count", "latency_p50", record(threads=0), None, ""),
    ("default thread count", "latency_p50", record(ep=CUDA, threads=8), None, ""),
    ("default thread count", "memcpy", record(threads=8), None, ""),
    ("memcpy nodes", "memcpy_to_host", None, None, "memcpy nodes"),
    ("memcpy nodes", "memcpy_to_host", None, model(culprits=(LENGTH,)), ""),
    ("memcpy nodes", "cpu_nodes", None, None, ""),
    ("nodes on the CPU", "cpu_nodes", None, None, "nodes on the CPU"),
    ("nodes on the CPU", "cpu_nodes", None, model(on_cpu("Det", "unknown")), "nodes on the CPU"),
    ("nodes on the CPU", "cpu_nodes", None, DET, ""),
    ("nodes on the CPU", "cpu_nodes", record(), None, ""),
    ("nodes on the CPU", "memcpy", None, None, ""),
    (LIMITED, "max_cpu_nodes", record(), None, "on the CPU every node counts"),
    (LIMITED, "max_cpu_nodes", record(ep=CUDA), None, ""),
    (LIMITED, "max_nodes", record(), None, ""),
    (LIMITED, "cpu_nodes", record(), None, ""),  # worse than the baseline, and no limit
    ("a longer prefill", "ttft", None, None, "TTFT is the prefill of the whole prompt"),
    ("a longer prefill", "prefill_throughput", None, None, "TTFT is the prefill of the whole prompt"),
    ("a longer prefill", "itl_p50", None, None, ""),
    ("time", "throughput", None, None, "slower than it should be"),
    ("time", ASKED, None, None, ""),
    ("time", "memcpy", None, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "failed", "of", "explained", "expected"),
    FOUND,
    ids=[f"{name}-{failed}-{number}" for number, (name, failed, *_) in enumerate(FOUND)],
)
def test_a_cause_is_found_where_it_is_and_not_next_to_it(
    name: str, failed: str, of: Record | None, explained: ModelExplanation | None, expected: str
) -> None:
    assert shown_by(name, failed, of=of, explained=explained) == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_cause_is_found_in_one_situation_and_missed_in_another(name: str) -> None:
    results = {bool(expected) for cause, *_, expected in FOUND if cause == name}
    assert results == {True, False}


@pytest.mark.parametrize("cause", CAUSES, ids=NAMES)
def test_every_cause_has_one_line_of_advice_and_a_source(cause: Any) -> None:
    assert cause.source
    assert cause.advice
    assert "\n" not in cause.advice + cause.source
    assert not cause.advice.endswith(".")
    assert len(cause.advice) < 200


def test_names_of_causes_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("asked_for", "name"),
    [
        ("many memcpy nodes from an opset the EP lacks", "opset without a kernel"),
        ("Shape, Gather and ConstantOfShape chains", "shape chain"),
        ("int64 CumSum and other integer ops", "integer op on the CPU"),
        ("head size over 256", "head size over 256"),
        ("first-run spike", "first-run spike"),
        ("Reshape, Squeeze, Unsqueeze that cost time", "metadata ops that cost time"),
        ("Transpose that was not fused", "Transpose not fused"),
        ("Cast pairs", "Cast pairs"),
        ("Conv on the CPU", "Conv on the CPU"),
        ("batch 1 decode bound by memory bandwidth", "decode bound by memory bandwidth"),
        ("unfused attention", "unfused attention"),
        ("max_length left at the context size", "max_length at the context size"),
        ("profiling a replayed graph", "replayed graph"),
        ("default thread count", "default thread count"),
    ],
)
def test_the_causes_that_were_asked_for_are_in_the_table(asked_for: str, name: str) -> None:
    assert name in NAMES, asked_for


def test_the_nearest_to_a_remedy_comes_first_and_what_is_explained_is_not_said_again() -> None:
    explained = replace(RESHAPES, culprits=(culprit("Reshape", "no_kernel"),))
    found = advice_for(Situation(record(ep=CUDA), frozenset({"memcpy", "cpu_nodes"}), Explanation((explained,))))

    assert [advice.cause for advice in found] == ["opset without a kernel"]


def test_without_a_failure_there_is_no_advice() -> None:
    assert advice_for(Situation(record(ep=CUDA), frozenset(), Explanation((RESHAPES,)))) == ()


def test_the_text_is_one_sentence_that_begins_with_what_shows_it() -> None:
    advice = Advice("time", "slower than it should be", "compare the op tables", "this plugin")

    assert advice.text == "Slower than it should be: compare the op tables"
