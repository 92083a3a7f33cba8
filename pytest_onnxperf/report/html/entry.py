"""One test: the line that is always there, and what opens under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.text import reason
from pytest_onnxperf.core.units import quantity
from pytest_onnxperf.report.profile import short_provider

from .checked import broken_of, changed, label_of
from .comparison import comparison_section, speed_text
from .history import started
from .markup import Markup, element, joined
from .measurement import measurement_section
from .states import chip, fails, place, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_onnxperf.core.results import Test
    from pytest_onnxperf.core.results_measured import Measurement

    from .history import Entry

_SHOWN: Final = ("latency_p50", "ttft", "decode_throughput")
"""The metrics on the line: a session has the first, a generator the others."""
_MOST_WHY: Final = 200
"""Characters of what broke on the line; a choice: two lines of a screen."""


def body(entry: Entry, newest: str) -> Markup:
    """Return what opens: pytest's message where it says more, then the measurements and comparisons.

    Args:
        entry: The test.
        newest: When the newest run of the page started.
    """
    test = entry.test
    measured = sorted(test.measurements, key=lambda each: (not each.fails, place(each.state)))
    older = f"Of the run of {started(entry.run)} UTC." if entry.run.started != newest else None
    return element(
        "div",
        element("p", older, class_="dim") if older else None,
        _message(test),
        *(measurement_section(entry, each) for each in measured),
        *(comparison_section(each, entry.quantiles) for each in test.comparisons),
        class_="body",
    )


def _message(test: Test) -> Markup | None:
    """Return what pytest said; of a breach that is what the sections say, and stands folded below its headline."""
    if not test.message:
        return None
    shown = element("pre", test.message)
    if test.is_breach and (test.measurements or test.comparisons):
        return element("details", element("summary", "As pytest printed it"), shown, class_="fold")
    return shown


def models_of(test: Test) -> Iterator[str]:
    """Yield what a test measured, to be found by: models and labels."""
    for each in test.measurements:
        yield from filter(None, (each.model, each.label))
    for found in test.comparisons:
        yield from filter(None, (found.reference.model, found.candidate.model, found.label))


def line(entry: Entry) -> Markup:
    """Return the parts of the line: state, name, what was measured, what broke."""
    test = entry.test
    path, separator, name = test.nodeid.partition("::")
    module = element("span", f"{path}{separator}", class_="path")
    state = state_of(test)
    why = _why(test)
    return joined([
        chip(state, is_failing=fails(test)),
        element("span", module, element("b", name), class_="name"),
        element("span", *_figures(test), class_="line-figures"),
        element("span", why, class_="line-why") if why else None,
    ])  # fmt: skip


def _why(test: Test) -> str:
    """Return the worst of what broke, or the first line of why nothing was measured."""
    broken = [each for measured in test.measurements if measured.fails for each in broken_of(measured)]
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        _, text, detail = min(broken, key=lambda each: place(each[0]))
        return _cut(f"{text}; {detail}" if detail else text) + more
    broken_requirements = [
        each.text for found in test.comparisons for each in found.requirements if each.state != "held"
    ]
    if broken_requirements:
        return f"{', '.join(broken_requirements)}: {speed_text(test.comparisons[0])}"
    if fails(test) or test.outcome == "skipped":
        return _cut(reason(test.message))
    return ""


def _cut(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= _MOST_WHY else f"{first[: _MOST_WHY - 1]}\N{HORIZONTAL ELLIPSIS}"


def _figures(test: Test) -> Iterator[Markup]:
    measured = sorted(test.measurements, key=lambda each: (not each.fails, place(each.state)))
    for each in measured[:1]:
        yield _figure("EP", short_provider(each.environment.execution_provider))
        yield from _metrics(each)
        facts = each.facts
        if facts is not None:
            yield _figure("memcpy", f"{facts.memcpy}{'?' if facts.unavailable else ''}")
    for found in test.comparisons[:1]:
        if found.speedup is not None:
            yield _figure("speed-up", f"{found.speedup:.2f}x")
    more = len(test.measurements) + len(test.comparisons) - 1
    if more > 0:
        yield _figure("and", f"{more} more")


def _metrics(measurement: Measurement) -> Iterator[Markup]:
    for name in _SHOWN:
        if name in measurement.metrics:
            metric = measurement.metrics[name]
            compared = next((each for each in measurement.comparisons if each.name == name), None)
            by = changed(compared) if compared is not None else None
            yield _figure(label_of(name), quantity(metric.value, metric.unit) + (f" ({by})" if by else ""))


def _figure(name: str, value: str) -> Markup:
    return element("span", element("i", name), f" {value}")
