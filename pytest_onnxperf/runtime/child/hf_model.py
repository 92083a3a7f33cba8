"""Loads a causal language model of Hugging Face transformers on PyTorch, from a local directory and no other place."""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .generator_config import fail, message_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG_NAME = "config.json"
_NEEDED = ("torch", "transformers")
_EXTRA = "pip install 'pytest-onnxperf[hf]'"
_OFFLINE = "HF_HUB_OFFLINE"


def hf_versions() -> dict[str, str]:
    """Return the versions of PyTorch and transformers, without loading them.

    Raises:
        StepError: One of them is not there (`runtime`).
    """
    versions = {}
    for name in _NEEDED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError as error:
            fail("runtime", f"the pipeline `hf` needs {' and '.join(_NEEDED)}, and {name} is missing: {_EXTRA}", error)
    return versions


class LoadedHf:
    """A model, and what its loading took. Errors of PyTorch are of kind `runtime`: they are none of ONNX Runtime."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Load the model of `job` (see `HfSteps.open`).

        Raises:
            StepError: The device is not there (`ep`), or the model cannot be loaded (`runtime`).
        """
        self.directory: str = os.path.abspath(job["model"])
        own = read_config(self.directory)
        self.torch, transformers = _imported()
        if job["device"] == "cuda" and not self.torch.cuda.is_available():
            fail("ep", f"PyTorch {self.torch.__version__} has no CUDA device here")
        self._is_behind = job["device"] == "cuda"
        self.torch.set_num_threads(job["threads"])
        try:
            with self.torch.device("meta"):  # imports the code of this kind of model, which is no part of loading one
                config = transformers.AutoConfig.from_pretrained(self.directory, local_files_only=True)
                transformers.AutoModelForCausalLM.from_config(config)
            begin_ns = time.perf_counter_ns()
            model = transformers.AutoModelForCausalLM.from_pretrained(
                self.directory, dtype=_dtype(self.torch, job["dtype"]), local_files_only=True
            )
            # One that is quantised is placed by its loader, and refuses to be moved.
            self.model = model if getattr(model, "is_quantized", False) else model.to(job["device"])
        except Exception as error:
            fail("runtime", f"transformers cannot load the model: {message_of(error)}", error)
        self.synchronize()
        self.load_ns = time.perf_counter_ns() - begin_ns
        text = self.model.config.get_text_config()
        self.vocab_size = int(text.vocab_size)
        self.context_length = int(getattr(text, "max_position_embeddings", 0) or 0)
        self.config = {"model": {**own, "vocab_size": self.vocab_size}}
        """As `generator_prompt` reads it."""

    @property
    def device(self) -> Any:
        """The `torch.device` of the model."""
        return self.model.device

    @property
    def device_id(self) -> int:
        """The number of the device, 0 for the CPU."""
        return int(self.device.index or 0)

    def synchronize(self) -> None:
        """Wait for the device; a CPU is never behind."""
        if self._is_behind:
            self.torch.cuda.synchronize()

    def new_cache(self, length: int, *, is_static: bool) -> Any:
        """Return a KV cache that has `length` positions from the start, or grows with each token."""
        from transformers import DynamicCache, StaticCache

        if is_static:
            return StaticCache(config=self.model.config, max_cache_len=length)
        return DynamicCache(config=self.model.config)


def read_config(directory: str) -> dict[str, Any]:
    """Read config.json of a directory.

    Raises:
        StepError: It is not there or cannot be read (`runtime`).
    """
    path = os.path.join(directory, CONFIG_NAME)
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        fail("runtime", f"{path} cannot be read: {message_of(error)}: a directory of transformers is wanted", error)
    if not isinstance(config, dict):
        fail("runtime", f"{path} is no object: a directory of transformers is wanted")
    return config


def _imported() -> tuple[Any, Any]:
    try:
        with _offline():
            import torch
            import transformers
    except ImportError as error:
        fail("runtime", f"{' and '.join(_NEEDED)} cannot be imported: {message_of(error)}", error)
    return torch, transformers


@contextmanager
def _offline() -> Iterator[None]:
    """Import what reads the variable once as one that may not use the network, and leave the environment as it was."""
    before = os.environ.get(_OFFLINE)
    os.environ[_OFFLINE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OFFLINE]
        else:
            os.environ[_OFFLINE] = before


def _dtype(torch: Any, name: str) -> Any:
    """Return the `torch.dtype` of a name; for none what the model's own configuration says."""
    if not name:
        return "auto"
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        fail("option", f"`dtype`: expected a floating-point torch.dtype such as `float16`, got {name!r}")
    return dtype
