"""`genai_generator` as a user writes it: real generators, budgets by phase, baselines, and bad input."""

from __future__ import annotations

import fnmatch
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.runtime import looks
from tests import genai_models
from tests.plugin.suite import KEY, ON, TIMES, Suite, section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


IN_DECODER = '("decoder", overlay={{"model": {{"decoder": {{{options}}}}}}}).measure(prompt_tokens=4, new_tokens=4)'
BAD_CALLS = [
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
    (
        IN_DECODER.format(options='"session_options": {"intra_op_num_thread": "1"}'),
        "*`model.decoder.session_options.intra_op_num_thread`*",
    ),
    (
        IN_DECODER.format(options='"run_options": {"enable_profiling": "p"}'),
        "*`model.decoder.run_options.enable_profiling`*",
    ),
    (
        '("decoder").measure(tokens=[[1], [2], [3]], batch_size=2, new_tokens=4)',
        "*`batch_size` is 2, and the prompt has 3 rows*",
    ),
    ('("decoder").measure_load(concurrency=[0], prompt_tokens=4, new_tokens=4)', "*concurrency*"),
    ('("decoder").generate([999999])', "*999999*"),
]


def test_bad_input_gets_one_clear_message(generator_suite: Suite) -> None:
    calls = [call for call, _ in BAD_CALLS]
    assert_messages(generator_suite, calls, [message for _, message in BAD_CALLS], *QUICK)


def assert_messages(suite: Suite, calls: list[str], messages: list[str], *arguments: str) -> None:
    """Each call fails its test with a message that matches, whole, and with nothing of Python's in it."""
    tests = (f"def test_{place:02}(genai_generator):\n    genai_generator{call}\n" for place, call in enumerate(calls))
    suite.module("\n".join(tests))
    result = suite.run_apart(*arguments, "--onnxperf-isolation=none")
    result.assert_outcomes(failed=len(calls))
    for place, message in enumerate(messages):
        body = " ".join(line.strip() for line in section(result, f"test_{place:02}"))  # a long line is wrapped
        assert fnmatch.fnmatchcase(body, message), f"{calls[place]}: {message!r} is not in\n{body}"
        assert "Traceback" not in body
        assert "During handling" not in body


def of_provider(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda model: model["decoder"]["session_options"].update(provider_options=[{name: {}}])


BAD_MODELS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "type": (lambda model: model.update(type="bert"), "*'bert' is none that GenAI*"),
    "encoder": (lambda model: model.update(type="bert", encoder=model.pop("decoder")), "*has no decoder*"),
    "form": (lambda model: model["decoder"].update(session_options="cpu"), "*is no object: 'cpu'*"),
    "file": (lambda model: model["decoder"].update(filename="other.onnx"), "*other.onnx*"),
    "provider": (of_provider("qnn"), "*QNN execution provider is not supported in this build*"),
    "typo": (of_provider("cudda"), "*genai_config.json names a provider that is not known here: *'cudda'*`cuda`?*"),
}


def test_a_model_that_cannot_generate_here_gets_one_clear_message(suite: Suite) -> None:
    for name, (change, _) in BAD_MODELS.items():
        path = genai_models.decoder(suite.path / name) / "genai_config.json"
        config = json.loads(path.read_text("utf-8"))
        change(config["model"])
        path.write_text(json.dumps(config), "utf-8")
    calls = [f'("{name}").measure(prompt_tokens=4, new_tokens=4)' for name in BAD_MODELS]
    as_configured = [argument for argument in QUICK if not argument.startswith("--onnxperf-ep")]
    assert_messages(suite, calls, [message for _, message in BAD_MODELS.values()], *as_configured)


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


def test_one_new_token_has_a_prefill_and_no_decode(generator_suite: Suite) -> None:
    generator_suite.module("""
        def test_decoder(genai_generator):
            record = genai_generator("decoder").measure(prompt_tokens=20, new_tokens=1)
            assert set(record.phases) == {"prefill"}
            assert "ttft" in record.metrics
            assert "decode_throughput" not in record.metrics
    """)
    generator_suite.run_apart(*QUICK).assert_outcomes(passed=1)


def test_a_session_that_a_prompt_does_not_use_has_no_phase(suite: Suite) -> None:
    genai_models.vision_language(suite.path / "vlm")
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_memcpy=0)
        def test_text(genai_generator):
            record = genai_generator("vlm").measure(prompt="hello", new_tokens=4)
            assert {"prefill", "prefill.embedding", "decode"} <= set(record.phases)
            assert "prefill.vision" not in record.phases
    """)
    suite.run_apart(*QUICK).assert_outcomes(passed=1)


def test_a_load_is_no_worse_in_strict_mode_for_having_no_facts(generator_suite: Suite) -> None:
    generator_suite.module("""
        def test_load(genai_generator):
            genai_generator("decoder").measure_load(concurrency=[2], prompt_tokens=20, new_tokens=3, rounds=1)
    """)
    arguments = (*QUICK, "--onnxperf-tolerance=1000", "--onnxperf-baseline-processes=3")
    generator_suite.run_apart(*arguments, "--onnxperf-update", "--onnxperf-update-force").assert_outcomes(passed=1)
    generator_suite.run_apart(*arguments, "--onnxperf-strict").assert_outcomes(passed=1)


@pytest.mark.parametrize(("factor", "is_worse"), [(1 / 50, True), (50, False)])
def test_a_generator_far_from_its_baseline_is_judged_before_the_time_is_over(
    factor: float, is_worse: bool, generator_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator_suite.module("""
        def test_decoder(genai_generator):
            genai_generator("decoder").measure(prompt_tokens=8, new_tokens=6)
    """)
    arguments = (*TIMES, "--onnxperf-min-rounds=5", "--onnxperf-tolerance=4")
    update = ("--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=3")
    generator_suite.run_apart(*arguments, *update).assert_outcomes(passed=1)
    document = json.loads(generator_suite.baseline().read_text("utf-8"))
    entry = document["tests"]["test_decoder"]
    for columns in entry["paired"].values():  # the ratio to one reference does not vary, so that the tolerance is all
        columns["compute"] = [1000.0 * place for place, _ in enumerate(columns["tested"], 1)]
        ratio = columns["tested"][0] / columns["memory"][0]
        columns["tested"] = [ratio * factor * each for each in columns["compute"]]
    generator_suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    taken: list[int] = []

    class CountedLooks(looks.Looks):
        def add(self, found: Mapping[str, Mapping[str, Any]], rounds: int) -> None:
            super().add(found, rounds)
            taken.append(rounds)

    monkeypatch.setattr(looks, "Looks", CountedLooks)

    result = generator_suite.run(*arguments, "--onnxperf-max-time=2", "-v")

    assert ("regressed: decode throughput " in result.stdout.str()) is is_worse
    assert sum(taken) <= 45 * (3 if is_worse else 1), taken
    assert generator_suite.entries()["test_decoder"]["references"] == entry["references"]
