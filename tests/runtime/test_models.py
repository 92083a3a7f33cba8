"""The models that other tests measure load, run and stay the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest

from pytest_onnxperf.runtime.child.binding import run
from pytest_onnxperf.runtime.child.inputs import make_feeds
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = [
    pytest.param(models.mlp, {}, {"batch": 3}, {"y": (3, 32)}, id="mlp"),
    pytest.param(
        models.transformer_block,
        {"layers": 2},
        {"batch": 2, "seq": 4, "past": 0, "total": 4},
        {"present.0.key": (2, 2, 4, 16), "logits": (2, 4, 64)},
        id="transformer-prefill",
    ),
    pytest.param(
        models.transformer_block,
        {},
        {"batch": 1, "seq": 1, "past": 8, "total": 9},
        {"present.0.value": (1, 2, 9, 16), "logits": (1, 1, 64)},
        id="transformer-decode",
    ),
    pytest.param(models.convnet, {}, {"batch": 2}, {"scores": (2, 10)}, id="convnet"),
    pytest.param(models.cpu_island, {}, {"batch": 2}, {"y": (2,)}, id="cpu_island"),
    pytest.param(models.loop_model, {}, {"batch": 2}, {"y": (2, 16)}, id="loop"),
    pytest.param(models.loop_model, {"trips": None}, {"batch": 2}, {"y": (2, 16)}, id="loop-counted-by-input"),
    pytest.param(models.if_model, {}, {"batch": 2}, {"y": (2, 16)}, id="if"),
    pytest.param(models.dynamic_shapes, {}, {"batch": 2, "seq": 5, "other": 7}, {"z": (2, 4, 5, 7)}, id="shapes"),
    pytest.param(models.external_data, {}, {"batch": 1}, {"y": (1, 32)}, id="external_data"),
    pytest.param(models.string_input, {}, {"n": 3}, {"ids": (3,)}, id="string"),
    pytest.param(models.several_inputs, {}, {"batch": 2}, {"y": (2, 8)}, id="several_inputs"),
    pytest.param(models.slow_model, {"blocks": 5}, {"batch": 8}, {"y": (8, 64)}, id="slow"),
]


def open_session(path: Path, options: onnxruntime.SessionOptions | None = None) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def profile_ops(path: Path, shapes: dict[str, Any]) -> Counter[str]:
    """Count the nodes by operator that one run executes."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(path.with_suffix(".profile"))
    session = open_session(path, options)
    run(session, make_feeds(session, shapes, {}))
    with open(session.end_profiling(), encoding="utf-8") as file:
        events = json.load(file)
    return Counter(event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time"))


@pytest.mark.parametrize(("write", "options", "shapes", "outputs"), GOOD)
def test_a_model_loads_and_runs(
    tmp_path: Path,
    write: Callable[..., Path],
    options: dict[str, Any],
    shapes: dict[str, int],
    outputs: dict[str, tuple[int, ...]],
) -> None:
    session = open_session(write(tmp_path / "model.onnx", **options))

    values = run(session, make_feeds(session, shapes, {}), list(outputs))

    arrays = [np.asarray(value) for value in values]
    assert [array.shape for array in arrays] == list(outputs.values())
    assert all(np.isfinite(array).all() for array in arrays)


@pytest.mark.parametrize(("write", "options", "shapes", "outputs"), GOOD)
def test_a_model_is_the_same_bytes_each_time(
    tmp_path: Path, write: Callable[..., Path], options: dict[str, Any], shapes: object, outputs: object
) -> None:
    first, second = (write(tmp_path / name / "model.onnx", **options) for name in ("first", "second"))

    assert digests(first.parent) == digests(second.parent)


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    first, second = (models.mlp(tmp_path / f"{seed}.onnx", seed=seed) for seed in (0, 1))

    assert first.read_bytes() != second.read_bytes()


def test_external_weights_lie_beside_the_model(tmp_path: Path) -> None:
    path = models.external_data(tmp_path / "model.onnx")

    assert sorted(digests(tmp_path)) == ["model.onnx", "model.onnx.data"]
    assert (tmp_path / "model.onnx.data").stat().st_size > path.stat().st_size


def test_the_transformer_runs_group_query_attention_in_each_layer(tmp_path: Path) -> None:
    path = models.transformer_block(tmp_path / "model.onnx", layers=2)

    assert profile_ops(path, {"batch": 1, "seq": 4, "past": 0, "total": 4})["GroupQueryAttention"] == 2


def test_decoding_with_a_cache_gives_the_logits_of_the_whole_prompt(tmp_path: Path) -> None:
    session = open_session(models.transformer_block(tmp_path / "model.onnx"))
    ids = np.array([[3, 1, 4, 1, 5]], np.int64)
    cache = ["past_key_values.0.key", "past_key_values.0.value"]
    whole = {"input_ids": ids, "attention_mask": np.ones((1, 5), np.int64)}
    start = {"input_ids": ids[:, :4], "attention_mask": np.ones((1, 4), np.int64)}
    empty = dict.fromkeys(cache, np.zeros((1, 2, 0, 16), np.float32))

    expected = session.run(["logits"], whole | empty)[0][:, -1]
    present = session.run(["present.0.key", "present.0.value"], start | empty)
    step = {
        "input_ids": ids[:, 4:],
        "attention_mask": np.ones((1, 5), np.int64),
        **dict(zip(cache, present, strict=True)),
    }
    decoded = session.run(["logits"], step)[0][:, -1]

    np.testing.assert_allclose(decoded, expected, rtol=1e-4, atol=1e-5)


def test_the_loop_runs_its_body_as_often_as_it_is_told(tmp_path: Path) -> None:
    ops = profile_ops(models.loop_model(tmp_path / "model.onnx", trips=7), {"batch": 2})

    assert ops["Loop"] == 1
    assert ops["Gemm"] + ops["MatMul"] == 7


def test_a_slower_model_runs_more_nodes(tmp_path: Path) -> None:
    small, large = (
        profile_ops(models.slow_model(tmp_path / f"{blocks}.onnx", blocks=blocks), {"batch": 1}).total()
        for blocks in (20, 40)
    )

    assert large == 2 * small


def test_the_opset_24_model_runs_on_a_runtime_that_knows_the_opset(tmp_path: Path) -> None:
    path = models.opset24(tmp_path / "model.onnx")
    if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < (1, 24):
        with pytest.raises(Exception, match=r"(?i)opset|ir.version|model\.cc"):
            open_session(path)
        return

    ops = profile_ops(path, {"batch": 1, "seq": 8})

    assert ops["Attention"] == 1
    assert ops["Reshape"] == 1


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(models.bad_opset, "opset", id="bad_opset"),
        pytest.param(models.unknown_op, "NoSuchOperator", id="unknown_op"),
        pytest.param(models.truncated, "Protobuf parsing failed", id="truncated"),
        pytest.param(models.not_onnx, "Protobuf parsing failed", id="not_onnx"),
    ],
)
def test_a_bad_model_is_refused_by_the_runtime(tmp_path: Path, write: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(Exception, match=message):
        open_session(write(tmp_path / "model.onnx"))
