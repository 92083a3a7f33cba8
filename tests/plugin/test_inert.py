"""A session without --onnxperf: what measures is skipped, and nothing else notices the plugin."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from tests.plugin.suite import Suite


def test_what_measures_is_skipped_at_its_own_place_and_nothing_else_is(suite: Suite) -> None:
    suite.module("""
        import pytest
        import unittest

        def test_fixture(onnx_session):
            raise AssertionError

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_marker():
            raise AssertionError

        @pytest.fixture
        def session(onnx_session):
            raise AssertionError

        def test_fixture_of_a_fixture(session):
            raise AssertionError

        @pytest.mark.usefixtures("onnx_session")
        class TestInAClass:
            def test_method(self):
                raise AssertionError

        class TestOfUnittest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _session(self, onnx_session):
                raise AssertionError

            def test_method(self):
                raise AssertionError

        def test_dynamic(request):
            request.getfixturevalue("onnx_session")
            raise AssertionError

        @pytest.mark.onnx_measure(timing="off")
        def test_options_alone_measure_nothing():
            pass

        def test_other():
            pass
    """)

    result = suite.run("-rs")

    result.assert_outcomes(skipped=6, passed=2)
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert all(line.endswith(": needs --onnxperf") and "] test_perf.py:" in line for line in skips), skips


def test_a_skip_of_the_test_itself_keeps_its_reason(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.skip(reason="not today")
        def test_skipped(onnx_session):
            pass
    """)

    result = suite.run("-rs")

    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_perf.py:3: not today"])
    assert "needs --onnxperf" not in result.stdout.str()


def test_wrong_markers_do_not_matter_while_nothing_is_measured(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(no_such_key=-1)
        def test_budget(onnx_session):
            pass
    """)

    suite.run("--strict-markers").assert_outcomes(skipped=1)


def test_an_inert_session_says_nothing_in_header_and_summary(suite: Suite) -> None:
    suite.module("def test_other(): pass")

    result = suite.run()

    result.assert_outcomes(passed=1)
    about_us = [line for line in result.outlines if "onnxperf" in line and not line.startswith("plugins:")]
    assert about_us == []


def test_an_inert_session_imports_nothing_heavy(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who imports what is asked, too, since pytest itself loads subprocess and dataclasses."""
    suite.module("def test_other(): pass\n\ndef test_perf(onnx_session): pass")
    suite.module(
        """
        import builtins, json, sys

        plain_import = builtins.__import__
        ours = set()

        def watched_import(name, globals=None, *rest):
            if ((globals or {}).get("__name__") or "").startswith("pytest_onnxperf"):
                ours.add(name)
            return plain_import(name, globals, *rest)

        builtins.__import__ = watched_import
        import pytest

        status = pytest.main(sys.argv[1:])
        with open("modules.json", "w") as file:
            json.dump({"loaded": sorted(sys.modules), "ours": sorted(ours)}, file)
        sys.exit(status)
        """,
        "watched.py",
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plugins import what they like
    monkeypatch.delenv("PYTEST_ADDOPTS")

    def modules_of(*arguments: str) -> dict[str, list[str]]:
        result = suite.pytester.run(sys.executable, "watched.py", "-q", "test_perf.py", *arguments)
        assert "1 passed" in result.stdout.str()
        modules: dict[str, list[str]] = json.loads((suite.path / "modules.json").read_text("utf-8"))
        return modules

    without = set(modules_of("-k", "test_other")["loaded"])
    modules = modules_of("-p", "pytest_onnxperf.plugin")
    heavy = {"numpy", "onnx", "onnxruntime", "subprocess", "msgspec", "filelock", "dataclasses"}

    extra = set(modules["loaded"]) - without
    assert {name for name in extra if not name.startswith("pytest_onnxperf")} == set()
    assert len(extra) < 10, extra
    assert "declare" in modules["ours"]  # what we import is seen
    assert not heavy & set(modules["ours"])
    assert not {"numpy", "onnx", "onnxruntime", "msgspec"} & without  # else this test would prove nothing


def test_blocking_the_plugin_takes_its_options_and_fixtures_away(suite: Suite) -> None:
    suite.module()

    result = suite.run_apart("-p", "no:onnxperf")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'onnx_session' not found"])
