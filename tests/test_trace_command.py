from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_onnxperf.cli import main
from tests.bench.profile_reader import write_profile
from tests.traces import slices_of

if TYPE_CHECKING:
    from collections.abc import Callable

DATA: Final = Path(__file__).parent / "data" / "profiles"
BASE: Final = DATA / "cpu_1.32.0_base_2runs.json"
ROOT: Final = Path(__file__).parents[1]
MIB: Final = 1 << 20


def refused(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    assert main(["trace", *map(str, argv)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("onnxperf: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_trace_writes_a_file_and_says_where_to_open_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "trace.json"
    assert main(["trace", str(BASE), "-o", str(output)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{output}: 12 events on 3 tracks, 0.0 MiB", "Open it at https://ui.perfetto.dev",
    ]  # fmt: skip
    assert set(slices_of(output.read_text("utf-8"))) == {"phases", "runs", "CPUExecutionProvider"}
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("name", ["trace.json.gz", "TRACE.GZ"])
def test_a_name_that_ends_in_gz_is_compressed_and_the_same_every_time(tmp_path: Path, name: str) -> None:
    plain, output, again = tmp_path / "trace.json", tmp_path / name, tmp_path / f"again-{name}"
    for path in (plain, output, again):
        assert main(["trace", str(BASE), "-o", str(path)]) == 0
    assert gzip.decompress(output.read_bytes()) == plain.read_bytes()
    assert output.read_bytes() == again.read_bytes()


def test_the_first_runs_can_be_marked_as_warmup(tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    assert main(["trace", str(BASE), "-o", str(output), "--warmup-runs", "1"]) == 0
    runs = [event["name"] for event in slices_of(output.read_text("utf-8"))["runs"] if "index" in event["args"]]
    assert runs == ["warm-up run 0", "run 1"]


def test_a_wrong_number_of_warmup_runs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["trace", str(BASE), "-o", "trace.json", "--warmup-runs=-1"])
    assert exit_info.value.code == 2
    assert "expected a number of runs, 0 or more, got '-1'" in capsys.readouterr().err


def test_help_says_what_becomes_a_track(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trace", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "a track for the nodes of each execution provider, memcpy nodes, and the device's events apart" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), (b"", "0 bytes"), (b"\x7fELF", "not an ONNX Runtime profile")],
    ids=["missing", "empty", "binary"],
)
def test_a_profile_that_cannot_be_read_leaves_the_output_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    path, output = tmp_path / "profile.json", tmp_path / "trace.json"
    output.write_text("as it was")
    if content is not None:
        path.write_bytes(content)
    assert message in refused(capsys, path, "-o", output)
    assert output.read_text() == "as it was"
    assert {each.name for each in tmp_path.iterdir()} <= {"profile.json", "trace.json"}


def test_a_directory_is_no_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Is a directory" in refused(capsys, tmp_path, "-o", tmp_path / "trace.json")


def test_a_profile_that_is_cut_is_traced_as_far_as_it_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "profile.json", tmp_path / "trace.json"
    path.write_bytes(BASE.read_bytes()[:4000])
    assert main(["trace", str(path), "-o", str(output)]) == 0
    assert "Note: " in capsys.readouterr().out
    assert slices_of(output.read_text("utf-8"))["CPUExecutionProvider"]


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
def test_the_profile_is_never_its_own_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str) -> None:
    path = tmp_path / "profile.json"
    shutil.copy(BASE, path)
    output = path if link == "itself" else tmp_path / "other.json"
    if link == "symbolic":
        output.symlink_to(path)
    if link == "hard":
        os.link(path, output)
    assert "is the profile itself" in refused(capsys, path, "-o", output)
    assert path.read_bytes() == BASE.read_bytes()


def test_an_output_that_is_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{tmp_path}: is a directory" in refused(capsys, BASE, "-o", tmp_path)


def test_the_directory_of_an_output_is_made(tmp_path: Path) -> None:
    output = tmp_path / "new" / "traces" / "trace.json"
    assert main(["trace", str(BASE), "-o", str(output)]) == 0
    assert "traceEvents" in output.read_text("utf-8")


def test_an_output_below_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    error = refused(capsys, BASE, "-o", tmp_path / "file" / "trace.json")
    assert "trace.json: the trace cannot be written" in error


def test_an_output_that_is_a_device_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a regular file" in refused(capsys, BASE, "-o", "/dev/null")
    assert not Path("/dev/null").is_file()


def test_a_link_stays_one_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    target, output = tmp_path / "target.json", tmp_path / "trace.json"
    target.write_text("old")
    output.symlink_to(target)
    assert main(["trace", str(BASE), "-o", str(output)]) == 0
    assert output.is_symlink()
    assert "traceEvents" in target.read_text("utf-8")


def command(*argv: str | Path) -> list[str]:
    code = "import sys\nfrom pytest_onnxperf.cli import main\nsys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, "trace", *map(str, argv)]


ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("which", ["profile", "output"])
def test_a_pipe_does_not_hang(tmp_path: Path, which: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    argv = (pipe, "-o", tmp_path / "trace.json") if which == "profile" else (BASE, "-o", pipe)
    result = subprocess.run(command(*argv), capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60)
    assert result.returncode == 2
    assert "not a regular file" in result.stderr


def test_a_full_disk_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    """The limit of a file's size is met as the end of a disk is."""
    output = tmp_path / "trace.json"
    output.write_text("as it was")
    source, limit = DATA / "02-olive-2019-mkldnn.json", 64 << 10

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = subprocess.run(
        command(source, "-o", output), capture_output=True, text=True, check=False, env=ENVIRONMENT, preexec_fn=limited
    )
    assert result.returncode == 2
    assert "trace.json: the trace cannot be written: File too large" in result.stderr
    assert output.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "profile.json"
    write_profile(path, 60_000)
    return path


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + 60
    while not is_so():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_ctrl_c_leaves_no_half_file(large: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    output.write_text("as it was")
    with subprocess.Popen(
        command(large, "-o", output), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        wait_until(lambda: any(path.suffix == ".tmp" for path in tmp_path.iterdir()), process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "onnxperf: interrupted\n")
    assert output.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for the peak of memory")
def test_a_large_profile_is_streamed(large: Path, tmp_path: Path) -> None:
    code = (
        "import re, sys\nfrom pytest_onnxperf import trace_command\nfrom pytest_onnxperf.cli import main\n"
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) << 10\n"
        "before = peak()\nmain(['trace', *sys.argv[1:]])\nprint(peak() - before)"
    )
    output = tmp_path / "trace.json"
    result = subprocess.run(
        [sys.executable, "-c", code, large, "-o", output], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert sum(map(len, slices_of(output.read_text("utf-8")).values())) > 60_000
    assert large.stat().st_size > 50 * MIB
    assert int(result.stdout.splitlines()[-1]) < 16 * MIB
