"""One measurement: timing processes, a profile process, and more timing processes where the first look suspicious.

What is measured, a session's model or a generator's, is a `Subject`: it knows the steps of its own processes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_onnxperf.core.attention_backend import switches_of
from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.decide import DECIDING_PROCESSES
from pytest_onnxperf.core.device_state import disturbance_of, idle_hint
from pytest_onnxperf.core.environment import Environment
from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.core.explanation import Explanation
from pytest_onnxperf.core.peaks import ceilings_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.core.stages import Stage

from .devices import NVIDIA, describe_device
from .explaining import Explainer
from .inline import InlineWorker, Kind
from .lock import device_name
from .process import ProcessWorker
from .stages import Stages
from .state_meter import StateMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_onnxperf.core.roofline import Ceilings
    from pytest_onnxperf.core.stages import Tell

    from .plan import Plan, Profiled, Subject, Timing, Worker

CONFIRMATIONS: Final = DECIDING_PROCESSES - 1
# The reference workload is numpy's, and is to be the same on every machine; ONNX Runtime has threads of its own.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
# CUDA's attention operators then print which kernel they run, from 1.19 on. (Source: attention_kernel_options.cc.)
_SHOW_KERNELS: Final = {"ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO": "1"}


_Found = TypeVar("_Found")


class Measurement:
    """Measures one subject. Files of its processes lie in `directory`, the caller removes it."""

    def __init__(self, subject: Subject, plan: Plan, directory: Path, progress: Tell) -> None:
        self._subject, self._plan, self._directory = subject, plan, directory
        self._stages = Stages(progress)
        self._started = 0
        self._profiled: Profiled | None = None
        self._state = StateMeter(subject.provider.short, subject.provider_options)

    def record(self, key: TestKey, is_suspicious: Callable[[Record], bool]) -> Record:
        """Measure and return the record.

        Args:
            key: Where the measurement stands.
            is_suspicious: Tells of a record of one process whether two more should decide.

        Raises:
            ModelError: The model is missing or the runtime refuses it.
            ProviderError: The EP does not run.
            MeasurementError: A process crashed, hung or failed.
        """
        subject, plan = self._subject, self._plan
        size_bytes = subject.size_bytes()
        device = device_name(subject.provider.short, subject.provider_options, os.environ)
        with self._stages.alone_on(device):
            if plan.timing:
                self._state.begin()
            timings = [self._timed() for _ in range(plan.processes)] if plan.timing else []
            self._profiled = profiled = self._profile()
            record = self._assemble(key, timings, profiled, size_bytes)
            if timings and plan.processes == 1 and is_suspicious(record):
                with self._stages.whole(Stage.CONFIRM):
                    timings += [self._timed() for _ in range(CONFIRMATIONS)]
                record = self._assemble(key, timings, profiled, size_bytes)
        return record

    def explain(self, record: Record, *, in_process: bool, ceilings: Ceilings | None = None) -> Explanation:
        """Explain the facts of the record that this measurement made.

        Args:
            record: Which it made.
            in_process: True starts a process that creates each session once more; False asks the profile alone.
            ceilings: Of the device; None takes those of its datasheet, where it is known.
        """
        subject, profiled = self._subject, self._profiled
        if profiled is None or not profiled.traces:
            return Explanation((), profiled.why_not if profiled else "nothing was measured")
        known = ceilings or ceilings_of(record.environment.device, use_tf32=subject.provider.short in NVIDIA)
        versions = record.environment.versions
        name = record.environment.device
        explainer = Explainer(subject, profiled.traces, record.facts, record.options, versions, known, name)
        device = device_name(subject.provider.short, subject.provider_options, os.environ)
        with self._stages.alone_on(device), self._stages.whole(Stage.EXPLAIN):
            return explainer.explain(
                self._directory,
                timeout_s=self._plan.timeout_s,
                stages=self._stages,
                in_process=in_process,
            )

    def _worker(self, what: str) -> AbstractContextManager[Worker]:
        if self._plan.isolation == "none":
            return inline_worker(self._subject.kind, self._subject.variables, self._stages)
        return ProcessWorker(self._new_directory(what), **self._process_options(what))

    def _new_directory(self, what: str) -> Path:
        self._started += 1
        directory = self._directory / f"{self._started}-{what}"
        directory.mkdir(parents=True)
        return directory

    def _process_options(self, what: str) -> dict[str, Any]:
        """Return how a `timing` or a `profile` process is started."""
        return {
            "kind": self._subject.kind,
            "timeout_s": self._plan.timeout_s,
            "stages": self._stages,
            "environment": {**(_SHOW_KERNELS if what == "profile" else _ONE_THREAD), **self._subject.variables},
            "after_step": self._state.sample if what == "timing" else None,
        }

    def _timed(self) -> Timing:
        with self._state.machine.running():
            return self._time()

    def _time(self) -> Timing:
        with self._worker("timing") as worker:
            timing = self._subject.time(worker, self._plan)
        if timing.paired:  # the processes that follow take the sizes that this one found
            found = {metric: Beside(each.specs) for metric, each in timing.paired.items()}
            self._plan = replace(self._plan, references={**found, **(self._plan.references or {})})
        return self._with_vram(timing) if isinstance(worker, ProcessWorker) else timing

    def _with_vram(self, timing: Timing) -> Timing:
        """Add the peak of device memory, where the meter saw any."""
        peak_bytes = self._state.vram.take() if self._state.vram is not None else 0
        return replace(timing, metrics={**timing.metrics, "peak_vram": float(peak_bytes)}) if peak_bytes else timing

    def _profile(self) -> Profiled:
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._stages.whole(Stage.PROFILE), self._worker("profile") as worker:
            return self._subject.profile(worker, self._plan, str((self._directory / "profile").resolve()))

    def _assemble(self, key: TestKey, timings: Sequence[Timing], profiled: Profiled, size_bytes: int) -> Record:
        subject = self._subject
        device = describe_device(subject.provider.short, subject.provider_options, self._plan.device)
        metrics = _by_name([timing.metrics for timing in timings])
        peaks = [timing.peak_rss_bytes for timing in timings if timing.peak_rss_bytes is not None]
        if peaks and self._plan.isolation == "process":
            metrics["peak_rss"] = tuple(float(peak) for peak in peaks)
        load = max((timing.other_load for timing in timings if timing.other_load is not None), default=0.0)
        gpu, machine = (self._state.gpu(), self._state.machine.state()) if timings else (None, None)
        versions = {**profiled.versions, **device.versions}
        for state in (gpu, machine):
            versions |= state.recorded if state is not None else {}
        batch_size = profiled.options.get("batch_size", "") if "decode_throughput" in metrics else ""
        hints = [hint] if (hint := idle_hint(gpu, batch_size)) else []
        return Record(
            key=key,
            model=subject.model_text,
            environment=Environment(device.name, device.key, subject.provider.name, versions),
            facts=profiled.facts,
            has_facts=profiled.is_possible,
            phases=profiled.phases,
            metrics=metrics | {"model_size": (float(size_bytes),)},
            not_measured=self._not_measured(metrics, profiled.why_not),
            options={
                **profiled.options,
                **switches_of(subject.provider_options, {**os.environ, **subject.variables}),
            },
            rounds=sum(timing.rounds for timing in timings),
            threads=timings[0].threads if timings else 0,
            cores=timings[0].cores if timings else 0,
            workload=timings[0].workload if timings else {},
            disturbance=disturbance_of(load, gpu, machine, "rounds were timed"),
            other_load_ratio=load,
            gpu=gpu,
            machine=machine,
            warnings=tuple(dict.fromkeys([*(warning for timing in timings for warning in timing.warnings), *hints])),
            generations=tuple(timing.generations for timing in timings),
            distributions=_by_name([timing.distributions for timing in timings]),
            paired=_by_name([timing.paired for timing in timings]),
            unpaired=_unpaired(timings),
        )

    def _not_measured(self, measured: Mapping[str, object], why_no_facts: str) -> dict[str, str]:
        missing: dict[str, str] = {"facts": why_no_facts} if why_no_facts else {}
        if not self._plan.timing:
            names = (*self._subject.timed_metrics, "peak_rss", "peak_vram")
            return missing | dict.fromkeys(names, "times were not measured (--onnxperf-timing=off)")
        if "peak_rss" not in measured:
            why = "this system does not tell the peak memory of a process"
            if self._plan.isolation == "none":
                why = "the memory of the test's own process is not the model's (--onnxperf-isolation=none)"
            missing["peak_rss"] = why
        if "peak_vram" not in measured:
            vram = self._state.vram
            missing["peak_vram"] = vram.reason() if vram is not None else "the device has no NVML"
        return missing


def _by_name(processes: Sequence[Mapping[str, _Found]]) -> dict[str, tuple[_Found, ...]]:
    names = dict.fromkeys(name for found in processes for name in found)
    return {name: tuple(found[name] for found in processes if name in found) for name in names}


def _unpaired(timings: Sequence[Timing]) -> dict[str, str]:
    paired = {name for timing in timings for name in timing.paired}
    return {name: why for timing in timings for name, why in timing.unpaired.items() if name not in paired}


def inline_worker(kind: Kind, variables: Mapping[str, str], stages: Stages) -> InlineWorker:
    """Return the worker of this process.

    Raises:
        SettingError: Environment variables are asked for, which the runtime has read here already.
    """
    if variables:
        names = ", ".join(variables)
        msg = f"{names} can be set in a measuring process alone, and --onnxperf-isolation=none makes none"
        raise SettingError(msg)
    return InlineWorker(kind, stages)
