"""Carries what a test measured on its report, through xdist, as plain data: the one dynamic attribute of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .core.outcome import TestOutcome

if TYPE_CHECKING:
    import pytest

_ATTRIBUTE: Final = "onnxperf"


def attach(report: pytest.TestReport, outcome: TestOutcome) -> None:
    """Put the outcome of a test on its report."""
    setattr(report, _ATTRIBUTE, msgspec.to_builtins(outcome))


def detach(report: pytest.TestReport) -> TestOutcome | None:
    """Return the outcome of a test from its report; None where it measured nothing."""
    plain = getattr(report, _ATTRIBUTE, None)
    return None if plain is None else msgspec.convert(plain, TestOutcome)


def is_breach(report: pytest.TestReport) -> bool:
    """Tell whether a test failed because of its budget or baseline."""
    plain = getattr(report, _ATTRIBUTE, None)
    return bool(plain and plain["is_breach"])
