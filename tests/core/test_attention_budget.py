"""The budget keys `attention` and `min_attention_nodes`: held, broken, not to be told, on both sides of each limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.attention_budget import parse_kernels, uses_text
from pytest_onnxperf.core.attention_names import FUSED_KERNELS, KERNELS
from pytest_onnxperf.core.budget import check, parse_budget
from pytest_onnxperf.core.facts import Facts
from pytest_onnxperf.core.phases import worse_of
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.states import Limit
from tests.records import CPU, CUDA, facts, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_onnxperf.core.limits import LimitResult
    from pytest_onnxperf.core.record import Record

HELD, BROKEN, CANNOT_TELL = Limit.HELD, Limit.BROKEN, Limit.CANNOT_TELL
FLASH, XQA, EFFICIENT, UNFUSED, ON_CPU = ("flash",), ("xqa",), ("efficient",), ("unfused",), ("cpu",)
UNKNOWN: tuple[str, ...] = ()
BOTH = ("flash", "unfused")


def uses(*kernels: Sequence[str], phase: str = "") -> tuple[AttentionUse, ...]:
    return tuple(
        AttentionUse(
            NodeKey(f"attn{n}", "GroupQueryAttention", CUDA), tuple(names), "evidence", "float16", 64, 8, phase
        )
        for n, names in enumerate(kernels)
    )


def ran(*kernels: Sequence[str], **changes: Any) -> Facts:
    return facts(attention=uses(*kernels), **changes)


def generator(**kernels: Sequence[Sequence[str]]) -> Record:
    phases = {name: facts(attention=uses(*each, phase=name)) for name, each in kernels.items()}
    return record(of=worse_of(phases), phases=phases)


def result(kwargs: dict[str, Any], of: Facts | Record) -> LimitResult:
    (found,) = check(parse_budget(kwargs), record(of=of) if isinstance(of, Facts) else of)
    return found


def state(kwargs: dict[str, Any], *kernels: Sequence[str], **changes: Any) -> Limit:
    return result(kwargs, ran(*kernels, **changes)).state


# -- what a budget may name --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [*KERNELS, "fused"])
@pytest.mark.parametrize("form", [str, lambda kernel: {kernel}, lambda kernel: [kernel], lambda kernel: (kernel,)])
def test_every_kernel_can_be_named_alone_or_in_a_set(kernel: str, form: Any) -> None:
    assert parse_kernels("attention", form(kernel)) == {kernel}


def test_every_fused_kernel_is_fused_and_unfused_and_the_cpu_are_not() -> None:
    for kernel in FUSED_KERNELS:
        assert state({"attention": "fused"}, (kernel,)) is HELD
    assert state({"attention": "fused"}, UNFUSED) is BROKEN
    assert state({"attention": "fused"}, ON_CPU) is BROKEN


# -- attention: every node ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "kernels", "expected"),
    [
        ("flash", [FLASH], HELD),
        ("flash", [FLASH, FLASH], HELD),
        ("flash", [XQA], BROKEN),
        ("flash", [UNFUSED], BROKEN),
        ("flash", [ON_CPU], BROKEN),
        ("flash", [FLASH, UNFUSED], BROKEN),
        ("flash", [BOTH], BROKEN),
        ("flash", [UNKNOWN], CANNOT_TELL),
        ("flash", [FLASH, UNKNOWN], CANNOT_TELL),
        ("flash", [UNFUSED, UNKNOWN], BROKEN),
        ("flash", [("sparkling_attention",)], BROKEN),
        ({"flash", "xqa"}, [FLASH, XQA], HELD),
        ({"flash", "xqa"}, [("flash", "xqa")], HELD),
        ({"flash", "xqa"}, [FLASH, XQA, EFFICIENT], BROKEN),
        ({"flash", "unfused"}, [BOTH], HELD),
        ("fused", [FLASH, XQA, EFFICIENT], HELD),
        ("fused", [FLASH, UNFUSED], BROKEN),
        ({"fused", "unfused"}, [FLASH, UNFUSED], HELD),
        ({"fused", "unfused"}, [ON_CPU], BROKEN),
        ("fused", [("sparkling_attention",)], BROKEN),
        ("unfused", [UNFUSED], HELD),
        ("unfused", [FLASH], BROKEN),
    ],
)
def test_attention_is_held_where_every_node_ran_what_is_named(
    allowed: Any, kernels: list[Sequence[str]], expected: Limit
) -> None:
    assert state({"attention": allowed}, *kernels) is expected


# -- min_attention_nodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "kernels", "expected"),
    [
        (2, [FLASH, FLASH], HELD),
        (3, [FLASH, FLASH], BROKEN),
        (1, [FLASH, UNFUSED], HELD),
        (2, [FLASH, UNFUSED], BROKEN),
        (1, [FLASH, UNKNOWN], HELD),
        (2, [FLASH, UNKNOWN], CANNOT_TELL),
        (3, [FLASH, UNKNOWN], BROKEN),
        (2, [FLASH, UNKNOWN, UNFUSED], CANNOT_TELL),
        (1, [ON_CPU], BROKEN),
        (1, [], BROKEN),
        (0, [UNFUSED], HELD),
        (0, [UNKNOWN], HELD),
        (0, [], HELD),
    ],
)
def test_so_many_nodes_must_run_what_is_named_and_the_others_need_not(
    least: int, kernels: list[Sequence[str]], expected: Limit
) -> None:
    assert state({"attention": "flash", "min_attention_nodes": least}, *kernels) is expected


@pytest.mark.parametrize(
    ("least", "kernels", "expected"),
    [
        (2, [FLASH, UNFUSED], HELD),
        (3, [FLASH, UNFUSED], BROKEN),
        (2, [UNKNOWN, UNKNOWN], HELD),
        (3, [UNKNOWN, UNKNOWN], BROKEN),
        (1, [ON_CPU], HELD),
        (1, [], BROKEN),
        (0, [], HELD),
    ],
)
def test_without_a_kernel_any_attention_node_counts(least: int, kernels: list[Sequence[str]], expected: Limit) -> None:
    assert state({"min_attention_nodes": least}, *kernels) is expected


# -- phases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefill", "decode", "plain", "of_prefill", "of_decode"),
    [
        ([FLASH], [FLASH], HELD, HELD, HELD),
        ([FLASH], [UNFUSED], BROKEN, HELD, BROKEN),
        ([UNFUSED], [FLASH], BROKEN, BROKEN, HELD),
        ([FLASH], [UNKNOWN], CANNOT_TELL, HELD, CANNOT_TELL),
        ([UNKNOWN], [UNFUSED], BROKEN, CANNOT_TELL, BROKEN),
        ([FLASH], [], BROKEN, HELD, BROKEN),
        ([], [FLASH], BROKEN, BROKEN, HELD),
        ([], [], BROKEN, BROKEN, BROKEN),
    ],
)
def test_each_phase_is_judged_by_its_own_key_and_the_worse_by_the_plain_one(
    prefill: list[Sequence[str]], decode: list[Sequence[str]], plain: Limit, of_prefill: Limit, of_decode: Limit
) -> None:
    both = generator(prefill=prefill, decode=decode)

    assert result({"attention": "flash"}, both).state is plain
    assert result({"prefill": {"attention": "flash"}}, both).state is of_prefill
    assert result({"decode": {"attention": "flash"}}, both).state is of_decode


@pytest.mark.parametrize(("least", "expected"), [(2, HELD), (3, BROKEN)])
def test_the_nodes_of_two_phases_do_not_add_up(least: int, expected: Limit) -> None:
    both = generator(prefill=[FLASH] * 4, decode=[FLASH] * 2)

    assert result({"attention": "flash", "min_attention_nodes": least}, both).state is expected


def test_a_session_beside_the_decoder_needs_no_attention() -> None:
    phases = {
        "prefill": facts(attention=uses(FLASH, phase="prefill")),
        "decode": facts(attention=uses(FLASH, phase="decode")),
        "prefill.embedding": facts(),
    }

    assert result({"attention": "flash"}, record(of=worse_of(phases), phases=phases)).state is HELD


def test_the_key_of_a_phase_is_in_the_result() -> None:
    both = generator(prefill=[FLASH], decode=[UNFUSED])

    assert result({"decode": {"attention": "flash"}}, both).key == "decode.attention"


def test_a_session_has_no_phase_to_judge() -> None:
    found = result({"decode": {"attention": "flash"}}, ran(FLASH))

    assert (found.state, found.why) == (CANNOT_TELL, "a session has no phases")


# -- no attention node, and facts that cannot be told ------------------------------------------------------------------


@pytest.mark.parametrize("key", [{"attention": "flash"}, {"attention": "fused", "min_attention_nodes": 1}])
def test_no_attention_at_all_is_broken_and_says_so(key: dict[str, Any]) -> None:
    found = result(key, facts())

    assert (found.state, found.actual) == (BROKEN, "no attention node")
    assert found.why == "the profile has no attention operator, and no MatMul, Softmax, MatMul that fit together"


def test_a_phase_without_attention_is_named() -> None:
    assert result({"attention": "flash"}, generator(prefill=[FLASH], decode=[])).actual == "no attention node (decode)"


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("TensorrtExecutionProvider:TRTKernel_graph_main_1_0", CANNOT_TELL),
        ("OpenVINOExecutionProvider:OpenVINO-EP-subgraph_1", CANNOT_TELL),
        ("DmlExecutionProvider:DmlFusedNode_0_0", CANNOT_TELL),
        (f"{CUDA}:MemcpyToHost", BROKEN),
        (f"{CPU}:MatMul", BROKEN),
    ],
)
def test_a_node_that_the_provider_compiled_may_hide_attention(op: str, expected: Limit) -> None:
    found = result({"attention": "flash"}, facts(ops={op: 1}))

    assert found.state is expected
    assert ("may have compiled it into another" in found.why) is (expected is CANNOT_TELL)


@pytest.mark.parametrize(
    ("kwargs", "kernels", "expected"),
    [
        ({"attention": "flash"}, [FLASH], CANNOT_TELL),
        ({"attention": "flash"}, [UNFUSED], BROKEN),
        ({"attention": "flash"}, [], CANNOT_TELL),
        ({"attention": "flash", "min_attention_nodes": 1}, [FLASH], CANNOT_TELL),
        ({"attention": "flash", "min_attention_nodes": 2}, [FLASH], CANNOT_TELL),
        ({"min_attention_nodes": 3}, [FLASH], CANNOT_TELL),
    ],
)
def test_a_profile_of_which_lines_are_lost_holds_nothing_and_misses_no_node(
    kwargs: dict[str, Any], kernels: list[Sequence[str]], expected: Limit
) -> None:
    found = result(kwargs, ran(*kernels, unavailable="3 lines could not be read"))

    assert found.state is expected
    assert ("3 lines could not be read" in found.why) is (expected is CANNOT_TELL)


def test_without_a_profile_nothing_can_be_told() -> None:
    found = result({"attention": "flash"}, record(facts=None, not_measured={"facts": "the profile is empty"}))

    assert (found.state, found.why) == (CANNOT_TELL, "the profile is empty")


# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_breach_says_how_many_nodes_ran_what_and_why_that_is_known() -> None:
    found = result({"attention": {"xqa", "flash"}}, ran(UNFUSED, FLASH, UNFUSED, UNKNOWN))

    assert (found.key, found.limit) == ("attention", "flash or xqa")
    assert found.actual == "unfused in 2 nodes; unknown in 1 node; flash in 1 node"
    assert found.why == (
        "2 x GroupQueryAttention: unfused (float16, head size 64, query length 8), e.g. attn0: evidence; "
        "GroupQueryAttention: cannot tell (float16, head size 64, query length 8) attn3: evidence"
    )


def test_a_minimum_names_both_parts_of_the_limit() -> None:
    found = result({"attention": "flash", "min_attention_nodes": 2}, ran(FLASH))

    assert found.limit == "at least 2 nodes of flash"
    assert result({"min_attention_nodes": 2}, ran(FLASH)).limit == "at least 2 nodes of attention"


def test_the_key_is_that_of_the_budget() -> None:
    assert result({"min_attention_nodes": 2}, ran(FLASH)).key == "min_attention_nodes"
    assert result({"min_attention_nodes": 2, "attention": "flash"}, ran(FLASH)).key == "attention"


def test_a_phase_is_named_beside_its_kernels() -> None:
    found = result({"attention": "flash"}, generator(prefill=[FLASH], decode=[UNFUSED, UNFUSED]))

    assert found.actual == "unfused in 2 nodes (decode)"
    assert found.why.startswith("2 x GroupQueryAttention in decode: unfused ")


@pytest.mark.parametrize(("sizes", "lines", "last"), [(4, 4, "attn3"), (5, 5, "and 1 more groups")])
def test_more_than_four_groups_of_nodes_are_counted(sizes: int, lines: int, last: str) -> None:
    key = [NodeKey(f"attn{n}", "GroupQueryAttention", CUDA) for n in range(sizes)]
    different = [AttentionUse(key[n], UNFUSED, "evidence", "float", n) for n in range(sizes)]
    text = uses_text(different)

    assert len(text) == lines
    assert last in text[-1]


def test_more_nodes_of_the_wrong_kernel_are_worse() -> None:
    one, two = (result({"attention": "flash"}, ran(other, UNFUSED)) for other in (FLASH, UNFUSED))

    assert 0 < one.excess < two.excess
