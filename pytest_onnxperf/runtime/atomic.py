"""Replaces a file in one step, so that nobody ever reads half of it."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


@contextmanager
def replaced(path: Path, prefix: str = ".onnxperf-") -> Iterator[BinaryIO]:
    """Give a file to write in place of `path`, which it replaces when the block ends; not where the block raises.

    A link stays one: what it points to is replaced. Until then the file stands beside it, with `prefix` and `.tmp`.

    Raises:
        OSError: It cannot be written; the old file is left as it was.
    """
    path = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
