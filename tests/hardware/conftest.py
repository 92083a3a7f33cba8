"""What the tests of the hardware lanes share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Runs pytest on a test module in a process of its own, with this machine's runtime."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    pytester.makeini("[pytest]\nfilterwarnings = ignore::DeprecationWarning")

    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_lane=source)
        return pytester.runpytest_subprocess("--onnxperf", "-p", "no:asyncio", *arguments)

    return run
