"""Outputs of two arms, compared by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_onnxperf.runtime.child import output_check
from pytest_onnxperf.runtime.child.output_check import compare_outputs

ONE = np.ones((2, 3), np.float32)


def state(reference: Any, candidate: Any, rtol: float = 1e-3, atol: float = 1e-5) -> str:
    return str(compare_outputs({"y": reference}, {"y": candidate}, rtol, atol)["state"])


@pytest.mark.parametrize(
    ("reference", "candidate", "expected"),
    [
        (ONE, ONE * 1.0005, "equal"),
        (ONE, ONE * 1.01, "differ"),
        (ONE, ONE.astype(np.float16), "equal"),
        (ONE, np.ones(6, np.float32), "differ"),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), "equal"),
        (np.array([np.nan, 1.0]), np.array([0.0, 1.0]), "differ"),
        (np.array([0.0]), np.array([np.nan]), "differ"),
        (np.array([np.inf]), np.array([np.inf]), "equal"),
        (np.array([np.inf]), np.array([-np.inf]), "differ"),
        (np.array([np.inf]), np.array([1.0]), "differ"),
        (np.array([1.0]), np.array([np.inf]), "differ"),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), "equal"),
        (np.float32(1).reshape(()), np.float32(2).reshape(()), "differ"),
        (np.array([1, 2]), np.array([1, 3]), "differ"),
        (np.array([True]), np.array([False]), "differ"),
        (np.array(["a"], object), np.array(["a"], object), "equal"),
        (np.array(["a"], object), np.array(["b"], object), "differ"),
        (np.array([1 + 1j]), np.array([1 + 2j]), "differ"),
        ([1], [1], "cannot tell"),
    ],
)
def test_values_are_equal_within_the_tolerances(reference: Any, candidate: Any, expected: str) -> None:
    assert state(reference, candidate) == expected


def test_the_largest_difference_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_check, "_PIECE", 4)  # in more than one piece
    candidate = ONE.copy()
    candidate[1, 2] = 3
    candidate[0, 0] = 2
    found = compare_outputs({"y": ONE, "z": ONE}, {"y": candidate, "z": ONE}, 1e-3, 1e-5)
    assert found["largest_difference"] == 2
    assert found["text"] == "`y`: largest difference 2 at [1, 2] (1.0 and 3.0), 2 of 6 values beyond"


def test_other_names_cannot_be_compared_and_both_are_listed() -> None:
    found = compare_outputs({"y": ONE}, {"y": ONE, "z": ONE}, 1e-3, 1e-5)
    assert found["state"] == "cannot tell"
    assert found["text"] == "the outputs have other names: the reference has `y`; the candidate has `y`, `z`"
