"""The file of results: what is built of an outcome, how it is bounded, and every way in which what is read is wrong."""

from __future__ import annotations

import codecs
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_onnxperf.core.ab import Outputs
from pytest_onnxperf.core.errors import ResultsError
from pytest_onnxperf.core.pairs import judge_pairs
from pytest_onnxperf.core.results import SCHEMA, Results
from pytest_onnxperf.core.results_build import comparison_of, measurement_of
from pytest_onnxperf.core.results_facts import MOST_ROWS
from pytest_onnxperf.core.results_measured import MOST_POINTS
from pytest_onnxperf.core.results_text import Journal, encode, read_results, with_journal, write_results
from pytest_onnxperf.core.sample import QUANTILES, Sample
from tests.records import MS
from tests.results import (
    HOSTILE,
    ab_record,
    everything,
    generator_outcome,
    run,
    session_outcome,
    session_record,
    test_of,
)

if TYPE_CHECKING:
    from pytest_onnxperf.core.results_measured import Measurement


def of_session() -> Measurement:
    return measurement_of(session_outcome(), "/r")


def test_what_is_written_is_what_is_read() -> None:
    assert read_results(write_results(everything()), "r.json") == everything()


def test_a_test_is_one_line_of_valid_json() -> None:
    data = write_results(everything())

    tests = everything().runs[0].tests
    assert [json.loads(line.rstrip(b","))["nodeid"] for line in data.split(b"\n")[1:-2]] == [t.nodeid for t in tests]


def test_hostile_names_come_back_as_they_were() -> None:
    text = write_results(everything())

    (test,) = [t for t in read_results(text, "r").runs[0].tests if "test_g[" in t.nodeid]
    assert HOSTILE in test.nodeid
    assert test.measurements[0].model == HOSTILE
    assert test.measurements[0].phases["decode"].attention[0].node == HOSTILE


def test_half_a_surrogate_pair_of_a_path_is_written_as_its_escape() -> None:
    data = write_results(Results(runs=(run(test_of("a\udc80.py::test_a", message="\udc80")),)))

    assert read_results(data, "r").runs[0].tests[0].nodeid == "a\\udc80.py::test_a"


def test_a_metric_has_its_unit_its_direction_and_one_value_for_each_process() -> None:
    metric = of_session().metrics["latency_p50"]

    assert (metric.unit, metric.better, metric.values, metric.value) == ("ms", "less", (10.0, 11.0), 10.5)
    assert of_session().processes == 2


def test_a_distribution_has_a_quantile_for_each_place() -> None:
    first, second = of_session().distributions["latency"]

    assert first.quantiles_ms == tuple(pytest.approx(9 + 2 * q, rel=1e-5) for q in QUANTILES)
    assert (first.rounds, first.mean_ms, first.stddev_ms) == (3, 10.0, 1.0)
    assert second.quantiles_ms[QUANTILES.index(0.5)] == 11.0
    assert Sample.of([5]).distribution().stddev_ns == 0


def test_numbers_have_six_significant_digits() -> None:
    metrics = {"latency_p50": (MS / 3,), "throughput": (1234567.8,)}

    found = measurement_of(session_outcome(metrics=metrics), "/r").metrics

    assert (found["latency_p50"].value, found["throughput"].value) == (0.333333, 1234570.0)


@pytest.mark.parametrize(
    ("gaps", "points", "step"),
    [(1, 1, 1), (MOST_POINTS, MOST_POINTS, 1), (MOST_POINTS + 1, MOST_POINTS // 2 + 1, 2), (100_000, 128, 782)],
)
def test_latency_by_token_has_at_most_so_many_points(gaps: int, points: int, step: int) -> None:
    found = measurement_of(generator_outcome(gaps), "/r").token_times

    assert found is not None
    assert (len(found.itl_ms[0]), found.tokens_per_point) == (points, step)
    assert len(found.itl_ms[0]) <= MOST_POINTS


def test_a_table_has_at_most_so_many_rows_and_says_what_is_left_out() -> None:
    facts = measurement_of(generator_outcome(), "/r").phases["decode"]

    assert len(facts.op_table) == MOST_ROWS
    assert facts.rows_left_out == 300 - MOST_ROWS


def test_the_tables_of_a_generator_stand_in_its_phases_alone() -> None:
    measured = measurement_of(generator_outcome(), "/r")

    assert measured.facts is not None
    assert (measured.facts.op_table, measured.facts.rows_left_out) == ((), 0)
    assert measured.facts.memcpy == 2


def test_a_comparison_has_the_numbers_that_its_text_says() -> None:
    (found,) = [c for c in measurement_of(generator_outcome(), "/r").comparisons if c.name == "ttft"]

    assert (found.unit, found.old, found.new) == ("ms", 20.0, 42.0)
    ratio, low, high = found.ratio or 0.0, found.low_ratio or 0.0, found.high_ratio or 0.0
    limit, detectable = found.limit_ratio or 0.0, found.detectable_ratio or 0.0
    assert ratio == pytest.approx(42 / 20, rel=0.01)
    assert 0 < low < ratio < high
    assert 1 < limit < detectable < ratio


def test_a_limit_has_its_numbers_beside_its_text() -> None:
    broken, required = measurement_of(generator_outcome(), "/r").budgets

    assert (required.key, required.limit_value, required.actual_value) == ("require_ops", None, None)
    assert (broken.key, broken.state) == ("max_ttft_ms", "broken")
    assert (broken.limit_value, broken.actual_value, broken.unit) == (10.0, 42.0, "ms")


def test_a_limit_that_cannot_be_told_has_no_actual_value() -> None:
    (limit,) = measurement_of(session_outcome(metrics={}), "/r").budgets

    assert (limit.state, limit.limit_value, limit.actual_value) == ("cannot tell", 100.0, None)


def test_a_baseline_in_the_root_directory_is_named_from_there() -> None:
    inside, outside = measurement_of(session_outcome(), "/r"), measurement_of(session_outcome(), "/other")

    assert inside.baseline is not None
    assert outside.baseline is not None
    assert (inside.baseline.path, outside.baseline.path) == ("b/a.json", "/r/b/a.json")


def test_a_comparison_too_short_for_an_interval_has_none() -> None:
    few = comparison_of(ab_record(times={"latency_p50": judge_pairs([-0.1] * 7)}))
    enough = comparison_of(ab_record(times={"latency_p50": judge_pairs([-0.1] * 8)}))

    assert (few.low, few.high) == (None, None)
    assert few.speedup == pytest.approx(math.exp(0.1), rel=1e-4)
    assert enough.low == enough.high == enough.speedup


def test_each_part_of_a_generation_has_its_ratio() -> None:
    names = ("total_throughput", "ttft", "decode_throughput")
    found = comparison_of(ab_record(times={name: judge_pairs([-0.1 * n] * 8) for n, name in enumerate(names, 1)}))

    assert found.speedup == pytest.approx(math.exp(0.1), rel=1e-4)
    assert {name: part.ratio for name, part in found.parts.items()} == {
        "ttft": pytest.approx(math.exp(0.2), rel=1e-4), "decode_throughput": pytest.approx(math.exp(0.3), rel=1e-4),
    }  # fmt: skip


def test_what_json_cannot_hold_is_null() -> None:
    never = comparison_of(ab_record(times={}, sensor=None, outputs=Outputs("not checked")))

    assert (never.speedup, never.low, never.high, never.self_ratio) == (None, None, None, None)
    assert b"NaN" not in encode(never)


def test_advice_is_there_where_the_test_fails() -> None:
    assert measurement_of(generator_outcome(), "/r").advice
    assert of_session().advice == ()


# -- what is wrong -----------------------------------------------------------------------------------------------------


WHOLE = write_results(everything())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "r.json: empty (0 bytes)", id="empty"),
        pytest.param(b"\x80{}", "r.json: not valid JSON", id="not UTF-8"),
        pytest.param(WHOLE[:-3], "r.json: not valid JSON, it may be cut off", id="cut at the end"),
        pytest.param(WHOLE[: len(WHOLE) // 2], "r.json: not valid JSON, it may be cut off", id="cut in the middle"),
        pytest.param(b"[]", "r.json: not a file of --onnxperf-json", id="an array"),
        pytest.param(b'{"tests": {}}', "missing required field `schema`", id="without a schema"),
        pytest.param(b'{"schema": 1, "tests": {}}', "missing required field `runs`", id="a baseline"),
        pytest.param(b'{"schema": "1", "runs": []}', "Expected `int`, got `str`", id="a schema that is a text"),
        pytest.param(b'{"schema": 2, "runs": 3}', "schema 2 is newer than the 1", id="newer"),
        pytest.param(b'{"schema": 0, "runs": 3}', "schema 0 is older than the 1", id="older"),
        pytest.param(b'{"schema": 1, "runs": [{}]}', "r.json: Object missing required field `started` - at `$.runs[0]`",
                     id="a run without a start"),
        pytest.param(WHOLE.decode().encode("utf-16"), "r.json: not UTF-8 as JSON is, it begins with a byte order mark",
                     id="UTF-16, as PowerShell writes"),
        pytest.param(b"[" * 100_000, "r.json: not", id="deep"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_results_is_refused_with_place_and_reason(data: bytes, says: str) -> None:
    with pytest.raises(ResultsError) as error:
        read_results(data, "r.json")

    assert says in str(error.value)


def test_every_cut_off_file_is_refused() -> None:
    data = write_results(Results(runs=(run(test_of("a.py::test_a")),)))

    for end in range(len(data.rstrip())):
        with pytest.raises(ResultsError):
            read_results(data[:end], "r.json")


def test_a_field_that_a_later_version_added_is_no_error() -> None:
    document = json.loads(WHOLE)
    document["runs"][0]["tests"][0]["mood"] = "good"

    assert read_results(json.dumps(document).encode(), "r.json") == everything()


# -- the journal -------------------------------------------------------------------------------------------------------


def journal(*lines: bytes, started: str = "2026-12-02T08:00:00.000+00:00", schema: int = SCHEMA) -> bytes:
    return b"".join(line + b"\n" for line in (encode(Journal(schema, started)), *lines))


def names(results: Results) -> list[str]:
    return [test.nodeid for test in results.runs[0].tests]


KILLED = Results(runs=(run(test_of("a"), is_complete=False),))
A, B = encode(test_of("a", duration_s=9.0)), encode(test_of("b"))


def test_a_journal_adds_what_its_file_had_not_yet() -> None:
    found = with_journal(KILLED, journal(A, B))

    assert names(found) == ["a", "b"]
    assert found.runs[0].tests[0].duration_s == 9.0, "of two lines on one test the later holds"


@pytest.mark.parametrize("cut", range(1, len(B) + 1))
def test_a_line_of_a_journal_that_was_cut_off_is_left_out(cut: int) -> None:
    assert names(with_journal(KILLED, journal(A, B)[:-cut])) == ["a"]


@pytest.mark.parametrize(
    ("results", "left"),
    [
        pytest.param(KILLED, journal(B, started="2025-01-01T00:00:00.000+00:00"), id="of another run"),
        pytest.param(KILLED, journal(B, schema=SCHEMA + 1), id="of another schema"),
        pytest.param(KILLED, b"", id="empty"),
        pytest.param(KILLED, b"\xff\n\xff\n", id="no journal"),
        pytest.param(Results(runs=(run(test_of("a")),)), journal(B), id="of a run that came to its end"),
    ],
)
def test_a_journal_that_is_not_of_the_file_changes_nothing(results: Results, left: bytes) -> None:
    assert with_journal(results, left) == results


def test_the_record_of_a_process_that_timed_nothing_has_no_distribution() -> None:
    found = measurement_of(replace(session_outcome(), record=session_record(distributions={})), "/r")

    assert found.distributions == {}
    assert msgspec.json.decode(encode(found)).get("distributions") is None


def test_a_byte_order_mark_of_utf_8_is_read_over() -> None:
    assert read_results(codecs.BOM_UTF8 + WHOLE, "r.json") == read_results(WHOLE, "r.json")
