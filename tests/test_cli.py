import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_onnxperf.cli import main

DATA = Path(__file__).parent / "data" / "profiles"
BASE = str(DATA / "cpu_1.32.0_base_2runs.json")
LOOP = str(DATA / "cpu_1.32.0_loop_subgraph.json")


def object_of(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_profile_shows_facts_and_the_op_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", BASE]) == 0
    out = capsys.readouterr().out
    assert out.startswith(BASE)
    assert "memcpy nodes 0" in out
    assert "MatMul" in out


def test_profile_as_json_has_totals_over_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    value = object_of(capsys, "profile", str(DATA / "webgpu_1.27.0_det2.json"))
    expected = {
        "runs": 3,
        "events": 50,
        "unread_lines": 0,
        "truncated": False,
        "memcpy_to_host": 6,
        "memcpy_from_host": 6,
        "memcpy_per_run": 4,
        "nodes_by_provider": {"WebGpuExecutionProvider": 24, "CPUExecutionProvider": 6},
        "categories": {"Session": 8, "Node": 30, "Api": 12},
    }
    assert {key: value[key] for key in expected} == expected
    assert value["facts"]["op_table"][0]["op_type"] == "MatMul"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_op_time_is_the_sum_of_the_durations_in_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        events = json.loads(path.read_text(encoding="utf-8"), strict=False)
    except ValueError:
        return
    if "jsoninj" in path.name:
        return
    sums: dict[str, int] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            op_type = event["args"]["op_name"]
            sums[op_type] = sums.get(op_type, 0) + event["dur"]
    assert object_of(capsys, "profile", str(path))["op_time_us"] == sums


@pytest.mark.parametrize(("top", "rows"), [("0", 0), ("1", 1), ("99", 3)])
def test_top_is_the_number_of_rows(capsys: pytest.CaptureFixture[str], top: str, rows: int) -> None:
    assert main(["profile", BASE, "--top", top]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("MatMul ", "Relu ", "Softmax ")) for line in lines) == rows


@pytest.mark.parametrize("top", ["-1", "many", "1.5", ""])
def test_a_wrong_number_of_rows_is_refused(capsys: pytest.CaptureFixture[str], top: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["profile", BASE, f"--top={top}"])
    assert exit_info.value.code == 2
    assert "expected a number of rows, 0 or more" in capsys.readouterr().err


def test_an_orphan_is_readable_and_says_that_no_run_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(DATA / "cuda-fallback_first-attempt_orphan_118B.json")]) == 0
    assert "no run is in the file: the session never ran" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["profile"], ["diff", BASE]])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        ("directory", "Is a directory"),
        (b"", "0 bytes"),
        (b"\x7fELF\0\x01", "not an ONNX Runtime profile"),
        (b"[1, 2]", "not an ONNX Runtime profile"),
    ],
    ids=["missing", "directory", "empty", "binary", "other-json"],
)
def test_what_cannot_be_read_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], content: bytes | str | None, message: str
) -> None:
    path = tmp_path / "profile.json"
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert main([*command, str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"onnxperf: {path}: ")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_diff_of_a_profile_with_itself_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BASE, BASE, "--exit-code"]) == 0
    assert "The facts are the same." in capsys.readouterr().out


def test_diff_differs_by_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BASE, LOOP]) == 0
    assert main(["diff", BASE, LOOP, "--exit-code"]) == 1
    assert "CPUExecutionProvider:Loop" in capsys.readouterr().out


def test_time_alone_does_not_differ() -> None:
    assert main(["diff", BASE, str(DATA / "cpu_1.31.1_base_2runs.json"), "--exit-code"]) == 0


def test_facts_that_can_be_told_of_one_profile_only_differ() -> None:
    orphan = str(DATA / "cuda-fallback_second-attempt_cpu.json")
    assert main(["diff", orphan, BASE, "--exit-code"]) == 2
    assert main(["diff", orphan, orphan, "--exit-code"]) == 2


def test_diff_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = object_of(capsys, "diff", BASE, LOOP)
    assert value["differs"] is True
    assert {"name": "CPUExecutionProvider:Loop", "old": 0, "new": 1} in value["facts"]


def test_help_says_that_time_does_not_decide(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diff", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "Facts decide whether they differ; time is noise: it is shown, and never decides." in text


def run_module(code: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment}
    return subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, check=False, env=env)


def test_a_reader_that_has_seen_enough_leaves_no_traceback() -> None:
    code = (
        "import os, sys\nfrom pytest_onnxperf.cli import main\n"
        "read, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\nsys.exit(main(sys.argv[1:]))"
    )
    result = run_module(code, "profile", BASE)
    assert (result.returncode, result.stderr) == (0, b"")


def test_without_a_standard_output_there_is_no_traceback() -> None:
    code = "import sys\nfrom pytest_onnxperf.cli import main\nsys.stdout = None\nsys.exit(main(sys.argv[1:]))"
    result = run_module(code, "profile", BASE)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == b"onnxperf: the output cannot be written: Bad file descriptor\n"


def test_a_terminal_that_cannot_show_a_name_shows_its_code(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(Path(BASE).read_text(encoding="utf-8").replace('"MatMul"', '"日本"'), encoding="utf-8")
    code = "import sys\nfrom pytest_onnxperf.cli import main\nsys.exit(main(sys.argv[1:]))"
    result = run_module(code, "profile", str(path), PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert rb"\u65e5\u672c" in result.stdout


def test_the_command_needs_no_runtime() -> None:
    code = (
        "import sys\nfrom pytest_onnxperf.cli import main\nmain(sys.argv[1:])\n"
        "print({'numpy', 'onnx', 'onnxruntime', 'pytest'} & set(sys.modules), file=sys.stderr)"
    )
    assert run_module(code, "profile", BASE).stderr == b"set()\n"
