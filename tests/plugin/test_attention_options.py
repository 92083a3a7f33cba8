"""`attention_backend=` and `environment=` of the fixtures: what is refused, what arrives, and what is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_onnxperf.arguments import checked_attention, checked_variables
from pytest_onnxperf.core.attention_backend import OPTION, SWITCHES, backend_settings, switches_of
from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.core.providers import provider_of
from tests import genai_models
from tests.plugin.suite import FACTS, QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tests.plugin.suite import Suite

CUDA = provider_of("cuda")

CALL = """
    def test_mlp(onnx_session):
        onnx_session("mlp.onnx", {arguments}).measure(shapes={{"batch": 1}})
"""
GENERATE = """
    def test_decoder(genai_generator):
        genai_generator("decoder", {arguments}).measure(prompt_tokens=4, new_tokens=4)
"""


def said(result: pytest.RunResult) -> str:
    """The failure in one line, since long lines are wrapped."""
    return " ".join(result.stdout.str().partition("FAILURES")[2].split())


# -- the choice of a kernel --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "options", "variables"),
    [
        ("flash", {OPTION: "1"}, {}),
        ("efficient", {OPTION: "2"}, {}),
        ("trt_fused", {OPTION: "100"}, {}),
        ("cudnn_flash", {OPTION: "8"}, {}),
        ("unfused", {OPTION: "16"}, {}),
        ("lean", {OPTION: "256"}, {}),
        ("decoder", {OPTION: "512"}, {}),
        ("xqa", {}, {"ORT_ENABLE_XQA": "1"}),
    ],
)
def test_a_kernel_is_chosen_by_the_bits_of_the_provider_option_or_by_its_variable(
    backend: str, options: Mapping[str, str], variables: Mapping[str, str]
) -> None:
    assert backend_settings(backend, CUDA) == (options, variables)


def test_the_choice_is_laid_beside_the_other_provider_options() -> None:
    options, _ = checked_attention("onnx_session", CUDA, {"device_id": 1}, "flash")

    assert options == {"device_id": 1, OPTION: "1"}


def test_without_a_choice_the_provider_options_are_as_given() -> None:
    assert checked_attention("onnx_session", CUDA, {OPTION: 3}, None) == ({OPTION: 3}, {})


def test_the_provider_option_given_beside_the_choice_is_refused() -> None:
    with pytest.raises(SettingError, match=r"attention_backend sets the provider option `sdpa_kernel`, .* leave one"):
        checked_attention("onnx_session", CUDA, {OPTION: "2"}, "flash")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("attention_backend='flahs'", "attention_backend: unknown kernel 'flahs', did you mean `flash`?"),
        (
            "attention_backend='zzz'",
            "unknown kernel 'zzz', known: flash, efficient, trt_fused, cudnn_flash, unfused, lean, decoder, xqa",
        ),
        ("attention_backend='latent'", "attention_backend: unknown kernel 'latent'"),
        ("attention_backend='fused'", "attention_backend: unknown kernel 'fused', did you mean `unfused`?"),
        ("attention_backend=3", "attention_backend: unknown kernel 3, known: flash"),
        ("attention_backend=''", "attention_backend: unknown kernel '', known: flash"),
        ("attention_backend=['flash']", "attention_backend: unknown kernel ['flash']"),
        (
            "attention_backend='flash'",
            "CPUExecutionProvider lets nobody choose its attention kernel, CUDAExecutionProvider alone does: leave it "
            "out, or demand ep='cuda'",
        ),
        ("provider_options=3, attention_backend='flash'", "onnx_session(provider_options=...): expected a dict"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_what_could_be(suite: Suite, arguments: str, message: str) -> None:
    suite.model()
    suite.module(CALL.format(arguments=arguments))
    result = suite.run(*QUICK)

    result.assert_outcomes(failed=1)
    assert message in said(result)


# -- environment variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["A"], "onnx_session(environment=...): expected a dict, got list: ['A']"),
        ("A=1", "onnx_session(environment=...): expected a dict, got str: 'A=1'"),
        ({"A": 1}, "onnx_session(environment=...): expected a dict of texts, got 'A': 1"),
        ({"A": None}, "onnx_session(environment=...): expected a dict of texts, got 'A': None"),
        ({1: "A"}, "onnx_session(environment=...): expected a dict of texts, got 1: 'A'"),
        ({"": "1"}, "onnx_session(environment=...): expected a dict of texts, got '': '1'"),
        ({"A=B": "1"}, "onnx_session(environment=...): expected a dict of texts, got 'A=B': '1'"),
        ({"A": "a\0b"}, "onnx_session(environment=...): expected a dict of texts, got 'A': 'a\\x00b'"),
        ({"A\0": "b"}, "onnx_session(environment=...): expected a dict of texts, got 'A\\x00': 'b'"),
    ],
)
def test_variables_that_no_process_can_have_are_refused(value: Any, message: str) -> None:
    with pytest.raises(SettingError) as error:
        checked_variables(value, "onnx_session")
    assert str(error.value) == message


def test_an_empty_value_is_one() -> None:
    assert checked_variables({"A": ""}, "onnx_session") == {"A": ""}


def test_a_wrong_environment_fails_the_test_with_the_message(suite: Suite) -> None:
    suite.model()
    suite.module(CALL.format(arguments="environment={'ORT_ENABLE_XQA': 1}"))
    result = suite.run(*QUICK)

    result.assert_outcomes(failed=1)
    assert "onnx_session(environment=...): expected a dict of texts, got 'ORT_ENABLE_XQA': 1" in said(result)


def test_without_a_process_of_its_own_a_measurement_has_no_variables(suite: Suite) -> None:
    suite.model()
    suite.module(CALL.format(arguments="environment={'ORT_ENABLE_XQA': '1'}"))
    result = suite.run(*QUICK)

    result.assert_outcomes(failed=1)
    assert "ORT_ENABLE_XQA can be set in a measuring process alone, and --onnxperf-isolation=none makes none" in said(
        result
    )


def test_no_variables_need_no_process(suite: Suite) -> None:
    suite.model()
    suite.module(CALL.format(arguments="environment={}"))

    suite.run(*QUICK).assert_outcomes(passed=1)


# The process itself writes down the variables that it has, as it starts.
ARRIVES = """
    import json

    def test_mlp(onnx_session, tmp_path):
        seen = tmp_path / "seen.json"
        write = f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
        (tmp_path / "sitecustomize.py").write_text(write)
        given = {"ORT_ENABLE_XQA": "0", "MINE": "ü = all", "PYTHONPATH": str(tmp_path)}
        record = onnx_session("mlp.onnx", environment=given).measure(shapes={"batch": 1})
        variables = json.loads(seen.read_text())
        assert {name: variables[name] for name in given} == given
        assert record.options == {"ORT_ENABLE_XQA": "0"}
"""


def test_a_variable_reaches_the_process_and_one_that_switches_kernels_is_in_the_record(suite: Suite) -> None:
    suite.model()
    suite.module(ARRIVES)

    suite.run(*FACTS).assert_outcomes(passed=1)


def test_every_switch_is_recorded_and_no_other_variable() -> None:
    variables = dict.fromkeys(SWITCHES, "1")

    assert switches_of({OPTION: 2}, {**variables, "PATH": "/bin"}) == {OPTION: "2", **variables}
    assert switches_of({"device_id": 1}, {"ORT_DISABLE_TELEMETRY": "1"}) == {}


SWITCH = "ORT_DISABLE_FLASH_ATTENTION"


def test_a_switch_of_the_whole_session_is_recorded_too(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    suite.model()
    suite.module()
    suite.run(*FACTS, "--onnxperf-update").assert_outcomes(passed=1)

    assert suite.entries()["test_mlp"]["options"] == {SWITCH: "1"}


WITH_SWITCH = f"environment={{'{SWITCH}': '1'}}"


@pytest.mark.parametrize(
    ("before", "after", "recorded", "change"),
    [
        pytest.param("", WITH_SWITCH, None, f"{SWITCH} unset -> 1", id="set"),
        pytest.param(WITH_SWITCH, "", {SWITCH: "1"}, f"{SWITCH} 1 -> unset", id="taken back"),
        pytest.param(
            WITH_SWITCH, WITH_SWITCH.replace("'1'", "'0'"), {SWITCH: "1"}, f"{SWITCH} 1 -> 0", id="another value"
        ),
    ],
)
def test_a_regression_says_which_switch_was_set_otherwise_when_the_baseline_was_recorded(
    suite: Suite, before: str, after: str, recorded: Mapping[str, str] | None, change: str
) -> None:
    suite.model(layers=4)
    suite.module(CALL.format(arguments=before))
    suite.run(*FACTS, "--onnxperf-update").assert_outcomes(passed=1)
    assert suite.entries()["test_mlp"].get("options") == recorded

    suite.model(layers=2)  # fewer fused operators
    suite.module(CALL.format(arguments=after))
    result = suite.run(*FACTS, "--onnxperf-strict")

    result.assert_outcomes(failed=1)
    since = [line for line in result.outlines if line.startswith("Since then: ")]
    assert since == [f"Since then: {change}"]


# -- generators --------------------------------------------------------------------------------------------------------


@pytest.mark.needs_genai
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("attention_backend='flahs'", "attention_backend: unknown kernel 'flahs', did you mean `flash`?"),
        ("attention_backend='flash'", "CPUExecutionProvider lets nobody choose its attention kernel"),
        ("environment={'A': 1}", "genai_generator(environment=...): expected a dict of texts, got 'A': 1"),
        ("environment={'ORT_ENABLE_XQA': '1'}", "--onnxperf-isolation=none makes none"),
    ],
)
def test_a_generator_refuses_the_same(suite: Suite, arguments: str, message: str) -> None:
    genai_models.decoder(suite.path / "decoder")
    suite.module(GENERATE.format(arguments=arguments))
    result = suite.run_apart(*QUICK)

    result.assert_outcomes(failed=1)
    assert message in said(result)


@pytest.mark.needs_genai
def test_the_switches_of_a_generator_stand_beside_what_its_runtime_took(suite: Suite) -> None:
    genai_models.decoder(suite.path / "decoder")
    suite.module(GENERATE.format(arguments="environment={'ORT_ENABLE_XQA': '0'}"))
    suite.run_apart(*FACTS, "--onnxperf-update").assert_outcomes(passed=1)

    options = suite.entries()["test_decoder"]["options"]
    assert options["ORT_ENABLE_XQA"] == "0"
    assert options["share_buffer"] == "true"
