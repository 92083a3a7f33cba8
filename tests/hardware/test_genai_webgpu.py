"""GenAI with onnxruntime-webgpu on a (software) Vulkan device: real copies, real Flash kernels, a real cold start.

Tokens are not compared with those of the CPU: GroupQueryAttention's Flash kernel is wrong on SwiftShader for prompts of
more than four tokens.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.runtime.child.generator import GeneratorSteps
from tests import genai_models
from tests.genai_models import Setting, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_onnxperf.core.profile import Profile

    RunPytest = Callable[..., pytest.RunResult]

pytestmark = [
    pytest.mark.needs_webgpu,
    pytest.mark.skipif(importlib.util.find_spec("onnxruntime_genai") is None, reason="needs onnxruntime-genai"),
]

SIZE = Size(context=256)
WEBGPU = "WebGpuExecutionProvider"
# Form of attention -> copies in a step. The first copies lengths alone; ai.onnx Attention has no WebGPU kernel, so that
# its inputs and outputs are copied in each of the two layers.
COPIES = {
    "gqa": {"MemcpyFromHost": 1},
    "attention": {"MemcpyFromHost": 5, "MemcpyToHost": 7},
    "unfused": {"MemcpyFromHost": 3},
}


@pytest.fixture
def steps() -> Iterator[GeneratorSteps]:
    steps = GeneratorSteps()
    yield steps
    steps.close()


def job(directory: Path, **changes: Any) -> dict[str, Any]:
    plain = {"provider": "webgpu", "provider_options": {}, "overlay": {}, "threads": 1, "profile_prefix": ""}
    return {"model": str(directory), **plain, "log_severity": 3, **changes}


def copies(profile: Profile) -> dict[str, int]:
    found: Counter[str] = Counter()
    for node, total in profile.nodes.items():
        if node.op_type.startswith("Memcpy"):
            found[node.op_type] += total.executions
    return dict(found)


def attention_kernels(profile: Profile) -> set[str]:
    return {name.rsplit("&", 1)[1] for name in profile.api_events if "&FlashAttention" in name}


@pytest.mark.parametrize("form", genai_models.FORMS)
def test_each_form_of_attention_costs_its_copies_and_gqa_alone_runs_flash(
    form: genai_models.Attention, tmp_path: Path, steps: GeneratorSteps
) -> None:
    directory = genai_models.decoder(tmp_path / "model", form, size=SIZE)
    assert steps.open(job(directory, profile_prefix=str(tmp_path / "p")))["device_type"] == "WebGPU"
    steps.prepare(prompt_tokens=32, new_tokens=4)
    result = steps.profile(decode_steps=2)
    steps.close()
    profiles = [(step["phase"], read_profile(step["path"])) for step in result["steps"]]
    assert [phase for phase, _ in profiles] == ["prefill", "decode", "decode"]
    for phase, profile in profiles:
        assert len(profile.measured_runs) == 1
        assert copies(profile) == COPIES[form], phase
        attention = {node.execution_provider for node in profile.nodes if node.op_type == "Attention"}
        assert attention == ({"CPUExecutionProvider"} if form == "attention" else set())
        kernels = attention_kernels(profile)
        if form != "gqa":
            assert not kernels
        elif phase == "prefill":
            assert kernels == {"FlashAttention"}
        else:
            assert kernels
            assert all(kernel.startswith("FlashAttentionDecode") for kernel in kernels)


def test_a_warm_up_takes_the_cold_steps_out_of_the_rounds(tmp_path: Path, steps: GeneratorSteps) -> None:
    """The first prefill and the first decode step compile shaders; what follows is many times faster."""
    steps.open(job(genai_models.decoder(tmp_path, size=Size(layers=1, context=256), seed=3)))
    steps.prepare(prompt_tokens=33, new_tokens=4)
    cold_ns = steps.warm_up(1)["cold_start_ns"]
    rounds = [steps.round() for _ in range(3)]
    totals_ns = [times["append_ns"] + times["first_ns"] + sum(times["gaps_ns"]) for times in rounds]
    assert cold_ns > 2 * min(totals_ns)
    slowest_ns = [max(times["gaps_ns"]) for times in rounds]
    assert min(slowest_ns) * 4 < cold_ns


def test_the_configuration_says_the_provider(tmp_path: Path, steps: GeneratorSteps) -> None:
    setting = Setting(provider="webgpu", provider_options={"validationMode": "disabled"})
    directory = genai_models.decoder(tmp_path, size=SIZE, setting=setting)
    assert steps.open(job(directory, provider=""))["device_type"] == "WebGPU"
    assert steps.open(job(directory, provider="cpu"))["device_type"] == "CPU"


def test_every_session_of_a_model_runs_and_is_profiled_on_the_device(tmp_path: Path, steps: GeneratorSteps) -> None:
    directory = genai_models.vision_language(tmp_path / "model", size=Size(context=512))
    image = str(genai_models.image(tmp_path / "image.png"))
    steps.open(job(directory, profile_prefix=str(tmp_path / "p")))
    steps.prepare(prompt="<start_of_image>", images=[image], new_tokens=3)
    result = steps.profile(decode_steps=1)
    steps.close()
    for section, path in result["session_paths"].items():
        providers = {node.execution_provider for node in read_profile(path).all_nodes}
        assert WEBGPU in providers, section


MEASURES = """
import pytest
from tests import genai_models

@pytest.mark.onnx_budget(decode={"max_memcpy": 1, "require_ops": "GroupQueryAttention"})
@pytest.mark.parametrize("form", genai_models.FORMS)
def test_decoder(genai_generator, tmp_path, form):
    directory = genai_models.decoder(tmp_path / form, form, size=genai_models.Size(context=256))
    genai_generator(directory).measure(prompt_tokens=32, new_tokens=4)
"""


def test_a_test_passes_with_gqa_and_fails_with_what_another_attention_costs(run_pytest: RunPytest) -> None:
    quick = ("--onnxperf-timing=off", "--onnxperf-profile-runs=2", "--onnxperf-warmup-rounds=1")
    result = run_pytest(MEASURES, "--onnxperf-ep=webgpu", *quick)
    result.assert_outcomes(passed=1, failed=2)
    culprits = {
        "attention": "7 x Attention (opset 23): WebGpuExecutionProvider has no kernel for it in ORT 1.27.0",
        "unfused": "1 x LessOrEqual (opset 21): WebGpuExecutionProvider has no kernel for it in ORT 1.27.0 (int64, ",
    }
    for form, culprit in culprits.items():
        body = failure_of(result, f"test_decoder[{form}]")
        assert f"over budget decode.max_memcpy: {sum(COPIES[form].values())} a run, budget at most 1" in body
        assert "over budget decode.require_ops: none of them ran, budget GroupQueryAttention" in body
        assert culprit in body


def failure_of(result: pytest.RunResult, title: str) -> str:
    """What the output says of a failed test, in one line."""
    lines = result.outlines
    (begin,) = (place for place, line in enumerate(lines) if line.strip("_ ") == title and line.startswith("__"))
    end = next(place for place in range(begin + 1, len(lines)) if re.match(r"[=_]{3}", lines[place]))
    return " ".join(" ".join(lines[begin + 1 : end]).split())  # long lines are wrapped
