"""The words for how a comparison or a limit came out. Every one of them appears as it is in reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Word(StrEnum):
    """A word with its meaning, which `onnxperf reference` prints."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        """Make the member of a line `NAME = word, meaning`; `State(word)` finds it."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class State(Word):
    """How one fact or metric compares with its baseline. Only `regressed` fails a test by default."""

    OK = "ok", "As recorded, or within the tolerance."
    REGRESSED = "regressed", "Worse than recorded, beyond the tolerance."
    IMPROVED = "improved", "Better than recorded, beyond the tolerance: worth an update."
    NO_BASELINE = "no-baseline", "Nothing was recorded to compare with."
    OTHER_ENVIRONMENT = "other-environment", "Recorded on another device only, where this quantity cannot be compared."
    CHANGED = "changed", "A fact without a better side differs, such as the nodes of one op type."
    UNSTABLE = "unstable", "A fact differs between the measured runs of one session."
    NOISY = "noisy", "The processes disagree by more than the tolerance: no verdict is possible."
    DISTURBED = "disturbed", "The device was busy with something else, or throttled, while this was measured."
    CANNOT_TELL = "cannot-tell", "It could not be measured at all, with the reason."

    @property
    def severity(self) -> int:
        """Rank for sorting, worst first: 0 is `regressed`, the highest is `ok`."""
        return _ORDER.index(self)


_ORDER = (
    State.REGRESSED,
    State.CANNOT_TELL,
    State.UNSTABLE,
    State.DISTURBED,
    State.NOISY,
    State.NO_BASELINE,
    State.OTHER_ENVIRONMENT,
    State.CHANGED,
    State.IMPROVED,
    State.OK,
)


class Limit(Word):
    """How a budget came out: three-valued, since what was not seen is neither held nor broken."""

    HELD = "held", "Measured, and within the limit."
    BROKEN = "broken", "Measured, and beyond the limit: the test fails, and its state is `over budget`."
    CANNOT_TELL = (
        "cannot tell",
        "It could not be measured: the test fails, or does as `onnxperf_unverifiable` says.",
    )
