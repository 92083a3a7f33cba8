"""Feeds are made in range and checked against real sessions; what does not fit is said in one error."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pytest_onnxperf.runtime.child import shapes, values
from pytest_onnxperf.runtime.child.binding import run
from pytest_onnxperf.runtime.child.element_types import BY_NAME, BY_NUMBER, decode, element_type_of, pack
from pytest_onnxperf.runtime.child.inputs import InputError, RawTensor, check_feeds, describe_inputs, make_feeds
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
NATIVE = [name for name, element in BY_NAME.items() if element.is_native and not name.startswith("complex")]
SMALL_FLOATS = {
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
}
SMALL_INTEGERS = {
    "uint4": ml_dtypes.uint4,
    "int4": ml_dtypes.int4,
    "uint2": ml_dtypes.uint2,
    "int2": ml_dtypes.int2,
}
FIRST_VERSION = {"uint2": (1, 25), "int2": (1, 25), "float8e8m0": (1, 25)}
"""Types whose model needs a newer runtime; the versions are those tried, not the very first."""


def open_session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def open_type(tmp_path: Path, name: str) -> onnxruntime.InferenceSession:
    if FIRST_VERSION.get(name, (1, 0)) > VERSION:
        pytest.skip(f"onnxruntime {onnxruntime.__version__} has no {name}")
    return open_session(models.every_type(tmp_path / "model.onnx", BY_NAME[name].number))


def stored_bytes(value: onnxruntime.OrtValue, length: int) -> bytes:
    return ctypes.string_at(value.data_ptr(), length)


# --- element types


@pytest.mark.parametrize("name", NATIVE)
def test_a_type_that_numpy_has_comes_back_as_it_was_made(tmp_path: Path, name: str) -> None:
    session = open_type(tmp_path, name)

    feeds = make_feeds(session, {"n": 7}, {})
    (output,) = run(session, feeds)

    assert isinstance(feeds["x"], np.ndarray)
    assert feeds["x"].dtype == BY_NAME[name].dtype
    np.testing.assert_array_equal(output, feeds["x"])


@pytest.mark.parametrize("name", ["bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
def test_a_type_that_numpy_lacks_goes_through_the_runtime_bit_by_bit(tmp_path: Path, name: str) -> None:
    session = open_type(tmp_path, name)

    feeds: dict[str, Any] = make_feeds(session, {"n": 7}, {})
    output: Any = run(session, feeds)[0]

    length = 7 * BY_NAME[name].dtype.itemsize
    assert output.data_type() == f"tensor({name})"
    assert stored_bytes(output, length) == stored_bytes(feeds["x"], length)


@pytest.mark.parametrize("name", [*SMALL_INTEGERS, "float8e8m0"])
def test_packed_values_are_read_by_the_runtime_as_they_were_made(tmp_path: Path, name: str) -> None:
    session = open_type(tmp_path, name)
    low, high = (1, 1) if name.endswith("2") else (0.5, 2)
    limits = (low, high) if name == "float8e8m0" else (1, 1 if name.endswith("2") else 3)

    output: Any = run(session, make_feeds(session, {"n": 9}, {"x": limits}))[0]

    assert output.shape == (9,)
    assert set(output.tolist()) <= {0.5, 1.0, 2.0, 3.0}
    assert all(limits[0] <= value <= limits[1] for value in output.tolist())


@pytest.mark.parametrize("name", [*SMALL_INTEGERS])
def test_an_ml_dtypes_array_of_a_packed_type_is_fed_with_its_values(tmp_path: Path, name: str) -> None:
    session = open_type(tmp_path, name)
    array = np.array([1, 0, 1, 1, 0]).astype(SMALL_INTEGERS[name])

    feeds = check_feeds(session, {"x": RawTensor(array.tobytes(), BY_NAME[name].number, array.shape)})

    np.testing.assert_array_equal(run(session, feeds)[0], [1, 0, 1, 1, 0])


def test_an_ml_dtypes_array_of_a_sixteen_bit_type_is_fed_with_its_bits(tmp_path: Path) -> None:
    session = open_type(tmp_path, "bfloat16")
    array = np.array([1.0, -2.5, 3e38]).astype(ml_dtypes.bfloat16)

    output: Any = run(session, check_feeds(session, {"x": RawTensor(array.tobytes(), 16, array.shape)}))[0]

    assert stored_bytes(output, 6) == array.tobytes()


@pytest.mark.parametrize(("name", "dtype"), [*SMALL_FLOATS.items(), *SMALL_INTEGERS.items()])
def test_codes_decode_to_the_values_that_ml_dtypes_gives_them(name: str, dtype: type[Any]) -> None:
    codes = np.arange(2 ** BY_NAME[name].bits, dtype=np.uint8)

    expected = codes.view(dtype).astype(np.float64)

    np.testing.assert_array_equal(decode(BY_NAME[name]), np.where(np.isfinite(expected), expected, np.nan))


def test_made_bfloat16_values_are_rounded_as_ml_dtypes_rounds_them() -> None:
    made = values.make("x", BY_NAME["bfloat16"], (1000,), (-3, 5), 0)
    exact = values.make("x", BY_NAME["double"], (1000,), (-3, 5), 0)

    np.testing.assert_array_equal(made, exact.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16))


def test_the_numbers_of_the_element_types_are_those_of_onnx() -> None:
    names = {"float": "FLOAT", "double": "DOUBLE"}
    for element in BY_NAME.values():
        assert TensorProto.DataType.Value(names.get(element.name, element.name.upper())) == element.number
    assert len(BY_NUMBER) == len(BY_NAME)


@pytest.mark.parametrize("ort_type", ["seq(tensor(float))", "map(int64,tensor(float))", "optional(tensor(float))", ""])
def test_what_is_no_tensor_has_no_element_type(ort_type: str) -> None:
    assert element_type_of(ort_type) is None


def test_an_odd_number_of_packed_values_leaves_the_last_bits_zero() -> None:
    assert pack(np.array([15, 1, 2], np.uint8), 4).tolist() == [0x1F, 0x02, 0x00]
    assert pack(np.array([[3, 2], [1, 0], [3, 3]], np.uint8), 2).tolist() == [[0b00_01_10_11, 0b1111], [0, 0], [0, 0]]


# --- made values


def test_values_are_the_same_on_every_machine() -> None:
    made = values.make("x", BY_NAME["float"], (3,), None, 0)

    np.testing.assert_allclose(made, [0.60376251, 0.69028968, 0.91229171], rtol=1e-7)


def test_values_depend_on_the_name_and_the_seed_but_not_on_other_inputs(tmp_path: Path) -> None:
    session = open_session(models.several_inputs(tmp_path / "model.onnx"))
    made = make_feeds(session, {"batch": 2}, {})
    again = make_feeds(session, {"batch": 2}, {"ids": (0, 3)})
    other = make_feeds(session, {"batch": 2}, {}, seed=1)

    np.testing.assert_array_equal(made["x"], again["x"])
    assert not np.array_equal(made["x"], other["x"])  # type: ignore[arg-type]
    assert not np.array_equal(made["x"], made["wide"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64"])
def test_index_like_integers_are_one_everywhere(name: str) -> None:
    assert values.make("x", BY_NAME[name], (4,), None, 0).tolist() == [1, 1, 1, 1]


def test_bools_are_true_everywhere() -> None:
    assert values.make("x", BY_NAME["bool"], (2,), None, 0).tolist() == [True, True]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
def test_small_integers_are_data_and_take_their_whole_range(name: str) -> None:
    made = values.make("x", BY_NAME[name], (1_000_000,), None, 0)

    assert (made.min(), made.max()) == values.bounds(BY_NAME[name])


@pytest.mark.parametrize("name", ["float", "double", "float16", "complex64", "complex128"])
def test_floats_lie_around_zero(name: str) -> None:
    made = values.make("x", BY_NAME[name], (10_000,), None, 0)

    assert abs(made.mean()) < 0.05
    assert -1 <= made.real.min() < -0.9
    assert 0.9 < made.real.max() <= 1


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e5m2fnuz", "float8e8m0", "float4e2m1"])
def test_small_floats_are_drawn_from_the_values_of_the_type(name: str) -> None:
    packed = values.make("x", BY_NAME[name], (1000,), None, 0)
    codes = packed if BY_NAME[name].bits == 8 else np.stack([packed[:500] & 15, packed[:500] >> 4])
    made = decode(BY_NAME[name])[codes]

    assert np.abs(made).max() == 1
    assert len(np.unique(made)) > 4


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("int64", (-5, 5)),
        ("int64", (-(2**63), 2**63 - 1)),
        ("uint64", (0, 2**64 - 1)),
        ("int8", (-128, 127)),
        ("bool", (0, 1)),
        ("float", (-3.4e38, 3.4e38)),
        ("double", (-1.7e308, 1.7e308)),
        ("float16", (100, 200)),
        ("double", (2.5, 2.5)),
    ],
)
def test_values_stay_in_the_range_that_is_given(name: str, limits: tuple[float, float]) -> None:
    made = values.make("x", BY_NAME[name], (2000,), limits, 0)

    assert np.isfinite(made).all()
    assert limits[0] <= made.min() <= made.max() <= limits[1]


def test_strings_are_counted() -> None:
    assert values.make("x", BY_NAME["string"], (2, 2), None, 0).tolist() == [["s0", "s1"], ["s2", "s3"]]


def test_values_of_many_blocks_are_those_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values.make("x", BY_NAME["float"], (100,), None, 0)
    monkeypatch.setattr(values, "BLOCK_VALUES", 7)

    np.testing.assert_array_equal(values.make("x", BY_NAME["float"], (100,), None, 0), whole)


@pytest.mark.parametrize(
    ("name", "limits", "message"),
    [
        ("int64", (5, 4), "the lowest value 5 is above the highest 4"),
        ("int8", (0, 128), "leaves the range of the type, which is -128 to 127"),
        ("uint4", (-1, 3), "leaves the range of the type, which is 0 to 15"),
        ("float16", (0, 70000), "leaves the range of the type, which is -65504.0 to 65504.0"),
        ("bfloat16", (0, 1e39), "leaves the range of the type"),
        ("float", (float("nan"), 1), "expected two finite numbers"),
        ("float", (0, float("inf")), "expected two finite numbers"),
        ("float", (1,), "expected two finite numbers"),
        ("float", "ab", "expected two finite numbers"),
        ("float", 3, "expected two finite numbers"),
        ("int32", (0.5, 2), "expected whole numbers"),
        ("bool", (0, 2), "leaves the range"),
        ("string", (0, 1), "strings, which have no range"),
        ("float8e8m0", (2.1, 3.9), "has no value between 2.1 and 3.9"),
    ],
)
def test_a_range_that_is_none_says_what_is_wrong(name: str, limits: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        values.make("ids", BY_NAME[name], (2,), limits, 0)

    assert "ranges: input `ids`" in str(caught.value)


def test_a_range_for_an_unknown_input_names_the_closest(tmp_path: Path) -> None:
    session = open_session(models.several_inputs(tmp_path / "model.onnx"))

    with pytest.raises(InputError, match=r"ranges: the model has no input `id`; did you mean `ids`\?"):
        make_feeds(session, {"batch": 1}, {"id": (0, 1)})


# --- shapes

DECLARED: shapes.Dims = {"ids": ["batch", "seq"], "image": ["batch", 3, None], "scale": []}


def test_dimensions_are_bound_by_name_and_by_whole_shapes() -> None:
    given: dict[str, Any] = {"seq": np.int64(7), "image": [2, 3, 4]}

    solved = shapes.solve(DECLARED, given)

    assert solved == {"ids": (2, 7), "image": (2, 3, 4), "scale": ()}


def test_a_dimension_may_be_empty() -> None:
    assert shapes.solve({"x": ["n", 2]}, {"n": 0}) == {"x": (0, 2)}


def test_a_tensor_of_unknown_rank_takes_any_whole_shape() -> None:
    assert shapes.solve({"x": []}, {"x": [2, 3]}) == {"x": (2, 3)}


def test_one_error_lists_all_unbound_dimensions_and_says_how_to_bind_them() -> None:
    with pytest.raises(InputError) as caught:
        shapes.solve(DECLARED, {})

    assert str(caught.value) == (
        "the model has dynamic dimensions without a size:\n"
        "  ids: dimension 0 `batch`, dimension 1 `seq`\n"
        "  image: dimension 0 `batch`, dimension 2 (unnamed)\n"
        "\n"
        "Bind a dimension by its name, or an input's whole shape by the input's name: "
        "shapes={'batch': 1, 'seq': 1, 'image': [1, 3, 1]}"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sequence": 1}, "`sequence` is no dimension and no input of the model; did you mean `seq`?"),
        ({"idz": [1, 2]}, "`idz` is no dimension and no input of the model; did you mean `ids`?"),
        ({"batch": -1}, "`batch`: a dimension's size is an int of at least 0, got -1"),
        ({"batch": 1.5}, "`batch`: a dimension's size is an int of at least 0, got 1.5"),
        ({"batch": True}, "`batch`: a dimension's size is an int of at least 0, got True"),
        ({"batch": [1]}, "`batch`: a dimension's size is an int of at least 0, got [1]"),
        ({"ids": 3}, "`ids`: an input's shape is a sequence of ints of at least 0, got 3"),
        ({"ids": [1, -2]}, "`ids`: an input's shape is a sequence of ints of at least 0, got [1, -2]"),
        ({"ids": "12"}, "`ids`: an input's shape is a sequence of ints of at least 0, got '12'"),
        ({"ids": [1]}, "`ids`: shape [1] has rank 1, the model declares [batch, seq], rank 2"),
        ({"image": [1, 4, 4]}, "`image`: dimension 1 is 4, the model fixes it at 3"),
        ({"batch": 1, "ids": [2, 2]}, "`ids`: dimension `batch` is 2 here, but 1 by shapes"),
        ({"ids": [1, 2], "image": [2, 3, 4]}, "`image`: dimension `batch` is 2 here, but 1 by `ids`"),
    ],
)
def test_shapes_that_do_not_fit_say_where(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        shapes.solve(DECLARED, given)

    assert message in str(caught.value)
    assert str(caught.value).startswith("shapes does not fit the model:\n")


def test_a_dimension_used_twice_in_one_input_has_one_size() -> None:
    with pytest.raises(InputError, match="`x`: dimension `n` is 3 here, but 2 by `x`"):
        shapes.solve({"x": ["n", "n"]}, {"x": [2, 3]})


# --- what the user gives


def several(tmp_path: Path) -> onnxruntime.InferenceSession:
    return open_session(models.several_inputs(tmp_path / "model.onnx"))


def good_feeds() -> dict[str, Any]:
    return {
        "x": np.zeros((2, 8), np.float32),
        "wide": np.zeros((2, 8)),
        "ids": np.zeros(2, np.int64),
        "mask": np.ones((2, 8), bool),
    }


def test_arrays_that_fit_are_run_as_they_are(tmp_path: Path) -> None:
    session = several(tmp_path)
    feeds = good_feeds()
    feeds["x"] = np.ones((8, 2), np.float32).T

    (output,) = run(session, check_feeds(session, feeds))

    np.testing.assert_array_equal(output, np.ones((2, 8), np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "`x` has no feed: the model needs tensor(float) of shape [batch, 8]"),
        ({"idx": np.zeros(2)}, "`idx` is no input of the model; did you mean `ids`?"),
        ({"x": np.zeros((2, 8))}, "`x`: dtype is float64, the model takes float32: use x.astype(np.float32)"),
        ({"x": np.zeros((2, 8), ">f4")}, "`x`: dtype is >f4, the model takes float32"),
        ({"ids": [0, 1]}, "`ids`: expected a numpy array, got list"),
        ({"x": np.zeros(8, np.float32)}, "`x`: shape [8] has rank 1, the model declares [batch, 8], rank 2"),
        ({"x": np.zeros((2, 9), np.float32)}, "`x`: dimension 1 is 9, the model fixes it at 8"),
        ({"ids": np.zeros(3, np.int64)}, "`ids`: dimension 0 `batch` is 3, but 2 in `x`"),
        ({"x": RawTensor(b"", 16, (2, 8))}, "`x`: element type is bfloat16, the model takes float"),
        ({"x": RawTensor(b"", 99, (2, 8))}, "`x`: element type is ONNX element type 99, the model takes float"),
        ({"x": RawTensor(b"123", 1, (2, 8))}, "`x`: 3 bytes, expected 64 for float of shape [2, 8]"),
    ],
)
def test_feeds_that_do_not_fit_say_what_is_expected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    feeds = {name: value for name, value in (good_feeds() | change).items() if value is not None}

    with pytest.raises(InputError) as caught:
        check_feeds(several(tmp_path), feeds)

    assert message in str(caught.value)


def test_all_problems_of_the_feeds_are_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        check_feeds(several(tmp_path), {"x": np.zeros((2, 9)), "idz": np.zeros(2)})

    text = str(caught.value)
    assert all(
        part in text for part in ("`wide` has no feed", "`idz` is no input", "dtype is float64", "dimension 1 is 9")
    )


@pytest.mark.parametrize("words", [np.array(["s1", "other"]), np.array(["s1", "other"], object)])
def test_strings_are_fed_from_both_kinds_of_text_array(tmp_path: Path, words: Any) -> None:
    session = open_session(models.string_input(tmp_path / "model.onnx"))

    (ids,) = run(session, check_feeds(session, {"words": words}))

    assert ids.tolist() == [1, -1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [np.array([b"s1"]), np.array(["s1", 2], object), np.array([1.0])])
def test_what_is_no_text_is_no_feed_for_strings(tmp_path: Path, words: Any) -> None:
    session = open_session(models.string_input(tmp_path / "model.onnx"))

    with pytest.raises(InputError, match="the model takes strings: use an array of str"):
        check_feeds(session, {"words": words})


def test_a_numpy_array_is_no_feed_for_a_type_that_numpy_lacks(tmp_path: Path) -> None:
    session = open_type(tmp_path, "bfloat16")

    with pytest.raises(InputError, match="dtype is uint16, the model takes bfloat16: give an ml_dtypes array"):
        check_feeds(session, {"x": np.zeros(2, np.uint16)})


# --- what is no tensor


def save(path: Path, nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], **weights: Any) -> Path:
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "main", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def sequence_model(path: Path) -> Path:
    node = helper.make_node("SequenceAt", ["x", "at"], ["y"])
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    position = helper.make_tensor_value_info("at", TensorProto.INT64, [])
    return save(path, [node], [sequence, position], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])


def optional_model(path: Path) -> Path:
    element = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.BOOL, None)
    return save(path, [node], [helper.make_value_info("x", element)], [output])


@pytest.mark.parametrize(
    ("write", "kind"), [(sequence_model, "seq(tensor(float))"), (optional_model, "optional(tensor(float))")]
)
def test_inputs_that_are_no_tensors_are_not_made(tmp_path: Path, write: Callable[[Path], Path], kind: str) -> None:
    session = open_session(write(tmp_path / "model.onnx"))

    with pytest.raises(InputError) as caught:
        make_feeds(session, {}, {})

    assert f"  x: {kind}" in str(caught.value)
    assert onnxruntime.__version__ in str(caught.value)
    assert "Give these inputs yourself" in str(caught.value)


def test_a_sequence_that_is_given_goes_to_the_runtime(tmp_path: Path) -> None:
    session = open_session(sequence_model(tmp_path / "model.onnx"))

    (output,) = run(session, check_feeds(session, {"x": [np.ones(2, np.float32)], "at": np.array(0)}))

    np.testing.assert_array_equal(output, [1, 1])


def test_an_optional_input_may_be_left_out(tmp_path: Path) -> None:
    session = open_session(optional_model(tmp_path / "model.onnx"))

    assert run(session, check_feeds(session, {})) == [np.array(False)]


def test_a_weight_that_is_also_an_input_may_be_overridden(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "w")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    node = helper.make_node("Add", ["x", "w"], ["y"])
    session = open_session(save(tmp_path / "model.onnx", [node], inputs, [output], w=np.ones(2, np.float32)))
    x = np.zeros(2, np.float32)

    assert run(session, check_feeds(session, {"x": x}))[0].tolist() == [1, 1]  # type: ignore[attr-defined]
    assert run(session, check_feeds(session, {"x": x, "w": x}))[0].tolist() == [0, 0]  # type: ignore[attr-defined]


def test_inputs_are_described_as_the_runtime_shows_them(tmp_path: Path) -> None:
    assert describe_inputs(several(tmp_path))[1:3] == [
        {"name": "wide", "type": "tensor(double)", "shape": ["batch", 8]},
        {"name": "ids", "type": "tensor(int64)", "shape": ["batch"]},
    ]
