"""Rounds that were timed beside a reference workload: what a process found, and what a baseline keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from .errors import MeasurementError
from .order_statistics import quantile, spread_ratio
from .sample import Sample

TESTED = "tested"
_Size = Annotated[int, Meta(ge=1, le=1 << 32)]
"""Of loops and bytes, far above any that a calibration finds: what is beyond was typed, and would never end."""
_QUANTILE = 0.25


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """One kind of reference workload, of a fixed size: only equal ones can be compared."""

    size: dict[str, _Size]
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
    """One metric of one process. The ratio is that of a moment: see `beside_ratios`."""

    tested_ns: float
    """The 25 % quantile of the tested rounds."""
    references_ns: Mapping[str, float]
    """Kind -> `tested_ns` over the median ratio to it: what it took, in the moments of the tested rounds."""
    spread_ratio: float
    """The largest IQR / median of a reference: the sensor of a machine on which nothing can be judged."""
    specs: Mapping[str, ReferenceSpec] = field(default_factory=dict)


def beside_ratios(tested_ns: Sequence[float], reference_ns: Sequence[float], rounds: int) -> list[float]:
    """Return for each tested time its ratio to the reference beside it: the one of its pair, or the mean of both.

    Before the first and after each step of a generation a reference runs, so that there is one more than there are
    steps; both of a step's neighbours count. Source, measured for this project: where neighbours of the machine switch
    a core between two speeds within seconds, quantiles of all times fall on other moments in the tested work than in
    the reference. The median of these ratios varies less between processes: in three recordings of
    `tests/bench/detection.py --live-decoders`, with the fit of each, decode of 3 MB 8.5 -> 5.2, 4.6 -> 3.6 and 6.0 ->
    4.8 %, its TTFT 5.8 -> 3.5, 3.7 -> 3.3 and 3.0 -> 2.0 %, decode of 48 MB 2.1 -> 2.2, 1.2 -> 1.4 and 1.1 -> 1.2 %.

    Args:
        tested_ns: As many times of each round, one round after another.
        reference_ns: As many, or one more of each round.
        rounds: At least 1.

    Raises:
        MeasurementError: They are not as many of each round, or a time is not above 0.

    >>> beside_ratios([30, 40, 60], [10, 20, 30], 3)
    [3.0, 2.0, 2.0]
    >>> beside_ratios([30, 50, 30, 50], [10, 10, 10, 10, 20, 30], 2)
    [3.0, 5.0, 2.0, 2.0]
    """
    each, left_over = divmod(len(tested_ns), rounds)
    more = len(reference_ns) - len(tested_ns)
    if not each or left_over or more not in (0, rounds):
        msg = (
            f"{len(tested_ns)} times beside {len(reference_ns)} of the reference are no equal share of {rounds} rounds"
        )
        raise MeasurementError(msg)
    if (least := min(*tested_ns, *reference_ns)) <= 0:
        msg = f"a round took {least} ns: only positive times have a ratio"
        raise MeasurementError(msg)
    if not more:
        return [tested / reference for tested, reference in zip(tested_ns, reference_ns, strict=True)]
    places = ((place, place + place // each) for place in range(len(tested_ns)))
    return [2 * tested_ns[place] / (reference_ns[beside] + reference_ns[beside + 1]) for place, beside in places]


def of_rounds(ratios: Sequence[float], rounds: int) -> Sequence[float]:
    """Return one ratio for each round, in order: its only one, or the median of those it has.

    The stopping rule counts what stands alone. A generation is a round: each does the same, and neighbours barely
    correlate. Its decode steps are not. They grow with the context, each in its place, and a neighbour that wakes up
    slows many in a row: as rounds of their own, hundreds would promise an interval that a handful of moments cannot
    give. The median is that which `Paired` takes of all steps, so that both estimate the same ratio.

    Args:
        ratios: As many of each round, one round after another.
        rounds: At least 1.

    >>> of_rounds([5, 1, 2, 3, 4, 10, 6, 7, 8, 9], 2)
    [3.0, 8.0]
    """
    each = len(ratios) // rounds
    if each == 1:
        return ratios
    return [quantile(sorted(ratios[begin : begin + each]), 0.5) for begin in range(0, len(ratios), each)]


def paired_of(times_ns: Mapping[str, Sequence[int]], specs: Mapping[str, ReferenceSpec]) -> Paired:
    """Sum up the rounds of one process: `tested`, and each kind of reference.

    Raises:
        MeasurementError: There is no round, the clock went backwards, or they do not stand beside one another.
    """
    references = {name: times for name, times in times_ns.items() if name != TESTED}
    tested_ns = Sample.of(times_ns[TESTED]).quantile(_QUANTILE)
    return Paired(
        tested_ns=tested_ns,
        references_ns={kind: tested_ns / _median_ratio(times_ns[TESTED], times) for kind, times in references.items()},
        spread_ratio=max((spread_ratio(Sample.of(times).rounds_ns) for times in references.values()), default=0.0),
        specs=specs,
    )


def _median_ratio(tested_ns: Sequence[int], reference_ns: Sequence[int]) -> float:
    rounds = max(len(reference_ns) - len(tested_ns), 0) or len(tested_ns)
    return quantile(sorted(beside_ratios(tested_ns, reference_ns, rounds)), 0.5)
