"""--onnxperf-against as a user runs it: another interpreter and another revision, and everything that can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_onnxperf.runtime.worktree import PREFIX
from tests import genai_models, models
from tests.plugin.suite import ON, section, too_wide
from tests.runtime import children
from tests.runtime.test_process import bare_interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.plugin.suite import Suite

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="interpreters of a POSIX system")

FACTS: Final = (*ON, "--onnxperf-timing=off", "--onnxperf-profile-runs=2")
TIMES: Final = (*ON, "--onnxperf-max-time=0.1", "--onnxperf-threads=1", "--onnxperf-profile-runs=2")
LOOSE: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_regression=9)  # what is tested is not the machine
    def test_mlp(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""


def git(suite: Suite, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, cwd=suite.path, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Suite:
    """A repository with a model in its one commit; whatever happens, no worktree is left behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    suite.model(write=models.slow_model, blocks=40)
    suite.module()
    git(suite, "init", "-q", "-b", "main")
    git(suite, "add", "mlp.onnx", "test_perf.py")
    git(suite, "commit", "-q", "-m", "a commit")
    return suite


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Check, in the end, that no worktree is left behind."""
    yield
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Another interpreter, with numpy and onnxruntime and without this plugin."""
    return bare_interpreter(tmp_path / "venv", "numpy", "onnxruntime")


def usage_error(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str() + result.stderr.str()
    return " ".join(result.stderr.str().split())


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_a_slower_model_than_that_of_the_revision_fails_without_any_baseline(project: Suite) -> None:
    project.model(write=models.slow_model, blocks=120)  # not committed

    result = project.run_apart(*TIMES, "--onnxperf-against=HEAD", "--junitxml=junit.xml")

    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    result.stdout.fnmatch_lines([
        "onnxperf: against revision HEAD (*), and no baseline",
        "  regressed    latency p50 * ms, ratio of times *",
        "Against revision HEAD (*)",
        "  reference: onnxruntime *, numpy *, python *",
        "  tested: onnxruntime *, numpy *, python *",
        "  what differs: mlp.onnx; the same runtime in both arms",
        "- If this is intended, `@pytest.mark.onnx_budget(max_regression=...)` allows*",
        "against revision HEAD (*): reference -> tested, ratio of times*",
        "test_mlp * -> * ms  * to *  regressed",
        "not compared: baselines, and load and cold start*",
    ])  # fmt: skip
    assert "--onnxperf-update" not in "\n".join(section(result, "onnxperf"))
    assert "against baselines" not in output
    assert too_wide(section(result, "onnxperf")) == []
    assert not (project.path / "baselines").exists()
    properties, _ = project.junit()["test_mlp"]
    assert float(properties["onnxperf.against_latency_p50_ratio"]) > 1.3
    assert git(project, "worktree", "list").count("\n") == 1


def test_a_faster_model_than_that_of_the_revision_is_improved(project: Suite) -> None:
    project.model(write=models.slow_model, blocks=5)
    result = project.run(*TIMES, "--onnxperf-against=main")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_mlp * ms  0.* to 0.*  improved"])


def test_an_interpreter_is_compared_with_the_same_files(project: Suite, python: str) -> None:
    project.module(LOOSE)
    result = project.run(*TIMES, f"--onnxperf-against={python}", "-v")
    result.assert_outcomes(passed=1)
    output = " ".join(result.stdout.str().split())
    assert f"{python} onnxperf: with onnxruntime " in output
    assert "what differs: nothing that is known; the same model files in both arms" in output
    assert "ok: latency p50" in output
    assert "ok: model size" in output


def test_facts_alone_are_compared_without_timing(project: Suite, python: str) -> None:
    project.model(write=models.slow_model, blocks=41)
    result = project.run(*FACTS, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["  regressed    cpu_nodes * -> * a run", "test_mlp * facts alone were compared, no times"]
    )
    project.run(*FACTS, f"--onnxperf-against={python}").assert_outcomes(passed=1)


def test_the_feeds_of_a_test_go_to_both_arms(project: Suite, python: str) -> None:
    project.module("""
        import numpy as np
        import pytest

        @pytest.mark.onnx_budget(max_regression=9)
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure({"x": np.ones((2, 64), np.float32)})
    """)
    for reference in ("HEAD", python):
        project.run(*TIMES, f"--onnxperf-against={reference}").assert_outcomes(passed=1)


def test_workers_share_the_reference_that_the_controller_resolved(project: Suite) -> None:
    project.module(LOOSE)
    project.module(LOOSE.replace("test_mlp", "test_other"), name="test_other.py")
    result = project.run_apart(*FACTS, "--onnxperf-against=HEAD", "-n2")
    result.assert_outcomes(passed=2)
    assert git(project, "worktree", "list").count("\n") == 1


@pytest.mark.needs_genai
def test_whole_generations_are_timed_in_turn(project: Suite) -> None:
    genai_models.decoder(project.path / "decoder")
    git(project, "add", "decoder")
    git(project, "commit", "-q", "-m", "a decoder")
    project.module("""
        import pytest

        @pytest.mark.onnx_budget(max_regression=9)
        def test_decoder(genai_generator):
            genai_generator("decoder").measure(prompt_tokens=20, new_tokens=8, rounds=3)

        @pytest.mark.onnx_measure(unverifiable="skip")
        def test_load(genai_generator):
            genai_generator("decoder").measure_load(concurrency=[2], prompt_tokens=8, new_tokens=4)
    """)
    result = project.run_apart(*TIMES, "--onnxperf-against=HEAD", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["test_decoder TTFT * ms  *", "test_decoder decode * tok/s  *", "SKIPPED*test_perf.py*"]
    )
    assert "requests at once (measure_load)" in result.stdout.str()


# -- what cannot be compared -------------------------------------------------------------------------------------------


def test_a_model_that_the_revision_lacks_is_no_pass_unless_the_options_say_so(project: Suite) -> None:
    project.model("new.onnx")
    project.module("""
        def test_new(onnx_session):
            onnx_session("new.onnx").measure(shapes={"batch": 1})
    """)
    result = project.run(*FACTS, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    assert "new.onnx cannot be compared with revision HEAD" in output
    assert "new.onnx is not in revision HEAD" in output
    assert "(onnxperf_unverifiable = fail, skip or pass)" in output

    skipped = project.run(*FACTS, "--onnxperf-against=HEAD", "--onnxperf-unverifiable=skip", "-rs")
    skipped.assert_outcomes(skipped=1)
    passed = project.run(*FACTS, "--onnxperf-against=HEAD", "--onnxperf-unverifiable=pass")
    passed.assert_outcomes(passed=1)
    assert "test_new: cannot-tell: new.onnx is not in revision HEAD" in " ".join(passed.stdout.str().split())


def test_a_model_that_the_test_makes_has_no_other_revision(project: Suite, python: str) -> None:
    project.module("""
        import shutil

        def test_made(onnx_session, tmp_path):
            shutil.copy("mlp.onnx", tmp_path)
            onnx_session(tmp_path / "mlp.onnx").measure(shapes={"batch": 1})
    """)
    result = project.run(*FACTS, "--onnxperf-against=HEAD", f"--basetemp={project.path.parent / 'base'}")
    result.assert_outcomes(failed=1)
    assert "mlp.onnx is the same file in both arms" in " ".join(result.stdout.str().split())
    project.run(*FACTS, f"--onnxperf-against={python}").assert_outcomes(passed=1)


def test_a_model_that_is_nowhere_is_missing(project: Suite) -> None:
    (project.path / "mlp.onnx").unlink()
    result = project.run(*FACTS, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    assert "there is no such file" in result.stdout.str()


def test_arms_with_inputs_of_other_names_are_refused(project: Suite) -> None:
    project.model(write=models.several_inputs)
    result = project.run(*TIMES, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    assert "the two arms take inputs of other names" in output
    assert "`ids`, `mask`, `wide`, `x` here, `x` in revision HEAD" in output


def test_a_reference_arm_whose_model_takes_other_shapes_says_that_the_two_cannot_be_compared(project: Suite) -> None:
    project.model(write=models.mlp, width=16)
    project.module("""
        import numpy as np

        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure({"x": np.ones((1, 16), np.float32)})
    """)
    result = project.run(*TIMES, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    assert "the reference arm, revision HEAD" in output
    assert "`x`: dimension 1 is 16, the model fixes it at 64" in output
    assert "the two have other inputs and cannot be compared" in output


@pytest.mark.parametrize("step", ["round", "profile"])
def test_a_reference_arm_that_crashes_is_named(project: Suite, python: str, step: str) -> None:
    (site,) = Path(python).parents[1].glob("lib/python*/site-packages")
    children.at_step(site, step, "import os; os.abort()")
    result = project.run(*(TIMES if step == "round" else FACTS), f"--onnxperf-against={python}")
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    assert "the reference arm, interpreter" in output
    assert "was killed by SIGABRT in its step `" in output


def test_a_tested_arm_that_crashes_is_not_taken_for_the_other(
    project: Suite, python: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in children.at_step(tmp_path / "site", "block", "import os; os.abort()").items():
        monkeypatch.setenv(name, value)
    result = project.run(*TIMES, f"--onnxperf-against={python}")
    result.assert_outcomes(failed=1)
    assert "was killed by SIGABRT in its step `block`" in " ".join(result.stdout.str().split())
    assert "the reference arm" not in result.stdout.str()


# -- options -----------------------------------------------------------------------------------------------------------


def test_an_unknown_reference_ends_the_session_before_it_measures(project: Suite) -> None:
    for arguments in ((), ("-q",)):
        error = usage_error(project.run(*FACTS, "--onnxperf-against=nonsense", *arguments))
        assert "--onnxperf-against=nonsense: no interpreter (there is no such file), and no revision" in error


def test_what_measures_nothing_needs_no_reference(project: Suite) -> None:
    project.run(*FACTS, "--onnxperf-against=nonsense", "--collect-only").assert_outcomes()
    project.module("def test_other(): pass")
    project.run(*FACTS, "--onnxperf-against=nonsense", "-q").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--onnxperf-update", "--onnxperf-against and --onnxperf-update do not go together"),
        ("--onnxperf-isolation=none", "leave --onnxperf-isolation=none out"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(project: Suite, argument: str, message: str) -> None:
    assert message in usage_error(project.run(*FACTS, "--onnxperf-against=HEAD", argument))


def test_a_test_that_is_marked_for_its_own_process_is_refused(project: Suite) -> None:
    project.module("""
        import pytest

        @pytest.mark.onnx_measure(isolation="none")
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)
    result = project.run(*FACTS, "--onnxperf-against=HEAD")
    result.assert_outcomes(failed=1)
    assert "leave --onnxperf-isolation=none out" in " ".join(result.stdout.str().split())


def test_a_tolerance_that_a_person_gives_is_the_floor(project: Suite) -> None:
    project.module("""
        import json
        from pathlib import Path
        from pytest_onnxperf.state import session_of

        def test_show(request):
            settings = session_of(request.config).settings_of(request.node)
            Path("shown.json").write_text(json.dumps(settings.is_tolerance_given))
    """)
    for argument, given in ((), False), (("--onnxperf-tolerance=0.3",), True), (("-o", "onnxperf_tolerance=0.3"), True):
        project.run(*FACTS, *argument).assert_outcomes(passed=1)
        assert json.loads((project.path / "shown.json").read_text("utf-8")) is given


def test_ctrl_c_leaves_no_worktree(project: Suite) -> None:
    project.module("""
        def test_mlp(onnx_session):
            raise KeyboardInterrupt
    """)
    result = project.run_apart(*FACTS, "--onnxperf-against=HEAD")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert git(project, "worktree", "list").count("\n") == 1
