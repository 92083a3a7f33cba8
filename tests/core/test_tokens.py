"""Metrics of generations and of requests at once, from their token times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.tokens import Generation, Request, generation_metrics, load_metrics

MS = 1_000_000


def test_every_metric_follows_from_the_times_by_its_definition() -> None:
    generation = Generation(append_ns=90 * MS, first_ns=10 * MS, gaps_ns=(5 * MS, 10 * MS, 5 * MS))
    assert generation_metrics([generation], prompt_tokens=180, batch_size=2) == {
        "ttft": 100 * MS,
        "prefill": 90 * MS,
        "prefill_throughput": pytest.approx(2 * 180 / 0.090),
        "decode_throughput": pytest.approx(2 * 3 / 0.020),
        "total_throughput": pytest.approx(2 * 4 / 0.120),
        "itl_p50": 5 * MS,
        "itl_p90": pytest.approx(9 * MS),
        "itl_p99": pytest.approx(9.9 * MS),
        "itl_max": 10 * MS,
    }


def test_one_new_token_has_a_ttft_and_no_decode() -> None:
    metrics = generation_metrics([Generation(10, 5, ())], prompt_tokens=1, batch_size=1)
    assert metrics["ttft"] == 15
    assert "decode_throughput" not in metrics
    assert "itl_p50" not in metrics


def test_the_prefill_belongs_to_ttft() -> None:
    slow_prefill = Generation(append_ns=1000 * MS, first_ns=1, gaps_ns=(1,))
    assert generation_metrics([slow_prefill], 100, 1)["ttft"] > 1000 * MS


times = st.integers(1, 10**9)
generations = st.integers(1, 20).flatmap(
    lambda gaps: st.lists(
        st.builds(Generation, times, times, st.lists(times, min_size=gaps, max_size=gaps).map(tuple)),
        min_size=1,
        max_size=5,
    )
)


@given(generations, st.integers(1, 1000), st.integers(1, 8))
def test_throughput_grows_with_the_batch_and_times_do_not(
    measured: list[Generation], prompt_tokens: int, batch_size: int
) -> None:
    one, many = (generation_metrics(measured, prompt_tokens, size) for size in (1, batch_size))
    assert many["decode_throughput"] == pytest.approx(batch_size * one["decode_throughput"])
    assert many["prefill_throughput"] == pytest.approx(batch_size * one["prefill_throughput"])
    assert {name: many[name] for name in ("ttft", "itl_p50", "itl_max")} == {
        name: one[name] for name in ("ttft", "itl_p50", "itl_max")
    }


@given(generations)
def test_quantiles_of_gaps_are_in_order(measured: list[Generation]) -> None:
    metrics = generation_metrics(measured, 10, 1)
    values = [metrics[name] for name in ("itl_p50", "itl_p90", "itl_p99", "itl_max")]
    assert values == sorted(values)


def test_requests_at_once_share_a_clock_and_are_counted_together() -> None:
    requests = [Request((10 * MS, 12 * MS, 14 * MS)), Request((30 * MS, 32 * MS, 40 * MS))]
    metrics = load_metrics(requests, [40 * MS], concurrency=2)
    assert metrics["ttft"] == 20 * MS
    assert metrics["ttft_p99"] == pytest.approx(29.8 * MS)
    assert metrics["total_throughput"] == pytest.approx(6 / 0.040)
    assert metrics["itl_max"] == 8 * MS


def test_requests_of_one_token_have_no_gaps() -> None:
    assert set(load_metrics([Request((5,))], [5], 1)) == {"ttft", "ttft_p99", "total_throughput"}
