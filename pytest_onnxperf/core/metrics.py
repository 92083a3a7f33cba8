"""The table of metrics: what each is called, its unit, which side is better, and whether a baseline gates it.

Absolute slacks keep the relative tolerance from gating what nobody minds: a change smaller than the slack is
never a regression, whatever its ratio. They are choices, not measurements. `max_regression` changes the tolerance
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from .units import BYTES_PER_MIB, NS_PER_MS, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Metric:
    """One noisy quantity."""

    name: str
    """Without a unit: `latency_p50`."""
    label: str
    """As reports write it."""
    unit: str
    """The unit that people read and baselines hold: `ms`."""
    per_unit: float
    """How many inner units (ns, bytes, 1/s) make one `unit`."""
    better: Literal["less", "more"]
    source: str
    """What it is read off."""
    gated: bool
    """True where a baseline gates it. Tail quantiles and means are shown and can carry budgets, and never gate:
    at a margin of 10 % they raise 21 to 50 % false alarms (measured over fresh processes of one model)."""
    slack: float = 0.0
    """Absolute change, in `unit`, below which a difference is never a regression."""
    help: str = field(kw_only=True)
    """What it is, as `onnxperf reference` prints it."""
    is_timed: bool = True
    """True where it comes from a timing process, which others can disturb; False for the size of files."""

    @property
    def is_noisy_clock(self) -> bool:
        """Whether it is made of times, which drift between two occasions; memory does not."""
        return self.is_timed and self.unit != "MiB"

    @property
    def stored_name(self) -> str:
        """The key in baseline files, with the unit: `latency_p50_ms`."""
        return f"{self.name}_{_SUFFIX[self.unit]}"

    def shown(self, values: Sequence[float]) -> str:
        """Write the median over processes with its unit; `values` are inner units, one per process."""
        return quantity(median(values) / self.per_unit, self.unit)


_SUFFIX: Final = {"ms": "ms", "/s": "per_s", "tok/s": "tok_per_s", "MiB": "mib"}

_ROUNDS: Final = "timed rounds of a session"
_TOKENS: Final = "timed generations"
_PROCESS: Final = "the measuring process"
_FILES: Final = "files"

METRICS: Final = (
    Metric("latency_p50", "latency p50", "ms", NS_PER_MS, "less", _ROUNDS, gated=True, slack=0.02,
           help="Median time of one inference as the caller sees it, outputs on the host"),
    Metric("latency_p90", "latency p90", "ms", NS_PER_MS, "less", _ROUNDS, gated=False,
           help="Latency that 90 % of the rounds stay under"),
    Metric("latency_p99", "latency p99", "ms", NS_PER_MS, "less", _ROUNDS, gated=False,
           help="Latency that 99 % of the rounds stay under"),
    Metric("latency_min", "latency min", "ms", NS_PER_MS, "less", _ROUNDS, gated=False,
           help="Latency of the fastest round"),
    Metric("throughput", "throughput", "/s", 1, "more", _ROUNDS, gated=False,
           help="Runs per second, one after another"),
    Metric("ttft", "TTFT", "ms", NS_PER_MS, "less", _TOKENS, gated=True, slack=0.2,
           help="Time to first token: `append_tokens` begun to the first token returned, without tokenising"),
    Metric("ttft_p99", "TTFT p99", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="TTFT that 99 % of the requests stay under, with several at once"),
    Metric("prefill", "prefill", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="The part of TTFT in `append_tokens`"),
    Metric("prefill_throughput", "prefill throughput", "tok/s", 1, "more", _TOKENS, gated=False,
           help="Batch x prompt tokens / prefill"),
    Metric("decode_throughput", "decode throughput", "tok/s", 1, "more", _TOKENS, gated=True,
           help="Batch x (n - 1) / (last token - first token), for n tokens"),
    Metric("total_throughput", "end-to-end throughput", "tok/s", 1, "more", _TOKENS, gated=False,
           help="New tokens of the batch, or of all requests at once / the time of the whole"),
    Metric("itl_p50", "ITL p50", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="Median inter-token latency: of the gaps between tokens, of which n tokens have n - 1"),
    Metric("itl_p90", "ITL p90", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="Gap that 90 % of the gaps stay under"),
    Metric("itl_p99", "ITL p99", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="Gap that 99 % of the gaps stay under"),
    Metric("itl_max", "ITL max", "ms", NS_PER_MS, "less", _TOKENS, gated=False,
           help="The longest gap"),
    Metric("cold_start", "cold start", "ms", NS_PER_MS, "less", _PROCESS, gated=True, slack=5,
           help="Time of the first run of a session: libraries, shaders, the choice of kernels"),
    Metric("load", "load", "ms", NS_PER_MS, "less", _PROCESS, gated=True, slack=10,
           help="Time to create the session, or to load the generator"),
    Metric("peak_rss", "peak RSS", "MiB", BYTES_PER_MIB, "less", _PROCESS, gated=True, slack=8,
           help="Peak resident memory of the measuring process"),
    Metric("peak_vram", "peak VRAM", "MiB", BYTES_PER_MIB, "less", _PROCESS, gated=True, slack=16,
           help="Peak device memory of the measuring process, where NVML tells it"),
    Metric("model_size", "model size", "MiB", BYTES_PER_MIB, "less", _FILES, gated=True, slack=0.01, is_timed=False,
           help="Size of the model's files, external data included"),
)  # fmt: skip

METRIC: Final = {metric.name: metric for metric in METRICS}
STORED_METRIC: Final = {metric.stored_name: metric for metric in METRICS}
PRIMARY: Final = frozenset({"latency_p50", "ttft", "decode_throughput"})
"""The times of what a test is about; load, cold start and memory say less."""
