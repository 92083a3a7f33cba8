"""Whatever a measuring process does, the test hears of it in one message, and nothing is left behind."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import pytest_onnxperf.runtime.child
from pytest_onnxperf.core.errors import MeasurementError, ModelError, ProviderError, SettingError
from pytest_onnxperf.core.stages import Doing, Held, Stage
from pytest_onnxperf.runtime.arrays import as_arrays
from pytest_onnxperf.runtime.inline import InlineWorker
from pytest_onnxperf.runtime.process import ProcessWorker
from pytest_onnxperf.runtime.stages import Stages
from tests import models

from . import children
from .children import at_start, at_step, job_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

LONG_S = 60.0
ENDLESS = {"trips": 10**12}
_BURN_A_SECOND = "import time\nwhile time.process_time() < 1: pass"
CHILD = Path(pytest_onnxperf.runtime.child.__file__).parent


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Every test leaves no process, no thread, no file descriptor and no temporary file behind."""
    mark, temporary = children.new_mark(), tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv(children.MARK, mark)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = _belongings()
    yield mark
    assert children.marked_processes(mark) == []
    assert _belongings() == before
    assert list(temporary.iterdir()) == []


def _belongings() -> tuple[set[str], set[threading.Thread]]:
    descriptors = {link for link in map(_descriptor, Path("/proc/self/fd").iterdir()) if link}
    return descriptors, set(threading.enumerate())


def _descriptor(entry: Path) -> str:
    with contextlib.suppress(OSError):
        link = os.readlink(entry)
        return "" if link.startswith("/proc/") else f"{entry.name} {link}"
    return ""


@pytest.fixture
def worker(tmp_path: Path) -> Callable[..., ProcessWorker]:
    """Starts workers, each with logs of its own."""
    started: list[Path] = []

    def start(
        environment: Mapping[str, str] | None = None, *, timeout_s: float = LONG_S, **options: Any
    ) -> ProcessWorker:
        started.append(tmp_path / f"log{len(started)}")
        started[-1].mkdir()
        return ProcessWorker(started[-1], timeout_s=timeout_s, environment=environment, **options)

    return start


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return models.mlp(tmp_path / "mlp.onnx")


def measure(worker: ProcessWorker | InlineWorker, model: Path, batch: int = 2) -> dict[str, Any]:
    worker.call("open", job=job_of(model))
    worker.call("make_feeds", shapes={"batch": batch}, ranges={}, bind=False)
    worker.call("warm_up", rounds=2)
    return worker.call("block", min_rounds=5, max_time_s=0.0)


# -- the good case -----------------------------------------------------------------------------------------------------


def test_who_watches_a_process_is_told_each_step(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    seen: list[tuple[int, str]] = []
    with worker(after_step=lambda pid, step: seen.append((pid, step))) as process:
        measure(process, mlp)
        process.close()

    assert len({pid for pid, _ in seen}) == 1
    assert list(dict.fromkeys(step for _, step in seen)) == ["open", "make_feeds", "warm_up", "block", "close"]


def test_a_process_does_the_steps_one_after_another_and_ends(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as process:
        hello = process.call("hello")
        block = measure(process, mlp)
        closed = process.close()

    assert hello["versions"]["onnxruntime"] == onnxruntime.__version__
    assert len(block["rounds_ns"]) == 5
    assert closed == {"profile_path": ""}


def test_what_others_use_of_the_cores_counts_from_the_block_to_the_end(
    worker: Callable[..., ProcessWorker], mlp: Path
) -> None:
    with worker() as process:
        measure(process, mlp)
        subprocess.run([sys.executable, "-c", _BURN_A_SECOND], check=True)  # as beside the rounds with a reference
        others = process.call("others")

    assert others["other_load"] > 0.5 / len(os.sched_getaffinity(0))


def test_two_processes_can_be_stepped_in_turn(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as first, worker() as second:
        for process in (first, second):
            measure(process, mlp)
        rounds = [process.call("round")["round_ns"] for _ in range(5) for process in (first, second)]
        first.close()
        rounds.append(second.call("round")["round_ns"])
        second.close()

    assert len(rounds) == 11
    assert all(round_ns > 0 for round_ns in rounds)


def test_the_same_steps_run_in_the_own_process(mlp: Path) -> None:
    with InlineWorker() as inline:
        block = measure(inline, mlp)

    assert len(block["rounds_ns"]) == 5
    assert inline.log() == ""


def test_a_model_without_inputs_is_fed_with_nothing(worker: Callable[..., ProcessWorker], tmp_path: Path) -> None:
    model = tmp_path / "constant.onnx"
    model.write_bytes(_constant_model())
    with worker() as process, InlineWorker() as inline:
        for each in (process, inline):
            each.call("open", job=job_of(model))
            assert each.call("set_feeds", feeds={}, bind=False) == {"feeds": []}
            assert each.call("round")["round_ns"] > 0


def _constant_model() -> bytes:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    nodes = [helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "constant", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


# -- what crosses the pipe ---------------------------------------------------------------------------------------------


def test_feeds_of_two_hundred_megabytes_cross_the_pipe(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    feeds = as_arrays({"x": np.ones((200 * 2**20 // 128, 32), np.float32)})
    with worker() as process:
        process.call("open", job=job_of(mlp))
        assert process.call("set_feeds", feeds=feeds, bind=False) == {"feeds": ["x"]}
        process.call("round")
        process.close()


def test_strings_cross_the_pipe(worker: Callable[..., ProcessWorker], tmp_path: Path) -> None:
    words = np.array([["s1"], ["grüße\n\0 \udc00"[:8]], ["x" * 100_000]], dtype=object).reshape(-1)
    with worker() as process:
        process.call("open", job=job_of(models.string_input(tmp_path / "strings.onnx")))
        process.call("set_feeds", feeds=as_arrays({"words": words}), bind=False)
        process.call("round")
        process.close()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_types_that_numpy_lacks_cross_the_pipe(
    worker: Callable[..., ProcessWorker], tmp_path: Path, dtype: str
) -> None:
    array = np.zeros(3, getattr(ml_dtypes, dtype))
    feeds = as_arrays({"x": array})
    model = models.every_type(tmp_path / "model.onnx", feeds["x"].element_type)  # type: ignore[union-attr]
    with worker() as process:
        process.call("open", job=job_of(model))
        process.call("set_feeds", feeds=feeds, bind=False)
        process.call("round")
        process.close()


def test_a_view_that_is_not_contiguous_arrives_as_the_same_values(
    worker: Callable[..., ProcessWorker], mlp: Path
) -> None:
    with worker() as process:
        process.call("open", job=job_of(mlp))
        process.call("set_feeds", feeds={"x": np.ones((32, 8), np.float32).T[:, ::-1]}, bind=False)
        process.call("round")
        process.close()


def test_noise_on_standard_output_at_start_does_not_disturb_the_answers(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    noise = """
        import os, sys
        print("a banner", flush=True)
        os.write(1, b"\\x00onnxperf\\x00 binary \\x01\\n" * 1000)
        print("kept in the buffer until the end")
    """
    with worker(at_start(tmp_path / "site", noise)) as process:
        assert len(measure(process, mlp)["rounds_ns"]) == 5
        process.close()


def test_what_a_step_prints_is_in_the_log_and_not_in_the_answers(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    noise = """
        import os, sys
        print("on stdout", flush=True)
        print("on stderr", file=sys.stderr, flush=True)
        os.write(1, b"from C\\n")
    """
    with worker(at_step(tmp_path / "site", "block", noise)) as process:
        measure(process, mlp)
        process.close()
        log = process.log()

    assert {"on stdout", "on stderr", "from C"} <= set(log.splitlines())


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV", id="segfault"),
        pytest.param("import os; os.abort()", "was killed by SIGABRT", id="abort"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL, perhaps because memory", id="kill"),
        pytest.param("import os; os.kill(os.getpid(), 34)", "was killed by ", id="real-time-signal"),
        pytest.param("import os; os._exit(3)", "exited with status 3", id="exit"),
    ],
)
def test_a_crash_says_how_the_process_died_and_what_it_printed(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path, code: str, message: str
) -> None:
    last_words = "import sys; print('last words', file=sys.stderr, flush=True)\n"
    with (
        worker(at_step(tmp_path / "site", "block", last_words + code)) as process,
        pytest.raises(MeasurementError, match=message) as raised,
    ):
        measure(process, mlp)

    text = str(raised.value)
    assert "in its step `block`" in text
    assert "  | last words" in text
    assert text.endswith(f"Full log: {tmp_path / 'log0'}")
    assert "last words" in (tmp_path / "log0" / "stderr.log").read_text()


def test_a_crash_while_feeds_are_written_says_how_the_process_died(
    worker: Callable[..., ProcessWorker], mlp: Path, mark: str
) -> None:
    with worker() as process:
        process.call("open", job=job_of(mlp))
        (child,) = children.marked_processes(mark)
        os.kill(child, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (child, signal.SIGKILL)).start()
        with pytest.raises(MeasurementError, match=r"killed by SIGKILL.* in its step `set_feeds`"):
            process.call("set_feeds", feeds={"x": np.ones((10**6, 32), np.float32)}, bind=False)


def test_a_call_after_a_crash_says_the_same_again(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    with worker(at_step(tmp_path / "site", "block", "import os; os.abort()")) as process:
        with pytest.raises(MeasurementError, match="SIGABRT"):
            measure(process, mlp)
        with pytest.raises(MeasurementError, match="SIGABRT"):
            process.call("close")


def test_an_endless_run_is_ended_at_the_timeout_and_said_to_be_alive_until_then(
    worker: Callable[..., ProcessWorker], tmp_path: Path
) -> None:
    ticks: list[Doing | Held] = []
    model = models.loop_model(tmp_path / "endless.onnx", **ENDLESS)
    with (
        worker(timeout_s=3, stages=Stages(ticks.append)) as process,
        pytest.raises(MeasurementError, match=r"ended after 3 s, in its step `warm_up` \(--onnxperf-timeout\)"),
    ):
        measure(process, model)

    assert Doing(Stage.WARM_UP) in ticks[2:]  # told when it begins, and that it goes on


def test_a_process_that_hangs_at_its_start_is_ended_at_the_timeout(
    worker: Callable[..., ProcessWorker], tmp_path: Path
) -> None:
    hang = "import time, sys; print('I wait for a licence', file=sys.stderr, flush=True); time.sleep(1000)"
    with (
        worker(at_start(tmp_path / "site", hang), timeout_s=2) as process,
        pytest.raises(MeasurementError, match="ended after 2 s, in its step `hello`") as raised,
    ):
        process.call("hello")

    assert "I wait for a licence" in str(raised.value)


def test_a_process_that_takes_no_feeds_is_ended_at_the_timeout(
    worker: Callable[..., ProcessWorker], mlp: Path, mark: str
) -> None:
    with worker(timeout_s=4) as process:
        process.call("open", job=job_of(mlp))
        (child,) = children.marked_processes(mark)
        os.kill(child, signal.SIGSTOP)
        with pytest.raises(MeasurementError, match="ended after 4 s, in its step `set_feeds`"):
            process.call("set_feeds", feeds={"x": np.ones((10**6, 32), np.float32)}, bind=False)


def test_a_process_that_does_not_end_after_its_last_step_is_ended_at_the_timeout(
    worker: Callable[..., ProcessWorker], tmp_path: Path
) -> None:
    hang = "import atexit, time; atexit.register(time.sleep, 1000)"
    with worker(at_start(tmp_path / "site", hang), timeout_s=3) as process:
        process.call("hello")
        with pytest.raises(MeasurementError, match="ended after 3 s, in its step `close`"):
            process.close()


def test_a_process_that_hangs_while_it_dies_is_ended_at_the_timeout(
    worker: Callable[..., ProcessWorker], tmp_path: Path
) -> None:
    hang = "import os, time; os.closerange(3, 100); time.sleep(1000)"
    with (
        worker(at_step(tmp_path / "site", "hello", hang), timeout_s=3) as process,
        pytest.raises(MeasurementError, match="ended after 3 s, in its step `hello`"),
    ):
        process.call("hello")


_LIMIT_MEMORY = """
    import resource
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 64 * 2**20, resource.RLIM_INFINITY))
"""


@pytest.mark.parametrize("step", ["make_feeds", "warm_up"])
def test_memory_that_runs_out_is_said_as_such(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path, step: str
) -> None:
    with (
        worker(at_step(tmp_path / "site", step, _LIMIT_MEMORY)) as process,
        pytest.raises(MeasurementError, match="out of memory"),
    ):
        measure(process, mlp, batch=2 * 10**6)


def test_a_python_error_in_a_step_comes_with_its_traceback(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    with (
        worker(at_step(tmp_path / "site", "block", "raise RuntimeError('no such luck')")) as process,
        pytest.raises(
            MeasurementError, match="a step failed with a Python error: RuntimeError: no such luck"
        ) as raised,
    ):
        measure(process, mlp)

    assert "Traceback (most recent call last)" in str(raised.value)


def test_a_process_lives_on_after_an_error_that_is_no_crash(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as process:
        process.call("open", job=job_of(mlp))
        with pytest.raises(MeasurementError, match="dynamic dimensions without a size"):
            process.call("make_feeds", shapes={}, ranges={}, bind=False)
        process.call("make_feeds", shapes={"batch": 1}, ranges={}, bind=False)
        process.call("round")
        process.close()


def test_a_round_without_feeds_says_so(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as process:
        process.call("open", job=job_of(mlp))
        with pytest.raises(MeasurementError, match="no feeds were given yet"):
            process.call("round")


def test_an_argument_that_cannot_cross_the_pipe_is_named(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as process:
        with pytest.raises(SettingError, match=r"takes numbers and texts: .* not set"):
            process.call("open", job={**job_of(mlp), "session_options": {"log_severity_level": {1}}})
        measure(process, mlp)


def test_numbers_of_numpy_and_paths_cross_the_pipe(worker: Callable[..., ProcessWorker], mlp: Path) -> None:
    with worker() as process:
        process.call("open", job={**job_of(mlp), "model": mlp})
        process.call("make_feeds", shapes={"batch": np.int64(2)}, ranges={"x": np.array([0, 1])}, bind=False)
        process.call("round")
        process.close()


# -- other interpreters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _: None, "No such file or directory", id="missing"),
        pytest.param(lambda path: path.write_text("no program"), "Permission denied", id="not-executable"),
        pytest.param(lambda path: path.mkdir(), "Permission denied", id="directory"),
    ],
)
def test_an_interpreter_that_cannot_be_started_is_named(
    worker: Callable[..., ProcessWorker], tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    python = tmp_path / "no-python"
    make(python)
    with pytest.raises(
        MeasurementError, match=f"the interpreter {re.escape(str(python))} cannot be started: {message}"
    ):
        worker(python=str(python))


def bare_interpreter(directory: Path, *packages: str) -> str:
    """Make an environment with nothing but the named directories of this one's site-packages."""
    venv.create(directory, with_pip=False, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    for package in packages:
        home = Path(sys.modules[package].__file__ or "").parent
        for folder in home.parent.glob(f"{package}*"):
            if folder.name in (package, f"{package}.libs"):
                (site / folder.name).symlink_to(folder)
    return str(directory / "bin" / "python")


def test_an_interpreter_without_this_package_can_measure(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    python = bare_interpreter(tmp_path / "venv", "numpy", "onnxruntime")
    for package in ("pytest_onnxperf", "pytest", "msgspec", "onnx", "filelock"):
        found = subprocess.run([python, "-Pc", f"import {package}"], capture_output=True, check=False)
        assert b"ModuleNotFoundError" in found.stderr
    with worker(python=python) as process:
        assert len(measure(process, mlp)["rounds_ns"]) == 5
        process.close()


def test_an_interpreter_without_numpy_says_so(worker: Callable[..., ProcessWorker], tmp_path: Path) -> None:
    with (
        worker(python=bare_interpreter(tmp_path / "venv")) as process,
        pytest.raises(MeasurementError, match="exited with status 1 in its step `hello`") as raised,
    ):
        process.call("hello")

    assert "No module named 'numpy'" in str(raised.value)


def test_an_interpreter_without_onnxruntime_says_so(worker: Callable[..., ProcessWorker], tmp_path: Path) -> None:
    with (
        worker(python=bare_interpreter(tmp_path / "venv", "numpy")) as process,
        pytest.raises(MeasurementError, match=r"No module named 'onnxruntime': install it with `pip install"),
    ):
        process.call("hello")


def test_a_process_imports_the_standard_library_numpy_and_the_runtime_only(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    dump = """
        import atexit, json, os, sys

        def write():
            tops = sorted({name.partition(".")[0] for name in sys.modules})
            with open(os.environ["DUMP"], "w") as file:
                json.dump(tops, file)

        atexit.register(write)
    """
    environment = at_start(tmp_path / "site", dump)
    bare = {**os.environ, **environment, "DUMP": str(tmp_path / "bare.json")}
    subprocess.run([sys.executable, "-c", "import numpy.random, onnxruntime"], env=bare, check=True)
    with worker({**environment, "DUMP": str(tmp_path / "child.json")}) as process:
        process.call("hello")
        measure(process, mlp)
        process.call("make_feeds", shapes={"batch": 1}, ranges={"x": [0, 1]}, bind=True)
        process.call("round")
        process.close()

    modules, known = (set(json.loads((tmp_path / name).read_text())) for name in ("child.json", "bare.json"))
    assert modules - known - set(sys.stdlib_module_names) == {"onnxperf_child"}


@pytest.mark.parametrize("source", [pytest.param(path, id=path.stem) for path in sorted(CHILD.glob("*.py"))])
def test_the_source_of_the_child_is_python_of_version_3_9(source: Path) -> None:
    ast.parse(source.read_text("utf-8"), feature_version=(3, 9))


def test_files_of_the_working_directory_do_not_shadow_modules(
    worker: Callable[..., ProcessWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy", "json", "protocol", "steps"):
        (tmp_path / f"{name}.py").write_text("raise SystemError('shadowed')")
    monkeypatch.chdir(tmp_path)
    with worker() as process:
        process.call("hello")
        process.close()


# -- the environment ---------------------------------------------------------------------------------------------------


def test_variables_are_dropped_and_set(
    worker: Callable[..., ProcessWorker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = """
        import json, os
        with open(os.environ["DUMP"], "w") as file:
            json.dump(dict(os.environ), file)
    """
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COV_CORE_SOURCE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KEPT", "kept")
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    environment = at_start(tmp_path / "site", dump) | {"DUMP": str(tmp_path / "dump.json"), "SET": "set"}
    with worker(environment) as process:
        process.call("hello")
        process.close()

    seen = json.loads((tmp_path / "dump.json").read_text())
    assert (seen["KEPT"], seen["SET"]) == ("kept", "set")
    assert seen["ORT_DISABLE_TELEMETRY"] == "1"
    assert not [name for name in seen if name.startswith(("COV_", "COVERAGE_"))]
    assert "ORT_DISABLE_TELEMETRY" not in os.environ


# -- logs --------------------------------------------------------------------------------------------------------------


def test_of_a_hundred_megabytes_of_log_the_end_alone_is_read(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    flood = """
        import os
        for _ in range(100):
            os.write(2, (b"x" * 1023 + b"\\n") * 1024)
        os.write(2, b"the last line\\n")
        os.abort()
    """
    peak_before = _peak_rss_mib()
    with (
        worker(at_step(tmp_path / "site", "block", flood)) as process,
        pytest.raises(MeasurementError, match="SIGABRT") as raised,
    ):
        measure(process, mlp)

    assert "the last line" in str(raised.value)
    assert len(str(raised.value)) < 5000
    assert (tmp_path / "log0" / "stderr.log").stat().st_size > 100 * 2**20
    assert len(process.log()) <= 32 * 2**20
    assert _peak_rss_mib() - peak_before < 80


def _peak_rss_mib() -> float:
    from pytest_onnxperf.runtime.child.machine import peak_rss_bytes

    return (peak_rss_bytes() or 0) / 2**20


def test_a_log_that_is_not_utf_8_is_shown_all_the_same(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path
) -> None:
    code = "import os; os.write(2, b'caf\\xe9 \\xff\\n'); os.abort()"
    with (
        worker(at_step(tmp_path / "site", "block", code)) as process,
        pytest.raises(MeasurementError, match="caf\N{REPLACEMENT CHARACTER}"),
    ):
        measure(process, mlp)


# -- nothing left behind -----------------------------------------------------------------------------------------------


def test_an_exception_in_the_test_ends_the_process(worker: Callable[..., ProcessWorker], mlp: Path, mark: str) -> None:
    def interrupted() -> None:
        with worker() as process:
            process.call("open", job=job_of(mlp))
            assert len(children.marked_processes(mark)) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


@pytest.mark.parametrize("end", ["sleep", "crash"])
def test_children_of_the_process_end_with_it(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mlp: Path, mark: str, end: str
) -> None:
    spawn = "import os, subprocess; subprocess.Popen(['sleep', '1000'])\n" + ("os.abort()" if end == "crash" else "")
    with worker(at_step(tmp_path / "site", "block", spawn)) as process:
        with pytest.raises(MeasurementError) if end == "crash" else contextlib.nullcontext():
            measure(process, mlp)
        left = children.marked_processes(mark)

    assert len(left) >= 1
    assert all(children.wait_until_gone(process_id) for process_id in left)


def test_a_daemon_that_holds_the_pipe_does_not_block_the_end(
    worker: Callable[..., ProcessWorker], tmp_path: Path, mark: str
) -> None:
    daemon = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    with worker(at_start(tmp_path / "site", daemon)) as process:
        process.call("hello")
        process.close()
    (daemon_id,) = children.marked_processes(mark)
    os.kill(daemon_id, signal.SIGKILL)
    assert children.wait_until_gone(daemon_id)
    process._reader.join()
    assert process._process.stdout is not None
    process._process.stdout.close()


_PARENT = """
import sys
from pathlib import Path
from pytest_onnxperf.runtime.process import ProcessWorker
from tests.runtime.children import job_of

with ProcessWorker(Path(sys.argv[1]), timeout_s=600) as worker:
    worker.call("open", job=job_of(Path(sys.argv[2])))
    worker.call("make_feeds", shapes={"batch": 1}, ranges={}, bind=False)
    print(worker._process.pid, flush=True)
    worker.call("round")
"""


def test_a_process_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    model = models.loop_model(tmp_path / "endless.onnx", **ENDLESS)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path), str(model)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert children.wait_until_gone(child)


# -- what the runtime says ---------------------------------------------------------------------------------------------


def test_a_provider_that_is_not_in_the_build_is_an_error_of_its_own(
    worker: Callable[..., ProcessWorker], mlp: Path
) -> None:
    with worker() as process, pytest.raises(ProviderError, match="has no RknpuExecutionProvider, only "):
        process.call("open", job=job_of(mlp, "RknpuExecutionProvider"))


def test_a_model_that_the_runtime_refuses_is_an_error_of_its_own(
    worker: Callable[..., ProcessWorker], tmp_path: Path
) -> None:
    with worker() as process, pytest.raises(ModelError, match="NoSuchOperator"):
        process.call("open", job=job_of(models.unknown_op(tmp_path / "model.onnx")))
