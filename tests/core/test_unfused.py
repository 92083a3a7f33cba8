"""Attention that runs as MatMul, Softmax, MatMul: found by its shapes, and nothing else taken for it."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.profile_detail import NodeExecution, Tensor
from pytest_onnxperf.core.unfused import UnfusedAttention, unfused_attention
from tests.records import CPU

Shape = tuple[int, ...]
SCORES: Shape = (2, 4, 8, 16)


def node(op_type: str, inputs: list[Shape], output: Shape, name: str = "") -> NodeExecution:
    tensors = tuple(Tensor("float", shape) for shape in inputs)
    key = NodeKey(name or op_type.lower(), op_type, CPU)
    return NodeExecution(key, 0, 0, 1, tensors, (Tensor("float", output),))


def product_of(scores: Shape, head_size: int = 64, op_type: str = "MatMul", name: str = "qk") -> NodeExecution:
    query, key = (*scores[:-1], head_size), (*scores[:-2], head_size, scores[-1])
    return node(op_type, [query, key], scores, name)


def softmax_of(scores: Shape, op_type: str = "Softmax", name: str = "softmax") -> NodeExecution:
    return node(op_type, [scores], scores, name)


def second_of(scores: Shape, head_size: int = 64, op_type: str = "MatMul", name: str = "pv") -> NodeExecution:
    value = (*scores[:-2], scores[-1], head_size)
    return node(op_type, [scores, value], (*scores[:-1], head_size), name)


def plain(scores: Shape = SCORES, head_size: int = 64) -> list[NodeExecution]:
    return [product_of(scores, head_size), softmax_of(scores), second_of(scores, head_size)]


def found(*executions: NodeExecution) -> list[UnfusedAttention]:
    return list(unfused_attention(executions))


def between(op_type: str, shape: Shape = SCORES) -> NodeExecution:
    return node(op_type, [shape], shape)


def test_the_three_operators_are_named_with_their_sizes() -> None:
    product, softmax, second = plain()

    (attention,) = found(product, softmax, second)

    assert attention == UnfusedAttention(product, softmax, second)
    assert (attention.query_length, attention.head_size) == (8, 64)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(["Mul"], [], id="scale"),
        pytest.param(["Div", "Add"], [], id="scale and mask"),
        pytest.param(["Where"], ["Where"], id="mask on both sides"),
        pytest.param(["Mul", "Add", "Cast"], ["Cast"], id="cast to float and back"),
        pytest.param(["Tanh", "Mul", "Add"], ["Dropout"], id="soft cap and dropout"),
    ],
)
def test_what_exporters_write_between_them_does_not_hide_it(before: list[str], after: list[str]) -> None:
    product, softmax, second = plain()

    nodes = [product, *map(between, before), softmax, *map(between, after), second]
    assert [attention.softmax for attention in found(*nodes)] == [softmax]


@pytest.mark.parametrize(("others", "count"), [(23, 1), (24, 0)])
def test_between_product_and_softmax_stand_at_most_23_others(others: int, count: int) -> None:
    product, softmax, second = plain()

    assert len(found(product, *[between("Add")] * others, softmax, second)) == count


@pytest.mark.parametrize(("others", "count"), [(23, 1), (24, 0)])
def test_between_softmax_and_product_stand_at_most_23_others(others: int, count: int) -> None:
    product, softmax, second = plain()

    assert len(found(product, softmax, *[between("Cast")] * others, second)) == count


def test_heads_may_be_flattened_into_the_batch_on_either_side() -> None:
    flat: Shape = (2 * 4, 8, 16)
    apart = softmax_of(SCORES)

    (attention,) = found(product_of(flat), node("Reshape", [flat], SCORES), apart, second_of(flat))

    assert (attention.query_length, attention.head_size) == (8, 64)
    assert len(found(product_of(flat), softmax_of(flat), second_of(flat))) == 1


@pytest.mark.parametrize("op_type", ["MatMul", "FusedMatMul", "TransposeMatMul", "Einsum"])
@pytest.mark.parametrize("softmax", ["Softmax", "BiasSoftmax"])
def test_every_product_and_softmax_that_the_runtime_may_make_of_them_counts(op_type: str, softmax: str) -> None:
    nodes = [product_of(SCORES, op_type=op_type), softmax_of(SCORES, softmax), second_of(SCORES, op_type=op_type)]

    assert len(found(*nodes)) == 1


def test_each_layer_is_one_with_its_own_products() -> None:
    nodes: list[NodeExecution] = []
    for n in range(3):
        nodes += product_of(SCORES, name=f"qk{n}"), softmax_of(SCORES, name=f"s{n}"), second_of(SCORES, name=f"pv{n}")

    names = [(each.product.key.name, each.softmax.key.name, each.second.key.name) for each in found(*nodes)]
    assert names == [("qk0", "s0", "pv0"), ("qk1", "s1", "pv1"), ("qk2", "s2", "pv2")]


# -- what is none ------------------------------------------------------------------------------------------------------


def test_the_softmax_of_a_classifier_has_rank_2_and_is_none() -> None:
    classes: Shape = (8, 16)

    assert found(product_of(classes), softmax_of(classes), second_of(classes)) == []


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_two_of_the_three_are_none(missing: int) -> None:
    nodes = plain()
    del nodes[missing]

    assert found(*nodes) == []


def test_a_softmax_whose_result_no_product_takes_is_none() -> None:
    product, softmax, _ = plain()
    other = node("MatMul", [(2, 8, 256), (256, 256)], (2, 8, 256), "projection")

    assert found(product, softmax, between("Log"), other) == []


def test_a_product_that_takes_the_probabilities_second_is_none() -> None:
    product, softmax, second = plain()

    assert found(product, softmax, replace(second, inputs=second.inputs[::-1])) == []


def test_a_product_of_other_scores_is_none() -> None:
    other = product_of((2, 4, 8, 15))

    assert found(other, softmax_of(SCORES), second_of(SCORES)) == []


def test_a_product_of_another_number_of_heads_is_none() -> None:
    other = product_of((2, 3, 8, 16))

    assert found(other, softmax_of(SCORES), second_of(SCORES)) == []


@pytest.mark.parametrize("bare", [0, 1, 2])
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_without_shapes_it_is_none_where_they_are_needed(bare: int, side: str) -> None:
    nodes = plain()
    nodes[bare] = replace(nodes[bare], inputs=()) if side == "inputs" else replace(nodes[bare], outputs=())

    assert len(found(*nodes)) == (1 if (bare, side) == (0, "inputs") else 0)


def test_another_operator_of_the_same_shapes_is_none() -> None:
    product, softmax, second = plain()

    for place, op_type in ((0, "Add"), (1, "LogSoftmax"), (2, "Conv")):
        nodes = [product, softmax, second]
        key = nodes[place].key
        nodes[place] = replace(nodes[place], key=replace(key, op_type=op_type))
        assert found(*nodes) == [], op_type


def test_the_products_after_before_in_the_wrong_order_are_none() -> None:
    product, softmax, second = plain()

    assert found(second, softmax, product) == []


# -- properties --------------------------------------------------------------------------------------------------------

extents = st.integers(1, 64)
scores = st.lists(extents, min_size=1, max_size=3).flatmap(
    lambda batch: st.tuples(extents, extents).map(lambda last: (*batch, *last))
)
element_wise = st.lists(st.sampled_from(["Mul", "Add", "Cast", "Where", "Div"]), max_size=10)


@given(scores, extents, element_wise, element_wise)
def test_attention_of_any_size_is_found_once_with_its_sizes(
    shape: Shape, head_size: int, before: list[str], after: list[str]
) -> None:
    product, softmax, second = plain(shape, head_size)
    nodes = [product, *(between(op, shape) for op in before), softmax, *(between(op, shape) for op in after), second]

    (attention,) = found(*nodes)

    assert attention == UnfusedAttention(product, softmax, second)
    assert (attention.query_length, attention.head_size) == (shape[-2], head_size)


@given(scores, scores, extents)
def test_products_that_make_other_scores_are_never_taken(shape: Shape, other: Shape, head_size: int) -> None:
    fits = shape[-2:] == other[-2:] and prod(shape) == prod(other)
    nodes = [product_of(other, head_size), softmax_of(shape), second_of(shape, head_size)]

    assert len(found(*nodes)) == int(fits)
