"""Rounds that were timed beside a reference workload: what a process found, and what a baseline keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .errors import MeasurementError
from .order_statistics import quantile, spread_ratio
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

    def differing(self, other: ReferenceSpec) -> str:
        """Say in what another one differs.

        >>> ReferenceSpec({"extent": 32}, 1, "4e+03").differing(ReferenceSpec({"extent": 64}, 1, "9e+03"))
        'extent 32 -> 64, checksum 4e+03 -> 9e+03'
        """
        old, new = ({**each.size, "version": each.version, "checksum": each.checksum} for each in (self, other))
        names = [name for name in old | new if old.get(name) != new.get(name)]
        return ", ".join(f"{name} {old.get(name, 'none')} -> {new.get(name, 'none')}" for name in names)


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


def of_rounds(times_ns: Sequence[float], rounds: int) -> Sequence[float]:
    """Return one time for each round, in order: its only one, or the 25 % quantile of those it has.

    The stopping rule counts what stands alone. A generation is a round: each does the same, and neighbours barely
    correlate. Its decode steps are not. They grow with the context, each in its place, and a neighbour that wakes up
    slows many in a row: as rounds of their own, hundreds would promise an interval that a handful of moments cannot
    give. The quantile is that which `Paired` takes of all steps, so that both estimate the same ratio.

    Args:
        times_ns: As many of each round, one round after another.
        rounds: At least 1.

    Raises:
        MeasurementError: They are not as many of each round.

    >>> of_rounds([5, 1, 2, 3, 4, 10, 6, 7, 8, 9], 2)
    [2.0, 7.0]
    """
    each, left_over = divmod(len(times_ns), rounds)
    if not each or left_over:
        msg = f"{len(times_ns)} times are no equal share of {rounds} rounds"
        raise MeasurementError(msg)
    if each == 1:
        return times_ns
    return [quantile(sorted(times_ns[begin : begin + each]), _QUANTILE) for begin in range(0, len(times_ns), each)]


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
