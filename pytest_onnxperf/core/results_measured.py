"""The parts of the file of `--onnxperf-json` that say what was measured; see `results`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .device_state import GpuState, MachineState
from .results_facts import Explanation, Facts, OpChanges
from .results_judged import Against, Baseline, Budget, Comparison, Requirement

MOST_POINTS: Final = 128
"""Points of inter-token latency by token index that a process has; a choice: as many as a chart can show."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where something was measured."""

    key: str
    """Device and execution provider, as in the path of a baseline."""
    device: str
    """Its name for people."""
    execution_provider: str
    """ONNX Runtime's own string."""
    versions: dict[str, str]
    """`onnxruntime`, `numpy`, `python`, and `driver` where there is one."""


class Metric(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One noisy quantity."""

    unit: str
    """Of the values: `ms`, `MiB`, `/s`, `tok/s`."""
    better: Literal["less", "more"]
    """Which side is better."""
    value: float
    """The median over the processes."""
    values: tuple[float, ...]
    """One for each process: noise lies between processes."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times of one process, summed up."""

    rounds: int
    """How many times it sums up."""
    mean_ms: float
    """Their mean."""
    stddev_ms: float
    """Standard deviation of the sample; 0 for one round."""
    quantiles_ms: tuple[float, ...]
    """One for each of the file's `quantiles`."""


class TokenTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Inter-token latency by token index, the median over the generations of a process."""

    tokens_per_point: int
    """So many tokens behind one another make one point; the first point begins at the second token."""
    itl_ms: tuple[tuple[float, ...], ...]
    """Process -> point."""


class Paired(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A metric of one process, timed beside a reference workload, as `core.paired.Paired`."""

    tested_ms: float
    """The 25 % quantile of the rounds of the model."""
    references_ms: dict[str, float]
    """Kind of the reference workload -> `tested_ms` over the median ratio to it."""
    spread_ratio: float
    """The largest IQR / median of a reference: above 0.25 the machine is too noisy to judge."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of `measure()`, or one arm of a comparison."""

    label: str = ""
    """Tells several measurements of one test apart."""
    model: str
    """As the test gave it."""
    environment: Environment
    """Where it was measured."""
    state: str = ""
    """One word for the whole: `over budget`, `cannot tell`, or the worst comparison; empty for one arm."""
    fails: bool = False
    """Whether the test fails by it."""
    processes: int = 0
    """Timing processes."""
    rounds: int = 0
    """Timed rounds over all processes."""
    threads: int = 0
    """Intra-op threads; 0 where nothing was timed."""
    workload: dict[str, str] = {}
    """What the times are of: `inputs` (`batch=8`), `tokens`, `concurrency`, `threads`. Times of another
    one are not compared."""
    options: dict[str, str] = {}
    """What was set that changes what runs."""
    metrics: dict[str, Metric] = {}
    """`latency_p50`, `ttft`, ... -> its values."""
    distributions: dict[str, tuple[Distribution, ...]] = {}
    """`latency`, `ttft`, `prefill`, `itl` -> one for each process."""
    token_times: TokenTimes | None = None
    """Of a generator."""
    paired: dict[str, tuple[Paired, ...]] = {}
    """Metric -> one for each process that was timed beside a reference workload."""
    facts: Facts | None = None
    """Of a run; of a generator the worse of its phases in every count. Null where there are none."""
    phases: dict[str, Facts] = {}
    """Of a generator: `prefill`, `decode`."""
    not_measured: dict[str, str] = {}
    """Metric, or `facts` -> why it is missing."""
    budgets: tuple[Budget, ...] = ()
    """Worst first."""
    not_applicable: tuple[str, ...] = ()
    """`on` of budgets that belong to other devices."""
    baseline: Baseline | None = None
    """Null where none was asked for."""
    comparisons: tuple[Comparison, ...] = ()
    """Worst first."""
    op_changes: tuple[OpChanges, ...] = ()
    """What the op tables have to do with it, by phase."""
    against: Against | None = None
    """Under `--onnxperf-against`."""
    explanation: Explanation | None = None
    """Why the facts are what they are, where that was asked for or the test fails."""
    advice: tuple[str, ...] = ()
    """What to do, where the test fails."""
    disturbance: str = ""
    """What else used the device meanwhile."""
    gpu: GpuState | None = None
    """Of an NVIDIA GPU that NVML tells of, where something was timed."""
    machine: MachineState | None = None
    """Of the CPU, where something was timed."""
    other_load_ratio: float = 0.0
    """Share of the usable CPU cores that others used meanwhile, 0 to 1."""
    warnings: tuple[str, ...] = ()
    """What a reader should know and no state says."""
    kept: str = ""
    """Path of its profile, where that was kept."""


class Speedup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time of reference / time of candidate: above 1 the candidate is faster."""

    ratio: float | None = None
    """The median of the pairs; null where nothing was timed."""
    low: float | None = None
    """Lower end of its 99 % interval; null without one."""
    high: float | None = None
    """Upper end."""


class AbComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of `onnx_compare` or `genai_compare`."""

    label: str = ""
    """Tells several comparisons of one test apart."""
    state: str = ""
    """Of its requirements the worst, else `noisy`, `outputs differ`, or empty."""
    speedup: float | None = None
    """Time of reference / time of candidate of a whole round, the median; null where nothing was timed."""
    low: float | None = None
    """Lower end of its 99 % interval; null without one."""
    high: float | None = None
    """Upper end."""
    parts: dict[str, Speedup] = {}
    """Of generators: `ttft`, `decode_throughput` -> its own ratio."""
    pairs: int = 0
    """Pairs of rounds over all processes."""
    processes: int = 0
    """Processes that timed both."""
    outputs: str = ""
    """`equal`, `differ`, `cannot tell` or `not checked`."""
    outputs_text: str = ""
    """The largest difference and where it is."""
    noise: str = ""
    """Why no ratio of this session can be trusted; empty where it can."""
    self_ratio: float | None = None
    """The reference against itself; null where that was not timed."""
    settings: dict[str, dict[str, str]] = {}
    """Arm -> what is set in it and not in the other."""
    requirements: tuple[Requirement, ...] = ()
    """What the test requires."""
    why_not: str = ""
    """Why nothing was compared."""
    reference: Measurement
    """One arm."""
    candidate: Measurement
    """The other."""
