"""A headless Chromium, and pages in it that keep what they asked for and complained of."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.report.html.page import page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_onnxperf.core.results import Results

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}


@dataclass
class Opened:
    """A page in a browser."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What stands in the console, uncaught errors and dialogs."""

    def refuse(self, dialog: Any) -> None:
        """Take down a dialog, which nothing on a page may open."""
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def line(self, text: str) -> Any:
        """The line of the test that has a text."""
        return self.page.locator("details.test > summary", has_text=text).first

    def open(self, text: str) -> Any:
        """Open the test that has a text, and return it."""
        line = self.line(text)
        line.click()
        self.page.wait_for_function("(line) => line.parentElement.open", arg=line.element_handle())
        test = line.locator("..")
        test.locator("section").first.wait_for()
        return test

    def shown(self) -> list[str]:
        """The names of the tests that can be seen, in their order."""
        names: list[str] = self.page.locator(".test:visible .name b").all_inner_texts()
        return names


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--force-prefers-reduced-motion"]
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open the page of some results: `opened(results, ..., width=, scheme=, scripts=)`."""
    contexts = []

    def open_page(
        *results: Results, viewport: dict[str, int] = DESK, scheme: str = "light", scripts: bool = True
    ) -> Opened:
        path = tmp_path / "report.html"
        path.write_text(page(results), encoding="utf-8")
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("dialog", found.refuse)
        found.page.goto(path.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()
