"""Units, names of devices and providers, samples, states, and what a log says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_onnxperf.core
from pytest_onnxperf.core.environment import cpu_device, slug
from pytest_onnxperf.core.errors import MeasurementError, SettingError
from pytest_onnxperf.core.fallback import fallback_reason
from pytest_onnxperf.core.ort_log import read_log
from pytest_onnxperf.core.providers import PROVIDERS, provider_of, short_name
from pytest_onnxperf.core.sample import Sample
from pytest_onnxperf.core.states import State
from pytest_onnxperf.core.units import change, number, quantity, significant


@pytest.mark.parametrize("name", [info.name for info in pkgutil.iter_modules(pytest_onnxperf.core.__path__)])
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(f"pytest_onnxperf.core.{name}")
    assert doctest.testmod(module).failed == 0


@given(st.floats(1e-9, 1e12))
def test_a_number_is_written_without_exponent_and_near_its_value(value: float) -> None:
    text = number(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (99.94, "99.9"), (999.6, "1000"), (12345.6, "12346"), (1e-13, "0")]
)
def test_numbers_read_well(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0, "0 %"), (1.004, "+0.4 %"), (1.0995, "+9.9 %"), (1.1, "+10 %"), (0.9, "-10 %"), (3, "+200 %")],
)
def test_changes_read_well(ratio: float, text: str) -> None:
    assert change(ratio) == text


def test_a_quantity_carries_its_unit() -> None:
    assert (quantity(2, ""), quantity(1.5, "MiB"), quantity(0.4, "ratio")) == ("2", "1.5 MiB", "40 %")


@given(st.floats(1e-6, 1e9))
def test_four_significant_digits_are_near_the_value_and_stay_so(value: float) -> None:
    stored = significant(value)
    assert stored == pytest.approx(value, rel=6e-4)
    assert significant(stored) == stored


@pytest.mark.parametrize(
    ("name", "family", "model", "cores", "key"),
    [
        ("Intel(R) Xeon(R) Platinum 8488C", "6", "143", 2, "intel-xeon-8488c-2c"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "6", "158", 12, "intel-core-i7-9750h-12c"),
        ("AMD EPYC 7763 64-Core Processor", "25", "1", 4, "amd-epyc-7763-4c"),
        ("AMD EPYC", "25", "1", 2, "amd-epyc-f25m1-2c"),
        ("Intel Xeon Processor", "6", "106", 1, "intel-xeon-f6m106-1c"),
        ("Apple M2", "", "", 8, "apple-m2-8c"),
        ("", "", "", 8, "unknown-8c"),
    ],
)
def test_a_cpu_has_a_key_without_live_values(name: str, family: str, model: str, cores: int, key: str) -> None:
    assert cpu_device(name, family, model, cores)[1] == key


@given(st.text())
def test_a_slug_is_safe_in_a_path(text: str) -> None:
    assert slug(text).strip("abcdefghijklmnopqrstuvwxyz0123456789-") == ""
    assert slug(text)


def test_every_provider_is_found_by_both_of_its_names() -> None:
    for provider in PROVIDERS:
        assert provider_of(provider.short) == provider_of(provider.name.upper()) == provider
        assert short_name(provider.name) == provider.short
    assert len({provider.short for provider in PROVIDERS}) == len(PROVIDERS)
    assert PROVIDERS[-1].short == "cpu"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("cudaa", "did you mean `cuda`?"), ("", "Known: auto"), ("ExecutionProvider", "Known"), ("a b", "Known")],
)
def test_an_unknown_provider_is_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(SettingError, match="unknown execution provider") as error:
        provider_of(text)
    assert hint in str(error.value)


rounds = st.lists(st.integers(0, 10**12), min_size=1, max_size=50)


@given(rounds)
def test_quantiles_lie_within_the_sample_and_in_order(times: list[int]) -> None:
    sample = Sample.of(times)
    values = [sample.quantile(q) for q in (0, 0.25, 0.5, 0.9, 0.99, 1)]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (min(times), max(times))
    assert values[2] == pytest.approx(median(times))


@given(rounds, st.integers(1, 1000))
def test_times_scale_with_the_clock(times: list[int], factor: int) -> None:
    once, scaled = Sample.of(times).metrics(), Sample.of([t * factor for t in times]).metrics()
    assert scaled["latency_p90"] == pytest.approx(once["latency_p90"] * factor)


def test_a_sample_without_rounds_or_with_a_backward_clock_is_refused() -> None:
    with pytest.raises(MeasurementError, match="no round"):
        Sample.of([])
    with pytest.raises(MeasurementError, match="backwards"):
        Sample.of([5, -1])


def test_throughput_counts_rounds_over_their_total_time() -> None:
    assert Sample.of([1_000_000, 3_000_000]).metrics()["throughput"] == 500


def test_every_state_has_a_severity_of_its_own_and_ok_is_the_least() -> None:
    assert sorted(state.severity for state in State) == list(range(len(State)))
    assert min(State, key=lambda state: state.severity) is State.REGRESSED
    assert max(State, key=lambda state: state.severity) is State.OK


LOG = (
    "\x1b[0;93m2026-12-02 00:08:20.99 [W:onnxruntime:Default, pybind_state.cc:1295 Create] Failed to create "
    "CUDAExecutionProvider. Require cuDNN 9.*\x1b[m\n"
    "2026-12-02 00:08:20.99 [I:onnxruntime:, x.cc:1 f] ORT optimization- Force fallback to CPU execution for node: "
    "/a b/Gather because the CPU execution path is deemed faster than overhead\n"
    "2026-12-02 00:08:20.99 [I:onnxruntime:, x.cc:1 f] WebGPU EP Device ID: 0\n"
    "EP Error CUDA failure 36 when using ['CUDAExecutionProvider']\n"
)


def test_a_log_tells_forced_nodes_and_why_an_ep_does_not_run() -> None:
    assert read_log(LOG.splitlines()).forced_cpu_nodes == {"/a b/Gather"}
    assert fallback_reason(LOG).splitlines() == [
        "Failed to create CUDAExecutionProvider. Require cuDNN 9.*",
        "  EP Error CUDA failure 36 when using ['CUDAExecutionProvider']",
    ]
    assert fallback_reason("") == ""
