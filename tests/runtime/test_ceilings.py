"""Ceilings are really measured, on the CPU; no absolute time is asserted, ratios only."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from pytest_onnxperf.core.peaks import measured_ceilings
from pytest_onnxperf.runtime.child import ceilings
from pytest_onnxperf.runtime.child.session import StepError

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = "CPUExecutionProvider"


def measure() -> dict[str, Any]:
    for _ in range(3):  # on a busy machine a rate may not stand out from the noise, and is then not told
        result = ceilings.measure_ceilings([CPU], {}, 0)
        if result["flop_per_s"] and result["bytes_per_s"]:
            break
    return result


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return measure()


def median_s(action: Callable[[], object], times: int) -> float:
    """Return the median of five times of `action`, done `times` times."""
    taken = []
    for _ in range(5):
        begin_s = time.perf_counter()
        for _ in range(times):
            action()
        taken.append(time.perf_counter() - begin_s)
    return median(taken)


def numpy_product_ratio(found: dict[str, Any]) -> float:
    extent, products = found["product_extent"], found["products"]
    matrix = np.full((extent, extent), 1 / extent, np.float32)
    numpy_flop_per_s = products * 2 * extent**3 / median_s(lambda: matrix @ matrix, products)
    return float(found["flop_per_s"]["float"] / numpy_flop_per_s)


def numpy_memory_ratio(found: dict[str, Any]) -> float:
    values, passes = np.ones(found["tensor_bytes"] // 4, np.float32), found["passes"]
    numpy_bytes_per_s = passes * 2 * values.nbytes / median_s(lambda: np.negative(values, out=values), passes)
    return float(found["bytes_per_s"] / numpy_bytes_per_s)


@pytest.mark.parametrize(("op_type", "nodes"), [("MatMul", 1), ("MatMul", 200), ("Neg", 5)])
def test_the_model_is_one_that_onnx_accepts(op_type: str, nodes: int) -> None:
    model = onnx.load_from_string(ceilings._model(op_type, nodes))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Expand", *[op_type] * nodes, "Gather"]
    assert (model.ir_version, model.opset_import[0].version) == (8, 13)


def test_a_chain_of_products_keeps_its_values() -> None:
    session = ceilings._session(ceilings._model("MatMul", 9), [CPU], {}, 1)
    (row,) = session.run(None, ceilings._feeds((64, 64)))
    np.testing.assert_allclose(row, np.full((1, 64), 1 / 64), rtol=1e-5)


@pytest.mark.parametrize("ratio_of", [numpy_product_ratio, numpy_memory_ratio])
def test_a_rate_is_within_a_factor_of_five_of_that_of_numpy(
    ratio_of: Callable[[dict[str, Any]], float], measured: dict[str, Any]
) -> None:
    """Others use the machine too, and may do so while one of the two is measured: then both are measured again."""
    ratios = [ratio_of(measured)]
    while len(ratios) < 4 and not 1 / 5 < ratios[-1] < 5:
        ratios.append(ratio_of(measure()))
    assert 1 / 5 < ratios[-1] < 5, ratios


def test_the_result_tells_what_was_measured(measured: dict[str, Any]) -> None:
    assert set(measured) == {
        "execution_provider", "flop_per_s", "bytes_per_s", "product_extent", "products", "tensor_bytes", "passes",
        "cache_bytes", "rounds",
    }  # fmt: skip
    assert measured["tensor_bytes"] >= 64 << 20
    assert measured["tensor_bytes"] == min(max(4 * measured["cache_bytes"], 64 << 20), 256 << 20)
    found = measured_ceilings("this machine", measured)
    assert found is not None
    assert found.holds_for(CPU)


def test_an_ep_that_is_not_in_this_build_is_an_error() -> None:
    with pytest.raises(StepError, match="has no NoSuchExecutionProvider"):
        ceilings.measure_ceilings(["NoSuchExecutionProvider", CPU], {}, 0)


@pytest.mark.parametrize(
    ("differences_ns", "rate"),
    [
        ((10_000_000,) * 3, 1e5),
        ((10_000_000, 9_000_000, 90_000_000, 11_000_000, 10_000_000), 1e5),  # one round was disturbed
        ((2_000_000,) * 3, 5e5),
        ((1_999_999,) * 3, None),  # nothing between the chains: fused away
        ((30_000, -40_000, 10_000, 50_000, -20_000), None),
        ((3_000_000, 10_000_000, -2_000_000, 8_000_000, -9_000_000), None),  # too noisy
        ((-10_000_000,) * 3, None),
    ],
)
def test_a_rate_is_told_only_where_the_difference_stands_out(
    differences_ns: tuple[int, ...], rate: float | None
) -> None:
    assert ceilings._rate(differences_ns, 1000) == rate


class Timed:
    """A session whose runs take as long as its nodes say, on a clock of the test."""

    def __init__(self, clock: Clock, nodes: int, ns_per_unit: float) -> None:
        self.clock, self.nodes, self.ns_per_unit = clock, nodes, ns_per_unit

    def run(self, _: None, feeds: dict[str, Any]) -> None:
        extent = int(feeds["shape"][1])
        self.clock.now_ns += 5_000_000 + round(self.nodes * 2 * extent**3 * self.ns_per_unit)


class Clock:
    now_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns


@pytest.mark.parametrize(
    ("flop_per_ns", "extent", "nodes"),
    [
        (1, 256, 8),  # 268 ms at the smallest size already
        (10, 256, 8),  # 27 ms: enough
        (80, 512, 8),  # 27 ms
        (120, 1024, 2),  # 18 ms at 512 is too little, 36 ms is enough
        (50_000, 4096, 16),
        (500_000, 4096, 128),  # more than any GPU: the last size, whatever it takes
    ],
)
def test_sizes_grow_until_the_chains_differ_enough(
    monkeypatch: pytest.MonkeyPatch, flop_per_ns: float, extent: int, nodes: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(ceilings, "time", clock)
    sizes = [((size, size), count, 2 * size**3) for size, count in ceilings._PRODUCTS]
    shape, got_nodes, rate = ceilings._measure("MatMul", sizes, lambda _, count: Timed(clock, count, 1 / flop_per_ns))
    assert (shape, got_nodes) == ((extent, extent), nodes)
    assert rate == pytest.approx(flop_per_ns * 1e9, rel=1e-3)


def test_a_device_is_measured_without_the_cpu_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[dict[str, Any]] = []

    def create_session(job: dict[str, Any]) -> tuple[object, int]:
        jobs.append(job)
        return object(), 0

    monkeypatch.setattr(ceilings, "create_session", create_session)
    ceilings._session(b"", ["CUDAExecutionProvider", CPU], {"device_id": 1}, 0)
    ceilings._session(b"", [CPU], {}, 2)
    device, cpu = jobs
    assert device["execution_providers"] == ["CUDAExecutionProvider"]
    assert device["session_options"]["session.disable_cpu_ep_fallback"] == "1"
    assert (cpu["execution_providers"], cpu["threads"]) == ([CPU], 2)
    assert "session.disable_cpu_ep_fallback" not in cpu["session_options"]
