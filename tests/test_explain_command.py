"""`onnxperf explain` on the CPU: text, JSON, exit codes, and every way in which it can be called wrongly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnx
import onnxruntime
import pytest

from pytest_onnxperf.cli import main
from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.explaining import Explainer
from pytest_onnxperf.runtime.session_job import SessionJob
from pytest_onnxperf.runtime.trace import read_trace
from tests import models
from tests.records import CUDA, facts
from tests.runtime import children

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    "CPUExecutionProvider" not in onnxruntime.get_available_providers(), reason="needs onnxruntime"
)

ROOT: Final = Path(__file__).parents[1]
BATCH: Final = ("--ep", "cpu", "--shape", "batch=2")
PREFILL: Final = [part for name in ("batch=1", "seq=4", "past=0", "total=4") for part in ("--shape", name)]
LOG_MIB: Final = 100
PLACES: Final = "onnxperf-locks-"


@pytest.fixture(autouse=True)
def temporary(own_locks: Path) -> Iterator[Path]:
    """The temporary directory, in which nothing but locks may be left."""
    yield own_locks
    assert [each.name for each in own_locks.iterdir() if not each.name.startswith(PLACES)] == []


@pytest.fixture
def mlp(tmp_path: Path) -> str:
    return str(models.mlp(tmp_path / "models" / "mlp.onnx"))


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command; return the exit code, standard output and standard error."""
    code = main(["explain", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_text_says_what_ran_where_and_what_bounds_it(mlp: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = explain(capsys, mlp, *BATCH)

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == mlp
    assert lines[1].startswith("on CPUExecutionProvider, ")
    assert lines[2].startswith(f"onnxruntime {onnxruntime.__version__}")
    assert "  memcpy nodes 0 (to host 0, from host 0)" in lines
    assert "  nodes        2 (CPUExecutionProvider 2)" in lines
    assert any(line.startswith("FusedGemm                 CPU              2 ") for line in lines)
    assert any(line.startswith("Roofline: no ceilings are known for this device") for line in lines)
    assert "\n\n\n" not in out
    assert [line for line in lines[1:] if len(line) > 80] == []


def test_it_leaves_nothing_beside_the_model(mlp: str, capsys: pytest.CaptureFixture[str]) -> None:
    explain(capsys, mlp, *BATCH)

    assert [path.name for path in Path(mlp).parent.iterdir()] == ["mlp.onnx"]


def test_json_has_the_record_its_explanation_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = models.attention(tmp_path / "unfused.onnx", form="unfused")
    code, out, err = explain(capsys, str(model), "--ep", "cpu", "--json")

    assert (code, err) == (0, "")
    value: dict[str, Any] = json.loads(out)
    assert list(value) == ["record", "explanation", "advice"]
    assert value["record"]["facts"]["cpu_nodes"] == value["record"]["facts"]["nodes"]
    assert value["record"]["facts"]["attention"][0]["kernels"] == ["unfused"]
    (explained,) = value["explanation"]["models"]
    assert explained["opsets"][""] == 17
    assert explained["placement"]["all_on"] == "CPUExecutionProvider"
    assert explained["not_flash"][0]["reasons"] == [
        "it is written as separate operators, and no fusion of ONNX Runtime matched them"
    ]
    assert explained["rooflines"][0]["rows"][0]["flop_per_run"] > 0
    assert value["explanation"]["why_not"] == ""
    assert any(advice.startswith("Unfused attention in 1 node: ") for advice in value["advice"])


@pytest.mark.parametrize(
    ("write", "arguments", "fail_on", "code", "err"),
    [
        (models.mlp, BATCH, "memcpy,cpu,unfused", 0, ""),
        (models.cpu_island, BATCH, "memcpy,cpu", 0, ""),
        (lambda path: models.attention(path, form="unfused"), ("--ep", "cpu"), "memcpy, unfused", 1,
         "onnxperf: --fail-on unfused: found\n"),
        (lambda path: models.attention(path, form="unfused"), ("--ep", "cpu"), "memcpy,cpu", 0, ""),
        (models.transformer_block, ("--ep", "cpu", *PREFILL), "memcpy,unfused", 2,
         "onnxperf: --fail-on unfused: it cannot be told\n"),
        (models.transformer_block, ("--ep", "cpu", *PREFILL), "memcpy", 0, ""),
    ],
    ids=["none", "all on the CPU", "found", "not asked for", "unknown", "unknown, not asked for"],
)  # fmt: skip
def test_fail_on_sets_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Any, arguments: tuple[str, ...], fail_on: str, code: int,
    err: str,
) -> None:  # fmt: skip
    model = str(write(tmp_path / "model.onnx"))

    found, out, said = explain(capsys, model, *arguments, "--fail-on", fail_on)

    assert (found, said) == (code, err)
    assert out.startswith(model)  # the text is there, whatever the exit code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the model has dynamic dimensions without a size:\n  x: dimension 0 `batch`"),
        ((), "whole shape by the input's name: --shape batch=1\n"),
        (("--shape", "batch"), "--shape: expected NAME=VALUE, got 'batch'"),
        (("--shape", "=2"), "--shape: expected NAME=VALUE, got '=2'"),
        (("--shape", "batch=two"), "--shape: expected NAME=SIZE of a symbolic dimension, or INPUT=1x3x224x224, got 't"),
        (("--shape", "batch=-1"), "--shape: expected NAME=SIZE of a symbolic dimension"),
        (("--shape", "x=2x"), "--shape: expected NAME=SIZE of a symbolic dimension"),
        (("--shape", "x=2x31"), "dimension 1 is 31, the model fixes it at 32"),
        (("--shape", "batch=2", "--shape", "seq=3"), "`seq` is no dimension and no input of the model"),
        (("--shape", "batch=2", "--fail-on", "memcopy"), "--fail-on: expected memcpy, cpu, unfused, got 'memcopy'"),
        (("--shape", "batch=2", "--fail-on", ""), "--fail-on: expected memcpy, cpu, unfused, got ''"),
        (("--shape", "batch=2", "--fail-on", "cpu,"), "--fail-on: expected memcpy, cpu, unfused, got ''"),
        (("--shape", "batch=2", "--fail-on", "cpu,Memcpy"), "--fail-on: expected memcpy, cpu, unfused, got 'Memcpy'"),
        (("--shape", "batch=2", "--session-option", "foo=1"), "unknown session option `foo`"),
        (("--shape", "batch=2", "--session-option", "foo"), "--session-option: expected NAME=VALUE, got 'foo'"),
        (("--shape", "batch=2", "--provider-option", "foo="), "--provider-option: expected NAME=VALUE, got 'foo='"),
        (("--ep", "gpu"), "unknown execution provider 'gpu'"),
        (("--ep", "zz"), "unknown execution provider 'zz'. Known: auto, cuda, "),
        (("--ep", "qnn"), "QNNExecutionProvider does not run here: this build of onnxruntime"),
        (("--ep", "AcmeExecutionProvider"), "AcmeExecutionProvider does not run here: "),
    ],
)
def test_a_wrong_argument_is_one_message_and_exit_code_2(
    mlp: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = explain(capsys, mlp, *([] if "--ep" in arguments else ["--ep", "cpu"]), *arguments)

    assert (code, out) == (2, "")
    assert err.startswith("onnxperf: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        ("directory", "has no genai_config.json, so it is no model directory of ONNX Runtime GenAI"),
        (b"this is no model\n", "the file is no ONNX model or is cut off"),
        (b"", "ONNX Runtime cannot load the model"),
    ],
    ids=["missing", "directory", "text", "empty"],
)
def test_what_is_no_model_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | str | None, message: str
) -> None:
    path = tmp_path / "model.onnx"
    if content == "directory":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)

    code, out, err = explain(capsys, str(path), "--ep", "cpu")

    assert (code, out) == (2, "")
    assert err.startswith("onnxperf: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [("--runs", "0"), ("--threads", "-1"), ("--new-tokens", "many"), ()])
def test_a_wrong_number_or_no_model_is_a_usage_error(
    mlp: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["explain", *([mlp] if arguments else []), *arguments])

    assert exit_info.value.code == 2
    assert ("expected a whole number, 1 or more" if arguments else "MODEL") in capsys.readouterr().err


def test_options_of_the_session_are_taken(mlp: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--session-option", "graph_optimization_level=disable", "--runs", "2", "--threads", "1", "--json"]
    code, out, _ = explain(capsys, mlp, *BATCH, *options)

    assert code == 0
    facts = json.loads(out)["record"]["facts"]
    assert facts["ops"]["CPUExecutionProvider:Relu"] == 2  # nothing is fused
    assert facts["runs"] == 2


def test_ceilings_are_measured_on_demand(mlp: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = explain(capsys, mlp, *BATCH, "--measure-ceilings", "--json")

    assert code == 0
    (explained,) = json.loads(out)["explanation"]["models"]
    assert explained["ceilings"]["source"].startswith("measured here by ONNX Runtime on CPUExecutionProvider: ")
    assert explained["rooflines"][0]["rows"][0]["bound"] in ("compute", "memory")


def test_odd_and_empty_names_are_explained_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models.odd_names(tmp_path / "odd.onnx")

    code, out, err = explain(capsys, str(path), *BATCH, "--json")

    assert (code, err) == (0, "")
    value = json.loads(out)
    assert value["record"]["facts"]["ops"]["CPUExecutionProvider:Hardmax"] == len(models.ODD_NAMES)
    assert value["explanation"]["models"][0]["placement"]["disagreements"] == []


def same_name(path: Path, name: str) -> Path:
    """Write `two_islands` with one name for both Hardmax, which ONNX Runtime refuses."""
    proto = onnx.load(models.two_islands(path))
    for node in proto.graph.node:
        node.name = name if node.op_type == "Hardmax" else node.name
    onnx.save(proto, path)
    return path


def test_a_name_that_stands_twice_is_refused_by_the_runtime_and_its_words_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = explain(capsys, str(same_name(tmp_path / "twice.onnx", "twice")), *BATCH)

    assert (code, out) == (2, "")
    assert err.startswith("onnxperf: ONNX Runtime cannot load the model: ")
    assert "twice" in err


def test_types_of_axes_and_shapes_are_no_reason_to_be_on_the_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reshape takes its shape in int64 as a rule; Concat of shapes takes nothing else."""
    shapes = [part for name in ("batch=1", "seq=4", "other=4") for part in ("--shape", name)]
    _, out, _ = explain(capsys, str(models.dynamic_shapes(tmp_path / "m.onnx")), "--ep", "cpu", *shapes, "--json")

    value = json.loads(out)
    rare_types = value["explanation"]["models"][0]["rare_types"]
    assert "CPUExecutionProvider:Reshape" in value["record"]["facts"]["ops"]
    assert "Reshape" not in rare_types
    assert rare_types["Concat"] == "int64"


@pytest.mark.parametrize(
    ("device", "reasons"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", ("NVIDIA GeForce RTX 2080 Ti: Flash needs compute capability 8.0, Ampere",)),
        ("NVIDIA H200", ()),
    ],
)
def test_a_device_without_a_datasheet_is_a_reason_too(
    tmp_path: Path, mlp: str, device: str, reasons: tuple[str, ...]
) -> None:
    use = AttentionUse(NodeKey("attn", "GroupQueryAttention", CUDA), ("efficient",), "", "float16", 64, 8)
    trace = read_trace([(str(ROOT / "tests/data/profiles/05-ppq-2023-cuda.json"), None)])
    job = SessionJob(Path(mlp), "mlp.onnx", provider_of("cuda"))
    explainer = Explainer(job, [trace], facts(attention=(use,)), {}, {}, None, device)

    (explained,) = explainer.explain(tmp_path / "room", timeout_s=1, in_process=False).models

    assert [each.reasons for each in explained.not_flash] == [reasons]


# -- in a process of its own ----------------------------------------------------------------------------------------

_RUN: Final = "import sys\nfrom pytest_onnxperf.cli import main\n"


def run_module(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", ""), str(ROOT)]))
    return subprocess.run(
        [sys.executable, "-c", code, "explain", *arguments],
        capture_output=True, check=False, text=True, env={**os.environ, **environment, "PYTHONPATH": path},
    )  # fmt: skip


def test_a_reader_that_has_seen_enough_leaves_no_traceback_and_no_file(mlp: str) -> None:
    code = "import os\n" + _RUN + "read, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\nsys.exit(main())"

    result = run_module(code, mlp, *BATCH)

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("end", ["\\n", ""], ids=["lines", "one line"])
def test_logs_of_100_mb_are_read_in_bounded_memory(mlp: str, tmp_path: Path, end: str) -> None:
    """Both the profile process and the explaining one print them while they create their session."""
    printed = tmp_path / "printed"
    misbehave = f"""
        import os
        if "onnxperf-explain-" in sys.argv[2]:
            chunk = (b"x" * 127 + b"{end}") * 8192
            for _ in range({LOG_MIB << 20} // len(chunk) + 1):
                os.write(2, chunk)
            with open({str(printed)!r}, "a") as file:
                file.write(f"{{os.stat(sys.argv[3]).st_size}}\\n")
    """
    environment = children.at_step(tmp_path / "site", "open", misbehave)
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    code = (
        "import resource\n" + _RUN + "import onnx, pytest_onnxperf.explain_command\n"
        f"before = {peak}\ncode = main()\nprint({peak} - before, file=sys.stderr)\nsys.exit(code)"
    )

    result = run_module(code, mlp, *BATCH, **environment)

    assert result.returncode == 0, result.stderr
    assert "FusedGemm" in result.stdout
    sizes = [int(line) for line in printed.read_text("utf-8").splitlines()]
    assert len(sizes) == 2
    assert min(sizes) > LOG_MIB * 1_000_000
    assert int(result.stderr) < 40 << 10  # KiB
