"""Ctrl-C in the middle of a measurement: pytest ends as it always does, and nothing of ours is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.runtime.lock import claimed
from tests import models

from . import children

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

ROOT = Path(__file__).parents[2]
INTERRUPTED = 2

_TESTS = """
import os
from pathlib import Path

HERE = Path(__file__).parent

def test_a_short(onnx_session):
    onnx_session(HERE / "short.onnx").measure(shapes={"batch": 1})

def test_b_endless(onnx_session):
    (HERE / "begun").touch()
    onnx_session(HERE / "endless.onnx").measure(shapes={"batch": 1})

def test_c_never(onnx_session):
    onnx_session(HERE / "short.onnx").measure(shapes={"batch": 1})
"""


class Suite:
    """A pytest run in a process of its own, as a person starts it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.mark = directory, children.new_mark()
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        models.mlp(directory / "short.onnx")
        models.loop_model(directory / "endless.onnx", trips=10**12)
        (directory / "test_long.py").write_text(_TESTS)
        (directory / "pytest.ini").write_text("[pytest]\n")
        monkeypatch.setattr(tempfile, "tempdir", str(self.temporary))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        options = [
            "--onnxperf-ep=cpu",
            "--onnxperf-min-rounds=3",
            "--onnxperf-max-time=0",
            "--onnxperf-baseline-processes=1",
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *arguments, "test_long.py"],
            cwd=self.directory,
            env={**os.environ, children.MARK: self.mark, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_until(self, is_so: Callable[[], bool], run: subprocess.Popen[str], timeout_s: float = 60) -> None:
        end_s = time.monotonic() + timeout_s
        while not is_so():
            if run.poll() is not None or time.monotonic() > end_s:
                run.kill()
                pytest.fail(f"never came so far:\n{run.communicate()[0]}")
            time.sleep(0.05)

    def measuring(self) -> bool:
        """Whether the endless model runs, in a process that is in its steps."""
        logs = self.temporary.rglob("onnxperf*/1-timing/stdout.log")
        return (self.directory / "begun").exists() and any(logs)

    def left(self) -> list[str]:
        """Return what lies in the temporary directory beside locks and pytest's own empty directories."""
        return [
            str(path.relative_to(self.temporary))
            for path in self.temporary.rglob("*")
            if path.is_file() and not path.is_relative_to(self.temporary / f"onnxperf-locks-{os.getuid()}")
            and path.name != ".lock"
        ]  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    return Suite(tmp_path, monkeypatch)


def interrupt(suite: Suite, run: subprocess.Popen[str], times: int = 1) -> str:
    suite.wait_until(suite.measuring, run)
    for _ in range(times):
        run.send_signal(signal.SIGINT)
    return run.communicate(timeout=60)[0]


def test_an_interrupted_run_leaves_no_process_no_lock_and_no_file(suite: Suite) -> None:
    run = suite.start("--onnxperf")
    output = interrupt(suite, run)

    assert run.returncode == INTERRUPTED, output
    assert "KeyboardInterrupt" in output
    assert "INTERNALERROR" not in output
    assert children.marked_processes(suite.mark) == []
    assert suite.left() == []
    with claimed("cpu", lambda: pytest.fail("the lock is still held")):
        pass


def test_what_was_measured_before_the_interrupt_is_recorded(suite: Suite) -> None:
    run = suite.start("--onnxperf-update")
    output = interrupt(suite, run)

    assert run.returncode == INTERRUPTED, output
    (baseline,) = (suite.directory / "baselines").glob("*.cpu/test_long.json")
    assert set(json.loads(baseline.read_text())["tests"]) == {"test_a_short"}


def test_an_interrupt_while_a_device_is_waited_for_ends_the_run(suite: Suite) -> None:
    with claimed("cpu"):
        run = suite.start("--onnxperf", "-k", "endless")
        suite.wait_until((suite.directory / "begun").exists, run)
        run.send_signal(signal.SIGINT)
        output = run.communicate(timeout=60)[0]

    assert run.returncode == INTERRUPTED, output
    assert children.marked_processes(suite.mark) == []
    assert suite.left() == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_run_that_is_killed_leaves_no_process_and_no_lock(suite: Suite, sign: signal.Signals) -> None:
    run = suite.start("--onnxperf", "-k", "endless")
    suite.wait_until(suite.measuring, run)
    measuring = [process for process in children.marked_processes(suite.mark) if process != run.pid]
    run.send_signal(sign)
    run.communicate(timeout=60)

    assert measuring
    assert all(children.wait_until_gone(process) for process in measuring)
    with claimed("cpu", lambda: pytest.fail("the lock is still held")):
        pass


def test_an_interrupted_run_with_workers_leaves_no_process_and_no_lock(suite: Suite) -> None:
    run = suite.start("--onnxperf", "-n", "2")
    output = interrupt(suite, run)

    assert run.returncode == INTERRUPTED, output
    for process in children.marked_processes(suite.mark):
        assert children.wait_until_gone(process)
    with claimed("cpu", lambda: pytest.fail("the lock is still held")):
        pass
