"""The parts of the file of `--onnxperf-json` that say how something came out; see `results`."""

from __future__ import annotations

from typing import Literal

import msgspec

LimitState = Literal["held", "broken", "cannot tell"]
"""The words of `states.Limit`."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One limit of a budget, and how it came out."""

    key: str
    """As the marker has it, `max_latency_ms`; `decode.max_memcpy` for a phase."""
    state: LimitState
    """Three-valued: what was not seen is neither held nor broken."""
    limit: str
    """With its unit, for people."""
    actual: str = ""
    """With its unit, for people; empty where it is not known."""
    limit_value: float | None = None
    """In `unit`; null where the limit is no number."""
    actual_value: float | None = None
    """In `unit`; null where it is no number or not known."""
    unit: str = ""
    """Of both values."""
    why: str = ""
    """Detail, or why it cannot be told."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fact or metric against its baseline or, under `--onnxperf-against`, its reference."""

    name: str
    """`latency_p50`, `memcpy`, `ops.CPUExecutionProvider:MatMul`, `decode.nodes`."""
    state: str
    """One of the states of README."""
    text: str
    """With both numbers and units, for people."""
    detail: str = ""
    """What decided, or why nothing can be told."""
    since_anchor: str = ""
    """Change since the first record, where that is beyond its tolerance."""
    unit: str = ""
    """Of `old` and `new`."""
    old: float | None = None
    """What was recorded, of a metric the median over its processes; null where there is none."""
    new: float | None = None
    """What was measured."""
    ratio: float | None = None
    """Now to then, 1 is as recorded; of a time beside a reference workload the ratio of both ratios."""
    low_ratio: float | None = None
    """Lower end of its interval, 99 %; null without one."""
    high_ratio: float | None = None
    """Upper end of its interval."""
    limit_ratio: float | None = None
    """Beyond it the state is `regressed`."""
    detectable_ratio: float | None = None
    """The smallest slowdown that the baseline can see, 1.03 for 3 %; null where it sees none, or has no time."""
    beside: str = ""
    """Kind of the reference workload that was judged with; empty for raw values."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The baseline that a measurement was held against."""

    path: str
    """From pytest's root directory where it lies in it."""
    date: str = ""
    """Of the entry, ISO; empty where there is none."""
    other_environment: str = ""
    """Key of another device, where only that has an entry: then facts alone were compared."""
    version_changes: tuple[str, ...] = ()
    """Versions that differ, `onnxruntime 1.31.1 -> 1.32.0`."""
    option_changes: tuple[str, ...] = ()
    """What was set otherwise."""


class Turns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One metric, timed in two arms in turn."""

    state: str
    """`ok`, `regressed`, `improved` or `noisy`."""
    pairs: int
    """Pairs of rounds."""
    repetitions: int
    """Pairs of processes."""


class Against(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a measurement was compared with under `--onnxperf-against`."""

    reference: str
    """`revision main (1a2b3c4)`, `interpreter /envs/old/bin/python`."""
    versions: dict[str, str] = {}
    """Of the reference; empty where it was not measured."""
    timed: dict[str, Turns] = {}
    """Metric -> how it was timed; its figures are among the comparisons."""
    changed_files: tuple[str, ...] = ()
    """Of the model, those that another revision has otherwise."""
    note: str = ""
    """What is the same in both arms."""
    why_not: str = ""
    """Why nothing could be compared; empty where it was."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a test requires of a comparison."""

    text: str
    """As the test wrote it: `min_speedup=1.5`."""
    limit_ratio: float
    """Time of candidate / time of reference that is allowed."""
    state: LimitState
    """How it came out."""
    why: str = ""
    """Why it does not hold, or cannot be told."""
