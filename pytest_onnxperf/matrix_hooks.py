"""The tables of matrices in the summary, made of the reports of all workers; nothing is loaded without a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .transport import detach, is_cell

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from _pytest.terminal import TerminalReporter

    from .results_file import Reported


class MatrixHooks:
    """Registered under --onnxperf, and not in a worker of pytest-xdist."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cells: dict[str, Reported] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report says of a cell."""
        if is_cell(report):
            from .results_file import Reported

            found = detach(report)
            assert found is not None
            if report.nodeid not in self._cells or report.when == "setup":
                self._cells[report.nodeid] = Reported(found)
            self._cells[report.nodeid].found = found
        if report.nodeid in self._cells:
            self._cells[report.nodeid].take(report)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Write a table for each model."""
        if not self._cells or config.get_verbosity() < 0:
            return
        from .core.matrix import RunTest, tables_of
        from .report.matrix import terminal_lines

        tables = tables_of(RunTest(reported.test(str(self._root))) for reported in self._cells.values())
        terminalreporter.write_sep("=", "onnxperf matrix")
        for line in terminal_lines(tables):
            terminalreporter.write_line(line)
