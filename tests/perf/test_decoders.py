"""The plugin on real generators: `pytest --onnxperf tests/perf`, where onnxruntime-genai is installed.

One decoder with its attention in three forms, which give the same tokens. On WebGPU (onnxruntime-webgpu 1.27) a decode
step costs 1, 12 and 3 memcpy nodes: GroupQueryAttention wants its length on the host; ai.onnx Attention has no kernel
there and runs on the CPU, which is no kernel that a budget names; an unfused attention computes its mask there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("onnxruntime_genai", reason="needs onnxruntime-genai", exc_type=ImportError)

from tests import genai_models

if TYPE_CHECKING:
    from pytest_onnxperf import GenaiGenerators


def on_webgpu(memcpy_per_step: int, **facts: str) -> pytest.MarkDecorator:
    return pytest.mark.onnx_budget(decode={"max_memcpy": memcpy_per_step}, **facts, on="webgpu")


@pytest.mark.onnx_budget(max_memcpy=0, on="cpu")
@pytest.mark.onnx_measure(min_rounds=3, max_time=0.5, warmup_rounds=1)
@pytest.mark.parametrize(
    "attention",
    [
        pytest.param(
            "gqa",
            marks=[
                on_webgpu(1, attention="flash"),
                pytest.mark.onnx_budget(decode={"require_ops": "GroupQueryAttention"}),
            ],
        ),
        pytest.param("attention", marks=on_webgpu(12)),
        pytest.param("unfused", marks=on_webgpu(3, attention="unfused")),
    ],
)
def test_a_decoder_with_its_attention_in_each_form(
    genai_generator: GenaiGenerators, tmp_path_factory: pytest.TempPathFactory, attention: genai_models.Attention
) -> None:
    directory = tmp_path_factory.mktemp("models") / attention
    genai_models.decoder(directory, attention=attention)
    genai_generator(directory).measure(prompt_tokens=32, new_tokens=64)
