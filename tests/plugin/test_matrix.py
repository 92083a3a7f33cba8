"""`onnx_matrix` and `onnx_cell` as a user writes them: ids, cells that are measured, the table, and wrong markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

import pytest_onnxperf.matrix_handles
import pytest_onnxperf.matrix_hooks
import pytest_onnxperf.results_file  # noqa: F401 -- pytester takes away what a session in this process loads
from pytest_onnxperf.core.results_text import read_results
from tests import genai_models
from tests.plugin.suite import ON, QUICK, TIMES, section, too_wide

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

MATRIX: Final = """
    import pytest

    @pytest.mark.onnx_matrix(
        model="mlp.onnx", batch_size=[1, 4], padding=["left", "right"], reference={"padding": "left"}
    )
    def test_mlp(onnx_cell):
        assert onnx_cell["padding"] in onnx_cell.id
        onnx_cell.measure(shapes={"batch": onnx_cell["batch_size"]})
"""


def collected(suite: Suite, *arguments: str) -> list[str]:
    result = suite.run("--collect-only", "-q", *arguments)
    return [line for line in result.outlines if "::" in line]


@pytest.mark.parametrize("arguments", [(), ON], ids=["inert", "measuring"])
def test_a_matrix_is_a_test_for_each_cell_also_where_nothing_is_measured(
    suite: Suite, arguments: tuple[str, ...]
) -> None:
    suite.module(MATRIX)
    assert collected(suite, *arguments) == [
        f"test_perf.py::test_mlp[b{batch}-padding_{side}]" for batch in (1, 4) for side in ("left", "right")
    ]


def test_without_the_flag_every_cell_is_skipped(suite: Suite) -> None:
    suite.module(MATRIX)
    result = suite.run("-rs")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["*needs --onnxperf"])


def test_cells_are_selected_by_the_words_of_their_ids(suite: Suite) -> None:
    suite.module(MATRIX)
    assert collected(suite, "-k", "b4 and padding_left") == ["test_perf.py::test_mlp[b4-padding_left]"]


def test_cells_are_measured_and_the_summary_has_one_table(suite: Suite) -> None:
    suite.model()
    suite.module(MATRIX)
    result = suite.run(*TIMES)
    result.assert_outcomes(passed=4)
    lines = section(result, "onnxperf matrix")
    assert lines[0] == "test_perf.py::test_mlp"
    assert lines[1].startswith("best: latency p50 b")
    rows = [line.split() for line in lines if line.startswith("b") and ":" not in line]
    assert [(row[0], row[2] == "ref") for row in rows] == [
        ("b1-padding_left", True), ("b1-padding_right", False), ("b4-padding_left", True), ("b4-padding_right", False),
    ]  # fmt: skip
    assert all(row[2].endswith("x") for row in rows if row[0].endswith("right"))
    assert too_wide(lines) == []


def test_the_table_of_workers_is_the_controllers_and_has_the_cells_in_the_same_order(suite: Suite) -> None:
    suite.model()
    suite.module(MATRIX)
    result = suite.run_apart(*TIMES, "-n2")
    result.assert_outcomes(passed=4)
    names = [line.split()[0] for line in section(result, "onnxperf matrix") if line.startswith("b") and ":" not in line]
    assert names == ["b1-padding_left", "b1-padding_right", "b4-padding_left", "b4-padding_right"]


def test_cells_that_do_not_run_here_or_fail_are_in_the_table_with_the_reason(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="mlp.onnx", ep=["cpu", "cuda"], size=[1, 2], reference={"ep": "cuda"})
        def test_mlp(onnx_cell):
            onnx_cell.measure(shapes={"batch": onnx_cell["size"]})
            assert onnx_cell["size"] == 1, "wrong numbers"
    """)
    result = suite.run(*TIMES[:1], *TIMES[2:], "-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=2)
    text = " ".join(" ".join(section(result, "onnxperf matrix")).split())
    assert "cpu-size_1: no ratio to cuda-size_1: skipped" in text
    assert "cuda-size_1, cuda-size_2: skipped: demands CUDAExecutionProvider, which does not run here" in text
    assert "cpu-size_2: failed: AssertionError: wrong numbers" in text
    result.stdout.fnmatch_lines(["SKIPPED * test_perf.py:5: demands CUDAExecutionProvider*"])


def test_the_file_of_results_has_the_coordinates_also_of_what_was_skipped(suite: Suite) -> None:
    suite.model()
    suite.module(
        MATRIX.replace(
            "assert onnx_cell", 'if onnx_cell["batch_size"] == 4: pytest.skip("not now")\n        assert onnx_cell'
        )
    )
    suite.run(*QUICK, "--onnxperf-json=r.json").assert_outcomes(passed=2, skipped=2)
    (run,) = read_results((suite.path / "r.json").read_bytes(), "r.json").runs
    places = [test.matrix for test in run.tests]
    assert [place.id for place in places if place] == [
        "b1-padding_left", "b1-padding_right", "b4-padding_left", "b4-padding_right"
    ]  # fmt: skip
    last = places[-1]
    assert last is not None
    assert (last.table, last.order) == ("test_perf.py::test_mlp", 3)
    assert last.coordinates == {"batch_size": "b4", "padding": "padding_right"}
    assert last.reference == {"batch_size": "b4", "padding": "padding_left"}


def test_markers_combine_and_another_parameter_makes_another_table(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="mlp.onnx", ep="cpu", batch=[9])
        class TestAll:
            @pytest.mark.onnx_matrix(batch=[1, 2])
            @pytest.mark.parametrize("bind", [True, False])
            def test_mlp(self, onnx_cell, bind):
                onnx_cell.measure(shapes={"batch": onnx_cell["batch"]}, options={"bind": bind})
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(passed=4)
    titles = [line for line in section(result, "onnxperf matrix") if line.startswith("test_perf.py")]
    assert titles == ["test_perf.py::TestAll::test_mlp[True]", "test_perf.py::TestAll::test_mlp[False]"]


WRONG: Final = [
    ("prompt_token=[20]", "takes_cell", "@pytest.mark.onnx_matrix at test_perf.py:3: unknown key `prompt_token`, did"),
    ("3", "takes_cell", "@pytest.mark.onnx_matrix at test_perf.py:3: takes keyword arguments only, got 3"),
    ("ep=['cpu']", "nothing", "@pytest.mark.onnx_matrix at test_perf.py:3: its test must take the fixture onnx_cell"),
    ("", "no_marker", "test_mlp at test_perf.py:3: takes the fixture onnx_cell and has no @pytest.mark.onnx_matrix"),
]  # fmt: skip


@pytest.mark.parametrize(("keywords", "form", "message"), WRONG, ids=[each[1] + each[0][:3] for each in WRONG])
def test_a_wrong_marker_is_an_error_of_collection_with_its_place(
    suite: Suite, keywords: str, form: str, message: str
) -> None:
    marker = f"@pytest.mark.onnx_matrix({keywords})" if form != "no_marker" else "@pytest.mark.other"
    suite.module(f"""
        import pytest

        {marker}
        def test_mlp({"" if form == "nothing" else "onnx_cell"}):
            pass
    """)
    result = suite.run("-W", "ignore::pytest.PytestUnknownMarkWarning")
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


CALLS: Final = [
    ('onnx_cell["padding"]', "onnx_cell['padding']: the matrix of this test has model, batch_size"),
    ("onnx_cell.measure(options=3, shapes={'batch': 1})", "measure(options=...): expected a dict, got int: 3"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=["name", "options"])
def test_a_wrong_call_fails_its_test_with_one_message(suite: Suite, call: str, message: str) -> None:
    suite.model()
    suite.module(f"""
        import pytest

        @pytest.mark.onnx_matrix(model="mlp.onnx", batch_size=[1])
        def test_mlp(onnx_cell):
            {call}
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(failed=1)
    assert message in result.stdout.str()


def test_a_matrix_without_a_model_has_no_path_to_measure(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(batch_size=[1])
        def test_mlp(onnx_cell):
            onnx_cell.measure()
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*`model`: no path; known pipelines: session, genai, hf"])


@pytest.mark.needs_genai
def test_a_generator_gets_prompt_batch_tokens_and_cache_of_its_cell(suite: Suite) -> None:
    for dtype in ("f16", "int4"):
        genai_models.decoder(suite.path / f"decoder-{dtype}")
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(
            model="decoder-{dtype}", dtype=["f16", "int4"], pipeline=["genai"], prompt_tokens=[20], batch_size=[2],
            new_tokens=[5], cache=["static", "dynamic"], reference={"dtype": "f16"},
        )
        def test_decoder(onnx_cell):
            record = onnx_cell.measure(rounds=2)
            assert record.model == f"decoder-{onnx_cell['dtype']}"
            assert record.options["share_buffer"] == str(onnx_cell["cache"] == "static").lower()
            assert (record.options["batch_size"], record.options["max_length"]) == ("2", "25")
            assert len(record.generations[0][0].gaps_ns) == 4

        @pytest.mark.onnx_matrix(model="decoder-f16", prompt_tokens=[20], share_buffer=[False, True])
        def test_given(onnx_cell):
            record = onnx_cell.measure(tokens=[1, 2, 3], new_tokens=4, rounds=1)
            assert record.options["max_length"] == "7"
            assert record.options["share_buffer"] == str(onnx_cell["share_buffer"]).lower()
    """)
    result = suite.run_apart(*ON, "--onnxperf-profile-runs=1")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["cell *TTFT ms  decode tok/s  peak RSS MiB", "int4-genai-p20-b2-n5-static *x *x *x"])
