"""What the fixtures hand to a test: a factory of sessions, and the handle that measures and runs one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .arguments import checked_attention, checked_mapping, checked_path, checked_sizes, checked_variables, path_text
from .core.errors import OnnxPerfError, SettingError
from .runtime.arrays import as_arrays
from .runtime.child import inputs, running
from .runtime.child.element_types import InputError
from .runtime.child.machine import cores
from .runtime.child.session import StepError, create_session
from .runtime.session_job import SessionJob
from .workbench import Workbench, failed

if TYPE_CHECKING:
    from .core.record import Record

Shape = int | Sequence[int]


class OnnxSessions:
    """The factory behind the fixture `onnx_session`."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    def __call__(
        self,
        model: str | Path,
        *,
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        attention_backend: str | None = None,
        environment: Mapping[str, str] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimensions: Mapping[str, int] | None = None,
        bind: bool = False,
        custom_op_libraries: Sequence[str | Path] = (),
        label: str = "",
    ) -> OnnxSession:
        """Return a handle; nothing is started before it is asked to measure or run.

        A test that demands an EP which does not run here is skipped with the reason, unless the options name that EP:
        then it fails. `attention_backend` allows CUDA one attention kernel alone, `flash` say, and unfused attention,
        which stays on. `environment` sets variables of the measuring processes; the live session has those of the test.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        try:
            provider = self._bench.provider(ep)
            options, variables = checked_attention("onnx_session", provider, provider_options, attention_backend)
            job = SessionJob(
                model=checked_path(model, "onnx_session").absolute(),
                model_text=path_text(model),
                provider=provider,
                provider_options=options,
                variables=variables | checked_variables(environment, "onnx_session"),
                session_options=checked_mapping("session_options", session_options, "onnx_session"),
                free_dimensions=checked_sizes(free_dimensions, "onnx_session"),
                custom_op_libraries=tuple(str(Path(path).absolute()) for path in custom_op_libraries),
                bind=bind,
            )
        except OnnxPerfError as error:
            raise failed(str(error)) from None
        return OnnxSession(self._bench, job, label)


@dataclasses.dataclass(frozen=True, slots=True)
class LiveRun:
    """A warm session with its feeds, in the test's own process."""

    run: Callable[[], list[Any]]
    """Runs it once and returns the outputs; one call of the runtime and nothing else."""
    job: SessionJob
    """The same model with the same feeds, for a measuring process."""
    label: str
    threads: int
    """Intra-op threads."""


class OnnxSession:
    """One model with its options: `measure()` it, or `run()` it in the test's own process."""

    def __init__(self, bench: Workbench, job: SessionJob, label: str) -> None:
        self._bench, self._job, self._label = bench, job, label
        self._session: Any = None
        self._warm: dict[tuple[tuple[str, tuple[int, ...]], ...], None] = {}

    def measure(
        self,
        feeds: Mapping[str, object] | None = None,
        *,
        shapes: Mapping[str, Shape] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        label: str = "",
    ) -> Record:
        """Measure the model and keep the record; it is judged when the test ends.

        Args:
            feeds: Input name -> array of the input's type.
            shapes: Instead of feeds: symbolic dimension -> size, or input name -> whole shape. Values are made, seeded
                and the same on every machine.
            ranges: Input name -> (lowest, highest) of made values.
            label: Tells several measurements of one test apart.

        Returns:
            Facts and metrics.
        """
        if feeds is not None and (shapes is not None or ranges is not None):
            msg = "measure() takes feeds, or shapes and ranges, not both"
            raise failed(msg)
        if feeds is not None and not isinstance(feeds, Mapping):
            msg = f"measure(feeds): expected a dict of input name -> array, got {feeds!r:.80}"
            raise failed(msg)
        try:
            job = self._with_inputs(feeds, shapes, ranges)
        except SettingError as error:
            msg = f"{self._job.model_text} could not be measured: {error}"
            raise failed(msg) from None
        return self._bench.measure(job, label or self._label)

    def _with_inputs(
        self, feeds: Mapping[str, object] | None, shapes: Mapping[str, Shape] | None, ranges: Mapping[str, Any] | None
    ) -> SessionJob:
        if feeds is not None:
            return dataclasses.replace(self._job, feeds=as_arrays(feeds))
        return dataclasses.replace(
            self._job,
            shapes=checked_mapping("shapes", shapes, "measure"),
            ranges=checked_mapping("ranges", ranges, "measure"),
        )

    @property
    def inference_session(self) -> Any:
        """The live `onnxruntime.InferenceSession` in the test's process, made when first asked for."""
        if self._session is None:
            try:
                self._session, _ = create_session(self._job.open_arguments(self._threads, ""))
            except StepError as error:
                msg = f"{self._job.model_text}: {error}"
                raise failed(msg) from None
        return self._session

    @property
    def _threads(self) -> int:
        return self._job.threads(self._bench.settings.threads or cores())

    def run(self, feeds: Mapping[str, object]) -> list[Any]:
        """Run the live session and return its outputs; the first call with new input shapes warms it up.

        Args:
            feeds: Input name -> array of the input's type.

        Returns:
            One numpy array per output of the model.
        """
        return self.live(feeds).run()

    def live(self, feeds: Mapping[str, object]) -> LiveRun:
        """Check the feeds and return what runs them, warmed up where their shapes are new."""
        session = self.inference_session
        try:
            arrays = as_arrays(checked_mapping("feeds", feeds, "run"))
            checked = inputs.check_feeds(session, arrays)
        except (InputError, SettingError) as error:
            msg = f"{self._job.model_text}: {error}"
            raise failed(msg) from None
        run: Callable[[], list[Any]] = running.runner(session, checked)
        shape = tuple(sorted((name, tuple(np.shape(cast("Any", array)))) for name, array in feeds.items()))
        if shape not in self._warm:
            self._warm[shape] = None
            for _ in range(self._bench.settings.warmup_rounds):
                run()
        # What is run here is not bound to the device, so neither is what is profiled of it.
        return LiveRun(run, dataclasses.replace(self._job, feeds=arrays, bind=False), self._label, self._threads)
