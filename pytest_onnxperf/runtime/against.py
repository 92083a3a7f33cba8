"""The reference of `--onnxperf-against`: another interpreter, or the files of another git revision.

It is resolved and checked once, before the first measurement.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pytest_onnxperf.core.errors import ModelError, OnnxPerfError, SettingError

from .generator_job import GeneratorJob
from .model_files import model_files
from .session_job import SessionJob
from .worktree import Worktree, git

if TYPE_CHECKING:
    from .plan import Subject

FLAG: Final = "--onnxperf-against"
_PYTHONS: Final = ("bin/python", "Scripts/python.exe")
_CHECK_S: Final = 120
_MARK: Final = "onnxperf-check "
_OLDEST: Final = (3, 9)
_LFS: Final = b"version https://git-lfs.github.com/spec/v1"
# In the syntax of any Python. The empty entry of sys.path goes first, as in a measuring process.
_CHECK: Final = f"""
import json, sys
sys.path[:] = [entry for entry in sys.path if entry]
found = {{"python": "%d.%d.%d" % tuple(sys.version_info[:3])}}
for name in ("numpy", "onnxruntime") if sys.version_info >= {_OLDEST} else ():
    try:
        found[name] = str(__import__(name).__version__)
    except Exception:
        found["missing"], found["why"] = name, "%s" % (sys.exc_info()[1],)
        break
print("")
print("{_MARK}" + json.dumps(found))
"""


class NotComparableError(OnnxPerfError):
    """A model has no counterpart in the reference, so that nothing can be told."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The other version of the world. Plain data, so that it can go to the workers of pytest-xdist."""

    kind: Literal["interpreter", "revision"]
    given: str
    """As the option names it."""
    python: str
    """The interpreter of the reference arm."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of that interpreter; empty for a revision, whose arms share one."""
    commit: str = ""
    top: str = ""
    """The top directory of the repository."""
    tree: str = ""
    """The top directory of the revision's files."""

    @property
    def text(self) -> str:
        """What it was taken for."""
        return f"interpreter {self.given}" if self.kind == "interpreter" else f"revision {self.given} ({self.commit})"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of its processes: paths of this interpreter are none of another one."""
        return {"PYTHONPATH": "", "PYTHONHOME": ""} if self.kind == "interpreter" else {}

    @property
    def note(self) -> str:
        """What is the same in both arms."""
        return "the same model files in both arms" if self.kind == "interpreter" else "the same runtime in both arms"

    def counterpart(self, subject: Subject) -> Subject:
        """Return what the reference arm measures.

        Raises:
            NotComparableError: There is nothing to compare with.
            ModelError: The file is there and cannot be used.
        """
        if not isinstance(subject, SessionJob | GeneratorJob):
            msg = "requests at once (measure_load) are not timed in turn with a reference: measure() is"
            raise NotComparableError(msg)
        if self.kind == "interpreter":
            return subject
        model = self._mapped(subject.model, subject.model_text)
        self._check_lfs(model)
        return replace(subject, model=model)

    def changed_files(self, subject: Subject) -> tuple[str, ...]:
        """Return the files of a model that the revision has otherwise, relative to the top of the repository."""
        if self.kind == "interpreter" or not isinstance(subject, SessionJob | GeneratorJob):
            return ()
        model = Path(os.path.realpath(subject.model.parent)) / subject.model.name
        try:
            files = model_files(model) if model.is_file() else (model,)
            real = {path for file in files for path in (str(file), os.path.realpath(file))}
            paths = sorted(path for path in real if Path(path).is_relative_to(self.top))
            changed = git(Path(self.top), "diff", "--name-only", "-z", self.commit, "--", *paths)
            new = git(Path(self.top), "ls-files", "--others", "-z", "--", *paths)
        except OnnxPerfError:  # which is no reason to lose what was measured
            return ()
        return tuple(sorted({*changed.split("\0"), *new.split("\0")} - {""}))

    def _mapped(self, model: Path, text: str) -> Path:
        parent = Path(os.path.realpath(model.parent))
        try:
            inside = (parent / model.name).relative_to(self.top)
        except ValueError:
            msg = (
                f"{text} is the same file in both arms: it lies outside of the git repository {self.top}, as what a "
                f"test writes into tmp_path does, so that {self.text} has no other version of it"
            )
            raise NotComparableError(msg) from None
        mapped = Path(self.tree) / inside
        module = next(
            (each for each in (parent, *parent.parents) if each != Path(self.top) and (each / ".git").exists()), None
        )
        if not mapped.exists() and module is not None and module.is_relative_to(self.top):
            msg = f"{text} lies in the submodule {module}, of which {self.text} of {self.top} holds no files"
            raise NotComparableError(msg)
        if not mapped.exists():
            msg = f"{inside.as_posix()} is not in {self.text}: there is nothing to compare with"
            raise NotComparableError(msg)
        if model.exists() and mapped.samefile(model):
            msg = f"{text} is the same file in both arms: {inside.as_posix()} is a link to a place outside of git"
            raise NotComparableError(msg)
        return mapped

    def _check_lfs(self, model: Path) -> None:
        """Refuse pointers of Git LFS, of which the working tree of the revision is full where it is not installed."""
        files = [file for file in model.rglob("*") if file.is_file()] if model.is_dir() else [model]
        pointer = next((file for file in files if _is_pointer(file)), None)
        advice = (
            f"install Git LFS and fetch the files of that revision, `git lfs install` and "
            f"`git lfs fetch origin {self.given}` (of the one checked out: `git lfs pull`)"
        )
        if pointer is not None:
            name = pointer.relative_to(self.tree).as_posix()
            msg = f"{name} in {self.text} is a pointer of Git LFS, not the file itself: {advice}"
            raise ModelError(msg)
        if model.is_file():
            try:
                model_files(model)
            except ModelError as error:
                hint = f"; {advice}" if "Git LFS" in str(error) else ""
                msg = f"{self.text}: {error}{hint}".replace(self.tree + os.sep, "")
                raise ModelError(msg) from error


def _is_pointer(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_LFS)) == _LFS


def resolve(given: str, root: Path) -> tuple[Reference, Worktree | None]:
    """Find out what the option names, check it, and for a revision make its worktree, which the caller removes.

    An existing executable file, or a directory with `bin/python`, is an interpreter, anything else a git revision.

    Raises:
        SettingError: It is neither, or it cannot be used.
    """
    python = _interpreter(Path(given).expanduser())
    if python is not None:
        return Reference("interpreter", given, str(python), checked_versions(str(python))), None
    commit, top = _commit(given, root)
    try:
        tree = Worktree(top, commit)
    except SettingError as error:
        msg = f"{FLAG}={given}: {error}"
        raise SettingError(msg) from error
    return Reference("revision", given, sys.executable, {}, commit[:10], str(top), str(tree.path)), tree


def _interpreter(path: Path) -> Path | None:
    for candidate in (path, *(path / name for name in _PYTHONS)):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()  # links stay: they are how an environment is told from its base
    return None


def _commit(given: str, root: Path) -> tuple[str, Path]:
    what = "there is no such file"
    path = Path(given).expanduser()
    if path.is_dir():
        what = "a directory without bin/python"
    elif path.exists():
        what = "the file is not executable"
    try:
        top = Path(git(root, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    except SettingError as error:
        msg = f"{FLAG}={given}: no interpreter ({what}), and no git revision: {root} is in no repository ({error})"
        raise SettingError(msg) from error
    try:
        return git(root, "rev-parse", "--verify", "--end-of-options", f"{given}^{{commit}}").strip(), top
    except SettingError as error:
        is_shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
        advice = f". This clone is shallow: `git fetch origin {given}`, and give FETCH_HEAD" if is_shallow else ""
        msg = (
            f"{FLAG}={given}: no interpreter ({what}), and no revision that git finds in {top} ({error}). Give the "
            f"path of a Python or of an environment, or a branch, tag or commit{advice}"
        )
        raise SettingError(msg) from error


def checked_versions(python: str) -> dict[str, str]:
    """Return the versions of an interpreter that can measure: Python, numpy and onnxruntime.

    Raises:
        SettingError: It cannot; the message says what is missing and how to mend it.
    """
    prefix = f"{FLAG}: the interpreter {python}"
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONHOME": "", "ORT_DISABLE_TELEMETRY": "1"}
    try:
        done = subprocess.run(
            [python, "-c", _CHECK], env=environment, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=_CHECK_S, check=False,
        )  # fmt: skip
    except OSError as error:
        msg = f"{prefix} cannot be started: {error.strerror}"
        raise SettingError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{prefix} did not say its versions within {_CHECK_S} s"
        raise SettingError(msg) from error
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        said = [line for line in lines if line.strip() and "import json" not in line]  # some quote their arguments
        what = f"it said: {said[-1]:.200}" if said else "it said nothing of use"
        msg = f"{prefix} does not answer like a Python (exit status {done.returncode}); {what}"
        raise SettingError(msg)
    found: dict[str, str] = json.loads(lines[-1].removeprefix(_MARK))
    version = tuple(int(part) for part in found["python"].split(".")[:2])
    if version < _OLDEST:
        msg = f"{prefix} is Python {found['python']}: the measuring process needs 3.9 or later"
        raise SettingError(msg)
    if "missing" in found:
        msg = (
            f"{prefix} cannot import {found['missing']} ({found['why']}): it needs numpy and onnxruntime, and nothing "
            f"else, `{python} -m pip install numpy onnxruntime`"
        )
        raise SettingError(msg)
    return {name: found[name] for name in ("onnxruntime", "numpy", "python")}
