"""Names devices: what a baseline belongs to, and what the header shows."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.environment import cpu_device, slug
from pytest_onnxperf.core.visible_gpus import alike

from .child.machine import cores
from .lock import device_name, visible_names

if TYPE_CHECKING:
    from .nvml import Nvml

NVIDIA: Final = ("cuda", "tensorrt", "trt-rtx")


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device."""

    name: str
    """For people."""
    key: str
    """For paths."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Its driver, where it has one."""


def describe_device(execution_provider: str, provider_options: Mapping[str, object], given_name: str = "") -> Device:
    """Name the device of an execution provider.

    Args:
        execution_provider: The EP's short name.
        provider_options: `device_id` is read.
        given_name: The name that the user gave (`--onnxperf-device`); it is taken as it is.
    """
    if given_name:
        return Device(given_name, slug(given_name))
    if execution_provider == "cpu":
        return _cpu()
    if execution_provider in NVIDIA:
        physical = device_name(execution_provider, provider_options, os.environ).removeprefix("cuda-")
        return _nvidia(physical) or Device("unknown NVIDIA GPU", "unknown-nvidia-gpu")
    if execution_provider == "webgpu" and _is_software_vulkan():
        return Device("SwiftShader (software Vulkan device)", "swiftshader")
    gpu = _nvidia("0") if execution_provider in ("webgpu", "dml") else None
    return gpu or Device(f"unknown {execution_provider} device", f"unknown-{slug(execution_provider)}-device")


def visible_gpus(nvml: Nvml, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that CUDA shows a process, as `CUDA_VISIBLE_DEVICES` names them: those of the model of the first.

    Args:
        nvml: Without an answer there are none.
        environment: Environment variables; `CUDA_VISIBLE_DEVICES` is read.
    """
    given = visible_names(environment)
    names = [str(index) for index in range(len(nvml.devices))] if given is None else given
    found = [nvml.device(name if name.isdigit() else slug(name)) for name in names]
    return alike(names, [nvml.text("nvmlDeviceGetName", device) if device is not None else "" for device in found])


def _is_software_vulkan() -> bool:
    drivers = (os.environ.get(name, "") for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"))
    return any("swiftshader" in driver.lower() for driver in drivers)


def _nvidia(device: str) -> Device | None:
    command = ["nvidia-smi", "-i", device, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    name, _, driver = answer.strip().partition(",")
    return Device(name.strip(), slug(name), {"driver": driver.strip()}) if name.strip() else None


def _cpu() -> Device:
    fields: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    model_name = fields.get("model name") or _mac_cpu() or platform.processor() or platform.machine()
    return Device(*cpu_device(model_name, fields.get("cpu family", ""), fields.get("model", ""), cores()))


def _mac_cpu() -> str:
    if sys.platform != "darwin":
        return ""
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
