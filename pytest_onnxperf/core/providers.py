"""Names of execution providers (EPs): the short ones people type, ONNX Runtime's own, and which `auto` tries first."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .errors import SettingError

CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class Provider:
    """One execution provider of ONNX Runtime."""

    name: str
    """ONNX Runtime's own string, `CUDAExecutionProvider`."""
    short: str
    """What people type, and what ends an environment key: `cuda`."""
    asynchronous: bool = False
    """True where a node returns once it is launched, so that its time in a profile is launch time."""
    followed_by: tuple[str, ...] = ()
    """EPs that are put behind it in the provider list, before the CPU, as its own documentation advises."""
    in_auto: bool = True
    """False where `auto` leaves it out: an EP that compiles engines changes what is measured, and must be named."""


# In the order in which `auto` tries them; the CPU runs everywhere and is last.
PROVIDERS = (
    Provider("CUDAExecutionProvider", "cuda", asynchronous=True),
    Provider("TensorrtExecutionProvider", "tensorrt", True, ("CUDAExecutionProvider",), in_auto=False),
    Provider("NvTensorRTRTXExecutionProvider", "trt-rtx", True, ("CUDAExecutionProvider",), in_auto=False),
    Provider("ROCMExecutionProvider", "rocm", asynchronous=True),
    Provider("MIGraphXExecutionProvider", "migraphx", True, in_auto=False),
    Provider("DmlExecutionProvider", "dml", asynchronous=True),
    Provider("WebGpuExecutionProvider", "webgpu", asynchronous=True),
    Provider("CoreMLExecutionProvider", "coreml", in_auto=False),
    Provider("OpenVINOExecutionProvider", "openvino", in_auto=False),
    Provider("QNNExecutionProvider", "qnn", in_auto=False),
    Provider("CANNExecutionProvider", "cann", asynchronous=True, in_auto=False),
    Provider("VitisAIExecutionProvider", "vitisai", in_auto=False),
    Provider("DnnlExecutionProvider", "dnnl", in_auto=False),
    Provider("XnnpackExecutionProvider", "xnnpack", in_auto=False),
    Provider(CPU, "cpu"),
)


def provider_of(text: str) -> Provider:
    """Return the provider that `text` names, by its short name or by ONNX Runtime's own.

    A string that ends in `ExecutionProvider` and is not in the table is taken as it is: an EP of a plug-in library.

    Raises:
        SettingError: `text` names no execution provider.

    >>> provider_of("cuda").name
    'CUDAExecutionProvider'
    >>> provider_of("AcmeExecutionProvider").short
    'acme'
    """
    wanted = text.strip().lower()
    for provider in PROVIDERS:
        if wanted in (provider.short, provider.name.lower()):
            return provider
    stem = text.strip().removesuffix("ExecutionProvider")
    if stem and stem != text.strip() and stem.isalnum():
        return Provider(text.strip(), stem.lower(), in_auto=False)
    names = [provider.short for provider in PROVIDERS]
    close = difflib.get_close_matches(wanted.removesuffix("executionprovider"), names, n=1)
    hint = f", did you mean `{close[0]}`?" if close else "."
    msg = (
        f"unknown execution provider {text!r}{hint} Known: auto, {', '.join(names)}, "
        f"or ONNX Runtime's own name such as CUDAExecutionProvider"
    )
    raise SettingError(msg)


def nearly_named(text: str) -> str:
    """Return the short name of the provider that a text nearly names; empty where it names none, or just one.

    A name of other letters alone may be another one with a typing error; one with digits may be a device.

    >>> [nearly_named(text) for text in ("cudaa", "CUDA_ExecutionProvider", "web-gpu", "cuda", "trt-rtx", "cuda2")]
    ['cuda', 'cuda', 'webgpu', '', '', '']
    """
    names = {name.lower(): each.short for each in PROVIDERS for name in (each.short, each.name)} | {"directml": "dml"}
    wanted, letters = text.lower(), "".join(filter(str.isalnum, text.lower()))
    if wanted in names and wanted != "directml":
        return ""
    if letters in names or not letters.isalpha():
        return names.get(letters, "")
    if letters.endswith("executionprovider"):  # which alone would be most of a name
        letters, names = letters.removesuffix("executionprovider"), {each.short: each.short for each in PROVIDERS}
    close = difflib.get_close_matches(letters, names, n=1, cutoff=0.75) if wanted.isalpha() else []
    return names[close[0]] if close else ""


def short_name(execution_provider: str) -> str:
    """Return the short name of ONNX Runtime's own string, `cuda` for `CUDAExecutionProvider`."""
    for provider in PROVIDERS:
        if provider.name == execution_provider:
            return provider.short
    return execution_provider.removesuffix("ExecutionProvider").lower()
