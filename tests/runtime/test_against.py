"""What the reference of --onnxperf-against is: an interpreter or a revision, and what is wrong with one that is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime
import pytest

from pytest_onnxperf.core.errors import ModelError, SettingError
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.against import NotComparableError, Reference, resolve
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.load_job import LoadJob
from pytest_onnxperf.runtime.session_job import SessionJob
from pytest_onnxperf.runtime.turns import take_turns
from pytest_onnxperf.runtime.worktree import PREFIX, Worktree, git, remove_abandoned
from tests import models

from .test_process import bare_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="interpreters of a POSIX system")

ROOT = Path(__file__).parents[2]
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The directory for worktrees; every test leaves it as it was."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert worktrees_in(directory) == []


def worktrees_in(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{PREFIX}*"))


class Repository:
    """A git repository with models."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        git(path, "init", "-q", "-b", "main")

    def commit(self, message: str = "a commit") -> str:
        git(self.path, "add", "--all")
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        git(self.path, *name, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.path, "rev-parse", "HEAD").strip()

    def worktrees(self) -> list[str]:
        lines = git(self.path, "worktree", "list", "--porcelain").splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith("worktree ")][1:]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose first commit has a model."""
    made = Repository(tmp_path / "repository")
    models.mlp(made.path / "models" / "mlp.onnx")
    made.commit()
    return made


@pytest.fixture
def reference(repository: Repository) -> Iterator[Callable[..., Reference]]:
    """Resolves references, whose worktrees are removed in the end."""
    trees: list[Worktree] = []

    def make(given: str, root: Path | None = None) -> Reference:
        found, tree = resolve(given, root or repository.path)
        trees.extend([tree] if tree is not None else [])
        return found

    yield make
    for tree in trees:
        tree.remove()
    assert repository.worktrees() == []


def job(model: Path) -> SessionJob:
    return SessionJob(model, model.name, provider_of("cpu"))


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(body), encoding="utf-8")
    path.chmod(0o755)
    return path


# -- interpreters ------------------------------------------------------------------------------------------------------


def test_an_executable_file_and_an_environment_are_interpreters(
    reference: Callable[..., Reference], tmp_path: Path
) -> None:
    python = bare_interpreter(tmp_path / "venv", "numpy", "onnxruntime")
    for given in (python, str(tmp_path / "venv")):
        found = reference(given)
        assert (found.kind, found.python, found.text) == ("interpreter", python, f"interpreter {given}")
        assert found.versions["onnxruntime"] == onnxruntime.__version__
        subject = job(tmp_path / "any.onnx")
        assert found.counterpart(subject) is subject


def test_paths_of_this_interpreter_are_none_of_another(
    reference: Callable[..., Reference], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shadow" / "numpy").mkdir(parents=True)
    (tmp_path / "shadow" / "numpy" / "__init__.py").write_text("raise ImportError('a shadow')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    found = reference(bare_interpreter(tmp_path / "venv", "numpy", "onnxruntime"))
    assert found.variables == {"PYTHONPATH": "", "PYTHONHOME": ""}


@pytest.mark.parametrize(
    ("packages", "missing"), [pytest.param((), "numpy", id="numpy"), pytest.param(("numpy",), "onnxruntime", id="ort")]
)
def test_an_interpreter_without_what_it_needs_says_what_and_how_to_install_it(
    reference: Callable[..., Reference], tmp_path: Path, packages: tuple[str, ...], missing: str
) -> None:
    python = bare_interpreter(tmp_path / "venv", *packages)
    with pytest.raises(SettingError, match=f"{python} cannot import {missing} .No module named '{missing}'") as raised:
        reference(python)
    assert f"`{python} -m pip install numpy onnxruntime`" in str(raised.value)


def test_a_python_that_is_too_old_says_so(reference: Callable[..., Reference], tmp_path: Path) -> None:
    """It is asked in a syntax that any Python reads; here a newer one that says it is 3.8."""
    python = script(
        tmp_path / "python3.8",
        """
        import sys
        sys.version_info = (3, 8, 10, "final", 0)
        exec(sys.argv[2])
        """,
    )
    with pytest.raises(SettingError, match=r"python3.8 is Python 3.8.10: the measuring process needs 3.9 or later"):
        reference(str(python))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("print('what?')", r"does not answer like a Python \(exit status 0\); it said: what\?", id="other"),
        pytest.param(
            "import sys; raise SystemExit(f'cannot access {sys.argv[-1]!r}')", "it said nothing of use", id="ls"
        ),
        pytest.param("raise SystemExit('no licence')", r"\(exit status 1\); it said: no licence", id="fails"),
        pytest.param("import os; os.abort()", r"does not answer like a Python \(exit status -6\)", id="crashes"),
    ],
)
def test_an_executable_that_is_no_python_says_what_it_said(
    reference: Callable[..., Reference], tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        reference(str(script(tmp_path / "program", body)))


def test_a_file_that_cannot_be_started_says_why(reference: Callable[..., Reference], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF nothing")
    program.chmod(0o755)
    with pytest.raises(SettingError, match="cannot be started: Exec format error"):
        reference(str(program))


# -- revisions ---------------------------------------------------------------------------------------------------------


def test_a_revision_has_its_own_model_whatever_the_worktree_holds(
    reference: Callable[..., Reference], repository: Repository
) -> None:
    model = repository.path / "models" / "mlp.onnx"
    before = model.read_bytes()
    models.mlp(model, layers=4)  # not committed: the worktree is dirty

    found = reference("HEAD")
    other = found.counterpart(job(model))

    assert isinstance(other, SessionJob)
    assert found.text == f"revision HEAD ({found.commit})"
    assert (other.model.read_bytes(), other.model_text) == (before, "mlp.onnx")
    assert model.read_bytes() != before


def test_a_root_below_the_top_of_the_repository_is_mapped_too(
    reference: Callable[..., Reference], repository: Repository
) -> None:
    other = reference("main", repository.path / "models").counterpart(job(repository.path / "models" / "mlp.onnx"))
    assert isinstance(other, SessionJob)
    assert other.model.is_file()


def test_external_data_comes_along(reference: Callable[..., Reference], repository: Repository) -> None:
    model = models.external_data(repository.path / "models" / "large.onnx")
    size = job(model).size_bytes()
    repository.commit()
    models.external_data(model, layers=4)

    assert reference("HEAD").counterpart(job(model)).size_bytes() == size


@pytest.mark.parametrize("name", ["pointer.onnx", "large.onnx"])
def test_a_pointer_of_git_lfs_is_named_with_what_fetches_the_file(
    reference: Callable[..., Reference], repository: Repository, name: str
) -> None:
    model = models.external_data(repository.path / "models" / "large.onnx")
    (data,) = {file for file in model.parent.iterdir() if file.name.startswith("large") and file != model}
    data.write_text(POINTER)
    (repository.path / "models" / "pointer.onnx").write_text(POINTER)
    repository.commit()

    with pytest.raises(ModelError) as raised:
        reference("HEAD").counterpart(job(repository.path / "models" / name))

    assert ("models/pointer.onnx" if name == "pointer.onnx" else f"models/{data.name}") in str(raised.value)
    assert "pointer of Git LFS" in str(raised.value)
    assert "`git lfs fetch origin HEAD`" in str(raised.value)
    assert "git lfs pull" in str(raised.value)


def test_a_pointer_of_git_lfs_in_a_model_directory_is_named(
    reference: Callable[..., Reference], repository: Repository
) -> None:
    directory = repository.path / "decoder"
    directory.mkdir()
    (directory / "genai_config.json").write_text("{}")
    (directory / "model.onnx.data").write_text(POINTER)
    repository.commit()

    with pytest.raises(ModelError, match=r"^decoder/model.onnx.data in revision main .* is a pointer of Git LFS"):
        reference("main").counterpart(GeneratorJob(directory, "decoder", provider_of("cpu")))


def test_a_model_that_a_revision_does_not_have_cannot_be_compared(
    reference: Callable[..., Reference], repository: Repository
) -> None:
    model = models.mlp(repository.path / "models" / "new.onnx")
    with pytest.raises(NotComparableError, match=r"models/new.onnx is not in revision main .*nothing to compare with"):
        reference("main").counterpart(job(model))


def test_a_model_outside_of_the_repository_is_one_file_in_both_arms(
    reference: Callable[..., Reference], tmp_path: Path
) -> None:
    model = models.mlp(tmp_path / "made.onnx")
    with pytest.raises(
        NotComparableError, match=r"made.onnx is the same file in both arms: it lies outside of the git"
    ):
        reference("main").counterpart(job(model))


def test_a_link_to_a_place_outside_of_the_repository_is_one_file_in_both_arms(
    reference: Callable[..., Reference], repository: Repository, tmp_path: Path
) -> None:
    link = repository.path / "models" / "link.onnx"
    link.symlink_to(models.mlp(tmp_path / "made.onnx"))
    repository.commit()
    with pytest.raises(NotComparableError, match="is a link to a place outside of git"):
        reference("main").counterpart(job(link))


def test_files_of_a_model_that_a_revision_has_otherwise_are_named(
    reference: Callable[..., Reference], repository: Repository
) -> None:
    """The model itself, its external data, what a link points to, and what is not in git."""
    models.external_data(repository.path / "models" / "large.onnx")
    (data,) = {file.name for file in (repository.path / "models").glob("large*")} - {"large.onnx"}
    (repository.path / "models" / "link.onnx").symlink_to("mlp.onnx")
    decoder = repository.path / "d\u00e9 coder"
    decoder.mkdir()
    (decoder / "genai_config.json").write_text("{}")
    repository.commit()
    found = reference("HEAD")

    def changed(name: str) -> tuple[str, ...]:
        return found.changed_files(job(repository.path / "models" / name))

    assert changed("large.onnx") == changed("link.onnx") == ()
    with (repository.path / "models" / data).open("ab") as opened:
        opened.write(b"more")
    models.mlp(repository.path / "models" / "mlp.onnx", layers=4)
    (decoder / "new.onnx").write_bytes(b"")

    assert changed("large.onnx") == (f"models/{data}",)
    assert changed("link.onnx") == changed("mlp.onnx") == ("models/mlp.onnx",)
    assert found.changed_files(GeneratorJob(decoder, "decoder", provider_of("cpu"))) == ("d\u00e9 coder/new.onnx",)


def test_a_model_in_a_submodule_says_so(
    reference: Callable[..., Reference], repository: Repository, tmp_path: Path
) -> None:
    inner = Repository(tmp_path / "inner")
    models.mlp(inner.path / "m.onnx")
    inner.commit()
    git(repository.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "zoo")
    repository.commit()

    with pytest.raises(NotComparableError, match=r"m\.onnx lies in the submodule .*zoo, of which revision HEAD"):
        reference("HEAD").counterpart(job(repository.path / "zoo" / "m.onnx"))


def test_requests_at_once_cannot_be_compared(reference: Callable[..., Reference], repository: Repository) -> None:
    load = LoadJob(GeneratorJob(repository.path / "models", "models", provider_of("cpu")), 4)
    with pytest.raises(NotComparableError, match="requests at once"):
        reference("main").counterpart(load)


def nothing(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("given", "make", "what"),
    [
        pytest.param("/nowhere/bin/python", nothing, "there is no such file", id="missing-interpreter"),
        pytest.param("nonsense", nothing, "there is no such file", id="unknown-revision"),
        pytest.param("-x", nothing, "there is no such file", id="dash"),
        pytest.param("plain", lambda path: path.write_text("no program"), "the file is not executable", id="file"),
        pytest.param("empty", lambda path: path.mkdir(), "a directory without bin/python", id="directory"),
    ],
)
def test_what_is_neither_an_interpreter_nor_a_revision_says_both(
    reference: Callable[..., Reference],
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    make: Callable[[Path], object],
    what: str,
) -> None:
    monkeypatch.chdir(repository.path)
    make(repository.path / given)
    with pytest.raises(SettingError) as raised:
        reference(given)
    assert str(raised.value).startswith(
        f"--onnxperf-against={given}: no interpreter ({what}), and no revision that git"
    )
    assert "Give the path of a Python or of an environment, or a branch, tag or commit" in str(raised.value)


def test_a_revision_that_a_shallow_clone_lacks_says_how_to_fetch_it(
    reference: Callable[..., Reference], repository: Repository, tmp_path: Path
) -> None:
    repository.commit()
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository.path}", "shallow")
    with pytest.raises(SettingError, match=r"This clone is shallow: `git fetch origin HEAD~1`"):
        reference("HEAD~1", tmp_path / "shallow")


def test_outside_of_a_repository_there_is_no_revision(reference: Callable[..., Reference], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=f"no git revision: {tmp_path} is in no repository"):
        reference("main", tmp_path)


def test_without_git_there_is_no_revision(
    reference: Callable[..., Reference], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(SettingError, match="git cannot be started: install it"):
            reference("main")


def test_variables_of_a_git_hook_do_not_lead_astray(
    reference: Callable[..., Reference], repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert reference("main").top == str(repository.path)


# -- worktrees ---------------------------------------------------------------------------------------------------------


def test_two_runs_at_once_leave_each_other_alone(repository: Repository, temporary: Path) -> None:
    commit = repository.commit()
    first = Worktree(repository.path, commit)
    second = Worktree(repository.path, commit)
    assert len(repository.worktrees()) == 2
    assert (first.path / "models" / "mlp.onnx").is_file()
    first.remove()
    assert (second.path / "models" / "mlp.onnx").is_file()
    second.remove()
    assert repository.worktrees() == []


KILLED = """
import sys, tempfile
from pathlib import Path
from pytest_onnxperf.runtime.worktree import Worktree
tempfile.tempdir = sys.argv[3]
tree = Worktree(Path(sys.argv[1]), sys.argv[2])
print("made", flush=True)
sys.stdin.read()
"""


def test_a_run_that_was_killed_is_cleaned_up_by_the_next(repository: Repository, temporary: Path) -> None:
    commit = repository.commit()
    command = [sys.executable, "-c", KILLED, str(repository.path), commit, str(temporary)]
    run = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "made\n"

    alive = Worktree(repository.path, commit)
    assert len(repository.worktrees()) == 2, "that of a run which lives is left alone"
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    alive.remove()
    assert len(worktrees_in(temporary)) == 1

    Worktree(repository.path, commit).remove()

    assert repository.worktrees() == []
    assert worktrees_in(temporary) == []


def test_worktrees_of_the_user_are_left_alone_also_where_their_disk_is_not_there(
    repository: Repository, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    git(repository.path, "worktree", "add", "--detach", str(theirs))
    theirs.rename(tmp_path / "unmounted")
    ours = tmp_path / f"{PREFIX}gone"
    git(repository.path, "worktree", "add", "--detach", str(ours / "tree"))
    ours.rename(tmp_path / "cleaned-by-the-system")

    remove_abandoned(repository.path)

    assert repository.worktrees() == [str(theirs)]


def test_a_checkout_that_fails_says_why_and_leaves_nothing(repository: Repository) -> None:
    (repository.path / ".gitattributes").write_text("*.onnx filter=broken\n")
    commit = repository.commit()
    git(repository.path, "config", "filter.broken.smudge", "false")
    git(repository.path, "config", "filter.broken.required", "true")
    with pytest.raises(SettingError, match=r"^--onnxperf-against=main: commit \w{12} cannot be checked out: "):
        resolve("main", repository.path)
    assert repository.worktrees() == []
    assert commit


# -- rounds in turn ----------------------------------------------------------------------------------------------------


class Arms:
    """Two arms of given times, under a clock that they move."""

    def __init__(self, reference_ns: int, *tested_ns: int) -> None:
        self.now_s, self.order = 0.0, ""
        self._times = {"r": cycle([reference_ns]), "t": cycle(tested_ns)}

    def _round(self, arm: str) -> dict[str, int]:
        self.order += arm
        time_ns = next(self._times[arm])
        self.now_s += time_ns / 1e9
        return {"latency_p50": time_ns}

    def take(self, **options: Any) -> list[tuple[dict[str, int], dict[str, int]]]:
        given: dict[str, Any] = {"min_pairs": 10, "max_time_s": 1.0, "floor_ratio": 1.02, "seed": 0, **options}
        return take_turns(lambda: self._round("r"), lambda: self._round("t"), clock=lambda: self.now_s, **given)


def test_each_pair_has_one_round_of_each_arm_in_random_order() -> None:
    arms = Arms(1000, 1000)
    pairs = arms.take(max_time_s=0.0, min_pairs=200)
    assert len(pairs) == 200
    timed = arms.order[2:]
    seen = [timed[at : at + 2] for at in range(0, len(timed), 2)]
    assert set(seen) == {"rt", "tr"}
    assert 60 < seen.count("rt") < 140
    assert any(first == second for first, second in pairwise(seen))


def test_clear_cases_end_early_and_the_least_number_of_pairs_is_kept() -> None:
    for tested_ns in (1_000_000, 2_000_000):
        pairs = Arms(1_000_000, tested_ns).take()
        assert 10 <= len(pairs) <= 60, "of 500 that fit"
        assert pairs[0] == ({"latency_p50": 1_000_000}, {"latency_p50": tested_ns})
    assert len(Arms(1_000_000, 1_000_000).take(min_pairs=70)) >= 70


def test_what_is_not_certain_ends_with_the_time() -> None:
    assert 400 < len(Arms(1_000_000, 700_000, 1_400_000).take()) <= 600


def test_a_reference_is_plain_data() -> None:
    from dataclasses import asdict

    reference = Reference("revision", "main", sys.executable, {}, "abc", "/top", "/tree")
    assert Reference(**json.loads(json.dumps(asdict(reference)))) == reference
