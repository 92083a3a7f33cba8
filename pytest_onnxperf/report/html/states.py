"""The state of a test: one word, its place in the order, worst first, and the mark and colour that go with the word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .markup import Markup, element

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Test

_KINDS: Final = {
    "bad": ("error", "failed", "over budget", "broken", "regressed", "outputs differ"),
    "warn": ("cannot tell", "cannot-tell", "unstable", "disturbed", "noisy"),
    "none": ("no-baseline", "other-environment", "changed", "skipped", "xfailed", "xpassed", "not asked"),
    "good": ("improved", "held", "ok", "passed"),
}
"""Kind of a state -> its words, worst first. Those of comparisons stand in the order of `State.severity`."""
_ORDER: Final = {word: place for place, word in enumerate(word for words in _KINDS.values() for word in words)}
_KIND: Final = {word: kind for kind, words in _KINDS.items() for word in words}
_MARKS: Final = {"bad": "\N{MULTIPLICATION X}", "warn": "?", "none": "\N{EN DASH}", "good": "\N{CHECK MARK}"}
_FAILED: Final = frozenset({"failed", "error"})


def kind_of(state: str) -> str:
    """Return `bad`, `warn`, `none` or `good`; a word that is not known is `none`."""
    return _KIND.get(state, "none")


def state_of(test: Test) -> str:
    """Return the one word of a test: how it came out by pytest where that says more, else its worst measurement."""
    if test.outcome in _FAILED and not test.is_breach:
        return test.outcome
    states = [each.state for each in test.measurements] + [each.state for each in test.comparisons]
    return min(filter(None, states), key=place, default=str(test.outcome))


def fails(test: Test) -> bool:
    """Return whether the test failed."""
    return test.outcome in _FAILED


def severity(test: Test) -> tuple[bool, int]:
    """Rank a test for sorting, worst first."""
    return not fails(test), place(state_of(test))


def place(state: str) -> int:
    """Rank a word for sorting, worst first; one that is not known stands with those that say nothing."""
    return _ORDER.get(state, _ORDER["no-baseline"])


def chip(state: str, *, is_failing: bool = False) -> Markup:
    """Return a state as a mark and a word; its colour says nothing that the two do not."""
    kind = "bad" if is_failing else kind_of(state)
    words = f"fails: {state}" if is_failing and kind_of(state) != "bad" else state
    return element("span", element("span", _MARKS[kind], aria_hidden="true"), f" {words}", class_=f"chip {kind}")
