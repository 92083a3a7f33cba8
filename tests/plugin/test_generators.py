"""`genai_generator` as a user writes it: real generators, budgets by phase, baselines, and bad input."""

from __future__ import annotations

import fnmatch

import pytest

from tests import genai_models
from tests.plugin.suite import KEY, ON, Suite, section

pytestmark = pytest.mark.needs_genai

QUICK = (*ON, "--onnxperf-max-time=0", "--onnxperf-min-rounds=2", "--onnxperf-profile-runs=2")


@pytest.fixture
def generator_suite(suite: Suite) -> Suite:
    genai_models.decoder(suite.path / "decoder")
    return suite


def test_a_generator_is_measured_by_phase_and_its_numbers_are_properties(generator_suite: Suite) -> None:
    generator_suite.module("""
        import pytest

        @pytest.mark.onnx_budget(
            max_ttft_ms=60000, min_decode_tok_s=0.1, min_prefill_tok_s=0.1, max_itl_ms=60000, max_itl_p99_ms=60000,
            max_memcpy=0, decode={"max_memcpy": 0, "require_ops": "GroupQueryAttention"}, prefill={"max_nodes": 100},
        )
        def test_decoder(genai_generator):
            record = genai_generator("decoder").measure(prompt_tokens=40, new_tokens=60, rounds=3)
            assert set(record.phases) == {"prefill", "decode"}
            assert record.rounds == 3
            assert [len(each.gaps_ns) for each in record.generations[0]] == [59, 59, 59]
    """)
    result = generator_suite.run_apart(*QUICK, "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    properties, _ = generator_suite.junit()["test_decoder"]
    assert {"onnxperf.ttft_ms", "onnxperf.decode_throughput_tok_per_s", "onnxperf.itl_p99_ms"} <= set(properties)
    assert not [line for line in section(result, "onnxperf") if "decode rests on" in line]


def test_a_broken_phase_budget_names_the_phase(generator_suite: Suite) -> None:
    generator_suite.module("""
        import pytest

        @pytest.mark.onnx_budget(decode={"max_nodes": 3}, prefill={"max_memcpy": 0})
        def test_decoder(genai_generator):
            genai_generator("decoder").measure(prompt="hello world", new_tokens=4)
    """)
    result = generator_suite.run_apart(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "decode.max_nodes: 37 a run, budget at most 3",
        "*decode rests on 3 tokens a generation, fewer than 50*",
        "PERF *test_decoder*",
    ])  # fmt: skip


def test_phases_are_recorded_compared_and_regress_by_name(generator_suite: Suite) -> None:
    generator_suite.module("""
        def test_decoder(genai_generator):
            genai_generator("decoder").measure(prompt_tokens=16, new_tokens=8)
    """)
    generator_suite.run_apart(*QUICK, "--onnxperf-update", "--onnxperf-timing=off").assert_outcomes(passed=1)
    entry = generator_suite.entries()["test_decoder"]
    assert set(entry["phases"]) == {"prefill", "decode"}
    assert entry["phases"]["decode"]["fused_ops"]["GroupQueryAttention"] == 2
    assert "facts" not in entry
    generator_suite.run_apart(*QUICK, "--onnxperf-timing=off").assert_outcomes(passed=1)
    genai_models.decoder(generator_suite.path / "decoder", attention="unfused")
    worse = generator_suite.run_apart(*QUICK, "--onnxperf-timing=off")
    worse.assert_outcomes(failed=1)
    worse.stdout.fnmatch_lines(["*regressed*decode: fused GroupQueryAttention 2 -> 0 a run*"])
    assert generator_suite.entries()["test_decoder"] == entry


def test_the_handle_generates_in_the_tests_own_process(generator_suite: Suite) -> None:
    generator_suite.module("""
        def test_decoder(genai_generator):
            generator = genai_generator("decoder")
            ids = list(generator.tokenizer.encode("hello"))
            assert generator.generate(ids, new_tokens=5) == generator.generate(ids, new_tokens=5)
            assert isinstance(generator.generate("hello", new_tokens=5), str)
            rows = generator.generate([ids, ids], new_tokens=5)
            assert rows[0] == rows[1]
            assert generator.model.device_type.lower() == "cpu"
    """)
    generator_suite.run_apart(*QUICK).assert_outcomes(passed=1)


def test_requests_at_once_are_judged_one_concurrency_after_another(generator_suite: Suite) -> None:
    generator_suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_ttft_ms=60000, max_itl_p99_ms=60000)
        def test_load(genai_generator):
            generator = genai_generator("decoder")
            records = generator.measure_load(concurrency=[1, 5], prompt_tokens=20, new_tokens=6, rounds=2)
            assert [record.key.label for record in records] == ["load-1", "load-5"]
    """)
    result = generator_suite.run_apart(*QUICK)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_load#load-5: batched static: *"])


def test_a_fact_budget_under_load_cannot_be_told_and_fails(generator_suite: Suite) -> None:
    generator_suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_load(genai_generator):
            genai_generator("decoder").measure_load(concurrency=[2], prompt_tokens=20, new_tokens=3, rounds=1)
    """)
    result = generator_suite.run_apart(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["max_memcpy: cannot tell, requests at once are not profiled*"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('("nowhere").measure(prompt_tokens=4, new_tokens=4)', "*nowhere*"),
        ('("decoder").measure(new_tokens=4)', "*prompt*"),
        ('("decoder").measure(prompt_tokens=0, new_tokens=4)', "*`prompt_tokens` must be a whole number*"),
        ('("decoder").measure(prompt_tokens=4, new_tokens=0)', "*`new_tokens` must be a whole number*"),
        ('("decoder").measure(prompt_tokens=4090, new_tokens=100)', "*context of the model is 4096*"),
        ('("decoder").measure(tokens=[[1, 2], [3]], new_tokens=4)', "*equal*"),
        ('("decoder").measure(tokens=[999999], new_tokens=4)', "*999999*"),
        ('("decoder").measure(prompt_tokens=4, new_tokens=4, temprature=1)', "*temprature*temperature*"),
        ('("decoder").measure(prompt_tokens=4, new_tokens=4, min_length=0)', "*`min_length` cannot be given*"),
        ('("decoder").measure(prompt_tokens=4, new_tokens=4, rounds=0)', "*rounds: expected a whole number*"),
        ('("decoder", overlay=3).measure(prompt_tokens=4, new_tokens=4)', "*expected a dict*"),
        ('("decoder", overlay={"search": {"chunk_sise": 1}}).measure(prompt_tokens=4, new_tokens=4)', "*chunk_size*"),
        ('("decoder").measure_load(concurrency=[0], prompt_tokens=4, new_tokens=4)', "*concurrency*"),
        ('("decoder").generate([999999])', "*999999*"),
    ],
)
def test_bad_input_gets_one_clear_message(generator_suite: Suite, call: str, message: str) -> None:
    generator_suite.module(f"""
        def test_decoder(genai_generator):
            genai_generator{call}
    """)
    result = generator_suite.run_apart(*QUICK)
    result.assert_outcomes(failed=1)
    body = "\n".join(section(result, "test_decoder"))
    assert "Traceback" not in body
    assert "During handling" not in body
    assert fnmatch.fnmatchcase(" ".join(body.split()), message)


def test_the_ep_is_that_of_the_models_configuration(generator_suite: Suite) -> None:
    genai_models.decoder(
        generator_suite.path / "gpu_decoder", setting=genai_models.Setting(provider="cuda")
    )  # fmt: skip
    generator_suite.module("""
        def test_decoder(genai_generator):
            genai_generator("gpu_decoder").measure(prompt_tokens=4, new_tokens=4)
    """)
    auto = [argument for argument in QUICK if not argument.startswith("--onnxperf-ep")]
    result = generator_suite.run_apart(*auto)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([".*(?i:cuda).*"])
    generator_suite.run_apart(*QUICK).assert_outcomes(passed=1)
    assert KEY.endswith(".cpu")
