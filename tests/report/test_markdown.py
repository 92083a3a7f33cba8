"""The page of Markdown: what it says, its order and its sizes, and names that would be markup."""

from __future__ import annotations

import html
import re
from typing import Any, Final

import pytest

from pytest_onnxperf.core.ab import AaSensor, Outputs
from pytest_onnxperf.core.against import Against, turns_of
from pytest_onnxperf.core.outcome import Outcome, ReportedTest
from pytest_onnxperf.core.paired import Paired, ReferenceSpec
from pytest_onnxperf.report.markdown import MOST_ROWS, Session, page
from pytest_onnxperf.report.markdown_text import code, cut, fenced
from tests.records import MS, environment, facts, record
from tests.reported import baseline, compared, held, outcome, over, reported, unmeasured

ROOM: Final = 1 << 20
HOSTILE: Final = (
    "test_a[a|b]", "test_a[`x`]", "test_a[```]", "test_a[\\|]", "test_a[<script>alert(1)</script>]", "a\nb\r\nc",
    "test_a[\u202eevil]", "test_a[\u200b\u2066]", "&lt;b&gt;&#124;", "</details>", "**bold** _x_ ~~y~~", "[a](http://b.c)",
    "http://evil.example www.evil.example", "@octocat #1", "<!-- ", " x ", "\udcff", "| --- |", "é ü 名前", "x" * 5000,
)  # fmt: skip


def shown(*tests: ReportedTest, most_bytes: int = ROOM, **changes: Any) -> str:
    return page(Session(tests, changes.pop("tests_run", len(tests)), **changes), most_bytes)


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [line[2:-2].split(" | ") for line in lines]


def names(text: str) -> list[str]:
    return [row[0] for row in rows(text)]


def rendered(text: str) -> str:
    """As GitHub's own parser renders it, with the HTML that is in it."""
    cmarkgfm = pytest.importorskip("cmarkgfm")
    options = pytest.importorskip("cmarkgfm.cmark").Options
    made: str = cmarkgfm.github_flavored_markdown_to_html(text, options.CMARK_OPT_UNSAFE)
    return made


# -- what it says ------------------------------------------------------------------------------------------------------


def test_a_page_of_a_regression_reads_like_this() -> None:
    slow = reported(outcome("test_slow", metrics={"latency_p50": (15.0 * MS,) * 3}, found=baseline()))

    assert shown(slow, held()) == (
        "### onnxperf: 1 of 2 tests failed by performance\n"
        "\n"
        "2 measurements; budgets: 1 held; against baselines: 1 regressed, 17 ok\n"
        "\n"
        "| test | state | what | now | baseline | change [interval] | memcpy a run | attention |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        "| `tests/test_a.py::test_slow` | **regressed** | `regressed: latency p50 10 -> 15 ms (+50 %)` "
        "| latency p50 15 ms | 10 ms | +50 % [+39 % to +62 %] | 0 | none |\n"
        "| `tests/test_a.py::test_held` | ok |  | latency p50 10 ms | 10 ms | 0 % [-7.2 % to +7.8 %] | 0 | none |\n"
        "\n"
        "<details><summary><code>tests&#47;test&#95;a&#46;py&#58;&#58;test&#95;slow</code></summary>\n"
        "\n"
        "```text\n"
        "tests/test_a.py::test_slow is over budget\n"
        "a.onnx\n"
        "\n"
        "  over budget  it\n"
        "\n"
        "What to do\n"
        "- less\n"
        "```\n"
        "\n"
        "</details>\n"
        "\n"
        "<details><summary>Environment and remarks</summary>\n"
        "\n"
        "```text\n"
        "CPUExecutionProvider on AMD EPYC 7763, 2 cores\n"
        "  onnxruntime 1.32.0\n"
        "test_slow: latency p50 +50 % since its first record of 2026-11-30\n"
        "```\n"
        "\n"
        "</details>\n"
    )


def test_the_worst_comes_first() -> None:
    slow = {"latency_p50": (20.0 * MS,) * 3}
    tests = [
        held(),
        reported(outcome("test_new")),
        reported(outcome("test_unknown", limits={"max_load_ms": 5})),
        reported(outcome("test_own"), ended="failed", is_breach=False, message="assert 0"),
        reported(outcome("test_slow", metrics={"latency_p50": (15.0 * MS,) * 3}, found=baseline())),
        reported(outcome("test_slower", metrics=slow, found=baseline())),
        over("test_over", 2),
        over("test_far_over", 9),
        unmeasured("skipped", "needs a GPU"),
        unmeasured("error", "no model", nodeid="tests/test_a.py::test_error"),
    ]
    found = [re.sub(r".*::(\w+).*", r"\1", name) for name in names(shown(*tests))[1:]]
    assert found == [
        "test_far_over", "test_over", "test_slower", "test_slow", "test_unknown", "test_error", "test_own", "test_none",
        "test_new", "test_held",
    ]  # fmt: skip


def test_a_state_is_bold_where_it_fails_and_says_what_else_failed() -> None:
    own = reported(outcome(found=baseline()), ended="failed", is_breach=False, message="assert 0")
    expected = reported(outcome(limits={"max_memcpy": 1}, of=facts(memcpy=2)), ended="xfailed")
    states = [row[1] for row in rows(shown(over("test_over", 2), own, expected, held()))[1:]]
    assert states == ["**over budget**", "ok, **test failed**", "over budget, test xfailed", "ok"]


def test_the_headline_counts_what_else_is_broken() -> None:
    two = outcome(limits={"max_memcpy": 1, "max_nodes": 1}, of=facts(memcpy=9))
    assert rows(shown(reported(two)))[1][2] == "`max_memcpy: 9 a run, budget at most 1 (and 1 more)`"


def test_what_cannot_be_told_is_a_question_mark() -> None:
    (row,) = rows(shown(reported(outcome(of=facts(unavailable="no run was profiled")))))[1:]
    assert row[6] == "?"


def test_a_generator_shows_both_of_its_times_and_a_throughput_that_falls() -> None:
    """Tokens a second, judged by the time of a token beside a reference workload, which rises."""
    specs = {"compute": ReferenceSpec({"extent": 32}, 1, "1")}
    machines = (1.0, 1.3, 0.9, 1.2, 1.05)  # of another speed in each process, which both sides feel
    pairs = tuple(Paired(10 * MS * each, {"compute": 3 * MS * each}, 0.05, specs) for each in machines)
    speed = "decode_throughput"
    old = baseline(1 / MS, speed, paired={speed: pairs})
    slower = tuple(Paired(12.5 * MS * each, {"compute": 3 * MS * each}, 0.05, specs) for each in machines[:3])
    new = {"ttft": (80.0 * MS,), speed: (8.0, 8.0, 8.0)}
    text = shown(reported(outcome(metrics=new, found=old, paired={speed: slower})))

    (row,) = rows(text)[1:]
    assert row[3:5] == ["TTFT 80 ms<br>decode throughput 8 tok/s", "-<br>10 tok/s"]
    first, low, high = re.findall(r"-\d[\d.]* %", row[5])
    assert first == "-20 %"
    assert -22 < float(low.split()[0]) <= -20 <= float(high.split()[0]) < -18
    assert "A change of a time is that of its ratio to a reference workload" in text
    assert "reference workload" not in shown(held())


def test_under_against_the_reference_takes_the_baseline_s_place() -> None:
    timed = turns_of("latency_p50", [[(10 * MS, 12 * MS)] * 20], 0, 1.02)
    made = outcome()
    text = shown(reported(Outcome(made.record, made.verdict, against=Against("revision main", timed=(timed,)))))
    assert rows(text)[0][4] == "reference"
    assert "--onnxperf-update` records" not in text


def test_a_comparison_has_its_ratio_and_what_was_required() -> None:
    slow = reported(comparisons=(compared("test_pays", 1.25, least=1.5),))
    noisy = compared("test_noisy", 0.5, sensor=AaSensor(1.05, is_noisy=True), outputs=Outputs("differ", "`y`"))
    text = shown(reported(comparisons=(noisy,)), slow)
    head, first, second = rows(text)
    assert head[0] == "A/B comparison"
    assert first[1:] == ["**broken**", "1.25x slower [1.25 to 1.25]", "`min_speedup=1.5: broken`", "equal", "-"]
    assert second[1] == "outputs differ"
    assert second[4] == "differ"
    assert "noisy: the reference against itself" in second[5]
    assert text.startswith("### onnxperf: 1 of 2 tests failed by performance\n")


def test_the_remarks_of_the_summary_are_there() -> None:
    warned = reported(outcome(warnings=("the model is not what it was",)))
    assert "test_a: the model is not what it was" in shown(warned)
    assert "1 test has no baseline for amd-epyc-7763-2c.cpu: run --onnxperf-update" in shown(warned)


# -- what must not look green ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "tests_run", "why"),
    [
        ((), 0, "No test ran."),
        ((), 7, "No test that measures is among the 7 that ran."),
        (
            (unmeasured("skipped", "no GPU"),),
            7,
            "What was to be measured was skipped, failed or was interrupted before.",
        ),
    ],
)
def test_a_session_that_measured_nothing_says_so_in_bold(
    tests: tuple[ReportedTest, ...], tests_run: int, why: str
) -> None:
    text = shown(*tests, tests_run=tests_run)
    assert text.startswith(f"### onnxperf: nothing was measured\n\n**Nothing was measured.** {why}\n")


def test_what_had_nothing_to_compare_with_is_counted_in_bold() -> None:
    text = shown(reported(outcome()), held())
    assert text.startswith("### onnxperf: 2 tests, none failed, not all was judged\n")
    assert "**1 of 2 measurements compared with nothing**" in text
    assert "compared with nothing" not in shown(held())


@pytest.mark.parametrize(
    ("test", "title"),
    [
        (held(), "1 test within budget and baseline"),
        (reported(outcome()), "1 test, none failed, not all was judged"),
        (reported(outcome(found=baseline(), of=facts(nodes=3))), "1 test, none failed, not all was judged"),
        (
            reported(outcome(limits={"max_load_ms": 5}, found=baseline(), policy={"unverifiable": "pass"})),
            "1 test, none failed, not all was judged",
        ),
        (reported(comparisons=(compared("test_ab", 0.5),)), "1 test, none failed, not all was judged"),
        (reported(comparisons=(compared("test_ab", 0.5, least=1.5),)), "1 test within budget and baseline"),
        (unmeasured("failed", "no model"), "1 of 1 test failed, none by performance"),
        (over("test_over", 2), "1 of 1 test failed by performance"),
        (over("test_over", 2, ended="xfailed"), "1 test, none failed, not all was judged"),
    ],
)
def test_the_title_says_how_it_went(test: ReportedTest, title: str) -> None:
    assert shown(test).splitlines()[0] == f"### onnxperf: {title}"


def test_a_session_that_stopped_says_so() -> None:
    assert "**The session did not come to its end: it was interrupted.**" in shown(held(), stopped="it was interrupted")
    assert "come to its end" not in shown(held())


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (("updated: a.json", "  test_a: new"), "updated: a.json\n  test_a: new\n"),
        (tuple(f"line {n}" for n in range(61)), "line 59\n... and 1 more lines\n"),
        (tuple(f"line {n}" for n in range(60)), "line 59\n```"),
    ],
)
def test_an_update_says_what_was_recorded(recorded: tuple[str, ...], said: str) -> None:
    text = shown(reported(outcome()), recorded=recorded)
    assert "**Recorded**\n\n```text\n" in text
    assert said in text
    assert "compared with nothing" not in text


@pytest.mark.parametrize(("tests", "is_said"), [(5, False), (6, True)])
def test_details_that_are_left_out_are_counted(tests: int, is_said: bool) -> None:
    text = shown(*(over(f"test_{number}", 2) for number in range(tests)))
    assert text.count("<details>") == 5 + 1
    assert ("What pytest says of 1 more test that failed is left out here." in text) is is_said


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1, 50])
def test_at_most_200_rows_are_shown_and_the_rest_is_counted(more: int) -> None:
    tests = [held(f"test_{number:03}") for number in range(MOST_ROWS + more)]
    text = shown(*tests)
    assert len(rows(text)) - 1 == MOST_ROWS
    left = f"**{more} row{'s' if more != 1 else ''} left out**: none is worse than the last one here."
    assert (left in text) is (more > 0)
    assert ("left out" in text) is (more > 0)


def test_comparisons_and_measurements_share_the_rows() -> None:
    measured = [held(f"test_{number:03}") for number in range(MOST_ROWS)]
    pairs = [reported(comparisons=(compared(f"test_ab{number:03}", 0.5),)) for number in range(60)]
    text = shown(*measured, *pairs)
    assert len(rows(text)) - 2 == MOST_ROWS
    assert "**50 rows left out**" in text
    assert "**10 rows left out**" in text


def test_a_page_fits_into_the_bytes_it_is_given() -> None:
    tests = [over(f"test_{number}[{'é' * 300}]", number + 2) for number in range(250)]
    sizes = []
    for most_bytes in (ROOM, 60_000, 20_000, 5_000, 1_000, 400):
        text = shown(*tests, most_bytes=most_bytes)
        assert len(text.encode()) <= most_bytes
        assert text.startswith("### onnxperf: 250 of 250 tests failed by performance")
        assert "left out**" in text
        sizes.append(len(rows(text)))
    assert sizes[0] == 201
    assert sizes == sorted(sizes, reverse=True)
    least = len(shown(*tests, most_bytes=400).encode())
    assert shown(*tests, most_bytes=least)
    assert shown(*tests, most_bytes=least - 1) == ""


def test_the_worst_five_are_explained_and_long_texts_are_cut() -> None:
    text = shown(*[over(f"test_{n}", n + 2, message=f"failure of {n} " + "x" * 10_000) for n in range(6)])
    assert [n for n in range(6) if f"failure of {n} " in text] == [1, 2, 3, 4, 5]
    assert max(map(len, text.splitlines())) <= 6000


# -- names that would be markup ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_in_its_cell_and_stays_text(name: str) -> None:
    tests = [
        over(name, 2, message=f"{name}\n```\n</details>\n{name}", nodeid=name),
        reported(outcome("test_model", model=name, label=name, warnings=(name,))),
        unmeasured("skipped", name, nodeid=f"{name}::x"),
        reported(comparisons=(compared(name, 0.5, why_not=name, outputs=Outputs("differ", name)),)),
    ]
    text = shown(*tests, recorded=[name])

    assert [len(row) for row in rows(text)] == [8, 8, 8, 8, 6, 6]
    assert not re.search("[\u202e\u200b\u2066\r\udcff]", text)
    text.encode()
    without_blocks = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"</?([a-z]+)", without_blocks)) <= {"code", "br", "details", "summary"}


@pytest.mark.parametrize("name", HOSTILE)
def test_github_s_parser_makes_text_of_a_hostile_name(name: str) -> None:
    made = rendered(shown(over(name, 2, message=f"{name}\n</details>", nodeid=name), held()))

    cells = [html.unescape(re.sub(r"</?code>", "", cell)) for cell in re.findall(r"<td>(.*?)</td>", made, re.DOTALL)]
    assert len(cells) == 16
    visible = "".join(char if char.isprintable() else repr(char)[1:-1] for char in f"tests/test_a.py::{name}")
    assert cells[0].strip() == cut(visible, 200).strip()
    assert not re.search(r"<(script|a|b|em|del|img)\b", made)
    assert made.count("<table>") == 1
    assert made.count("<details>") == made.count("</details>") == 2


@pytest.mark.parametrize("text", ["a", "a`b", "```", "````", "`" * 10])
def test_a_fence_is_longer_than_what_it_holds(text: str) -> None:
    lines = fenced([text]).splitlines()
    fence = lines[0].removesuffix("text")
    assert lines == [f"{fence}text", text, fence]
    assert len(fence) >= 3
    assert fence not in text


def test_what_is_readable_as_it_is_stays_so() -> None:
    assert code("tests/test_a.py::TestB::test_c[x-1.5-é]#two") == "`tests/test_a.py::TestB::test_c[x-1.5-é]#two`"
    assert code("did you mean `max_memcpy`?") == "`` did you mean `max_memcpy`? ``"
    assert code("") == ""


@pytest.mark.parametrize(("length", "is_cut"), [(200, False), (201, True)])
def test_a_name_is_cut_in_its_middle(length: int, is_cut: bool) -> None:
    text = "".join(chr(97 + place % 26) for place in range(length))
    assert ("..." in code(text)) is is_cut
    assert text[-50:] in code(text)


def test_an_environment_is_named_once() -> None:
    text = shown(held("test_a"), held("test_b"), reported(outcome("test_c", environment=environment(device="Other"))))
    assert text.count("CPUExecutionProvider on AMD EPYC 7763, 2 cores") == 1
    assert text.count("CPUExecutionProvider on Other") == 1


def test_records_of_no_facts_have_a_row_too() -> None:
    assert record().facts is not None
    (row,) = rows(shown(reported(outcome(facts=None))))[1:]
    assert row[6:] == ["?", "?"]
