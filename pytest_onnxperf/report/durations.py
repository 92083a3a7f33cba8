"""Where the time of measurements went: the lines of --onnxperf-durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .wrap import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.stages import Spent

_INDENT: Final = " " * 11
_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
_LEAST_S: Final = 0.005
"""What rounds to nothing is left out, as pytest does."""


def duration_lines(spent: Sequence[Spent]) -> Iterator[str]:
    """Yield the whole time of each measurement with its name, and below it its stages, the longest first."""
    for each in spent:
        yield f"{each.total_s:>8.2f}s  {each.key.module}::{each.key.entry}"
        stages = sorted(each.stages_s.items(), key=lambda stage: -stage[1])
        shown = [f"{name} {seconds:.2f}" for name, seconds in stages if seconds >= _LEAST_S]
        whole = ", ".join(part.replace(" ", _UNBROKEN) for part in shown)
        yield from (line.replace(_UNBROKEN, " ") for line in wrapped(_INDENT + whole, _INDENT))
    if not spent:
        yield "nothing was measured"
