"""Device memory where NVML does not answer: a reason, and never a zero that would pass a budget."""

from __future__ import annotations

import importlib.util
import os

import pytest

from pytest_onnxperf.runtime.nvml import Nvml
from pytest_onnxperf.runtime.vram import VramMeter


def test_without_an_answer_there_is_a_reason_and_no_peak() -> None:
    nvml = Nvml()
    meter = VramMeter(nvml)
    meter.sample(os.getpid(), "block")
    if not nvml.why_not:
        pytest.skip("NVML answers here")
    assert meter.peak_bytes == 0
    missing = "nvidia-ml-py is not installed"
    expected = "NVML does not answer: " if importlib.util.find_spec("pynvml") else f"NVML cannot be asked: {missing}"
    assert meter.reason().startswith(expected)


def test_a_process_without_device_memory_is_no_peak_of_zero() -> None:
    nvml = Nvml()
    meter = VramMeter(nvml)
    meter.sample(os.getpid(), "block")
    assert meter.peak_bytes == 0
    assert meter.reason()


def test_what_a_reference_workload_takes_is_no_memory_of_the_model() -> None:
    """Once it may stand on the device, NVML is not even asked."""

    class Answers(Nvml):
        def processes(self, device: int) -> dict[int, int]:
            return {os.getpid(): device}

    nvml = Answers()
    nvml.devices = [100]
    meter = VramMeter(nvml)
    meter.sample(os.getpid(), "block")
    nvml.devices = [100, 900]
    for step in ("paired", "close"):
        meter.sample(os.getpid(), step)

    assert meter.take() == 100
