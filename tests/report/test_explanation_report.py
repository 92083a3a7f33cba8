"""Why the facts are what they are, as a person reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.culprit import Culprit, CulpritGroup
from pytest_onnxperf.core.explanation import Explanation, ModelExplanation, NotFlash, PhaseRoofline
from pytest_onnxperf.core.judge import Verdict
from pytest_onnxperf.core.op_changes import MovedOps, OpChanges, OpTime
from pytest_onnxperf.core.outcome import Outcome
from pytest_onnxperf.core.placement import CpuGroup, Disagreement, Placement
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.roofline import RooflineRow
from pytest_onnxperf.report.explanation import attention_lines, explanation_lines, not_flash_lines, op_change_lines
from pytest_onnxperf.report.summary import explained_lines
from tests.records import CPU, CUDA, facts, record

if TYPE_CHECKING:
    from collections.abc import Iterable

LONG: Final = "/model/layers.17/self_attn/" + "very_long_scope/" * 8 + "Reshape_1"
ODD: Final = 'a "quoted"\nname with \t spaces \x1b[31m'


def culprit(**changes: Any) -> Culprit:
    plain: dict[str, Any] = {
        "memcpy": "Memcpy", "graph": (), "direction": "to_host", "tensor": "t", "node": "/layers.0/attn/Reshape_1",
        "op_type": "Reshape", "domain": "", "opset": 24, "why": "no_kernel", "provider": CUDA,
        "runtime": "ORT 1.24.4",
    }  # fmt: skip
    return Culprit(**{**plain, **changes})


def model(**changes: Any) -> ModelExplanation:
    plain: dict[str, Any] = {
        "session": "", "opsets": {"": 24}, "culprits": (), "why_no_graph": "", "boundary": "",
        "placement": Placement((), (), (), ""),
    }  # fmt: skip
    return ModelExplanation(**{**plain, **changes})


def placed(*groups: CpuGroup, disagreements: tuple[Disagreement, ...] = ()) -> Placement:
    return Placement((), disagreements, groups, "")


def use(kernel: str = "unfused", name: str = "/attn/0", **changes: Any) -> AttentionUse:
    plain: dict[str, Any] = {
        "node": NodeKey(name, "GroupQueryAttention", CUDA), "kernels": (kernel,) if kernel else (),
        "evidence": "ONNX Runtime printed MATH", "element_type": "float16", "head_size": 512, "query_length": 1,
    }  # fmt: skip
    return AttentionUse(**{**plain, **changes})


ROW: Final = RooflineRow("MatMul", CUDA, 1, 0, 2e9, 1e6, 2000, False, "", None, None, None, None)


def text(lines: Iterable[str]) -> str:
    """Return the text, of which no line is over 80 columns or holds what a terminal would act on."""
    found = list(lines)
    assert [line for line in found if len(line) > 80] == []
    assert all(line.isprintable() for line in found)
    return "\n".join(found)


def test_culprits_and_nodes_on_the_cpu_read_like_this() -> None:
    explained = model(
        culprits=(
            CulpritGroup(70, culprit()),
            CulpritGroup(1, culprit(op_type="GroupQueryAttention", domain="com.microsoft", opset=1, why="host_input",
                                    input_index=6, input_name="total_sequence_length", node="/attn/GQA")),
            CulpritGroup(2, culprit(op_type="", node="", why="unknown", detail="no source tells", tensor="a b",
                                    direction="from_host")),
        ),
        placement=placed(
            CpuGroup("Reshape", "no_kernel", 70, "/layers.0/attn/Reshape_1"),
            CpuGroup("Softmax", "type", 1, "/wide/Softmax"),
            CpuGroup("Gather", "shape_computation", 3, ""),
            CpuGroup("Det", "unknown", 1, "det"),
        ),
    )  # fmt: skip

    assert text(explanation_lines(Explanation((explained,)))) == (
        "Memcpy nodes, and what forces them\n"
        "  70 x Reshape (opset 24): CUDAExecutionProvider has no kernel for it in ORT\n"
        "    1.24.4, e.g. /layers.0/attn/Reshape_1 (MemcpyToHost)\n"
        "  1 x GroupQueryAttention (com.microsoft 1): it runs on CUDAExecutionProvider\n"
        "    and takes input 6 (total_sequence_length) in host memory, e.g. /attn/GQA\n"
        "    (MemcpyToHost)\n"
        "  2 x copy from the host, e.g. of 'a b': no source tells\n"
        "Nodes on the CPU, and why\n"
        "  70 x Reshape: the EP has no kernel for it, e.g. /layers.0/attn/Reshape_1\n"
        "  1 x Softmax: the EP has a kernel, not for these element types, e.g.\n"
        "    /wide/Softmax\n"
        "  3 x Gather: on purpose, to compute shapes\n"
        "  1 x Det: no source tells why, e.g. det"
    )


def test_sessions_of_a_generator_are_told_apart() -> None:
    vision = model(
        session="vision", placement=placed(CpuGroup("Det", "no_kernel", 1, "")), culprits=(CulpritGroup(1, culprit()),)
    )
    found = text(explanation_lines(Explanation((model(session="decoder"), vision))))

    assert "Memcpy nodes of vision, and what forces them" in found
    assert "Nodes on the CPU of vision, and why" in found
    assert "decoder" not in found


def test_suspects_are_called_so_with_the_reason() -> None:
    explained = model(culprits=(CulpritGroup(1, culprit()),), why_no_graph="its weights may need 16 MiB")
    found = text(explanation_lines(Explanation((explained,))))

    assert "  Only suspected, without the optimised graph: its weights may need 16 MiB" in found


def test_without_memcpy_nodes_nobody_is_suspected() -> None:
    assert text(explanation_lines(Explanation((model(why_no_graph="a full disk"),)))) == ""


def test_sources_that_disagree_are_shown() -> None:
    at_odds = Disagreement("det", "Det", (("profile", (CPU,)), ("log", (CUDA, CUDA))))
    found = text(explanation_lines(Explanation((model(placement=placed(disagreements=(at_odds,))),))))

    assert found == "  Sources disagree on Det det: profile: CPU; log: CUDA, CUDA"


def test_what_could_not_be_explained_is_said() -> None:
    found = text(explanation_lines(Explanation((), "decoder: the measuring process exited with status 3\n  | bye")))

    assert found.startswith("Could not be explained further: decoder: the measuring process exited with")
    assert "bye" in found


def test_nothing_found_is_no_text() -> None:
    assert text(explanation_lines(Explanation())) == ""
    assert text(explanation_lines(Explanation((model(),)))) == ""


@pytest.mark.parametrize("count", [5, 6])
def test_more_than_five_groups_are_counted(count: int) -> None:
    explained = model(
        culprits=tuple(CulpritGroup(1, culprit(op_type=f"Op{n}")) for n in range(count)),
        placement=placed(
            *(CpuGroup(f"Op{n}", "no_kernel", 1, "") for n in range(count)),
            disagreements=tuple(Disagreement(f"n{n}", "Det", (("log", (CPU,)),)) for n in range(count)),
        ),
    )
    lines = text(explanation_lines(Explanation((explained,)))).splitlines()

    assert sum(line.startswith("  1 x Op4") for line in lines) == 2
    assert not any("Op5" in line for line in lines)
    assert lines.count("  and 1 more groups") == (2 if count == 6 else 0)
    assert lines.count("  and 1 more disagreements") == (1 if count == 6 else 0)


@pytest.mark.parametrize("name", [LONG, ODD, "x" * 500, "", " padded ", "größe/日本"], ids=ascii)
def test_odd_names_stay_readable_within_80_columns(name: str) -> None:
    explained = model(
        culprits=(CulpritGroup(1, culprit(node=name, tensor=name)),
                  CulpritGroup(1, culprit(op_type="", why="graph_output", tensor=name))),
        why_no_graph=f"{name} cannot be written",
        placement=placed(CpuGroup("Det", "no_kernel", 1, name), disagreements=(Disagreement(name, "Det", ()),)),
        not_flash=(NotFlash(use(name=name), (f"a mask or bias is given ({name})",)),),
    )  # fmt: skip
    found = text(explanation_lines(Explanation((explained,), f"{name}: it failed")))
    found += text(attention_lines([use(name=name)]))
    wanted = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)

    assert "".join(wanted.split()) in "".join(found.split())


def test_the_parts_that_are_not_wanted_are_left_out() -> None:
    explained = Explanation((model(not_flash=(NotFlash(use(), ()),), rooflines=(PhaseRoofline("decode", (ROW,)),)),))

    everything = text(explanation_lines(explained))
    assert "Attention that is not Flash, and why" in everything
    assert "In decode\nRoofline: no ceilings are known for this device" in everything
    assert "Roofline" not in text(explanation_lines(explained, with_roofline=False))
    assert "Flash" not in text(explanation_lines(explained, with_attention=False))


def test_a_roofline_without_rows_is_left_out() -> None:
    assert text(explanation_lines(Explanation((model(rooflines=(PhaseRoofline("prefill", ()),)),)))) == ""


def test_attention_nodes_that_ran_alike_are_one_line() -> None:
    uses = [use("flash", f"/attn/{layer}", head_size=64, evidence="programs: Flash") for layer in range(3)]
    uses.append(use("", "/cross", evidence="no kernel was printed", head_size=None, query_length=None))

    assert text(attention_lines(uses)) == (
        "Attention\n"
        "  3 x GroupQueryAttention: flash (float16, head size 64, query length 1), e.g.\n"
        "    /attn/0: programs: Flash\n"
        "  GroupQueryAttention: cannot tell (float16) /cross: no kernel was printed"
    )
    assert text(attention_lines([])) == ""


def test_attention_that_is_not_flash_is_grouped_by_its_reasons() -> None:
    large = NotFlash(use(phase="decode"), ("head size 512: Flash takes at most 256", "softcap 30"))
    unknown = NotFlash(use(kernels=("efficient", "unfused")), ())

    assert text(not_flash_lines([large, unknown, large])) == (
        "Attention that is not Flash, and why\n"
        "  2 x GroupQueryAttention in decode, unfused: head size 512: Flash takes at\n"
        "    most 256; softcap 30\n"
        "  1 x GroupQueryAttention, efficient and unfused: neither the model nor the\n"
        "    device tells why"
    )
    assert text(not_flash_lines([])) == ""


@pytest.mark.parametrize("count", [5, 6])
def test_more_than_five_reasons_are_counted(count: int) -> None:
    lines = text(not_flash_lines([NotFlash(use(), (f"softcap {n}",)) for n in range(count)])).splitlines()

    assert len(lines) == 1 + count
    assert (lines[-1] == "  and 1 more groups") is (count == 6)


CHANGES: Final = OpChanges(
    phase="run",
    moved=(MovedOps("MatMul", 7, CUDA, CPU),),
    gained=((f"{CUDA}:MemcpyToHost", 2), (f"{CPU}:Softmax", 1)),
    lost=((f"{CUDA}:GroupQueryAttention", 1),),
    counts=((f"{CUDA}:Transpose", 4, 9),),
    times=(OpTime(f"{CPU}:MatMul", 0.0, 12.5), OpTime(f"{CUDA}:Add", 1.0, 1.5), OpTime(f"{CUDA}:Mul", 2.0, 1.0)),
    old_ms=10.25,
    new_ms=22.75,
)


def test_op_changes_read_like_this() -> None:
    assert text(op_change_lines([CHANGES])) == (
        "Since the baseline, a run:\n"
        "  moved   7 MatMul: CUDA to CPU\n"
        "  new     2 MemcpyToHost on CUDA, 1 Softmax on CPU\n"
        "  lost    1 GroupQueryAttention on CUDA\n"
        "  count   Transpose on CUDA 4 -> 9\n"
        "  slower  node time 10.2 -> 22.8 ms, profiled: MatMul on CPU +12 ms, Add on\n"
        "          CUDA +0.5 ms\n"
        "          (the time to launch, for nodes that are not on the CPU)"
    )
    assert text(op_change_lines([])) == ""


def test_a_phase_is_named_and_cpu_times_need_no_remark() -> None:
    times = (OpTime(f"{CPU}:MatMul", 1.0, 2.0),)
    found = text(op_change_lines([OpChanges("decode", (), (), (), (), times, 10.0, 11.0)]))

    assert found == (
        "Since the baseline, a run in decode:\n  slower  node time 10 -> 11 ms, profiled: MatMul on CPU +1 ms"
    )


@pytest.mark.parametrize("count", [5, 6])
def test_more_than_five_changes_of_a_kind_are_counted(count: int) -> None:
    many = tuple((f"{CPU}:Op{n}", 1) for n in range(count))
    moved = tuple(MovedOps(f"Op{n}", 1, CUDA, CPU) for n in range(count))
    counts = tuple((f"{CPU}:Op{n}", 1, 2) for n in range(count))
    found = text(op_change_lines([OpChanges("run", moved, many, many, counts, (), None, None)]))

    assert found.count(" and 1 more") == (4 if count == 6 else 0)
    assert "  and 1 more moved" in found.splitlines() or count == 5
    assert "Op5" not in found


def test_long_op_types_fit_into_80_columns() -> None:
    name = f"{CPU}:Compiled_" + "subgraph_of_" * 12
    change = OpChanges(
        "run", (MovedOps(name, 1, CUDA, CPU),), ((name, 1),), ((name, 1),), ((name, 1, 2),), (OpTime(name, 0, 1),), 1, 2
    )
    assert text(op_change_lines([change])).count("Compiled_") == 5


def test_the_summary_says_of_each_measurement_its_attention_and_why() -> None:
    found = facts(attention=(use("flash", head_size=64),))
    explained = Explanation((model(culprits=(CulpritGroup(1, culprit()),)),))
    outcome = Outcome(record(of=found), Verdict((), ()), explanation=explained)

    assert text(explained_lines(outcome)).splitlines()[:4] == [
        "",
        "test_a: a.onnx",
        "Attention",
        "  GroupQueryAttention: flash (float16, head size 64, query length 1) /attn/0:",
    ]
    assert list(explained_lines(replace(outcome, explanation=None))) == []


def test_the_summary_says_why_a_measurement_without_facts_cannot_be_explained() -> None:
    outcome = Outcome(record(facts=None), Verdict((), ()), explanation=Explanation((), "the profile is cut off"))

    assert "Could not be explained further: the profile is cut off" in text(explained_lines(outcome)).splitlines()
