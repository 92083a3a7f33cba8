"""The steps of a measurement on a model of Hugging Face transformers on PyTorch: the reference of a matrix.

They are those of a GenAI model, with the same answers, so that both are measured by the same definitions; what differs
is how a model is loaded and how a token is made.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from . import generator_prompt
from .generator import GeneratorSteps
from .generator_config import fail
from .hf_model import LoadedHf, hf_versions
from .hf_rounds import HfGeneration
from .machine import cores

if TYPE_CHECKING:
    from collections.abc import Sequence


class HfSteps(GeneratorSteps):
    """One model and what is generated with it; `warm_up`, `round`, `block` and `paired` are those of a generator."""

    def __init__(self) -> None:
        super().__init__()
        self._hf: LoadedHf | None = None
        self._is_static = False

    @property
    def _opened(self) -> Any:
        if self._hf is None:
            fail("input", "no model is open")
        return self._hf

    def hello(self) -> dict[str, Any]:
        """Say which interpreter and runtime these are: `versions`, `features`, `cores`.

        Raises:
            StepError: PyTorch or transformers is not there (`runtime`).
        """
        versions = {**hf_versions(), "numpy": str(np.__version__), "python": platform.python_version()}
        return {"versions": versions, "features": [], "cores": cores()}

    def open(self, job: dict[str, Any]) -> dict[str, Any]:
        """Load the model of a job.

        Args:
            job: `model` (directory), `device` ("cpu" or "cuda"), `dtype` (name of a torch.dtype, "" as the
                configuration says), `cache` ("static" or "dynamic"), `threads`.

        Returns:
            `load_ns`, `context_length`, `vocab_size`, `share_buffer` (whether the cache is static).
        """
        self.close()
        self._hf = opened = LoadedHf(job)
        self._is_static = job["cache"] == "static"
        return {
            "load_ns": opened.load_ns,
            "context_length": opened.context_length,
            "vocab_size": opened.vocab_size,
            "share_buffer": self._is_static,
        }

    def prepare(
        self,
        new_tokens: int,
        prompt_tokens: int | None = None,
        prompt: str | Sequence[str] | None = None,
        tokens: Any = None,
        batch_size: int = 1,
        share_buffer: bool | None = None,
        search_options: dict[str, Any] | None = None,
        images: Sequence[str] = (),
        audios: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Make the prompt and fix what is generated: `prompt_tokens` or `tokens`, as for a generator, and nothing else.

        Raises:
            StepError: Something else is given, or does not fit the model (`input`).
        """
        refused = {"prompt": prompt, "search_options": search_options, "images": images, "audios": audios,
                   "share_buffer": share_buffer}  # fmt: skip
        for name, value in refused.items():
            if value:
                fail("input", f"the pipeline `hf` takes no `{name}`: give `prompt_tokens` or `tokens`")
        given = generator_prompt.Given(prompt_tokens, None, tokens, batch_size)
        made = generator_prompt.make(self._opened, lambda: None, given)
        self._paired.close()
        self._generation: Any = HfGeneration(self._opened, made, new_tokens, is_static=self._is_static)
        return {
            "prompt_tokens": made.prompt_tokens,
            "batch_size": made.batch_size,
            "new_tokens": new_tokens,
            "max_length": self._generation.max_length,
            "share_buffer": self._is_static,
        }

    def close(self) -> dict[str, Any]:
        """Drop everything."""
        self._hf = None
        return super().close()
