"""How the attention kernel of a CUDA session is chosen: the provider option `sdpa_kernel` and environment variables."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from .attention_names import UNFUSED
from .errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .providers import Provider

OPTION: Final = "sdpa_kernel"

# Bits of `sdpa_kernel`; a positive value allows those kernels alone, and unfused attention, which stays on.
# (Source: contrib_ops/cpu/bert/attention_common.h, AttentionBackend; in the released libraries from 1.19.)
_BITS: Final = {
    "flash": 1,
    "efficient": 2,
    "trt_fused": 4 + 32 + 64,
    "cudnn_flash": 8,
    UNFUSED: 16,
    "lean": 256,
    "decoder": 512,
}
# XQA is no bit of it. (Source: docs/contrib_ops/cuda/gqa.md.)
_VARIABLES: Final = {"xqa": {"ORT_ENABLE_XQA": "1"}}

SWITCHES: Final = (
    "ORT_DISABLE_FLASH_ATTENTION",
    "ORT_DISABLE_FLASH_DECODE",
    "ORT_DISABLE_MEMORY_EFFICIENT_ATTENTION",
    "ORT_DISABLE_FUSED_ATTENTION",
    "ORT_DISABLE_FUSED_CROSS_ATTENTION",
    "ORT_DISABLE_TRT_FLASH_ATTENTION",
    "ORT_DISABLE_DECODER_ATTENTION",
    "ORT_ENABLE_FUSED_CAUSAL_ATTENTION",
    "ORT_ENABLE_CUDNN_FLASH_ATTENTION",
    "ORT_ENABLE_LEAN_ATTENTION",
    "ORT_ENABLE_XQA",
    "ORT_MIN_SEQ_LEN_FLASH_ATTENTION_PACKED_QKV",
    "ORT_MIN_SEQ_LEN_EFFICIENT_ATTENTION_FP32",
)
"""Variables that change which kernel runs. Source: attention_common.h and the strings in the released libraries."""


def backend_settings(backend: object, provider: Provider) -> tuple[dict[str, str], dict[str, str]]:
    """Return the provider options and the environment variables that make a session use one attention kernel.

    Raises:
        SettingError: No such kernel can be chosen, or the execution provider has no choice.
    """
    known = [*_BITS, *_VARIABLES]
    if backend not in known:
        close = difflib.get_close_matches(str(backend), known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
        msg = f"attention_backend: unknown kernel {backend!r}, {hint}"
        raise SettingError(msg)
    if provider.short != "cuda":
        msg = (
            f"attention_backend: {provider.name} lets nobody choose its attention kernel, CUDAExecutionProvider alone "
            "does: leave it out, or demand ep='cuda'"
        )
        raise SettingError(msg)
    name = str(backend)
    return ({OPTION: str(_BITS[name])} if name in _BITS else {}), dict(_VARIABLES.get(name, {}))


def switches_of(provider_options: Mapping[str, object], variables: Mapping[str, str]) -> dict[str, str]:
    """Return what was set that changes which kernel runs, to be recorded: `sdpa_kernel` and the variables.

    Args:
        provider_options: Of the execution provider.
        variables: All environment variables of the measuring process.
    """
    options = {OPTION: str(provider_options[OPTION])} if OPTION in provider_options else {}
    return options | {name: variables[name] for name in SWITCHES if name in variables}
