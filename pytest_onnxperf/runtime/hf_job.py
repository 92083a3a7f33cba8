"""A model directory measured through Hugging Face transformers on PyTorch: the reference pipeline of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytest_onnxperf.core.errors import ModelError
from pytest_onnxperf.core.providers import Provider

from .child import hf_model
from .child.session import StepError
from .generator_job import GeneratorJob
from .inline import Kind
from .plan import Plan, Profiled, Worker

if TYPE_CHECKING:
    from pathlib import Path

TORCH: Final = {
    "cpu": Provider("PyTorch-CPU", "cpu", in_auto=False),
    "cuda": Provider("PyTorch-CUDA", "cuda", asynchronous=True, in_auto=False),
}
"""Short name of an EP -> what stands in its place in a record: the same device, and not ONNX Runtime that ran it."""
_NO_FACTS: Final = "PyTorch ran it: there is no ONNX Runtime profile"
_WEIGHTS: Final = ("*.safetensors", "*.bin")
"""Of these a directory may have both, and the first is loaded."""


@dataclass(frozen=True, slots=True)
class HfJob(GeneratorJob):
    """What to measure of which directory of transformers; the prompt and the rounds are those of a generator."""

    kind: ClassVar[Kind] = "hf"

    dtype: str = ""
    """Name of a torch.dtype; empty leaves it to the model's own configuration."""
    is_static: bool = False
    """Whether the KV cache has its full length from the start."""

    def sessions(self) -> dict[str, dict[str, Any]]:
        """Return none: there is no session of ONNX Runtime."""
        return {}

    def size_bytes(self) -> int:
        """Return the size of the weights.

        Raises:
            ModelError: There is no such directory, or no config.json or no weights in it.
        """
        read_config(self.model)
        for pattern in _WEIGHTS:
            size = sum(file.stat().st_size for file in self.model.glob(pattern))
            if size:
                return size
        msg = f"{self.model} has no weights ({', '.join(_WEIGHTS)}): a directory of transformers is wanted"
        raise ModelError(msg)

    def profile(self, worker: Worker, plan: Plan, prefix: str) -> Profiled:
        """Return no facts: they are read from what ONNX Runtime writes."""
        del plan, prefix
        versions = worker.call("hello")["versions"]
        worker.close()
        options = {
            "cache": "static" if self.is_static else "dynamic",
            "dtype": self.dtype or configured_dtype(self.model),
        }
        return Profiled(None, versions, options=options, why_not=_NO_FACTS, is_possible=False)

    def open_arguments(self, threads: int, profile_prefix: str) -> dict[str, Any]:
        """Return the argument of the step `open`."""
        del profile_prefix
        return {
            "model": str(self.model),
            "device": self.provider.short,
            "dtype": self.dtype,
            "cache": "static" if self.is_static else "dynamic",
            "threads": threads,
        }


def read_config(directory: Path) -> dict[str, Any]:
    """Read config.json of a directory.

    Raises:
        ModelError: It is not there or cannot be read.
    """
    try:
        return hf_model.read_config(str(directory))
    except StepError as error:
        raise ModelError(str(error)) from error


def configured_dtype(directory: Path) -> str:
    """Return the dtype that the model's own configuration names; PyTorch's default where it names none."""
    config = read_config(directory)
    return str(config.get("dtype") or config.get("torch_dtype") or "float32")
