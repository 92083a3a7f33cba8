"""Files of a report: checked before anything is measured, and GitHub's job summary, to which all steps append."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING, Final

from .target import check_target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SUMMARY_BYTES: Final = 1024 * 1024
"""A job summary that is larger is not shown at all. Source: actions/runner, CreateStepSummaryCommand,
`AttachmentSizeLimit`, and GitHub's documentation of workflow commands."""


def check_writable(path: Path, option: str) -> None:
    """Refuse a path to which no file can be written in place; see `check_target`."""

    def try_it() -> None:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not path.exists():
            with tempfile.TemporaryFile(dir=path.parent):
                pass

    check_target(path, option, try_it)


def append_summary(path: Path, page_of: Callable[[int], str]) -> None:
    """Append a page to a job summary, within what is left of its size.

    Args:
        path: As `GITHUB_STEP_SUMMARY` has it.
        page_of: Returns a page of at most so many bytes; empty where none fits.

    Raises:
        OSError: It cannot be written, or there is no room.
    """
    with path.open("ab") as file:
        used = file.seek(0, os.SEEK_END)
        page = page_of(SUMMARY_BYTES - used - 2)  # a blank line before it; and less than the limit
        if not page:
            raise OSError(errno.EFBIG, f"it holds {used} of {SUMMARY_BYTES} bytes already, and no page fits")
        file.write(f"\n{page}".encode() if used else page.encode())
