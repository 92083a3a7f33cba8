"""Which reference explains the processes of a baseline best: what neighbours take away from both cancels in a ratio.

Per process the time of the tested rounds and that of each kind of reference beside them are known (`core.paired`).
Stored and compared is

    log(tested) - sum of w_k * log(reference_k)

with the weights that leave the least spread over the stored processes: none (raw), one reference with weight 1, or a
mix of the best one and another. Measured (facts of this project): a model of products falls from 3 to 5 % to 0.6 to
1.0 % with the compute reference, a decode step of 48 MB from 7.4 % to 2.7 % with the memory reference and to 2.0 % with
the mix; one of 3 MB from 22.6 % to 5.4 % with the compute reference, and to 3.6 % with that of small calls (on a noisy
machine; `tests/bench/detection.py --live-decoders 10`).

The mix is a regression, shrunk towards the best single reference by a ridge of 2 / K of each reference's own scatter
(Hoerl and Kennard 1970; the strength is a choice). Source of the numbers: replay of the GenAI processes. From K = 8 on
the shrunk mix finds as much as the plain one or more, at 0 to 0.2 % false alarms where the plain one has 0.7 %; below
8 the two weights leave too few degrees of freedom (t(99 %, 2) is 7.0 at K = 5), and it finds less than one reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .errors import MeasurementError
from .order_statistics import checked, quantile, spread_ratio

if TYPE_CHECKING:
    from .paired import Paired

FEWEST_FOR_A_CHOICE: Final = 3
"""Below, no spread can be told: the first kind that all processes have is taken."""
FEWEST_FOR_A_MIX: Final = 8
NOISY_SPREAD_RATIO: Final = 0.25
"""Source: facts measured for this project: up to 0.12 was usable, at 0.5 nothing could be judged."""
MIX: Final = "mix"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Fit:
    """What the tested time is divided by. It belongs to the baseline: later processes are compared with the same."""

    kind: str
    """`none`, `mix`, or the kind of the one reference."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Kind -> exponent of its time."""
    spread_log: float | None = None
    """Standard deviation of the logarithm over the stored processes; None where there are too few."""
    fitted_weights: int = 0
    """How many weights were estimated, which `judge_stored` must know."""


def best_reference(processes: Sequence[Paired]) -> Fit:
    """Return the fit that leaves the least spread over these processes; of equal ones the simplest.

    Only kinds that all processes have are considered. With one or two processes the first kind in alphabetical order.

    Raises:
        MeasurementError: There is no process, or a time is not above 0.
    """
    _check(processes)
    kinds = sorted(set.intersection(*(set(each.references_ns) for each in processes)))
    if len(processes) < FEWEST_FOR_A_CHOICE:
        return Fit(kinds[0], {kinds[0]: 1.0}) if kinds else Fit(NONE)
    singles = [Fit(NONE), *(Fit(kind, {kind: 1.0}) for kind in kinds)]
    fits = [_with_spread(fit, processes) for fit in singles]
    if len(kinds) > 1 and len(processes) >= FEWEST_FOR_A_MIX:
        best = min(fits[1:], key=_spread)
        mixes = [_mixed(best, (best.kind, kind), processes) for kind in kinds if kind != best.kind]
        fits += [_with_spread(mix, processes) for mix in mixes]
    return min(fits, key=_spread)


def apply(fit: Fit, process: Paired) -> float:
    """Return the tested time over the fitted reference: what is stored and judged, positive, without a unit of its own.

    Raises:
        MeasurementError: The process has no time of a reference of the fit, or one that is not above 0.
    """
    missing = sorted(set(fit.weights) - set(process.references_ns))
    if missing:
        msg = f"the baseline is relative to the reference {', '.join(missing)}, which this process did not time"
        raise MeasurementError(msg)
    _check([process])
    return math.exp(_log_value(fit, process))


@dataclass(frozen=True, slots=True)
class StoredRatios:
    """Processes of a baseline and of today relative to the same reference workload: what is judged of them."""

    fit: Fit
    stored: Sequence[float]
    current: Sequence[float]


def stored_ratios(stored: Sequence[Paired], current: Sequence[Paired]) -> StoredRatios | None:
    """Return both relative to the reference that explains the stored ones best.

    None where one side has no process, no reference explains the stored ones, or today's is another workload.

    Raises:
        MeasurementError: A time is not above 0.
    """
    if not stored or not current:
        return None
    fit = best_reference(stored)
    specs = stored[0].specs
    is_same = all(kind in specs and specs[kind] == each.specs.get(kind) for each in current for kind in fit.weights)
    if not fit.weights or not is_same:
        return None
    return StoredRatios(fit, [apply(fit, each) for each in stored], [apply(fit, each) for each in current])


def is_noisy_reference(rounds_ns: Sequence[float]) -> bool:
    """Whether IQR / median of the reference's own rounds is above 0.25: then nothing can be judged here.

    With fewer than 4 rounds there are no quartiles and nothing is known: that is noisy too.

    Raises:
        MeasurementError: There is no round, or a time is NaN or infinite.
    """
    ordered = checked(rounds_ns, "round of the reference")
    return len(ordered) < 4 or quantile(ordered, 0.5) <= 0 or spread_ratio(ordered) > NOISY_SPREAD_RATIO


def _log_value(fit: Fit, process: Paired) -> float:
    return math.log(process.tested_ns) - sum(
        weight * math.log(process.references_ns[kind]) for kind, weight in fit.weights.items()
    )


def _with_spread(fit: Fit, processes: Sequence[Paired]) -> Fit:
    values = _centred([_log_value(fit, each) for each in processes])
    freedom = len(values) - 1 - fit.fitted_weights
    spread_log = math.sqrt(math.fsum(value**2 for value in values) / freedom)
    return Fit(fit.kind, fit.weights, spread_log, fit.fitted_weights)


def _spread(fit: Fit) -> float:
    return math.inf if fit.spread_log is None else fit.spread_log


def _mixed(best: Fit, kinds: tuple[str, str], processes: Sequence[Paired]) -> Fit:
    """Return the weights of both kinds, moved from those of `best` by what its rest says, with the ridge.

    It solves the normal equations of two unknowns by Cramer's rule; without scatter of a reference it keeps `best`.
    """
    rest = _centred([_log_value(best, each) for each in processes])
    first, second = (_centred([math.log(each.references_ns[kind]) for each in processes]) for kind in kinds)
    ridge = 1 + 2 / len(processes)
    a, b, c = _dot(first, first) * ridge, _dot(first, second), _dot(second, second) * ridge
    determinant = a * c - b * b
    if not determinant > 1e-9 * max(a, c) ** 2:
        return best
    p, q = _dot(first, rest), _dot(second, rest)
    moved = ((p * c - q * b) / determinant, (q * a - p * b) / determinant)
    weights = {kind: best.weights.get(kind, 0.0) + move for kind, move in zip(kinds, moved, strict=True)}
    return Fit(MIX, weights, fitted_weights=2)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _check(processes: Sequence[Paired]) -> None:
    if not processes:
        msg = "no process was measured"
        raise MeasurementError(msg)
    for process in processes:
        for name, value in (("the model", process.tested_ns), *process.references_ns.items()):
            if not (value > 0 and math.isfinite(value)):
                msg = f"a round of {name} took {value} ns: only positive times have a ratio"
                raise MeasurementError(msg)
