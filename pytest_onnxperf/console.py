"""What the commands of `onnxperf` share: exit codes, and how they print."""

import errno
import os
import sys
from collections.abc import Iterable

SAME, DIFFERS, UNREADABLE = 0, 1, 2
"""Exit codes."""


def write(lines: Iterable[str]) -> None:
    """Print lines; what the terminal's encoding lacks is shown by its code.

    Raises:
        OSError: There is no standard output (`>&-`).
    """
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        print(line.encode(encoding, "backslashreplace").decode(encoding))
