"""The cells of `onnx_matrix`: their ids, values and references, and what a wrong marker is told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pytest_onnxperf.core.errors import SettingError
from pytest_onnxperf.core.matrix_axes import Cell, cells_of

PLAIN: dict[str, Any] = {"model": "models/gemma-{dtype}", "dtype": ["f16", "int4"], "prompt_tokens": [20, 500]}


def ids(**keywords: Any) -> list[str]:
    return [cell.id for cell in cells_of(keywords)]


def cell(id_: str, **keywords: Any) -> Cell:
    (found,) = [each for each in cells_of(keywords) if each.id == id_]
    return found


def test_an_id_has_a_word_for_each_dimension_in_an_order_of_its_own() -> None:
    assert ids(batch_size=[1], ep=["cuda"], prompt_tokens=[500], dtype=["F16"]) == ["f16-cuda-p500-b1"]
    assert ids(
        share_buffer=[True, False], new_tokens=[64], pipeline=["session", "genai", "hf"], model=["m/a.onnx"]
    ) == [
        "a-session-n64-share", "a-session-n64-noshare", "a-genai-n64-share", "a-genai-n64-noshare", "a-hf-n64-share",
        "a-hf-n64-noshare",
    ]  # fmt: skip
    assert ids(cache=["static", "dynamic"], ep=["CPUExecutionProvider"]) == ["cpu-static", "cpu-dynamic"]


def test_a_dimension_of_the_tests_own_stands_behind_the_known_ones_with_its_name() -> None:
    assert ids(padding=["left", "Right edge"], modality={"text": 0}, batch_size=[2]) == [
        "b2-padding_left-modality_text", "b2-padding_right-edge-modality_text",
    ]  # fmt: skip


def test_an_id_stays_when_a_value_is_added_or_the_keywords_are_written_in_another_order() -> None:
    short, long = ids(dtype=["f16"], ep=["cpu"]), ids(ep=["cpu", "cuda"], dtype=["int4", "f16"])
    assert short == ["f16-cpu"]
    assert set(short) < set(long)


def test_a_dict_names_its_values_and_a_single_value_is_no_dimension() -> None:
    found = cell("nf4-b1", dtype={"nf4": "int4-bnb"}, batch_size=[1], model="m-{dtype}", new_tokens=32)
    assert found.values == {"dtype": "int4-bnb", "batch_size": 1, "model": "m-{dtype}", "new_tokens": 32}
    assert found.coordinates == {"dtype": "nf4", "batch_size": "b1"}
    assert found.path() == "m-int4-bnb"


def test_the_path_of_a_model_is_that_of_its_pipeline_with_names_filled_in() -> None:
    paths = {"genai": "g/{ep}-{dtype}", "hf": Path("checkpoint")}
    keywords: dict[str, Any] = {"model": {"gemma": paths}, "pipeline": ["genai", "hf"], "dtype": ["f16"], "ep": "cpu"}
    assert cell("gemma-genai-f16".replace("genai-f16", "f16-genai"), **keywords).path() == "g/cpu-f16"
    assert cell("gemma-f16-hf", **keywords).path() == "checkpoint"
    assert cell("f16-hf", **{**keywords, "model": paths}).path() == "checkpoint"


@pytest.mark.parametrize(("path", "pipeline"), [("a.onnx", "session"), ("a", "genai")])
def test_without_a_pipeline_the_path_tells_it(path: str, pipeline: str) -> None:
    assert cell("b1", model=path, batch_size=[1]).pipeline == pipeline
    assert cell("hf-b1", model=path, batch_size=[1], pipeline=["hf"]).pipeline == "hf"


def test_each_cell_is_compared_with_its_counterpart() -> None:
    found = {each.id: each.reference for each in cells_of({**PLAIN, "reference": {"dtype": "f16"}})}
    assert found["int4-p500"] == {"dtype": "f16", "prompt_tokens": "p500"}
    assert found["int4-p20"] == found["f16-p20"] == {"dtype": "f16", "prompt_tokens": "p20"}
    assert cell("int4-p20", **PLAIN).reference is None


@pytest.mark.parametrize("given", [{"prompt_tokens": 20}, {"prompt_tokens": "p20"}])
def test_coordinates_are_given_as_values_or_as_words(given: dict[str, Any]) -> None:
    assert ids(**PLAIN, exclude=[given]) == ["f16-p500", "int4-p500"]
    assert ids(padding=["left", "right"], exclude=[{"padding": "left"}]) == ["padding_right"]
    assert ids(share_buffer=[True, False], exclude=[{"share_buffer": True}]) == ["noshare"]


def test_exclude_leaves_out_what_has_all_of_the_coordinates() -> None:
    assert ids(**PLAIN, exclude=[{"dtype": "int4", "prompt_tokens": 20}]) == ["f16-p20", "f16-p500", "int4-p500"]
    assert [each.order for each in cells_of({**PLAIN, "exclude": [{"dtype": "f16"}]})] == [0, 1]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt_token": [20]}, "unknown key `prompt_token`, did you mean `prompt_tokens`?"),
    ({"references": {"ep": "cpu"}, "ep": ["cpu"]}, "unknown key `references`, did you mean `reference`?"),
    ({"dtype": "f16"}, "expected at least one list"),
    ({}, "expected at least one list"),
    ({"ep": []}, "`ep`: expected at least one value, got []"),
    ({"ep": ["cudda"]}, "unknown execution provider 'cudda', did you mean `cuda`?"),
    ({"ep": ["auto"]}, "`ep`: `auto` is another EP on another machine"),
    ({"ep": [3]}, "`ep`: expected the name of an execution provider, got 3"),
    ({"pipeline": ["torch"]}, "`pipeline`: expected one of session, genai, hf, got 'torch'"),
    ({"pipeline": [["hf"]]}, "`pipeline`: expected one of session, genai, hf, got ['hf']"),
    ({"prompt_tokens": [0]}, "`prompt_tokens`: expected a whole number >= 1, got 0"),
    ({"batch_size": [True]}, "`batch_size`: expected a whole number >= 1, got True"),
    ({"new_tokens": 0, "ep": ["cpu"]}, "`new_tokens`: expected a whole number >= 1, got 0"),
    ({"cache": ["paged"]}, "`cache`: expected one of static, dynamic, got 'paged'"),
    ({"share_buffer": [1]}, "`share_buffer`: expected True or False, got 1"),
    ({"share_buffer": [True], "cache": ["static"]}, "`cache` and `share_buffer` name one thing"),
    ({"model": [3]}, "`model`: expected a path, or a dict of pipeline -> path, got 3"),
    ({"model": ["a-{dtyp}"], "dtype": "f16"}, "known are dtype: 'dtyp'"),
    ({"model": {"hf": "a"}, "pipeline": ["hf", "genai"]}, "`model`: no path for the pipeline `genai`"),
    ({"dtype": ["f16", "\u534a"]}, "'\u534a' has no letter from a to z and no digit for the id of a test: give a dict"),
    ({"model": ["m/\u6a21\u578b.onnx"]}, "has no letter from a to z and no digit for the id of a test"),
    ({"padding": ["left", ""]}, "'' has no letter from a to z and no digit for the id of a test"),
    ({"padding": {"+": 1}}, "'+' has no letter from a to z and no digit for the id of a test"),
    (
        {"dtype": ["f16", "F16"]},
        "`dtype`: two values have the word `f16` in the id: give a dict of name -> value",
    ),
    ({"dtype": {"f-1": "f16", "f_1": "bf16"}}, "two values have the word `f-1` in the id: give other names"),
    ({"a": ["1-b_2"], "b": {"x": 1}, "dtype": ["a_1"], "model": ["q"], "exclude": 3}, "`exclude`: expected a list"),
    ({"ep": ["cpu"], "exclude": [{"ep": "cpu"}]}, "`exclude` leaves no cell"),
    ({"ep": ["cpu"], "reference": {"epp": "cpu"}}, "`reference`: no dimension `epp`, did you mean `ep`?"),
    ({"ep": ["cpu"], "reference": {"dtype": 1}}, "`reference`: no dimension `dtype`, there are: ep"),
    ({"ep": ["cpu", "cuda"], "reference": {"ep": "cua"}}, "`reference`: no value 'cua' in `ep`, did you mean `cuda`?"),
    ({"k": ["a", "b"], "reference": {"k": "zzz"}}, "`reference`: no value 'zzz' in `k`, there are: a, b"),
    ({"k": ["one", "two"], "reference": {"k": "k_one"}}, "`reference`: no value 'k_one' in `k`, did you mean `one`?"),
    ({"pad": [math.nan, 1.0], "reference": {"pad": math.nan}}, "no value nan in `pad`, there are: nan, 1-0"),
    ({"ep": ["cpu"], "reference": "cpu"}, "`reference`: expected a dict of dimension -> value, got 'cpu'"),
    ({"ep": ["cpu", "cuda"], "reference": {"ep": "cpu"}, "exclude": [{"ep": "cpu"}]}, "leaves no cell with cpu"),
]  # fmt: skip


@pytest.mark.parametrize(("keywords", "message"), WRONG, ids=[str(keywords) for keywords, _ in WRONG])
def test_a_wrong_marker_is_told_what_was_expected(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        cells_of(keywords)
    assert message in str(caught.value)


def test_two_cells_with_one_id_are_refused() -> None:
    with pytest.raises(SettingError, match="two cells have the id `a-b-c`"):
        cells_of({"model": ["a", "a-b"], "dtype": ["b-c", "c"]})
