"""Rounds that were timed beside a reference workload: what a process found, and what a baseline keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .order_statistics import spread_ratio
from .sample import Sample

TESTED = "tested"
_QUANTILE = 0.25


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """One kind of reference workload, of a fixed size: only equal ones can be compared."""

    size: dict[str, int]
    """As the measuring process sized it."""
    version: int
    """Of what it computes."""
    checksum: str
    """Of its result."""


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric of one process: 25 % quantiles, of which the ratio varies least between processes.

    Source: facts measured for this project: ratios of minima or medians are worse, since the two fall on other moments.
    """

    tested_ns: float
    references_ns: Mapping[str, float]
    """Kind -> quantile of its rounds."""
    spread_ratio: float
    """The largest IQR / median of a reference: the sensor of a machine on which nothing can be judged."""
    specs: Mapping[str, ReferenceSpec] = field(default_factory=dict)


def paired_of(times_ns: Mapping[str, Sequence[int]], specs: Mapping[str, ReferenceSpec]) -> Paired:
    """Sum up the rounds of one process: `tested`, and each kind of reference.

    Raises:
        MeasurementError: There is no round, or the clock went backwards.
    """
    samples = {name: Sample.of(times) for name, times in times_ns.items()}
    tested = samples.pop(TESTED)
    return Paired(
        tested_ns=tested.quantile(_QUANTILE),
        references_ns={kind: sample.quantile(_QUANTILE) for kind, sample in samples.items()},
        spread_ratio=max((spread_ratio(sample.rounds_ns) for sample in samples.values()), default=0.0),
        specs=specs,
    )
