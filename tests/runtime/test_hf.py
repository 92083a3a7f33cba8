"""What is done with one model of transformers, on the real PyTorch: tokens, times, caches, and every wrong input."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.errors import ModelError
from pytest_onnxperf.runtime.child.generator import GeneratorSteps
from pytest_onnxperf.runtime.child.hf import HfSteps
from pytest_onnxperf.runtime.child.session import StepError
from pytest_onnxperf.runtime.hf_job import TORCH, HfJob
from tests import genai_models, hf_models
from tests.genai_models import EOS, VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs_hf
CACHES = ("dynamic", "static")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_models.llama(tmp_path_factory.mktemp("hf") / "llama")


@pytest.fixture
def steps() -> Iterator[HfSteps]:
    steps = HfSteps()
    yield steps
    steps.close()


def job(directory: Path, **changes: Any) -> dict[str, Any]:
    plain = {"model": str(directory), "device": "cpu", "dtype": "", "cache": "dynamic", "threads": 1}
    return {**plain, **changes}


def opened(steps: HfSteps, directory: Path, **changes: Any) -> HfSteps:
    steps.open(job(directory, **changes))
    return steps


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_it_generates_the_tokens_that_transformers_generates(
    steps: HfSteps, directory: Path, cache: str, batch_size: int
) -> None:
    import torch
    import transformers

    rows = [[(7 * row + 3 * place) % 256 for place in range(9)] for row in range(batch_size)]
    opened(steps, directory, cache=cache).prepare(new_tokens=12, tokens=rows)
    generation = steps.generation
    ours = [generation.tokens() for _ in range(2)]  # a static cache is used again
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, local_files_only=True)
    mask = torch.ones(batch_size, 9, dtype=torch.long)
    theirs = model.generate(torch.tensor(rows), attention_mask=mask, do_sample=False, max_new_tokens=12)
    assert ours == [theirs[:, 9:].tolist()] * 2


@pytest.mark.parametrize("cache", CACHES)
def test_a_round_has_the_times_of_a_generators_round(steps: HfSteps, directory: Path, cache: str) -> None:
    answer = opened(steps, directory, cache=cache).prepare(new_tokens=6, prompt_tokens=20, batch_size=2)
    assert answer == {
        "prompt_tokens": 20, "batch_size": 2, "new_tokens": 6, "max_length": 26, "share_buffer": cache == "static",
    }  # fmt: skip
    assert steps.warm_up(2)["cold_start_ns"] > 0
    block = steps.block(min_rounds=3, max_time_s=0.0)
    assert [len(each["gaps_ns"]) for each in block["rounds"]] == [5, 5, 5]
    assert all(each["append_ns"] > 0 and each["first_ns"] > 0 and min(each["gaps_ns"]) > 0 for each in block["rounds"])
    assert block["peak_rss_bytes"] > 0
    ttft_ns, steps_ns = steps.generation.interleaved_round(lambda: None)
    assert ttft_ns > 0
    assert len(steps_ns) == 5


def test_the_prefill_is_in_the_time_of_the_prompt_and_grows_with_it(steps: HfSteps, directory: Path) -> None:
    found = {}
    for prompt_tokens in (8, 480):
        opened(steps, directory).prepare(new_tokens=2, prompt_tokens=prompt_tokens)
        steps.warm_up(2)
        found[prompt_tokens] = min(each["append_ns"] for each in steps.block(5, 0.0)["rounds"])
    assert found[480] > found[8]


def test_a_cache_that_is_not_used_is_found_by_its_length(steps: HfSteps, directory: Path) -> None:
    opened(steps, directory).prepare(new_tokens=3, prompt_tokens=5)
    generation: Any = steps.generation
    generation._cache_name = "no_cache_at_all"  # a model that takes any keyword takes this
    with pytest.raises(StepError, match="the KV cache holds 0 positions and not 7"):
        steps.warm_up(1)


def test_the_end_of_a_text_does_not_end_a_generation(steps: HfSteps, tmp_path: Path) -> None:
    plain = opened(steps, hf_models.llama(tmp_path / "plain"))
    plain.prepare(new_tokens=8, tokens=[1, 2, 3])
    (tokens,) = plain.generation.tokens()
    ending = opened(steps, hf_models.llama(tmp_path / "ending", eos_token_id=tokens[2]))
    ending.prepare(new_tokens=8, tokens=[1, 2, 3])
    assert ending.generation.tokens() == [tokens]


def test_a_made_prompt_is_that_of_a_generator_with_the_same_vocabulary(
    steps: HfSteps, directory: Path, tmp_path: Path
) -> None:
    opened(steps, directory).prepare(new_tokens=1, prompt_tokens=30)
    ours = steps.generation.prompt.ids
    assert ours.max() < VOCABULARY
    pytest.importorskip("onnxruntime_genai")
    generator = GeneratorSteps()
    path = genai_models.decoder(tmp_path / "decoder")
    generator.open({"model": str(path), "provider": "", "provider_options": {}, "overlay": {}, "threads": 1,
                    "profile_prefix": "", "log_severity": 2})  # fmt: skip
    generator.prepare(new_tokens=1, tokens=ours.tolist())
    assert generator.generation.prompt.ids.tolist() == ours.tolist()
    generator.close()


@pytest.mark.parametrize("dtype", ["", "float16", "bfloat16"])
def test_the_dtype_is_that_of_the_configuration_or_the_one_that_is_asked_for(
    steps: HfSteps, directory: Path, dtype: str
) -> None:
    opened(steps, directory, dtype=dtype)
    assert str(steps._opened.model.dtype) == f"torch.{dtype or 'float32'}"


def test_threads_are_those_that_are_asked_for(steps: HfSteps, directory: Path) -> None:
    import torch

    opened(steps, directory, threads=2)
    assert torch.get_num_threads() == 2
    opened(steps, directory, threads=1)
    assert torch.get_num_threads() == 1


def test_nothing_may_be_downloaded_and_the_environment_is_left_as_it_was(
    steps: HfSteps, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    opened(steps, directory)
    assert "HF_HUB_OFFLINE" not in os.environ
    with pytest.raises(StepError, match=r"config\.json cannot be read: .*a directory of transformers is wanted"):
        steps.open(job("gpt2"))  # type: ignore[arg-type]  # a name on the hub is no directory


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"new_tokens": 0, "prompt_tokens": 4}, "`new_tokens` must be a whole number of at least 1, got 0"),
    ({"new_tokens": 4}, "give exactly one of `prompt_tokens`"),
    ({"new_tokens": 4, "prompt": "hello"}, "the pipeline `hf` takes no `prompt`: give `prompt_tokens` or `tokens`"),
    ({"new_tokens": 4, "prompt_tokens": 4, "images": ["a.png"]}, "the pipeline `hf` takes no `images`"),
    ({"new_tokens": 4, "tokens": [VOCABULARY]}, f"token id {VOCABULARY} is not in the vocabulary"),
    ({"new_tokens": 13, "prompt_tokens": 500}, "are 513, and the model has 512 positions"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_wrong_input_gets_one_clear_message(
    steps: HfSteps, directory: Path, given: dict[str, Any], message: str
) -> None:
    opened(steps, directory)
    with pytest.raises(StepError) as caught:
        steps.prepare(**given)
    assert message in str(caught.value)


def test_the_longest_generation_fits(steps: HfSteps, directory: Path) -> None:
    opened(steps, directory, cache="static").prepare(new_tokens=12, prompt_tokens=500)
    steps.warm_up(1)


def test_what_cannot_be_opened_says_that_it_is_not_onnx_runtime(steps: HfSteps, directory: Path) -> None:
    for dtype in ("float61", "int8", "nn"):
        with pytest.raises(
            StepError, match=f"`dtype`: expected a floating-point torch.dtype such as .*, got '{dtype}'"
        ):
            steps.open(job(directory, dtype=dtype))
    (directory.parent / "empty").mkdir()
    (directory.parent / "empty" / "config.json").write_bytes((directory / "config.json").read_bytes())
    with pytest.raises(StepError, match="transformers cannot load the model: "):
        steps.open(job(directory.parent / "empty"))
    with pytest.raises(StepError, match="no model is open"):
        steps.prepare(new_tokens=1, prompt_tokens=1)


def test_cuda_that_is_not_there_is_an_error_of_the_ep(steps: HfSteps, directory: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(StepError, match="has no CUDA device here") as caught:
        steps.open(job(directory, device="cuda"))
    assert caught.value.kind == "ep"


def test_the_size_is_that_of_the_weights_and_a_directory_without_them_is_refused(
    directory: Path, tmp_path: Path
) -> None:
    whole = HfJob(directory, "llama", TORCH["cpu"])
    assert whole.size_bytes() == (directory / "model.safetensors").stat().st_size
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(ModelError, match="has no weights"):
        HfJob(tmp_path, "none", TORCH["cpu"]).size_bytes()
    (tmp_path / "config.json").write_text("[]", "utf-8")
    with pytest.raises(ModelError, match="is no object"):
        HfJob(tmp_path, "none", TORCH["cpu"]).size_bytes()


def test_an_end_token_is_in_no_made_prompt(steps: HfSteps, tmp_path: Path) -> None:
    opened(steps, hf_models.llama(tmp_path / "m", eos_token_id=[5, EOS])).prepare(new_tokens=1, prompt_tokens=500)
    assert not {5, EOS} & set(steps.generation.prompt.ids.ravel().tolist())
