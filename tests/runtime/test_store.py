"""Baselines on a real disk: nothing is lost, nothing is half written, and nothing lies outside the directory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.baseline import Entry, entry_of
from pytest_onnxperf.core.errors import BaselineError
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.lock import file_lock, lock_directory
from pytest_onnxperf.runtime.store import Store
from tests.records import CUDA, environment, record

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
ENVIRONMENT = environment()
MODULE = "tests/test_a.py"


def entry(date: str = "2026-01-01", latency_ns: float = 10e6) -> Entry:
    return entry_of(record({"latency_p50": (latency_ns,)}), date, "abc1234")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "baselines")


@pytest.fixture
def path(store: Store) -> Path:
    return store.path(ENVIRONMENT.key, MODULE)


def update(store: Store, path: Path, entries: dict[str, Entry], mode: str = "changed") -> dict[str, Any]:
    return store.update(path, ENVIRONMENT, entries, mode)


def names(path: Path) -> set[str]:
    return set(json.loads(path.read_text("utf-8"))["tests"])


def test_a_file_in_the_directory_of_another_ep_is_refused(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    moved = store.path("nvidia-l4.cuda", MODULE)
    moved.parent.mkdir(parents=True)
    path.rename(moved)
    with pytest.raises(BaselineError, match="recorded on CPUExecutionProvider, and lies in a directory of `cuda`"):
        store.load(moved)


# -- where files lie ---------------------------------------------------------------------------------------------------


def test_a_file_is_named_by_environment_and_module(store: Store, path: Path) -> None:
    assert path == store.directory / "amd-epyc-7763-2c.cpu" / "tests" / "test_a.json"


@pytest.mark.parametrize(
    "module",
    [
        "../test_a.py",
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "//host/share/test_a.py",
        "C:/Windows/test_a.py",
        "C:test_a.py",
        "..\\..\\test_a.py",
        "\\\\host\\share\\test_a.py",
        "tests/../../../test_a.py",
        "./test_a.py",
        "..",
        "",
    ],
)
def test_no_module_leads_out_of_the_directory(store: Store, module: str) -> None:
    path = store.path(ENVIRONMENT.key, module)

    assert path.suffix == ".json"
    assert path.resolve().is_relative_to(store.directory.resolve())
    assert ".." not in path.parts
    assert not [part for part in path.relative_to(store.directory).parts if set(part) & set(":\\/")]


def test_modules_outside_the_root_have_files_of_their_own(store: Store) -> None:
    modules = [
        "test_a.py",
        "../test_a.py",
        "../../test_a.py",
        "tests/test_a.py",
        "tests/test_b.py",
        "tests/test_a.b.py",
    ]

    assert len({store.path(ENVIRONMENT.key, module) for module in modules}) == len(modules)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_what_was_written_is_found(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})

    found = store.find(TestKey(MODULE, "test_a"), ENVIRONMENT)

    assert found.entry == entry()
    assert found.path == str(path)
    assert not found.other_environment


def test_nothing_is_found_where_there_is_nothing(store: Store, path: Path) -> None:
    found = store.find(TestKey(MODULE, "test_a"), ENVIRONMENT)

    assert (found.entry, found.path) == (None, str(path))
    assert store.load(path) is None
    assert store.environment_keys() == ()
    assert store.latest_date(ENVIRONMENT.key) is None


def test_another_device_with_the_same_ep_helps_out_the_latest_first(store: Store) -> None:
    dates = {"nvidia-l4.cuda": "2026-03-01", "nvidia-t4.cuda": "2026-04-01", "nvidia-a10.cuda": "2026-02-01"}
    for key, date in dates.items():
        store.update(store.path(key, MODULE), environment(CUDA, key), {"test_a": entry(date)}, "changed")
    update(store, store.path("amd-epyc-7763-2c.cpu", MODULE), {"test_a": entry("2026-09-01")})

    found = store.find(TestKey(MODULE, "test_a"), environment(CUDA, "NVIDIA H200"))

    assert found.other_environment == "nvidia-t4.cuda"
    assert found.entry is not None
    assert found.entry.date == "2026-04-01"


def test_the_own_device_goes_before_a_later_entry_of_another(store: Store, path: Path) -> None:
    update(store, store.path("intel-xeon-2c.cpu", MODULE), {"test_a": entry("2027-01-01")})
    update(store, path, {"test_a": entry("2026-01-01")})

    assert not store.find(TestKey(MODULE, "test_a"), ENVIRONMENT).other_environment


def test_a_file_that_another_process_replaced_is_read_again(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    assert store.load(path) is not None
    times = path.stat()
    update(Store(store.directory), path, {"test_b": entry()})
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # within one tick of the file system's clock

    document = store.load(path)

    assert document is not None
    assert set(document.tests) == {"test_a", "test_b"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.mkdir(), "cannot be read: Is a directory", id="directory"),
        pytest.param(lambda path: path.write_bytes(b'{"schema": "\xff"}'), "not UTF-8 text.*at byte 12", id="bytes"),
        pytest.param(lambda path: path.write_bytes(b""), "json:1: not valid JSON", id="empty"),
        pytest.param(lambda path: path.symlink_to(path), "cannot be read: Too many levels", id="link-to-itself"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_left_alone(
    store: Store, path: Path, make: Callable[[Path], object], message: str
) -> None:
    path.parent.mkdir(parents=True)
    make(path)
    before = path.lstat()

    for use in (lambda: store.load(path), lambda: update(store, path, {"test_a": entry()})):
        with pytest.raises(BaselineError, match=f"^{re.escape(str(path))}.*") as raised:
            use()
        assert re.search(message, str(raised.value))
    assert path.lstat().st_mtime_ns == before.st_mtime_ns


# -- writing -----------------------------------------------------------------------------------------------------------


def test_an_update_keeps_the_entries_of_tests_that_did_not_run(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})

    changed = update(store, path, {"test_b": entry()})

    assert set(changed) == {"test_b"}
    assert names(path) == {"test_a", "test_b"}


def test_an_update_that_changes_nothing_does_not_touch_the_file(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    before = path.stat()

    assert update(store, path, {"test_a": entry("2026-05-05")}) == {}
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize(("mode", "written"), [("new", {"test_b"}), ("changed", {"test_a", "test_b"})])
def test_the_mode_says_which_entries_are_written(store: Store, path: Path, mode: str, written: set[str]) -> None:
    update(store, path, {"test_a": entry()})

    assert set(update(store, path, {"test_a": entry(latency_ns=20e6), "test_b": entry()}, mode)) == written


def test_names_with_odd_characters_come_back(store: Store, path: Path) -> None:
    odd = ["test_a[ü/..\\\"' \n\t]", "test_a[" + "x" * 300 + "]", "test_A", "test_a", "TestA::test_a[\u2028]#läbel"]
    update(store, path, {name: entry() for name in odd})

    document = Store(store.directory).load(path)

    assert document is not None
    assert sorted(document.tests) == sorted(odd)


def test_a_file_with_a_name_as_long_as_allowed_can_be_written(store: Store) -> None:
    path = store.path(ENVIRONMENT.key, "tests/" + "t" * 250 + ".py")

    update(store, path, {"test_a": entry()})

    assert names(path) == {"test_a"}


def test_permissions_are_kept(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o664)

    update(store, path, {"test_b": entry()})

    assert path.stat().st_mode & 0o777 == 0o664


def test_a_link_stays_a_link_and_its_target_is_written(store: Store, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "shared.json"
    path.parent.mkdir(parents=True)
    path.symlink_to(target)

    update(store, path, {"test_a": entry()})
    update(store, path, {"test_b": entry()})

    assert path.is_symlink()
    assert names(target) == {"test_a", "test_b"}


def test_two_names_of_one_file_share_a_lock(store: Store, path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "shared.json")

    assert file_lock(path).lock_file == file_lock(tmp_path / "shared.json").lock_file


_WRITER = """
import sys
from pathlib import Path
from pytest_onnxperf.runtime.store import Store
from tests.runtime.test_store import ENVIRONMENT, entry

store, path, name = Store(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[4])):
    store.update(path, ENVIRONMENT, {f"{name}_{number}": entry()}, "changed")
    print(number, flush=True)
"""


def start_writer(store: Store, path: Path, name: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(store.directory), str(path), name, str(times)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def test_processes_that_update_one_file_at_once_lose_nothing(store: Store, path: Path) -> None:
    writers = [start_writer(store, path, name, 12) for name in ("test_a", "test_b", "test_c")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0

    assert names(path) == {f"{name}_{number}" for name in ("test_a", "test_b", "test_c") for number in range(12)}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_writer_that_is_killed_leaves_a_whole_file(store: Store, path: Path) -> None:
    seen: set[str] = set()
    for attempt in range(4):
        writer = start_writer(store, path, f"test_{attempt}", 10_000)
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        for _ in range(2 * attempt + 1):
            written = f"test_{attempt}_{writer.stdout.readline().strip()}"
            seen.add(written)
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert seen <= names(path)

    update(store, path, {"the_last": entry()})
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_a_killed_writer_left_is_cleared_away_by_the_next(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    code = _WRITER.replace("store, path", "import os; os.replace = lambda *_: os.kill(os.getpid(), 9)\nstore, path", 1)
    command = [sys.executable, "-c", code, str(store.directory), str(path), "test_b", "1"]
    killed = subprocess.run(command, input="go\n", text=True, capture_output=True, cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert len(list(path.parent.iterdir())) == 2
    assert names(path) == {"test_a"}
    update(store, path, {"test_c": entry()})
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# -- a disk that refuses -----------------------------------------------------------------------------------------------


def in_a_process(path: Path, store: Store, before: str) -> str:
    """Update in a process of its own after some code, and return the message of its error."""
    code = f"""
import sys
from pathlib import Path
from pytest_onnxperf.core.errors import BaselineError
from pytest_onnxperf.runtime.store import Store
from tests.runtime.test_store import ENVIRONMENT, MODULE, TestKey, entry

store, path = Store(Path({str(store.directory)!r})), Path({str(path)!r})
with_many = {{f"test_{{number}}": entry() for number in range(200)}}
{before}
try:
    store.update(path, ENVIRONMENT, with_many, "all")
except BaselineError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, cwd=ROOT, check=False)
    assert done.stderr == ""
    return done.stdout.strip()


_AS_NOBODY = "import os; os.setgid(65534) if os.getuid() == 0 else None; os.setuid(65534) if os.getuid() == 0 else None"


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A directory that a user without rights can get to: pytest's own is this user's alone."""
    with tempfile.TemporaryDirectory(prefix="test_store_", dir="/tmp") as name:
        Path(name).chmod(0o777)
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def test_a_directory_that_is_read_only_is_a_clear_error_and_the_file_stays(public: Path) -> None:
    store = Store(public / "baselines")
    path = store.path(ENVIRONMENT.key, MODULE)
    update(store, path, {"test_a": entry()})
    before = path.read_bytes()
    path.parent.chmod(0o555)

    message = in_a_process(path, store, _AS_NOBODY)

    path.parent.chmod(0o755)
    assert message.startswith(f"{path}: cannot be written: Permission denied; nothing of it was changed")
    assert "--onnxperf-baseline-dir" in message
    assert path.read_bytes() == before


def test_a_file_that_may_not_be_read_is_a_clear_error(public: Path) -> None:
    store = Store(public / "baselines")
    path = store.path(ENVIRONMENT.key, MODULE)
    update(store, path, {"test_a": entry()})
    path.chmod(0o000)

    message = in_a_process(path, store, _AS_NOBODY)

    assert message == f"{path}: cannot be read: Permission denied"


def test_a_directory_that_may_not_be_listed_has_no_environments_and_its_files_are_clear_errors(public: Path) -> None:
    store = Store(public / "baselines")
    path = store.path(ENVIRONMENT.key, MODULE)
    update(store, path, {"test_a": entry()})
    store.directory.chmod(0o000)

    look = f"{_AS_NOBODY}\nprint(store.environment_keys(), store.latest_date(ENVIRONMENT.key))"
    message = in_a_process(path, store, look)

    store.directory.chmod(0o755)
    assert message.splitlines() == ["() None", f"{path}: cannot be read: Permission denied"]


def test_a_full_disk_is_a_clear_error_and_the_file_stays(store: Store, path: Path) -> None:
    update(store, path, {"test_a": entry()})
    before = path.read_bytes()
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    )

    message = in_a_process(path, store, limit)

    assert message.startswith(f"{path}: cannot be written: File too large; nothing of it was changed")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_disk_without_space_is_a_clear_error_and_the_file_stays(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mount.returncode:
        pytest.skip("this container may not mount")
    try:
        store = Store(disk)
        path = store.path(ENVIRONMENT.key, MODULE)
        update(store, path, {"test_a": entry()})
        before = path.read_bytes()
        message = in_a_process(path, store, "")
        assert message.startswith(f"{path}: cannot be written: No space left on device; nothing of it was changed")
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir()] == [path.name]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_file_where_a_directory_is_needed_is_a_clear_error(store: Store, path: Path) -> None:
    store.directory.mkdir()
    path.parent.parent.write_text("in the way")

    assert store.load(path) is None
    with pytest.raises(BaselineError, match=f"^{re.escape(str(path))}: cannot be written: Not a directory"):
        update(store, path, {"test_a": entry()})


def test_a_lock_that_cannot_be_had_is_a_clear_error(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"onnxperf-locks-{os.getuid()}").write_text("in the way")

    with pytest.raises(BaselineError, match=f"^{re.escape(str(path))}: cannot be locked: .*onnxperf-locks"):
        update(store, path, {"test_a": entry()})


def test_a_lock_is_let_go_after_an_error(store: Store, path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(BaselineError):
        update(store, path, {"test_a": entry()})
    path.rmdir()

    assert update(store, path, {"test_a": replace(entry(), note="mine")})
    assert lock_directory().is_dir()
