"""What is measured and how: a plan, a subject that knows the steps of its processes, and what they find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.facts import Facts
from pytest_onnxperf.core.paired import Paired, ReferenceSpec, paired_of
from pytest_onnxperf.core.sample import Distribution
from pytest_onnxperf.core.tokens import Generation
from pytest_onnxperf.core.workload import workload_changes

from .child import reference, reference_cuda
from .devices import NVIDIA
from .inline import InlineWorker, Kind
from .process import ProcessWorker
from .trace import Trace

if TYPE_CHECKING:
    from pytest_onnxperf.core.providers import Provider


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
    references: Mapping[str, Beside] | None = None
    """Metric -> reference workloads to time rounds beside. A metric that is missing gets the kinds of its EP, of a size
    that is found. None: no such rounds."""
    processes: int = 1
    """Timing processes to begin with."""
    timing: bool = True
    """False measures facts alone."""
    device: str = ""
    """The user's name for the device."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one timing process found."""

    metrics: Mapping[str, float]
    """Metric name -> value in inner units."""
    rounds: int
    other_load: float | None
    """Share of the usable cores that others used meanwhile; None where it cannot be known."""
    peak_rss_bytes: int | None
    versions: Mapping[str, str]
    threads: int
    cores: int
    """That it may use."""
    workload: Mapping[str, str] = field(default_factory=dict)
    """What its times are of (`core.workload`)."""
    generations: tuple[Generation, ...] = ()
    """Of a generator: the times of every token."""
    paired: Mapping[str, Paired] = field(default_factory=dict)
    """Metric -> its rounds beside a reference workload."""
    unpaired: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why it has none, though they were wanted."""
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    """How its times are spread, by the names of `Record.distributions`."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiled:
    """What the profile process found."""

    facts: Facts | None
    versions: Mapping[str, str]
    phases: Mapping[str, Facts] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """What changes what runs, given or not: `graph_optimization_level`, `max_length`, `share_buffer`."""
    why_not: str = ""
    """Why there are no facts."""
    traces: tuple[Trace, ...] = ()
    """What the facts were read from, a phase each."""
    is_possible: bool = True
    """False where facts are none of what is measured, so that their absence is no state of its own."""


Worker = InlineWorker | ProcessWorker


def reference_kinds(provider: Provider) -> tuple[str, ...]:
    """Return the kinds of reference workload that stand beside an EP's rounds: on the device for CUDA, else numpy's."""
    return reference_cuda.KINDS if provider.short in NVIDIA else reference.KINDS


def sizes_of(
    plan: Plan, metric: str, provider: Provider, workload: Mapping[str, str]
) -> dict[str, dict[str, int]]:  # fmt: skip
    """Return the sizes of the reference workloads of a metric; an empty one is found by the measuring process."""
    wanted = (plan.references or {}).get(metric)
    if wanted is None or workload_changes(wanted.workload, workload):
        return {kind: {} for kind in reference_kinds(provider)}
    return {kind: dict(spec.size) for kind, spec in wanted.specs.items()}


def paired_found(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Paired]:
    """Sum up what the step `paired` answered, by metric."""
    return {
        name: paired_of(each["times_ns"], {kind: ReferenceSpec(**spec) for kind, spec in each["specs"].items()})
        for name, each in found.items()
        if each["times_ns"].get("tested")
    }


def unpaired_found(found: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return metric -> why the step `paired` could time nothing."""
    return {name: each["why_not"] for name, each in found.items() if each["why_not"]}


class Subject(Protocol):
    """What is measured."""

    @property
    def kind(self) -> Kind:
        """Which steps its processes do."""

    @property
    def model_text(self) -> str:
        """The model as the test gave it, for reports."""

    @property
    def provider(self) -> Provider:
        """The EP that must run."""

    @property
    def provider_options(self) -> Mapping[str, object]:
        """Its options; `device_id` tells which device to claim."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables of its processes."""

    @property
    def timed_metrics(self) -> tuple[str, ...]:
        """The metrics that a timing process finds."""

    @property
    def feeds_on_host(self) -> bool:
        """Whether inputs and outputs of a run are in host memory."""

    def sessions(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the arguments of the step `open` of each session that can be explained."""

    def size_bytes(self) -> int:
        """Return the size of the model's files, and refuse a model that is not there."""

    def time(self, worker: Worker, plan: Plan) -> Timing:
        """Do the steps of a timing process."""

    def profile(self, worker: Worker, plan: Plan, prefix: str) -> Profiled:
        """Do the steps of a profile process; `prefix` is the absolute prefix of profile files."""
