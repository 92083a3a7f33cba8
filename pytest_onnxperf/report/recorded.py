"""What an update recorded, what it could not write, and which tests it left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.units import listed

from .summary import short_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_onnxperf.core.outcome import ReportedTest

_MOST_NAMES: Final = 3


def recorded_lines(
    tests: Sequence[ReportedTest], updated: Sequence[str], not_updated: Sequence[str], *, new_alone: bool = False
) -> list[str]:  # fmt: skip
    """Return the lines; none where no test measures.

    Args:
        tests: Those that measure.
        updated: What was written, a line each.
        not_updated: What could not be, and why.
        new_alone: Whether entries that are there stay, whatever they say.
    """
    left_out = [test for test in tests if not test.has_passed]
    lines = [*updated, *(f"NOT UPDATED: {line}" for line in not_updated)]
    if tests and not lines and not left_out:
        why = "every measurement has an entry, which the mode `new` keeps" if new_alone else "all is as recorded"
        return [f"updated: nothing, {why}"]
    return [*lines, *([_left_out(left_out)] if left_out else [])]


def _left_out(tests: Sequence[ReportedTest]) -> str:
    names: dict[str, list[str]] = {}
    for test in tests:
        names.setdefault(test.ended, []).append(short_test(test.found.nodeid.partition("::")[2]))
    parts = [
        f"{len(found)} {ended}{'s' if ended == 'error' and len(found) > 1 else ''} ({listed(found, _MOST_NAMES)})"
        for ended, found in sorted(names.items())
    ]
    return f"not recorded, since a test must pass: {', '.join(parts)}"
