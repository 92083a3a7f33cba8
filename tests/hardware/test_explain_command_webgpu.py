"""Causes as a person reads them, on a (software) Vulkan device: in failures, with --onnxperf-explain, as a command."""

from __future__ import annotations

import json
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import onnx
import pytest

from pytest_onnxperf.cli import main
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.report.explanation import explanation_lines
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models
from tests.plugin.suite import section
from tests.runtime import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs_webgpu

WEBGPU: Final = "WebGpuExecutionProvider"
QUICK: Final = ("--onnxperf-timing=off", "--onnxperf-profile-runs=2")
BATCH: Final = ("--shape", "batch=2")
ISLAND: Final = """
    import pytest
    from tests import models

    @pytest.mark.onnx_budget(max_memcpy={most})
    def test_island(onnx_session, tmp_path):
        onnx_session(models.cpu_island(tmp_path / "island.onnx"{more})).measure(shapes={{"batch": 2}})
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory, in which nothing of ours but locks may be left."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    assert [each.name for each in path.iterdir() if not each.name.startswith("onnxperf-locks-")] == []


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def said(capsys: pytest.CaptureFixture[str], model: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run the command on the device; return the exit code and the lines that it prints, none of them too wide."""
    code = main(["explain", str(model), "--ep", "webgpu", *arguments])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and line != str(model)] == []
    return code, lines


# -- failures -------------------------------------------------------------------------------------------------------


def test_a_broken_limit_names_the_node_that_forces_the_copies_with_reason_and_advice(
    run_pytest: Callable[..., pytest.RunResult],
) -> None:
    result = run_pytest(ISLAND.format(most=0, more=""), *QUICK)

    result.assert_outcomes(failed=1)
    lines = section(result, "test_island")
    text = joined(lines)
    assert "over budget max_memcpy: 2 a run, budget at most 0" in text
    for copy in ("MemcpyToHost", "MemcpyFromHost"):
        assert f"1 x Det (opset 17): {WEBGPU} has no kernel for it in ORT " in text
        assert f", e.g. determinants/Det ({copy})" in text
    assert "Nodes on the CPU, and why 1 x Det: the EP has no kernel for it, e.g. determinants/Det" in text
    assert "What to do - No kernel for 1 x Det: replace the operator, or let it stay on the CPU" in text
    assert "Roofline" not in text
    assert [line for line in lines if len(line) > 80 and "/" not in line] == []


@pytest.mark.parametrize("is_explained", [True, False])
def test_a_passing_test_is_explained_on_demand_alone(
    run_pytest: Callable[..., pytest.RunResult], is_explained: bool
) -> None:
    result = run_pytest(ISLAND.format(most=2, more=""), *QUICK, *(["--onnxperf-explain"] if is_explained else []))

    result.assert_outcomes(passed=1)
    text = joined(section(result, "onnxperf"))
    assert ("Memcpy nodes, and what forces them" in text) is is_explained
    assert ("e.g. determinants/Det (MemcpyToHost)" in text) is is_explained
    assert ("Roofline: no ceilings are known" in text) is is_explained


def test_an_explaining_process_that_crashes_leaves_the_failure_and_what_the_profile_says(
    run_pytest: Callable[..., pytest.RunResult], tmp_path: Path
) -> None:
    site = children.at_step(tmp_path / "site", "assignment", "import os; os._exit(3)")["PYTHONPATH"]
    source = f"import os\nos.environ['PYTHONPATH'] = {site!r} + os.pathsep + os.environ['PYTHONPATH']\n"
    result = run_pytest(source + "\n".join(line[4:] for line in ISLAND.format(most=0, more="").splitlines()), *QUICK)

    result.assert_outcomes(failed=1)
    text = joined(section(result, "test_island"))
    assert "over budget max_memcpy: 2 a run, budget at most 0" in text
    assert "1 x copy to the host of a tensor: which node forces it cannot be told: " in text
    assert "on the CPU: Det determinants/Det" in text
    assert "Only suspected, without the optimised graph: the explaining process failed" in text
    assert "Could not be explained further: the measuring process exited with status 3 in its step" in text
    assert "it was not asked for" not in text


LIMITED: Final = """
    import resource
    import pytest
    from tests import models

    @pytest.mark.onnx_budget(max_memcpy=0)
    def test_island(onnx_session, tmp_path):
        model = models.two_islands(tmp_path / "island.onnx", width=600)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        onnx_session(model).measure(shapes={"batch": 2})
"""


def test_a_graph_that_the_runtime_cannot_write_leaves_suspects_and_says_why(
    run_pytest: Callable[..., pytest.RunResult],
) -> None:
    """A limit of the size of files stands for a full disk: the weights are larger, logs and profiles are not."""
    result = run_pytest(LIMITED, *QUICK)

    result.assert_outcomes(failed=1)
    text = joined(section(result, "test_island"))
    assert "Only suspected, without the optimised graph: ONNX Runtime did not save it: " in text
    assert text.count("ONNX Runtime did not save it") == 1
    assert "2 x copy to the host, e.g. of 'product': which node forces it cannot be told: " in text
    assert "on the CPU: Hardmax first/Hardmax, Hardmax second/Hardmax" in text


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shapes", "culprits"),
    [
        (models.cpu_island, BATCH, ["1 x Det (opset 17)", "determinants/Det (MemcpyToHost)"]),
        (models.opset24, ("--shape", "batch=1", "--shape", "seq=4"),
         ["3 x Attention (opset 24)", "1 x Attention (opset 24)", "attended/Attention (MemcpyToHost)"]),
        (models.nested_islands, BATCH, ["1 x Hardmax (opset 17)", "innermost/Hardmax (MemcpyFromHost)"]),
        (models.odd_names, BATCH, ["6 x Hardmax (opset 17)", "e.g. the one without a name at 'scaled0'"]),
    ],
    ids=["an island", "ai.onnx Attention", "four deep", "odd names"],
)  # fmt: skip
def test_the_command_names_culprits_and_fails_on_memcpy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, shapes: tuple[str, ...], culprits: list[str]
) -> None:
    code, lines = said(capsys, make(tmp_path / "model.onnx"), *shapes, "--fail-on", "memcpy")

    assert code == 1
    text = joined(lines)
    assert all(culprit in text for culprit in culprits), text
    assert "What to do - No kernel for " in text
    assert f"Note: {WEBGPU} copies inputs that are given on the host" in text
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("make", "fail_on", "code"),
    [
        (models.mlp, "memcpy,cpu,unfused", 0),
        (models.cpu_island, "cpu", 1),
        (models.cpu_island, "unfused", 0),
    ],
)
def test_the_exit_code_follows_what_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, fail_on: str, code: int
) -> None:
    assert said(capsys, make(tmp_path / "model.onnx"), *BATCH, "--fail-on", fail_on)[0] == code


def test_attention_on_the_cpu_is_unfused_to_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = models.opset24(tmp_path / "24.onnx")
    assert said(capsys, model, "--shape", "batch=1", "--shape", "seq=4", "--fail-on", "unfused")[0] == 1


def test_a_shape_chain_has_advice_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """WebGPU has no kernels for it, so that ONNX Runtime does not say that it puts it on the CPU on purpose."""
    _, lines = said(capsys, models.shape_chain(tmp_path / "chain.onnx"), *BATCH)

    text = joined(lines)
    assert "- Shapes are computed on the CPU (Gather, Mul, Unsqueeze and 2 more): fix dynamic dimensions" in text
    assert "for its element types" not in text


def test_the_command_as_json_has_each_culprit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(models.odd_names(tmp_path / "odd.onnx")), "--ep", "webgpu", *BATCH, "--json"]) == 0

    (explained,) = json.loads(capsys.readouterr().out)["explanation"]["models"]
    counts = [(group["count"], group["example"]["direction"]) for group in explained["culprits"]]
    assert counts == [(6, "to_host"), (6, "from_host")]
    assert explained["why_no_graph"] == ""


def test_one_name_in_a_graph_and_its_subgraph_is_no_disagreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = models.shared_values(tmp_path / "shared.onnx")
    proto = onnx.load(path)
    (branching,) = (node for node in proto.graph.node if node.op_type == "If")
    inner = [node for attribute in branching.attribute for node in attribute.g.node]
    for node in (*proto.graph.node, *inner):
        node.name = "same" if node.op_type == "Hardmax" else node.name
    onnx.save(proto, path)

    code, lines = said(capsys, path, *BATCH, "--fail-on", "memcpy")

    text = joined(lines)
    assert code == 1
    assert "Hardmax (opset 17)" in text
    assert "e.g. same (Memcpy" in text
    assert "disagree" not in text


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_model_too_large_to_save_has_suspects_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(2**40, 2**40 - 2**20, 2**20))

    code, lines = said(capsys, models.cpu_island(tmp_path / "island.onnx"), *BATCH, "--fail-on", "memcpy")

    text = joined(lines)
    assert code == 1
    assert "1 x copy to the host of 'product': which node forces it cannot be told: " in text
    assert "on the CPU: Det determinants/Det" in text
    assert "Only suspected, without the optimised graph: its weights may need 16 MiB in " in text


def test_a_directory_that_cannot_be_written_leaves_suspects_and_says_why(tmp_path: Path) -> None:
    job = SessionJob(
        models.cpu_island(tmp_path / "island.onnx"), "island.onnx", provider_of("webgpu"), shapes={"batch": 2}
    )
    plan = Plan(
        warmup_rounds=1, min_rounds=1, max_time_s=0.0, profile_runs=1, timeout_s=300.0, isolation="process", threads=1,
        timing=False,
    )  # fmt: skip
    measurement = Measurement(job, plan, tmp_path / "files", lambda _: None)
    record = measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)
    (tmp_path / "files").rename(tmp_path / "others")
    (tmp_path / "files").touch()

    explanation = measurement.explain(record, in_process=True)

    lines = list(explanation_lines(explanation))
    assert [line for line in lines if len(line) > 80] == []
    text = "".join("".join(lines).split())
    assert explanation.why_not == ""
    assert "ontheCPU:Detdeterminants/Det" in text
    assert f"Onlysuspected,withouttheoptimisedgraph:{tmp_path / 'files'}cannotbewritten:" in text
