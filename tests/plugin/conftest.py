"""What the tests of the plugin share."""

from __future__ import annotations

import pytest
import scipy.special  # noqa: F401 -- pytester takes away what a session in this process loads; C code loads once

from tests.plugin.suite import Suite


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A user's project, 80 columns wide, without the plugins that the test does not name."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CI", raising=False)  # there pytest cuts no line of its summary
    others = ["asyncio", "benchmark", "codspeed", "cov", "hypothesispytest", "memray", "timeout"]
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in others))
    return Suite(pytester)
