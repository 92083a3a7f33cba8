"""Where the files of a session go: from where pytest was started, or for an ini key from its root directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from .core.errors import SettingError
from .declare import OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


_STOPPED: Final[Mapping[int, str]] = {
    pytest.ExitCode.INTERRUPTED: "it was interrupted",
    pytest.ExitCode.INTERNAL_ERROR: "pytest or a plugin failed",
    pytest.ExitCode.USAGE_ERROR: "pytest was started in a wrong way",
}


def exit_status(session: pytest.Session, interrupt: BaseException | None) -> int:
    """Return the exit status of a session, also of one of which a second Ctrl-C kept pytest from setting it."""
    status = int(session.exitstatus)
    return int(pytest.ExitCode.INTERRUPTED) if isinstance(interrupt, KeyboardInterrupt) and not status else status


def stopped_text(session: pytest.Session, interrupt: BaseException | None) -> str:
    """Return why the session did not come to its end; empty where it did.

    Args:
        session: That finishes. A plugin may end it with a status of its own.
        interrupt: What ended it before its last test: Ctrl-C, `pytest.exit`, errors of collection.
    """
    status = exit_status(session, interrupt)
    why = str(session.shouldfail or session.shouldstop or interrupt or "") or _STOPPED.get(status, "")
    if why or status in set(pytest.ExitCode):
        return why
    return f"it ended with exit status {status}, which is not one of pytest's"
