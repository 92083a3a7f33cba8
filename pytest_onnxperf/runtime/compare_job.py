"""An A/B of two sessions or generators: processes in which both are timed in turn, a profile of each, and A/A.

Which arm is loaded first alternates from process to process: the second was 0.6 to 1.1 % faster (measured, A/A).
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_onnxperf.core.ab import ARMS, CANDIDATE, REFERENCE, AaSensor, Pairs, sensor_of
from pytest_onnxperf.core.device_state import disturbance_of
from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.core.stages import Stage

from .child.element_types import element_type_of
from .generator_job import GeneratorJob
from .lock import device_name
from .measure import CONFIRMATIONS, Measurement, inline_worker
from .pair_process import metrics_of, named, timed_process
from .process import ProcessWorker
from .session_job import SessionJob
from .stages import Stages
from .state_meter import StateMeter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_onnxperf.core.record import Record, TestKey
    from pytest_onnxperf.core.stages import Tell

    from .inline import Kind
    from .pair_process import Job, PairProcess, Tolerances
    from .plan import Plan, Worker

_SHARED_MEMORY: Final = "both arms share a process, so that the peak memory of one cannot be told"
_NOT_TIMED: Final = ("peak_rss", "peak_vram")


class AbMeasurement:
    """Measures two jobs against each other. Files of its processes lie in `directory`, the caller removes it."""

    def __init__(
        self,
        reference: Job,
        candidate: Job,
        plan: Plan,
        directory: Path,
        progress: Tell,
    ) -> None:
        """Take the jobs, both of one kind; of sessions the reference has the feeds, or the shapes to make them of."""
        self._jobs: dict[str, Job] = {REFERENCE: reference, CANDIDATE: candidate}
        self._plan, self.directory = plan, directory
        self._stages = Stages(progress)
        self._started = 0
        self._reference_first = bool(os.urandom(1)[0] & 1)
        self._state = StateMeter(reference.provider.short, reference.provider_options)
        self.processes: list[PairProcess] = []

    @property
    def device(self) -> str:
        """The device of the reference, as its lock names it."""
        return _device(self._jobs[REFERENCE])

    @property
    def metrics(self) -> tuple[str, ...]:
        """What both arms are timed for, that of a whole round first."""
        return metrics_of(self._jobs[REFERENCE])

    @property
    def pair_count(self) -> int:
        """Pairs of all processes so far."""
        return sum(len(next(iter(one.pairs.values()))) for one in self.processes)

    def check(self) -> None:
        """Refuse what cannot be compared, before anything is measured.

        Raises:
            ModelError: A file is missing.
            SettingError: The arms need other environment variables.
        """
        names = [", ".join(job.variables) or "none" for job in self._jobs.values()]
        if any(job.variables != self._variables for job in self._jobs.values()):
            msg = (
                f"its arms share a process and cannot have other environment variables ({names[0]} in the reference, "
                f"{names[1]} in the candidate): choose what is set by options, or compare two runs"
            )
            raise SettingError(msg)
        for arm, job in self._jobs.items():
            with named(arm, job):
                job.size_bytes()

    def compare(self, tolerances: Tolerances | None) -> PairProcess:
        """Time both arms in one process, and compare their outputs first where tolerances are given.

        Raises:
            OnnxPerfError: It says which arm failed, where that can be told.
        """
        confirming = self._stages.whole(Stage.CONFIRM) if self.processes else nullcontext()
        with self._claimed(), self._state.machine.running(), confirming:
            if not self.processes:
                self._state.begin()
            found = self._process(self._jobs, tolerances)
        self.processes.append(found)
        return found

    def sense(self) -> AaSensor:
        """Time the reference against itself, in a process of its own; in two more where that one is off."""
        twice = dict.fromkeys(ARMS, self._jobs[REFERENCE])
        with self._claimed(), self._stages.whole(Stage.AGAINST_ITSELF):
            found = [self._whole_rounds(twice)]
            if sensor_of(found).is_noisy:
                found += [self._whole_rounds(twice) for _ in range(CONFIRMATIONS)]
        return sensor_of(found)

    def _whole_rounds(self, jobs: Mapping[str, Job]) -> Pairs:
        return next(iter(self._process(jobs, None).pairs.values()))

    def records(self, key: TestKey) -> tuple[Record, Record]:
        """Profile each arm in a process of its own, and return what is known of it: facts, and its times in turn."""
        first = self.processes[0] if self.processes else None
        records = []
        for arm, given in self._jobs.items():
            job = _with_types(given, first.inputs[arm]) if first else given
            plan = replace(self._plan, timing=False, references=None)
            with named(arm, job):
                measurement = Measurement(job, plan, self.directory / arm, self._stages.relay)
                record = measurement.record(key, lambda _: False)
            records.append(self.with_times(arm, record))
        return records[0], records[1]

    def with_times(self, arm: str, record: Record) -> Record:
        """Return the record of an arm with its times in all processes so far."""
        found = [one.metrics[arm] for one in self.processes]
        spreads = [one.distributions[arm] for one in self.processes]
        metrics = {name: tuple(each[name] for each in found) for name in (found[0] if found else ())}
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
            rounds=self.pair_count,
            threads=self.processes[0].threads[arm] if self.processes else 0,
            disturbance=disturbance_of(load, gpu, machine, "both arms were timed"),
            other_load_ratio=load,
            gpu=gpu,
            machine=machine,
            generations=tuple(one.generations[arm] for one in self.processes if one.generations),
            distributions={name: tuple(each[name] for each in spreads) for name in (spreads[0] if spreads else ())},
        )

    def differing_settings(self) -> dict[str, dict[str, str]]:
        """Return for each arm the options that are not the same in the other, as texts."""
        texts = {arm: _settings(job) for arm, job in self._jobs.items()}
        other = {REFERENCE: texts[CANDIDATE], CANDIDATE: texts[REFERENCE]}
        return {
            arm: {name: text for name, text in own.items() if other[arm].get(name) != text}
            for arm, own in texts.items()
        }  # fmt: skip

    @property
    def _variables(self) -> Mapping[str, str]:
        return self._jobs[REFERENCE].variables

    @property
    def _kind(self) -> Kind:
        return "generator_pair" if isinstance(self._jobs[REFERENCE], GeneratorJob) else "pair"

    # -- one process -----------------------------------------------------------------------------------------------

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for device in sorted({_device(job) for job in self._jobs.values()}):
                stack.enter_context(self._stages.alone_on(device))
            yield

    def _worker(self) -> AbstractContextManager[Worker]:
        if self._plan.isolation == "none":
            return inline_worker(self._kind, self._variables, self._stages)
        self._started += 1
        directory = self.directory / f"{self._started}-pairs"
        directory.mkdir(parents=True)
        return ProcessWorker(
            directory,
            kind=self._kind,
            timeout_s=self._plan.timeout_s,
            stages=self._stages,
            environment=self._variables,
            after_step=self._state.sample,
        )

    def _process(self, jobs: Mapping[str, Job], tolerances: Tolerances | None) -> PairProcess:
        order = ARMS if self._reference_first else ARMS[::-1]
        self._reference_first = not self._reference_first
        with self._worker() as worker:
            return timed_process(worker, jobs, order, self._plan, tolerances)


def _settings(job: Job) -> dict[str, str]:
    if isinstance(job, GeneratorJob):
        given = {**job.provider_options, **job.overlay, "share_buffer": job.prompt.get("share_buffer")}
        return {name: str(value) for name, value in given.items() if value is not None}
    given = {**job.provider_options, **job.session_options, **job.free_dimensions}
    libraries = {"custom ops": ", ".join(job.custom_op_libraries)} if job.custom_op_libraries else {}
    return {name: str(value) for name, value in given.items()} | libraries


def _device(job: Job) -> str:
    return device_name(job.provider.short, job.provider_options, os.environ)


def _with_types(job: Job, types: Mapping[str, str]) -> Job:
    """Cast the floating feeds of a job to the types of its own inputs, as the steps of a pair do."""
    if not isinstance(job, SessionJob) or job.feeds is None:
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
