"""How a session ends: what cut it short, with which exit status, and files that are written whatever fails then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from .reported import Reports

_STOPPED: Final[Mapping[int, str]] = {
    pytest.ExitCode.INTERRUPTED: "it was interrupted",
    pytest.ExitCode.INTERNAL_ERROR: "pytest or a plugin failed",
    pytest.ExitCode.USAGE_ERROR: "pytest was started in a wrong way",
}
_UNCAUGHT: Final = 1
"""Of Python, where nothing takes what a plugin raises as the session finishes."""


class Ending:
    """Registered under --onnxperf, with hooks of its own."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._interrupt: BaseException | None = None
        """What ended the session before its last test, or another plugin raised as it finished."""
        self._collected: set[str] = set()
        """The tests of all workers of pytest-xdist."""
        self.finishers: list[Callable[[pytest.Session], None]] = []
        """Each writes a file, and writes it again where another plugin fails after it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember it: pytest sets its exit status only after this hook, which a second Ctrl-C can end."""
        self._interrupt = excinfo.value

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Remember what is to run: pytest-xdist goes without a word about the tests that no worker is left for."""
        self._collected.update(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Write the files also where another plugin fails, and what failed into them."""
        try:
            return (yield)
        except BaseException as error:
            self._interrupt = self._interrupt or error
            for finish in self.finishers:
                finish(session)
            raise

    def exit_status(self, session: pytest.Session) -> int:
        """Return the exit status of a session, also of one that something keeps pytest from setting it of."""
        status, interrupt = int(session.exitstatus), self._interrupt
        if isinstance(interrupt, pytest.exit.Exception):
            return status if interrupt.returncode is None else interrupt.returncode
        if isinstance(interrupt, KeyboardInterrupt):
            is_own = status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
            return status if is_own else int(pytest.ExitCode.INTERRUPTED)
        if isinstance(interrupt, pytest.UsageError):
            return int(pytest.ExitCode.USAGE_ERROR)
        if isinstance(interrupt, SystemExit):
            code: Any = interrupt.code
            return code if isinstance(code, int) else int(code is not None)
        return _UNCAUGHT if interrupt is not None else status

    def stopped_text(self, session: pytest.Session) -> str:
        """Return why a session did not come to its end; empty where it did."""
        status, interrupt = self.exit_status(session), self._interrupt
        if isinstance(interrupt, Exception | SystemExit) and not isinstance(interrupt, pytest.exit.Exception):
            return f"a plugin failed as the session finished: {type(interrupt).__name__}: {interrupt}"
        why = str(session.shouldfail or session.shouldstop or interrupt or "") or _STOPPED.get(status, "")
        if not why and status not in set(pytest.ExitCode):
            why = f"it ended with exit status {status}, which is not one of pytest's"
        missing = self._reports.missing(self._collected)
        return why or (f"{missing} test{'s' if missing > 1 else ''} did not run" if missing else "")
