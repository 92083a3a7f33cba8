"""Exports, each read by its consumer's own reader where there is one, else held against its published schema."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_onnxperf.core.results import Results
from pytest_onnxperf.core.results_build import comparison_of
from pytest_onnxperf.report.export import FORMATS, exported
from pytest_onnxperf.report.export_csv import COLUMNS
from pytest_onnxperf.report.export_rows import rows_of, subjects_of
from tests.records import facts
from tests.results import (
    HOSTILE,
    ab_record,
    everything,
    generator_outcome,
    run,
    session_outcome,
    test_of,
    with_versions,
)

if TYPE_CHECKING:
    from pathlib import Path

NONE: Final = Results(runs=(run(),))
A: Final = test_of("t.py::test_a[1]", session_outcome())
ONE: Final = Results(runs=(run(A),))
MANY: Final = Results(
    runs=(run(*(msgspec.structs.replace(A, nodeid=f"t.py::test_a[{number}]") for number in range(10_000))),)
)
ALL: Final = [
    pytest.param(NONE, id="no test"),
    pytest.param(ONE, id="one test"),
    pytest.param(everything(), id="hostile names"),
    pytest.param(MANY, id="10000 tests"),
]


def test_the_formats_have_the_names_that_their_readers_give_them() -> None:
    assert FORMATS == (
        "pytest-benchmark", "bencher", "customSmallerIsBetter", "customBiggerIsBetter", "openmetrics", "csv",
    )  # fmt: skip


def test_no_export_holds_what_its_text_cannot() -> None:
    for form in FORMATS:
        text = exported(form, everything())
        assert "NaN" not in text, form
        assert "Infinity" not in text, form
        text.encode("utf-8")


# -- names -------------------------------------------------------------------------------------------------------------


def titles(*tests: Any) -> list[str]:
    return [subject.title for subject in subjects_of(Results(runs=tuple(run(test) for test in tests)))]


def test_a_measurement_is_named_by_its_test_and_label() -> None:
    (title,) = titles(test_of("t.py::test_g", generator_outcome()))

    assert title == "t.py::test_g#chat"


def test_a_test_of_two_devices_is_told_apart_by_their_keys() -> None:
    cuda = test_of("t.py::test_a[1]", session_outcome(ep="CUDAExecutionProvider"))

    assert titles(A, cuda) == ["t.py::test_a[1] [amd-epyc-7763-2c.cpu]", "t.py::test_a[1] [amd-epyc-7763-2c.cuda]"]


def test_a_test_of_two_versions_is_told_apart_by_them() -> None:
    newer = with_versions(A, onnxruntime="1.33.0")

    key = "amd-epyc-7763-2c.cpu"
    assert titles(A, newer) == [
        f"t.py::test_a[1] [{key}] [onnxruntime 1.32.0]", f"t.py::test_a[1] [{key}] [onnxruntime 1.33.0]",
    ]  # fmt: skip


def test_no_two_measurements_share_a_name() -> None:
    found = titles(A, A, A, everything().runs[0].tests[1])

    assert len(set(found)) == len(found) == 4


def test_a_comparison_and_a_measurement_of_one_test_share_its_name() -> None:
    both = msgspec.structs.replace(A, comparisons=(comparison_of(ab_record()),))
    again = msgspec.structs.replace(both.comparisons[0], label="")

    assert titles(msgspec.structs.replace(both, comparisons=(again,))) == ["t.py::test_a[1]"] * 2


def test_facts_that_cannot_be_told_or_differ_have_no_row() -> None:
    names = {row.name for subject in subjects_of(everything()) for row in rows_of(subject)}
    (unknown,) = subjects_of(Results(runs=(run(test_of("t", session_outcome(of=facts(unavailable="cut off")))),)))

    assert {"decode_memcpy", "prefill_nodes", "memcpy", "speedup"} <= names
    assert "decode_nodes" not in names, "it differs between the runs"
    assert not {row.name for row in rows_of(unknown)} & {"memcpy", "nodes", "cpu_nodes"}


# -- pytest-benchmark --------------------------------------------------------------------------------------------------


def benchmarks(results: Results) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(exported("pytest-benchmark", results))["benchmarks"]
    return found


def test_the_statistics_of_a_benchmark_are_those_of_its_rounds_in_seconds() -> None:
    (one,) = benchmarks(ONE)

    stats = one["stats"]
    assert (one["name"], one["fullname"]) == ("test_a[1]", "t.py::test_a[1]")
    assert (stats["min"], stats["max"], stats["rounds"]) == (0.009, 0.012, 5)
    assert stats["mean"] == pytest.approx(0.0104)
    assert stats["median"] == pytest.approx(0.0105)
    assert stats["ops"] == pytest.approx(1 / 0.0105)
    assert stats["total"] == pytest.approx(0.052)
    assert stats["min"] <= stats["ld15iqr"] <= stats["q1"] <= stats["q3"] <= stats["hd15iqr"] <= stats["max"]


def test_a_generator_has_a_benchmark_for_each_of_its_times() -> None:
    names = [one["name"] for one in benchmarks(Results(runs=(run(test_of("t.py::test_g", generator_outcome())),)))]

    assert names == ["test_g#chat (ttft)", "test_g#chat (prefill)", "test_g#chat (itl)"]


@pytest.mark.parametrize("results", ALL[1:3])
def test_pytest_benchmark_compares_them_and_draws_its_histogram(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("pytest_benchmark")
    pytest.importorskip("pygal")
    (tmp_path / "0001_ours.json").write_text(exported("pytest-benchmark", results), "utf-8")
    command = [sys.executable, "-m", "pytest_benchmark", "compare", str(tmp_path / "0001_ours.json"),
               "--csv=out.csv", "--histogram=chart"]  # fmt: skip

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text("utf-8"))))
    assert {row["name"] for row in rows} >= {
        one["fullname"] for one in benchmarks(results) if one["fullname"].isascii()
    }
    assert len(rows) == len(benchmarks(results))
    assert (tmp_path / "chart.svg").read_text("utf-8").count("rounds") >= len(rows)


def test_pytest_benchmark_loads_the_file_of_a_run_without_tests(tmp_path: Path) -> None:
    storage = pytest.importorskip("pytest_benchmark.storage.file")
    (tmp_path / "0001_ours.json").write_text(exported("pytest-benchmark", NONE), "utf-8")

    loaded = list(storage.FileStorage(tmp_path, logger=None).load(str(tmp_path / "0001_ours.json")))

    assert [data["benchmarks"] for _, data in loaded] == [[]]


@pytest.mark.parametrize("results", ALL)
def test_github_action_benchmark_finds_what_its_pytest_tool_takes(results: Results) -> None:
    """Its extract.ts takes `fullname` and these four of `stats`, and writes the first into its chart."""
    for one in benchmarks(results):
        assert isinstance(one["fullname"], str)
        assert all(isinstance(one["stats"][name], int | float) for name in ("ops", "stddev", "mean", "rounds"))


# -- Bencher -----------------------------------------------------------------------------------------------------------

BMF: Final = {
    "$id": "https://bencher.dev/bmf.json",
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                }
            },
        }
    },
}
"""As Bencher publishes it."""


@pytest.mark.parametrize("results", ALL)
def test_bencher_metric_format_is_as_its_schema_wants(results: Results) -> None:
    document = json.loads(exported("bencher", results))

    jsonschema.Draft7Validator(BMF).validate(document)
    assert all(1 <= len(name) <= 1024 for name in document)
    for measures in document.values():
        assert all(len(name) <= 64 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in measures)


def test_bencher_gets_the_ends_of_the_processes() -> None:
    measures = json.loads(exported("bencher", ONE))["t.py::test_a[1]"]

    assert measures["latency-p50-ms"] == {"value": 10.5, "lower_value": 10.0, "upper_value": 11.0}
    assert measures["memcpy"] == {"value": 0.0}


def test_two_names_that_are_too_long_for_bencher_stay_two() -> None:
    tests = [test_of("t.py::" + "x" * 1024 + end, session_outcome()) for end in "ab"]

    names = list(json.loads(exported("bencher", Results(runs=(run(*tests),)))))

    assert [len(name) for name in names] == [1024, 1024]
    assert len(set(names)) == 2
    exact = test_of("y" * 1024, session_outcome())
    assert list(json.loads(exported("bencher", Results(runs=(run(exact),))))) == ["y" * 1024]


# -- github-action-benchmark -------------------------------------------------------------------------------------------

CUSTOM: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
    },
}
"""Its `BenchmarkResult`, without the coercion of other types."""


@pytest.mark.parametrize("form", ["customSmallerIsBetter", "customBiggerIsBetter"])
@pytest.mark.parametrize("results", ALL)
def test_the_custom_forms_are_as_their_reader_wants(results: Results, form: str) -> None:
    entries = json.loads(exported(form, results))

    jsonschema.Draft202012Validator(CUSTOM).validate(entries)
    names = [entry["name"] for entry in entries]
    assert len(set(names)) == len(names)


def test_each_direction_has_a_file_and_tails_have_none() -> None:
    def labels(form: str) -> set[str]:
        return {entry["name"].rpartition(" - ")[2] for entry in json.loads(exported(form, everything()))}

    smaller, bigger = labels("customSmallerIsBetter"), labels("customBiggerIsBetter")
    assert {"latency p50", "TTFT", "memcpy", "decode memcpy", "peak RSS", "model size"} <= smaller
    assert {"decode throughput", "speed-up", "throughput"} <= bigger
    assert not smaller & bigger
    assert not [
        label for label in smaller | bigger if "p99" in label or "p90" in label or label.endswith((" min", "max"))
    ]


def test_a_range_is_what_the_action_reads_as_one() -> None:
    (entry,) = [e for e in json.loads(exported("customSmallerIsBetter", ONE)) if e["name"].endswith("p50")]

    assert entry["range"] == "± 0.5"


# -- OpenMetrics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("results", ALL)
def test_the_parser_of_prometheus_reads_the_openmetrics_text(results: Results) -> None:
    text = exported("openmetrics", results)

    families = list(text_string_to_metric_families(text))

    assert text.endswith("# EOF\n")
    samples = [sample for family in families for sample in family.samples]
    rows = [row for subject in subjects_of(results) for row in rows_of(subject)]
    measured = [subject for subject in subjects_of(results) if subject.comparison is None]
    assert len(samples) == len(rows) + len(measured)
    assert all(family.type == "gauge" and family.unit in family.name for family in families)


def test_openmetrics_has_base_units_and_three_digits() -> None:
    families = {family.name: family for family in text_string_to_metric_families(exported("openmetrics", everything()))}

    assert families["onnxperf_latency_p50_seconds"].samples[0].value == 0.0105
    assert families["onnxperf_peak_rss_bytes"].samples[0].value == 268e6
    assert families["onnxperf_decode_throughput_tokens_per_second"].samples[0].value == 500
    assert families["onnxperf_speedup_ratio"].samples[0].value == 1.11
    assert [sample.value for sample in families["onnxperf_failed"].samples] == [0, 1, 1, 0, 0, 0]
    assert "onnxperf_nodes" in families


def test_hostile_names_come_through_openmetrics_on_one_line() -> None:
    text = exported("openmetrics", everything())

    (sample,) = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name == "onnxperf_ttft_seconds"
    ]
    assert "<script>alert('1')</script>\"" in sample.labels["model"]
    assert "\n" in sample.labels["model"]
    assert len(text.split("\n")) == len(text.splitlines()) + 1, "no other character breaks a line"
    assert "\u202e" not in text


# -- CSV ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("results", ALL)
def test_csv_has_a_row_for_each_quantity(results: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(exported("csv", results), newline="")))

    expected = [row for subject in subjects_of(results) for row in rows_of(subject)]
    assert [(row["test"], row["metric"], float(row["value"])) for row in rows] == [
        (row.subject.title, row.name, row.value) for row in expected
    ]


def test_a_row_says_when_where_and_of_what() -> None:
    rows = list(csv.DictReader(io.StringIO(exported("csv", everything()), newline="")))

    first = rows[0]
    assert tuple(first) == COLUMNS
    assert first["time"] == "2026-12-02T08:00:00.000+00:00"
    assert (first["commit"], first["branch"], first["environment"]) == ("1" * 40, "main", "amd-epyc-7763-2c.cpu")
    assert (first["metric"], first["unit"], first["better"]) == ("latency_p50", "ms", "less")
    assert (first["low"], first["high"], first["processes"]) == ("10.0", "11.0", "2")
    assert HOSTILE in {row["model"] for row in rows}


def test_rows_alone_can_be_appended_to_a_file_with_a_header() -> None:
    history = exported("csv", ONE) + exported("csv", ONE, with_header=False)

    rows = list(csv.DictReader(io.StringIO(history, newline="")))
    assert len(rows) == 2 * len(list(csv.DictReader(io.StringIO(exported("csv", ONE), newline=""))))
