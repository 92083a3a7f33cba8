"""CUDA on a machine with an NVIDIA GPU: `bash tests/cuda_lane.sh` runs what is marked `needs_cuda`, in minutes.

Which fused kernel runs depends on the GPU and on the version: on an H200 a healthy GroupQueryAttention takes cuDNN's
Flash Attention for prefill and Flash or XQA for decode. So the tests ask for any fused kernel, unless one was chosen.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from onnx import TensorProto

from pytest_onnxperf.core.attention_names import FUSED_KERNELS, KERNELS
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_onnxperf.core.attention import AttentionUse

    RunPytest = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.needs_cuda, pytest.mark.usefixtures("own_locks")]

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
FLOAT16: Final = TensorProto.FLOAT16
FLASH_LIKE: Final = FUSED_KERNELS - {"efficient"}
PLAN: dict[str, Any] = {
    "warmup_rounds": 3, "min_rounds": 10, "max_time_s": 0.0, "profile_runs": 3, "timeout_s": 120.0,
    "isolation": "process", "threads": 1, "timing": False,
}  # fmt: skip
QUICK = ("--onnxperf-ep=cuda", "--onnxperf-timing=off", "--onnxperf-profile-runs=2", "--onnxperf-warmup-rounds=1")


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., Record]:
    """Measures a model on CUDA; `plan` changes how."""

    def measure(model: Path, *, plan: dict[str, Any] | None = None, **changes: Any) -> Record:
        job = SessionJob(model, model.name, provider_of("cuda"), **changes)
        measurement = Measurement(job, Plan(**PLAN | (plan or {})), tmp_path / "files", lambda _: None)
        return measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)

    return measure


@pytest.fixture
def attention(measure: Callable[..., Record], tmp_path: Path) -> Callable[..., AttentionUse]:
    """Measures a model of one attention and returns what it ran."""

    def attention(**options: Any) -> AttentionUse:
        facts = measure(models.attention(tmp_path / "attention.onnx", **options)).facts
        assert facts is not None
        assert facts.unavailable is None
        (use,) = facts.attention
        return use

    return attention


def test_an_island_on_the_cpu_costs_two_copies_and_its_operator_is_named(
    measure: Callable[..., Record], tmp_path: Path
) -> None:
    facts = measure(models.cpu_island(tmp_path / "island.onnx"), shapes={"batch": 2}).facts

    assert facts is not None
    assert facts.unavailable is None
    assert (facts.memcpy, facts.memcpy_to_host, facts.memcpy_from_host) == (2, 1, 1)
    assert [op for op in facts.ops if op.startswith(CPU)] == [f"{CPU}:Det"]
    assert facts.ops[f"{CUDA}:MatMul"] == 1


def test_the_first_run_takes_longer_than_the_others(measure: Callable[..., Record], tmp_path: Path) -> None:
    record = measure(models.convnet(tmp_path / "net.onnx"), shapes={"batch": 1}, plan={"timing": True})

    assert record.metrics["cold_start"][0] > record.metrics["latency_p50"][0]


# -- which kernel attention ran ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "query_length"),
    [pytest.param({}, 32, id="prefill"), pytest.param({"seq": 1, "past": 32}, 1, id="decode")],
)
def test_group_query_attention_in_float16_is_fused_and_the_debug_lines_tell_the_kernel(
    attention: Callable[..., AttentionUse], options: dict[str, int], query_length: int
) -> None:
    use = attention(element_type=FLOAT16, **options)

    assert (use.node.op_type, use.node.execution_provider) == ("GroupQueryAttention", CUDA)
    assert (use.element_type, use.head_size, use.query_length) == ("float16", 64, query_length)
    assert use.kernels, use.evidence
    assert set(use.kernels) <= FUSED_KERNELS
    assert use.evidence.startswith("ONNX Runtime printed ")


def test_attention_in_float32_is_told_and_is_no_flash(attention: Callable[..., AttentionUse]) -> None:
    use = attention(form="mha")

    assert (use.node.execution_provider, use.element_type) == (CUDA, "float")
    assert use.kernels, use.evidence
    assert not set(use.kernels) & FLASH_LIKE


def test_group_query_attention_in_float32_has_no_kernel_on_cuda(attention: Callable[..., AttentionUse]) -> None:
    """Source: onnxruntime-gpu 1.31.1 has it for float16 and bfloat16 alone."""
    use = attention(element_type=TensorProto.FLOAT)

    assert not set(use.kernels) & FLASH_LIKE
    assert use.kernels == ("cpu",), use.evidence


def test_a_head_size_of_320_is_told_and_is_no_flash(attention: Callable[..., AttentionUse]) -> None:
    use = attention(element_type=FLOAT16, head_size=320)

    assert use.head_size == 320
    assert use.kernels, use.evidence
    assert not set(use.kernels) & FLASH_LIKE


def test_onnx_attention_is_told_by_a_word_that_is_known_or_the_reason_says_why_not(
    attention: Callable[..., AttentionUse],
) -> None:
    use = attention(form="attention", element_type=FLOAT16)

    assert use.node.op_type == "Attention"
    assert set(use.kernels) <= {*KERNELS, "cpu"}
    if not use.kernels:
        assert use.evidence.startswith("ONNX Runtime printed no kernel for it")


CHOSEN = """
import pytest
from onnx import TensorProto
from tests import models

@pytest.mark.parametrize("kernel", [
    pytest.param(name, marks=pytest.mark.onnx_budget(attention=name)) for name in ("flash", "efficient", "unfused")
])
def test_attention(onnx_session, tmp_path, kernel):
    model = models.attention(tmp_path / "attention.onnx", element_type=TensorProto.FLOAT16)
    record = onnx_session(model, ep="cuda", attention_backend=kernel).measure()
    (use,) = record.facts.attention
    print(f"chose {kernel}: ran {use.kernels}, {use.evidence}, {record.options}")
"""


def test_the_kernel_that_a_test_chooses_is_the_one_that_the_evidence_shows(run_pytest: RunPytest) -> None:
    result = run_pytest(CHOSEN, *QUICK, "-rA")

    result.assert_outcomes(passed=3)
    printed = "chose {0}: ran ('{0}',), ONNX Runtime printed {1}, {{'sdpa_kernel': '{2}'}}"
    choices = (("flash", "FLASH_ATTENTION", 1), ("efficient", "EFFICIENT_ATTENTION", 2), ("unfused", "MATH", 16))
    for choice in choices:
        assert printed.format(*choice) in result.stdout.str()


# -- what a person sees ------------------------------------------------------------------------------------------------

ISLAND = """
import pytest
from tests import models

@pytest.mark.onnx_budget(max_memcpy=0)
def test_island(onnx_session, tmp_path):
    onnx_session(models.cpu_island(tmp_path / "island.onnx")).measure(shapes={"batch": 2})
"""


def test_a_failure_names_the_operator_on_the_cpu_and_says_that_node_time_is_launch_time(run_pytest: RunPytest) -> None:
    result = run_pytest(ISLAND, *QUICK)

    result.assert_outcomes(failed=1)
    said = " ".join(result.stdout.str().split())
    assert "max_memcpy: 2 a run, budget at most 0" in said
    assert re.search(r"(what forces them|On the CPU, a run:) .*\bDet\b", said)
    assert "Node time here is the time to launch it, not the time on the device." in said
    assert re.search(r"MemcpyToHost \S*CUDA", said, re.IGNORECASE)


def test_the_perf_suite_is_recorded_with_times_and_a_second_run_has_the_same_facts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    baselines = pytester.path / "baselines"
    suite = (
        "--onnxperf-ep=cuda", f"--onnxperf-baseline-dir={baselines}", "--rootdir", str(root),
        "-c", str(root / "pyproject.toml"), "-p", "no:cacheprovider", str(root / "tests" / "perf" / "test_models.py"),
    )  # fmt: skip

    short = ("--onnxperf-max-time=0.1", "--onnxperf-baseline-processes=1", "--onnxperf-update-force")
    first = pytester.runpytest_subprocess("--onnxperf-update", *short, *suite)
    second = pytester.runpytest_subprocess("--onnxperf", "--onnxperf-timing=off", *suite)

    assert first.ret == pytest.ExitCode.OK
    assert second.ret == pytest.ExitCode.OK
    (recorded,) = baselines.rglob("test_models.json")
    assert recorded.relative_to(baselines).parts[0].endswith(".cuda")
    assert "latency_p50_ms" in recorded.read_text("utf-8")
    assert "no-baseline" not in second.stdout.str()


def test_the_state_of_the_gpu_is_read_while_rounds_are_timed(
    measure: Callable[..., Record], tmp_path: Path, pytester: pytest.Pytester
) -> None:
    """What has just run says so itself: the card is busy, its clock runs, and its own process is no other."""
    path = models.slow_model(tmp_path / "slow.onnx", blocks=100, width=1024)
    plan = {"timing": True, "max_time_s": 2.0}
    record = measure(path, plan=plan, shapes={"batch": 512})
    assert record.gpu is not None
    assert "NVIDIA" in record.gpu.name
    assert len(record.gpu.uuid_hash) == 12
    assert record.gpu.driver
    assert record.gpu.power_limit_w
    assert record.environment.versions["power limit"].endswith(" W")
    for clock_mhz in (record.gpu.clock_before_mhz, record.gpu.clock_during_mhz, record.gpu.clock_after_mhz):
        assert clock_mhz is not None
        assert 0 < clock_mhz <= (record.gpu.max_clock_mhz or 0)
    assert record.gpu.utilisation_ratio
    assert record.gpu.memory_before_bytes is not None
    assert record.gpu.memory_peak_bytes is not None
    assert record.gpu.memory_peak_bytes > record.gpu.memory_before_bytes
    assert "other process" not in record.disturbance

    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_subprocess("--onnxperf", "--onnxperf-ep=cuda")
    result.stdout.fnmatch_lines([f"onnxperf: GPU {record.gpu.uuid_hash}, power limit *, clock * MHz*"])
