"""One measurement at a time on a device, whoever asks, and no lock outlives the process that held it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.runtime.lock import claimed, device_name, lock_directory

ROOT = Path(__file__).parents[2]

_HOLDER = """
import sys, time
from pytest_onnxperf.runtime.lock import claimed

print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with claimed(sys.argv[1]):
        begin_ns = time.monotonic_ns()
        time.sleep(0.02)
        print(begin_ns, time.monotonic_ns(), flush=True)
"""

_KILLED = """
import sys
from pytest_onnxperf.runtime.lock import claimed

with claimed(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Locks of their own, so that tests do not wait for one another."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def intervals(holders: list[subprocess.Popen[str]]) -> list[list[tuple[int, int]]]:
    """Let all begin at once, and return when each held its lock."""
    for holder in holders:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
    for holder in holders:
        assert holder.stdin is not None
        holder.stdin.write("go\n")
        holder.stdin.flush()
    outputs = [holder.communicate()[0] for holder in holders]
    assert all(holder.returncode == 0 for holder in holders)
    return [[(int(a), int(b)) for a, b in map(str.split, output.splitlines())] for output in outputs]


def test_two_processes_never_hold_one_device_at_once() -> None:
    held = intervals([start(_HOLDER, "cuda-0", "10") for _ in range(3)])

    in_order = sorted(interval for each in held for interval in each)
    assert [len(each) for each in held] == [10, 10, 10]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(in_order))


def test_two_devices_are_held_at_once() -> None:
    with claimed("cuda-0"), claimed("cuda-1"):
        assert intervals([start(_HOLDER, "cuda-2", "1")])


def test_who_waits_is_told_so_about_twice_a_second_until_the_device_is_free() -> None:
    holder = start(_KILLED, "cpu")
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    ticks: list[None] = []

    def waiting() -> None:
        ticks.append(None)
        if len(ticks) == 2:
            holder.communicate("let go\n")

    with claimed("cpu", waiting):
        pass

    assert len(ticks) in (2, 3)


def test_the_lock_of_a_killed_process_is_free_at_once() -> None:
    holder = start(_KILLED, "cpu")
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    holder.stdin.close()

    def waiting() -> None:
        pytest.fail("the lock is still held")

    with claimed("cpu", waiting):
        pass


def test_a_lock_is_let_go_when_a_test_fails_or_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt), claimed("cpu"):
        raise KeyboardInterrupt

    assert intervals([start(_HOLDER, "cpu", "1")])


@pytest.mark.parametrize(
    ("ep", "options", "visible", "device"),
    [
        ("cpu", {}, "3", "cpu"),
        ("cpu", {"device_id": 1}, None, "cpu"),
        ("cuda", {}, None, "cuda-0"),
        ("cuda", {"device_id": 2}, None, "cuda-2"),
        ("cuda", {"device_id": "2"}, "", "cuda-2"),
        ("cuda", {}, "4,6", "cuda-4"),
        ("cuda", {"device_id": 1}, "4, 6 ", "cuda-6"),
        ("tensorrt", {"device_id": 1}, "4,6", "cuda-6"),
        ("cuda", {"device_id": 7}, "4,6", "cuda-7"),
        ("cuda", {}, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "cuda-gpu-8932f937-d72c-4106-c12f-20bd9faed9f6"),
        ("cuda", {}, "MIG-1/2", "cuda-mig-1-2"),
        ("webgpu", {}, "4,6", "webgpu-0"),
        ("cuda", {"device_id": "../../etc"}, None, "cuda-etc"),
    ],
)
def test_a_device_is_named_by_the_number_that_the_machine_gives_it(
    ep: str, options: dict[str, object], visible: str | None, device: str
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert device_name(ep, options, environment) == device


def test_the_lock_directory_belongs_to_the_user_alone(temporary: Path) -> None:
    assert lock_directory().parent == temporary
    assert lock_directory().stat().st_mode & 0o777 == 0o700


def test_a_file_where_the_lock_directory_should_be_is_a_clear_error(temporary: Path) -> None:
    blocker = temporary / f"onnxperf-locks-{os.getuid()}"
    blocker.write_text("in the way")

    with pytest.raises(MeasurementError, match=rf"{re.escape(str(blocker))}.* cannot be made.*TMPDIR"), claimed("cpu"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_lock_directory_of_another_user_is_refused(temporary: Path) -> None:
    os.chown(lock_directory(), 65534, 65534)

    with pytest.raises(MeasurementError, match="belongs to another user"), claimed("cpu"):
        pass


def test_a_lock_that_cannot_be_made_is_a_clear_error() -> None:
    (lock_directory() / "device-cpu.lock").mkdir()

    with pytest.raises(MeasurementError, match=r"device-cpu\.lock"), claimed("cpu"):
        pass
