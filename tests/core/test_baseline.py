"""The baseline document: its text, what an update keeps, and every way in which a file can be wrong."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_onnxperf.core.baseline import (
    SCHEMA,
    Anchor,
    Baseline,
    Entry,
    entry_of,
)
from pytest_onnxperf.core.baseline_text import read_baseline, write_baseline
from pytest_onnxperf.core.errors import BaselineError
from pytest_onnxperf.core.facts import Difference
from tests.records import CPU, MS, entry, facts, record, timed

if TYPE_CHECKING:
    from pytest_onnxperf.core.record import Record


GOLDEN = """\
{
 "schema": 1,
 "device": "AMD EPYC 7763, 2 cores",
 "execution_provider": "CPUExecutionProvider",
 "tests": {
  "test_a": {
   "anchor": {
    "date": "2026-11-30",
    "facts": {
     "cpu_nodes": 2,
     "memcpy": 0
    },
    "metrics": {
     "latency_p50_ms": 10
    }
   },
   "commit": "abc1234",
   "date": "2026-11-30",
   "facts": {
    "cpu_nodes": 2,
    "fused_ops": {},
    "memcpy": 0,
    "memcpy_from_host": 0,
    "memcpy_to_host": 0,
    "nodes": 2,
    "nodes_by_provider": {
     "CPUExecutionProvider": 2
    },
    "ops": {
     "CPUExecutionProvider:Add": 1,
     "CPUExecutionProvider:MatMul": 1
    }
   },
   "metrics": {
    "latency_p50_ms": [10]
   },
   "versions": {
    "onnxruntime": "1.32.0"
   }
  }
 }
}
"""


def test_the_text_has_sorted_keys_and_one_statistic_a_line() -> None:
    assert write_baseline(Baseline("AMD EPYC 7763, 2 cores", CPU, {"test_a": entry()})) == GOLDEN


def test_what_is_written_is_read_back_the_same() -> None:
    baseline = Baseline("AMD EPYC 7763, 2 cores", CPU, {"test_a": entry(), "test_b[ü/ #1]": entry(3.21)})
    assert read_baseline(write_baseline(baseline), "b.json") == baseline


@given(st.dictionaries(st.text(max_size=300), st.builds(entry, st.floats(1e-3, 1e6), st.integers(0, 9)), max_size=3))
def test_any_test_name_survives_writing_and_reading(tests: dict[str, Entry]) -> None:
    baseline = Baseline("device", CPU, tests)
    assert read_baseline(write_baseline(baseline), "b.json") == baseline


def test_values_are_stored_with_four_significant_digits() -> None:
    stored = entry_of(record({"latency_p50": (1_234_567.0, 12.3 * MS)}), "2026-11-30", "")
    assert stored.metrics == {"latency_p50_ms": [1.235, 12.3]}


def test_only_gated_metrics_are_stored() -> None:
    stored = entry_of(record({"latency_p50": (MS,), "latency_p99": (MS,), "throughput": (1.0,)}), "2026-11-30", "")
    assert list(stored.metrics) == ["latency_p50_ms"]


def test_op_shares_of_at_least_one_per_cent_are_stored_with_the_node_time_and_the_options() -> None:
    stored = entry_of(timed(), "2026-11-30", "")
    assert stored.op_shares == {"run": {f"{CPU}:MatMul": 0.75, f"{CPU}:Add": 0.241}}
    assert stored.node_ms == {"run": 10}
    assert stored.options == {"max_length": "512"}


def test_op_shares_of_a_generator_are_those_of_its_phases() -> None:
    one = timed().facts
    assert one is not None
    stored = entry_of(timed(phases={"prefill": one, "decode": facts()}), "2026-11-30", "")
    assert list(stored.op_shares) == list(stored.node_ms) == ["prefill"]


@pytest.mark.parametrize(
    ("of", "with_times"),
    [(timed(), False), (timed(metrics={"model_size": (1.0,)}), True)],
    ids=["disturbed", "facts alone"],
)
def test_without_times_no_op_shares_are_stored(of: Record, with_times: bool) -> None:
    stored = entry_of(of, "2026-11-30", "", with_times=with_times)
    assert (stored.op_shares, stored.node_ms) == ({}, {})
    assert stored.options == {"max_length": "512"}


def test_op_shares_node_time_and_options_cross_the_text_form() -> None:
    baseline = Baseline("d", CPU, {"test_a": entry_of(timed(), "2026-11-30", "")})
    text = write_baseline(baseline)

    assert read_baseline(text, "b.json") == baseline
    assert f'"{CPU}:MatMul": 0.75' in text
    assert '"node_ms": {\n    "run": 10\n   }' in text


def test_a_fact_that_is_unstable_or_cannot_be_told_is_not_stored() -> None:
    unstable = facts(memcpy=3, unstable=(Difference("memcpy", (2, 3), ()),))
    assert "memcpy" not in entry_of(record(of=unstable), "2026-11-30", "").facts
    assert entry_of(record(of=facts(unavailable="replayed")), "2026-11-30", "").facts == {}


def test_an_unstable_op_leaves_the_other_ops_and_not_the_mapping() -> None:
    name = f"ops.{CPU}:Add"
    stored = entry_of(record(of=facts(unstable=(Difference(name, (1, 2), ()),))), "2026-11-30", "").facts
    assert stored["ops"] == {f"{CPU}:MatMul": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b.json:1: not valid JSON"),
        (GOLDEN[:200], "b.json:10: not valid JSON"),
        (GOLDEN.replace('"schema": 1', '"schema": 2'), "b.json:2: schema 2 is newer than the 1"),
        (GOLDEN.replace('"schema": 1', '"schema": 0'), "b.json:2: there is no schema 0: the first is 1"),
        (GOLDEN.replace('"schema": 1', '"schema": "1"'), "there is no `schema` number"),
        ("[]", "b.json:1: not a baseline of pytest-onnxperf"),
        (GOLDEN.replace('   "commit"', '<<<<<<< HEAD\n   "commit"'), "b.json:17: an unresolved merge conflict"),
        (GOLDEN.replace('"nodes": 2', '"nodes": "two"'), "b.json:6: entry 'test_a': Expected"),
        (GOLDEN.replace('"nodes": 2', '"nodes": -1'), "b.json:6: entry 'test_a': Expected `int` >= 0"),
        (GOLDEN.replace("[10]", "10"), "b.json:6: entry 'test_a': Expected `array`"),
        (GOLDEN.replace("[10]", "[]"), "`latency_p50_ms` must hold numbers from 0 to 1e+18, got []"),
        (GOLDEN.replace("[10]", "[-1]"), "`latency_p50_ms` must hold numbers from 0 to 1e+18, got [-1"),
        (GOLDEN.replace("[10]", "[NaN]"), "`latency_p50_ms` must hold numbers from 0 to 1e+18, got [nan]"),
        (GOLDEN.replace("[10]", "[1e19]"), "`latency_p50_ms` must hold numbers from 0 to 1e+18, got [1e+19]"),
        (GOLDEN.replace('"latency_p50_ms": 10', '"latency_p50_ms": -3'), "must hold numbers from 0 to 1e+18, got [-3"),
        (
            GOLDEN.replace('"commit": "abc1234"', '"commit": "a", "commit": "b"'),
            "b.json:17: the key 'commit' stands twice",
        ),
        (GOLDEN.replace('"device": "AMD EPYC 7763, 2 cores",', ""), "`device` must be a string"),
        ('{"schema": 1, "tests": []}', "`tests` must be an object"),
        (
            GOLDEN.replace('"nodes": 2', f'"nodes": {"9" * 5000}'),
            "b.json:1: not a baseline of pytest-onnxperf: Exceeds",
        ),
        ("[" * 100_000, "b.json:1: not a baseline of pytest-onnxperf: maximum recursion"),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(BaselineError) as error:
        read_baseline(text, "b.json")
    assert message in str(error.value)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    with contextlib.suppress(BaselineError):
        read_baseline(text, "b.json")


def test_the_schema_of_this_version_is_one_and_a_missing_test_table_is_empty() -> None:
    assert SCHEMA == 1
    text = json.dumps({"schema": 1, "device": "d", "execution_provider": CPU})
    assert read_baseline(text, "b.json").tests == {}


def test_an_anchor_without_metrics_is_written_and_read() -> None:
    bare = Entry("2026-11-30", Anchor("2026-11-30"))
    baseline = Baseline("d", CPU, {"test_a": bare})
    assert read_baseline(write_baseline(baseline), "b.json") == baseline


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param('{"tested": [1, 2], "compute": [1]}', id="lengths"),
        pytest.param('{"compute": [1, 2]}', id="no tested"),
        pytest.param('{"tested": []}', id="empty"),
        pytest.param('{"tested": [1, 0]}', id="zero"),
        pytest.param('{"tested": [1, NaN]}', id="nan"),
        pytest.param("{}", id="nothing"),
    ],
)
def test_times_beside_a_reference_that_do_not_fit_are_an_error_that_names_them(columns: str) -> None:
    text = GOLDEN.replace('   "commit"', f'   "paired": {{"latency_p50": {columns}}},\n   "commit"')
    with pytest.raises(BaselineError, match="`paired` of `latency_p50` must hold `tested` and its references"):
        read_baseline(text, "b.json")


def test_times_beside_a_reference_of_unknown_size_are_an_error() -> None:
    columns = '{"tested": [1, 2], "compute": [1, 2]}'
    text = GOLDEN.replace('   "commit"', f'   "paired": {{"latency_p50": {columns}}},\n   "commit"')
    with pytest.raises(BaselineError, match="`references` of `latency_p50` must tell the size of compute, which"):
        read_baseline(text, "b.json")


@pytest.mark.parametrize("size", [-1, 0, 10**12])
def test_a_reference_of_a_size_that_no_calibration_finds_is_an_error(size: int) -> None:
    spec = f'{{"size": {{"repeats": {size}}}, "version": 1, "checksum": ""}}'
    text = GOLDEN.replace('   "commit"', f'   "references": {{"latency_p50": {{"compute": {spec}}}}},\n   "commit"')
    with pytest.raises(BaselineError, match=r"Expected `int` .* at `\$\.references"):
        read_baseline(text, "b.json")


def test_half_a_surrogate_pair_in_a_note_survives_writing() -> None:
    text = GOLDEN.replace('   "commit"', '   "note": "a \\ud800 b \u00fc",\n   "commit"')
    written = write_baseline(read_baseline(text, "b.json"))
    assert written.encode()
    assert read_baseline(written, "b.json").tests["test_a"].note == "a \ud800 b \u00fc"
