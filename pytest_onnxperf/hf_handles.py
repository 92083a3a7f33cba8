"""The pipeline `hf` of a matrix: a causal language model of transformers on PyTorch, measured as a generator is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import pytest

from .arguments import checked_path, path_text
from .core.errors import OnnxPerfError
from .generator_handles import checked_rounds, plain_tokens
from .runtime.hf_job import TORCH, HfJob
from .workbench import Workbench, failed

if TYPE_CHECKING:
    from pathlib import Path

    from .core.record import Record
    from .generator_handles import Tokens

TORCH_DTYPES: Final = {
    "f16": "float16", "fp16": "float16", "float16": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16",
    "f32": "float32", "fp32": "float32", "float32": "float32",
}  # fmt: skip
"""What people call a dtype -> what PyTorch calls it. Int4 and NF4 are not here: that is a matter of the checkpoint."""


class HfGenerators:
    """The counterpart of the fixture `genai_generator`."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    def __call__(
        self, model: str | Path, *, ep: str | None = None, dtype: str = "", is_static: bool = False
    ) -> HfGenerator:
        """Return a handle; nothing is loaded before it is asked to measure.

        It runs on the device of the EP that ONNX Runtime would take; a test that demands one for which PyTorch has no
        device here is skipped.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        try:
            provider = self._bench.provider(ep)
            if provider.short not in TORCH:
                pytest.skip(f"the pipeline `hf` runs on {' and '.join(TORCH)}, not on the device of {provider.name}")
            job = HfJob(
                model=checked_path(model, "onnx_cell").absolute(),
                model_text=path_text(model),
                provider=TORCH[provider.short],
                dtype=dtype,
                is_static=is_static,
            )
        except OnnxPerfError as error:
            raise failed(str(error)) from None
        return HfGenerator(self._bench, job)


class HfGenerator:
    """One directory with its options."""

    def __init__(self, bench: Workbench, job: HfJob) -> None:
        self._bench, self._job = bench, job

    def measure(
        self,
        *,
        new_tokens: int,
        prompt_tokens: int | None = None,
        tokens: Tokens | None = None,
        batch_size: int = 1,
        rounds: int | None = None,
        label: str = "",
    ) -> Record:
        """Measure generations and keep the record; the arguments are those of a generator."""
        given: dict[str, Any] = {
            "new_tokens": new_tokens,
            "prompt_tokens": prompt_tokens,
            "tokens": plain_tokens(tokens),
            "batch_size": batch_size,
        }
        return self._bench.measure(dataclasses.replace(self._job, prompt=given, rounds=checked_rounds(rounds)), label)
