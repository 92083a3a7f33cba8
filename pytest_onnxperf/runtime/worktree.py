"""A worktree of a git revision in a temporary directory, which is gone in the end, however a run ends.

Its home holds `tree`, the worktree, and `lock`, locked as long as the run lives: the system unlocks it when the run is
killed, so that the next run knows whose worktrees are left over, and removes these and no others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pytest_onnxperf.core.errors import SettingError

PREFIX: Final = "onnxperf-worktree-"
_ANSWER_S: Final = 60
_CHECKOUT_S: Final = 1800
"""A checkout may fetch files of Git LFS."""


def git(directory: Path, *arguments: str, timeout_s: float = _ANSWER_S) -> str:
    """Run git and return what it prints.

    Raises:
        SettingError: It fails, with its own last words, or it is not installed.
    """
    # A hook that runs pytest has variables such as GIT_DIR, which would point git elsewhere.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", "-c", f"core.hooksPath={os.devnull}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=timeout_s, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        msg = "git cannot be started: install it, or give the path of an interpreter"
        raise SettingError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"`git {arguments[0]}` did not end within {timeout_s:g} s"
        raise SettingError(msg) from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        msg = (
            lines[-1].strip().removeprefix("fatal: ")
            if lines
            else f"`git {arguments[0]}` exited with status {done.returncode}"
        )
        raise SettingError(msg)
    return done.stdout


class Worktree:
    """The files of one commit."""

    def __init__(self, root: Path, commit: str) -> None:
        """Check the commit out, after what killed runs have left of ours is removed.

        Raises:
            SettingError: git fails.
        """
        remove_abandoned(root)
        self._root = root
        self._home = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        self._lock = FileLock(self._home / "lock")
        self._lock.acquire()
        try:
            git(root, "worktree", "add", "--detach", str(self.path), commit, timeout_s=_CHECKOUT_S)
        except SettingError as error:
            self.remove()
            msg = f"commit {commit[:12]} cannot be checked out: {error}"
            raise SettingError(msg) from error
        except BaseException:  # Ctrl-C in a long checkout
            self.remove()
            raise

    @property
    def path(self) -> Path:
        """Where the files are."""
        return self._home / "tree"

    def remove(self) -> None:
        """Remove it, from the disk and from git's list."""
        _remove(self._root, self._home)
        self._lock.release()


def remove_abandoned(root: Path) -> None:
    """Remove the worktrees of this kind whose runs live no more.

    Not by `git worktree prune`, which would also forget those of the user on a disk that is not there just now.

    Raises:
        SettingError: git cannot list them.
    """
    for line in git(root, "worktree", "list", "--porcelain").splitlines():
        key, _, path = line.partition(" ")
        home = Path(path).parent
        if key != "worktree" or not home.name.startswith(PREFIX):
            continue
        if not home.exists():
            _remove(root, home)
            continue
        with contextlib.suppress(Timeout, OSError), FileLock(home / "lock", timeout=0):
            _remove(root, home)


def _remove(root: Path, home: Path) -> None:
    with contextlib.suppress(SettingError):  # it was not yet, or is no longer, in the list
        git(root, "worktree", "remove", "--force", "--force", str(home / "tree"))
    shutil.rmtree(home, ignore_errors=True)
