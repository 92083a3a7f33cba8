"""`Record`: all that one call of `measure()` found out. Plain data, so that it can cross a pipe or a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .device_state import GpuState, MachineState
from .environment import Environment
from .facts import Facts
from .paired import Paired
from .sample import Distribution
from .tokens import Generation


@dataclass(frozen=True, slots=True)
class TestKey:
    """Where a measurement stands: it names the baseline's file and the entry in it."""

    __test__ = False  # the name begins with Test, and pytest must not collect it

    module: str
    """Path of the test's file from pytest's root directory, with forward slashes."""
    test: str
    """Class, function and parameter id: `TestA::test_b[x-1]`."""
    label: str = ""
    """Tells several measurements of one test apart."""

    @property
    def entry(self) -> str:
        """The key in the baseline's file. A function's name holds no `#`, and a parameter id ends in `]`."""
        return f"{self.test}#{self.label}" if self.label else self.test


@dataclass(frozen=True, slots=True)
class Record:
    """Facts and metrics of one model in one environment."""

    key: TestKey
    model: str
    """As the test gave it."""
    environment: Environment
    facts: Facts | None
    """From the profile; None where no profile could be made."""
    metrics: Mapping[str, tuple[float, ...]]
    """Metric name -> one value per process, in inner units (ns, bytes, 1/s)."""
    not_measured: Mapping[str, str]
    """Metric name, or `facts` -> why it is missing."""
    phases: Mapping[str, Facts] = field(default_factory=dict)
    """For a generator: `prefill` and `decode`, of which `facts` is the worse in every count."""
    has_facts: bool = True
    """False where facts are none of what was measured: then there is nothing to compare, and nothing missing."""
    rounds: int = 0
    """Timed rounds over all processes."""
    threads: int = 0
    """Intra-op threads; 0 where nothing was timed."""
    cores: int = 0
    """CPU cores that the measuring process may use; 0 where none of the plugin's timed it."""
    disturbance: str = ""
    """What else used the device meanwhile, or slowed it down; empty where nothing did."""
    other_load_ratio: float = 0.0
    """Share of the usable CPU cores that others used while rounds were timed, 0 to 1."""
    gpu: GpuState | None = None
    """While rounds were timed; None where none were, or NVML says nothing."""
    machine: MachineState | None = None
    """While rounds were timed; None where none were."""
    warnings: tuple[str, ...] = ()
    """What a reader should know and no verdict says."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What was set that changes what runs: `max_length`, `share_buffer`, `sdpa_kernel`, environment variables."""
    workload: Mapping[str, str] = field(default_factory=dict)
    """What the times are of (`core.workload`); empty where none were taken."""
    paired: Mapping[str, tuple[Paired, ...]] = field(default_factory=dict)
    """Metric -> for each process its rounds beside a reference workload."""
    unpaired: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why no process has such rounds, though they were wanted."""
    generations: tuple[tuple[Generation, ...], ...] = ()
    """Of a generator: process -> generation -> the times of its tokens."""
    distributions: Mapping[str, tuple[Distribution, ...]] = field(default_factory=dict)
    """`latency` of a session; `ttft`, `prefill`, `itl` of a generator -> how its times are spread, by process."""

    @property
    def unavailable_facts(self) -> str:
        """Why no fact can be told; empty where they can."""
        if self.facts is None:
            return self.not_measured.get("facts", "no profile was made")
        return self.facts.unavailable or ""
