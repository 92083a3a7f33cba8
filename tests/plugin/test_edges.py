"""What a test may not do, and what must not be lost: labels, teardowns, arguments of the wrong type."""

from __future__ import annotations

import pytest

from tests.plugin.suite import QUICK, Suite, section


@pytest.mark.parametrize("label", ["3", "None", repr("two\nlines")])
def test_a_label_that_is_no_line_of_text_fails_its_test_alone(suite: Suite, label: str) -> None:
    suite.model()
    suite.module(f"""
        def test_wrong(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}}, label={label})

        def test_right(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}}, label="right")
    """)
    if label == "None":  # no label at all
        suite.run(*QUICK).assert_outcomes(passed=2)
        return
    result = suite.run(*QUICK)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["label: expected a text of one line, got *"])


def test_what_a_teardown_measures_is_refused_since_nothing_judges_it(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def afterwards(onnx_session):
            yield
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_any(afterwards):
            pass
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["measure() was called after the test's own code had ended*"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('onnx_session("mlp.onnx", ep=3)', "ep: expected the name of an execution provider, got 3"),
        ("onnx_session(3)", "onnx_session(model): expected a path, got 3"),
        ('onnx_session("mlp.onnx").run([1])', "mlp.onnx: run(feeds=...): expected a dict, got list: [1]"),
        ('onnx_session("mlp.onnx").measure({1: 2})', "*feeds: expected names of inputs as keys, got 1"),
    ],
)
def test_an_argument_of_the_wrong_type_gets_a_message(suite: Suite, call: str, message: str) -> None:
    suite.model()
    suite.module(f"""
        def test_any(onnx_session):
            {call}
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])
    assert not [line for line in section(result, "test_any") if "Error" in line]


def test_the_nearest_wins_for_every_spelling_of_one_ep(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1, on="cpu")
        class TestAll:
            @pytest.mark.onnx_budget(max_nodes=9, on="CPUExecutionProvider")
            def test_any(self, onnx_session):
                onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)
    suite.run(*QUICK).assert_outcomes(passed=1)
