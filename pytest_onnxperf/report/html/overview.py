"""The head of the page: what ran where, how it came out in words, and the filter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .history import short_commit, started
from .markup import Markup, element, folded, table
from .states import chip, fails, kind_of, place, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results import Run, Test

    from .history import Entry


def header(entries: Sequence[Entry], runs: Sequence[Run]) -> Markup:
    """Return title, verdict, and the runs that the page is made of; the newest is told in full."""
    newest = runs[-1] if runs else None
    return element(
        "header",
        element("h1", "onnxperf results"),
        element("p", _verdict(entries), class_="verdict"),
        *(element("p", each, class_="note") for each in _notes(entries, runs)),
        element("p", _newest(newest)) if newest is not None else None,
        folded("Machine, versions and options", element("dl", *_facts(newest), class_="pairs")) if newest else None,
        _runs(runs) if len(runs) > 1 else None,
    )


def _verdict(entries: Sequence[Entry]) -> str:
    if not entries:
        return "No test that measures has ended."
    failed = sum(fails(entry.test) for entry in entries)
    skipped = sum(entry.test.outcome == "skipped" for entry in entries)
    parts = [
        f"{failed} of {_tests(len(entries))} fail{'s' if failed == 1 else ''}"
        if failed
        else f"None of {_tests(len(entries))} fails"
    ]
    if skipped:
        parts.append(f"{skipped} skipped")
    unjudged = sum(not fails(entry.test) and kind_of(state_of(entry.test)) in ("none", "warn") for entry in entries)
    if unjudged - skipped > 0:
        parts.append(f"{unjudged - skipped} passed with something that was not judged")
    return "; ".join(parts) + "."


def _tests(count: int) -> str:
    return f"{count} tests" if count != 1 else "1 test"


def _notes(entries: Sequence[Entry], runs: Sequence[Run]) -> Iterator[str]:
    if not entries:
        yield (
            "There is nothing to show: no test that uses onnx_session, genai_generator or onnx_compare ran to its end. "
            "Was it deselected, or is --onnxperf missing?"
        )
    for run in runs:
        if not run.is_complete:
            yield f"The run of {started(run)} UTC did not come to its end; the tests that are here had ended."
        elif run.stopped:
            yield f"The run of {started(run)} UTC did not come to its end: {run.stopped}."
        if run.uncollected:
            yield f"The run of {started(run)} UTC could not collect {', '.join(run.uncollected)}."
    if any(_measures_nothing(entry.test) for entry in entries):
        count = sum(_measures_nothing(entry.test) for entry in entries)
        yield f"{_tests(count)} measured nothing, being skipped or failing before."


def _measures_nothing(test: Test) -> bool:
    return not test.measurements and not test.comparisons


def _newest(run: Run) -> str:
    branch = f" on {run.branch}" if run.branch else ""
    commit = f"commit {short_commit(run)}{branch}" if run.commit else "outside a git repository"
    return f"Run of {started(run)} UTC, {run.duration_s:.0f} s, {commit}, machine {run.machine.node}."


def _facts(run: Run) -> Iterator[Markup]:
    machine = run.machine
    pairs = {
        "machine": f"{machine.node}: {machine.cpu}",
        "system": f"{machine.system} {machine.release}, {machine.architecture}, {machine.python}",
        "plugin": f"pytest-onnxperf {run.plugin_version}, pytest {run.pytest_version}",
        "options": _options(run) or "all as by default",
    }
    for name, value in pairs.items():
        yield element("div", element("dt", name), element("dd", value))


def _options(run: Run) -> str:
    """Return the options that change what is measured and judged, where they are set."""
    shown = ("ep", "against", "strict", "tolerance", "timing", "isolation", "max_time", "threads", "update")
    return ", ".join(f"{name}={run.options[name]}" for name in shown if run.options.get(name) not in (None, "", False))


def _runs(runs: Sequence[Run]) -> Markup:
    rows = [
        [
            started(run),
            short_commit(run),
            run.branch or "-",
            run.machine.node,
            str(len(run.tests)),
            str(sum(map(fails, run.tests))),
        ]
        for run in reversed(runs)
    ]
    head = ("run, UTC", "commit", "branch", "machine", "tests>", "failed>")
    return folded(f"{len(runs)} runs", table("Runs, newest first", head, rows))


def controls(entries: Sequence[Entry]) -> Markup:
    """Return the filter by text and by state; without a script it is not there, and all tests are."""
    counts = Counter(state_of(entry.test) for entry in entries)
    buttons = [
        element("button", chip(state), element("span", str(count), class_="count"), type="button", data_state=state,
                aria_pressed="false")
        for state, count in sorted(counts.items(), key=lambda each: place(each[0]))
    ]  # fmt: skip
    return element(
        "div",
        element("label", "Filter", for_="filter"),
        element("input", id="filter", type="search", placeholder="test, model, EP, state  ( / )", autocomplete="off"),
        element("div", *buttons, role="group", aria_label="Show only these states", class_="states"),
        element("output", f"{len(entries)} of {len(entries)}", id="shown", for_="filter"),
        id="controls", class_="controls", hidden=True,
    )  # fmt: skip
