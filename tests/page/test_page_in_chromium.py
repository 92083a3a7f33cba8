"""The page of results in a real browser: keys, a phone, light and dark, no scripts, hostile names, no requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from pytest_onnxperf.core.results import Results
from pytest_onnxperf.report.html.page import MANY, page
from tests.page.conftest import DESK, PHONE
from tests.results import HOSTILE, everything, run, session_outcome, test_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page.conftest import Opened

pytestmark = pytest.mark.needs_page

SEVEN = Results(
    runs=(
        run(
            *(test_of(f"t.py::test_{number}", session_outcome()) for number in range(6)),
            test_of("t.py::test_over", session_outcome(), outcome="failed", message="E   boom"),
        ),
    )
)


def plots(test: Any) -> Any:
    return test.locator("figure.plot .uplot canvas")


def is_drawn(canvas: Any) -> bool:
    """Whether a canvas has more than one colour."""
    script = """(canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set(new Uint32Array(data.buffer));
        return found.size > 3;
    }"""
    return bool(canvas.evaluate(script))


def test_it_opens_with_nothing_asked_for_and_nothing_complained_of(opened: Callable[..., Opened]) -> None:
    it = opened(everything())
    for name in ("test_g", "test_ab", "test_elsewhere"):
        it.open(name)
    it.page.wait_for_timeout(300)

    assert [url for url in it.requests if not url.startswith(("file:", "data:,"))] == []
    assert sum(url.startswith("file:") for url in it.requests) == 1
    assert it.complaints == []


def test_names_that_are_markup_are_text_and_run_nothing(opened: Callable[..., Opened]) -> None:
    hostile = test_of(f"t.py::test_x[{HOSTILE}]", session_outcome(), message=HOSTILE, outcome="failed")
    it = opened(Results(runs=(run(hostile, branch=HOSTILE),)), everything())
    scripts = it.page.locator("script:not([type])").count()
    for name in ("test_x", "test_g"):
        it.open(name)
    it.page.wait_for_timeout(300)

    assert it.complaints == []
    assert it.page.locator("script:not([type])").count() == scripts == 3
    assert "<script>alert('1')</script>" in it.line("test_x").inner_text()
    assert r"\u202e\u200f" in it.line("test_x").inner_text()
    assert it.page.locator("[onclick], [onerror], iframe, object, embed, form").count() == 0


def test_the_policy_of_the_page_stops_a_script_that_was_put_into_it(opened: Callable[..., Opened]) -> None:
    it = opened(everything())

    ran = it.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "document.title = 'ran'";
        document.body.append(script);
        return document.title;
    }""")

    assert ran == "onnxperf results"
    assert any("Content Security Policy" in each for each in it.complaints)


def test_plots_are_drawn_where_a_test_opens_and_each_has_a_name(opened: Callable[..., Opened]) -> None:
    it = opened(everything())
    assert it.page.locator(".uplot").count() == 0

    test = it.open("test_g")
    wanted = test.locator("figure.plot").count()
    for figure in test.locator("figure.plot").all():
        figure.scroll_into_view_if_needed()
        figure.locator(".uplot").wait_for()

    assert plots(test).count() == wanted >= 5  # TTFT, prefill, ITL by token, ITL, roofline
    for canvas in plots(test).all():
        assert is_drawn(canvas)
        assert canvas.get_attribute("role") == "img"
        assert "its numbers are in the table" in (canvas.get_attribute("aria-label") or "")


def test_a_plot_is_drawn_anew_for_a_dark_screen_and_a_narrow_window(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)
    figure = it.open("test_0").locator("figure.plot").first
    figure.locator(".uplot").wait_for()
    pixels = "(figure) => figure.querySelector('canvas').toDataURL()"
    light, wide = figure.evaluate(pixels), figure.locator(".uplot").bounding_box()["width"]

    it.page.emulate_media(color_scheme="dark")
    it.page.wait_for_timeout(200)
    assert figure.evaluate(pixels) != light
    assert figure.locator(".uplot").count() == 1

    it.page.set_viewport_size(PHONE)
    it.page.wait_for_timeout(300)
    assert figure.locator(".uplot").bounding_box()["width"] < min(wide, PHONE["width"])


def test_the_filter_keeps_the_tests_with_all_words_and_says_how_many(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)
    assert it.shown()[0] == "test_over"

    it.page.keyboard.press("/")
    it.page.keyboard.type("CPU test_3")
    assert it.shown() == ["test_3"]
    assert it.page.locator("#shown").inner_text() == "1 of 7"

    it.page.keyboard.press("Escape")
    assert len(it.shown()) == 7


def test_the_filter_finds_the_model_though_it_is_not_on_the_line(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)
    model = SEVEN.runs[0].tests[0].measurements[0].model

    it.page.locator("#filter").fill(model)

    assert len(it.shown()) == 7
    it.page.locator("#filter").fill("no such model")
    assert it.shown() == []


def test_states_are_chosen_by_buttons_and_say_that_they_are(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)
    button = it.page.get_by_role("button", name=re.compile("failed"))

    button.click()
    assert it.shown() == ["test_over"]
    assert button.get_attribute("aria-pressed") == "true"

    button.click()
    assert len(it.shown()) == 7


def test_the_page_is_used_by_the_keyboard_alone(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)
    focused = "document.activeElement.innerText"

    it.page.keyboard.press("Tab")
    assert it.page.evaluate(focused) == "To the tests"
    it.page.keyboard.press("/")
    it.page.keyboard.press("ArrowDown")
    assert "test_over" in it.page.evaluate(focused)
    it.page.keyboard.press("ArrowDown")
    assert "test_0" in it.page.evaluate(focused)
    it.page.keyboard.press("Enter")
    it.page.locator("details.test[open] section").first.wait_for()
    it.page.keyboard.press("ArrowUp")
    assert "test_over" in it.page.evaluate(focused)
    it.page.keyboard.press("ArrowUp")
    assert it.page.evaluate("document.activeElement.id") == "filter"
    outline = it.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_a_link_to_a_test_opens_it(opened: Callable[..., Opened]) -> None:
    it = opened(SEVEN)

    it.page.evaluate("location.hash = '#t3'")

    it.page.locator("#t3[open] section").first.wait_for()


@pytest.mark.parametrize("results", [everything(), SEVEN], ids=["everything", "seven"])
def test_a_phone_never_scrolls_sideways(opened: Callable[..., Opened], results: Results) -> None:
    it = opened(results, viewport=PHONE)
    sizes = "[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]"
    assert it.page.evaluate(sizes) == [360, 360, 360]

    it.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    it.page.wait_for_timeout(300)
    it.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for figure in it.page.locator("figure.plot").all()[:12]:
        figure.scroll_into_view_if_needed()
    it.page.wait_for_timeout(300)

    assert it.page.evaluate(sizes) == [360, 360, 360]


CONTRAST = """() => {
    const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = (color) => channels(color).map((each) => each / 255)
        .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
        .reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const color = getComputedStyle(each).backgroundColor;
            if (!color.endsWith(", 0)") && color !== "transparent") return color;
        }
        return "rgb(255, 255, 255)";
    };
    const found = {};
    const texts = ".chip, .dim, dt, caption, thead th, .path, .line-why, li, td, a, summary";
    for (const element of document.querySelectorAll(texts)) {
        const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const name = element.className || element.tagName;
        found[name] = Math.min(found[name] ?? 99, ratio);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_states_have_enough_contrast(opened: Callable[..., Opened], scheme: str) -> None:
    """4.5 : 1, WCAG 2.2 criterion 1.4.3 (AA)."""
    kinds = ["regressed", "cannot tell", "no-baseline", "improved"]
    tests = [
        structs.replace(test, measurements=(structs.replace(test.measurements[0], state=kind),))
        for kind, test in zip(kinds, SEVEN.runs[0].tests, strict=False)
    ]
    it = opened(Results(runs=(run(*tests),)), everything(), scheme=scheme)
    it.open("test_g")

    found = it.page.evaluate(CONTRAST)

    assert {f"chip {kind}" for kind in ("bad", "warn", "none", "good")} <= set(found)
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


def test_dark_is_dark(opened: Callable[..., Opened]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"

    assert opened(SEVEN, scheme="light").page.evaluate(background) == "rgb(255, 255, 255)"
    assert opened(SEVEN, scheme="dark").page.evaluate(background) == "rgb(13, 17, 23)"


def test_without_scripts_every_table_is_there_and_a_sentence_stands_for_the_plots(
    opened: Callable[..., Opened],
) -> None:
    it = opened(everything(), scripts=False)

    assert it.page.get_by_text("Plots and the filter need JavaScript").is_visible()
    assert not it.page.locator("#controls").is_visible()
    test = it.line("test_g")
    test.click()
    assert it.page.locator("figure.plot:visible").count() == 0
    assert test.locator("..").get_by_text("What forces the memcpy nodes of decoder").is_visible()
    assert test.locator("..").locator("table:visible").count() > 8


def test_a_page_of_many_is_whole_where_no_script_may_run(opened: Callable[..., Opened]) -> None:
    """In a frame that allows none, as viewers of artifacts have it: that is what decides what <noscript> is."""
    tests = [
        structs.replace(test_of("t.py::test", session_outcome()), nodeid=f"t.py::test_{n}") for n in range(MANY + 1)
    ]
    results = Results(runs=(run(*tests),))
    it = opened(results)
    assert it.page.locator("section.measurement").count() == 0
    assert it.open("test_7").locator("section.measurement").is_visible()

    it.page.goto("about:blank")
    it.page.set_content('<iframe sandbox style="width: 1000px; height: 800px"></iframe>')
    it.page.eval_on_selector("iframe", "(frame, text) => { frame.srcdoc = text; }", page([results]))
    frame = it.page.frame_locator("iframe")
    frame.locator("details.test").nth(MANY).wait_for(state="attached")

    assert frame.locator("section.measurement").count() == MANY + 1
    frame.locator("details.test > summary").first.click()
    assert frame.locator("section.measurement table").first.is_visible()


def test_a_page_of_nothing_is_a_page(opened: Callable[..., Opened]) -> None:
    it = opened(Results(runs=(run(),)))

    assert it.page.get_by_text("No test that measures has ended.").is_visible()
    assert it.complaints == []


def test_ten_thousand_results_open_and_are_filtered(opened: Callable[..., Opened]) -> None:
    one = test_of("t.py::test", session_outcome())
    tests = [structs.replace(one, nodeid=f"t.py::test_{number}") for number in range(10_000)]
    it = opened(Results(runs=(run(*tests),)), viewport=DESK)

    it.page.locator("#filter").fill("test_9999")

    assert it.page.locator("#shown").inner_text() == "1 of 10000"
    assert it.shown() == ["test_9999"]
    assert it.complaints == []
