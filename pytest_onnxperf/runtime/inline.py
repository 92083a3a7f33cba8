"""The steps of a measurement in this process, for debuggers; and what an answer means, wherever it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pytest_onnxperf.core.errors import InputsError, MeasurementError, ModelError, ProviderError

from .child.main import answer, steps_of
from .child.protocol import pack_feeds
from .stages import Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Kind = Literal["session", "generator", "hf", "pair", "generator_pair"]
"""What is measured; its steps are those of a module of `runtime.child`, see `runtime.child.main.steps_of`."""


class InlineWorker:
    """Does the steps in this process, with this process's noise, log and memory."""

    def __init__(self, kind: Kind = "session", stages: Stages | None = None) -> None:
        self._steps = steps_of(kind)
        self.stages = stages or Stages()

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Do one step and return its result."""
        self.stages.step(command)
        feeds = arguments.get("feeds")
        specs, blobs = pack_feeds(feeds) if feeds is not None else ([], [])
        message = answer(self._steps, command, {**arguments, "feeds": specs} if feeds else arguments, blobs)
        return result_of(message, lambda: "")

    def close(self) -> dict[str, Any]:
        """Drop the session."""
        return self.call("close")

    def log(self) -> str:
        """Return nothing: what the runtime prints goes where this process prints."""
        return ""

    def log_lines(self) -> Iterator[str]:
        """Yield nothing, as `log`."""
        return iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._steps.close()


def result_of(message: dict[str, Any], ending: Callable[[], str]) -> dict[str, Any]:
    """Return the result in an answer.

    Args:
        message: From `child.main.answer`.
        ending: Gives what the process printed last, to stand behind an error.

    Raises:
        ProviderError: The EP does not run.
        InputsError: What the test gives does not fit the inputs of the model.
        ModelError: The runtime refuses the model.
        MeasurementError: Anything else went wrong.
    """
    error = message.get("error")
    if error is None:
        return dict(message["result"])
    text = error["message"]
    if error["kind"] == "ep":
        raise ProviderError(text)
    if error["kind"] == "input":
        raise InputsError(text)
    if error["kind"] == "model":
        msg = f"ONNX Runtime cannot load the model: {text}"
        raise ModelError(msg)
    if error["kind"] == "python":
        msg = f"a step failed with a Python error: {text}\n{error['traceback']}{ending()}"
        raise MeasurementError(msg)
    if error["kind"] in ("run", "memory"):
        what = "ran out of memory" if error["kind"] == "memory" else "failed in a run"
        msg = f"ONNX Runtime {what}: {text}{ending()}"
        raise MeasurementError(msg)
    raise MeasurementError(text)
