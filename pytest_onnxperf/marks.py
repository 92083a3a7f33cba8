"""The markers: `onnx_budget` declares limits, `onnx_measure` sets options for a test. Nearest wins per key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.budget import Budget, parse_budget
from .core.errors import BudgetError, SettingError
from .declare import BUDGET, MEASURE
from .settings import Settings, with_marker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from .core.limits import Value


def budgets_of(item: pytest.Item) -> tuple[Budget, ...]:
    """Return the budgets of a test, one for each `on`, each merged from all markers with that `on`.

    Raises:
        BudgetError: A key or a value of a marker is wrong; the message names the marker's place.
    """
    merged: dict[str, dict[str, Value]] = {}
    for where, mark in _nearest_first(item, BUDGET):
        keywords = _keywords(mark, where)
        try:
            budget = parse_budget(keywords)
        except BudgetError as error:
            msg = f"@pytest.mark.{BUDGET} {where}: {error}"
            raise BudgetError(msg) from None
        limits = merged.setdefault(budget.on, {})
        for name, value in budget.limits.items():
            limits.setdefault(name, value)
    return tuple(Budget(limits, on) for on, limits in merged.items())


def settings_of(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings of a session as the `onnx_measure` markers of a test change them.

    Raises:
        SettingError: A key or a value of a marker is wrong; the message names the marker's place.
    """
    given: dict[str, object] = {}
    places: dict[str, str] = {}
    for where, mark in _nearest_first(item, MEASURE):
        for name, value in _keywords(mark, where).items():
            given.setdefault(name, value)
            places.setdefault(name, where)
    for name, value in given.items():
        settings = with_marker(settings, {name: value}, f"@pytest.mark.{MEASURE} {places[name]}")
    return settings


def _keywords(mark: pytest.Mark, where: str) -> Mapping[str, object]:
    if mark.args:
        error = BudgetError if mark.name == BUDGET else SettingError
        msg = f"@pytest.mark.{mark.name} {where}: takes keyword arguments only, got {mark.args[0]!r}"
        raise error(msg)
    return mark.kwargs


def _nearest_first(item: pytest.Item, name: str) -> Iterator[tuple[str, pytest.Mark]]:
    """Yield the markers of a test with their places: of the parameter, the function, its classes, the module."""
    of_parameter = [mark for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == name]
    path, line, _ = item.location
    for mark in of_parameter:
        yield f"of the parameter at {path}:{(line or 0) + 1}", mark
    for node, mark in item.iter_markers_with_node(name):
        if not any(mark is other for other in of_parameter):
            is_item = node is item
            yield (f"at {path}:{(line or 0) + 1}" if is_item else f"of {node.nodeid or path}"), mark
