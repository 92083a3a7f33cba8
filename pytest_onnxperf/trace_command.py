"""`onnxperf trace`: a profile as a trace, written in one step beside nothing else."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from .core.chrome_trace import TraceSummary, write_trace
from .core.errors import ProfileMissing, SettingError
from .core.text import printable
from .report.wrap import wrapped
from .runtime.atomic import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def run(profile: Path, output: Path, warmup_runs: int) -> list[str]:
    """Write the trace of a profile and return what to say about it, as lines.

    Raises:
        ProfileError: The profile cannot be used.
        SettingError: The output cannot be written, or is the profile.
    """
    _check(profile, output)
    try:
        with _written(output) as out, tempfile.TemporaryFile(dir=output.resolve().parent) as spool:
            summary = write_trace(profile, out, cast("BinaryIO", spool), warmup_runs)
    except OSError as error:
        msg = f"{output}: the trace cannot be written: {error.strerror or error}"
        raise SettingError(msg) from error
    return _lines(output, summary)


def _check(profile: Path, output: Path) -> None:
    """Refuse what would hang, or destroy what is there."""
    if _is_other_than_file(profile):
        msg = f"{profile}: not a regular file, and a profile is read twice: write it to a file first"
        raise ProfileMissing(msg)
    try:
        is_profile = profile.samefile(output)
    except (OSError, ValueError):
        is_profile = False
    if is_profile:
        msg = f"{output}: is the profile itself: give -o another name"
        raise SettingError(msg)
    if output.is_dir():
        msg = f"{output}: is a directory: give -o the name of a file"
        raise SettingError(msg)
    if _is_other_than_file(output):
        msg = f"{output}: exists and is not a regular file, and would be replaced: give -o another name"
        raise SettingError(msg)


def _is_other_than_file(path: Path) -> bool:
    """True: a pipe, a device or a socket. What is not there, or cannot be looked at, is said by who opens it."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def _written(output: Path) -> Iterator[BinaryIO]:
    with replaced(output) as file:
        if output.suffix.lower() != ".gz":
            yield file
            return
        # Neither name nor time of writing: one profile gives one file, byte for byte.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
            yield cast("BinaryIO", compressed)


def _lines(output: Path, summary: TraceSummary) -> list[str]:
    size_mib = os.stat(output).st_size / (1 << 20)
    lines = [f"{printable(str(output))}: {summary.events:,} events on {summary.tracks} tracks, {size_mib:.1f} MiB"]
    for note in summary.notes:
        lines += wrapped(f"Note: {printable(note)}", "  ")
    return [*lines, "Open it at https://ui.perfetto.dev"]
