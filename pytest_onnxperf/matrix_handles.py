"""What `onnx_cell` hands to a test: one cell of a matrix, which it measures through the pipeline of the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import checked_mapping
from .core.errors import SettingError
from .generator_handles import GenaiGenerators
from .handles import OnnxSessions
from .hf_handles import TORCH_DTYPES, HfGenerators
from .workbench import Workbench, failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core.matrix_axes import Cell
    from .core.record import Record

_OF_GENERATION = ("prompt_tokens", "batch_size", "new_tokens")


class OnnxCell:
    """One cell of a matrix."""

    def __init__(self, bench: Workbench, cell: Cell) -> None:
        self._bench, self._cell = bench, cell

    def __getitem__(self, name: str) -> Any:
        """Return the value of a dimension, or what the marker says for all cells."""
        if name not in self._cell.values:
            msg = f"onnx_cell[{name!r}]: the matrix of this test has {', '.join(self._cell.values)}"
            raise failed(msg)
        return self._cell.values[name]

    @property
    def id(self) -> str:
        """The id of the cell, `f16-cuda-p500-b1`."""
        return self._cell.id

    @property
    def pipeline(self) -> str:
        """`session`, `genai` or `hf`; where the marker names none, `session` for a path that ends in .onnx."""
        return self._cell.pipeline

    @property
    def path(self) -> str:
        """The path of its model, names in braces filled in."""
        try:
            return self._cell.path()
        except SettingError as error:
            raise failed(str(error)) from None

    def measure(self, *, options: Mapping[str, object] | None = None, label: str = "", **given: Any) -> Record:
        """Measure the cell and keep the record; it is judged when the test ends.

        Args:
            options: Keywords for opening the model: what `onnx_session` or `genai_generator` takes beside the path; of
                `hf` `dtype`, the name of a torch.dtype.
            label: Tells several measurements of one test apart.
            **given: Keywords of the pipeline's own `measure`, over those of the cell. `new_tokens` is 64 unless it is
                given here or in the marker.

        Returns:
            Facts and metrics.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        try:
            opening = checked_mapping("options", options, "measure")
        except SettingError as error:
            raise failed(str(error)) from None
        opening = {"ep": self._cell.values.get("ep"), **opening}
        if self.pipeline == "session":
            return OnnxSessions(self._bench)(self.path, **opening).measure(**given, label=label)
        values = self._cell.values
        of_cell = {name: values[name] for name in _OF_GENERATION if name in values}
        generation = {"new_tokens": 64, **of_cell, **given}
        if "prompt" in given or "tokens" in given:
            generation.pop("prompt_tokens", None)
        if self.pipeline == "hf":
            opening = {"is_static": bool(self._is_static), "dtype": self._torch_dtype, **opening}
            return HfGenerators(self._bench)(self.path, **opening).measure(**generation, label=label)
        generation = {"share_buffer": self._is_static, **generation}
        return GenaiGenerators(self._bench)(self.path, **opening).measure(**generation, label=label)

    @property
    def _torch_dtype(self) -> str:
        """The dtype of the cell where PyTorch has one of that name; others are a matter of the checkpoint."""
        return TORCH_DTYPES.get(str(self._cell.values.get("dtype", "")).lower(), "")

    @property
    def _is_static(self) -> bool | None:
        """Whether the cache has its full length from the start; None where the matrix does not say."""
        if "cache" in self._cell.values:
            return bool(self._cell.values["cache"] == "static")
        given: bool | None = self._cell.values.get("share_buffer")
        return given
