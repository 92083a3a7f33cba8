"""A file replaced in one step, so that a reader sees the old content or the new and never a part."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def replace_file(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Replace a file, for one who is its only writer; see `replaced`. What a killed writer left beside it is removed.

    Args:
        path: The file; its directory is made if need be.
        data: The new content.
        is_durable: As for `replaced`.

    Raises:
        OSError: It cannot be written; it is left as it was.
    """
    path = Path(os.path.realpath(path))
    prefix = f".{sha256(path.name.encode()).hexdigest()[:16]}."
    for left in path.parent.glob(f"{prefix}*.tmp"):
        left.unlink(missing_ok=True)
    with replaced(path, prefix, is_durable=is_durable) as file:
        file.write(data)


@contextmanager
def replaced(path: Path, prefix: str = ".onnxperf-", *, is_durable: bool = True) -> Iterator[BinaryIO]:
    """Give a file to write in place of `path`, which it replaces when the block ends; not where the block raises.

    A link stays one: what it points to is replaced. Until then the file stands beside it, with `prefix` and `.tmp`.

    Args:
        path: The file; its directory is made if need be.
        prefix: Of the name of the file to write.
        is_durable: True: the content is on the disk first, so that a power failure leaves one of both. False: that
            holds for the end of this process alone, however it comes, and costs no wait for the disk.

    Raises:
        OSError: It cannot be written; the old file is left as it was.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():  # a device, which would be gone for everybody
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
