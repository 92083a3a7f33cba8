"""What the plots draw, as data. The script of the page draws it when the test is opened; beside each stands a table.

The plots are made by uPlot, which the page carries unchanged (`assets`). Why this library: it is maintained, under the
MIT licence, needs nothing else, has logarithmic axes and hooks to draw boxes with, and is 51 kB in every page, where
plotly.js is 4 MB. Why in the browser: pictures made beforehand by Python (matplotlib, pygal) would be made and parsed
for every test; 500 tests have thousands of them, the page must open at once, and a reader opens a few tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.units import quantity

from .checked import judged_by, label_of
from .markup import Markup, element, island, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.results_measured import Distribution, Measurement

_TITLES: Final = {"latency": "Latency", "ttft": "TTFT", "prefill": "Prefill", "itl": "Inter-token latency"}
_SHOWN_QUANTILES: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
"""In the table beside the plot; a choice: what a box has, and the tail."""


def plot(kind: str, title: str, data: dict[str, object]) -> Markup:
    """Return a place where the script draws; `kind` names how, `title` says what for those who cannot see it."""
    return element(
        "figure", element("figcaption", title), island({"kind": kind, "title": title, **data}), class_="plot"
    )


def spread_plots(measurement: Measurement, quantiles: Sequence[float], names: Sequence[str]) -> Iterator[Markup]:
    """Yield the distribution of the rounds of each process, with the lines that it is held against."""
    for name in names:
        found = measurement.distributions.get(name, ())
        if found:
            title = f"{_TITLES.get(name, name)}: the rounds of {_processes(len(found))}"
            yield plot(
                "boxes",
                title,
                {
                    "unit": "ms",
                    "quantiles": quantiles,
                    "rows": [each.quantiles_ms for each in found],
                    "lines": list(_lines(measurement, name)),
                },
            )


def _processes(count: int) -> str:
    return f"{count} processes" if count != 1 else "one process"


def _lines(measurement: Measurement, name: str) -> Iterator[dict[str, object]]:
    """Yield baseline and budgets of the metrics that are quantiles of this distribution, all in ms."""
    own = {f"{name}_p50", f"{name}_p90", f"{name}_p99", f"{name}_max", name}
    what = "reference" if measurement.against is not None else "baseline"
    for compared in measurement.comparisons:
        if compared.name in own and compared.old is not None and compared.unit == "ms":
            yield {"at": compared.old, "kind": "baseline", "label": f"{what} {_short(compared.name)}"}
    for budget in measurement.budgets:
        if judged_by(budget) in own and budget.limit_value is not None and budget.unit == "ms":
            yield {"at": budget.limit_value, "kind": "budget", "label": f"budget {_short(judged_by(budget))}"}


def _short(name: str) -> str:
    tail = name.rpartition("_")[2]
    return tail if tail in {"p50", "p90", "p99", "max"} else label_of(name)


def spread_table(measurement: Measurement, quantiles: Sequence[float], caption: str = "Rounds, in ms") -> Markup | None:
    """Return the same distributions as a table; None where there are none."""
    places = [place for place, q in enumerate(quantiles) if q in _SHOWN_QUANTILES]
    names = [{0.0: "min", 1.0: "max"}.get(quantiles[place], f"p{quantiles[place] * 100:g}") for place in places]
    rows = []
    for name, found in measurement.distributions.items():
        for process, each in enumerate(found, 1):
            title = _TITLES.get(name, name) + (f", process {process}" if len(found) > 1 else "")
            rows.append([title, str(each.rounds), *_times(each), *(_ms(each, place) for place in places)])
    if not rows:
        return None
    return table(caption, ("", "rounds>", "mean>", "stddev>", *(f"{name}>" for name in names)), rows)


def _times(spread: Distribution) -> tuple[str, str]:
    return quantity(spread.mean_ms, ""), quantity(spread.stddev_ms, "")


def _ms(spread: Distribution, place: int) -> str:
    return quantity(spread.quantiles_ms[place], "") if place < len(spread.quantiles_ms) else "-"


def token_plot(measurement: Measurement) -> Markup | None:
    """Return inter-token latency over token index, a line for each process; None where there is no generator."""
    times = measurement.token_times
    if times is None or not any(times.itl_ms):
        return None
    longest = max(map(len, times.itl_ms))
    step = times.tokens_per_point
    several = f", {step} tokens a point" if step > 1 else ""
    title = f"Inter-token latency by token, the median over the generations of each process{several}"
    return plot(
        "lines",
        title,
        {
            "unit": "ms",
            "x": [2 + step * point for point in range(longest)],
            "xLabel": "token",
            "series": [
                {"label": f"process {process}", "y": [*points, *[None] * (longest - len(points))]}
                for process, points in enumerate(times.itl_ms, 1)
            ],
            "lines": list(_lines(measurement, "itl")),
        },
    )


def token_summary(measurement: Measurement) -> str | None:
    """Return how ITL moves over a generation, in words: its first and its last tenth, and the slowest token."""
    times = measurement.token_times
    points = times.itl_ms[0] if times is not None and times.itl_ms else ()
    if times is None or len(points) < 2:
        return None
    tenth = max(len(points) // 10, 1)
    first, last = (sum(part) / tenth for part in (points[:tenth], points[-tenth:]))
    slowest = max(range(len(points)), key=points.__getitem__)
    return (
        f"ITL of the first tenth of the tokens {quantity(first, 'ms')}, of the last tenth {quantity(last, 'ms')}; the "
        f"slowest is at token {2 + slowest * times.tokens_per_point}, {quantity(points[slowest], 'ms')}."
    )
