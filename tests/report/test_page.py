"""The page of results as text: what is in it, that no name becomes markup, that it asks for nothing, and its bounds."""

from __future__ import annotations

import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from typing import Final

import pytest
from msgspec import structs

from pytest_onnxperf.core.results import Results, Run, Test
from pytest_onnxperf.report.html import assets
from pytest_onnxperf.report.html.history import entries_of
from pytest_onnxperf.report.html.markup import Markup, element, island, joined, long_table, table
from pytest_onnxperf.report.html.page import page
from pytest_onnxperf.report.html.states import chip, state_of
from tests.results import HOSTILE, everything, run, session_outcome, test_of

FROM_NPM: Final = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of these files in the package uplot 1.6.32, npm SHA-1 c800a63b432bad692d6d746f44f0882aa73a49ae."""


class Parsed(HTMLParser):
    """The elements of a page, with what a browser without scripts finds in <noscript>."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def one(*tests: Test, **changes: object) -> Results:
    return Results(runs=(run(*tests, **changes),))


def words(text: str) -> str:
    """What a reader sees of a page, on one line."""
    shown = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.mark.parametrize("name", FROM_NPM)
def test_the_library_of_the_plots_is_as_it_is_on_npm_with_its_licence(name: str) -> None:
    content = files("pytest_onnxperf.report.html") / "assets" / name

    assert hashlib.sha256(content.read_bytes()).hexdigest() == FROM_NPM[name]


def test_the_page_carries_licence_and_version_of_the_library() -> None:
    text = page([everything()])

    assert "Permission is hereby granted, free of charge" in text
    assert "(v1.6.32)" in text
    assert "uPlot 1.6.32" in words(text)


def test_the_page_names_no_address_to_fetch_and_its_policy_allows_its_own_scripts_alone() -> None:
    text = page([everything()])

    parsed = Parsed(text)
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
    (meta,) = [each for each in parsed.of("meta") if each.get("http-equiv")]
    policy = meta["content"] or ""
    assert policy.startswith(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-"
    )
    assert "unsafe" not in policy
    assert "http" not in policy
    assert policy.count("'sha256-") == len(assets.SCRIPTS) + len(assets.STYLES)


def test_no_name_out_of_a_model_or_a_test_becomes_an_element() -> None:
    text = page(
        [everything(), one(test_of(HOSTILE, session_outcome(), message=HOSTILE, outcome="failed"), branch=HOSTILE)]
    )

    assert "<script>alert" not in text
    scripts = Parsed(text).of("script")
    assert {each.get("type") for each in scripts} == {None, "application/json"}
    assert sum(each.get("type") is None for each in scripts) == len(assets.SCRIPTS)
    assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;" in text
    for mark in ("\u202e", "\u200f", "\u2028"):
        assert mark not in text
    assert r"\u202e\u200f" in text  # the marks that turn the direction of writing can be seen


def test_data_of_a_plot_cannot_end_its_element_and_reads_back_as_it_was() -> None:
    given = {"x": "</script><!-- & \u2028\u2029", "y": [1.5, None]}

    written = island(given)

    inner = written.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert not set("<>&\u2028\u2029") & set(inner)
    assert json.loads(inner) == given


def test_text_is_escaped_unless_it_was_made_by_an_element() -> None:
    made = element("b", "<i>")

    assert joined([made, "<", None, f"{made}"]) == "<b>&lt;i&gt;</b>&lt;&lt;b&gt;&amp;lt;i&amp;gt;&lt;/b&gt;"
    assert element("p", title='"><x') == '<p title="&quot;&gt;&lt;x"></p>'
    assert isinstance(table("c", ("a", "b>"), [("1", None)]), Markup)


def test_a_table_of_thirteen_rows_is_whole_and_of_more_the_rest_is_folded() -> None:
    def rows(count: int) -> list[list[str | None]]:
        return [[str(number), "x"] for number in range(count)]

    assert "<details" not in long_table("t", ("n", "x"), rows(13), "rows")
    assert "<summary>2 more rows</summary>" in long_table("t", ("n", "x"), rows(14), "rows")


def test_every_part_of_the_file_is_on_the_page() -> None:
    shown = words(page([everything()]))

    for text in (
        "1 of 8 tests fails; 1 skipped",
        "max_ttft_ms: 42 ms, budget at most 10 ms",
        "+320 % against the budget",
        "decode throughput 900 -> 500 tok/s (-44 %)",
        "The baseline can see slowdowns of",
        "Unfused attention in 1 node",  # advice
        "Prefill",
        "Decode",
        "244 more operators",
        "44 more rows were left out of the file.",
        "1 x unfused and not Flash: head size 300",
        "2 x Reshape (com.microsoft 24): CUDAExecutionProvider has no kernel for it",
        "Only suspected, without the optimised graph: it was not written",
        "Ceilings of NVIDIA H200 (datasheet): float16 990 TFLOP/s, memory 4.8 TB/s.",
        "onnxruntime 1.31.0 \N{RIGHTWARDS ARROW}",  # what differs from the environment of the baseline
        "max_length 256 \N{RIGHTWARDS ARROW} 512",
        "revision main (1a2b3c4)",
        "speed-up 1.1",
        "min_speedup=1.05",
        "not compared: off",
        "The facts cannot be told, and a count is only what was seen: the profile was cut off",
        "h200.cuda, facts alone",
        "demands CUDA",
        "Meanwhile other processes used 50 %.",
        "/tmp/profile.json",
    ):
        assert text in shown, text


def test_the_worst_test_comes_first_and_failing_ones_before_all_others() -> None:
    ids = [f"t.py::test_{word}" for word in ("passed", "skipped", "error", "failed")]
    tests = [Test(nodeid=nodeid, outcome=nodeid.rpartition("_")[2]) for nodeid in ids]  # type: ignore[arg-type]

    found = re.findall(r"<b>(test_\w+)</b>", page([one(*tests)]))

    assert found == ["test_error", "test_failed", "test_skipped", "test_passed"]


def test_a_state_is_a_word_and_a_failing_one_says_that_it_fails() -> None:
    assert words(chip("regressed")) == "\N{MULTIPLICATION X} regressed"
    assert words(chip("noisy", is_failing=True)) == "\N{MULTIPLICATION X} fails: noisy"
    assert words(chip("a word of a later version")) == "\N{EN DASH} a word of a later version"


def test_a_test_that_fails_by_an_error_is_failed_whatever_it_measured() -> None:
    measured = test_of("t.py::a", session_outcome(), outcome="failed")

    assert state_of(measured) == "failed"
    assert state_of(structs.replace(measured, is_breach=True)) == "no-baseline"
    assert state_of(structs.replace(measured, outcome="passed")) == "no-baseline"


def test_a_page_of_no_tests_says_so_and_what_to_look_for() -> None:
    for nothing in ([], [Results(runs=())], [one()]):
        shown = words(page(nothing))
        assert "No test that measures has ended." in shown
        assert "is --onnxperf missing?" in shown


def test_a_run_that_was_killed_says_that_it_did_not_come_to_its_end() -> None:
    shown = words(page([one(test_of("t.py::a", session_outcome()), is_complete=False)]))

    assert "The run of 2026-12-02 08:00:00 UTC did not come to its end" in shown


def test_beyond_its_size_a_page_has_lines_alone_and_says_of_how_many() -> None:
    tests = [test_of(f"t.py::test_{number}", session_outcome()) for number in range(20)]

    whole, bounded = page([one(*tests)]), page([one(*tests)], most_chars=1)

    assert "has the line alone" not in words(whole)
    assert whole.count('<details class="test"') == 20
    assert bounded.count('<details class="test"') == 1
    assert all(f"<b>test_{number}</b>" in bounded for number in range(20))
    assert "What opens is here for the 1 worst tests; of the other 19 a page of this size has the line alone." in words(
        bounded
    )


def days(*dates: str) -> list[Run]:
    tests = test_of("t.py::a", session_outcome()), Test(nodeid="t.py::b", outcome="passed")
    return [run(*tests, started=f"2026-12-{date}T08:00:00.000+00:00", commit=date * 20) for date in dates]


def test_of_several_runs_the_newest_is_shown_and_each_metric_has_its_history() -> None:
    runs = days("03", "01", "02")

    text = page([Results(runs=(each,)) for each in runs])

    (entry, _) = entries_of([Results(runs=tuple(runs))])
    assert entry.run.started.startswith("2026-12-03")
    assert [old.started[8:10] for old, _ in entry.earlier] == ["01", "02"]
    assert text.count('<details class="test"') == 2
    shown = words(text)
    assert "Metrics of 3 runs, newest first" in shown
    assert shown.index("2026-12-03 08:00:00 030303030") < shown.index("2026-12-01 08:00:00 010101010")
    plots = [json.loads(each) for each in re.findall(r'application/json">(.*?)</script>', text)]
    latency = next(each for each in plots if each["kind"] == "history" and each["title"].startswith("latency p50"))
    assert latency["commits"] == ["010101010", "020202020", "030303030"]
    assert len(latency["series"][0]["y"]) == 3


def test_one_run_has_no_history_and_a_file_given_twice_changes_nothing() -> None:
    (only,) = days("01")

    once, twice = page([Results(runs=(only,))]), page([Results(runs=(only,)), Results(runs=(only,))])

    assert once == twice
    assert "History" not in words(once)


def test_two_files_of_one_run_are_put_together_and_a_test_in_both_is_there_once() -> None:
    one_test, other = (test_of(f"t.py::{name}", session_outcome()) for name in "ab")
    halves = [Results(runs=(run(one_test),)), Results(runs=(run(one_test, other),))]

    found = entries_of(halves)

    assert [(entry.test.nodeid, len(entry.earlier)) for entry in found] == [("t.py::a", 0), ("t.py::b", 0)]


def test_a_test_on_two_devices_is_two_and_one_that_measured_nothing_belongs_to_the_only_device() -> None:
    (first, second, third) = days("01", "02", "03")
    measured = first.tests[0].measurements[0]
    there = structs.replace(measured, environment=structs.replace(measured.environment, key="h200.cuda"))
    elsewhere = structs.replace(second, tests=(structs.replace(first.tests[0], measurements=(there,)),))
    failed = structs.replace(third, tests=(Test(nodeid="t.py::a", outcome="error"),))

    two = entries_of([Results(runs=(first, elsewhere))])
    joined_up = entries_of([Results(runs=(first, failed))])

    assert [entry.test.nodeid for entry in two] == ["t.py::a", "t.py::b", "t.py::a"]
    assert [(entry.test.outcome, len(entry.earlier)) for entry in joined_up] == [("error", 1), ("passed", 0)]


def test_what_was_upgraded_between_two_runs_is_said() -> None:
    old, new = days("01", "02")
    measured = new.tests[0].measurements[0]
    upgraded = structs.replace(measured.environment, versions={**measured.environment.versions, "onnxruntime": "9.9.9"})
    new = structs.replace(
        new, tests=(structs.replace(new.tests[0], measurements=(structs.replace(measured, environment=upgraded),)),)
    )

    assert "2026-12-02 08:00:00: onnxruntime 1.32.0 to 9.9.9." in words(page([Results(runs=(old, new))]))
