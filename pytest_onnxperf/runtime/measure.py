"""One measurement: timing processes, a profile process, and more timing processes where the first look suspicious."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_onnxperf.core.environment import Environment
from pytest_onnxperf.core.errors import OnnxPerfError, ProfileError, ProviderError
from pytest_onnxperf.core.facts import Facts, facts_of
from pytest_onnxperf.core.ort_log import fallback_reason, forced_cpu_nodes_in_log, readable
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import CPU, Provider
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.core.sample import Sample
from pytest_onnxperf.core.units import quantity

from .child.protocol import Array
from .devices import describe_device
from .lock import claimed, device_name
from .model_files import check_free_dimensions, model_files
from .process import InlineWorker, ProcessWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


# Others that use more than this share of the usable cores while rounds are timed disturb them. A choice: on two cores
# it is two fifths of one of them, more than an idle machine with a pytest in it ever uses.
DISTURBED_SHARE: Final = 0.2
CONFIRMATIONS: Final = 2
_LOG_INFO, _LOG_WARNING = 1, 2


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure."""

    model: Path
    model_text: str
    """As the test gave it, for reports."""
    provider: Provider
    provider_options: Mapping[str, object] = field(default_factory=dict)
    session_options: Mapping[str, object] = field(default_factory=dict)
    free_dimensions: Mapping[str, int] = field(default_factory=dict)
    custom_op_libraries: tuple[str, ...] = ()
    bind: bool = False
    feeds: Mapping[str, Array] | None = None
    """Input name -> array; None where they are to be made."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure."""

    warmup_rounds: int
    min_rounds: int
    max_time_s: float
    profile_runs: int
    timeout_s: float
    isolation: Literal["process", "none"]
    threads: int
    """Intra-op threads; 0 means as many as cores may be used."""
    processes: int = 1
    """Timing processes to begin with."""
    timing: bool = True
    """False measures facts alone."""
    device: str = ""
    """The user's name for the device."""


@dataclass(frozen=True, slots=True)
class _Timing:
    """What one timing process found."""

    metrics: Mapping[str, float]
    rounds: int
    other_load: float | None
    versions: Mapping[str, str]
    threads: int


class Measurement:
    """Measures one job. Files of its processes lie in `directory`, the caller removes it."""

    def __init__(self, job: Job, plan: Plan, directory: Path, progress: Callable[[str], None]) -> None:
        self._job, self._plan, self._directory, self._progress = job, plan, directory, progress
        self._started = 0

    def record(self, key: TestKey, is_suspicious: Callable[[Record], bool]) -> Record:
        """Measure and return the record.

        Args:
            key: Where the measurement stands.
            is_suspicious: Tells of a record of one process whether two more should decide.

        Raises:
            ModelError: The model is missing or the runtime refuses it.
            SettingError: A free dimension is none of the model.
            ProviderError: The EP does not run.
            MeasurementError: A process crashed, hung or failed.
        """
        job, plan = self._job, self._plan
        size_bytes = sum(file.stat().st_size for file in model_files(job.model))
        check_free_dimensions(job.model, job.free_dimensions)
        device = device_name(job.provider.short, job.provider_options, os.environ)
        with claimed(device, lambda: self._progress(f"waiting for the device `{device}`")):
            timings = [self._time() for _ in range(plan.processes)] if plan.timing else []
            facts, reason, versions = self._profile()
            record = self._assemble(key, timings, facts, reason, versions, size_bytes)
            if timings and plan.processes == 1 and is_suspicious(record):
                timings += [self._time() for _ in range(CONFIRMATIONS)]
                record = self._assemble(key, timings, facts, reason, versions, size_bytes)
        return record

    def _worker(self, what: str) -> AbstractContextManager[InlineWorker | ProcessWorker]:
        if self._plan.isolation == "none":
            return InlineWorker()
        self._started += 1
        directory = self._directory / f"{self._started}-{what}"
        directory.mkdir(parents=True)
        return ProcessWorker(
            directory, timeout_s=self._plan.timeout_s, alive=lambda: self._progress(f"{what} process {self._started}")
        )

    def _open(self, worker: InlineWorker | ProcessWorker, prefix: str) -> dict[str, Any]:
        job, plan = self._job, self._plan
        hello = worker.call("hello")
        threads = 0 if "intra_op_num_threads" in job.session_options else plan.threads or hello["cores"]
        todo = open_job(job, threads, prefix)
        if plan.isolation == "none":
            todo["log_severity"] = _LOG_WARNING  # it would go to the terminal, and is not read
        try:
            opened = worker.call("open", job=todo)
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error
        if job.feeds is not None:
            worker.call("set_feeds", feeds=job.feeds, bind=job.bind)
        else:
            worker.call("make_feeds", shapes=dict(job.shapes), ranges=dict(job.ranges), bind=job.bind)
        return {**hello, **opened, "threads": threads}

    def _time(self) -> _Timing:
        plan = self._plan
        with self._worker("timing") as worker:
            opened = self._open(worker, "")
            first = worker.call("warm_up", rounds=max(plan.warmup_rounds, 1))
            block = worker.call("block", min_rounds=plan.min_rounds, max_time_s=plan.max_time_s)
            worker.close()
        metrics = Sample.of(block["rounds_ns"]).metrics()
        metrics |= {"load": opened["load_ns"], "cold_start": first["cold_start_ns"]}
        if plan.isolation == "process" and block["peak_rss_bytes"] is not None:
            metrics["peak_rss"] = block["peak_rss_bytes"]
        return _Timing(
            metrics, len(block["rounds_ns"]), block["other_load"], opened["versions"], opened["threads"]
        )  # fmt: skip

    def _profile(self) -> tuple[Facts | None, str, Mapping[str, str]]:
        """Return the facts, or why there are none, and the versions."""
        prefix = str((self._directory / "profile").resolve())
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._worker("profile") as worker:
            opened = self._open(worker, prefix)
            worker.call("warm_up", rounds=max(self._plan.warmup_rounds, 1))
            windows = worker.call("profile", runs=self._plan.profile_runs)["windows"]
            path = worker.close()["profile_path"]
            log = worker.log()
        try:
            profile = read_profile(path, [(begin, end) for begin, end in windows])
        except ProfileError as error:
            return None, str(error), opened["versions"]
        forced = forced_cpu_nodes_in_log(log) if self._plan.isolation == "process" else None
        facts = facts_of(profile, forced)
        self._check_provider(facts)
        return facts, "", opened["versions"]

    def _check_provider(self, facts: Facts) -> None:
        """Refuse a session in which not one node ran on the EP that was asked for."""
        wanted = self._job.provider.name
        if facts.unavailable is None and facts.nodes and wanted not in facts.nodes_by_provider and wanted != CPU:
            ran = ", ".join(f"{count} on {name}" for name, count in facts.nodes_by_provider.items())
            msg = f"{wanted} was asked for and is there, but not one node of {self._job.model_text} ran on it: {ran}"
            raise ProviderError(msg)

    def _assemble(
        self, key: TestKey, timings: Sequence[_Timing], facts: Facts | None, reason: str, versions: Mapping[str, str],
        size_bytes: int,
    ) -> Record:  # fmt: skip
        job = self._job
        device = describe_device(job.provider.short, job.provider_options, self._plan.device)
        names = dict.fromkeys(name for timing in timings for name in timing.metrics)
        metrics = {name: tuple(timing.metrics[name] for timing in timings) for name in names}
        loads = [timing.other_load for timing in timings if timing.other_load is not None]
        load = max(loads, default=0.0)
        disturbed = f"other processes used {quantity(load, 'ratio')} of the CPU cores while rounds were timed"
        return Record(
            key=key,
            model=job.model_text,
            environment=Environment(device.name, device.key, job.provider.name, {**versions, **device.versions}),
            facts=facts,
            metrics=metrics | {"model_size": (float(size_bytes),)},
            not_measured=_not_measured(self._plan, names, reason),
            rounds=sum(timing.rounds for timing in timings),
            threads=timings[0].threads if timings else 0,
            disturbance=disturbed if load > DISTURBED_SHARE else "",
        )


def open_job(job: Job, threads: int, profile_prefix: str) -> dict[str, Any]:
    """Return the argument of the step `open`."""
    return {
        "model": str(job.model),
        "execution_providers": [job.provider.name, *job.provider.followed_by],
        "provider_options": dict(job.provider_options),
        "session_options": dict(job.session_options),
        "free_dimensions": dict(job.free_dimensions),
        "custom_op_libraries": list(job.custom_op_libraries),
        "threads": threads,
        "profile_prefix": profile_prefix,
        "log_severity": _LOG_INFO if profile_prefix else _LOG_WARNING,
    }


def with_reason(error: OnnxPerfError, log: str) -> ProviderError:
    """Add what ONNX Runtime printed to the error that an EP does not run."""
    message, reason = readable(str(error)), fallback_reason(log)
    is_news = reason and reason not in message
    return ProviderError(f"{message}\nONNX Runtime said: {reason}" if is_news else message)


def _not_measured(plan: Plan, measured: Mapping[str, None], reason: str) -> dict[str, str]:
    missing: dict[str, str] = {"facts": reason} if reason else {}
    if not plan.timing:
        timed = ("latency_p50", "latency_p90", "latency_p99", "latency_min", "throughput", "cold_start", "load")
        return missing | dict.fromkeys((*timed, "peak_rss"), "times were not measured (--onnxperf-timing=off)")
    if "peak_rss" not in measured:
        why = "this system does not tell the peak memory of a process"
        if plan.isolation == "none":
            why = "the memory of the test's own process is not the model's (--onnxperf-isolation=none)"
        missing["peak_rss"] = why
    return missing
