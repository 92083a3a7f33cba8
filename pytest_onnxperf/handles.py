"""What the fixtures hand to a test: a factory of sessions, and the handle that measures and runs one."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from .core.errors import BaselineError, OnnxPerfError, ProviderError, SettingError
from .core.judge import is_suspicious
from .core.providers import Provider, provider_of
from .core.record import Record, TestKey
from .runtime.arrays import as_arrays
from .runtime.child import inputs, running
from .runtime.child.element_types import InputError
from .runtime.child.machine import cores
from .runtime.child.session import StepError, create_session
from .runtime.measure import Measurement, Plan
from .runtime.session_job import SessionJob

if TYPE_CHECKING:
    from .session import ActiveSession
    from .settings import Settings

Shape = int | Sequence[int]


class OnnxSessions:
    """The factory behind the fixture `onnx_session`."""

    def __init__(self, active: ActiveSession, item: pytest.Item, new_directory: Callable[[], Path]) -> None:
        self._active, self._item, self._new_directory = active, item, new_directory

    def __call__(
        self,
        model: str | Path,
        *,
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimensions: Mapping[str, int] | None = None,
        bind: bool = False,
        custom_op_libraries: Sequence[str | Path] = (),
        label: str = "",
    ) -> OnnxSession:
        """Return a handle; nothing is started before it is asked to measure or run.

        A test that demands an EP which does not run here is skipped with the reason, unless the options name that EP:
        then it fails.
        """
        settings = self._active.settings_of(self._item)
        demanded = ep if ep is not None else settings.ep if settings.ep_source == "marker" else None
        try:
            provider = self._active.provider(settings) if demanded is None else self._demanded(demanded)
            job = SessionJob(
                model=Path(model).absolute(),
                model_text=Path(model).name if Path(model).is_absolute() else str(model),
                provider=provider,
                provider_options=dict(_mapping("provider_options", provider_options)),
                session_options=dict(_mapping("session_options", session_options)),
                free_dimensions=_sizes(free_dimensions),
                custom_op_libraries=tuple(str(Path(path).absolute()) for path in custom_op_libraries),
                bind=bind,
            )
        except OnnxPerfError as error:
            raise failed(str(error)) from None
        return OnnxSession(self._active, self._item, self._new_directory, settings, job, label)

    def _demanded(self, name: str) -> Provider:
        provider = provider_of(name)
        reason = self._active.prober.why_not(provider) if provider.short != "cpu" else ""
        if not reason:
            return provider
        session_settings = self._active.settings
        if session_settings.names_ep and provider_of(session_settings.ep) == provider:
            raise ProviderError(self._active.not_running(provider, reason, session_settings.ep_source))
        pytest.skip(f"demands {provider.name}, which does not run here: {reason}")


class OnnxSession:
    """One model with its options: `measure()` it, or `run()` it in the test's own process."""

    def __init__(
        self, active: ActiveSession, item: pytest.Item, new_directory: Callable[[], Path], settings: Settings, job: SessionJob,
        label: str,
    ) -> None:  # fmt: skip
        self._active, self._item, self._new_directory = active, item, new_directory
        self._settings, self._job, self._label = settings, job, label
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
        label = label or self._label
        taken = {outcome.record.key.label for outcome in self._active.outcomes(self._item)}
        if label in taken:
            msg = (
                f"this test has measured {'label ' + repr(label) if label else 'without a label'} already: give each "
                f"measurement its own, measure(..., label=...)"
            )
            raise failed(msg)
        try:
            job = self._with_inputs(feeds, shapes, ranges)
        except SettingError as error:
            msg = f"{self._job.model_text} could not be measured: {error}"
            raise failed(msg) from None
        return self._measure(job, label)

    def _with_inputs(
        self, feeds: Mapping[str, object] | None, shapes: Mapping[str, Shape] | None, ranges: Mapping[str, Any] | None
    ) -> SessionJob:
        if feeds is not None:
            return dataclasses.replace(self._job, feeds=as_arrays(feeds))
        return dataclasses.replace(
            self._job,
            shapes=dict(_mapping("shapes", shapes, "measure")),
            ranges=dict(_mapping("ranges", ranges, "measure")),
        )

    def _measure(self, job: SessionJob, label: str) -> Record:
        active, item = self._active, self._item
        module, _, test = item.nodeid.partition("::")
        key = TestKey(module, test, label)
        directory = self._new_directory()
        measurement = Measurement(job, self._plan(), directory, active.progress.tick)
        try:
            record = measurement.record(key, lambda record: is_suspicious(active.judge(item, record)))
            verdict = active.judge(item, record)
        except BaselineError as error:
            msg = f"the baseline of this test cannot be used.\n{error}"
            raise failed(msg) from None
        except OnnxPerfError as error:
            msg = f"{job.model_text} could not be measured: {error}"
            raise failed(msg) from None
        except BaseException:  # Ctrl-C: nothing is left behind
            shutil.rmtree(directory, ignore_errors=True)
            raise
        finally:
            active.progress.clear()
        active.keep(item, record, verdict, directory)
        return record

    def _plan(self) -> Plan:
        s = self._settings
        return Plan(
            warmup_rounds=s.warmup_rounds,
            min_rounds=s.min_rounds,
            max_time_s=s.max_time,
            profile_runs=s.profile_runs,
            timeout_s=s.timeout,
            isolation=s.isolation,
            threads=s.threads,
            processes=s.baseline_processes if s.update else 1,
            timing=s.timing == "on",
            device=s.device,
        )

    @property
    def inference_session(self) -> Any:
        """The live `onnxruntime.InferenceSession` in the test's process, made when first asked for."""
        if self._session is None:
            threads = 0 if "intra_op_num_threads" in self._job.session_options else self._settings.threads or cores()
            try:
                self._session, _ = create_session(self._job.open_arguments(threads, ""))
            except StepError as error:
                msg = f"{self._job.model_text}: {error}"
                raise failed(msg) from None
        return self._session

    def run(self, feeds: Mapping[str, object]) -> list[Any]:
        """Run the live session and return its outputs; the first call with new input shapes warms it up.

        Args:
            feeds: Input name -> array of the input's type.

        Returns:
            One numpy array per output of the model.
        """
        session = self.inference_session
        try:
            checked = inputs.check_feeds(session, as_arrays(feeds))
        except (InputError, SettingError) as error:
            msg = f"{self._job.model_text}: {error}"
            raise failed(msg) from None
        run: Callable[[], list[Any]] = running.runner(session, checked)
        shape = tuple(sorted((name, tuple(np.shape(cast("Any", array)))) for name, array in feeds.items()))
        if shape not in self._warm:
            self._warm[shape] = None
            for _ in range(self._settings.warmup_rounds):
                run()
        return run()


def failed(message: str) -> BaseException:
    """Return the exception that fails a test with a message and no traceback of ours."""
    return pytest.fail.Exception(message, pytrace=False)


def _sizes(given: Mapping[str, int] | None) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, size in _mapping("free_dimensions", given).items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            msg = f"onnx_session(free_dimensions=...): `{name}`: expected a whole number >= 0, got {size!r}"
            raise SettingError(msg)
        sizes[name] = size
    return sizes


def _mapping(name: str, value: Mapping[str, Any] | None, function: str = "onnx_session") -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        msg = f"{function}({name}=...): expected a dict, got {type(value).__name__}: {value!r:.80}"
        raise SettingError(msg)
    return value or {}
