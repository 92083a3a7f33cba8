"""The roofline table as a person reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_onnxperf.core.peaks import ceilings_of
from pytest_onnxperf.core.profile_detail import read_detail
from pytest_onnxperf.core.roofline import Ceilings, RooflineRow, roofline
from pytest_onnxperf.report.roofline import roofline_lines

DATA = Path(__file__).parents[1] / "data" / "profiles"
CPU = "CPUExecutionProvider"
HERE = Ceilings("AMD EPYC", {"float": 80e9}, 15e9, "measured here", CPU)
ROW = RooflineRow(
    op_type="MatMul",
    execution_provider=CPU,
    executions_per_run=4,
    unknown_per_run=0,
    flop_per_run=2.5e9,
    bytes_per_run=12.5e6,
    flop_per_byte=200,
    is_upper_bound=False,
    bound="compute",
    least_ns_per_run=31.25e6,
    node_ns_per_run=62.5e6,
    node_share_ratio=0.5,
    attained_ratio=0.5,
)


def shown(file: str, ceilings: Ceilings | None) -> list[str]:
    detail = read_detail(DATA / file)
    return list(roofline_lines(roofline(detail.executions, detail.runs, ceilings), ceilings))


def test_a_gpu_with_ceilings_of_its_datasheet_reads_like_this() -> None:
    assert shown("05-ppq-2023-cuda.json", ceilings_of("NVIDIA H200")) == [
        "Roofline, ceilings of NVIDIA H200 (NVIDIA H200 datasheet, 2024, dense, float as",
        "  TF32): float 494 TFLOP/s, float16 990 TFLOP/s, bfloat16 990 TFLOP/s, int8 1.98",
        "  PFLOP/s, memory 4.8 TB/s",
        "op type, a run      EP        FLOP   bytes FLOP/B bound     least    node of it",
        "FusedConv           CUDA      279M   15.5M     18 memory   3.24us       -     -",
        "Conv                CUDA     8.32M   5.39M   1.54 memory   1.12us       -     -",
        "Gemm                CUDA     2.05M   4.11M  0.499 memory    856ns       -     -",
        "Node time on another EP than the CPU is the time to launch the node, not the",
        "  time on the device: it is not shown, nor held against the least time.",
    ]


def test_a_device_without_ceilings_reads_like_this() -> None:
    assert shown("webgpu_1.27.0_gqa_decode_f32.json", None) == [
        "Roofline: no ceilings are known for this device, so what bounds an operator is",
        "  not told.",
        "op type, a run      EP        FLOP   bytes FLOP/B bound     least    node of it",
        "GroupQueryAttention WebGpu  <65.5k  <69.6k  0.941 -             -       -     -",
        "Node time on another EP than the CPU is the time to launch the node, not the",
        "  time on the device: it is not shown, nor held against the least time.",
        "<: at most. Causal attention is counted as the whole matrix, and a shared KV",
        "  buffer to its full length.",
    ]


def test_the_cpu_with_measured_ceilings_reads_like_this() -> None:
    assert shown("genai_0.18_run-level_1.json", HERE) == [
        "Roofline, ceilings of AMD EPYC (measured here): float 80 GFLOP/s, memory 15 GB/s",
        "op type, a run      EP        FLOP   bytes FLOP/B bound     least    node of it",
        "MatMul              CPU      20.5k   42.6k   0.48 memory   2.84us    22us   13%",
        "GroupQueryAttention CPU      1.28k   3.08k  0.416 memory    205ns    32us    1%",
    ]


def test_work_that_is_not_known_is_said() -> None:
    assert shown("06-quadric-2025-1thread.json", HERE)[1:] == [
        "op type, a run      EP        FLOP   bytes FLOP/B bound     least    node of it",
        "QLinearConv         CPU          -       -      - -             -   316ms     -",
        "QLinearConv on CPU: the shapes of 53 of 53 executions a run do not tell the work",
        "  (packed weights are not in a profile), and it is not counted.",
    ]


def test_an_element_type_without_a_ceiling_is_said() -> None:
    assert shown("11-vulkan-2026-dev0.json", HERE)[2:] == [
        "GroupQueryAttention CPU       393k   1.19M  0.332 -             -  6.12ms     -",
        "Where `least` is missing, no ceiling is known for that EP, or for the element",
        "  type of an execution.",
    ]


def test_a_model_without_products_reads_like_this() -> None:
    assert list(roofline_lines((), HERE))[1:] == [
        "No product, convolution or attention ran: there is nothing to tell.",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "MatMul              CPU       2.5G   12.5M    200 compute  31.2ms  62.5ms   50%"),
        (
            {"flop_per_run": 1.25e15, "least_ns_per_run": 2.5e9, "node_ns_per_run": 12.5e9},
            "MatMul              CPU      1.25P   12.5M    200 compute    2.5s   12.5s   50%",
        ),
        (
            {"flop_per_run": 999.0, "bytes_per_run": 0.5, "least_ns_per_run": 0.25, "node_ns_per_run": 0.0},
            "MatMul              CPU        999     0.5    200 compute  0.25ns     0ns   50%",
        ),
        (
            {"op_type": "DecoderMaskedMultiHeadAttention", "execution_provider": "OpenVINOExecutionProvider"},
            "DecoderMaskedMul... OpenVI    2.5G   12.5M    200 compute  31.2ms  62.5ms   50%",
        ),
        ({"op_type": "a\nb"}, "a?b                 CPU       2.5G   12.5M    200 compute  31.2ms  62.5ms   50%"),
        ({"flop_per_byte": None}, "MatMul              CPU       2.5G   12.5M      - compute  31.2ms  62.5ms   50%"),
        (
            {"is_upper_bound": True, "attained_ratio": None, "flop_per_run": 999.6e9, "bytes_per_run": 123e9},
            "MatMul              CPU     <1000G   <123G    200 compute <31.2ms  62.5ms     -",
        ),
    ],
)
def test_a_row(changes: dict[str, object], line: str) -> None:
    row = replace(ROW, **changes)  # type: ignore[arg-type]
    assert list(roofline_lines((row,), HERE))[2] == line


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_no_line_is_wider_than_80_columns(path: Path) -> None:
    if not path.stat().st_size:
        pytest.skip("empty")
    detail = read_detail(path)
    for ceilings in (None, HERE, ceilings_of("NVIDIA RTX 6000 Ada Generation")):
        lines = list(roofline_lines(roofline(detail.executions, detail.runs, ceilings), ceilings))
        assert all(len(line) <= 80 for line in lines)
