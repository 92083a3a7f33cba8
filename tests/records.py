"""Records for tests of the pure core: a plain one, changed by keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.environment import Environment
from pytest_onnxperf.core.facts import Facts
from pytest_onnxperf.core.op_table import OpRow
from pytest_onnxperf.core.record import Record, TestKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.baseline import Entry

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
MS = 1_000_000


def facts(**changes: Any) -> Facts:
    """Facts of three runs of a MatMul and an Add on the CPU."""
    plain: dict[str, Any] = {
        "runs": 3,
        "unavailable": None,
        "unstable": (),
        "memcpy": 0,
        "memcpy_to_host": 0,
        "memcpy_from_host": 0,
        "nodes": 2,
        "cpu_nodes": 2,
        "nodes_by_provider": {CPU: 2},
        "ops": {f"{CPU}:Add": 1, f"{CPU}:MatMul": 1},
        "fused_ops": {},
        "shape_nodes": (),
        "memcpy_ns": 0.0,
        "memcpy_share": 0.0,
        "op_table": (),
    }
    return Facts(**{**plain, **changes})


def environment(execution_provider: str = CPU, device: str = "AMD EPYC 7763, 2 cores") -> Environment:
    """A CPU with two cores."""
    return Environment(device, "amd-epyc-7763-2c", execution_provider, {"onnxruntime": "1.32.0"})


def record(
    metrics: Mapping[str, tuple[float, ...]] | None = None,
    *,
    of: Facts | None = None,
    ep: str = CPU,
    **changes: Any,
) -> Record:
    """A record with a median latency of 10 ms in one process."""
    plain: dict[str, Any] = {
        "key": TestKey("tests/test_a.py", "test_a"),
        "model": "a.onnx",
        "environment": environment(ep),
        "facts": facts() if of is None else of,
        "metrics": {"latency_p50": (10 * MS,)} if metrics is None else metrics,
        "not_measured": {},
    }
    return Record(**{**plain, **changes})


def entry(latency_ms: float = 10, memcpy: int = 0, date: str = "2026-11-30") -> Entry:
    """What was recorded of a record with this latency."""
    return entry_of(record({"latency_p50": (latency_ms * MS,)}, of=facts(memcpy=memcpy)), date, "abc1234")


def timed(matmul_ms: float = 7.5, **changes: Any) -> Record:
    """A record with an op table of 10 ms in all, and a Cast of less than 1 %."""
    times = {"MatMul": matmul_ms, "Add": 9.91 - matmul_ms, "Cast": 0.09}
    rows = tuple(OpRow(op, CPU, 1, ms * MS, ms * MS, ms / 10, "compute", "") for op, ms in times.items())
    return record(of=facts(op_table=rows), options={"max_length": "512"}, **changes)
