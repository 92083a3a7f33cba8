"""A file replaced in one step, so that a reader sees the old content or the new and never a part."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path


def replace_file(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replace a file, for one who is its only writer. A link stays one: what it points to is replaced.

    Args:
        path: The file; its directory is made if need be.
        data: The new content.
        is_durable: True: the content is on the disk first, so that a power failure leaves one of both. False: that
            holds for the end of this process alone, however it comes, and costs no wait for the disk.

    Raises:
        OSError: It cannot be written; it is left as it was.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{sha256(path.name.encode()).hexdigest()[:16]}."
    for left in path.parent.glob(f"{prefix}*.tmp"):  # of a writer that was killed
        left.unlink(missing_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
