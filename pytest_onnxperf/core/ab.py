"""A/B in one process: two arms timed in turn, their outputs compared, and whether a requirement on the ratio holds.

The statistics are those of `pairs`. A requirement is a limit on time of candidate / time of reference, three-valued:

- `min_speedup` is a claim, and must be proven: it holds where the whole interval does.
- `max_slowdown` guards against a loss, by the rule of `pairs` (at 1.02 it is the same): the median decides, and the
  interval may reach beyond the limit by as much as a file differs from itself, 2 %.

What does not hold in one process, or nearly does not, is decided by three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from .errors import SettingError
from .pairs import FEWEST_PAIRS, FLOOR_RATIO, PairVerdict, is_noisy_aa, judge_repetitions, log_ratio
from .record import Record, TestKey
from .states import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

REFERENCE: Final = "reference"
CANDIDATE: Final = "candidate"
ARMS: Final = (REFERENCE, CANDIDATE)
_PRECISE_LOG: Final = 0.005
"""Half an interval that is narrow enough to stop, a quarter of the floor; or a twentieth of a larger difference. The
rule looks at the width alone and not at which side of a limit it lies, so that it favours no verdict."""
_PRECISE_SHARE: Final = 0.05

Pairs = tuple[tuple[int, int], ...]
"""Times of one round of reference and candidate, in ns."""
TimedPairs = Mapping[str, Pairs]
"""Metric -> its pairs, of one process. The first metric is that of a whole round."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """How the outputs of both arms compare, on the same feeds."""

    state: Literal["equal", "differ", "cannot tell", "not checked"]
    """`equal` within the tolerances."""
    text: str = ""
    """For people: the largest difference and where it is, or why it cannot be told."""
    largest_difference: float = math.nan
    """Of two numbers at the same place, absolute; NaN where none were compared."""


@dataclass(frozen=True, slots=True)
class AaSensor:
    """The reference against itself: what the machine makes of two arms that do not differ."""

    ratio: float
    """Median of the medians of its processes."""
    is_noisy: bool
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a test requires of the ratio, and how it came out."""

    text: str
    """As the test wrote it: `min_speedup=1.5`, with the metric where there are several."""
    metric: str
    limit_ratio: float
    """Time of candidate / time of reference that is allowed."""
    slack_ratio: float
    """By which the interval may reach beyond it."""
    state: Limit = Limit.CANNOT_TELL
    why: str = ""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Time of reference / time of candidate: above 1 the candidate is faster."""

    ratio: float
    """The median of the pairs."""
    low: float
    high: float
    """Ends of its 99 % interval."""


@dataclass(frozen=True, slots=True)
class AbRecord:
    """All that one call of `onnx_compare` or `genai_compare` found out. Plain data, so that it can cross a worker."""

    key: TestKey
    reference: Record
    candidate: Record
    times: Mapping[str, PairVerdict]
    """Metric -> time of candidate / time of reference, that of a whole round first; empty where nothing was timed."""
    outputs: Outputs
    pairs: int = 0
    processes: int = 0
    loaded_first: tuple[str, ...] = ()
    """Which arm was loaded first, by process."""
    sensor: AaSensor | None = None
    settings: Mapping[str, Mapping[str, str]] | None = None
    """Arm -> what is set in it and not in the other."""
    why_not: str = ""
    """Why nothing was compared; empty where it was."""
    requirements: tuple[Requirement, ...] = ()

    def speedup(self, metric: str = "") -> Speedup:
        """Return how much faster the candidate is; NaN where nothing was timed.

        Args:
            metric: One of `times`; that of a whole round where it is empty.

        Raises:
            SettingError: There is no such metric.
        """
        if not self.times:
            return Speedup(math.nan, math.nan, math.nan)
        times = self.times[metric_among(self.times, metric or next(iter(self.times)))]
        ratio = _inverse(times.ratio)
        return Speedup(ratio, min(_inverse(times.high_ratio), ratio), max(_inverse(times.low_ratio), ratio))

    @property
    def noise(self) -> str:
        """Why no ratio of this session can be trusted; empty where it can."""
        if self.sensor is None or not self.sensor.is_noisy:
            return ""
        how = f"differs by {abs(self.sensor.ratio - 1):.1%} here, beyond {FLOOR_RATIO - 1:.0%}"
        if self.sensor.processes > 1:
            how = f"differs by more than {FLOOR_RATIO - 1:.0%} in most of {self.sensor.processes} processes of its own"
        return f"noisy: the reference against itself {how}"

    @property
    def state(self) -> str:
        """One word: of its requirements the worst, else `noisy`, `outputs differ`, or empty."""
        for limit in (Limit.BROKEN, Limit.CANNOT_TELL):
            if any(each.state is limit for each in self.requirements):
                return str(limit)
        if self.why_not:
            return str(Limit.CANNOT_TELL)
        if self.outputs.state == "differ":
            return "outputs differ"
        if self.noise:
            return "noisy"
        return str(Limit.HELD) if self.requirements else ""


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else math.inf


def metric_among(names: Iterable[str], metric: object) -> str:
    """Return a metric that two arms were timed for.

    Raises:
        SettingError: It is none of them.
    """
    known = list(names)
    if isinstance(metric, str) and metric in known:
        return metric
    msg = f"metric: the two arms were not timed for {metric!r:.80}, but for {', '.join(known)}"
    raise SettingError(msg)


def timed_of(processes: Sequence[TimedPairs]) -> dict[str, PairVerdict]:
    """Judge each metric by its pairs of one process, or of three.

    Raises:
        MeasurementError: There is no pair, or they are two processes or more than three.
    """
    return {name: judge_repetitions([each[name] for each in processes]) for name in processes[0]}


def is_precise(pairs: Pairs) -> bool:
    """Whether the interval is so narrow that more pairs of this process say no more."""
    if len(pairs) < FEWEST_PAIRS:
        return False
    verdict = judge_repetitions([pairs])
    if not (verdict.low_ratio > 0 and math.isfinite(verdict.high_ratio)):
        return False
    width = math.log(verdict.high_ratio / verdict.low_ratio)
    return width <= 2 * max(_PRECISE_LOG, _PRECISE_SHARE * abs(math.log(verdict.ratio)))


def sensor_of(processes: Sequence[Pairs]) -> AaSensor:
    """Judge a model against itself, in one process or, where that one was off, in three: most of them decide."""
    logs = [[log_ratio(*pair) for pair in pairs] for pairs in processes]
    ratio = math.exp(median(median(each) for each in logs))
    return AaSensor(ratio, sum(map(is_noisy_aa, logs)) * 2 > len(logs), len(logs))


def requirements_of(
    min_speedup: float | None, max_slowdown: float | None, metrics: Sequence[str], *, are_named: bool = False
) -> tuple[Requirement, ...]:
    """Return what is required of each metric; `are_named` puts its name in the text.

    >>> requirements_of(1.25, None, ["latency_p50"])[0].limit_ratio
    0.8
    """
    required = []
    for metric in metrics:
        of = f" of {metric}" if are_named else ""
        if min_speedup is not None:
            required.append(Requirement(f"min_speedup={min_speedup:g}{of}", metric, 1 / min_speedup, 1.0))
        if max_slowdown is not None:
            required.append(Requirement(f"max_slowdown={max_slowdown:g}{of}", metric, max_slowdown, FLOOR_RATIO))
    return tuple(required)


def judged(requirement: Requirement, record: AbRecord) -> Requirement:
    """Judge a requirement: outputs first, since a faster wrong answer is no speed-up."""
    state, why = _state(requirement, record)
    return replace(requirement, state=state, why=why)


def _state(requirement: Requirement, record: AbRecord) -> tuple[Limit, str]:
    if record.outputs.state == "differ":
        return Limit.BROKEN, f"outputs differ: {record.outputs.text}"
    times = record.times.get(requirement.metric)
    if times is None:
        return Limit.CANNOT_TELL, record.why_not
    if record.outputs.state == "cannot tell":
        return Limit.CANNOT_TELL, f"outputs cannot be compared: {record.outputs.text}"
    if record.noise:
        return Limit.CANNOT_TELL, record.noise
    limit, slack = requirement.limit_ratio, requirement.slack_ratio
    if times.ratio <= limit and times.high_ratio <= limit * slack:
        return Limit.HELD, ""
    if times.ratio > limit and times.low_ratio > limit / slack:
        return Limit.BROKEN, ""
    if math.isinf(times.high_ratio) or times.low_ratio == 0:
        return Limit.CANNOT_TELL, times.reason
    return Limit.CANNOT_TELL, "the interval reaches to both sides of the limit"


def needs_more(requirement: Requirement, record: AbRecord) -> bool:
    """Whether two more processes should decide: it does not hold, or only just, and more pairs can tell."""
    times = record.times.get(requirement.metric)
    if times is None or record.outputs.state in ("differ", "cannot tell") or record.noise:
        return False
    margin = math.sqrt(FLOOR_RATIO)  # half of the floor, as `PairVerdict.is_suspicious`
    is_close = times.ratio * margin > requirement.limit_ratio
    return record.processes == 1 and (is_close or judged(requirement, record).state is not Limit.HELD)
