"""`Outcome`: one measurement and its verdict; `TestOutcome`: all of one test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .ab import AbRecord
from .against import Against
from .explanation import Explanation
from .judge import Verdict
from .matrix_place import MatrixPlace
from .record import Record
from .stages import Spent


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement and its verdict."""

    record: Record
    verdict: Verdict
    updatable: bool = False
    """True where an update may record it."""
    explanation: Explanation | None = None
    """Why the facts are what they are, where that was asked for or a fact failed."""
    against: Against | None = None
    """What it was compared with under `--onnxperf-against`, instead of a baseline."""
    kept: str = ""
    """Path of its profile, beside the logs of its processes, where they were kept."""


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """All measurements of one test."""

    __test__ = False  # the name begins with Test, and pytest must not collect it

    nodeid: str
    outcomes: tuple[Outcome, ...]
    is_breach: bool = False
    """True where the test failed because of its budget or baseline, and not by an error."""
    comparisons: tuple[AbRecord, ...] = ()
    """What it compared by `onnx_compare`."""
    place: MatrixPlace | None = None
    """Where it stands in a matrix; None for a test of none."""
    spent: tuple[Spent, ...] = ()
    """Where the time of its measurements and comparisons went."""


Ended = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""How a test came out, as pytest says it; `error` is a failure outside of its call."""


@dataclass(frozen=True, slots=True)
class ReportedTest:
    """One test that measures, as the reports of its session leave it."""

    found: TestOutcome
    """Without measurements where it was skipped or failed before the first."""
    ended: Ended
    message: str = ""
    """Why it failed, was skipped or was expected to fail."""
    path: str = ""
    """Of its file, from pytest's root directory."""
    line: int = 1
    """Where the test begins in it, from 1."""
    duration_s: float = 0.0
    """Of setup, call and teardown."""

    @property
    def has_failed(self) -> bool:
        """Whether it fails the session."""
        return self.ended in ("failed", "error")

    @property
    def is_by_performance(self) -> bool:
        """Whether it failed, and its budget, its baseline or what it requires would have failed it."""
        fails = any(outcome.verdict.fails for outcome in self.found.outcomes)
        return self.has_failed and (self.found.is_breach or fails)

    @property
    def has_passed(self) -> bool:
        """Whether what it measured may be recorded."""
        return self.ended in ("passed", "xpassed")
