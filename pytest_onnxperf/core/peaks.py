"""Ceilings of common NVIDIA GPUs from their datasheets, and those that were measured.

All values are dense: of what a datasheet prints "with sparsity" it is half. Tensor core values are at boost clock, for
float16 with float32 accumulation, as cuBLAS has it by default (half the rate of float16 accumulation on GeForce).

`float` is the TF32 value where the GPU has TF32: ONNX Runtime's CUDA EP lets cuBLAS and cuDNN use it unless
`use_tf32=0` is set. Source: `int use_tf32 = 1` in ONNX Runtime's cuda_provider_options.h. Left out, as no datasheet
settles them: B200 (8 and 7.7 TB/s are both printed) and cut-down variants of a cloud, such as A10G.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .roofline import Ceilings

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERA: Final = 1e12
_GIGA: Final = 1e9


@dataclass(frozen=True, slots=True)
class Peak:
    """One GPU, dense."""

    names: tuple[str, ...]
    """As NVML has them, without `NVIDIA` and `Tesla` in front."""
    float32_tflop_per_s: float
    """Without tensor cores."""
    tf32_tflop_per_s: float | None
    """None before Ampere."""
    float16_tflop_per_s: float
    """With tensor cores."""
    has_bfloat16: bool
    """At the rate of float16."""
    int8_tflop_per_s: float | None
    """With tensor cores, tera-operations/s; None where they have no int8."""
    memory_gb_per_s: float
    """10^9 bytes/s."""
    source: str


_A100: Final = "NVIDIA A100 datasheet, 2021"
_H100: Final = "NVIDIA H100 datasheet, 2023"
_H200: Final = "NVIDIA H200 datasheet, 2024"
_V100: Final = "NVIDIA V100 datasheet, 2020"
_GA102: Final = "NVIDIA Ampere GA102 whitepaper, V2, 2021"
_ADA: Final = "NVIDIA Ada architecture whitepaper, V2, 2023"

PEAKS: Final = (
    Peak(("V100-SXM2-16GB", "V100-SXM2-32GB"), 15.7, None, 125, False, None, 900, _V100),
    Peak(("V100-PCIE-16GB", "V100-PCIE-32GB"), 14, None, 112, False, None, 900, _V100),
    Peak(("V100S-PCIE-32GB",), 16.4, None, 130, False, None, 1134, _V100),
    Peak(("T4",), 8.1, None, 65, False, 130, 320, "NVIDIA T4 datasheet, 2019, and its product brief"),
    Peak(("A100-SXM4-40GB", "A100-PCIE-40GB"), 19.5, 156, 312, True, 624, 1555, _A100),
    Peak(("A100-SXM4-80GB",), 19.5, 156, 312, True, 624, 2039, _A100),
    Peak(("A100 80GB PCIe",), 19.5, 156, 312, True, 624, 1935, _A100),
    Peak(("A10",), 31.2, 62.5, 125, True, 250, 600, "NVIDIA A10 datasheet, 2021"),
    Peak(("L4",), 30.3, 60, 121, True, 242.5, 300, "NVIDIA L4 datasheet, 2023"),
    Peak(("L40S",), 91.6, 183, 362, True, 733, 864, "NVIDIA L40S datasheet, 2023"),
    Peak(("H100 80GB HBM3",), 67, 494.5, 989.5, True, 1979, 3350, _H100),
    Peak(("H100 PCIe",), 51, 378, 756.5, True, 1513, 2000, _H100),
    Peak(("H100 NVL",), 60, 417.5, 835.5, True, 1670.5, 3900, "NVIDIA H100 datasheet, 2024"),
    Peak(("H200",), 67, 494.5, 989.5, True, 1979, 4800, _H200),
    Peak(("H200 NVL",), 60, 417.5, 835.5, True, 1670.5, 4800, _H200),
    Peak(("GeForce RTX 3090",), 35.6, 35.6, 71, True, 284, 936, _GA102),
    Peak(("RTX A6000",), 38.7, 77.4, 154.8, True, 309.7, 768, _GA102),
    Peak(("GeForce RTX 4090",), 82.6, 82.6, 165.2, True, 660.6, 1008, _ADA),
    Peak(("RTX 6000 Ada Generation",), 91.1, 182.1, 364.2, True, 728.5, 960, _ADA),
    Peak(
        ("GeForce RTX 5090",),
        104.8,
        104.8,
        209.5,
        True,
        838,
        1792,
        "NVIDIA RTX Blackwell architecture whitepaper, 2025",
    ),
)


def ceilings_of(device_name: str, *, use_tf32: bool = True) -> Ceilings | None:
    """Return the ceilings of a GPU from its datasheet, None where the table does not have it.

    Args:
        device_name: As NVML has it, `NVIDIA A100-SXM4-80GB`, `Tesla T4`; it must match whole, so that no variant gets
            the values of another. Capitals and hyphens do not matter.
        use_tf32: Whether float32 products may use TF32: the option `use_tf32` of the CUDA EP, which is on by default.
            Give False for an EP that does not use it, such as WebGPU.

    >>> ceilings_of("NVIDIA A100-SXM4-80GB").flop_per_s["float"]
    156000000000000.0
    >>> ceilings_of("NVIDIA A100-SXM4-80GB", use_tf32=False).flop_per_s["float"]
    19500000000000.0
    """
    wanted = _plain(device_name)
    for peak in PEAKS:
        if wanted in map(_plain, peak.names):
            uses_tf32 = use_tf32 and peak.tf32_tflop_per_s is not None
            float32 = peak.tf32_tflop_per_s if uses_tf32 else peak.float32_tflop_per_s
            rates = {
                "float": float32,
                "float16": peak.float16_tflop_per_s,
                "bfloat16": peak.float16_tflop_per_s if peak.has_bfloat16 else None,
                "int8": peak.int8_tflop_per_s,
            }
            kind = "dense, float as TF32" if uses_tf32 else "dense"
            return Ceilings(
                device=device_name,
                flop_per_s={name: rate * _TERA for name, rate in rates.items() if rate is not None},
                bytes_per_s=peak.memory_gb_per_s * _GIGA,
                source=f"{peak.source}, {kind}",
            )
    return None


def _plain(name: str) -> str:
    words = name.lower().replace("-", " ").split()
    while words and words[0] in ("nvidia", "tesla"):
        del words[0]
    return " ".join(words)


def measured_ceilings(device: str, measured: Mapping[str, object]) -> Ceilings | None:
    """Return what `measure_ceilings` of `runtime/child/ceilings.py` found as ceilings, None where a rate is missing.

    Such ceilings are what ONNX Runtime itself attains, on large products and large tensors: below the datasheet, and a
    node can be a little above them.

    Args:
        device: Its name.
        measured: `flop_per_s` by element type and `bytes_per_s`, each > 0, `execution_provider`, `product_extent` (of
            the square matrices) and `tensor_bytes`.
    """
    rates, bytes_per_s = measured.get("flop_per_s"), measured.get("bytes_per_s")
    if not isinstance(rates, dict) or not rates or not isinstance(bytes_per_s, float | int):
        return None
    execution_provider = str(measured.get("execution_provider"))
    extent, tensor_bytes = measured.get("product_extent"), measured.get("tensor_bytes")
    mib = tensor_bytes // (1 << 20) if isinstance(tensor_bytes, int) else "?"
    return Ceilings(
        device=device,
        flop_per_s={str(name): float(rate) for name, rate in rates.items()},
        bytes_per_s=float(bytes_per_s),
        source=f"measured here by ONNX Runtime on {execution_provider}: "
        f"MatMul of {extent}x{extent}, Neg over {mib} MiB",
        execution_provider=execution_provider,
    )
