"""What ONNX Runtime prints of attention kernels, in every form that its versions have, read among all else."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.attention_names import kernels_of_word
from pytest_onnxperf.core.ort_log import AttentionLine, read_log

if TYPE_CHECKING:
    from collections.abc import Iterator

CYAN, PLAIN = "\x1b[36m", "\x1b[0m"
NAME: Final = "/model/layers.0/attn/GroupQueryAttention"
STAMP: Final = "2026-12-02 04:10:07.120 [V:onnxruntime:, attention.cc:1234 ComputeInternal] "


def debug_line(kernel: str, name: str = NAME, operator: str = "GroupQueryAttention", data_type: str = "fp16") -> str:
    node = f" Node={name}" if name else ""
    return f"{CYAN}Operator={operator}{node} DataType={data_type} SdpaKernel={kernel}{PLAIN}"


def attention(*lines: str) -> tuple[AttentionLine, ...]:
    return read_log(lines).attention


def found(*lines: str) -> list[tuple[str, str, str]]:
    return [(line.operator, line.node, line.kernel) for line in attention(*lines)]


# -- the debug lines of CUDA -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "kernel"),
    [
        ("FLASH_ATTENTION", "flash"),
        ("LEAN_ATTENTION", "lean"),
        ("EFFICIENT_ATTENTION", "efficient"),
        ("TRT_FUSED_ATTENTION", "trt_fused"),
        ("TRT_FLASH_ATTENTION", "trt_fused"),
        ("TRT_CROSS_ATTENTION", "trt_fused"),
        ("TRT_CAUSAL_ATTENTION", "trt_fused"),
        ("CUDNN_FLASH_ATTENTION", "cudnn_flash"),
        ("FT_CAUSAL_ATTENTION", "decoder"),
        ("DECODER_ATTENTION", "decoder"),
        ("XQA", "xqa"),
        ("LATENT_ATTENTION", "latent"),
        ("MATH", "unfused"),
        ("SPARKLING_ATTENTION_2", "sparkling_attention_2"),
    ],
)
def test_every_word_is_read_and_has_the_name_of_a_budget_and_a_new_one_keeps_its_own(word: str, kernel: str) -> None:
    assert found(debug_line(word)) == [("GroupQueryAttention", NAME, word)]
    assert kernels_of_word(word) == {kernel}


@pytest.mark.parametrize("data_type", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize(
    "operator",
    ["GroupQueryAttention", "MultiHeadAttention", "PackedMultiHeadAttention", "PagedAttention", "Attention"],
)
def test_every_operator_and_element_type_is_read(operator: str, data_type: str) -> None:
    assert found(debug_line("MATH", "a", operator, data_type)) == [(operator, "a", "MATH")]


@pytest.mark.parametrize(
    ("flags", "word", "kernels"),
    [
        (" FLASH_ATTENTION=1", "FLASH_ATTENTION", {"flash"}),
        (" MATH=1", "MATH", {"unfused"}),
        (" TRT_FUSED_ATTENTION=1", "TRT_FUSED_ATTENTION", {"trt_fused"}),
        (" EFFICIENT_ATTENTION=1 MATH=0", "EFFICIENT_ATTENTION", {"efficient"}),
        (" FLASH_ATTENTION=1 MATH=1", "FLASH_ATTENTION+MATH", {"flash", "unfused"}),
        (" FLASH_ATTENTION=0", "?", set()),
        ("", "?", set()),
    ],
)
def test_flags_of_1_19_tell_the_kernel_without_the_word_sdpakernel(flags: str, word: str, kernels: set[str]) -> None:
    line = f"{CYAN}Operator=MultiHeadAttention Node=mha DataType=fp16{flags}{PLAIN}"

    assert found(line) == [("MultiHeadAttention", "mha", word)]
    assert kernels_of_word(word) == kernels


@pytest.mark.parametrize(
    "suffix",
    [
        " NumSplits=2 GqaGroupSize=1 EffectiveKvLengthBound=256 XqaPageTable=expanded",
        " NumSplits=1 GqaGroupSize=1 XqaPageTable=native",
    ],
)
def test_what_paged_attention_says_after_the_kernel_is_no_part_of_it(suffix: str) -> None:
    line = f"{CYAN}Operator=PagedAttention Node=paged DataType=fp16 SdpaKernel=XQA{suffix}{PLAIN}"

    assert found(line) == [("PagedAttention", "paged", "XQA")]


@pytest.mark.parametrize("colour", ["", CYAN, "\x1b[0;93m", "\x1b[m"])
def test_colours_are_no_part_of_what_is_read(colour: str) -> None:
    end = PLAIN if colour else ""
    (line,) = attention(f"{colour}Operator=GroupQueryAttention Node=a DataType=fp16 SdpaKernel=MATH{end}")

    assert line == AttentionLine(
        phase="",
        operator="GroupQueryAttention",
        node="a",
        kernel="MATH",
        text="Operator=GroupQueryAttention Node=a DataType=fp16 SdpaKernel=MATH",
    )


def test_a_line_of_a_node_without_a_name_names_none() -> None:
    assert found(debug_line("FLASH_ATTENTION", "")) == [("GroupQueryAttention", "", "FLASH_ATTENTION")]


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        'a "quoted" name',
        "it's",
        "DataType=fp32",
        "a DataType=fp32 SdpaKernel=MATH",
        "Node=x Operator=y",
        "first line\nsecond line",
        "one\ntwo\nthree\nfour",
        "ends with a space ",
        "größe/注意",
    ],
)
def test_a_name_is_read_whatever_is_in_it(name: str) -> None:
    lines = debug_line("FLASH_ATTENTION", name).split("\n")

    assert found(*lines) == [("GroupQueryAttention", name, "FLASH_ATTENTION")]


@given(st.text(st.characters(exclude_characters="\n\r\x1b", exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_name_of_one_line_is_read_as_it_is(name: str) -> None:
    assert found(debug_line("XQA", name)) == [("GroupQueryAttention", name, "XQA")]


def test_a_name_of_more_lines_than_are_joined_is_given_up_and_what_follows_is_read() -> None:
    too_long = debug_line("FLASH_ATTENTION", "1\n2\n3\n4\n5\n6").split("\n")

    assert found(*too_long, debug_line("MATH", "b")) == [("GroupQueryAttention", "b", "MATH")]


@pytest.mark.parametrize(
    "before", ["progress 50 %", "Operator=", "Operator=plus ", "2026-12-02 [W:onnxruntime:, x.cc:1 F] text"]
)
def test_other_output_before_it_on_the_same_line_does_no_harm(before: str) -> None:
    assert found(before + debug_line("FLASH_ATTENTION", "a")) == [("GroupQueryAttention", "a", "FLASH_ATTENTION")]


def test_other_output_after_it_on_the_same_line_does_no_harm() -> None:
    line = debug_line("FLASH_ATTENTION", "a") + "OTHER words of another thread"

    assert found(line) == [("GroupQueryAttention", "a", "FLASH_ATTENTION")]


@pytest.mark.parametrize(
    "other",
    [
        "Operator=plus",
        "Operator=plus Node=",
        "Operator=GroupQueryAttention Node=cut off",
        "onnxperf is no step",
        "flash attention is nice, SdpaKernel=MATH",
    ],
)
def test_a_line_that_only_looks_like_one_takes_nothing_from_those_after_it(other: str) -> None:
    lines = ["onnxperf-step begin prefill", debug_line("XQA", "a"), "onnxperf-step end", other]
    lines += ["onnxperf-step begin decode", debug_line("MATH", "b"), "onnxperf-step end", other]

    kept = [(line.phase, line.node, line.kernel) for line in attention(*lines)]
    assert kept == [("prefill", "a", "XQA"), ("decode", "b", "MATH")]


def test_placement_is_read_behind_a_line_that_is_cut_off() -> None:
    log = read_log([
        "Operator=GroupQueryAttention Node=cut off",
        "[I:onnxruntime:, x.cc:1 AddCopyNode] Add MemcpyToHost before scores for CUDAExecutionProvider",
    ])  # fmt: skip

    assert log.copied_tensors == (("MemcpyToHost", "scores"),)


# -- the options line, and ai.onnx Attention ---------------------------------------------------------------------------


def test_the_kernels_that_may_be_chosen_are_read_and_are_no_evidence_of_a_node() -> None:
    options = "FLASH_ATTENTION=1 EFFICIENT_ATTENTION=1 TRT_FUSED_ATTENTION=1 CUDNN_FLASH_ATTENTION=0 MATH=1"
    log = read_log([f"{CYAN}AttentionKernelOptions: {options}{PLAIN}"])

    assert log.attention_options == options
    assert log.attention == ()


def test_the_warning_about_unfused_attention_is_neither_an_option_nor_evidence() -> None:
    log = read_log(["Warning: Unfused kernel cannot be disabled right now. MATH=0 is ignored."])

    assert (log.attention_options, log.attention) == ("", ())


@pytest.mark.parametrize("stamp", ["", STAMP, f"\x1b[0;93m{STAMP}"])
@pytest.mark.parametrize(
    ("text", "word", "kernel"),
    [
        ("ONNX Attention: using cuDNN SDPA", "cuDNN SDPA", "cudnn_flash"),
        ("ONNX Attention: using Flash Attention", "Flash Attention", "flash"),
        ("ONNX Attention: using Memory Efficient Attention", "Memory Efficient Attention", "efficient"),
        ("Attention: using unified unfused path (is_gqa=0, softcap=0)", "unified unfused path", "unfused"),
    ],
)
def test_the_log_of_onnx_attention_is_read_with_and_without_a_time(
    stamp: str, text: str, word: str, kernel: str
) -> None:
    assert found(stamp + text) == [("Attention", "", word)]
    assert kernels_of_word(word) == {kernel}


@pytest.mark.parametrize(
    "line",
    [
        "CUDA kernel not found in registries for Op type: Attention node name: Attention: using Flash Attention",
        "using Flash Attention",
        "Node(s) placed on [CUDAExecutionProvider]. Number of nodes: 3",
    ],
)
def test_what_only_names_attention_is_no_evidence(line: str) -> None:
    assert attention(line) == ()


# -- steps -------------------------------------------------------------------------------------------------------------


def test_without_steps_every_line_counts() -> None:
    assert len(attention(debug_line("XQA"), "between", debug_line("MATH"))) == 2


def test_with_steps_a_line_outside_of_them_does_not_count_and_one_inside_has_its_phase() -> None:
    lines = attention(
        debug_line("MATH", "warm-up"),
        "onnxperf-step begin prefill",
        debug_line("FLASH_ATTENTION", "a"),
        STAMP + "ONNX Attention: using Flash Attention",
        "onnxperf-step end",
        debug_line("MATH", "between"),
        "onnxperf-step begin decode",
        debug_line("XQA", "a"),
        "onnxperf-step end",
        debug_line("MATH", "closing"),
    )

    kept = [(line.phase, line.kernel) for line in lines]
    assert kept == [("prefill", "FLASH_ATTENTION"), ("prefill", "Flash Attention"), ("decode", "XQA")]


def test_the_steps_of_a_session_have_no_phase() -> None:
    inside = "onnxperf-step begin ", debug_line("XQA", "measured"), "onnxperf-step end"
    kept = [(line.phase, line.node) for line in attention(debug_line("MATH", "warm-up"), *inside)]

    assert kept == [("", "measured")]


def test_a_step_that_printed_nothing_leaves_nothing_of_the_warm_up() -> None:
    assert attention(debug_line("MATH"), "onnxperf-step begin decode", "onnxperf-step end") == ()


def test_a_mark_that_stands_behind_other_output_begins_a_step() -> None:
    lines = ["no line end: onnxperf-step begin decode", debug_line("XQA"), "more onnxperf-step end", debug_line("MATH")]

    assert [line.kernel for line in attention(*lines)] == ["XQA"]


# -- size --------------------------------------------------------------------------------------------------------------

_MIB: Final = 1 << 20


def test_a_log_of_100_mb_of_other_lines_is_read_line_by_line_in_little_memory() -> None:
    def lines(number: int) -> Iterator[str]:
        yield debug_line("FLASH_ATTENTION", "first")
        for index in range(number):
            yield f"{index}: " + "what a chatty library says of itself; " * 27
        yield debug_line("XQA", "last")

    assert sum(map(len, lines(1_000))) * 100 > 100_000_000
    tracemalloc.start()
    try:
        log = read_log(lines(100_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [line.node for line in log.attention] == ["first", "last"]
    assert peak < _MIB
