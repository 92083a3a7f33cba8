"""The state of a GPU through nvidia-ml-py, against a small NVML that is compiled here: its own loader finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import nvml_stub

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[2]
HEALTHY: Final = {
    "name": "NVIDIA H200", "uuid0": "GPU-4f2a-11", "uuid1": "GPU-77aa-22", "count": 2, "driver": "550.54", "mig": 0,
    "power_limit_mw": 700_000, "clock": 1980, "max_clock": 1980, "throttle": 0, "temperature": 41,
    "memory": 512 << 20, "busy": 0, "tells_use": 1,
}  # fmt: skip

_PRELUDE: Final = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
from pytest_onnxperf.runtime.gpu_state import GpuMeter
from pytest_onnxperf.runtime.nvml import Nvml

def say(**values):
    global SAID
    SAID = {**SAID, **values}
    lines = [f"{name} {value}" for name, value in SAID.items() if value is not None]
    Path(os.environ["NVML_STUB"]).write_text("\\n".join(lines))

def show(state):
    print(json.dumps(None if state is None else {**asdict(state), "disturbances": state.disturbances}))

SAID = json.loads(sys.argv[1])
say()
nvml = Nvml()
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml_stub.built(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpu(library: Path, tmp_path: Path) -> Callable[..., Any]:
    """Runs code in a process that finds the small NVML, and returns what it printed."""

    def run(code: str, **changes: object) -> Any:
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(library), "NVML_STUB": str(tmp_path / "state"),
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        command = [sys.executable, "-c", _PRELUDE + code, json.dumps({**HEALTHY, **changes})]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    return run


ONE_BLOCK: Final = """
meter = GpuMeter(nvml, "0")
meter.begin()
say(**TIMED)
meter.sample(os.getpid(), "block")
say(**AFTER)
show(meter.state())
"""


def one_block(**timed: object) -> str:
    """Code that measures a block while the GPU is in another state."""
    after = {name: HEALTHY.get(name) for name in timed}
    return f"TIMED, AFTER = {timed!r}, {after!r}\n{ONE_BLOCK}"


def test_a_gpu_has_a_name_limits_and_its_state_before_meanwhile_and_after(gpu: Callable[..., Any]) -> None:
    found = gpu(one_block(clock=1755, temperature=63, memory=3 << 30, busy=97, throttle=0x4))
    assert found == {
        "name": "NVIDIA H200", "uuid_hash": sha256(b"GPU-4f2a-11").hexdigest()[:12], "driver": "550.54", "mig": "off",
        "power_limit_w": 700.0, "max_clock_mhz": 1980,
        "clock_before_mhz": 1980, "clock_during_mhz": 1755, "clock_after_mhz": 1980,
        "throttled": {"power cap": 1.0}, "temperature_c": 63,
        "memory_before_bytes": 512 << 20, "memory_peak_bytes": 3 << 30, "utilisation_ratio": 0.97,
        "other_processes": 0, "other_use_ratio": 0.0, "disturbances": [],
    }  # fmt: skip


def test_the_uuid_itself_is_nowhere(gpu: Callable[..., Any]) -> None:
    assert "4f2a" not in json.dumps(gpu(one_block()))


@pytest.mark.parametrize(
    ("throttle", "word"),
    [
        (0x8, "hardware slowdown"),
        (0x20, "thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "power brake"),
    ],
)
def test_a_gpu_that_defends_itself_disturbs(gpu: Callable[..., Any], throttle: int, word: str) -> None:
    found = gpu(one_block(throttle=throttle))
    assert found["disturbances"] == [f"the GPU was throttled ({word}) in 100 % of the readings"]


@pytest.mark.parametrize("throttle", [0x1, 0x2, 0x4, 0x10, 0x100])
def test_a_clock_that_the_user_or_the_load_sets_does_not(gpu: Callable[..., Any], throttle: int) -> None:
    assert gpu(one_block(throttle=throttle))["disturbances"] == []


def test_steps_that_time_nothing_say_memory_alone(gpu: Callable[..., Any]) -> None:
    code = """
meter = GpuMeter(nvml, "0")
meter.begin()
say(throttle=0x20, busy=99, clock=300, memory=7 << 30)
meter.sample(os.getpid(), "warm_up")
say(throttle=0, busy=50, clock=1900, memory=1 << 30)
meter.sample(os.getpid(), "block")
show(meter.state())
"""
    found = gpu(code)
    assert (found["throttled"], found["utilisation_ratio"], found["clock_during_mhz"]) == ({}, 0.5, 1900)
    assert found["memory_peak_bytes"] == 7 << 30


def test_what_the_driver_does_not_say_is_absent(gpu: Callable[..., Any]) -> None:
    nothing = dict.fromkeys(set(HEALTHY) - {"name", "count"})
    found = gpu(one_block(), **nothing)
    assert found == {
        **dict.fromkeys(found), "name": "NVIDIA H200", "uuid_hash": "", "driver": "", "mig": "", "throttled": {},
        "other_processes": 0, "disturbances": [],
    }  # fmt: skip


@pytest.mark.parametrize(("percent", "disturbs"), [(10, False), (11, True)])
def test_others_that_use_the_gpu_disturb(gpu: Callable[..., Any], percent: int, disturbs: bool) -> None:
    """Process 1 is never ours."""
    found = gpu(one_block(use=f"1:{percent}"), pids="1:1000")
    expected = [f"1 other process used {percent} % of the GPU's time"] if disturbs else []
    assert found["disturbances"] == expected
    assert found["other_processes"] == 1


def test_others_that_only_hold_memory_are_counted_and_do_not_disturb(gpu: Callable[..., Any]) -> None:
    found = gpu(one_block(busy=99), pids="1:1000,2:1000")
    assert (found["other_processes"], found["disturbances"]) == (2, [])


def test_this_process_and_what_it_starts_are_not_others(gpu: Callable[..., Any]) -> None:
    code = """
import subprocess
child = subprocess.Popen(["sleep", "60"])
own = f"{os.getpid()}:1,{child.pid}:1"
say(pids=own)
meter = GpuMeter(nvml, "0")
meter.begin()
say(pids=own, use=f"{os.getpid()}:90,{child.pid}:90")
meter.sample(child.pid, "block")
child.kill()
show(meter.state())
"""
    found = gpu(code)
    assert (found["other_processes"], found["disturbances"]) == (0, [])


def test_in_a_container_a_process_that_came_later_may_be_ours_and_is_not_counted(gpu: Callable[..., Any]) -> None:
    """The child is there under its id of the host, 1 here, which nothing tells."""
    found = gpu(one_block(pids="1:1000", use="1:95"))
    assert (found["other_processes"], found["disturbances"]) == (0, [])


def test_a_gpu_that_was_busy_before_is_used_by_those_who_are_on_it(gpu: Callable[..., Any]) -> None:
    """Where NVML does not tell processes apart, as on older cards."""
    found = gpu(one_block(), tells_use=None, pids="1:1000", busy=60)
    assert found["disturbances"] == ["1 other process used 60 % of the GPU's time"]


def test_what_just_ended_is_not_what_others_do(gpu: Callable[..., Any]) -> None:
    """The average of the last second still holds our own last measurement."""
    code = """
import threading
threading.Timer(0.5, lambda: say(busy=0)).start()
""" + one_block()  # fmt: skip
    found = gpu(code, tells_use=None, pids="1:1000", busy=60)
    assert found["disturbances"] == []


@pytest.mark.parametrize(
    ("physical", "uuid"),
    [
        ("0", "GPU-4f2a-11"),
        ("1", "GPU-77aa-22"),
        ("gpu-77aa", "GPU-77aa-22"),
        ("gpu-4f2a-11", "GPU-4f2a-11"),
    ],
)
def test_a_device_is_found_by_its_index_or_the_beginning_of_its_uuid(
    gpu: Callable[..., Any], physical: str, uuid: str
) -> None:
    found = gpu(f'meter = GpuMeter(nvml, "{physical}")\nmeter.begin()\nshow(meter.state())')
    assert found["uuid_hash"] == sha256(uuid.encode()).hexdigest()[:12]


@pytest.mark.parametrize("physical", ["2", "gpu-99"])
def test_a_device_that_is_not_there_has_no_state(gpu: Callable[..., Any], physical: str) -> None:
    code = f'meter = GpuMeter(nvml, "{physical}")\nmeter.begin()\nmeter.sample(1, "block")\nshow(meter.state())'
    assert gpu(code) is None


def test_a_driver_that_does_not_answer_is_a_reason(gpu: Callable[..., Any]) -> None:
    code = 'del os.environ["NVML_STUB"]\nprint(json.dumps([Nvml().why_not, Nvml().devices]))'
    code = f"import ctypes\nctypes.CDLL(None).unsetenv(b'NVML_STUB')\n{code}"
    assert gpu(code) == ["NVML does not answer: Driver Not Loaded", []]


def test_the_peak_of_a_process_is_its_own(gpu: Callable[..., Any]) -> None:
    code = """
from pytest_onnxperf.runtime.vram import VramMeter
meter = VramMeter(nvml)
meter.sample(77, "block")
say(pids="5:900,77:300")
meter.sample(77, "block")
say(pids="77:100")
meter.sample(77, "block")
print(json.dumps([meter.reason(), meter.take(), meter.take()]))
"""
    assert gpu(code, count=1) == ["", 300, 0]


def test_a_measurement_has_the_state_of_its_gpu_and_is_disturbed_by_it(gpu: Callable[..., Any], tmp_path: Path) -> None:
    """The model runs on the CPU; the meter believes that it is a GPU's."""
    pytest.importorskip("onnxruntime")
    code = f"""
import msgspec
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from pytest_onnxperf.runtime.state_meter import StateMeter
from tests import models

path = models.mlp(Path({str(tmp_path / "mlp.onnx")!r}))
job = SessionJob(path, "mlp.onnx", provider_of("cpu"), shapes={{"batch": 2}})
plan = Plan(2, 5, 0.0, 1, 120.0, "process", 1)
measurement = Measurement(job, plan, Path({str(tmp_path / "files")!r}), lambda _: None)
measurement._state = StateMeter("cuda", {{}})
say(throttle=0x40)
record = measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)
again = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(record))), Record)
print(json.dumps([record.disturbance, again == record, record.gpu.clock_during_mhz, dict(record.environment.versions)]))
"""
    disturbance, is_same, clock_mhz, versions = gpu(code)
    assert "the GPU was throttled (hardware thermal slowdown) in 100 % of the readings" in disturbance
    assert disturbance.endswith(" while rounds were timed")
    assert is_same, "it does not cross a worker"
    assert clock_mhz == 1980
    assert versions["power limit"] == "700 W"
