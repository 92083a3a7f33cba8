"""The commit and branch that are checked out, read from the files of a repository: no process is started.

Source: gitrepository-layout(5) and git-worktree(1). Where refs lie in another form (reftable) the commit is not told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_HASH: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH: Final = "refs/heads/"


def git_head(directory: Path) -> tuple[str, str]:
    """Return the full commit and the branch of the repository that a directory is in.

    Returns:
        Both empty outside a repository or where they cannot be read; an empty branch for a detached head.
    """
    try:
        return _head(directory)
    except (OSError, UnicodeDecodeError):
        return "", ""


def _head(directory: Path) -> tuple[str, str]:
    home = _git_directory(directory)
    if home is None:
        return "", ""
    head = (home / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return (head, "") if _HASH.fullmatch(head) else ("", "")
    name = head.removeprefix("ref: ")
    common = home
    if (home / "commondir").is_file():  # of a worktree
        common = home / (home / "commondir").read_text("utf-8").strip()
    branch = name.removeprefix(_BRANCH) if name.startswith(_BRANCH) else ""
    for place in (home, common):
        if (place / name).is_file():
            commit = (place / name).read_text("utf-8").strip()
            return (commit, branch) if _HASH.fullmatch(commit) else ("", branch)
    return _packed(common / "packed-refs", name), branch


def _git_directory(directory: Path) -> Path | None:
    for parent in (directory, *directory.parents):
        found = parent / ".git"
        if found.is_dir():
            return found
        if found.is_file():  # of a worktree or a submodule
            return parent / found.read_text("utf-8").strip().removeprefix("gitdir: ")
    return None


def _packed(path: Path, name: str) -> str:
    if not path.is_file():
        return ""
    for line in path.read_text("utf-8").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name and _HASH.fullmatch(commit):
            return commit
    return ""
