"""Which execution provider runs is found out by running it, and the reason why one does not is ONNX Runtime's own."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.probe import PROBE_MODEL, Prober

from .children import at_start, at_step

if TYPE_CHECKING:
    from pathlib import Path

LONG_S = 120.0


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A probe leaves no file behind."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_model_of_the_probe_is_the_bytes_that_onnx_writes() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="")

    assert model.SerializeToString(deterministic=True) == PROBE_MODEL
    onnx.checker.check_model(PROBE_MODEL)


def test_the_cpu_runs_and_is_asked_once(temporary: Path) -> None:
    prober = Prober(LONG_S)

    assert prober.why_not(provider_of("cpu")) == ""
    findings = prober.findings()
    assert prober.why_not(provider_of("cpu")) == ""
    assert prober.findings() == findings
    assert prober.versions()["onnxruntime"] == onnxruntime.__version__
    assert list(prober.available()) == onnxruntime.get_available_providers()
    assert list(temporary.iterdir()) == []


def test_a_worker_takes_what_the_controller_found(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, worker = Prober(LONG_S), Prober(LONG_S)
    controller.best()

    worker.take(controller.findings())
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    assert worker.why_not(controller.best()) == ""
    assert worker.versions() == controller.versions()


@pytest.mark.needs_cpu
@pytest.mark.parametrize("name", ["cuda", "tensorrt", "webgpu"])
def test_what_the_cpu_package_does_not_hold_is_said_with_what_it_holds(temporary: Path, name: str) -> None:
    provider = provider_of(name)

    extra = "" if name == "tensorrt" else f" (pytest-onnxperf[{name}] installs one that has it)"
    assert Prober(LONG_S).why_not(provider) == (
        f"this build of onnxruntime {onnxruntime.__version__} has no {provider.name}, only "
        f"{', '.join(onnxruntime.get_available_providers())}{extra}"
    )
    assert list(temporary.iterdir()) == []


@pytest.mark.needs_cpu
def test_the_best_of_the_cpu_package_is_the_cpu() -> None:
    assert Prober(LONG_S).best().short == "cpu"


def test_an_ep_that_takes_no_node_does_not_run() -> None:
    name = "AzureExecutionProvider"  # in the CPU package; it runs nothing but calls of Azure
    if name not in onnxruntime.get_available_providers():
        pytest.skip(f"this build has no {name}")

    assert Prober(LONG_S).why_not(provider_of(name)) == ("a session was made, but its node ran on CPUExecutionProvider")


def test_an_ep_that_crashes_is_a_reason_and_no_crash_of_pytest(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in at_step(tmp_path / "site", "open", "import os; os.abort()").items():
        monkeypatch.setenv(name, value)

    reason = Prober(LONG_S).why_not(provider_of("cpu"))

    assert reason.startswith("the measuring process was killed by SIGABRT in its step `open`")
    assert list(temporary.iterdir()) == []


def test_an_ep_that_hangs_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in at_step(tmp_path / "site", "open", "import time; time.sleep(1000)").items():
        monkeypatch.setenv(name, value)

    assert "was ended after 3 s, in its step `open`" in Prober(3.0).why_not(provider_of("cpu"))


def test_without_onnxruntime_nothing_runs_and_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "site" / "onnxruntime" / "__init__.py").write_text("raise ImportError('libcudart.so.12 is missing')")
    for name, value in at_start(tmp_path / "site", "").items():
        monkeypatch.setenv(name, value)

    with pytest.raises(MeasurementError, match=r"onnxruntime cannot be imported: libcudart\.so\.12 is missing"):
        Prober(LONG_S).best()


def test_the_log_of_a_probe_that_fails_is_not_promised_where_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; print('no driver', file=sys.stderr, flush=True); os.abort()"
    for name, value in at_step(tmp_path / "site", "open", code).items():
        monkeypatch.setenv(name, value)

    reason = Prober(LONG_S).why_not(provider_of("cpu"))

    assert "no driver" in reason
    assert "Full log" not in reason


def test_the_environment_of_pytest_is_left_as_it_was() -> None:
    before = dict(os.environ)
    Prober(LONG_S).best()

    assert dict(os.environ) == before
