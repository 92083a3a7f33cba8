"""One self-contained page of results: readable without a script, and with one searched, sorted and drawn.

Worst tests come first. A page has a line for every test, and what opens under it for as many as `MOST_CHARS` allow: the
worst. It says how many it left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .assets import LICENSE, SCRIPTS, STYLES, inline, policy, read
from .entry import body, line, models_of
from .history import Entry, entries_of, runs_of
from .markup import Markup, element, joined
from .overview import controls, header
from .states import severity, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results import Results

MOST_CHARS: Final = 24_000_000
"""Of what opens under the lines of tests. A choice: enough for 500 tests of 40 kB; two cores that are busy with other
work open a page of it and 2000 lines in two seconds, of it and 10 000 lines in four to six (measured)."""
MANY: Final = 100
"""Beyond so many tests what opens is text until it is opened, and lines out of sight are not laid out: 500 tests of 400
elements each took 1.5 s to open, and take 0.4 s so (measured). Fewer are whole, for the browser's own search and for
viewers that let no script run."""


def page(files: Sequence[Results], most_chars: int = MOST_CHARS) -> str:
    """Return the page of one file of results, or of several, which give each metric its history.

    Args:
        files: In any order; the newest run of a test is the one that is shown.
        most_chars: Of details in all; tests beyond it have their line alone.
    """
    entries = sorted(entries_of(files), key=lambda entry: severity(entry.test))
    runs = [run for run, _ in runs_of(files)]
    newest = runs[-1].started if runs else ""
    many = "many" if len(entries) > MANY else None
    content = [
        element("a", "To the tests", href="#tests", class_="skip"),
        header(entries, runs),
        controls(entries) if entries else None,
        element("p", "Plots and the filter need JavaScript; every number is in a table.", class_="note no-script"),
        element("main", *_tests(entries, newest, most_chars), id="tests", tabindex="-1", class_=many),
        _footer(),
    ]
    return _document(joined(content))


def _tests(entries: Sequence[Entry], newest: str, most_chars: int) -> Iterator[Markup]:
    left_chars, left_out = most_chars, 0
    for number, entry in enumerate(entries, 1):
        content = body(entry, newest) if left_chars > 0 else None
        left_chars -= len(content or "")
        left_out += content is None
        yield _test(entry, content, f"t{number}", len(entries))
    if left_out:
        shown = len(entries) - left_out
        yield element(
            "p",
            f"What opens is here for the {shown} worst tests; of the other {left_out} a page of this size has the line "
            "alone. Their results are in the file of --onnxperf-json: run fewer tests (pytest -k, or a path), or make "
            "a page of each shard.",
            class_="note",
        )


def _test(entry: Entry, content: Markup | None, id_: str, count: int) -> Markup:
    shown, state, found_by = line(entry), state_of(entry.test), " ".join(dict.fromkeys(models_of(entry.test)))
    if content is None:
        return element("div", shown, class_="test line", id=id_, data_state=state, data_find=found_by)
    summary = element("summary", shown, class_="line")
    inner = element("noscript", content) if count > MANY else content
    return element(
        "details", summary, inner, class_="test", id=id_, data_state=state, data_find=found_by, open=count == 1
    )


def _footer() -> Markup:
    terms = "Plots by uPlot 1.6.32, under the MIT licence:"
    keys = "Keys: / filter, Esc clear, \N{UPWARDS ARROW} \N{DOWNWARDS ARROW} between tests, Enter open and close."
    licence = element("details", element("summary", terms), element("pre", read(LICENSE)), class_="fold")
    return element("footer", element("p", keys, class_="keys"), licence)


def _document(content: Markup) -> str:
    styles, scripts = [read(name) for name in STYLES], [read(name) for name in SCRIPTS]
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(styles, scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", "onnxperf results"),
        *(inline("style", each) for each in styles),
    ]
    last = [inline("script", each) for each in scripts]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', content, *last), lang='en')}\n"
