"""The CUDA packages on a machine without a GPU: the silent fallback is caught, and the message says what is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime
import pytest

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.probe import Prober
from tests import cuda_stub

if TYPE_CHECKING:
    from collections.abc import Callable

    RunPytest = Callable[..., pytest.RunResult]

LONG_S = 120.0


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


pytestmark = [
    pytest.mark.needs_cuda_package,
    pytest.mark.skipif(_has_driver(), reason="this machine has an NVIDIA driver"),
]

MEASURES = """
from tests import models

def test_any(onnx_session, tmp_path):
    onnx_session(models.mlp(tmp_path / "mlp.onnx")).measure(shapes={"batch": 2})
"""
DEMANDS = """
from tests import models

def test_cuda(onnx_session, tmp_path):
    onnx_session(models.mlp(tmp_path / "mlp.onnx"), ep="cuda").measure(shapes={"batch": 2})
"""
QUICK = ("--onnxperf-timing=off", "--onnxperf-profile-runs=1")


def test_the_package_lists_an_ep_that_does_not_run() -> None:
    assert "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    assert Prober(LONG_S).best().short == "cpu"


def test_the_reason_names_the_library_and_the_driver_that_are_missing() -> None:
    reason = Prober(LONG_S).why_not(provider_of("cuda"))

    first, second, *rest = reason.splitlines()
    assert first == "CUDAExecutionProvider was asked for and ONNX Runtime fell back to CPUExecutionProvider"
    assert second.startswith("ONNX Runtime said: Failed to load library ")
    assert "libcuda.so.1: cannot open shared object file" in second
    assert rest[-1].strip().startswith("libcuda.so.1 is part of the NVIDIA driver")
    assert "\x1b" not in reason
    assert "ONNXRuntimeError" not in reason
    assert len(reason.splitlines()) <= 5


def test_tensorrt_without_its_libraries_is_an_ep_that_does_not_run() -> None:
    reason = Prober(LONG_S).why_not(provider_of("tensorrt"))

    assert "cannot load the model" not in reason
    assert "TensorRT" in reason
    assert "onnxruntime_src" not in reason


def test_an_ep_that_is_named_and_does_not_run_fails_with_the_reason(run_pytest: RunPytest) -> None:
    result = run_pytest(MEASURES, "--onnxperf-ep=cuda", *QUICK)

    result.assert_outcomes(failed=1)
    header, _, failures = result.stdout.str().partition("FAILURES")
    assert "onnxperf: CUDAExecutionProvider (--onnxperf-ep) does not run here:" in header
    said = " ".join(failures.split())
    for part in (
        "CUDAExecutionProvider (--onnxperf-ep) does not run here: CUDAExecutionProvider was asked for",
        "fell back to CPUExecutionProvider",
        "Failed to load library",
        "libonnxruntime_providers_cuda.so",
        "libcuda.so.1",
        "NVIDIA driver",
        "--onnxperf-ep=auto",
    ):
        assert part in said
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_auto_falls_back_to_the_cpu_and_says_so_in_the_header(run_pytest: RunPytest) -> None:
    result = run_pytest(MEASURES, *QUICK)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        "onnxperf: CPUExecutionProvider on *",
        "onnxperf: CUDAExecutionProvider is in this build and does not run:*",
    ])  # fmt: skip


def test_a_test_that_demands_cuda_is_skipped_with_the_true_reason(run_pytest: RunPytest) -> None:
    result = run_pytest(DEMANDS, "-rs", *QUICK)

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([
        "SKIPPED*demands CUDAExecutionProvider, which does not run here: *fell back to CPUExecutionProvider",
        "*libcuda.so.1: cannot open shared object file*",
    ])  # fmt: skip


def test_a_test_that_demands_what_the_options_name_fails(run_pytest: RunPytest) -> None:
    run_pytest(DEMANDS, "--onnxperf-ep=cuda", *QUICK).assert_outcomes(failed=1)


def test_a_budget_for_cuda_does_not_apply_on_the_cpu(run_pytest: RunPytest) -> None:
    marker = "import pytest\npytestmark = pytest.mark.onnx_budget(max_nodes=0, on='cuda')\n"

    run_pytest(marker + MEASURES, *QUICK).assert_outcomes(passed=1)


def test_the_command_works_with_this_package() -> None:
    command = [sys.executable, "-m", "pytest_onnxperf.cli", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "profile" in done.stdout


GENERATES = """
    from tests import genai_models

    def test_decoder(genai_generator, tmp_path):
        genai_models.decoder(tmp_path / "decoder", setting=genai_models.Setting(provider="cuda"))
        genai_generator(tmp_path / "decoder").measure(prompt_tokens=4, new_tokens=4)
"""


def test_a_generator_on_cuda_fails_with_the_runtimes_own_reason_and_the_header_names_what_is_there(
    run_pytest: RunPytest,
) -> None:
    pytest.importorskip("onnxruntime_genai", reason="needs onnxruntime-genai-cuda", exc_type=ImportError)
    result = run_pytest(GENERATES, *QUICK)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["onnxperf: onnxruntime *", "onnxperf: *onnxruntime-genai*"])
    said = " ".join(result.stdout.str().partition("FAILURES")[2].split())
    assert "decoder could not be measured" in said
    assert "cuda" in said.lower()
    assert "Traceback" not in said


LOADS = """
import onnxruntime
from pytest_onnxperf.runtime.child.cuda_libraries import RUNTIME, chosen_paths, loaded_libraries
from pytest_onnxperf.runtime.child.reference import NotPossibleError
from pytest_onnxperf.runtime.child.references import References

onnxruntime.preload_dlls()
print(chosen_paths(loaded_libraries(open("/proc/self/maps")))[RUNTIME])
try:
    References({"cuda_compute": {}, "cuda_memory": {}}, 1_000_000)
except NotPossibleError as error:
    print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="loaded libraries are looked up on Linux alone")
def test_the_reference_workload_finds_the_real_libraries_and_says_what_the_runtime_answers_without_a_driver() -> None:
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    path, reason = done.stdout.splitlines()[-2:]
    assert Path(path).name.startswith("libcudart.so.")
    assert reason == "cudaSetDevice answers cudaErrorInsufficientDriver (35)"


def test_the_stand_ins_of_the_libraries_have_the_signatures_of_the_real_headers(tmp_path: Path) -> None:
    """In tests/runtime/test_reference_cuda.py ctypes calls the stand-ins, so that it calls the real ones rightly."""
    headers = {"cuda_runtime_api.h", "cublas_api.h"}
    include = tmp_path / "include"
    include.mkdir()
    for distribution in importlib.metadata.distributions():
        if (distribution.name or "").startswith("nvidia-"):
            for file in distribution.files or ():
                if file.parent.name == "include" and file.suffix == ".h":
                    (include / file.name).write_bytes(Path(str(file.locate())).read_bytes())
    assert headers <= {file.name for file in include.iterdir()}

    cuda_stub.check_against_headers(tmp_path / "compiled", include)
