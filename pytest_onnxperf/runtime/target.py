"""The path of a file to write, checked before anything is measured."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from pytest_onnxperf.core.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def journal_of(path: Path) -> Path:
    """Return where the journal of the file of --onnxperf-json is."""
    return path.with_name(f"{path.name}.journal")


def check_target(path: Path, option: str, try_it: Callable[[], None]) -> None:
    """Refuse a path that no file can be written to; make its directory.

    Args:
        path: Where a file is to be.
        option: Which named it, for the message.
        try_it: Tries what its writer will do, once the directory is there, without touching the file.

    Raises:
        SettingError: It is a directory or no regular file, or it or its directory cannot be written.
    """
    try:
        _check_links(path)
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            what = "a directory" if path.is_dir() else "no regular file"
            msg = f"{option}: expected the path of a file to write, got {what}: {path}"
            raise SettingError(msg)
        _make_directory(path.parent)
        try_it()
    except OSError as error:
        msg = f"{option}: {path} cannot be written: {error.strerror}"
        raise SettingError(msg) from error


def _check_links(path: Path) -> None:
    try:
        path.resolve()
    except RuntimeError as error:  # a loop, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # which is what it says of a file in the way
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
