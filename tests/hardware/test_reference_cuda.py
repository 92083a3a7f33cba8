"""The reference workload of CUDA on a device: what it computes, that its time is the device's, that entries have it.

Its calls and its reasons are tried without a GPU in tests/runtime/test_reference_cuda.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.child import reference_cuda
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable

    RunPytest = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.needs_cuda, pytest.mark.usefixtures("own_locks")]

ROOT: Final = Path(__file__).parents[2]
WANTED_NS: Final = 2_000_000
CODE: Final = """
import ctypes
import json
import sys

import numpy as np
import onnxruntime
from pytest_onnxperf.runtime.child import reference_cuda
from pytest_onnxperf.runtime.child.cuda_libraries import Cuda
from pytest_onnxperf.runtime.child.reference import usual_ns

WANTED_NS = int(sys.argv[1])
onnxruntime.preload_dlls()
cuda = Cuda(0)
MIB = 1 << 20
sizes = {
    "compute": [{"extent": 2048, "repeats": n} for n in (4, 128)] + [{"extent": 1024, "repeats": 128}],
    "memory": [{"copy_bytes": 256 * MIB, "repeats": n} for n in (4, 128)] + [{"copy_bytes": MIB, "repeats": 128}],
}

def is_product(extent):
    work = reference_cuda.Products(cuda, {"extent": extent, "repeats": 2})
    work.run()
    a, b = (matrix.astype(np.float32) for matrix in reference_cuda.matrices(extent))
    found = bool((work.result() == a @ b).all())
    work.close()
    return found

def copied():
    work = reference_cuda.Copies(cuda, {"buffer_bytes": 64 * MIB, "copy_bytes": 16 * MIB, "repeats": 3})
    before = int(work.result().max())
    work.run()
    source, target = (np.empty(64 * MIB, np.uint8) for _ in range(2))
    work._download(work._source, source)
    work._download(work._target, target)
    work.close()
    end = 48 * MIB
    return [before, bool((target[:end] == source[:end]).all() and source.any()), int(target[end:].max())]

def time_of(kind, size):
    if kind == "compute":
        work = reference_cuda.Products(cuda, size)
    else:
        work = reference_cuda.Copies(cuda, {"buffer_bytes": 512 * MIB, **size})
    taken_ns = usual_ns(work.run)
    work.close()
    return taken_ns

def calibrated_ns(kind):
    work = reference_cuda.made(kind, {}, WANTED_NS, cuda)
    taken_ns = usual_ns(work.run)
    work.close()
    return taken_ns

def free_bytes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda._runtime("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value

found = {"products": {extent: is_product(extent) for extent in (256, 1024, 2048)}, "copied": copied()}
before = free_bytes()  # what cuBLAS keeps of its first product is taken by now
found["times_ns"] = {kind: [time_of(kind, size) for size in sizes[kind]] for kind in sizes}
found["calibrated_ns"] = {kind: calibrated_ns(kind) for kind in reference_cuda.KINDS}
found["lost_bytes"] = before - free_bytes()
cuda.close()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> Any:
    """What one process found on the device, with the real libraries."""
    command = [sys.executable, "-c", CODE, str(WANTED_NS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("extent", [256, 1024, 2048])
def test_a_product_is_what_numpy_computes_to_the_last_digit(found: Any, extent: int) -> None:
    assert found["products"][str(extent)]


def test_a_copy_really_copies_and_no_further_than_it_says(found: Any) -> None:
    before, is_copied, beyond = found["copied"]
    assert (before, is_copied, beyond) == (0, True, 0)


@pytest.mark.parametrize("kind", ["compute", "memory"])
def test_the_time_grows_with_the_repeats(found: Any, kind: str) -> None:
    few_ns, many_ns, _ = found["times_ns"][kind]
    assert many_ns > 8 * few_ns  # 32 times as many


@pytest.mark.parametrize("kind", ["compute", "memory"])
def test_the_time_is_that_of_the_device(found: Any, kind: str) -> None:
    """As many calls with less work each: were it the time to enqueue them, it would be the same."""
    _, large_ns, small_ns = found["times_ns"][kind]
    assert large_ns > 2 * small_ns


@pytest.mark.parametrize("kind", reference_cuda.KINDS)
def test_the_size_that_is_found_takes_about_the_time_that_is_wanted(found: Any, kind: str) -> None:
    assert WANTED_NS / 2 < found["calibrated_ns"][kind] < WANTED_NS * 2


def test_device_memory_is_given_back(found: Any) -> None:
    assert found["lost_bytes"] < 64 << 20  # other processes may take some; the buffers alone are more


def test_all_processes_of_a_session_take_the_same_work_and_it_is_no_part_of_its_device_memory(tmp_path: Path) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    job = SessionJob(model, model.name, provider_of("cuda"), shapes={"batch": 2})

    def measured(references: Any, name: str, processes: int) -> Any:
        plan = Plan(
            warmup_rounds=3, min_rounds=20, max_time_s=0.0, profile_runs=1, timeout_s=120.0, isolation="process",
            threads=1, references=references, processes=processes,
        )  # fmt: skip
        measurement = Measurement(job, plan, tmp_path / name, lambda _: None)
        return measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)

    beside, alone = measured({}, "beside", 2), measured(None, "alone", 1)

    assert beside.unpaired == {}
    first, second = beside.paired["latency_p50"]
    assert set(first.references_ns) == set(reference_cuda.KINDS)
    assert first.specs == second.specs
    if "peak_vram" in alone.metrics:  # in a container NVML may not know the process
        assert max(beside.metrics["peak_vram"]) < min(alone.metrics["peak_vram"]) + (64 << 20)


ENTRY: Final = """
from tests import models

def test_mlp(onnx_session, tmp_path):
    onnx_session(models.mlp(tmp_path / "mlp.onnx")).measure(shapes={"batch": 2})
"""


def test_a_stored_entry_has_it_and_a_check_is_judged_beside_it(
    run_pytest: RunPytest, pytester: pytest.Pytester
) -> None:
    common = ("--onnxperf-ep=cuda", "--onnxperf-max-time=0.2", "--onnxperf-tolerance=9")
    first = run_pytest(
        ENTRY, *common, "--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=1"
    )
    second = run_pytest(ENTRY, *common, "-v")

    first.assert_outcomes(passed=1)
    second.assert_outcomes(passed=1)
    (path,) = (pytester.path / "baselines").rglob("test_lane.json")
    (entry,) = json.loads(path.read_text("utf-8"))["tests"].values()
    references = entry["references"]["latency_p50"]
    assert set(references) == set(reference_cuda.KINDS)
    assert references["cuda_compute"]["size"]["cublas"] > 120000
    assert {len(column) for column in entry["paired"]["latency_p50"].values()} == {1}
    for result in (first, second):
        assert "raw times" not in result.stdout.str()
