"""Records for tests of the pure core: a plain one, changed by keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_onnxperf.core.environment import Environment
from pytest_onnxperf.core.facts import Facts
from pytest_onnxperf.core.record import Record, TestKey

if TYPE_CHECKING:
    from collections.abc import Mapping

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
