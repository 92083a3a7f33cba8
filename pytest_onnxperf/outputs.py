"""Where the files of a session go: from where pytest was started, or for an ini key from its root directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from .core.errors import SettingError
from .declare import OPTION
from .runtime.target import journal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .settings import Settings

SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Name of the variable that names GitHub's summary of a job."""
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
        other = found.setdefault(path.resolve(), name)
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
    junit = getattr(config.option, "xmlpath", None)
    if junit:
        yield "--junitxml", Path(os.path.expandvars(junit)).expanduser()
    if os.environ.get(SUMMARY):
        yield SUMMARY, Path(os.environ[SUMMARY])


_STOPPED: Final[Mapping[int, str]] = {
    pytest.ExitCode.INTERRUPTED: "it was interrupted",
    pytest.ExitCode.INTERNAL_ERROR: "pytest or a plugin failed",
    pytest.ExitCode.USAGE_ERROR: "pytest was started in a wrong way",
}


_UNCAUGHT: Final = 1
"""Of Python, where nothing takes what a plugin raises as the session finishes."""


def exit_status(session: pytest.Session, interrupt: BaseException | None) -> int:
    """Return the exit status of a session, also of one that pytest was kept from setting it of.

    Args:
        session: That finishes.
        interrupt: As for `stopped_text`; a second Ctrl-C, or an error, keeps pytest from that.
    """
    status = int(session.exitstatus)
    if isinstance(interrupt, pytest.exit.Exception):
        return status if interrupt.returncode is None else interrupt.returncode
    if isinstance(interrupt, KeyboardInterrupt):
        return status or int(pytest.ExitCode.INTERRUPTED)
    return _UNCAUGHT if interrupt is not None else status


def stopped_text(session: pytest.Session, interrupt: BaseException | None) -> str:
    """Return why the session did not come to its end; empty where it did.

    Args:
        session: That finishes. A plugin may end it with a status of its own.
        interrupt: What ended it before its last test, Ctrl-C or `pytest.exit`, or a plugin raised as it finished.
    """
    status = exit_status(session, interrupt)
    if isinstance(interrupt, Exception) and not isinstance(interrupt, pytest.exit.Exception):
        return f"a plugin failed as the session finished: {type(interrupt).__name__}: {interrupt}"
    why = str(session.shouldfail or session.shouldstop or interrupt or "") or _STOPPED.get(status, "")
    if why or status in set(pytest.ExitCode):
        return why
    return f"it ended with exit status {status}, which is not one of pytest's"
