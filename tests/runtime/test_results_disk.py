"""The file of results on disk: valid at any moment, lossless beside its journal, and not written once a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.core.errors import ResultsError, SettingError
from pytest_onnxperf.core.results_text import encode, read_results
from pytest_onnxperf.runtime import results_disk
from pytest_onnxperf.runtime.git_head import git_head
from pytest_onnxperf.runtime.results_disk import ResultsWriter, check_writable, read_file
from tests.results import run, session_outcome, test_of

if TYPE_CHECKING:
    from pytest_onnxperf.core.results import Results

OPEN = run(is_complete=False)
MEASURED = test_of("t.py::a", session_outcome())


def names(results: Results) -> list[str]:
    return [test.nodeid for test in results.runs[0].tests]


def test_a_file_is_there_and_valid_before_the_first_test(tmp_path: Path) -> None:
    ResultsWriter(tmp_path / "r.json").begin(OPEN)

    found = read_file(tmp_path / "r.json")
    assert names(found) == []
    assert not found.runs[0].is_complete


def test_no_finished_test_is_missing_at_any_moment_and_the_file_alone_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    writer = ResultsWriter(path)
    writer.begin(OPEN)
    behind = 0
    for number in range(100):
        writer.add(OPEN, test_of(f"t.py::{number}", session_outcome()))
        alone = len(read_results(path.read_bytes(), "r").runs[0].tests)
        behind = max(behind, number + 1 - alone)
        assert len(names(read_file(path))) == number + 1

    assert 0 < behind <= 100 * 0.25, "the file alone is behind by its new share at most"


def test_a_run_that_ends_writes_all_and_leaves_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    writer = ResultsWriter(path)
    writer.begin(OPEN)
    for number in range(40):
        writer.add(OPEN, test_of(f"t.py::{number}"))
    writer.end(run())

    assert len(read_results(path.read_bytes(), "r").runs[0].tests) == 40
    assert [each.name for each in tmp_path.iterdir()] == ["r.json"]


def test_a_test_that_runs_again_takes_the_place_of_its_first_result(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    writer = ResultsWriter(path)
    writer.begin(OPEN)
    for outcome in ("failed", "passed"):
        writer.add(OPEN, test_of("t.py::a", outcome=outcome))

    assert [test.outcome for test in read_file(path).runs[0].tests] == ["passed"]


@pytest.mark.parametrize("tests", [1000, 10_000])
def test_what_is_written_grows_with_the_results_and_not_with_their_square(tmp_path: Path, tests: int) -> None:
    path = tmp_path / "r.json"
    writer = ResultsWriter(path)
    writer.begin(OPEN)
    line = len(encode(MEASURED))
    for number in range(tests):
        writer.add(OPEN, test_of(f"t.py::{number}", *[session_outcome()] * (number == 0), message="x" * line))
    writer.end(run())

    size = path.stat().st_size
    assert size > tests * line
    assert writer.written_bytes <= 6 * size, "1 + 1 / 0.25 times, and once at the end"
    assert len(names(read_file(path))) == tests


def test_a_journal_that_a_killed_run_left_is_gone_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    killed = ResultsWriter(path)
    killed.begin(OPEN)
    killed.add(OPEN, MEASURED)

    ResultsWriter(path).begin(run(is_complete=False, started="later"))

    assert names(read_file(path)) == []


KILLED = """
import itertools, sys
from pathlib import Path
from pytest_onnxperf.runtime.results_disk import ResultsWriter
from tests.results import run, test_of
writer = ResultsWriter(Path(sys.argv[1]))
open_run = run(is_complete=False)
writer.begin(open_run)
for number in itertools.count():
    writer.add(open_run, test_of(f"t.py::{number}", message="x" * 2000))
    print(number, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.parametrize("tests", [1, 7, 60, 300])
def test_after_kill_9_the_file_is_valid_and_holds_all_that_had_ended(tmp_path: Path, tests: int) -> None:
    path = tmp_path / "r.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        ended = next(int(line) for line in process.stdout if int(line) + 1 >= tests) + 1
        process.send_signal(signal.SIGKILL)

    alone = read_results(path.read_bytes(), "r")
    whole = names(read_file(path))
    assert len(alone.runs[0].tests) >= ended * 0.75 - 1
    assert len(whole) >= ended
    assert whole == [f"t.py::{number}" for number in range(len(whole))]


def test_a_disk_that_cannot_be_written_is_said_and_the_tests_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.json"
    writer = ResultsWriter(path)
    writer.begin(OPEN)
    with monkeypatch.context() as full:
        full.setattr(results_disk, "replace_file", no_space)
        writer.add(OPEN, MEASURED)
        assert writer.error == "No space left on device"
    assert names(read_file(path)) == ["t.py::a"], "the journal has it"

    writer.end(run())

    assert writer.error == ""
    assert names(read_results(path.read_bytes(), "r")) == ["t.py::a"]


def no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


# -- where it may be written -------------------------------------------------------------------------------------------


def test_a_path_that_can_be_written_is_taken_and_its_directory_made(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b" / "r.json", "--onnxperf-json")

    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_file_that_is_there_stays_as_it_was_when_it_is_checked(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("old")

    check_writable(tmp_path / "r.json", "--onnxperf-json")

    assert (tmp_path / "r.json").read_text() == "old"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param(".", "--x: expected the path of a file to write, got a directory: ", id="a directory"),
        pytest.param("/dev/null", "--x: expected the path of a file to write, got no regular file: ", id="a device"),
        pytest.param("file/r.json", "Not a directory", id="below a file"),
        pytest.param("/proc/r.json", "--x: /proc/r.json cannot be written: ", id="where no file can be"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SettingError) as error:
        check_writable(tmp_path / path, "--x")

    assert says in str(error.value)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write every file")
def test_a_file_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("")
    (tmp_path / "r.json").chmod(0o444)

    with pytest.raises(SettingError, match="may not be written"):
        check_writable(tmp_path / "r.json", "--x")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError) as error:
        read_file(tmp_path / "r.json")

    assert str(error.value) == f"{tmp_path / 'r.json'}: cannot be read: No such file or directory"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "r.json")
    writer = ResultsWriter(tmp_path / "link.json")
    writer.begin(OPEN)
    writer.end(run())

    assert (tmp_path / "link.json").is_symlink()
    assert read_file(tmp_path / "r.json").runs[0].is_complete


# -- the commit --------------------------------------------------------------------------------------------------------


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    git(home, "init", "-q", "-b", "trunk/a")
    git(home, "commit", "-q", "--allow-empty", "-m", "one")
    return home


def test_the_commit_of_a_branch_is_read_loose_and_packed_and_from_a_directory_inside(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "a").mkdir()

    assert git_head(repository / "a") == (commit, "trunk/a")
    git(repository, "pack-refs", "--all")
    assert git_head(repository) == (commit, "trunk/a")


def test_the_commit_of_a_worktree_is_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "two")

    assert git_head(tmp_path / "tree") == (git(tmp_path / "tree", "rev-parse", "HEAD"), "other")
    assert git_head(repository) == (git(repository, "rev-parse", "HEAD"), "trunk/a")


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")

    assert git_head(repository) == (git(repository, "rev-parse", "HEAD"), "")


def test_a_repository_without_a_commit_and_a_directory_without_one_tell_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")

    assert git_head(tmp_path) == ("", "main")
    assert git_head(Path("/proc")) == ("", "")


def test_a_broken_repository_tells_none(repository: Path) -> None:
    (repository / ".git" / "HEAD").write_bytes(b"\xff\xfe nonsense")

    assert git_head(repository) == ("", "")
