"""What is done with one GenAI model, on the real runtime: prompts, rounds, profiles, and every wrong input."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.runtime.child import generator_model
from pytest_onnxperf.runtime.child.generator import GeneratorSteps
from pytest_onnxperf.runtime.child.generator_rounds import Generation
from pytest_onnxperf.runtime.child.session import StepError
from tests import genai_models
from tests.genai_models import IMAGE_TOKENS, VOCABULARY, Setting, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

needs_genai = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime_genai") is None, reason="needs onnxruntime-genai"
)
pytestmark = needs_genai

SMALL = Size(context=512)
FIRST_MADE_TOKENS = [106, 82, 57, 26, 91, 114, 248, 24]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("genai")
    made: dict[str, Path] = {form: genai_models.decoder(root / form, form, size=SMALL) for form in genai_models.FORMS}
    made["long"] = genai_models.decoder(root / "long")
    made["vision"] = genai_models.vision_language(root / "vision", size=Size(context=1024))
    return made


@pytest.fixture
def steps() -> Iterator[GeneratorSteps]:
    steps = GeneratorSteps()
    yield steps
    steps.close()


@pytest.fixture
def opened(steps: GeneratorSteps, directories: dict[str, Path]) -> Callable[..., GeneratorSteps]:
    def opened(model: str = "gqa", **changes: Any) -> GeneratorSteps:
        steps.open(job(directories[model], **changes))
        return steps

    return opened


def job(directory: Path, **changes: Any) -> dict[str, Any]:
    plain = {
        "provider": "",
        "provider_options": {},
        "overlay": {},
        "threads": 1,
        "profile_prefix": "",
        "log_severity": 4,
    }
    return {"model": str(directory), **plain, **changes}


def can_run(form: str) -> bool:
    """ai.onnx Attention with an empty past: from onnxruntime 1.24 on."""
    version = GeneratorSteps().hello()["versions"]["onnxruntime"]
    return form != "attention" or tuple(int(part) for part in version.split(".")[:2]) >= (1, 24)


def test_hello_names_the_versions_and_what_the_runtime_can() -> None:
    hello = GeneratorSteps().hello()
    assert set(hello["versions"]) == {"onnxruntime-genai", "onnxruntime", "numpy", "python"}
    assert {"engine", "images", "rewind"} <= set(hello["features"])
    assert hello["cores"] >= 1


@pytest.mark.parametrize("missing", ["overlay", "update_options"])
def test_a_runtime_older_than_0_11_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime_genai

    for name in ("Config", "Tokenizer"):
        kept = {key: None for key in ("overlay", "update_options") if key != missing}
        monkeypatch.setattr(onnxruntime_genai, name, type(name, (), kept))
    with pytest.raises(StepError, match=r"onnxruntime-genai [\d.]+ is too old: 0\.11 or newer is needed") as caught:
        GeneratorSteps().hello()
    assert caught.value.kind == "runtime"


def test_open_tells_of_the_model(directories: dict[str, Path], steps: GeneratorSteps) -> None:
    result = steps.open(job(directories["gqa"]))
    assert result.pop("load_ns") > 0
    assert result == {
        "device_type": "CPU",
        "model_type": "llama",
        "context_length": 512,
        "vocab_size": VOCABULARY,
        "share_buffer": True,
        "sections": ["decoder"],
        "run_level_profile": False,
    }


# Prompts


@pytest.mark.parametrize("new_tokens", [1, 2, 9])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_exactly_the_tokens_that_were_asked_for_are_generated(
    new_tokens: int, batch_size: int, opened: Callable[..., GeneratorSteps]
) -> None:
    steps = opened()
    shape = steps.prepare(prompt_tokens=20, new_tokens=new_tokens, batch_size=batch_size)
    assert shape == {
        "prompt_tokens": 20,
        "batch_size": batch_size,
        "new_tokens": new_tokens,
        "max_length": 20 + new_tokens,
        "share_buffer": True,
    }
    steps.warm_up(1)  # checks the length of every row
    times = steps.round()
    assert len(times["gaps_ns"]) == new_tokens - 1
    assert min(times["append_ns"], times["first_ns"], *times["gaps_ns"], 1) > 0


def test_the_model_cannot_end_the_text_before(tmp_path: Path, steps: GeneratorSteps) -> None:
    every_token = list(range(100, VOCABULARY - 1))
    directory = genai_models.decoder(tmp_path, size=SMALL, setting=Setting(eos=every_token))
    steps.open(job(directory))
    assert len(steps.generate(new_tokens=50, prompt="to be ended")["tokens"][0]) < 50
    steps.prepare(prompt="to be ended", new_tokens=50)
    steps.warm_up(1)


def test_made_prompts_are_the_same_everywhere_and_hold_no_special_token(opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened()
    steps.prepare(prompt_tokens=400, new_tokens=1, batch_size=2)
    ids = _prepared(steps).prompt.ids
    assert ids.shape == (2, 400)
    assert ids[0, :8].tolist() == ids[1, :8].tolist() == FIRST_MADE_TOKENS
    assert ids.max() < 256


def test_a_shorter_made_prompt_is_the_beginning_of_a_longer_one(opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened()
    steps.prepare(prompt_tokens=30, new_tokens=1)
    longer = _prepared(steps).prompt.ids
    steps.prepare(prompt_tokens=10, new_tokens=1)
    assert _prepared(steps).prompt.ids[0].tolist() == longer[0, :10].tolist()


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"prompt": "héllo"}, [[104, 195, 169, 108, 108, 111]]),
        ({"prompt": "ab", "batch_size": 2}, [[97, 98], [97, 98]]),
        ({"prompt": ["ab", "cd"]}, [[97, 98], [99, 100]]),
        ({"tokens": [1, 2, 3]}, [[1, 2, 3]]),
        ({"tokens": [1, 2, 3], "batch_size": 2}, [[1, 2, 3], [1, 2, 3]]),
        ({"tokens": [[1, 2], [3, 4]]}, [[1, 2], [3, 4]]),
        ({"tokens": [[1, 2], [3, 4]], "batch_size": 2}, [[1, 2], [3, 4]]),
        ({"tokens": np.array([[1, 2]], np.int64)}, [[1, 2]]),
        ({"tokens": np.array([5], np.uint8)}, [[5]]),
    ],
)
def test_a_prompt_is_a_text_or_tokens(
    given: dict[str, Any], rows: list[list[int]], opened: Callable[..., GeneratorSteps]
) -> None:
    steps = opened()
    shape = steps.prepare(new_tokens=2, **given)
    assert _prepared(steps).prompt.ids.tolist() == rows
    assert (shape["batch_size"], shape["prompt_tokens"]) == (len(rows), len(rows[0]))
    steps.warm_up(1)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({}, "input", "give exactly one of `prompt_tokens`, `prompt` and `tokens`, got none"),
        ({"prompt": "a", "tokens": [1]}, "input", "got prompt and tokens"),
        ({"prompt_tokens": 0}, "input", "`prompt_tokens` must be a whole number of at least 1, got 0"),
        ({"prompt_tokens": 2.5}, "input", "got 2.5"),
        ({"prompt_tokens": True}, "input", "got True"),
        ({"prompt_tokens": 4, "batch_size": 0}, "input", "`batch_size` must be a whole number of at least 1"),
        ({"prompt_tokens": 4, "new_tokens": 0}, "input", "`new_tokens` must be a whole number of at least 1"),
        ({"prompt_tokens": 4, "new_tokens": -1}, "input", "got -1"),
        ({"prompt_tokens": 512}, "input", "a prompt of 512 tokens and 2 new ones are 514, and the context of"),
        ({"prompt_tokens": 4, "new_tokens": 509}, "input", "are 513, and the context of the model is 512"),
        ({"prompt": ""}, "input", "`prompt` is empty"),
        ({"prompt": []}, "input", "the prompt has no tokens"),
        ({"prompt": ["a", ""]}, "input", "`prompt` is empty"),
        ({"prompt": ["a", 1]}, "input", "`prompt` must be a text or a list of texts, got 1"),
        ({"prompt": ["a", "bc"]}, "input", r"must be equally long, got rows of \[1, 2\] tokens"),
        ({"tokens": []}, "input", "the prompt has no tokens"),
        ({"tokens": [[], []]}, "input", "the prompt has no tokens"),
        ({"tokens": [[1], [2, 3]]}, "input", r"must be equally long, got rows of \[1, 2\] tokens"),
        ({"tokens": [[1], 2]}, "input", "`tokens` must be a row of ids or rows of equal length"),
        ({"tokens": [1.0]}, "input", r"`tokens` must be whole numbers, \[tokens\] or \[batch, tokens\], got float64"),
        ({"tokens": [True]}, "input", "must be whole numbers"),
        ({"tokens": "abc"}, "input", "must be whole numbers"),
        ({"tokens": [[[1]]]}, "input", "must be whole numbers"),
        ({"tokens": [1, VOCABULARY]}, "input", f"token id {VOCABULARY} is not in the vocabulary of the model, 0 to "),
        ({"tokens": [-1]}, "input", "token id -1 is not in the vocabulary"),
        ({"tokens": [[1], [2], [3]], "batch_size": 2}, "input", "`batch_size` is 2, and the prompt has 3 rows"),
        ({"prompt_tokens": 4, "images": ["a.png"]}, "input", "images and audios go with one `prompt`"),
        ({"prompt": "a", "images": ["/no/such.png"]}, "input", "/no/such.png is no file"),
        ({"search_options": {"top_kk": 1}}, "option", "unknown option `top_kk`, did you mean `top_k`?"),
        ({"search_options": {"max_length": 9}}, "option", "`max_length` cannot be given, `new_tokens` sets it"),
        ({"search_options": {"top_k": "1"}}, "option", "`top_k` must be a number or a bool, got '1'"),
        ({"search_options": {"top_k": True}}, "option", "no generator can be made with these search options"),
    ],
)  # fmt: skip
def test_a_wrong_prompt_is_refused(
    given: dict[str, Any], kind: str, message: str, opened: Callable[..., GeneratorSteps]
) -> None:
    steps = opened()
    if "search_options" in given:
        given = {"prompt_tokens": 4, **given}
    with pytest.raises(StepError, match=message) as caught:
        steps.prepare(**{"new_tokens": 2, **given})
    assert caught.value.kind == kind
    with pytest.raises(StepError, match="no prompt was given yet"):
        steps.round()


def test_what_was_prepared_for_one_model_is_not_run_on_the_next(opened: Callable[..., GeneratorSteps]) -> None:
    opened().prepare(prompt_tokens=4, new_tokens=2)
    with pytest.raises(StepError, match="no prompt was given yet"):
        opened("unfused").round()


def test_a_step_without_a_model_says_so(steps: GeneratorSteps) -> None:
    with pytest.raises(StepError, match="no model is open"):
        steps.prepare(prompt_tokens=1, new_tokens=1)


# Rounds


def test_the_first_step_alone_is_not_the_time_to_the_first_token(opened: Callable[..., GeneratorSteps]) -> None:
    """The prefill is in `append_tokens`: who times the first `generate_next_token` alone measures the sampling."""
    steps = opened("long")
    steps.prepare(prompt_tokens=2000, new_tokens=3)
    steps.warm_up(1)
    rounds = [steps.round() for _ in range(3)]
    ratio = min((times["append_ns"] + times["first_ns"]) / times["first_ns"] for times in rounds)
    assert ratio > 100


def test_a_warm_up_makes_two_decode_steps_at_least(
    opened: Callable[..., GeneratorSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    generators: list[Any] = []
    new_generator = Generation.new_generator

    def counted(generation: Generation) -> Any:
        generators.append(new_generator(generation))
        return generators[-1]

    monkeypatch.setattr(Generation, "new_generator", counted)
    steps = opened()
    for new_tokens, asked, made in ((1, 0, 1), (2, 1, 2), (3, 1, 1), (8, 0, 1), (8, 4, 4)):
        steps.prepare(prompt_tokens=4, new_tokens=new_tokens)
        generators.clear()
        assert steps.warm_up(asked)["cold_start_ns"] > 0
        assert len(generators) == made, (new_tokens, asked)


def test_a_block_makes_its_rounds_with_the_garbage_collector_off(
    opened: Callable[..., GeneratorSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    import gc

    enabled: list[bool] = []
    round_of = Generation.round

    def watched(generation: Generation) -> dict[str, Any]:
        enabled.append(gc.isenabled())
        return round_of(generation)

    monkeypatch.setattr(Generation, "round", watched)
    steps = opened()
    steps.prepare(prompt_tokens=4, new_tokens=3)
    result = steps.block(min_rounds=5, max_time_s=0)
    assert [len(times["gaps_ns"]) for times in result["rounds"]] == [2] * 5
    assert result["peak_rss_bytes"] > 1 << 20
    assert enabled == [False] * 5
    assert gc.isenabled()


@pytest.mark.parametrize("share_buffer", [True, False, None])
def test_past_and_present_share_a_buffer_or_do_not(
    share_buffer: bool | None, opened: Callable[..., GeneratorSteps]
) -> None:
    steps = opened()
    shape = steps.prepare(prompt="share", new_tokens=8, share_buffer=share_buffer)
    assert shape["share_buffer"] is (share_buffer is not False)
    steps.warm_up(1)
    assert _prepared(steps).tokens() == steps.generate(new_tokens=8, prompt="share")["tokens"]


@pytest.mark.parametrize(
    ("reason", "kind"), [("num_beams (99) must be in [1, 32]", "option"), ("std::bad_alloc", "run")]
)
def test_a_generator_that_cannot_be_made_is_an_error(
    reason: str, kind: str, opened: Callable[..., GeneratorSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options are at fault, or there is no room for the KV cache."""
    import onnxruntime_genai

    def refused(*_: object) -> None:
        raise RuntimeError(reason)

    steps = opened()
    steps.prepare(prompt_tokens=4, new_tokens=2, search_options={"num_beams": 99})
    monkeypatch.setattr(onnxruntime_genai, "Generator", refused)
    with pytest.raises(StepError, match=r"with these search options \(.*num_beams=99.*\): ") as caught:
        steps.warm_up(1)
    assert caught.value.kind == kind
    assert str(caught.value).endswith(reason)


def test_a_model_that_cannot_share_a_buffer_fails_with_a_hint(opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened("unfused")
    steps.prepare(prompt_tokens=8, new_tokens=2, share_buffer=True)
    with pytest.raises(StepError, match=r"in the prefill: [\s\S]+try `share_buffer=False`") as caught:
        steps.warm_up(1)
    assert caught.value.kind == "run"


@pytest.mark.parametrize(("ends_after", "message"), [
    (3, r"ended after token 3 of 5, by itself \(EOS\)"),
    (9, "did not end after 5 tokens, at its `max_length` 9"),
])  # fmt: skip
def test_a_generation_of_another_length_is_an_error(
    ends_after: int, message: str, opened: Callable[..., GeneratorSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Generator:
        count = 0

        def append_tokens(self, ids: Any) -> None: ...

        def generate_next_token(self) -> None:
            self.count += 1

        def is_done(self) -> bool:
            return self.count >= ends_after

    steps = opened()
    steps.prepare(prompt_tokens=4, new_tokens=5)
    monkeypatch.setattr(Generation, "new_generator", lambda _: Generator())
    with pytest.raises(StepError, match=message) as caught:
        steps.round()
    assert caught.value.kind == "run"


def test_the_three_forms_of_attention_give_the_same_tokens(opened: Callable[..., GeneratorSteps]) -> None:
    forms = [form for form in genai_models.FORMS if can_run(form)]
    rows = [opened(form).generate(new_tokens=12, tokens=[[1, 2, 3, 4], [250, 40, 30, 20]])["tokens"] for form in forms]
    assert rows == [rows[0]] * len(forms)
    assert [len(row) for row in rows[0]] == [12, 12]


def test_generate_returns_texts_for_a_text(opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened()
    result = steps.generate(new_tokens=5, prompt="hello")
    assert result["texts"] == [steps.tokenizer.decode(result["tokens"][0])]
    assert steps.generate(new_tokens=5, tokens=list(b"hello")) == {"tokens": result["tokens"], "texts": None}


# Options of the model


def test_threads_and_overlay_reach_the_model(opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened(overlay={"model": {"context_length": 100}, "search": {"top_k": 3}}, threads=2)
    with pytest.raises(StepError, match="the context of the model is 100"):
        steps.prepare(prompt_tokens=100, new_tokens=1)
    options = {"session_options": {"graph_optimization_level": "ORT_DISABLE_ALL", "session.disable_prepacking": "1"}}
    steps = opened(overlay={"model": {"decoder": options}})
    steps.prepare(prompt_tokens=4, new_tokens=2)
    steps.warm_up(1)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"overlay": {"serach": {}}}, "option", "unknown key `serach`, which would be ignored: did you mean `search`?"),
        ({"overlay": {"search": 3}}, "option", "the overlay's `search`: expected an object, got 3"),
        ({"overlay": {"search": {"top_kk": 3}}}, "option", "unknown option `top_kk`, did you mean `top_k`"),
        ({"overlay": {"model": {"context_lenght": 3}}}, "option", "GenAI refuses the overlay: .*context_lenght"),
        ({"overlay": {"model": {"decoder": 3}}}, "option", "`model.decoder`: expected an object, got 3"),
        ({"overlay": {"model": {"vision": {}}}}, "option", "this model has no such section, only decoder"),
        ({"overlay": {"model": {"decoder": {"pipeline": []}}}}, "option", "GenAI would add stages, not change them"),
        ({"overlay": {"model": {"decoder": {"session_options": {"graph_optimisation_level": "x"}}}}}, "option",
         "`model.decoder.session_options.graph_optimisation_level`.*did you mean `graph_optimization_level`"),
        ({"overlay": {"model": {"decoder": {"session_options": {"graph_optimization_level": "x"}}}}}, "option",
         "GenAI refuses the overlay: "),
        ({"overlay": {"model": {"decoder": {"session_options": {"provider_options": []}}}}}, "option",
         "GenAI does not use them in an overlay"),
        ({"overlay": {"model": {"decoder": {"session_options": {"enable_profiling": "p"}}}}}, "option",
         "profiles are taken in a process of their own"),
        ({"overlay": {"model": {"decoder": {"session_options": {"session.enable_profiling": "1"}}}}}, "option",
         "profiles are taken in a process of their own"),
        ({"overlay": {"model": {"decoder": {"session_options": 3}}}}, "option", "expected an object, got 3"),
        ({"overlay": {"model": {"decoder": {"session_options": {"intra_op_num_thread": "1"}}}}}, "option",
         "would be ignored: did you mean `intra_op_num_threads`"),
        ({"overlay": {"model": {"decoder": {"run_options": {"gpu_graf_id": "1"}}}}}, "option",
         "`model.decoder.run_options.gpu_graf_id`, which would be ignored: did you mean `gpu_graph_id`"),
        ({"overlay": {"model": {"decoder": {"run_options": {"enable_profiling": "p"}}}}}, "option",
         "profiles are taken in a process of their own"),
        ({"provider": "cudaa"}, "option", r"unknown provider 'cudaa': did you mean `cuda`?"),
        ({"provider_options": {"a": 1}}, "option", "provider options were given, and the CPU has none"),
        ({"provider": "dml"}, "ep", "DML"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused(
    changes: dict[str, Any], kind: str, message: str, directories: dict[str, Path], steps: GeneratorSteps
) -> None:
    with pytest.raises(StepError, match=message) as caught:
        steps.open(job(directories["gqa"], **changes))
    assert caught.value.kind == kind


@pytest.mark.parametrize("provider", ["", "cuda", "CUDAExecutionProvider"])
def test_a_provider_that_is_not_there_is_an_error(provider: str, tmp_path: Path, steps: GeneratorSteps) -> None:
    import onnxruntime_genai

    if onnxruntime_genai.is_cuda_available():
        pytest.skip("this build has CUDA")
    directory = genai_models.decoder(tmp_path, size=SMALL, setting=Setting(provider="" if provider else "cuda"))
    with pytest.raises(StepError, match=r"(?i)cuda") as caught:
        steps.open(job(directory, provider=provider))
    assert caught.value.kind == "ep"


def test_the_cpu_can_be_asked_for_whatever_the_configuration_says(tmp_path: Path, steps: GeneratorSteps) -> None:
    directory = genai_models.decoder(tmp_path, size=SMALL, setting=Setting(provider="cuda"))
    assert steps.open(job(directory, provider="cpu"))["device_type"] == "CPU"
    steps.prepare(prompt_tokens=4, new_tokens=2)
    steps.warm_up(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), r"has no genai_config\.json, so it is no model directory of ONNX Runtime GenAI"),
        (lambda path: path.write_text("{"), r"genai_config\.json cannot be read: Expecting property name"),
        (lambda path: path.write_text("[]"), 'has no object "model"'),
        (lambda path: _edit(path, lambda model: model.pop("decoder")), "has no decoder, so .*`onnx_session`"),
        (lambda path: _edit(path, lambda model: model.update(type="bert")),
         r"`model\.type` 'bert' is none that GenAI .*`onnx_session`"),
        (lambda path: _edit(path, lambda model: model.update(color=1)), 'Unknown value "color"'),
        (lambda path: _edit(path, lambda model: model["decoder"].update(filename="no.onnx")), r"no\.onnx"),
        (lambda path: _edit(path, lambda model: model["decoder"]["session_options"].update(enable_profiling="p")),
         r"`model\.decoder\.session_options\.enable_profiling` turns profiling on, which would slow every step"),
        (lambda path: _edit(path, lambda model: model["decoder"].update(run_options={"enable_profiling": "p"})),
         r"`model\.decoder\.run_options\.enable_profiling` turns profiling on, which would slow every step"),
        (lambda path: _edit(path, lambda model: model["decoder"].update(session_options=3)),
         r"`model\.decoder\.session_options` is no object: 3"),
        (lambda path: _edit(path, lambda model: model["decoder"]["session_options"].update(provider_options="cuda")),
         r"`model\.decoder\.session_options\.provider_options`: expected a list of objects, .*, got 'cuda'"),
        (lambda path: path.write_text('{"model": {"decoder": {"filename": "model.onnx"}}, "search": 3}'),
         "`search` is no object: 3"),
        (lambda path: (path.parent / "model.onnx").write_bytes(b"no model"), "(?i)protobuf"),
    ],
)  # fmt: skip
def test_a_directory_that_is_no_model_is_refused(
    change: Callable[[Path], Any], message: str, tmp_path: Path, steps: GeneratorSteps
) -> None:
    genai_models.decoder(tmp_path, size=SMALL)
    change(tmp_path / "genai_config.json")
    with pytest.raises(StepError, match=message) as caught:
        steps.open(job(tmp_path))
    assert caught.value.kind == "model"


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path, steps: GeneratorSteps) -> None:
    (tmp_path / "model.onnx").touch()
    for name, what in (("nothing", "does not exist"), ("model.onnx", "is a file")):
        with pytest.raises(StepError, match=f"{name} {what}; expected a directory with genai_config.json"):
            steps.open(job(tmp_path / name))


# Profiles


@pytest.mark.parametrize("level", ["as the runtime can", "session"])
def test_the_phases_of_a_profile_are_told_apart(
    level: str, tmp_path: Path, opened: Callable[..., GeneratorSteps], monkeypatch: pytest.MonkeyPatch
) -> None:
    if level == "session":
        monkeypatch.setattr(generator_model, "_has_run_profile", lambda *_: False)
    steps = opened(profile_prefix=str(tmp_path / "p"))
    steps.prepare(prompt_tokens=20, new_tokens=5)
    result = steps.profile(decode_steps=3)
    closed = steps.close()
    assert [step["phase"] for step in result["steps"]] == ["prefill", "decode", "decode", "decode"]
    assert [step["step"] for step in result["steps"]] == [0, 1, 2, 3]
    assert {step["session"] for step in result["steps"]} == {"decoder"}
    assert closed["profile_paths"] == sorted({step["path"] for step in result["steps"]})
    for step in result["steps"]:
        window = step["window"]
        profile = read_profile(step["path"], None if window is None else [tuple(window)])
        assert len(profile.measured_runs) == 1
        assert _query_length(step["path"], window) == (20 if step["phase"] == "prefill" else 1)
    assert {path.name for path in tmp_path.iterdir()} == {Path(path).name for path in closed["profile_paths"]}


def test_a_prefill_in_chunks_has_several_runs(tmp_path: Path, opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened("long", profile_prefix=str(tmp_path / "p"), overlay={"search": {"chunk_size": 500}})
    steps.prepare(prompt_tokens=2000, new_tokens=3)
    result = steps.profile(decode_steps=1)
    steps.close()
    prefills = [step for step in result["steps"] if step["phase"] == "prefill"]
    windows = [None if step["window"] is None else [tuple(step["window"])] for step in prefills]
    runs = [read_profile(step["path"], window) for step, window in zip(prefills, windows, strict=True)]
    assert sum(len(profile.measured_runs) for profile in runs) == 4


def test_a_profile_needs_a_prefix_and_a_decode_step(tmp_path: Path, opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened()
    steps.prepare(prompt_tokens=4, new_tokens=3)
    with pytest.raises(StepError, match="the model was opened without a `profile_prefix`"):
        steps.profile(decode_steps=2)
    steps = opened(profile_prefix=str(tmp_path / "p"))
    steps.prepare(prompt_tokens=4, new_tokens=3)
    for decode_steps in (0, 3):
        with pytest.raises(StepError, match=rf"`decode_steps` must be 1 to 2 \(`new_tokens` - 1\), got {decode_steps}"):
            steps.profile(decode_steps=decode_steps)


# Images


def test_an_image_goes_through_the_models_own_processor(tmp_path: Path, opened: Callable[..., GeneratorSteps]) -> None:
    steps = opened("vision")
    images = [str(genai_models.image(tmp_path / f"{seed}.png", seed=seed)) for seed in (1, 2)]
    for count in (1, 2):
        text = "<start_of_image>" * count
        shape = steps.prepare(prompt=f"what is {text}?", images=images[:count], new_tokens=4)
        assert shape["prompt_tokens"] == 9 + count * (IMAGE_TOKENS + 6)  # two line ends, and start and end of the image
        steps.warm_up(1)
        assert len(steps.round()["gaps_ns"]) == 3
    answers = [
        steps.generate(new_tokens=8, prompt="what is <start_of_image>?", images=[image])["tokens"] for image in images
    ]
    assert answers[0] != answers[1]
    steps.prepare(prompt_tokens=8, new_tokens=4)
    steps.warm_up(1)


def test_wrong_images_are_refused(tmp_path: Path, opened: Callable[..., GeneratorSteps]) -> None:
    image = str(genai_models.image(tmp_path / "image.png"))
    (tmp_path / "text.png").write_text("no image")  # GenAI exits the process at it
    (tmp_path / "cut.png").write_bytes(Path(image).read_bytes()[:500])
    with pytest.raises(StepError, match=r"this model \(llama\) takes no images or audios"):
        opened().prepare(prompt="a", images=[image], new_tokens=2)
    steps = opened("vision")
    for given, message in (
        ({"prompt": "no mark", "images": [image]}, "processor refuses the prompt"),
        (
            {"prompt": "<start_of_image>", "images": [str(tmp_path / "text.png")]},
            "text.png is neither a PNG nor a JPEG",
        ),
        (
            {"prompt": "<start_of_image>", "images": [str(tmp_path / "cut.png")]},
            "the model's processor refuses the prompt",
        ),
        ({"prompt": "a", "audios": [image]}, "the model's processor has no use for audios: it gives only input_ids"),
        ({"tokens": [1], "images": [image]}, "images and audios go with one `prompt`"),
    ):
        with pytest.raises(StepError, match=message) as caught:
            steps.prepare(new_tokens=2, **given)
        assert caught.value.kind == "input"


def test_the_sessions_of_a_model_are_profiled_apart(tmp_path: Path, opened: Callable[..., GeneratorSteps]) -> None:
    image = str(genai_models.image(tmp_path / "image.png"))
    (tmp_path / "profiles").mkdir()
    steps = opened("vision", profile_prefix=str(tmp_path / "profiles" / "p"))
    steps.prepare(prompt="<start_of_image>", images=[image], new_tokens=4)
    result = steps.profile(decode_steps=2)
    steps.close()
    assert set(result["session_paths"]) == {"decoder", "embedding", "vision"}
    runs = {
        (step["session"], step["step"]): len(read_profile(step["path"], [tuple(step["window"])]).measured_runs)
        for step in result["steps"]
    }
    decoders = {(session, step): 1 for session in ("decoder", "embedding") for step in (0, 1, 2)}
    assert runs == decoders | {("vision", 0): 1}
    assert len(list((tmp_path / "profiles").iterdir())) == 3


# The models


def test_models_are_the_same_bytes_for_a_seed(tmp_path: Path) -> None:
    digests = [
        hashlib.sha256(
            (genai_models.decoder(tmp_path / name, size=SMALL, seed=seed) / "model.onnx").read_bytes()
        ).digest()
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert digests[0] == digests[1] != digests[2]


def _prepared(steps: GeneratorSteps) -> Generation:
    assert steps._generation is not None
    return steps._generation


def _edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads(path.read_text("utf-8"))
    change(config["model"])
    path.write_text(json.dumps(config), "utf-8")


def _query_length(path: str, window: list[int] | None) -> int:
    """The length of the query that the attention of a run saw, read from the shapes in the file."""
    for event in json.loads(Path(path).read_text("utf-8")):
        is_inside = window is None or window[0] <= event["ts"] * 1000 <= window[1]
        if is_inside and event.get("args", {}).get("op_name") == "GroupQueryAttention":
            shapes = event["args"]["input_type_shape"]
            return int(next(iter(shapes[0].values()))[1])
    msg = f"no GroupQueryAttention in {path}"
    raise AssertionError(msg)
