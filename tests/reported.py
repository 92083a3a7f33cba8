"""Tests as reports leave them, for tests of what is written about a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core import ab
from pytest_onnxperf.core.ab import AbRecord, Outputs, timed_of
from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.budget import Budget
from pytest_onnxperf.core.judge import Found, Policy, judge
from pytest_onnxperf.core.outcome import Outcome, ReportedTest, TestOutcome
from pytest_onnxperf.core.record import TestKey
from tests.records import MS, facts, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.limits import Value

BASELINE_MS: Final = (9.98, 9.99, 10.0, 10.01, 10.02)


def baseline(factor: float = 1.0, metric: str = "latency_p50", **changes: Any) -> Found:
    """A baseline of five processes at 10 ms."""
    old = record({metric: tuple(each * MS * factor for each in BASELINE_MS)}, **changes)
    return Found(entry_of(old, "2026-11-30", ""), "baselines/x.cpu/tests/test_a.json")


def outcome(
    name: str = "test_a", *, limits: Mapping[str, Value] | None = None, found: Found | None = None,
    metrics: Mapping[str, tuple[float, ...]] | None = None, label: str = "", policy: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Outcome:  # fmt: skip
    """A measurement of 10 ms, judged."""
    changes = {"key": TestKey("tests/test_a.py", name, label), **changes}
    made = record(metrics, **changes)
    budgets = [Budget(limits)] if limits else []
    verdict = judge(made, budgets, found or Found(), Policy(**{"tolerance": 0.05, **(policy or {})}))
    return Outcome(made, verdict)


def reported(*outcomes: Outcome, comparisons: tuple[AbRecord, ...] = (), **changes: Any) -> ReportedTest:
    """A test with these measurements, failed where one of them fails."""
    keys = [each.record.key for each in outcomes] + [each.key for each in comparisons]
    nodeid = changes.pop("nodeid", f"{keys[0].module}::{keys[0].test}" if keys else "tests/test_a.py::test_a")
    broken = any(each.state == "broken" for each in comparisons)
    is_breach = changes.pop("is_breach", broken or any(each.verdict.fails for each in outcomes))
    plain: dict[str, Any] = {
        "ended": "failed" if is_breach else "passed",
        "message": f"{nodeid} is over budget\na.onnx\n\n  over budget  it\n\nWhat to do\n- less" if is_breach else "",
        "path": "tests/test_a.py",
    }
    return ReportedTest(TestOutcome(nodeid, outcomes, is_breach, comparisons), **{**plain, **changes})


def over(name: str, memcpy: int, **changes: Any) -> ReportedTest:
    """A test with so many memcpy nodes where one is allowed."""
    return reported(outcome(name, limits={"max_memcpy": 1}, of=facts(memcpy=memcpy)), **changes)


def held(name: str = "test_held") -> ReportedTest:
    """A test within budget and baseline."""
    return reported(outcome(name, limits={"max_memcpy": 1}, found=baseline()))


def unmeasured(ended: str, message: str = "", nodeid: str = "tests/test_a.py::test_none") -> ReportedTest:
    """A test that measured nothing."""
    return reported(nodeid=nodeid, ended=ended, message=message)


def compared(name: str, ratio: float, *, least: float | None = None, **changes: Any) -> AbRecord:
    """An A/B whose candidate takes `ratio` of the time."""
    pairs = tuple((MS, round(MS * ratio * (1 + 0.001 * (place % 5 - 2)))) for place in range(60))
    key = TestKey("tests/test_a.py", name)
    made = AbRecord(
        key, record(key=key), record(key=key), **{"times": timed_of([{"latency_p50": pairs}]), "pairs": 60,
        "processes": 1, "outputs": Outputs("equal"), **changes},
    )  # fmt: skip
    required = ab.requirements_of(least, None, ["latency_p50"]) if least else ()
    results = tuple(ab.judged(each, made) for each in required)
    return AbRecord(**{**{name: getattr(made, name) for name in made.__slots__}, "requirements": results})
