"""Casts that another Cast turns back."""

from __future__ import annotations

from pytest_onnxperf.core.cast_pairs import cast_pairs
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.profile_detail import NodeExecution, Tensor

CPU = "CPUExecutionProvider"


def node(op_type: str, source: str, target: str, shape: tuple[int, ...] = (2, 3)) -> NodeExecution:
    key = NodeKey(op_type, op_type, CPU)
    return NodeExecution(key, 0, 0, 1, (Tensor(source, shape),), (Tensor(target, shape),))


THERE, BACK = node("Cast", "float", "float16"), node("Cast", "float16", "float")
RELU = node("Relu", "float16", "float16")


def test_a_cast_and_its_way_back_are_one_pair_whatever_stands_between() -> None:
    assert cast_pairs([THERE, BACK]) == 1
    assert cast_pairs([THERE, RELU, BACK]) == 1


def test_casts_one_way_are_no_pair() -> None:
    assert cast_pairs([]) == 0
    assert cast_pairs([THERE, THERE]) == 0
    assert cast_pairs([THERE, node("Cast", "float16", "double")]) == 0


def test_a_cast_is_turned_back_once() -> None:
    assert cast_pairs([THERE, BACK, BACK]) == 1
    assert cast_pairs([THERE, THERE, BACK, BACK]) == 2
    assert cast_pairs([THERE, BACK, THERE, BACK]) == 2


def test_another_shape_is_no_pair() -> None:
    assert cast_pairs([THERE, node("Cast", "float16", "float", (3, 2))]) == 0


def test_another_operator_that_changes_the_type_is_no_cast() -> None:
    assert cast_pairs([THERE, node("DequantizeLinear", "float16", "float")]) == 0


def test_a_cast_of_which_a_tensor_is_not_known_is_left_out() -> None:
    blind = NodeExecution(NodeKey("Cast", "Cast", CPU), 0, 0, 1, (), (Tensor("float", (2, 3)),))
    assert cast_pairs([THERE, blind]) == 0
