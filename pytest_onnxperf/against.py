"""`--onnxperf-against` in a session: its reference, resolved once, and how a test is measured and judged against it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from .core.against import Against, floor_of, judge_against
from .core.errors import OnnxPerfError, SettingError
from .core.judge import Policy
from .runtime.against import FLAG, NotComparableError, Reference, resolve
from .runtime.against_job import AgainstMeasurement
from .session import BUDGETS

if TYPE_CHECKING:
    from pathlib import Path

    from .core.judge import Verdict
    from .core.record import Record, TestKey
    from .core.stages import Tell
    from .runtime.plan import Plan, Subject
    from .runtime.worktree import Worktree
    from .session import ActiveSession
    from .settings import Settings

REFERENCE: pytest.StashKey[Reference] = pytest.StashKey()
WORKTREE: pytest.StashKey[Worktree] = pytest.StashKey()
"""Of a revision, in the process that made it."""


def reference_of(config: pytest.Config, settings: Settings) -> Reference | None:
    """Return the reference of a session, which is resolved and checked when this is first asked; None without one.

    Raises:
        UsageError: It cannot be used, or other options do not go with it.
    """
    if not settings.against:
        return None
    if REFERENCE not in config.stash:
        try:
            _check(settings)
            reference, worktree = resolve(settings.against, settings.root)
        except OnnxPerfError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[REFERENCE] = reference
        if worktree is not None:
            config.stash[WORKTREE] = worktree
    return config.stash[REFERENCE]


def _check(settings: Settings) -> None:
    if settings.update:
        msg = (
            f"{FLAG} and --onnxperf-update do not go together: a comparison with a reference stores nothing. Record "
            f"baselines in a run of its own"
        )
        raise SettingError(msg)
    if settings.isolation == "none":
        msg = f"{FLAG} needs measuring processes, two that are timed in turn: leave --onnxperf-isolation=none out"
        raise SettingError(msg)


def plain(reference: Reference) -> dict[str, Any]:
    """Return a reference as plain data for a worker of pytest-xdist."""
    return asdict(reference)


def take(config: pytest.Config, found: dict[str, Any]) -> None:
    """Take the reference that the controller resolved."""
    config.stash[REFERENCE] = Reference(**found)


def close(config: pytest.Config) -> None:
    """Remove the worktree that this process made."""
    if WORKTREE in config.stash:
        config.stash[WORKTREE].remove()
        del config.stash[WORKTREE]


class TestAgainst:
    """One test under `--onnxperf-against`."""

    __test__ = False  # the name begins with Test, and pytest must not collect it

    def __init__(self, active: ActiveSession, item: pytest.Item, reference: Reference) -> None:
        self._active, self._item, self._reference = active, item, reference
        self._settings = active.settings_of(item)
        self._budgets = item.stash[BUDGETS]

    def measurement(self, subject: Subject, plan: Plan, directory: Path, tell: Tell) -> AgainstMeasurement:
        """Return the measurement of both arms; `tell` hears what goes on.

        Raises:
            NotComparableError: The reference has no counterpart of the model.
            OnnxPerfError: It has one that cannot be used, or the test demands `isolation="none"`.
        """
        _check(self._settings)
        subject.size_bytes()  # a model that is not there at all is said first
        counterpart = self._reference.counterpart(subject)
        environment = self._active.environment_of(subject.provider, subject.provider_options)
        tolerance = self._settings.tolerance if self._settings.is_tolerance_given else None
        floor_ratio = floor_of(self._budgets, environment, tolerance)
        return AgainstMeasurement(
            subject, counterpart, plan, directory, tell, reference=self._reference, floor_ratio=floor_ratio
        )

    def judge(self, measurement: AgainstMeasurement, key: TestKey, record: Record) -> tuple[Verdict, Against]:
        """Judge what was measured, and say against what."""
        settings = self._settings
        reference, turns = measurement.reference_record(key), measurement.turns()
        policy = Policy(settings.tolerance, settings.strict, settings.unverifiable)
        verdict = judge_against(record, reference, turns, self._budgets, policy)
        versions = dict(reference.environment.versions)
        files, note = measurement.changed_files(), self._reference.note
        return verdict, Against(self._reference.text, versions, turns, files, note)

    def not_compared(self, model_text: str, why: str) -> Against:
        """Say that nothing can be compared, as `onnxperf_unverifiable` wants: it is no pass.

        Raises:
            NotComparableError: The test fails.
        """
        if self._settings.unverifiable == "pass":
            return Against(self._reference.text, why_not=why)
        msg = f"{model_text} cannot be compared with {self._reference.text}, so that nothing can be told: {why}"
        if self._settings.unverifiable == "skip":
            raise pytest.skip.Exception(msg, _use_item_location=True)  # its place is the test
        msg += "\n\nA test that cannot be compared fails (onnxperf_unverifiable = fail, skip or pass)."
        raise NotComparableError(msg)
