"""What was measured of a measurement and what it was held against: what broke, the metrics, the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.budget_keys import KEY
from pytest_onnxperf.core.metrics import METRIC
from pytest_onnxperf.core.units import change, quantity

from .markup import Markup, compact, element, joined
from .states import chip, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_onnxperf.core.results_facts import Facts
    from pytest_onnxperf.core.results_judged import Budget, Comparison
    from pytest_onnxperf.core.results_measured import Measurement, Metric

_FACTS: Final = {"memcpy": "memcpy nodes", "cpu_nodes": "nodes on the CPU", "nodes": "nodes"}


def label_of(name: str) -> str:
    """Return the name of a metric or fact for people."""
    if name in METRIC:
        return METRIC[name].label
    return name.replace("_", " ").replace(".", ": ", 1)


def judged_by(budget: Budget) -> str:
    """Return the metric or fact that a budget limits, as comparisons name it: `latency_p50`, `decode.memcpy`."""
    phase, _, key = budget.key.rpartition(".")
    judges = KEY[key].judges if key in KEY else key
    return f"{phase}.{judges}" if phase else judges


def budget_text(budget: Budget) -> str:
    """Return both numbers of a budget.

    >>> from pytest_onnxperf.core.results_judged import Budget
    >>> budget_text(Budget(key="max_latency_ms", state="broken", limit="at most 10 ms", actual="12 ms"))
    'max_latency_ms: 12 ms, budget at most 10 ms'
    """
    actual = "" if budget.state == "cannot tell" else f"{budget.actual}, "
    return f"{budget.key}: {actual}budget {budget.limit}"


def broken_of(measurement: Measurement) -> list[tuple[str, str, str]]:
    """Return what fails or would fail: state, text with both numbers, detail; worst first.

    Where nothing is broken and the test fails all the same, it is strict, and what is not `ok` is returned.
    """
    found: list[tuple[str, str, str]] = [
        ("over budget" if each.state == "broken" else each.state, budget_text(each), each.why)
        for each in measurement.budgets
        if each.state != "held"
    ]
    worse = [each for each in measurement.comparisons if each.state == "regressed"]
    if measurement.fails and not worse and not found:
        worse = [each for each in measurement.comparisons if each.state != "ok"]
    found += [(each.state, each.text, "; ".join(filter(None, (each.detail, each.since_anchor)))) for each in worse]
    return sorted(found, key=lambda each: place(each[0]))


def metric_table(measurement: Measurement) -> Markup | None:
    """Return the metrics with baseline, change, and what is allowed; None where nothing was timed."""
    if not measurement.metrics:
        return None
    against = "reference" if measurement.against is not None else "baseline"
    head = (
        "metric", "value>", "state", "processes>", f"{against}>", "change>", "time beside a reference workload>",
        "99 % interval>", "allowed>", "budget>",
    )  # fmt: skip
    rows = [_metric_row(measurement, name, metric) for name, metric in measurement.metrics.items()]
    return compact("Metrics", head, rows)


def _metric_row(measurement: Measurement, name: str, metric: Metric) -> list[str | None]:
    compared = next((each for each in measurement.comparisons if each.name == name), None)
    budgets = [each for each in measurement.budgets if judged_by(each) == name]
    spread = f"{quantity(min(metric.values), '')} to {quantity(max(metric.values), metric.unit)}"
    return [
        label_of(name),
        quantity(metric.value, metric.unit),
        _state_cell(compared, budgets),
        spread if len(metric.values) > 1 else None,
        *_change_cells(compared),
        joined(element("div", each.limit) for each in budgets) or None,
    ]


def _change_cells(compared: Comparison | None) -> list[str | None]:
    """Return baseline, change, and how that was judged: the ratio of times where it was beside a reference workload."""
    if compared is None:
        return [None] * 5
    has_interval = compared.low_ratio is not None and compared.high_ratio is not None
    is_beside = bool(compared.beside) and compared.ratio is not None
    return [
        None if compared.old is None else quantity(compared.old, compared.unit),
        changed(compared),
        f"{_change(compared.ratio or 0)} ({compared.beside})" if is_beside else None,
        f"{_change(compared.low_ratio or 0)} to {_change(compared.high_ratio or 0)}" if has_interval else None,
        None if compared.limit_ratio is None else _change(compared.limit_ratio),
    ]


def changed(compared: Comparison) -> str | None:
    """Return by how much the plain value changed; None where one of both is not known."""
    return _change(compared.new / compared.old) if compared.old and compared.new is not None else None


def _change(ratio: float) -> str:
    return change(ratio).replace("-", "\N{MINUS SIGN}")


def _state_cell(compared: Comparison | None, budgets: list[Budget]) -> Markup | None:
    states = [each.state for each in budgets] + ([compared.state] if compared is not None else [])
    return joined(chip(state) for state in sorted(set(states), key=place)) if states else None


def fact_table(measurement: Measurement) -> Markup | None:
    """Return the facts that were judged, and the three that sum a run up; those as recorded are counted alone."""
    rows: dict[str, list[str | None]] = {}
    facts = measurement.facts
    for name, label in _FACTS.items() if facts is not None else ():
        rows[name] = [label, _count(facts, name), None, None, None]
    for budget in measurement.budgets:
        name = judged_by(budget)
        if name not in measurement.metrics:
            row = rows.setdefault(name, [label_of(name), None, None, None, None])
            row[1] = row[1] or budget.actual or None
            row[2] = joined([row[2], chip(budget.state)])
            row[4] = joined([row[4], element("div", budget.limit)])
    left = 0
    for compared in measurement.comparisons:
        if compared.name in measurement.metrics:
            continue
        if compared.state == "ok" and compared.name not in rows:
            left += 1
            continue
        row = rows.setdefault(compared.name, [label_of(compared.name), None, None, None, None])
        row[1] = row[1] or (None if compared.new is None else quantity(compared.new, ""))
        row[2] = joined([row[2], chip(compared.state)])
        row[3] = None if compared.old is None else quantity(compared.old, "")
    note = element("p", f"{left} more facts are as recorded.", class_="dim") if left else None
    head = ("fact, a run", "value>", "state", "baseline>", "budget>")
    if not rows and note is None:
        return None
    return element("div", compact("Facts", head, list(rows.values())) if rows else None, note)


def _count(facts: Facts | None, name: str) -> str:
    if facts is None:
        return "?"
    return f"{getattr(facts, name)}{'?' if facts.unavailable else ''}"


def remarks(measurement: Measurement) -> Iterator[str]:
    """Yield what a reader must know to read the numbers: what is missing, what disturbed them."""
    if measurement.disturbance:
        yield f"Meanwhile {measurement.disturbance}."
    yield from measurement.warnings
    for name, why in measurement.not_measured.items():
        yield f"{label_of(name)} was not measured: {why}"
    if measurement.facts is not None and measurement.facts.unavailable:
        yield f"The facts cannot be told, and a count is only what was seen: {measurement.facts.unavailable}"
    whole = {"": measurement.facts} if measurement.facts is not None else {}
    for phase, facts in (measurement.phases or whole).items():
        for each in facts.unstable:
            yield f"{each.fact} differs between the runs{f' in {phase}' if phase else ''}: {each.text}"
    seen = [each for each in measurement.comparisons if each.detectable_ratio is not None and each.name in METRIC]
    if seen:
        texts = (f"{_change(each.detectable_ratio or 1)} of {label_of(each.name)}" for each in seen)
        yield f"The baseline can see slowdowns of {', '.join(texts)}, and more."
    if measurement.not_applicable:
        devices = ", ".join(dict.fromkeys(measurement.not_applicable))
        yield f"Budgets for other devices were not judged: on={devices}"
