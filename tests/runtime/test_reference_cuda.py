"""The reference workload of CUDA without a GPU: stand-ins of the libraries prove its calls, what is missing is said.

What a device does is the matter of tests/hardware/test_reference_cuda.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.paired import ReferenceSpec
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.runtime.child import reference, reference_cuda
from pytest_onnxperf.runtime.child.cuda_libraries import CudaError, chosen_paths, loaded_libraries
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan, sizes_of
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import cuda_stub, genai_models, models

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_onnxperf.runtime.plan import Subject

    Run = Callable[..., Any]

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="loaded libraries are looked up on Linux alone"),
    pytest.mark.usefixtures("own_locks"),
]

ROOT: Final = Path(__file__).parents[2]
COMPUTE, MEMORY = reference_cuda.KINDS
SIZES: Final[dict[str, dict[str, int]]] = {
    COMPUTE: {"extent": 64, "repeats": 3},
    MEMORY: {"buffer_bytes": 5 << 20, "copy_bytes": 2 << 20, "repeats": 3},
}
NOT_LOADED: Final = "libcudart and libcublas are not loaded in the measuring process"
PLAN: Final[dict[str, Any]] = {
    "warmup_rounds": 1, "min_rounds": 5, "max_time_s": 0.0, "profile_runs": 1, "timeout_s": 120.0,
    "isolation": "process", "threads": 1,
}  # fmt: skip

PRELUDE: Final = f"""
import json
from pytest_onnxperf.runtime.child import reference_cuda
from pytest_onnxperf.runtime.child.cuda_libraries import Cuda
from pytest_onnxperf.runtime.child.reference import NotPossibleError
from pytest_onnxperf.runtime.child.references import References
SIZES = {SIZES!r}
"""


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What LD_PRELOAD must be for a process to have the stand-ins loaded."""
    return cuda_stub.built(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls.log"


@pytest.fixture
def run(preload: str, log: Path) -> Run:
    """Runs code in a process that has the stand-ins loaded, and returns the last line that it prints, read as JSON."""

    def run(code: str, **settings: str) -> Any:
        environment = {"LD_PRELOAD": preload, "CUDA_STUB_LOG": str(log), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
        given = {**environment, **{f"CUDA_STUB_{name}": text for name, text in settings.items()}}
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def calls(log: Path) -> list[str]:
    return log.read_text("ascii").splitlines()


def counts(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in calls(log))


# -- what is computed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", [64, 256])
def test_a_product_is_what_numpy_computes_to_the_last_digit(run: Run, extent: int) -> None:
    code = f"""
    import numpy as np
    work = reference_cuda.Products(Cuda(0), {{"extent": {extent}, "repeats": 1}})
    before = work.result()
    work.run()
    a, b = reference_cuda.matrices({extent})
    expected = a.astype(np.float64) @ b.astype(np.float64)
    print(json.dumps([bool((work.result() == expected).all()), bool((before == expected).all()), bool((a == b).all())]))
    """
    is_product, was_there_before, are_factors_equal = run(code)

    assert is_product
    assert not was_there_before
    assert not are_factors_equal


def test_no_product_of_the_largest_matrices_is_too_large_for_float16() -> None:
    """Whole numbers up to 2048 are exact there; 16 * sqrt(extent) is eight standard deviations."""
    a, b = reference_cuda.matrices(4096)

    assert {float(value) for value in a[0]} == {-2.0, -1.0, 0.0, 1.0, 2.0}
    some = a[:64].astype("float32") @ b.astype("float32")
    assert 512 < abs(some).max() < 1024


def test_a_copy_walks_through_its_buffer_and_begins_again(run: Run, log: Path) -> None:
    code = """
    cuda = Cuda(0)
    work = reference_cuda.Copies(cuda, SIZES["cuda_memory"])
    before = work.result()
    work.run()
    import numpy as np
    whole = np.empty(5 << 20, np.uint8)
    work._download(work._target, whole)
    pattern = np.random.Generator(np.random.PCG64(0)).integers(0, 256, 4 << 20, np.uint8)
    print(json.dumps([int(before.max()), bool((whole[:4 << 20] == pattern).all()), int(whole[4 << 20:].max())]))
    """
    before, is_copied, beyond = run(code)

    # 2 MiB at 0, 2 MiB at 2, and at 0 again, since the fifth MiB is too short for a third.
    assert (before, is_copied, beyond) == (0, True, 0)
    assert calls(log).count(f"cudaMemcpyAsync {2 << 20} 3") == 3


@pytest.mark.parametrize("kind", [COMPUTE, MEMORY])
def test_a_run_enqueues_its_repeats_and_waits_once(run: Run, log: Path, kind: str) -> None:
    enqueues = {COMPUTE: "cublasGemmEx 64 64 64", MEMORY: f"cudaMemcpyAsync {2 << 20} 3"}[kind]
    run(f"""
    work = reference_cuda.made({kind!r}, SIZES[{kind!r}], 0, Cuda(0))
    open({str(log)!r}, "w").close()
    work.run()
    print(0)
    """)

    assert calls(log) == [enqueues] * 3 + ["cudaStreamSynchronize"]


def test_what_makes_a_reference_comparable_names_the_version_of_cublas_and_is_the_same_each_time(run: Run) -> None:
    code = """
    print(json.dumps([References(SIZES, 0).described() for _ in range(2)]))
    """
    one, other = run(code)
    newer, _ = run(code, CUBLAS="130500")

    assert one == other
    assert one[COMPUTE]["size"] == {**SIZES[COMPUTE], "cublas": 120903}
    assert one[MEMORY]["size"] == SIZES[MEMORY]
    assert newer[COMPUTE]["size"]["cublas"] == 130500
    assert newer[COMPUTE]["checksum"] == one[COMPUTE]["checksum"] != one[MEMORY]["checksum"]


def test_a_stored_version_of_cublas_gives_way_to_the_one_that_multiplies(run: Run) -> None:
    code = """
    print(json.dumps(References({"cuda_compute": {"extent": 64, "repeats": 1, "cublas": 120000}}, 0).described()))
    """
    assert run(code)[COMPUTE]["size"]["cublas"] == 120903


# -- the device and its memory -----------------------------------------------------------------------------------------


def test_the_device_of_the_session_is_taken_and_everything_is_freed(run: Run, log: Path) -> None:
    run("""
    references = References(SIZES, 0, device_id=3)
    references.paired_rounds(lambda: None, 4)
    references.close()
    print(0)
    """)

    found = counts(log)
    assert calls(log)[:2] == ["cudaSetDevice 3", "cudaStreamCreateWithFlags 1"]
    assert "cudaDeviceGetAttribute 38 3" in calls(log)
    assert found["cudaMalloc"] == found["cudaFree"] == 5
    assert found["cublasCreate_v2"] == found["cublasDestroy_v2"] == found["cudaStreamDestroy"] == 1
    assert not found["cudaGetLastError"]


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("cudaSetDevice=100", "cudaSetDevice answers cudaErrorNoDevice (100)"),
        ("cublasCreate_v2=7", "cublasCreate_v2 answers CUBLAS_STATUS_INVALID_VALUE (7)"),
        ("cudaMalloc=2@4", "cudaMalloc answers cudaErrorMemoryAllocation (2)"),
        ("cublasGemmEx=13@2", "cublasGemmEx answers CUBLAS_STATUS_EXECUTION_FAILED (13)"),
        ("cudaStreamSynchronize=700@6", "cudaStreamSynchronize answers cudaErrorIllegalAddress (700)"),
    ],
)
def test_a_call_that_fails_is_the_reason_and_leaves_neither_memory_nor_an_error_behind(
    run: Run, log: Path, failing: str, reason: str
) -> None:
    code = """
    try:
        References(SIZES, 0)
    except NotPossibleError as error:
        print(json.dumps(str(error)))
    """
    assert run(code, FAIL=failing) == reason

    found = counts(log)
    taken = found["cudaMalloc"] - ("cudaMalloc" in failing)
    created = {"cudaSetDevice=100": 0, "cublasCreate_v2=7": 0}.get(failing, 1)
    assert found["cudaFree"] == taken
    assert found["cublasDestroy_v2"] == created
    assert found["cudaStreamDestroy"] == (0 if "cudaSetDevice" in failing else 1)
    # ONNX Runtime asks for the last error after its own launches.
    assert found["cudaGetLastError"] == 1


@pytest.mark.parametrize(("free_mib", "is_enough"), [(15, True), (14, False)])
def test_half_of_the_free_memory_is_left_to_the_model(run: Run, free_mib: int, is_enough: bool) -> None:
    """Of two buffers of 5 MiB the second finds 5 less."""
    code = """
    try:
        References({"cuda_memory": SIZES["cuda_memory"]}, 0)
        print(json.dumps(""))
    except NotPossibleError as error:
        print(json.dumps(str(error)))
    """
    short = "device memory is short: 10 MiB must be free, half of it to be used, and 9 MiB are"
    assert run(code, FREE_MIB=str(free_mib)) == ("" if is_enough else short)


# -- its size ----------------------------------------------------------------------------------------------------------


def test_the_size_grows_with_the_time_that_is_wanted(run: Run) -> None:
    code = """
    cuda = Cuda(0)
    found = []
    for wanted_ns in (0, 100_000_000):
        works = [reference_cuda.made(kind, {}, wanted_ns, cuda) for kind in reference_cuda.KINDS]
        found.append([work.described()["size"] for work in works])
        for work in works:
            work.close()
    print(json.dumps(found))
    """
    (least, least_copy), (much, most_copies) = run(code)

    assert (least["extent"], least["repeats"]) == (256, 1)
    assert much["extent"] ** 3 * much["repeats"] > 3 * 256**3  # the stand-in multiplies as fast as one core
    assert least_copy == {"buffer_bytes": 64 << 20, "copy_bytes": 1 << 20, "repeats": 1}
    assert most_copies["copy_bytes"] * most_copies["repeats"] > 3 << 20


@pytest.mark.parametrize(("l2_kib", "buffer_mib"), [(1024, 64), (20 * 1024, 80), (1024 * 1024, 512)])
def test_the_buffer_is_four_times_the_l2_cache_within_limits(run: Run, l2_kib: int, buffer_mib: int) -> None:
    code = """
    print(json.dumps(reference_cuda.made("cuda_memory", {}, 0, Cuda(0)).described()["size"]["buffer_bytes"]))
    """
    assert run(code, L2_KIB=str(l2_kib)) == buffer_mib << 20


# -- what is loaded ----------------------------------------------------------------------------------------------------

LINE: Final = "7f5e80000000-7f5e80100000 r-xp 00000000 08:01 4242                       "


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ([], NOT_LOADED),
        (["/x/libcudart.so.12", "/x/libcublasLt.so.12"], "libcublas is not loaded in the measuring process"),
        (
            ["/x/libcudart.so.12", "/y/libcublas.so.13.1.0"],
            "libcudart 12, libcublas 13 are loaded; both are needed in one version, 12 or 13",
        ),
        (
            ["/x/libcudart.so.14", "/x/libcublas.so.14"],
            "libcudart 14, libcublas 14 are loaded; both are needed in one version, 12 or 13",
        ),
    ],
)
def test_a_library_that_is_not_loaded_is_named(paths: list[str], reason: str) -> None:
    with pytest.raises(CudaError) as raised:
        chosen_paths(loaded_libraries(LINE + path + "\n" for path in paths))
    assert str(raised.value) == reason


def test_of_several_versions_the_newest_that_both_have_is_taken() -> None:
    paths = ("/a b/libcudart-1f2e.so.12.9.79", "/n/libcudart.so.13", "/n/libcublas.so.12", "/n/libcublas.so.12.1")
    lines = [LINE + path + "\n" for path in paths] + ["7f5e80000000-7f5e80100000 rw-p 00000000 00:00 0\n"]

    assert chosen_paths(loaded_libraries(lines)) == {
        "libcudart": "/a b/libcudart-1f2e.so.12.9.79",
        "libcublas": "/n/libcublas.so.12",
    }


def test_a_symbol_that_is_missing_is_named(tmp_path: Path, log: Path) -> None:
    wrong = {"libcudart": "STUB_RUNTIME", "libcublas": "STUB_NOTHING"}
    preload = cuda_stub.built(tmp_path / "wrong", parts=wrong)
    environment = {"LD_PRELOAD": preload, "PYTHONPATH": str(ROOT), "CUDA_STUB_LOG": str(log)}

    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + "Cuda(0)"], env=environment, capture_output=True, text=True, check=False
    )

    assert "libcublas.so.12 cannot be used: " in done.stderr
    assert done.stderr.rstrip().endswith("undefined symbol: cublasCreate_v2")
    assert not log.exists()


@pytest.mark.parametrize("ep", ["cuda", "tensorrt", "trt-rtx"])
def test_what_runs_on_cuda_is_timed_beside_work_on_the_device(ep: str) -> None:
    plan = Plan(**PLAN, references={})
    assert sizes_of(plan, "latency_p50", provider_of(ep), {}) == {COMPUTE: {}, MEMORY: {}}


@pytest.mark.parametrize("ep", ["cpu", "webgpu", "dml"])
def test_what_runs_elsewhere_is_timed_beside_numpy(ep: str) -> None:
    plan = Plan(**PLAN, references={})
    assert sizes_of(plan, "latency_p50", provider_of(ep), {}) == {"compute": {}, "dispatch": {}, "memory": {}}
    assert not set(reference.KINDS) & set(reference_cuda.KINDS)


# -- in a measurement --------------------------------------------------------------------------------------------------


def stored(sizes: Mapping[str, dict[str, int]] = SIZES) -> Beside:
    return Beside({kind: ReferenceSpec(dict(size), 1, "") for kind, size in sizes.items()})


def recorded(tmp_path: Path, job: Subject, metrics: tuple[str, ...], sizes: Mapping[str, dict[str, int]]) -> Record:
    plan = Plan(**PLAN, references=dict.fromkeys(metrics, stored(sizes)))
    measurement = Measurement(job, plan, tmp_path / "files", lambda _: None)
    return measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)


def session(tmp_path: Path, sizes: Mapping[str, dict[str, int]] = SIZES, variables: Any = None) -> Record:
    """Measure a session on the CPU whose baseline has references of these kinds."""
    model = models.mlp(tmp_path / "mlp.onnx")
    job = SessionJob(model, model.name, provider_of("cpu"), shapes={"batch": 2}, variables=variables or {})
    return recorded(tmp_path, job, ("latency_p50",), sizes)


@pytest.mark.needs_cpu
def test_a_session_is_timed_beside_it_and_all_is_freed_at_the_end(tmp_path: Path, preload: str, log: Path) -> None:
    record = session(tmp_path, variables={"LD_PRELOAD": preload, "CUDA_STUB_LOG": str(log)})

    (pair,) = record.paired["latency_p50"]
    assert set(pair.references_ns) == {COMPUTE, MEMORY}
    assert pair.specs[COMPUTE].size == {**SIZES[COMPUTE], "cublas": 120903}
    assert record.unpaired == {}
    assert counts(log)["cudaMalloc"] == counts(log)["cudaFree"] == 5
    assert counts(log)["cudaStreamDestroy"] == 1


@pytest.mark.needs_cpu
def test_a_size_that_is_not_given_is_found_in_the_process(tmp_path: Path, preload: str) -> None:
    variables = {"LD_PRELOAD": preload, "CUDA_STUB_L2_KIB": "512"}

    (pair,) = session(tmp_path, {COMPUTE: {}, MEMORY: {}}, variables).paired["latency_p50"]

    assert pair.specs[COMPUTE].size == {"extent": 256, "repeats": 1, "cublas": 120903}
    assert pair.specs[MEMORY].size == {"buffer_bytes": 64 << 20, "copy_bytes": 1 << 20, "repeats": 1}


@pytest.mark.needs_cpu
@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        pytest.param(None, NOT_LOADED, id="no library"),
        pytest.param(
            "cudaStreamSynchronize=700@9", "cudaStreamSynchronize answers cudaErrorIllegalAddress (700)", id="late"
        ),
    ],
)
def test_a_session_whose_reference_cannot_run_is_measured_all_the_same(
    tmp_path: Path, preload: str, failing: str | None, reason: str
) -> None:
    variables = {"LD_PRELOAD": preload, "CUDA_STUB_FAIL": failing} if failing else {}

    record = session(tmp_path, variables=variables)

    assert record.metrics["latency_p50"][0] > 0
    assert record.paired == {}
    assert record.unpaired == {"latency_p50": reason}


@pytest.mark.needs_cpu
def test_a_kind_of_another_version_is_named(tmp_path: Path) -> None:
    record = session(tmp_path, {"quantum": {"qubits": 3}})
    assert record.unpaired == {"latency_p50": "the baseline's kind `quantum` is none that this version knows"}


@pytest.mark.needs_cpu
@pytest.mark.parametrize("size", [{"extnt": 3}, {"extent": -3, "repeats": 1}, {"extent": 1 << 30, "repeats": 1}])
def test_a_size_that_cannot_be_made_is_named_and_the_model_is_measured_without_it(
    tmp_path: Path, size: dict[str, int]
) -> None:
    record = session(tmp_path, {"compute": size})
    assert record.metrics["latency_p50"]
    why = record.unpaired["latency_p50"]
    assert why.startswith(f"the reference `compute` cannot be made in the size {size} that the baseline has: ")


def generator(tmp_path: Path, **variables: str) -> Record:
    """Measure a generator on the CPU, likewise."""
    directory = genai_models.decoder(tmp_path / "decoder")
    prompt = {"prompt_tokens": 8, "new_tokens": 4}
    job = GeneratorJob(directory, "decoder", provider_of("cpu"), prompt=prompt, variables=variables)
    return recorded(tmp_path, job, ("ttft", "decode_throughput"), SIZES)


@pytest.mark.needs_genai
def test_a_generator_is_timed_beside_it_between_generations_and_between_tokens(
    tmp_path: Path, preload: str, log: Path
) -> None:
    record = generator(tmp_path, LD_PRELOAD=preload, CUDA_STUB_LOG=str(log))

    assert {name: set(pair.references_ns) for name, (pair,) in record.paired.items()} == {
        "ttft": {COMPUTE, MEMORY},
        "decode_throughput": {COMPUTE, MEMORY},
    }
    assert record.unpaired == {}
    assert counts(log)["cudaMalloc"] == counts(log)["cudaFree"] == 10
    assert counts(log)["cudaStreamDestroy"] == 2


@pytest.mark.needs_genai
@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        pytest.param(None, NOT_LOADED, id="no library"),
        pytest.param(
            "cublasGemmEx=13@14", "cublasGemmEx answers CUBLAS_STATUS_EXECUTION_FAILED (13)", id="between tokens"
        ),
    ],
)
def test_a_generator_whose_reference_cannot_run_is_measured_all_the_same(
    tmp_path: Path, preload: str, log: Path, failing: str | None, reason: str
) -> None:
    variables = {"LD_PRELOAD": preload, "CUDA_STUB_FAIL": failing, "CUDA_STUB_LOG": str(log)} if failing else {}

    record = generator(tmp_path, **variables)

    assert record.metrics["decode_throughput"][0] > 0
    assert record.paired == {}
    assert record.unpaired == {"ttft": reason, "decode_throughput": reason}
    if failing:
        assert counts(log)["cudaMalloc"] == counts(log)["cudaFree"] == 10
