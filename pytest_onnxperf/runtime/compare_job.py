"""An A/B of two models: processes in which both are timed in turn, a profile of each, the reference against itself.

Which arm is loaded first alternates from process to process: the second was 0.6 to 1.1 % faster (measured, A/A).
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_onnxperf.core.ab import ARMS, CANDIDATE, REFERENCE, AaSensor, sensor_of
from pytest_onnxperf.core.device_state import disturbance_of
from pytest_onnxperf.core.sample import Sample

from .child.element_types import element_type_of
from .inline import InlineWorker
from .lock import claimed, device_name
from .measure import CONFIRMATIONS, Measurement
from .pair_process import named, timed_process
from .process import ProcessWorker
from .state_meter import StateMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_onnxperf.core.record import Record, TestKey

    from .pair_process import PairProcess, Tolerances
    from .plan import Plan, Worker
    from .session_job import SessionJob

_SHARED_MEMORY: Final = "both arms share a process, so that the peak memory of one cannot be told"
_NOT_TIMED: Final = ("peak_rss", "peak_vram")


class AbMeasurement:
    """Measures two jobs against each other. Files of its processes lie in `directory`, the caller removes it."""

    def __init__(
        self,
        reference: SessionJob,
        candidate: SessionJob,
        plan: Plan,
        directory: Path,
        progress: Callable[[str], None],
    ) -> None:
        """Take the jobs; the reference has the feeds, or the shapes to make them of."""
        self._jobs = {REFERENCE: reference, CANDIDATE: candidate}
        self._plan, self.directory, self._progress = plan, directory, progress
        self._started = 0
        self._reference_first = bool(os.urandom(1)[0] & 1)
        self._state = StateMeter(reference.provider.short, reference.provider_options)
        self.processes: list[PairProcess] = []

    @property
    def device(self) -> str:
        """The device of the reference, as its lock names it."""
        return _device(self._jobs[REFERENCE])

    def check(self) -> None:
        """Refuse a model that is not there, before anything is measured.

        Raises:
            ModelError: A file is missing.
        """
        for arm, job in self._jobs.items():
            with named(arm, job):
                job.size_bytes()

    def compare(self, tolerances: Tolerances | None) -> PairProcess:
        """Time both arms in one process, and compare their outputs first where tolerances are given.

        Raises:
            OnnxPerfError: It says which arm failed, where that can be told.
        """
        with self._claimed(), self._state.machine.running():
            if not self.processes:
                self._state.begin()
            found = self._process(self._jobs, tolerances)
        self.processes.append(found)
        return found

    def sense(self) -> AaSensor:
        """Time the reference against itself, in a process of its own; in two more where that one is off."""
        twice = dict.fromkeys(ARMS, self._jobs[REFERENCE])
        with self._claimed():
            found = [self._process(twice, None).pairs]
            if sensor_of(found).is_noisy:
                found += [self._process(twice, None).pairs for _ in range(CONFIRMATIONS)]
        return sensor_of(found)

    def records(self, key: TestKey) -> tuple[Record, Record]:
        """Profile each arm in a process of its own, and return what is known of it: facts, and its times in turn."""
        first = self.processes[0] if self.processes else None
        records = []
        for arm, given in self._jobs.items():
            job = _with_types(given, first.inputs[arm]) if first else given
            plan = replace(self._plan, timing=False, references=None)
            with named(arm, job):
                measurement = Measurement(job, plan, self.directory / arm, self._progress)
                record = measurement.record(key, lambda _: False)
            records.append(self.with_times(arm, record))
        return records[0], records[1]

    def with_times(self, arm: str, record: Record) -> Record:
        """Return the record of an arm with its times in all processes so far."""
        side = ARMS.index(arm)
        samples = [Sample.of([pair[side] for pair in one.pairs]).metrics() for one in self.processes]
        metrics = {name: tuple(sample[name] for sample in samples) for name in (samples[0] if samples else ())}
        if self.processes:
            metrics["cold_start"] = tuple(float(one.cold_start_ns[arm]) for one in self.processes)
            metrics["load"] = tuple(float(one.load_ns[arm]) for one in self.processes)
        loads = [one.other_load for one in self.processes if one.other_load is not None]
        load = median(loads) if loads else 0.0
        gpu, machine = (self._state.gpu(), self._state.machine.state()) if self.processes else (None, None)
        missing = {name: why for name, why in record.not_measured.items() if name not in metrics}
        return replace(
            record,
            metrics={**metrics, **record.metrics},
            not_measured=missing | dict.fromkeys(_NOT_TIMED, _SHARED_MEMORY),
            rounds=sum(len(one.pairs) for one in self.processes),
            threads=self.processes[0].threads if self.processes else 0,
            disturbance=disturbance_of(load, gpu, machine, "both arms were timed"),
            other_load_ratio=load,
            gpu=gpu,
            machine=machine,
        )

    def differing_settings(self) -> dict[str, dict[str, str]]:
        """Return for each arm the options that are not the same in the other, as texts."""
        texts = {arm: _settings(job) for arm, job in self._jobs.items()}
        other = {REFERENCE: texts[CANDIDATE], CANDIDATE: texts[REFERENCE]}
        return {
            arm: {name: text for name, text in own.items() if other[arm].get(name) != text}
            for arm, own in texts.items()
        }  # fmt: skip

    # -- one process -----------------------------------------------------------------------------------------------

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for device in sorted({_device(job) for job in self._jobs.values()}):
                stack.enter_context(claimed(device, partial(self._progress, f"waiting for the device `{device}`")))
            yield

    def _worker(self) -> AbstractContextManager[Worker]:
        if self._plan.isolation == "none":
            return InlineWorker("pair")
        self._started += 1
        directory = self.directory / f"{self._started}-pairs"
        directory.mkdir(parents=True)
        return ProcessWorker(
            directory,
            kind="pair",
            timeout_s=self._plan.timeout_s,
            alive=lambda: self._progress("timing two arms in turn"),
            after_step=self._state.sample,
        )

    def _process(self, jobs: Mapping[str, SessionJob], tolerances: Tolerances | None) -> PairProcess:
        order = ARMS if self._reference_first else ARMS[::-1]
        self._reference_first = not self._reference_first
        with self._worker() as worker:
            return timed_process(worker, jobs, order, self._plan, tolerances)


def _settings(job: SessionJob) -> dict[str, str]:
    given = {**job.provider_options, **job.session_options, **job.free_dimensions}
    libraries = {"custom ops": ", ".join(job.custom_op_libraries)} if job.custom_op_libraries else {}
    return {name: str(value) for name, value in given.items()} | libraries


def _device(job: SessionJob) -> str:
    return device_name(job.provider.short, job.provider_options, os.environ)


def _with_types(job: SessionJob, types: Mapping[str, str]) -> SessionJob:
    """Cast the floating feeds of a job to the types of its own inputs, as the steps of a pair do."""
    if job.feeds is None:
        return job
    feeds = dict(job.feeds)
    for name, feed in feeds.items():
        element = element_type_of(types.get(name, ""))
        is_float = isinstance(feed, np.ndarray) and feed.dtype.kind == "f"
        if is_float and element is not None and element.is_native and element.dtype.kind == "f":
            feeds[name] = np.asarray(feed, element.dtype)
    return replace(job, feeds=feeds)


def loaded_first(processes: Sequence[PairProcess]) -> tuple[str, ...]:
    """Return which arm was loaded first, by process."""
    return tuple(one.loaded_first for one in processes)
