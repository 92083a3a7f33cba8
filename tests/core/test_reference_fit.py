"""The reference that explains the stored processes best."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.paired import Paired
from pytest_onnxperf.core.reference_fit import FEWEST_FOR_A_MIX, MIX, NONE, apply, best_reference, is_noisy_reference


def processes(count: int, weights: dict[str, float], seed: int = 0, own: float = 0.002) -> list[Paired]:
    """Processes on a machine whose resources move apart; the tested time feels them by `weights`."""
    generator = random.Random(seed)
    kinds = sorted({"compute", "memory", *weights})
    found = []
    for _ in range(count):
        felt = {kind: generator.gauss(0, 0.05) for kind in kinds}
        tested = sum(weight * felt[kind] for kind, weight in weights.items()) + generator.gauss(0, own)
        found.append(Paired(math.exp(tested) * 1e6, {kind: math.exp(each) * 1e5 for kind, each in felt.items()}, 0.0))
    return found


@pytest.mark.parametrize("kind", ["compute", "dispatch", "memory"])
def test_the_kind_that_the_model_feels_is_chosen(kind: str) -> None:
    fit = best_reference(processes(5, {kind: 1.0}))
    assert (fit.kind, fit.weights) == (kind, {kind: 1.0})
    assert fit.spread_log is not None
    assert fit.spread_log < 0.01


def test_none_is_chosen_where_neither_explains_anything() -> None:
    fit = best_reference(processes(7, {}))
    assert (fit.kind, dict(fit.weights)) == (NONE, {})
    assert apply(fit, processes(1, {})[0]) == pytest.approx(processes(1, {})[0].tested_ns)


def test_a_mix_needs_enough_processes() -> None:
    both = {"compute": 0.5, "memory": 0.5}
    assert best_reference(processes(FEWEST_FOR_A_MIX - 1, both)).kind != MIX
    fit = best_reference(processes(FEWEST_FOR_A_MIX, both))
    assert (fit.kind, fit.fitted_weights) == (MIX, 2)


@pytest.mark.parametrize("pair", list(itertools.combinations(("compute", "dispatch", "memory"), 2)))
def test_a_mix_is_of_the_two_that_explain_most(pair: tuple[str, str]) -> None:
    both = {"compute": 0.0, "dispatch": 0.0, "memory": 0.0, **dict.fromkeys(pair, 0.5)}
    fit = best_reference(processes(12, both))
    assert (fit.kind, set(fit.weights), fit.fitted_weights) == (MIX, set(pair), 2)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_processes_take_the_first_kind(count: int) -> None:
    fit = best_reference(processes(count, {"memory": 1.0}))
    assert (fit.kind, fit.spread_log) == ("compute", None)


def test_a_kind_that_one_process_lacks_is_not_considered() -> None:
    found = processes(5, {"memory": 1.0})
    found[2] = Paired(found[2].tested_ns, {"compute": found[2].references_ns["compute"]}, 0.0)
    assert best_reference(found).kind in ("compute", NONE)


@given(st.floats(0.001, 1000), st.integers(0, 50))
def test_the_unit_of_time_changes_nothing_but_the_scale(factor: float, seed: int) -> None:
    plain = processes(6, {"compute": 1.0}, seed)
    scaled = [Paired(each.tested_ns * factor, each.references_ns, 0.0) for each in plain]
    assert best_reference(scaled).kind == best_reference(plain).kind


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_is_refused(wrong: float) -> None:
    for process in (Paired(wrong, {"compute": 1.0}, 0.0), Paired(1.0, {"compute": wrong}, 0.0)):
        with pytest.raises(MeasurementError, match="only positive times have a ratio"):
            best_reference([process])
    with pytest.raises(MeasurementError, match="no process was measured"):
        best_reference([])


def test_a_process_without_the_reference_of_the_baseline_is_refused() -> None:
    fit = best_reference(processes(5, {"memory": 1.0}))
    with pytest.raises(MeasurementError, match="memory, which this process did not time"):
        apply(fit, Paired(1.0, {"compute": 1.0}, 0.0))


@pytest.mark.parametrize(
    ("rounds", "noisy"),
    [([100] * 20, False), ([100, 110] * 10, False), ([100, 100, 100, 126] * 5, False), ([100, 140] * 10, True),
     ([100] * 3, True)],
)  # fmt: skip
def test_a_reference_that_varies_is_the_sensor(rounds: list[float], noisy: bool) -> None:
    assert is_noisy_reference(rounds) is noisy
