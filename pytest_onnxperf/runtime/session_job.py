"""A model measured through an `InferenceSession`: the steps of its timing and profile processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from pytest_onnxperf.core.errors import OnnxPerfError, ProfileError, ProviderError
from pytest_onnxperf.core.facts import Facts, facts_of
from pytest_onnxperf.core.ort_log import fallback_reason, forced_cpu_nodes_in_log, readable
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import CPU, Provider
from pytest_onnxperf.core.sample import Sample

from .child.protocol import Array
from .inline import Kind
from .measure import Plan, Profiled, Timing, Worker
from .model_files import check_free_dimensions, model_files

LOG_INFO: Final = 1
LOG_WARNING: Final = 2


@dataclass(frozen=True, slots=True)
class SessionJob:
    """What to measure of which model."""

    kind: ClassVar[Kind] = "session"
    timed_metrics: ClassVar[tuple[str, ...]] = (
        "latency_p50", "latency_p90", "latency_p99", "latency_min", "throughput", "cold_start", "load",
    )  # fmt: skip

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

    def size_bytes(self) -> int:
        """Return the size of the model's file and its external data.

        Raises:
            ModelError: One of them is missing.
            SettingError: A free dimension is none of the model.
        """
        size = sum(file.stat().st_size for file in model_files(self.model))
        check_free_dimensions(self.model, self.free_dimensions)
        return size

    def time(self, worker: Worker, plan: Plan) -> Timing:
        """Warm up and time a block of rounds."""
        opened = self._open(worker, plan, "")
        first = worker.call("warm_up", rounds=max(plan.warmup_rounds, 1))
        block = worker.call("block", min_rounds=plan.min_rounds, max_time_s=plan.max_time_s)
        worker.close()
        metrics = Sample.of(block["rounds_ns"]).metrics()
        metrics |= {"load": opened["load_ns"], "cold_start": first["cold_start_ns"]}
        return Timing(
            metrics=metrics,
            rounds=len(block["rounds_ns"]),
            other_load=block["other_load"],
            peak_rss_bytes=block["peak_rss_bytes"],
            versions=opened["versions"],
            threads=opened["threads"],
        )

    def profile(self, worker: Worker, plan: Plan, prefix: str) -> Profiled:
        """Warm up, profile a few runs, and read their facts.

        Raises:
            ProviderError: Not one node ran on the EP that was asked for.
        """
        opened = self._open(worker, plan, prefix)
        worker.call("warm_up", rounds=max(plan.warmup_rounds, 1))
        windows = worker.call("profile", runs=plan.profile_runs)["windows"]
        path = worker.close()["profile_path"]
        try:
            profile = read_profile(path, [(begin, end) for begin, end in windows])
        except ProfileError as error:
            return Profiled(None, opened["versions"], why_not=str(error))
        forced = forced_cpu_nodes_in_log(worker.log()) if plan.isolation == "process" else None
        facts = facts_of(profile, forced)
        check_provider(facts, self.provider, self.model_text)
        return Profiled(facts, opened["versions"])

    def _open(self, worker: Worker, plan: Plan, prefix: str) -> dict[str, Any]:
        hello = worker.call("hello")
        threads = 0 if "intra_op_num_threads" in self.session_options else plan.threads or hello["cores"]
        job = self.open_arguments(threads, prefix)
        if plan.isolation == "none":
            job["log_severity"] = LOG_WARNING  # it would go to the terminal, and is not read
        try:
            opened = worker.call("open", job=job)
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error
        if self.feeds is not None:
            worker.call("set_feeds", feeds=self.feeds, bind=self.bind)
        else:
            worker.call("make_feeds", shapes=dict(self.shapes), ranges=dict(self.ranges), bind=self.bind)
        return {**hello, **opened, "threads": threads}

    def open_arguments(self, threads: int, profile_prefix: str) -> dict[str, Any]:
        """Return the argument of the step `open`."""
        return {
            "model": str(self.model),
            "execution_providers": [self.provider.name, *self.provider.followed_by],
            "provider_options": dict(self.provider_options),
            "session_options": dict(self.session_options),
            "free_dimensions": dict(self.free_dimensions),
            "custom_op_libraries": list(self.custom_op_libraries),
            "threads": threads,
            "profile_prefix": profile_prefix,
            "log_severity": LOG_INFO if profile_prefix else LOG_WARNING,
        }


def check_provider(facts: Facts, wanted: Provider, model_text: str) -> None:
    """Refuse a profile in which not one node ran on the EP that was asked for.

    Raises:
        ProviderError: It says where the nodes ran.
    """
    if facts.unavailable is None and facts.nodes and wanted.name not in facts.nodes_by_provider and wanted.name != CPU:
        ran = ", ".join(f"{count} on {name}" for name, count in facts.nodes_by_provider.items())
        msg = f"{wanted.name} was asked for and is there, but not one node of {model_text} ran on it: {ran}"
        raise ProviderError(msg)


def with_reason(error: OnnxPerfError, log: str) -> ProviderError:
    """Add what ONNX Runtime printed to the error that an EP does not run."""
    message, reason = readable(str(error)), fallback_reason(log)
    is_news = reason and reason not in message
    return ProviderError(f"{message}\nONNX Runtime said: {reason}" if is_news else message)
