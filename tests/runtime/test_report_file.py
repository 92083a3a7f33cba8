"""Files of a report: what is refused before anything is measured, and the limit of a job summary."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.runtime.report_file import SUMMARY_BYTES, append_summary, check_writable

if TYPE_CHECKING:
    from pathlib import Path


def filled(path: Path, size: int) -> Path:
    path.write_bytes(b"x" * size)
    return path


def test_a_page_is_appended_after_a_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    append_summary(path, lambda _: "one\n")
    append_summary(path, lambda _: "two\n")
    assert path.read_text("utf-8") == "one\n\ntwo\n"


@pytest.mark.parametrize("used", [0, 1, 1000, SUMMARY_BYTES - 10])
def test_a_summary_stays_under_its_limit_with_what_is_there(tmp_path: Path, used: int) -> None:
    path = filled(tmp_path / "summary.md", used)
    append_summary(path, lambda most_bytes: "y" * most_bytes)
    assert SUMMARY_BYTES - 2 <= path.stat().st_size < SUMMARY_BYTES


@pytest.mark.parametrize("used", [SUMMARY_BYTES, SUMMARY_BYTES + 100])
def test_a_summary_without_room_is_left_as_it_is(tmp_path: Path, used: int) -> None:
    path = filled(tmp_path / "summary.md", used)
    given = []
    with pytest.raises(OSError, match=f"it holds {used} of {SUMMARY_BYTES} bytes already"):
        append_summary(path, lambda most_bytes: given.append(most_bytes) or "")  # type: ignore[func-returns-value]
    assert given[0] < 0
    assert path.stat().st_size == used


def test_a_summary_that_cannot_be_written_raises(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        append_summary(tmp_path, lambda _: "one\n")
    with pytest.raises(FileNotFoundError):
        append_summary(tmp_path / "none" / "summary.md", lambda _: "one\n")


def test_a_file_is_checked_without_being_touched(tmp_path: Path) -> None:
    there, new = filled(tmp_path / "there.md", 3), tmp_path / "a" / "b" / "new.md"
    check_writable(there, "--x")
    check_writable(new, "--x")
    assert there.stat().st_size == 3
    assert new.parent.is_dir()
    assert list(new.parent.iterdir()) == []


def test_what_is_no_file_is_refused_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^--x: expected the path of a file to write, got a directory: "):
        check_writable(tmp_path, "--x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingError, match=r"^--x: expected the path of a file to write, got no regular file: "):
        check_writable(tmp_path / "pipe", "--x")
    filled(tmp_path / "file", 0)
    with pytest.raises(SettingError, match=r"^--x: .*page\.md cannot be written: Not a directory"):
        check_writable(tmp_path / "file" / "page.md", "--x")
    with pytest.raises(SettingError, match=r"^--x: .* cannot be written: File name too long"):
        check_writable(tmp_path / ("x" * 300), "--x")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_what_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "there.md", 3)
    path.chmod(0o444)
    with pytest.raises(SettingError, match="cannot be written: Permission denied"):
        check_writable(path, "--x")
    tmp_path.chmod(0o555)
    with pytest.raises(SettingError, match="cannot be written: Permission denied"):
        check_writable(tmp_path / "new.md", "--x")
