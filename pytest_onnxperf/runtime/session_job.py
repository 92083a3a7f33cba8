"""A model measured through an `InferenceSession`: the steps of its timing and profile processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, SupportsIndex

from pytest_onnxperf.core.errors import ProfileError, ProviderError
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.ort_log import read_log
from pytest_onnxperf.core.providers import CPU, Provider
from pytest_onnxperf.core.sample import Sample
from pytest_onnxperf.core.stages import Stage
from pytest_onnxperf.core.workload import sizes_text, workload

from .child.protocol import Array
from .devices import NVIDIA
from .inline import Kind
from .looks import take_rounds
from .model_files import check_free_dimensions, model_files
from .plan import Plan, Profiled, Timing, Worker, paired_found, sizes_of, unpaired_found
from .trace import read_trace

if TYPE_CHECKING:
    from pytest_onnxperf.core.facts import Facts

LOG_VERBOSE: Final = 0
LOG_INFO: Final = 1
LOG_WARNING: Final = 2


_JUDGED: Final = "latency_p50"
_THREADS: Final = "intra_op_num_threads"


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
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its processes."""
    bind: bool = False
    feeds: Mapping[str, Array] | None = None
    """Input name -> array; None where they are to be made."""
    shapes: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Any] = field(default_factory=dict)

    @property
    def feeds_on_host(self) -> bool:
        """Whether inputs and outputs of a run are in host memory."""
        return not self.bind

    @property
    def inputs(self) -> str:
        """What the test gives, as a workload names it; what the model makes of it is the model's."""
        if self.feeds is not None:
            return sizes_text({name: list(each.shape) for name, each in self.feeds.items()})
        return sizes_text({**self.free_dimensions, **self.shapes})

    def sessions(self) -> dict[str, dict[str, Any]]:
        """Return the arguments of the step `open` of its one session."""
        return {"": self.open_arguments(1, "")}

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
        sample = Sample.of(block["rounds_ns"])
        metrics = sample.metrics()
        work = workload(self.provider.short, opened["threads"], inputs=self.inputs)
        beside = self._paired(worker, plan, metrics["latency_p50"], work)
        others = worker.call("others")
        worker.close()
        metrics |= {"load": opened["load_ns"], "cold_start": first["cold_start_ns"]}
        return Timing(
            metrics=metrics,
            rounds=len(block["rounds_ns"]),
            other_load=others["other_load"],
            peak_rss_bytes=block["peak_rss_bytes"],
            versions=opened["versions"],
            threads=opened["threads"],
            cores=opened["cores"],
            workload=work,
            paired=paired_found(beside),
            unpaired=unpaired_found(beside),
            distributions={"latency": sample.distribution()},
        )

    def _paired(
        self, worker: Worker, plan: Plan, round_ns: float, work: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Time rounds beside the reference workload, in a block of their own: they slow each other a little.

        Returns:
            Metric -> what the step `paired` answered; empty where no such rounds are wanted.
        """
        if plan.references is None:
            return {}
        sizes = sizes_of(plan, _JUDGED, self.provider, work)
        return take_rounds(
            lambda rounds: {_JUDGED: worker.call("paired", sizes=sizes, rounds=rounds)},
            {_JUDGED: plan.references.get(_JUDGED)},
            round_ns=round_ns, least_rounds=plan.min_rounds, max_time_s=plan.max_time_s,
            tell=lambda texts: worker.stages.at(Stage.REFERENCE, *texts),
        )  # fmt: skip

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
            trace = read_trace([(path, [(begin, end) for begin, end in windows])])
        except ProfileError as error:
            return Profiled(None, opened["versions"], options=self._recorded_options(), why_not=str(error))
        log = read_log(worker.log_lines()) if plan.isolation == "process" else None
        facts = trace.facts(log, self.provider, opened["versions"])
        check_provider(facts, self.provider, self.model_text)
        return Profiled(facts, opened["versions"], options=self._recorded_options(), traces=(trace,))

    def _recorded_options(self) -> dict[str, str]:
        """Return the session options that may change what runs: no paths, no logs; threads belong to the workload."""
        others = ("path", "prefix", "log", _THREADS)
        options = self.session_options.items()
        return {name: str(value) for name, value in options if not any(other in name for other in others)}

    def _open(self, worker: Worker, plan: Plan, prefix: str) -> dict[str, Any]:
        hello = worker.call("hello")
        threads = plan.threads or hello["cores"]
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
        return {**hello, **opened, "threads": self.threads(threads)}

    def threads(self, given: int) -> int:
        """Return the intra-op threads of the session: those of its own options come before those given."""
        own = self.session_options.get(_THREADS)
        return int(own) if isinstance(own, SupportsIndex) and int(own) > 0 else given

    def open_arguments(self, threads: int, profile_prefix: str) -> dict[str, Any]:
        """Return the argument of the step `open`; session options of the job come before `threads`."""
        return {
            "model": str(self.model),
            "execution_providers": [self.provider.name, *self.provider.followed_by],
            "provider_options": dict(self.provider_options),
            "session_options": dict(self.session_options),
            "free_dimensions": dict(self.free_dimensions),
            "custom_op_libraries": list(self.custom_op_libraries),
            "threads": threads,
            "profile_prefix": profile_prefix,
            "log_severity": profile_severity(self.provider) if profile_prefix else LOG_WARNING,
        }


def profile_severity(provider: Provider) -> int:
    """Return the severity of a profile process's log: CUDA says verbosely alone which kernel ai.onnx Attention runs."""
    return LOG_VERBOSE if provider.short in NVIDIA else LOG_INFO


def check_provider(facts: Facts, wanted: Provider, model_text: str) -> None:
    """Refuse a profile in which not one node ran on the EP that was asked for.

    Raises:
        ProviderError: It says where the nodes ran.
    """
    if facts.unavailable is None and facts.nodes and wanted.name not in facts.nodes_by_provider and wanted.name != CPU:
        ran = ", ".join(f"{count} on {name}" for name, count in facts.nodes_by_provider.items())
        msg = f"{wanted.name} was asked for and is there, but not one node of {model_text} ran on it: {ran}"
        raise ProviderError(msg)
