"""Attention on onnxruntime-webgpu with a Vulkan device: its profiles name programs, which tell the kernel."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    RunPytest = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.needs_webgpu, pytest.mark.usefixtures("own_locks")]

WEBGPU = "WebGpuExecutionProvider"
PLAN = Plan(
    warmup_rounds=1,
    min_rounds=1,
    max_time_s=0.0,
    profile_runs=2,
    timeout_s=300.0,
    isolation="process",
    threads=1,
    timing=False,
)
QUICK = ("--onnxperf-ep=webgpu", "--onnxperf-timing=off", "--onnxperf-profile-runs=2", "--onnxperf-warmup-rounds=1")


def attention_of_model(directory: Path, **options: Any) -> tuple[AttentionUse, ...]:
    """Measure a model and return the attention nodes of its facts."""
    job = SessionJob(models.attention(directory / "attention.onnx", **options), "attention.onnx", provider_of("webgpu"))
    measurement = Measurement(job, PLAN, directory / "files", lambda _: None)
    facts = measurement.record(TestKey("test_a.py", "test_a"), lambda _: False).facts
    assert facts is not None
    assert facts.unavailable is None
    return facts.attention


@pytest.mark.parametrize(
    ("options", "kernel", "program", "query_length"),
    [
        pytest.param({}, "flash", "FlashAttention", 32, id="prefill"),
        pytest.param({"seq": 1, "past": 8}, "flash", "FlashAttentionDecodeQKT", 1, id="decode"),
        pytest.param({"window": 4}, "unfused", "AttentionProbs", 32, id="windowed prefill"),
        pytest.param({"seq": 1, "past": 8, "window": 4}, "unfused", "AttentionProbs", 1, id="windowed decode"),
    ],
)
def test_a_program_tells_the_kernel_of_group_query_attention(
    tmp_path: Path, options: dict[str, int], kernel: str, program: str, query_length: int
) -> None:
    assert attention_of_model(tmp_path, **options) == (
        AttentionUse(
            node=NodeKey("attended0/GroupQueryAttention", "GroupQueryAttention", WEBGPU),
            kernels=(kernel,),
            evidence=f"programs of the profile: {program}",
            element_type="float",
            head_size=64,
            query_length=query_length,
        ),
    )


def test_products_and_a_softmax_are_unfused_attention(tmp_path: Path) -> None:
    assert attention_of_model(tmp_path, form="unfused") == (
        AttentionUse(
            node=NodeKey("probabilities0/Softmax", "MatMul+Softmax+MatMul", WEBGPU),
            kernels=("unfused",),
            evidence="MatMul, Softmax and MatMul one by one",
            element_type="float",
            head_size=64,
            query_length=32,
        ),
    )


def test_onnx_attention_has_no_kernel_on_the_device_and_ran_on_the_cpu(tmp_path: Path) -> None:
    (use,) = attention_of_model(tmp_path, form="attention")

    assert (use.node.op_type, use.kernels) == ("Attention", ("cpu",))
    assert use.evidence == f"it ran on the CPU, not on {WEBGPU}"


def test_every_layer_has_evidence_of_its_own(tmp_path: Path) -> None:
    uses = attention_of_model(tmp_path, layers=3)

    assert [use.node.name for use in uses] == [f"attended{layer}/GroupQueryAttention" for layer in range(3)]
    assert {use.kernels for use in uses} == {("flash",)}


MEASURES = """
import pytest
from tests import models

@pytest.mark.onnx_budget({budget})
def test_{name}(onnx_session, tmp_path):
    onnx_session(models.attention(tmp_path / "attention.onnx", {options})).measure()
"""
HELD = {
    "flash": ("", "attention='flash'"),
    "fused_decode": ("seq=1, past=8", "attention='fused'"),
    "at_least_two": ("layers=2", "attention={'flash', 'xqa'}, min_attention_nodes=2"),
    "unfused_on_purpose": ("window=4", "attention='unfused'"),
}
BROKEN = {
    "windowed": ("window=4", "attention='flash'"),
    "on_the_cpu": ("form='attention'", "attention='fused'"),
    "unfused": ("form='unfused'", "attention='flash'"),
    "one_too_few": ("layers=2", "attention='flash', min_attention_nodes=3"),
}
SAID = {
    "windowed": "over budget attention: unfused in 1 node, budget flash GroupQueryAttention: unfused (float, head size "
    "64, query length 32) attended0/GroupQueryAttention: programs of the profile: AttentionProbs",
    "on_the_cpu": "over budget attention: cpu in 1 node, budget fused Attention: cpu (float, query length 32) "
    f"attended0/Attention: it ran on the CPU, not on {WEBGPU}",
    "unfused": "over budget attention: unfused in 1 node, budget flash MatMul+Softmax+MatMul: unfused (float, head "
    "size 64, query length 32) probabilities0/Softmax: MatMul, Softmax and MatMul one by one",
    "one_too_few": "over budget attention: flash in 2 nodes, budget at least 3 nodes of flash",
}


def measured(run_pytest: RunPytest, tests: dict[str, tuple[str, str]]) -> pytest.RunResult:
    """Run a module with a test for each name, of the given model and budget."""
    source = [MEASURES.format(name=name, options=options, budget=budget) for name, (options, budget) in tests.items()]
    return run_pytest("\n".join(source), *QUICK)


def test_budgets_on_kernels_that_ran_hold(run_pytest: RunPytest) -> None:
    measured(run_pytest, HELD).assert_outcomes(passed=len(HELD))


def test_a_broken_budget_on_kernels_says_what_ran_and_what_shows_it(run_pytest: RunPytest) -> None:
    result = measured(run_pytest, BROKEN)

    result.assert_outcomes(failed=len(BROKEN))
    for name, said in SAID.items():
        assert said in failure_of(result, f"test_{name}")


def failure_of(result: pytest.RunResult, title: str) -> str:
    """What the output says of a failed test, in one line."""
    lines = result.outlines
    (begin,) = (place for place, line in enumerate(lines) if line.strip("_ ") == title and line.startswith("__"))
    end = next(place for place in range(begin + 1, len(lines)) if re.match(r"[=_]{3}", lines[place]))
    return " ".join(" ".join(lines[begin + 1 : end]).split())  # long lines are wrapped


GENERATES = """
import pytest
from tests import genai_models

@pytest.mark.onnx_budget(decode={"max_memcpy": 1}, prefill={"attention": "flash"})
@pytest.mark.parametrize("form", genai_models.FORMS)
def test_decoder(genai_generator, tmp_path, form):
    directory = genai_models.decoder(tmp_path / form, form, size=genai_models.Size(context=256))
    record = genai_generator(directory).measure(prompt_tokens=32, new_tokens=4)
    print({name: {use.kernels for use in facts.attention} for name, facts in record.phases.items()})
"""


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime_genai") is None, reason="needs onnxruntime-genai")
def test_a_budget_on_the_kernels_of_a_phase_holds_for_gqa_and_is_broken_by_the_other_forms(
    run_pytest: RunPytest,
) -> None:
    result = run_pytest(GENERATES, *QUICK, "-rP")

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["{'decode': {('flash',)}, 'prefill': {('flash',)}}"])
    on_cpu, unfused = (failure_of(result, f"test_decoder[{form}]") for form in ("attention", "unfused"))
    for said in (
        "over budget prefill.attention: cpu in 2 nodes (prefill), budget flash",
        "2 x Attention in prefill: cpu (float, head size 16, query length 32), e.g. layer0/attended/Attention: it ran "
        f"on the CPU, not on {WEBGPU}",
        "over budget decode.max_memcpy: 12 a run, budget at most 1",
    ):
        assert said in on_cpu
    for said in (
        "over budget prefill.attention: unfused in 2 nodes (prefill), budget flash",
        "2 x MatMul+Softmax+MatMul in prefill: unfused (float, head size 16, query length 32)",
        "MatMul, Softmax and MatMul one by one",
        "over budget decode.max_memcpy: 3 a run, budget at most 1",
    ):
        assert said in unfused
