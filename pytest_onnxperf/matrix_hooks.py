"""The tables of matrices in the summary, made of the reports of all workers; nothing is loaded without a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .reported import OpenTests
from .transport import is_cell

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from _pytest.terminal import TerminalReporter


class MatrixHooks:
    """Registered under --onnxperf, and not in a worker of pytest-xdist."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cells = OpenTests()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report says of a cell."""
        if is_cell(report) or report.nodeid in self._cells.tests:
            self._cells.take(report)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Write a table for each model."""
        if not self._cells.tests or config.get_verbosity() < 0:
            return
        from .core.matrix import RunTest, tables_of
        from .report.matrix import terminal_lines
        from .results_file import test_of

        tables = tables_of(RunTest(test_of(reported, str(self._root))) for reported in self._cells.tests.values())
        terminalreporter.write_sep("=", "onnxperf matrix")
        for line in terminal_lines(tables):
            terminalreporter.write_line(line)
