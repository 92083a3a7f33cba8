"""What is known when advice is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .explanation import Explanation, ModelExplanation
from .providers import CPU
from .record import Record

ASKED: Final = "asked"
"""Stands for a question about time where nothing failed."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when advice is asked for."""

    record: Record
    failed: frozenset[str]
    """What broke a budget or got worse: names of facts and metrics, without phases; or what was asked about."""
    explanation: Explanation | None = None
    over_budget: frozenset[str] = frozenset()
    """Keys of the budgets that were broken, without phases."""

    @property
    def is_on_cpu(self) -> bool:
        """Whether the CPU was asked for, where nothing falls back."""
        return self.record.environment.execution_provider == CPU

    @property
    def models(self) -> tuple[ModelExplanation, ...]:
        """What explains the sessions of the model."""
        return self.explanation.models if self.explanation else ()
