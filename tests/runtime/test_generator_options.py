"""What a job of a GenAI model becomes: an overlay, a whole configuration, a directory, a made prompt. No runtime."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_onnxperf.runtime.child import generator_options, generator_scratch
from pytest_onnxperf.runtime.child.generator_prompt import allowed_tokens, made_tokens
from pytest_onnxperf.runtime.child.session import StepError

if TYPE_CHECKING:
    from pathlib import Path

CUDA: list[dict[str, Any]] = [{"cuda": {"enable_cuda_graph": "0"}}]


def config(**sections: Any) -> dict[str, Any]:
    """A configuration: section -> its session options, None for a section without any."""
    parts = {
        name: {"filename": f"{name}.onnx", **({} if options is None else {"session_options": options})}
        for name, options in sections.items()
    }
    return {"model": parts, "search": {}}


def job(**changes: Any) -> dict[str, Any]:
    plain = {"provider": "", "provider_options": {}, "overlay": {}, "threads": 2, "profile_prefix": "/p/x"}
    return {**plain, "log_severity": 3, **changes}


def options_of(laid: dict[str, Any]) -> dict[str, Any]:
    return {name: part.get("session_options") for name, part in laid["model"].items()}


def overlay(of: dict[str, Any], provider: str = "cpu", /, **changes: Any) -> dict[str, Any]:
    return options_of(generator_options.overlay_of(of, job(**changes), provider))


COMMON = {"log_severity_level": 3, "intra_op_num_threads": 2}


def test_threads_and_log_level_are_laid_over_the_decoder() -> None:
    assert overlay(config(decoder={"log_id": "x"})) == {"decoder": COMMON}
    assert overlay(config(decoder={}), threads=0) == {"decoder": {"log_severity_level": 3}}


def test_what_the_test_lays_over_wins() -> None:
    given = {"model": {"decoder": {"session_options": {"intra_op_num_threads": 7}}, "context_length": 5}}
    laid = generator_options.overlay_of(config(decoder={}), job(overlay=given), "cpu")
    assert laid == {
        "model": {
            "decoder": {"session_options": {"log_severity_level": 3, "intra_op_num_threads": 7}},
            "context_length": 5,
        }
    }


def test_a_section_with_options_of_its_own_keeps_them_on_the_cpu() -> None:
    of = config(decoder={}, vision={"log_id": "v", "provider_options": []}, embedding=None)
    assert overlay(of) == {"decoder": COMMON, "vision": {"log_id": "v", **COMMON}}


@pytest.mark.parametrize("own", [None, {"provider_options": CUDA}])
def test_a_section_on_a_device_is_not_laid_over_since_it_would_lose_it(own: dict[str, Any] | None) -> None:
    of = config(decoder={"provider_options": CUDA}, vision=own)
    assert overlay(of, "cuda") == {"decoder": COMMON}
    given = {"model": {"vision": {"session_options": {"log_id": "x"}}}}
    with pytest.raises(StepError, match=r"`model\.vision\.session_options`: GenAI would move this section to the CPU"):
        overlay(of, "cuda", overlay=given)


def test_every_section_can_be_moved_to_the_cpu() -> None:
    of = config(decoder={"provider_options": CUDA}, vision={"provider_options": CUDA, "log_id": "v"})
    assert overlay(of, "cpu", provider="cpu") == {"decoder": COMMON, "vision": {"log_id": "v", **COMMON}}


def profiled(of: dict[str, Any], provider: str = "cpu", /, **changes: Any) -> tuple[dict[str, Any], dict[str, str]]:
    whole, prefixes = generator_options.profiled_config(of, job(**changes), provider)
    return options_of(whole), prefixes


def test_a_profiled_configuration_has_a_prefix_for_each_session() -> None:
    of = config(decoder={"provider_options": CUDA}, vision=None, embedding={"provider_options": []})
    options, prefixes = profiled(of, "cuda")
    assert prefixes == {name: f"/p/x-{name}" for name in ("decoder", "vision", "embedding")}
    for name, providers in (("decoder", CUDA), ("vision", CUDA), ("embedding", [])):
        expected = {**COMMON, "provider_options": providers, "enable_profiling": f"/p/x-{name}"}
        assert options[name] == expected
    assert of == config(decoder={"provider_options": CUDA}, vision=None, embedding={"provider_options": []})


def test_a_profiled_configuration_names_the_provider_that_was_asked_for() -> None:
    of = config(decoder={"provider_options": []}, vision=None, embedding={"provider_options": []})
    options, _ = profiled(of, "webgpu", provider="WebGPU", provider_options={"a": True, "b": 2})
    assert options["decoder"]["provider_options"] == options["vision"]["provider_options"]
    assert options["decoder"]["provider_options"] == [{"WebGPU": {"a": "1", "b": "2"}}]
    assert options["embedding"]["provider_options"] == []

    of = config(decoder={"provider_options": CUDA}, embedding={"provider_options": CUDA})
    options, _ = profiled(of, "cpu", provider="cpu")
    assert [options[name]["provider_options"] for name in ("decoder", "embedding")] == [[], []]
    options, _ = profiled(of, "cuda", provider_options={"device_id": 1})
    assert options["decoder"]["provider_options"] == [{"cuda": {"enable_cuda_graph": "0", "device_id": "1"}}]


def test_the_stages_of_a_pipeline_are_profiled_apart() -> None:
    stages = [{"first": {"filename": "a.onnx"}, "second": {"filename": "b.onnx", "session_options": {"log_id": "b"}}}]
    for pipeline in (stages, stages[0]):
        of = {"model": {"decoder": {"session_options": {"log_id": "d"}, "pipeline": pipeline}}}
        whole, prefixes = generator_options.profiled_config(of, job(), "cpu")
        assert prefixes == {f"decoder.{name}": f"/p/x-decoder.{name}" for name in ("first", "second")}
        changed = whole["model"]["decoder"]["pipeline"]
        made = changed if isinstance(changed, dict) else changed[0]
        assert made["first"]["session_options"]["log_id"] == "d"
        assert made["second"]["session_options"]["log_id"] == "b"
        assert made["second"]["session_options"]["enable_profiling"] == "/p/x-decoder.second"


@pytest.mark.parametrize(
    ("asked", "expected"), [("", "cuda"), ("CPU", "cpu"), ("CUDAExecutionProvider", "cuda"), ("WebGPU", "webgpu")]
)
def test_a_provider_has_many_spellings(asked: str, expected: str) -> None:
    assert generator_options.wanted_provider(config(decoder={"provider_options": CUDA}), asked) == expected


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        pytest.param(None, {}, 0, id="none"),
        pytest.param([{"cuda": {"device_id": "2"}}], {}, 2, id="of the configuration"),
        pytest.param([{"cuda": {"device_id": "2"}}], {"device_id": 1}, 1, id="of the test"),
        pytest.param([{"cuda": {"device_id": "2"}}], {"provider": "cuda"}, 0, id="provider of the test"),
        pytest.param([{"cuda": {}}], {"provider": "cuda", "device_id": 3}, 3, id="both of the test"),
    ],
)
def test_the_device_is_that_of_the_options_that_hold(own: Any, given: dict[str, Any], expected: int) -> None:
    decoder = config(decoder=None if own is None else {"provider_options": own})
    options = {name: value for name, value in given.items() if name == "device_id"}
    asked = job(provider=given.get("provider", ""), provider_options=options)
    assert generator_options.device_id_of(decoder, asked, "cuda" if own else "cpu") == expected


def test_a_linked_directory_has_another_configuration_and_leaves_the_first_alone(tmp_path: Path) -> None:
    source, target = tmp_path / "model", tmp_path / "linked"
    (source / "inner").mkdir(parents=True)
    for path in ("genai_config.json", "inner/genai_config.json", "inner/weights", "model.onnx"):
        (source / path).write_text(path)
    (source / "symlink").symlink_to("model.onnx")
    generator_scratch.link_directory(str(source), str(target), {"a": 1})
    assert json.loads((target / "genai_config.json").read_text()) == {"a": 1}
    for path, content in (("inner/genai_config.json",) * 2, ("inner/weights",) * 2, ("symlink", "model.onnx")):
        assert (target / path).read_text() == content
    generator_scratch.remove_directory(str(target))
    generator_scratch.remove_directory("")
    assert not target.exists()
    assert (source / "genai_config.json").read_text() == "genai_config.json"
    assert (source / "inner/weights").read_text() == "inner/weights"


def test_a_directory_on_another_file_system_is_linked_by_symbolic_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.onnx").write_text("weights")

    def refused(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", refused)
    generator_scratch.link_directory(str(tmp_path / "model"), str(tmp_path / "linked"), {})
    assert (tmp_path / "linked/model.onnx").is_symlink()
    generator_scratch.remove_directory(str(tmp_path / "linked"))
    assert (tmp_path / "model/model.onnx").read_text() == "weights"


@pytest.mark.parametrize(
    ("tokenizer", "allowed"),
    [
        (None, {0, 4, 5, 8, 9}),
        ({"model": {"vocab": {"a": 0, "b": 6}}, "added_tokens": [{"id": 5, "special": True}, {"id": 4}]}, {0, 4}),
        ({"model": {"vocab": [["a", 0.0]] * 6}}, {0, 4, 5}),
        ("no tokenizer", {0, 4, 5, 8, 9}),
        ({"model": {}}, {0, 4, 5, 8, 9}),
    ],
)
def test_made_prompts_leave_out_every_special_token(tokenizer: Any, allowed: set[int], tmp_path: Path) -> None:
    """Those of the configuration, in any section, one or a list; those of the tokenizer; and ids it does not have."""
    if tokenizer is not None:
        (tmp_path / "tokenizer.json").write_text(tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
    model = {"vocab_size": 10, "bos_token_id": 1, "eos_token_id": [2, 3], "vision": {"image_token_ids": [6, 7]}}
    assert set(allowed_tokens({"model": model}, str(tmp_path)).tolist()) == allowed


def test_a_vocabulary_of_special_tokens_makes_no_prompt(tmp_path: Path) -> None:
    model = {"vocab_size": 2, "bos_token_id": 0, "eos_token_id": 1}
    with pytest.raises(StepError, match=r"no prompt can be made: of 2 tokens \(`vocab_size`\) all are special"):
        allowed_tokens({"model": model}, str(tmp_path))


def test_made_prompts_are_fixed_by_the_bits_of_the_generator_alone() -> None:
    assert made_tokens(6, np.arange(1000, dtype=np.int32)).tolist() == [658, 514, 57, 826, 59, 50]
