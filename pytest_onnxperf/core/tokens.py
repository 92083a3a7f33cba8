"""Times of the tokens of generations, and the metrics that follow from them.

TTFT is `append_tokens` begun to the first `generate_next_token` and `is_done` returned: `append_tokens` runs the
prefill, so the first `generate_next_token` alone is no TTFT (it is off by a factor of hundreds to tens of thousands).
Source: onnxruntime-genai benchmark_e2e.py, whose definitions these are; n tokens have n - 1 gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from .sample import Distribution, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW_DECODE_TOKENS: Final = 50
"""Fewer decode tokens a generation than this make a throughput that a single slow token moves; a choice."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The times of one generation, in ns."""

    append_ns: int
    """`append_tokens` (or `set_inputs`): the prefill."""
    first_ns: int
    """The first `generate_next_token` and `is_done`."""
    gaps_ns: tuple[int, ...]
    """Each later `generate_next_token` and `is_done`: one gap for each token after the first."""

    @property
    def ttft_ns(self) -> int:
        """Time to first token."""
        return self.append_ns + self.first_ns

    @property
    def decode_ns(self) -> int:
        """From the first token to the last."""
        return sum(self.gaps_ns)


def generation_metrics(generations: Sequence[Generation], prompt_tokens: int, batch_size: int) -> dict[str, float]:
    """Return the metrics of one process; times in ns, throughput in tokens per second over the whole batch.

    TTFT, prefill and throughputs are medians over the generations, inter-token latencies quantiles over all gaps.
    Without a token after the first there is no inter-token latency and no decode throughput.
    """
    prefill_ns = median(generation.append_ns for generation in generations)
    new_tokens = len(generations[0].gaps_ns) + 1
    total_ns = median(generation.ttft_ns + generation.decode_ns for generation in generations)
    metrics = {
        "ttft": float(median(generation.ttft_ns for generation in generations)),
        "prefill": float(prefill_ns),
        "prefill_throughput": _per_s(batch_size * prompt_tokens, prefill_ns),
        "total_throughput": _per_s(batch_size * new_tokens, total_ns),
    }
    if new_tokens > 1:
        decode_ns = median(generation.decode_ns for generation in generations)
        metrics |= {
            "decode_throughput": _per_s(batch_size * (new_tokens - 1), decode_ns),
            **_gap_metrics([gap for generation in generations for gap in generation.gaps_ns]),
        }
    return metrics


def generation_distributions(generations: Sequence[Generation]) -> dict[str, Distribution]:
    """Return the distributions of one process: TTFT and prefill over its generations, gaps over all tokens."""
    gaps_ns = [gap for generation in generations for gap in generation.gaps_ns]
    times_ns = {
        "ttft": [generation.ttft_ns for generation in generations],
        "prefill": [generation.append_ns for generation in generations],
        "itl": gaps_ns,
    }
    return {name: Sample.of(times).distribution() for name, times in times_ns.items() if times}


def gaps_by_token(generations: Sequence[Generation], most: int) -> tuple[int, tuple[float, ...]]:
    """Return the median gap by token index over the generations of one process, in ns, in at most `most` points.

    Returns:
        How many tokens stand behind one another in a point, and the points, of which the first is the second token.

    >>> gaps_by_token([Generation(9, 1, (10, 20, 30)), Generation(9, 1, (30, 40, 50))], 2)
    (2, (25.0, 40.0))
    """
    tokens = max((len(generation.gaps_ns) for generation in generations), default=0)
    step = max(-(-tokens // most), 1)
    points = []
    for first in range(0, tokens, step):
        points.append(float(median(gap for each in generations for gap in each.gaps_ns[first : first + step])))
    return step, tuple(points)


@dataclass(frozen=True, slots=True)
class Request:
    """One of several requests at once: when each of its tokens came, in ns after all were handed in."""

    token_ns: tuple[int, ...]

    @property
    def gaps_ns(self) -> tuple[int, ...]:
        """The gaps between its tokens."""
        return tuple(after - before for before, after in zip(self.token_ns, self.token_ns[1:], strict=False))


def load_metrics(requests: Sequence[Request], round_ns: Sequence[int], concurrency: int) -> dict[str, float]:
    """Return the metrics of requests at once: TTFT and gaps over all requests, tokens per second over a round.

    Args:
        requests: Of all rounds.
        round_ns: From handing in the requests of a round to its last token.
        concurrency: Requests in a round.
    """
    first = Sample.of([request.token_ns[0] for request in requests])
    new_tokens = len(requests[0].token_ns)
    metrics = {
        "ttft": first.quantile(0.5),
        "ttft_p99": first.quantile(0.99),
        "total_throughput": _per_s(concurrency * new_tokens, median(round_ns)),
    }
    gaps_ns = [gap for request in requests for gap in request.gaps_ns]
    return metrics | (_gap_metrics(gaps_ns) if gaps_ns else {})


def load_distributions(requests: Sequence[Request]) -> dict[str, Distribution]:
    """Return the distributions of requests at once: TTFT over the requests, gaps over all tokens."""
    gaps_ns = [gap for request in requests for gap in request.gaps_ns]
    times_ns = {"ttft": [request.token_ns[0] for request in requests], "itl": gaps_ns}
    return {name: Sample.of(times).distribution() for name, times in times_ns.items() if times}


def _gap_metrics(gaps_ns: Sequence[int]) -> dict[str, float]:
    gaps = Sample.of(gaps_ns)
    return {
        "itl_p50": gaps.quantile(0.5),
        "itl_p90": gaps.quantile(0.9),
        "itl_p99": gaps.quantile(0.99),
        "itl_max": float(gaps.rounds_ns[-1]),
    }


def _per_s(count: int, time_ns: float) -> float:
    return count * 1e9 / max(time_ns, 1)
