"""`onnxperf reference` is complete: what pytest is told, and what reports say, is in it with its meaning."""

from __future__ import annotations

import re
from typing import Final

import pytest

from pytest_onnxperf import cli
from pytest_onnxperf.core.budget_keys import KEYS
from pytest_onnxperf.core.metrics import METRICS
from pytest_onnxperf.core.states import Limit, State
from pytest_onnxperf.declare import OPTIONS
from pytest_onnxperf.reference_command import TOPICS, lines
from pytest_onnxperf.report.reference import Table, markdown_lines, text_lines

TABLES: Final = {topic: make() for topic, make in TOPICS.items()}


def column(topic: str, head: str) -> list[str]:
    table = TABLES[topic]
    return [row[table.head.index(head)] for row in table.rows]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["reference", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("topic", TOPICS)
def test_every_row_has_a_name_and_a_meaning_of_its_own(topic: str) -> None:
    table = TABLES[topic]
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.head)}
    names, meanings = [row[0] for row in table.rows], [row[-1] for row in table.rows]
    assert len(set(names)) == len(names)
    assert len(set(meanings)) == len(meanings)
    for row in table.rows:
        assert row[0].strip()
        assert len(row[-1].split()) >= 2, row
        assert not any("\n" in cell for cell in row)


def test_every_option_and_ini_key_that_pytest_knows_is_there(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_subprocess("--help").stdout.str()
    flags = set(re.findall(r"^  (--onnxperf[\w-]*)", text, re.MULTILINE))
    keys = set(re.findall(r"^  (onnxperf_\w+) \(", text, re.MULTILINE))
    assert len(flags) > 20
    assert len(keys) > 15
    assert set(column("options", "option")) == flags
    assert set(column("options", "ini")) - {""} == keys


def test_every_key_that_a_marker_takes_is_there(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_subprocess("--markers").stdout.str()
    budgets, options = (
        set(re.search(rf"@pytest\.mark\.{name}.*? Keys: ([\w, ]+)", text)[1].split(", "))  # type: ignore[index]
        for name in ("onnx_budget", "onnx_measure")
    )
    assert set(column("budgets", "key")) == budgets == {key.name for key in KEYS}
    in_marker = [row[0] for row in TABLES["options"].rows if row[3] == "yes"]
    assert {flag.removeprefix("--onnxperf-").replace("-", "_") for flag in in_marker} == options


def test_the_default_of_every_option_is_said() -> None:
    shown = dict(zip(column("options", "option"), column("options", "default"), strict=True))
    for option in OPTIONS:
        expected = "off" if option.kind == "flag" else str(option.default)
        assert shown[option.flag] in ((expected,) if expected else ("none", "found"))
        meaning = next(row[-1] for row in TABLES["options"].rows if row[0] == option.flag)
        assert all(choice in meaning for choice in option.choices)


def test_every_metric_is_there_with_its_unit_direction_gate_and_source() -> None:
    assert [row[:4] for row in TABLES["metrics"].rows] == [(m.label, m.stored_name, m.unit, m.better) for m in METRICS]
    for metric, gated, source in zip(METRICS, column("metrics", "gated"), column("metrics", "from"), strict=True):
        assert gated.startswith("yes" if metric.gated else "no")
        assert (f"{metric.slack:g}" in gated) is bool(metric.slack)
        assert source


def test_every_metric_that_a_budget_judges_names_it() -> None:
    labels = {metric.name: metric.label for metric in METRICS}
    judged = dict(zip(column("budgets", "key"), column("budgets", "judges"), strict=True))
    for key in KEYS:
        assert judged[key.name] == labels.get(key.judges, key.judges)


def test_every_state_is_there() -> None:
    assert column("states", "state") == [str(state) for state in State]
    assert column("limits", "state") == [str(limit) for limit in Limit]


def test_a_word_is_found_by_itself() -> None:
    assert State("no-baseline") is State.NO_BASELINE
    assert Limit("held") is Limit.HELD
    assert "ok" in {State.OK: 1}
    assert not State.OK.meaning.startswith("ok")


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_all_topics_or_one(capsys: pytest.CaptureFixture[str]) -> None:
    every = printed(capsys)
    for topic, table in TABLES.items():
        one = printed(capsys, topic)
        assert one.startswith(f"{table.title}\n")
        assert one in every
        assert f"\n  {table.rows[-1][0]}" in one
    assert max(map(len, every.splitlines())) <= 78


def test_the_names_of_topics_are_those_that_help_shows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["reference", "--help"])
    assert ", ".join(TOPICS) in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit, match="2"):
        cli.main(["reference", "metric"])


def test_markdown_is_tables_whose_every_row_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    cmarkgfm = pytest.importorskip("cmarkgfm")
    html = cmarkgfm.github_flavored_markdown_to_html(printed(capsys, "--markdown"))
    assert html.count("<table>") == html.count("<h3>") == len(TABLES)
    assert html.count("<td>") == sum(len(table.rows) * len(table.head) for table in TABLES.values())
    assert "<code>--onnxperf-ep</code>" in html


def test_a_table_reads_like_this() -> None:
    table = Table("Things", "All of them.", ("thing", "unit", "what"), (("a|b", "ms", "First"), ("c", "", "Second")))
    assert list(text_lines([table])) == [
        "Things", "All of them.", "", "  a|b   (unit ms)", "      First", "", "  c", "      Second",
    ]  # fmt: skip
    assert list(markdown_lines([table])) == [
        "### Things", "", "All of them.", "", "| thing | unit | what |", "| --- | --- | --- |",
        "| `a\\|b` | ms | First |", "| `c` |  | Second |",
    ]  # fmt: skip


def test_lines_of_a_topic_are_its_table() -> None:
    assert list(lines("states", as_markdown=False)) == list(text_lines([TABLES["states"]]))
