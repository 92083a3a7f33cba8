"""Measures the ceilings of an execution provider through ONNX Runtime itself: FLOP/s of products, bytes/s of copies.

A long chain of nodes is timed against a chain of one, and the difference is divided by the nodes between: launch,
feeds, copies and the first touch of memory are in both and drop out. The matrices are made inside the graph from one
row (`Expand`) and only one row is returned (`Gather`), so that no large tensor crosses to the host.

Products are of square matrices, of entries 1 / n so that powers stay as they are; 2 * n^3 FLOP each. Bytes are moved by
`Neg` over a tensor larger than the caches, read once and written once. Source of the size: McCalpin, STREAM, "each
array must be at least 4 times the size of the available cache memory". Graph optimisation is off, so that no pair of
`Neg` is taken out; an EP that compiles the whole graph may still fuse them, and then no rate is given: see `_rate`.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from .session import create_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CPU = "CPUExecutionProvider"
_MIB = 1 << 20
ROUNDS = 5
_ENOUGH_NS = 20_000_000
"""A difference of 20 ms is far above the jitter of a call, which is some 0.1 ms."""
_LEAST_NS = 2_000_000
"""The longest chains take 7 ms at 2.5 PFLOP/s and 13 ms at 10 TB/s, more than any device of 2026 has."""
_TOO_LONG_NS = 80_000_000
"""A size is not tried where its difference would be longer: all rounds together are to stay below a second."""
_PRODUCTS = ((256, 8), (512, 8), (1024, 2), (2048, 2), (4096, 2), (4096, 16), (4096, 128))
"""Extent of the matrices and nodes of the long chain, tried in order until the difference is enough."""
_DEVICE_PRODUCTS = ((128, 4), *_PRODUCTS)
"""A software device takes a second for what a core does in a millisecond."""
_DEVICE_PASSES = ((16 * _MIB, 8), (256 * _MIB, 2), (256 * _MIB, 16), (256 * _MIB, 128), (256 * _MIB, 256))
"""Bytes of the tensor and nodes of the long chain. 256 MiB is more than twice the L2 cache of any GPU of 2026; only a
device that is slow beyond its caches, such as one in software, stays at 16 MiB."""
_FLOAT, _INT32, _INT64 = 1, 6, 7  # TensorProto.DataType
_CPU_BYTES = (64 * _MIB, 256 * _MIB)
"""Least and most bytes of the tensor on a CPU: more takes too long for one of its cores."""


def measure_ceilings(execution_providers: list[str], provider_options: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return the rates that an execution provider attains on large products and large tensors.

    Args:
        execution_providers: ONNX Runtime's names; the first is measured. On another than the CPU it is an error if a
            node would run on the CPU.
        provider_options: Of the first.
        threads: Intra-op threads; 0: as the runtime chooses.

    Returns:
        `flop_per_s` ({"float": FLOP/s}, empty where it could not be told), `bytes_per_s` (or None), `product_extent`
        and `products` (nodes between the chains), `tensor_bytes` and `passes`, `cache_bytes` (of the CPU's last level;
        0: not known, or another device), `rounds`, `execution_provider`. Rates are medians of the rounds.

    Raises:
        StepError: As for `create_session`.
    """

    def session_of(op_type: str, nodes: int) -> Any:
        return _session(_model(op_type, nodes), execution_providers, provider_options, threads)

    is_cpu = execution_providers[0] == _CPU
    cache_bytes = last_level_cache_bytes() if is_cpu else 0
    least, most = _CPU_BYTES
    passes = ((min(max(least, 4 * cache_bytes), most), 3),) if is_cpu else _DEVICE_PASSES
    extents = _PRODUCTS if is_cpu else _DEVICE_PRODUCTS
    products = [((extent, extent), nodes, 2 * extent**3) for extent, nodes in extents]
    copies = [((size // _MIB, _MIB // 4), nodes, 2 * size) for size, nodes in passes]
    (extent, _), product_nodes, flop_per_s = _measure("MatMul", products, session_of)
    (rows, columns), pass_nodes, bytes_per_s = _measure("Neg", copies, session_of)
    return {
        "execution_provider": execution_providers[0],
        "flop_per_s": {} if flop_per_s is None else {"float": flop_per_s},
        "bytes_per_s": bytes_per_s,
        "product_extent": extent,
        "products": product_nodes,
        "tensor_bytes": rows * columns * 4,
        "passes": pass_nodes,
        "cache_bytes": cache_bytes,
        "rounds": ROUNDS,
    }


def _measure(
    op_type: str,
    sizes: Sequence[tuple[tuple[int, int], int, int]],
    session_of: Callable[[str, int], Any],
) -> tuple[tuple[int, int], int, float | None]:
    """Return shape and nodes of the first size that takes long enough, else of the last, and units/s.

    Args:
        op_type: Of the nodes.
        sizes: Shape, nodes of the long chain besides the one of the short, units (FLOP, bytes) of a node.
        session_of: Makes the session of a chain.
    """
    short = session_of(op_type, 1)
    for place, (shape, nodes, units) in enumerate(sizes):
        pair = (short, session_of(op_type, 1 + nodes))
        feeds = _feeds(shape)
        for session in pair:  # the first run of a shape allocates
            session.run(None, feeds)
        if place + 1 == len(sizes):
            break
        difference_ns = median(_difference_ns(pair, feeds) for _ in range(3))
        _, next_nodes, next_units = sizes[place + 1]
        next_ns = difference_ns * (next_nodes * next_units) / (nodes * units)
        if difference_ns >= _ENOUGH_NS or next_ns > _TOO_LONG_NS:
            break
    differences = [_difference_ns(pair, feeds) for _ in range(ROUNDS)]
    return shape, nodes, _rate(differences, nodes * units)


def _feeds(shape: tuple[int, int]) -> dict[str, Any]:
    row = np.full((1, shape[1]), 1 / shape[1], np.float32)
    return {"row": row, "shape": np.array(shape, np.int64), "first": np.zeros(1, np.int32)}


def _difference_ns(sessions: Sequence[Any], feeds: dict[str, Any]) -> int:
    times = []
    for session in sessions:
        begin_ns = time.perf_counter_ns()
        session.run(None, feeds)
        times.append(time.perf_counter_ns() - begin_ns)
    return times[1] - times[0]


def _rate(differences_ns: Sequence[int], units: int) -> float | None:
    """Return units per second, None where the difference is too short, or does not stand out from its own spread.

    It is too short where the nodes between the chains cost nothing, as they were fused away.
    """
    middle_ns = median(differences_ns)
    spread_ns = median(abs(difference - middle_ns) for difference in differences_ns)
    return units * 1e9 / middle_ns if middle_ns >= max(_LEAST_NS, spread_ns) else None


def _session(model: bytes, execution_providers: list[str], provider_options: dict[str, Any], threads: int) -> Any:
    is_cpu = execution_providers[0] == _CPU
    # Without a memory pattern the first run of a shape allocates for all that follow; with one, the second does again.
    session_options: dict[str, Any] = {"graph_optimization_level": "disable", "enable_mem_pattern": False}
    if not is_cpu:
        session_options["session.disable_cpu_ep_fallback"] = "1"
    job = {
        "model": model,
        "execution_providers": [name for name in execution_providers if is_cpu or name != _CPU],
        "provider_options": provider_options,
        "session_options": session_options,
        "free_dimensions": {},
        "threads": threads,
        "profile_prefix": "",
        "log_severity": 3,
        "custom_op_libraries": [],
    }
    return create_session(job)[0]


def last_level_cache_bytes() -> int:
    """Return the size of the CPU's last cache as Linux tells it, 0 where it does not."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text("ascii").strip()
        number, unit = text[:-1], text[-1:]
        if number.isdigit() and unit in "KM":
            sizes.append(int(number) * (1024 if unit == "K" else _MIB))
    return max(sizes, default=0)


def _model(op_type: str, nodes: int) -> bytes:
    """Return a model that expands `row` to `shape`, sends it through a chain and returns its first row.

    Written by hand, as the `onnx` package is not there: opset 13, IR 8; tests/runtime/test_ceilings.py reads it with
    `onnx`. Field numbers. Source: ONNX, onnx/onnx.proto (ModelProto, GraphProto, NodeProto, ValueInfoProto).
    """
    chain = [_node("Expand", ["row", "shape"], "x")]
    last = "x"
    for index in range(nodes):
        chain.append(_node(op_type, [last, "x"] if op_type == "MatMul" else [last], f"y{index}"))
        last = f"y{index}"
    chain.append(_node("Gather", [last, "first"], "y"))
    graph = b"".join(_field(1, node) for node in chain) + _field(2, b"ceilings")
    for name, element_type, rank in (("row", _FLOAT, 2), ("shape", _INT64, 1), ("first", _INT32, 1)):
        graph += _field(11, _value(name, element_type, rank))
    graph += _field(12, _value("y", _FLOAT, 2))
    return b"\x08\x08" + _field(7, graph) + _field(8, _field(1, b"") + b"\x10\x0d")


def _node(op_type: str, inputs: Sequence[str], output: str) -> bytes:
    named = b"".join(_field(1, name.encode()) for name in inputs)
    return named + _field(2, output.encode()) + _field(4, op_type.encode())


def _value(name: str, element_type: int, rank: int) -> bytes:
    """Return a ValueInfoProto of a tensor whose extents are not given."""
    shape = _field(1, b"") * rank
    tensor = b"\x08" + bytes([element_type]) + _field(2, shape)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of protobuf."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
