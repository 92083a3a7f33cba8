"""The plugin on real models: `pytest --onnxperf tests/perf`.

The budgets are what these models cost on the CPU execution provider and on WebGPU (measured on onnxruntime-webgpu
1.27). On the CPU execution provider every node is a node on the CPU, so `max_cpu_nodes` is asked of WebGPU only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import models

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_onnxperf import OnnxSessions


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's models are written."""
    return tmp_path_factory.mktemp("models")


@pytest.mark.onnx_budget(require_ops={"GroupQueryAttention"})
@pytest.mark.onnx_budget(max_memcpy=0, on="cpu")
@pytest.mark.onnx_budget(max_memcpy=1, max_cpu_nodes=6, on="webgpu")  # the lengths, computed from the mask on the CPU
@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param({"batch": 1, "seq": 32, "past": 0, "total": 32}, id="prefill"),
        pytest.param({"batch": 1, "seq": 1, "past": 32, "total": 33}, id="decode"),
    ],
)
def test_a_transformer_runs_fused_attention(
    onnx_session: OnnxSessions, model_dir: Path, shapes: dict[str, int]
) -> None:
    onnx_session(models.transformer_block(model_dir / "transformer.onnx")).measure(shapes=shapes)


@pytest.mark.onnx_budget(max_memcpy=0, max_nodes=12)
@pytest.mark.onnx_budget(max_cpu_nodes=0, on="webgpu")
def test_a_convolution_net_stays_on_its_device(onnx_session: OnnxSessions, model_dir: Path) -> None:
    onnx_session(models.convnet(model_dir / "convnet.onnx")).measure(shapes={"batch": 1})


@pytest.mark.onnx_budget(max_memcpy=0, on="cpu")
@pytest.mark.onnx_budget(max_memcpy=2, max_cpu_nodes=1, on="webgpu")  # to the host before Det and back after it
def test_an_island_on_the_cpu_costs_two_copies(onnx_session: OnnxSessions, model_dir: Path) -> None:
    onnx_session(models.cpu_island(model_dir / "cpu_island.onnx")).measure(shapes={"batch": 4})


@pytest.mark.onnx_budget(require_ops={"Loop"})
@pytest.mark.onnx_budget(max_memcpy=0, on="cpu")
@pytest.mark.onnx_budget(max_memcpy=2, max_cpu_nodes=5, on="webgpu")  # Loop, and an Identity in each trip
def test_a_loop_runs_its_body_without_further_copies(onnx_session: OnnxSessions, model_dir: Path) -> None:
    onnx_session(models.loop_model(model_dir / "loop.onnx", trips=4)).measure(shapes={"batch": 8})


@pytest.mark.onnx_budget(max_memcpy=0, max_nodes=16)
@pytest.mark.onnx_budget(max_cpu_nodes=6, on="webgpu")  # Gather and Concat, which compute the shapes
@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param({"batch": 1, "seq": 16, "other": 16}, id="square"),
        pytest.param({"batch": 2, "seq": 8, "other": 64}, id="wide"),
    ],
)
def test_computed_shapes_cost_no_copies(onnx_session: OnnxSessions, model_dir: Path, shapes: dict[str, int]) -> None:
    onnx_session(models.dynamic_shapes(model_dir / "dynamic_shapes.onnx")).measure(shapes=shapes)
