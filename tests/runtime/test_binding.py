"""Binding gives the same outputs as a plain run, on the device of the session."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest

from pytest_onnxperf.runtime.child.binding import bind, run
from pytest_onnxperf.runtime.child.element_types import BY_NAME
from pytest_onnxperf.runtime.child.inputs import InputError, make_feeds
from tests import models

if TYPE_CHECKING:
    from pathlib import Path

WEBGPU = "WebGpuExecutionProvider"
PROVIDERS = [
    ["CPUExecutionProvider"],
    pytest.param(
        [WEBGPU, "CPUExecutionProvider"],
        marks=pytest.mark.skipif(
            WEBGPU not in onnxruntime.get_available_providers(), reason="this onnxruntime is not onnxruntime-webgpu"
        ),
    ),
]


UNCLOSED = """
import sys
import onnxruntime
from pytest_onnxperf.runtime.child.binding import bind
from pytest_onnxperf.runtime.child.inputs import make_feeds

session = onnxruntime.InferenceSession(sys.argv[1], providers=sys.argv[2:])
bound = bind(session, make_feeds(session, {"batch": 2}, {}))
bound.run()
del session
"""


def open_session(path: Path, providers: list[str]) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=providers)


@pytest.mark.parametrize("providers", PROVIDERS)
@pytest.mark.parametrize(
    ("write", "shapes"),
    [
        pytest.param(models.mlp, {"batch": 3}, id="mlp"),
        pytest.param(models.several_inputs, {"batch": 3}, id="several_inputs"),
        pytest.param(models.transformer_block, {"batch": 1, "seq": 4, "past": 0, "total": 4}, id="with-an-empty-input"),
        pytest.param(models.cpu_island, {"batch": 2}, id="cpu_island"),
    ],
)
def test_a_bound_session_gives_the_outputs_of_a_plain_run(
    tmp_path: Path, providers: list[str], write: Any, shapes: dict[str, int]
) -> None:
    session = open_session(write(tmp_path / "model.onnx"), providers)
    feeds = make_feeds(session, shapes, {})
    expected: list[Any] = run(session, feeds)

    with bind(session, feeds) as bound:
        bound.run()
        bound.run()
        outputs: list[Any] = bound.outputs()

    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)


def test_types_that_numpy_lacks_are_bound_on_the_host(tmp_path: Path) -> None:
    path = models.every_type(tmp_path / "model.onnx", BY_NAME["bfloat16"].number)
    session = open_session(path, ["CPUExecutionProvider"])

    with bind(session, make_feeds(session, {"n": 4}, {})) as bound:
        bound.run()
        outputs: list[Any] = bound.outputs()

    assert outputs[0].data_type() == "tensor(bfloat16)"
    assert list(outputs[0].shape()) == [4]


def test_only_the_device_of_the_session_can_be_bound(tmp_path: Path) -> None:
    session = open_session(models.mlp(tmp_path / "model.onnx"), ["CPUExecutionProvider"])

    with pytest.raises(InputError, match="cannot bind on `cuda`: the session runs on CPUExecutionProvider"):
        bind(session, make_feeds(session, {"batch": 1}, {}), "cuda")


def test_strings_cannot_be_bound(tmp_path: Path) -> None:
    session = open_session(models.string_input(tmp_path / "model.onnx"), ["CPUExecutionProvider"])

    with pytest.raises(InputError, match="cannot bind input `words`: onnxruntime binds tensors of numbers only"):
        bind(session, make_feeds(session, {"n": 2}, {}))


def test_an_execution_provider_without_a_device_name_says_so(tmp_path: Path) -> None:
    provider = "AzureExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        pytest.skip(f"this onnxruntime has no {provider}")
    session = open_session(models.mlp(tmp_path / "model.onnx"), [provider, "CPUExecutionProvider"])

    with pytest.raises(InputError, match=f"cannot bind inputs and outputs on {provider}"):
        bind(session, make_feeds(session, {"batch": 1}, {}))


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    session = open_session(models.mlp(tmp_path / "model.onnx"), ["CPUExecutionProvider"])
    bound = bind(session, make_feeds(session, {"batch": 1}, {}))

    bound.close()
    bound.close()

    assert bound.binding is None


@pytest.mark.parametrize("providers", PROVIDERS)
def test_a_process_that_closes_nothing_still_ends_well(tmp_path: Path, providers: list[str]) -> None:
    command = [sys.executable, "-c", UNCLOSED, str(models.mlp(tmp_path / "model.onnx")), *providers]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
