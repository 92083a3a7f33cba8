"""How long a page of 500 tests takes to open in Chromium, against one with the JSON of the same results and no more.

`python tests/bench/page.py [--tests N]` opens both in turn, in a new tab each time, comparing the time until what is
first seen is drawn: the page of results, its tests closed, and a page that only carries the JSON. It prints the
smallest of both, which other processes disturb least, and their ratio. It exits with 1 where the page takes 2 s or
more, or more than three times as long as the other. It needs playwright, and Chromium as Debian has it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_onnxperf.core.results import Results
from pytest_onnxperf.report.html.markup import island
from pytest_onnxperf.report.html.page import page
from tests.results import everything, run

LIMIT_S: Final = 2.0
LIMIT_RATIO: Final = 3.0
TIMES: Final = 7
DRAWN: Final = """() => new Promise((done) => {
    requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0));
})"""
"""Milliseconds since the page was asked for, once its first picture has been drawn."""


def results_of(count: int) -> Results:
    """Return results of so many tests, of every kind in turn."""
    kinds = everything().runs[0].tests
    tests = [structs.replace(kinds[n % len(kinds)], nodeid=f"tests/test_m.py::test_{n}") for n in range(count)]
    return Results(runs=(run(*tests),))


def bare(results: Results) -> str:
    """Return a page that carries the same data and does nothing with it."""
    return f"<!DOCTYPE html><p>{len(results.runs)}</p>{island(msgspec.to_builtins(results))}"


def opens_ms(browser: Any, path: Path) -> float:
    """Open a page once."""
    tab = browser.new_page()
    tab.goto(path.as_uri())
    drawn_ms: float = tab.evaluate(DRAWN)
    tab.close()
    return drawn_ms


def main() -> int:
    """Run the benchmark; 1 where it misses its figure."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=500)
    count = parser.parse_args().tests
    results = results_of(count)
    texts = {"page of results": page([results]), "bare JSON": bare(results)}
    times_ms: dict[str, list[float]] = {name: [] for name in texts}
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, text in texts.items():
            (Path(directory) / f"{name}.html").write_text(text, encoding="utf-8")
        for _ in range(TIMES):
            for name in texts:
                times_ms[name].append(opens_ms(browser, Path(directory) / f"{name}.html"))
        browser.close()
    least_ms = {name: min(each) for name, each in times_ms.items()}
    for name, text in texts.items():
        print(f"{name:<16} {len(text) / 1e6:6.1f} MB  opens in {least_ms[name]:6.0f} ms, least of {TIMES}")
    ratio = least_ms["page of results"] / least_ms["bare JSON"]
    print(
        f"{count} tests: {ratio:.2f} times as long as the bare JSON (at most {LIMIT_RATIO:g}, and below {LIMIT_S:g} s)"
    )
    return int(ratio > LIMIT_RATIO or least_ms["page of results"] >= LIMIT_S * 1e3)


if __name__ == "__main__":
    sys.exit(main())
