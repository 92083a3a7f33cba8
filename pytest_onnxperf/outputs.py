"""Where the files of a session go: from where pytest was started, or for an ini key from its root directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .core.errors import SettingError
from .declare import OPTION
from .runtime.target import journal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from .settings import Settings

SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Name of the variable that names GitHub's summary of a job."""
_OTHERS: Final = {"xmlpath": "--junitxml", "log_file": "--log-file", "benchmark_json": "--benchmark-json"}
"""Options of pytest and pytest-benchmark that name a file too."""
_FILES: Final = ("json", "html", "markdown")


def output_path(config: pytest.Config, name: str, given: str) -> tuple[Path, str]:
    """Return the path of a file, and the flag or the ini key that names it."""
    option = OPTION[name]
    if config.getoption(option.ini, None) is not None:
        return config.invocation_params.dir / given, option.flag
    return config.rootpath / given, option.ini


def check_distinct(config: pytest.Config, settings: Settings) -> None:
    """Check that no two outputs go to one file, those of others that are often beside them among them.

    Raises:
        SettingError: Two do.
    """
    found: dict[Path, str] = {}
    for name, path in _outputs(config, settings):
        try:
            other = found.setdefault(path.resolve(), name)
        except (OSError, RuntimeError):  # a loop of links, which its writer will name
            continue
        if other != name:
            msg = f"{other} and {name}: expected two files, got the same one twice: {path}"
            raise SettingError(msg)


def _outputs(config: pytest.Config, settings: Settings) -> Iterator[tuple[str, Path]]:
    for name in _FILES:
        given = getattr(settings, name)
        if given:
            path, _ = output_path(config, name, given)
            yield OPTION[name].flag, path
            if name == "json":
                yield f"the journal of {OPTION[name].flag}", journal_of(path)
    for name, flag in _OTHERS.items():
        given = getattr(config.option, name, None)
        if given:  # pytest-benchmark has opened its own
            yield flag, Path(os.path.expandvars(getattr(given, "name", given))).expanduser()
    if os.environ.get(SUMMARY):
        yield SUMMARY, Path(os.environ[SUMMARY])
