"""Marks in the log where a measured step begins and ends, so that what the runtime prints has its step."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def mark_log(phase: str) -> Iterator[None]:
    """Write the marks to what the runtime prints on, standard output and standard error; `core.ort_log` reads them."""
    _write(f"\nonnxperf-step begin {phase}\n")
    try:
        yield
    finally:
        _write("\nonnxperf-step end\n")


@contextlib.contextmanager
def no_mark(phase: str) -> Iterator[None]:
    """Write nothing: the output is not a log of this measurement alone."""
    yield


def _write(text: str) -> None:
    for descriptor in (1, 2):
        os.write(descriptor, text.encode())
