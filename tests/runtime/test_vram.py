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
    meter.sample(os.getpid())
    if not nvml.why_not:
        pytest.skip("NVML answers here")
    assert meter.peak_bytes == 0
    missing = "nvidia-ml-py is not installed"
    expected = "NVML does not answer: " if importlib.util.find_spec("pynvml") else f"NVML cannot be asked: {missing}"
    assert meter.reason().startswith(expected)


def test_a_process_without_device_memory_is_no_peak_of_zero() -> None:
    nvml = Nvml()
    meter = VramMeter(nvml)
    meter.sample(os.getpid())
    assert meter.peak_bytes == 0
    assert meter.reason()
