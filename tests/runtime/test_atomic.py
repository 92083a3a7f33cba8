"""A file replaced in one step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.runtime.atomic import replace_file, replaced

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "file"
    replace_file(path, b"old")
    path.chmod(0o600)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_where_the_writer_fails_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(MemoryError), replaced(path) as file:
        file.write(b"half" * file.fileno() + bytes(1 << 62))
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    """As root a rename onto a device would take it from the whole machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(OSError, match="it is no regular file"):
            replace_file(path, b"new")
    assert pipe.is_fifo()
