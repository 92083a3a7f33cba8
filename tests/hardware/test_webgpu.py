"""onnxruntime-webgpu on a (software) Vulkan device: a real second device, with real copies and a real fallback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.probe import Prober
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.needs_webgpu, pytest.mark.usefixtures("own_locks")]

LONG_S = 300.0
WEBGPU, CPU = "WebGpuExecutionProvider", "CPUExecutionProvider"
PLAN: dict[str, Any] = {
    "warmup_rounds": 3, "min_rounds": 10, "max_time_s": 0.0, "profile_runs": 3, "timeout_s": LONG_S,
    "isolation": "process", "threads": 1,
}  # fmt: skip


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., Record]:
    def measure(model: Path, **changes: Any) -> Record:
        job = SessionJob(model, model.name, provider_of("webgpu"), **changes)
        measurement = Measurement(job, Plan(**PLAN), tmp_path / "files", lambda _: None)
        return measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)

    return measure


def without_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the software device; a machine with a GPU of its own has another."""
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        if "swiftshader" not in os.environ.get(name, "swiftshader").lower():
            pytest.skip("the device is no software device, and cannot be hidden")
        monkeypatch.setenv(name, "/no/such/icd.json")


def test_the_best_that_runs_here_is_webgpu() -> None:
    assert Prober(LONG_S).best().name == WEBGPU


def test_an_island_on_the_cpu_costs_a_copy_to_the_host_and_one_back(
    measure: Callable[..., Record], tmp_path: Path
) -> None:
    record = measure(models.cpu_island(tmp_path / "island.onnx"), shapes={"batch": 2})

    facts = record.facts
    assert facts is not None
    assert facts.unavailable is None
    assert facts.unstable == ()
    assert (facts.memcpy, facts.memcpy_to_host, facts.memcpy_from_host) == (2, 1, 1)
    assert facts.ops[f"{WEBGPU}:MemcpyToHost"] == 1
    assert facts.ops[f"{CPU}:Det"] == 1
    assert (facts.cpu_nodes, facts.nodes) == (1, 5)
    assert 0 < facts.memcpy_share < 1


def test_nodes_that_compute_shapes_on_purpose_are_named_apart(measure: Callable[..., Record], tmp_path: Path) -> None:
    model = models.dynamic_shapes(tmp_path / "shapes.onnx")

    facts = measure(model, shapes={"batch": 1, "seq": 4, "other": 4}).facts

    assert facts is not None
    on_cpu = facts.nodes_by_provider[CPU]
    assert facts.cpu_nodes + sum(node.executions for node in facts.shape_nodes) == on_cpu


def test_the_first_run_takes_more_than_twice_the_time_of_the_others(
    measure: Callable[..., Record], tmp_path: Path
) -> None:
    record = measure(models.transformer_block(tmp_path / "block.onnx"), shapes=_PREFILL)

    assert record.metrics["cold_start"][0] > 2 * record.metrics["latency_p50"][0]


_PREFILL = {"batch": 1, "seq": 8, "past": 0, "total": 8}


@pytest.mark.parametrize(
    ("shapes", "kernel"),
    [
        pytest.param(_PREFILL, "FlashAttention", id="prefill"),
        pytest.param({"batch": 1, "seq": 1, "past": 8, "total": 9}, "FlashAttentionDecodeQKT", id="decode"),
    ],
)
def test_the_profile_shows_the_kernels_of_attention(
    measure: Callable[..., Record], tmp_path: Path, shapes: dict[str, int], kernel: str
) -> None:
    record = measure(models.transformer_block(tmp_path / "block.onnx"), shapes=shapes)

    (path,) = (tmp_path / "files").glob("profile_*.json")
    profile = read_profile(path)
    runs = PLAN["warmup_rounds"] + PLAN["profile_runs"]
    programs = {name.rsplit("&", 1)[-1]: total.events for name, total in profile.api_events.items()}
    assert programs.get(kernel) == runs, programs
    assert record.facts is not None
    assert record.facts.fused_ops["GroupQueryAttention"] == 1


def test_inputs_and_outputs_can_stay_on_the_device(measure: Callable[..., Record], tmp_path: Path) -> None:
    facts = measure(models.mlp(tmp_path / "mlp.onnx"), shapes={"batch": 2}, bind=True).facts

    assert facts is not None
    assert facts.memcpy == 0
    assert set(facts.nodes_by_provider) == {WEBGPU}


def test_without_a_device_webgpu_does_not_run_and_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without_device(monkeypatch)
    prober = Prober(LONG_S)

    reason = prober.why_not(provider_of("webgpu"))

    assert "adapter" in reason
    assert "onnxruntime_src" not in reason
    assert WEBGPU in prober.available()
    assert prober.best().name == CPU


ISLAND = """
import pytest
from tests import models

@pytest.mark.onnx_budget(max_memcpy=0)
def test_island(onnx_session, tmp_path):
    onnx_session(models.cpu_island(tmp_path / "island.onnx")).measure(shapes={"batch": 2})
"""
QUICK = ("--onnxperf-timing=off", "--onnxperf-profile-runs=2")


def test_a_broken_budget_names_the_operator_on_the_cpu(run_pytest: Callable[..., pytest.RunResult]) -> None:
    result = run_pytest(ISLAND, *QUICK)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "onnxperf: WebGpuExecutionProvider on *",
        "max_memcpy: 2 a run, budget at most 0",
        "MemcpyToHost *WebGpu *1 *copy",
        "  1 x Det: the EP has no kernel for it, e.g. determinants/Det",
    ])  # fmt: skip


def test_without_a_device_auto_takes_the_cpu_and_says_why(
    run_pytest: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_device(monkeypatch)

    result = run_pytest(ISLAND, *QUICK)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        "onnxperf: CPUExecutionProvider on *",
        "onnxperf: WebGpuExecutionProvider is in this build and does not run:*",
    ])  # fmt: skip


def test_without_a_device_webgpu_by_name_fails(
    run_pytest: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_device(monkeypatch)

    result = run_pytest(ISLAND, "--onnxperf-ep=webgpu", *QUICK)

    result.assert_outcomes(failed=1)
    said = " ".join(result.stdout.str().partition("FAILURES")[2].split())
    assert (
        "WebGpuExecutionProvider (--onnxperf-ep) does not run here: RuntimeError: Failed to get a WebGPU adapter"
        in said
    )


def test_the_perf_suite_holds_its_budgets_on_webgpu(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)

    result = pytester.runpytest_subprocess(
        "--onnxperf", "--onnxperf-ep=webgpu", "--rootdir", str(root), "-c", str(root / "pyproject.toml"),
        "-p", "no:cacheprovider", "--onnxperf-timing=off", str(root / "tests" / "perf"),
    )  # fmt: skip

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["onnxperf: WebGpuExecutionProvider on *"])
