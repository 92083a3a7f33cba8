"""Where the files of a session go: from where pytest was started, or for an ini key from its root directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .core.errors import SettingError
from .declare import OPTION

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .settings import Settings

_FILES: Final = ("json", "html", "markdown")


def output_path(config: pytest.Config, name: str, given: str) -> tuple[Path, str]:
    """Return the path of a file, and the flag or the ini key that names it."""
    option = OPTION[name]
    if config.getoption(option.ini, None) is not None:
        return config.invocation_params.dir / given, option.flag
    return config.rootpath / given, option.ini


def check_distinct(config: pytest.Config, settings: Settings) -> None:
    """Check that no two options write one file.

    Raises:
        SettingError: Two do.
    """
    found: dict[Path, str] = {}
    for name in _FILES:
        given = getattr(settings, name)
        if given:
            path, _ = output_path(config, name, given)
            other = found.setdefault(path.resolve(), name)
            if other != name:
                msg = (
                    f"{OPTION[other].flag} and {OPTION[name].flag}: expected two files, got the same one twice: {path}"
                )
                raise SettingError(msg)


def stopped_text(session: pytest.Session) -> str:
    """Return why pytest ended before its last test, as after `-x`; empty where it did not."""
    return str(session.shouldfail or session.shouldstop or "")
