"""The tables of matrices in the summary, made of the reports of all workers; nothing is loaded without a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from _pytest.terminal import TerminalReporter

    from .hooks import Hooks


class MatrixHooks:
    """Registered under --onnxperf, and not in a worker of pytest-xdist."""

    def __init__(self, hooks: Hooks, root: Path) -> None:
        self._hooks, self._root = hooks, root

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Write a table for each model."""
        cells = [test for test in self._hooks.reports.tests.values() if test.found.place is not None]
        if not cells or config.get_verbosity() < -1:  # the tables are what a matrix is for: -q keeps them
            return
        from .core.matrix import RunTest, tables_of
        from .report.matrix import terminal_lines
        from .results_file import test_of

        tables = tables_of(RunTest(test_of(reported, str(self._root))) for reported in cells)
        terminalreporter.write_sep("=", "onnxperf matrix")
        for line in terminal_lines(tables):
            terminalreporter.write_line(line)
