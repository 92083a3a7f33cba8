"""Budgets: what a breach says on the terminal, in JUnit's XML and in the short summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests import models
from tests.plugin.suite import FACTS, ON, TIMES, masked, section, too_wide

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

OVER: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_nodes=1, max_cpu_nodes=2, max_memcpy=0, require_ops={"GroupQueryAttention"})
    def test_over(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""
# A model of the same MatMul, Add, Relu three times: ONNX Runtime makes three FusedGemm of it, in every version.
TEXT: Final = """\
max_nodes: 3 a run, budget at most 1 (and 2 more)
mlp.onnx
on CPUExecutionProvider, Bench 1

  over budget  max_nodes: 3 a run, budget at most 1
  over budget  require_ops: none of them ran, budget GroupQueryAttention
               missing: GroupQueryAttention
  over budget  max_cpu_nodes: 3 a run, budget at most 2

op type EP a run  ms total   ms self  share class
FusedGemm CPU 3 N N N% compute

What to do
- A required operator did not run: check the exporter, the opset, and
  graph_optimization_level; compare with `onnxperf diff` where it ran
- On the CPU every node counts: give max_cpu_nodes the device that it is meant
  for, onnx_budget(on='cuda', max_cpu_nodes=...), or limit max_nodes
- Look closer:
    onnxperf profile PATH"""


def path_masked(lines: list[str]) -> str:
    return masked([re.sub(r"^(    (onnxperf profile )?)/.*", r"\1PATH", line) for line in lines])


def test_every_breach_is_reported_together_worst_first_and_fits_into_80_columns(suite: Suite) -> None:
    suite.model(layers=3)
    suite.module(OVER)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1)
    lines = section(result, "test_over")
    assert path_masked(lines) == TEXT
    assert too_wide(result.outlines) == []


def test_a_breach_has_a_letter_and_a_word_of_its_own_and_its_worst_in_the_short_summary(suite: Suite) -> None:
    suite.model(layers=3)
    suite.module(OVER)

    result = suite.run(*FACTS)
    assert "test_perf.py P *" in result.stdout.str() or "test_perf.py P " in result.stdout.str()
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_over - Failed: max_nodes: 3 a run, budget at most 1 (*"])

    suite.run(*FACTS, "-v").stdout.fnmatch_lines(["test_perf.py::test_over PERF *"])


def test_the_summary_counts_what_was_judged(suite: Suite) -> None:
    suite.model(layers=3)
    suite.module(OVER)

    result = suite.run(*FACTS)

    assert "\n".join(section(result, "onnxperf")) == (
        "test_over                                    -  memcpy 0   over budget\n"
        "1 measurement; budgets: 3 broken, 1 held; against baselines: 2 no-baseline\n"
        "1 test has no baseline for bench-1.cpu: run --onnxperf-update"
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_junit_has_the_same_text_and_plain_numbers(suite: Suite, workers: int) -> None:
    suite.model(layers=3)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1, max_cpu_nodes=2, max_memcpy=0, require_ops={"GroupQueryAttention"})
        def test_over(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_two(onnx_session, record_property):
            record_property("mine", 1)
            onnx_session("mlp.onnx").measure(shapes={"batch": 1}, label="one")
            onnx_session("mlp.onnx").measure(shapes={"batch": 2}, label="two")
    """)

    arguments = [
        *TIMES,
        "--junitxml=junit.xml",
        "-o",
        "junit_family=xunit1",
        *(["-n", str(workers)] if workers else []),
    ]
    result = suite.run_apart(*arguments) if workers else suite.run(*arguments)

    result.assert_outcomes(failed=1, passed=1)
    cases = suite.junit()
    properties, text = cases["test_over"]
    assert path_masked(text.splitlines()) == TEXT
    facts = {"state": "over budget", "execution_provider": "CPUExecutionProvider"}
    facts |= {"memcpy": "0", "nodes": "3", "cpu_nodes": "3"}
    assert {name: properties[f"onnxperf.{name}"] for name in facts} == facts
    for name in ("latency_p50_ms", "latency_p99_ms", "throughput_per_s", "load_ms", "peak_rss_mib", "model_size_mib"):
        assert float(properties[f"onnxperf.{name}"]) > 0
    properties, text = cases["test_two"]
    assert text == ""
    assert properties["mine"] == "1"
    assert properties["onnxperf.one.nodes"] == properties["onnxperf.two.nodes"] == "3"
    assert len(properties) == 1 + 2 * len([name for name in properties if name.startswith("onnxperf.one.")])


def test_a_broken_time_has_both_numbers_with_their_unit(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_latency_ms=1e-6, min_throughput=1e9, max_peak_rss_mib=1, max_load_ms=1e-6)
        def test_slow(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    result = suite.run(*TIMES)

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines_random(
        [
            r"  over budget  max_latency_ms: [\d.]+ ms, budget at most 0.000001 ms",
            r"  over budget  min_throughput: \d+ /s, budget at least 1000000000 /s",
            r"  over budget  max_peak_rss_mib: [\d.]+ MiB, budget at most 1 MiB",
            r"  over budget  max_load_ms: [\d.]+ ms, budget at most 0.000001 ms",
            r" {15}\+\d+ % against the budget",
            r" {15}-\d+(\.\d)? % against the budget",
        ]
    )
    assert too_wide(result.outlines) == []


def test_the_worst_of_several_measurements_comes_first(suite: Suite) -> None:
    suite.model("small.onnx", layers=2)
    suite.model("large.onnx", layers=9)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_two(onnx_session):
            onnx_session("small.onnx").measure(shapes={"batch": 1}, label="small")
            onnx_session("large.onnx").measure(shapes={"batch": 1}, label="large")
    """)

    result = suite.run(*FACTS)

    result.stdout.fnmatch_lines(["PERF test_perf.py::test_two - Failed: max_nodes: 9 a run, *"])
    models_shown = [line for line in section(result, "test_two") if line.endswith((" (small)", " (large)"))]
    assert models_shown == ["large.onnx (large)", "small.onnx (small)"]


def test_a_required_operator_that_ran_under_another_name_is_suggested(suite: Suite) -> None:
    suite.model("decoder.onnx", models.transformer_block)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(require_ops={"GroupQueryAttentoin"})
        def test_decoder(onnx_session):
            shapes = {"batch": 1, "seq": 4, "past": 0, "total": 4}
            onnx_session("decoder.onnx").measure(shapes=shapes)
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1)
    text = " ".join(" ".join(section(result, "test_decoder")).split())
    assert "missing: GroupQueryAttentoin; GroupQueryAttentoin: did you mean GroupQueryAttention?" in text


@pytest.mark.parametrize(
    ("strict", "max_nodes", "outcome"),
    [(False, 1, "xfailed"), (True, 1, "xfailed"), (False, 9, "xpassed"), (True, 9, "failed")],
)
def test_an_expected_breach_is_an_xfail(suite: Suite, strict: bool, max_nodes: int, outcome: str) -> None:
    suite.model()
    suite.module(f"""
        import pytest

        @pytest.mark.xfail(strict={strict}, reason="a fusion is missing")
        @pytest.mark.onnx_budget(max_nodes={max_nodes})
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
    """)

    result = suite.run(*FACTS, "-rxX")

    result.assert_outcomes(**{outcome: 1})
    if outcome == "xfailed":
        result.stdout.fnmatch_lines(["XFAIL test_perf.py::test_mlp - a fusion is missing*"])
    if outcome == "failed":
        assert "PERF" not in result.stdout.str()


def test_a_budget_without_a_measurement_fails(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_nothing():
            pass

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_fixture_alone(onnx_session):
            onnx_session("no_such_model.onnx")

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_skips_itself(onnx_session):
            pytest.skip("no model today")
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=2, skipped=1)
    assert section(result, "test_nothing") == section(result, "test_fixture_alone")
    assert "\n".join(section(result, "test_nothing")) == (
        "a budget was declared and nothing was measured, so it was not judged.\n"
        "\n"
        "Ask for the fixture onnx_session and call onnx_session(MODEL).measure(...) in\n"
        "the test, or take @pytest.mark.onnx_budget away."
    )
    assert too_wide(result.outlines) == []


@pytest.mark.parametrize(
    "source",
    [
        """
        import pytest

        @pytest.fixture
        def skipping(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            pytest.skip("later")

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(skipping):
            pass
        """,
        """
        import unittest

        import pytest

        class TestOver(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def inject(self, onnx_session):
                self.session = onnx_session

            @pytest.mark.onnx_budget(max_nodes=1)
            def test_over(self):
                self.session("mlp.onnx").measure(shapes={"batch": 1})
                self.skipTest("later")
        """,
    ],
    ids=["fixture", "unittest"],
)
def test_to_skip_after_a_breach_does_not_undo_it(suite: Suite, source: str) -> None:
    suite.model()
    suite.module(source)

    result = suite.run(*FACTS)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["max_nodes: 2 a run, budget at most 1", "PERF test_perf.py::*test_over *"])
    assert "During handling" not in result.stdout.str()


def test_properties_of_a_try_do_not_stay_with_the_next(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        TRIES = []

        @pytest.mark.flaky(reruns=1)
        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(onnx_session):
            TRIES.append(1)
            if len(TRIES) == 1:
                onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            pytest.skip("second time")
    """)

    suite.run(*FACTS, "--junitxml=j.xml")

    last = (suite.path / "j.xml").read_text("utf-8").rpartition("<testcase")[2]
    assert "second time" in last
    assert "onnxperf." not in last


def test_a_budget_of_a_test_that_only_compares_says_where_it_belongs(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_compares(onnx_compare):
            onnx_compare("mlp.onnx", "mlp.onnx", shapes={"batch": 1})
    """)

    result = suite.run(*TIMES)

    result.assert_outcomes(failed=1)
    said = section(result, "test_compares")
    assert said[0] == "a budget was declared and nothing was measured, so it was not judged: a"
    assert "Write onnx_compare(...).require(max_slowdown=...), measure one of the models" in said
    assert too_wide(result.outlines) == []


LATENCY: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_latency_ms=1000)
    def test_mlp(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""


@pytest.mark.parametrize(
    ("policy", "outcome"), [("fail", "failed"), ("skip", "skipped"), ("pass", "passed")], ids=["fail", "skip", "pass"]
)
def test_a_budget_that_cannot_be_judged_fails_skips_or_passes(suite: Suite, policy: str, outcome: str) -> None:
    suite.model()
    suite.module(LATENCY)

    result = suite.run(*FACTS, f"--onnxperf-unverifiable={policy}", "-rs")

    result.assert_outcomes(**{outcome: 1})
    said = "max_latency_ms: cannot tell, times were not measured (--onnxperf-timing=off)"
    assert (said in result.stdout.str()) is (policy != "pass")
    result.stdout.fnmatch_lines(["1 measurement; budgets: 1 cannot tell; *"])
    if policy == "skip":
        result.stdout.fnmatch_lines([f"SKIPPED [[]1[]] test_perf.py:3: {said}"])
    assert too_wide(result.outlines) == []


def test_a_breach_beside_what_cannot_be_judged_fails_under_every_policy(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_latency_ms=1000, max_nodes=1)
        @pytest.mark.parametrize("policy", ["fail", "skip", "pass"])
        def test_mlp(onnx_session, policy):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    for policy in ("fail", "skip", "pass"):
        result = suite.run(*FACTS, f"--onnxperf-unverifiable={policy}", "-k", policy)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["PERF test_perf.py::test_mlp* - Failed: max_nodes: 2 a run, budge*"])


@pytest.mark.parametrize("skip", ["pytest.skip('later')", "raise unittest.SkipTest('later')"])
def test_a_test_that_skips_after_a_breach_fails_and_after_a_budget_that_held_it_is_skipped(
    suite: Suite, skip: str
) -> None:
    suite.model(layers=3)
    suite.module(f"""
        import unittest

        import pytest

        @pytest.mark.onnx_budget(max_nodes=2)
        def test_over(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
            {skip}

        @pytest.mark.onnx_budget(max_nodes=3)
        def test_within(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={{"batch": 1}})
            {skip}
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1, skipped=1)
    assert "max_nodes: 3 a run, budget at most 2" in result.stdout.str()


def test_what_a_terminal_would_act_on_in_the_name_of_a_model_is_written_out(suite: Suite) -> None:
    (suite.path / "models").mkdir()
    suite.model("models/\x1b[31mred\u202e.onnx", models.mlp, layers=3)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(onnx_session):
            onnx_session("models/\\x1b[31mred\\u202e.onnx").measure(shapes={"batch": 1})
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1)
    assert section(result, "test_over")[1] == "models/\\x1b[31mred\\u202e.onnx"
    assert "\x1b[31mred" not in result.stdout.str()


def test_a_failure_of_the_tests_own_goes_first_and_the_breach_is_still_shown(suite: Suite) -> None:
    suite.model(layers=3)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_wrong(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            assert 1 == 2
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E       assert 1 == 2",
            "*- onnxperf -*",
            "  over budget  max_nodes: 3 a run, budget at most 1",
            "FAILED test_perf.py::test_wrong - assert 1 == 2",
        ]
    )
    assert result.stdout.str().count("over budget  max_nodes") == 1


def test_a_test_that_passes_its_budget_shows_nothing_of_it_but_a_line(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=2)
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(passed=1)
    assert section(result, "onnxperf")[0] == "test_mlp                                     -  memcpy 0   no-baseline"


def test_the_record_that_measure_returns_can_be_asserted_on(suite: Suite) -> None:
    suite.model(layers=3)
    suite.module("""
        def test_mlp(onnx_session):
            record = onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            assert record.facts.nodes == 3
            assert record.facts.memcpy == 0
            assert record.environment.key == "bench-1.cpu"
    """)

    suite.run(*FACTS).assert_outcomes(passed=1)


def test_a_second_measurement_without_a_label_of_its_own_fails_with_what_to_do(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            onnx_session("mlp.onnx").measure(shapes={"batch": 2})
    """)

    result = suite.run(*FACTS)

    result.assert_outcomes(failed=1)
    assert "has measured without a label already" in result.stdout.str()
    assert "label=" in result.stdout.str()


def test_an_option_of_a_test_changes_how_it_is_judged(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_measure(unverifiable="pass", timing="off")
        @pytest.mark.onnx_budget(max_latency_ms=1000)
        def test_passes(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_measure(timing="off")
        @pytest.mark.onnx_budget(max_latency_ms=1000)
        def test_fails(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*ON).assert_outcomes(passed=1, failed=1)
