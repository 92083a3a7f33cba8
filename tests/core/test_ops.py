import pytest

from pytest_onnxperf.core import ops
from pytest_onnxperf.core.ort_log import read_log


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("MatMul", "compute"),
        ("GroupQueryAttention", "compute"),
        ("Softmax", "memory"),
        ("SkipLayerNormalization", "memory"),
        ("Transpose", "copy"),
        ("MemcpyFromHost", "copy"),
        ("Reshape", "metadata"),
        ("Loop", "other"),
        ("TRTKernel_graph_main_0", "other"),
        ("", "other"),
    ],
)
def test_the_class_of_an_operator(op_type: str, expected: str) -> None:
    assert ops.op_class(op_type) == expected


def test_every_class_has_one_line_of_advice() -> None:
    classes = {"compute", "memory", "copy", "metadata", "other"}
    assert set(ops.ADVICE) == classes
    assert all("\n" not in advice and len(advice) < 90 for advice in ops.ADVICE.values())


def test_no_operator_is_in_two_classes() -> None:
    names = [*ops._COMPUTE_OPS, *ops._MEMORY_OPS, *ops._COPY_OPS, *ops._METADATA_OPS]
    assert len(names) == len(set(names))


def test_every_fused_operator_has_a_class() -> None:
    assert {name for name in ops.FUSED_OPS if ops.op_class(name) == "other"} == set()


def test_nodes_forced_to_the_cpu_are_read_off_the_log() -> None:
    line = (
        "2026-12-01 [I:onnxruntime:, fallback_cpu_capability.cc:170 GetCpuPreferredNodes] ORT optimization- Force "
        "fallback to CPU execution for node: {} because the CPU execution path is deemed faster than overhead "
        "involved with execution on other EPs  capable of executing this node\n"
    )
    log = line.format("/a/Gather") + "other\n" + line.format("a b because of c") + line.format("")
    assert read_log(log.splitlines()).forced_cpu_nodes == {"/a/Gather", "a b because of c", ""}
    assert read_log([]).forced_cpu_nodes == frozenset()
