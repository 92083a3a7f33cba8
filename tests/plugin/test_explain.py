"""What a failure says of its causes on the CPU, and --onnxperf-explain: with it, without it, and where it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models
from tests.plugin.suite import FACTS, QUICK, TIMES, section, too_wide
from tests.runtime import children

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.suite import Suite

ROOT: Final = Path(__file__).parents[2]
EXPLAIN: Final = "--onnxperf-explain"
UPDATE: Final = "--onnxperf-update"
INTERRUPTED: Final = 2

MODULE: Final = """
    def test_mlp(onnx_session):
        onnx_session("models/mlp.onnx").measure(shapes={"batch": 1})
"""
OVER: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_over(onnx_session):
        onnx_session("models/mlp.onnx").measure(shapes={"batch": 1})
"""


@pytest.fixture
def temporary(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of the inner sessions and of their processes."""
    path = suite.path / "temporary"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def at_explaining(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes measuring processes run code at a step; `assignment` is one of an explaining process alone."""

    def at_step(code: str, step: str = "assignment") -> None:
        path = children.at_step(suite.path / "site", step, code)["PYTHONPATH"]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")])))

    return at_step


def left(suite: Suite) -> list[str]:
    """Return what explaining left beside the model and in the temporary directories."""
    beside = [path.name for path in (suite.path / "models").iterdir() if path.suffix != ".onnx"]
    found = [*suite.path.parent.rglob("onnxperf-explain-*"), *suite.path.parent.rglob("optimized*")]
    return beside + [str(path) for path in found]


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


# -- what changed since the baseline --------------------------------------------------------------------------------


def test_a_regression_of_counts_says_which_op_types_run_more_often(suite: Suite) -> None:
    suite.model("models/mlp.onnx", layers=2)
    suite.module(MODULE)
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    suite.model("models/mlp.onnx", layers=4)

    failed = suite.run(*QUICK)

    failed.assert_outcomes(failed=1)
    lines = section(failed, "test_mlp")
    assert lines[lines.index("Since the baseline, a run:") + 1] == "  count   FusedGemm on CPU 2 -> 4"
    assert too_wide(failed.outlines) == []


def test_a_lost_fusion_says_which_op_types_are_new_and_which_are_lost(suite: Suite) -> None:
    suite.model("decoder.onnx", models.transformer_block)
    suite.module("""
        from pathlib import Path

        def test_decoder(onnx_session):
            is_decoder = b"GroupQueryAttention" in Path("decoder.onnx").read_bytes()
            shapes = {"batch": 1, "seq": 4, "past": 0, "total": 4} if is_decoder else {"batch": 1}
            onnx_session("decoder.onnx").measure(shapes=shapes)
    """)
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    suite.model("decoder.onnx", models.mlp)

    failed = suite.run(*QUICK)

    failed.assert_outcomes(failed=1)
    text = joined(section(failed, "test_decoder"))
    assert "Since the baseline, a run: new 2 FusedGemm on CPU lost " in text
    assert text.partition(" lost ")[2].startswith("7 MatMul on CPU, 2 Cast on CPU, ")
    assert "node time" not in text  # the baseline has facts alone
    assert too_wide(failed.outlines) == []


def test_a_really_slower_model_says_which_op_types_carry_the_lost_time(suite: Suite) -> None:
    slow = (*TIMES, "--onnxperf-update-force", "--onnxperf-baseline-processes=1", "--onnxperf-tolerance=9")
    suite.module("""
        def test_slow(onnx_session):
            onnx_session("slow.onnx").measure(shapes={"batch": 8})
    """)
    suite.model("slow.onnx", models.slow_model, blocks=10, width=4)
    suite.run(*slow, UPDATE).assert_outcomes(passed=1)
    suite.model("slow.onnx", models.slow_model, blocks=10, width=800)

    failed = suite.run(*slow)

    failed.assert_outcomes(failed=1)
    failed.stdout.re_match_lines(
        [
            "Since the baseline, a run:",
            r"  slower  node time [\d.e+]+ -> [\d.e+]+ ms, profiled: \w+ on CPU \+[\d.e+]+ ms.*",
        ]
    )
    assert "the time to launch" not in failed.stdout.str()
    assert too_wide(failed.outlines) == []


def test_a_run_that_is_as_recorded_has_no_changes_to_show(suite: Suite) -> None:
    suite.model("models/mlp.onnx")
    suite.module(OVER)
    suite.run(*QUICK, UPDATE)
    result = suite.run(*QUICK)

    result.assert_outcomes(failed=1)
    assert "Since the baseline" not in result.stdout.str()


# -- --onnxperf-explain ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("-q",), ("-n", "2")], ids=["plain", "quiet", "workers"])
def test_passing_tests_are_explained_on_demand(suite: Suite, temporary: Path, more: tuple[str, ...]) -> None:
    suite.model("models/mlp.onnx")
    suite.module("""
        import pytest

        @pytest.mark.parametrize("batch", [1, 2])
        def test_mlp(onnx_session, batch):
            onnx_session("models/mlp.onnx").measure(shapes={"batch": batch})
    """)
    run = suite.run_apart if "-n" in more else suite.run

    result = run(*FACTS, EXPLAIN, *more)

    result.assert_outcomes(passed=2)
    text = result.stdout.str()
    for name in ("test_mlp[1]: models/mlp.onnx", "test_mlp[2]: models/mlp.onnx"):
        shown = joined(text.partition(name)[2].splitlines()[:6])
        assert shown.startswith("Roofline: no ceilings are known for this device"), text
        assert "FusedGemm CPU " in shown
    assert ("memcpy 0" in text) is ("-q" not in more)
    assert too_wide(result.outlines) == []
    assert left(suite) == []


def test_attention_of_a_passing_test_is_shown(suite: Suite) -> None:
    suite.model("unfused.onnx", models.attention, form="unfused")
    suite.module("""
        def test_unfused(onnx_session):
            onnx_session("unfused.onnx").measure()
    """)

    result = suite.run(*QUICK, EXPLAIN)

    result.assert_outcomes(passed=1)
    text = joined(section(result, "onnxperf"))
    assert "Attention MatMul+Softmax+MatMul: unfused (float, head size 64, query length 32)" in text
    assert "Attention that is not Flash, and why 1 x MatMul+Softmax+MatMul, unfused: it is written as" in text


@pytest.mark.parametrize(
    ("module", "more", "processes"),
    [(MODULE, (), 0), (OVER, (), 0), (MODULE, (EXPLAIN,), 1), (OVER, (EXPLAIN,), 1)],
    ids=["passing", "failing", "passing, explained", "failing, explained"],
)
def test_on_the_cpu_a_process_is_started_to_explain_on_demand_alone(
    suite: Suite, at_explaining: Callable[..., None], module: str, more: tuple[str, ...], processes: int
) -> None:
    seen = suite.path / "seen"
    at_explaining(f"with open({str(seen)!r}, 'a') as file: file.write('one ')")
    suite.model("models/mlp.onnx")
    suite.module(module)

    suite.run(*FACTS, *more)

    assert (seen.read_text("utf-8").count("one") if seen.exists() else 0) == processes


def test_several_models_of_a_test_are_explained_each_under_its_label(suite: Suite) -> None:
    suite.model("models/mlp.onnx")
    suite.module("""
        def test_two(onnx_session):
            for batch in (1, 2):
                onnx_session("models/mlp.onnx").measure(shapes={"batch": batch}, label=f"b{batch}")
    """)

    lines = section(suite.run(*QUICK, EXPLAIN), "onnxperf")

    assert "test_two#b1: models/mlp.onnx" in lines
    assert "test_two#b2: models/mlp.onnx" in lines


# -- where it fails -------------------------------------------------------------------------------------------------


def test_an_explaining_process_that_crashes_does_not_hide_the_failure(
    suite: Suite, temporary: Path, at_explaining: Callable[..., None]
) -> None:
    at_explaining("import os; os._exit(3)")
    suite.model("models/mlp.onnx")
    suite.module(OVER)

    result = suite.run(*FACTS, EXPLAIN)

    result.assert_outcomes(failed=1)
    text = joined(section(result, "test_over"))
    assert "over budget max_nodes: 2 a run, budget at most 1" in text
    assert "Could not be explained further: the measuring process exited with status 3 in its step" in text
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_over - Failed: max_nodes: 2 a run, budget at most 1"])
    assert too_wide(result.outlines) == []
    assert left(suite) == []


def test_an_explaining_process_that_crashes_fails_no_passing_test(
    suite: Suite, temporary: Path, at_explaining: Callable[..., None]
) -> None:
    at_explaining("import os; os._exit(3)")
    suite.model("models/mlp.onnx")
    suite.module(MODULE)

    result = suite.run(*FACTS, EXPLAIN)

    result.assert_outcomes(passed=1)
    assert "Could not be explained further: the measuring process" in joined(section(result, "onnxperf"))
    assert left(suite) == []


def test_a_model_that_is_gone_when_it_is_to_be_explained_does_not_hide_the_failure(
    suite: Suite, temporary: Path, at_explaining: Callable[..., None]
) -> None:
    model = suite.model("models/mlp.onnx")
    at_profiling = "'-profile' in sys.argv[2]"  # and not where the header probes the EP
    at_explaining(f"import os, sys\nif {at_profiling}: os.unlink({str(model)!r})", step="profile")
    suite.module(OVER)

    result = suite.run(*FACTS, EXPLAIN)

    result.assert_outcomes(failed=1)
    text = joined(section(result, "test_over"))
    assert "over budget max_nodes: 2 a run, budget at most 1" in text
    assert "Could not be explained further: " in text
    assert "there is no such file" in text
    assert not model.exists()
    assert left(suite) == []


def measured(directory: Path) -> tuple[Measurement, Record]:
    job = SessionJob(models.mlp(directory / "mlp.onnx"), "mlp.onnx", provider_of("cpu"), shapes={"batch": 1})
    plan = Plan(
        warmup_rounds=1, min_rounds=1, max_time_s=0.0, profile_runs=1, timeout_s=120.0, isolation="process", threads=1,
        timing=False,
    )  # fmt: skip
    measurement = Measurement(job, plan, directory / "files", lambda _: None)
    return measurement, measurement.record(TestKey("test_a.py", "test_a"), lambda _: False)


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    measurement, record = measured(tmp_path)
    (tmp_path / "files").rename(tmp_path / "others")
    (tmp_path / "files").touch()

    found = measurement.explain(record, in_process=True)

    assert found.why_not == ""
    assert found.models[0].placement.all_on == "CPUExecutionProvider"
    assert list((tmp_path / "temporary").glob("onnxperf-explain-*")) == []


def test_without_any_directory_that_can_be_written_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    measurement, record = measured(tmp_path)
    (tmp_path / "files").rename(tmp_path / "others")
    (tmp_path / "files").touch()

    def no_room(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", no_room)
    found = measurement.explain(record, in_process=True)

    assert "No space left on device" in found.why_not
    assert len(found.models) == 1


# -- Ctrl-C ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_ctrl_c_while_explaining_leaves_no_process_and_no_file(
    suite: Suite, temporary: Path, at_explaining: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, mark = suite.path / "begun", children.new_mark()
    at_explaining(f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)")
    monkeypatch.setenv(children.MARK, mark)
    suite.model("models/mlp.onnx")
    suite.module(MODULE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(ROOT)])}
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *FACTS, EXPLAIN],
        cwd=suite.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    end_s = time.monotonic() + 120
    while not begun.exists() and run.poll() is None and time.monotonic() < end_s:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    output = run.communicate(timeout=60)[0]

    assert begun.exists(), output
    assert run.returncode == INTERRUPTED, output
    assert children.marked_processes(mark) == []
    files = [path for path in temporary.rglob("*") if path.is_file() and "onnxperf-locks" not in str(path)]
    assert [path for path in files if path.name != ".lock"] == []
    assert left(suite) == []
