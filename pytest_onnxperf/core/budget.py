"""Budgets: the keys of the `onnx_budget` marker, what each may hold, and the check against a record."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from .attention_budget import check_attention, parse_kernels
from .budget_keys import KEY, BudgetKey
from .errors import BudgetError
from .facts import difference_text
from .limits import LimitResult, Value
from .metrics import METRIC
from .phases import worse_of
from .providers import CPU, PROVIDERS, nearly_named, short_name
from .states import Limit
from .units import change, quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .environment import Environment
    from .facts import Facts
    from .record import Record


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one marker, or of several with the same `on`, merged."""

    limits: Mapping[str, Value] = field(default_factory=dict)
    on: str = ""
    """EP or device that it belongs to; empty means any."""

    def applies_to(self, environment: Environment) -> bool:
        """Tell whether `on` matches the EP, the device or the environment key (shell patterns, case ignored)."""
        names = (
            environment.execution_provider,
            short_name(environment.execution_provider),
            environment.device,
            environment.device_key,
            environment.key,
        )
        return not self.on or any(fnmatch.fnmatchcase(name.lower(), self.on.lower()) for name in names)


def parse_budget(kwargs: Mapping[str, object]) -> Budget:
    """Check the keyword arguments of one marker.

    Raises:
        BudgetError: A key is unknown, or its value has the wrong type or range; the message names the key.
    """
    limits: dict[str, Value] = {}
    for name, value in kwargs.items():
        if name not in KEY:
            close = difflib.get_close_matches(name, KEY, n=1, cutoff=0.5)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(KEY)}"
            msg = f"unknown key `{name}`, {hint}"
            raise BudgetError(msg)
        limits[name] = _PARSERS[KEY[name].kind](name, value)
    return Budget(limits, _canonical(str(limits.pop("on", ""))))


def max_regression(budgets: Sequence[Budget], environment: Environment) -> float | None:
    """Return the tolerance that the budgets of an environment give; of two that of the nearer, which names a device."""
    applicable = sorted((budget for budget in budgets if budget.applies_to(environment)), key=lambda b: not b.on)
    given = [float(str(b.limits["max_regression"])) for b in applicable if "max_regression" in b.limits]
    return given[0] if given else None


def tolerance_of(budgets: Sequence[Budget], environment: Environment, default: float) -> float:
    """Return the tolerance of a test against its baseline: what its budgets give, else the default."""
    given = max_regression(budgets, environment)
    return default if given is None else given


_EPS: Final = frozenset(name.lower() for provider in PROVIDERS for name in (provider.short, provider.name))


def _canonical(on: str) -> str:
    """Return one spelling of what `on` names, so that the nearest of `cpu`, `CPU` and `CPUExecutionProvider` wins."""
    names = {provider.name.lower(): provider.short for provider in PROVIDERS}
    return names.get(on.lower(), on.lower())


def _wrong(name: str, expected: str, value: object) -> BudgetError:
    return BudgetError(f"`{name}`: expected {expected}, got {value!r}")


def _count(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(name, "a whole number >= 0", value)
    return value


def _ratio(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise _wrong(name, "a ratio >= 0, 0.05 for 5 %", value)
    if name == "max_memcpy_share" and value > 1:
        raise _wrong(name, "a ratio between 0 and 1", value)
    return float(value)


def _quantity(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _wrong(name, f"a number of {KEY[name].unit} above 0", value)
    return value


def _ops(name: str, value: object) -> Value:
    values = {value} if isinstance(value, str) else value
    if not isinstance(values, set | frozenset | list | tuple) or not values:
        raise _wrong(name, "an op type or a set of them", value)
    if not all(isinstance(op, str) and op for op in values):
        raise _wrong(name, "op types as strings", value)
    return frozenset(values)


def _pattern(name: str, value: object) -> Value:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(name, 'an EP or a device pattern, "cuda" or "*h200*"', value)
    value = value.strip()
    if close := nearly_named(value):
        msg = f"`{name}`: {value!r} is no EP, did you mean `{close}`? For a device of this name write '*{value}*'"
        raise BudgetError(msg)
    words = re.split(r"[\s,;|/&+]+", value.lower())
    if len(words) > 1 and _EPS.issuperset(words):
        msg = f"`{name}`: {value!r} names several EPs: a marker belongs to one, so write one for each"
        raise BudgetError(msg)
    return value


def _phase(name: str, value: object) -> Value:
    if not isinstance(value, Mapping) or not value:
        raise _wrong(name, "a dict of limits, {'max_memcpy': 1}", value)
    limits = parse_budget(value).limits
    for key in value:
        if KEY[key].judges in METRIC or KEY[key].kind in ("phase", "pattern") or key == "max_regression":
            msg = f"`{name}`: `{key}` is no limit on a fact of one phase"
            raise BudgetError(msg)
    return limits


_PARSERS: Final[dict[str, Callable[[str, object], Value]]] = {
    "count": _count, "ratio": _ratio, "quantity": _quantity, "ops": _ops, "pattern": _pattern, "phase": _phase,
    "kernels": parse_kernels,
}  # fmt: skip


def check(budget: Budget, record: Record) -> tuple[LimitResult, ...]:
    """Check every limit of `budget` against `record`, worst first."""
    results = []
    for name, value in budget.limits.items():
        key = KEY[name]
        if isinstance(value, Mapping):
            results += _check_phase(name, value, record)
        elif key.judges == "attention":
            continue
        elif isinstance(value, frozenset):
            if key.judges:
                results.append(_check_required_ops(key, value, record))
        elif key.judges in METRIC:
            results.append(_check_metric(key, float(value), record))
        elif key.judges:
            results.append(_check_fact(key, float(value), budget, record))
    results += check_attention(budget.limits, record)
    order = (Limit.BROKEN, Limit.CANNOT_TELL, Limit.HELD)
    return tuple(sorted(results, key=lambda r: (order.index(r.state), -r.excess, r.key)))


def _check_phase(phase: str, limits: Mapping[str, Value], record: Record) -> list[LimitResult]:
    """Check limits on the facts of one phase of a generator, the worst of its sessions."""
    of_phase = {name: facts for name, facts in record.phases.items() if name.split(".")[0] == phase}
    why = "a session has no phases" if not record.phases else f"no {phase} step was profiled"
    facts = worse_of(of_phase) if of_phase else None
    results = check(
        Budget(limits),
        replace(record, facts=facts, phases=of_phase, not_measured={"facts": record.unavailable_facts or why}),
    )
    return [replace(result, key=f"{phase}.{result.key}") for result in results]


def _check_metric(key: BudgetKey, limit: float, record: Record) -> LimitResult:
    metric = METRIC[key.judges]
    limit_text = f"{'at least' if metric.better == 'more' else 'at most'} {quantity(limit, key.unit)}"
    values = record.metrics.get(metric.name)
    result = LimitResult(key.name, Limit.CANNOT_TELL, "", limit_text, limit_value=limit, unit=key.unit)
    if not values:
        of_others = f"it is of {metric.source}, and none were measured here"
        return replace(result, why=record.not_measured.get(metric.name, of_others))
    actual = median(values) / metric.per_unit
    ratio = actual / limit if metric.better == "less" else limit / max(actual, 1e-12)
    state = Limit.BROKEN if ratio > 1 else Limit.HELD
    why = f"{change(actual / limit)} against the budget" if ratio > 1 else ""
    shown = quantity(actual, key.unit)
    return replace(result, state=state, actual=shown, actual_value=actual, excess=ratio - 1, why=why)


def _check_fact(key: BudgetKey, limit: float, budget: Budget, record: Record) -> LimitResult:
    limit_text = f"at most {quantity(limit, key.unit)}".removesuffix(" a run")
    result = LimitResult(key.name, Limit.CANNOT_TELL, "", limit_text, limit_value=limit, unit=key.unit)
    if record.facts is None:
        return replace(result, why=record.unavailable_facts)
    allowed = budget.limits.get("allow_cpu_ops", frozenset())
    ops = allowed if isinstance(allowed, frozenset) else frozenset()
    # Of a generator the worst phase counts, and what is allowed is taken off in each: not off the worst of all.
    actual = max(_fact(facts, key.judges, ops) for facts in record.phases.values() or [record.facts])
    excess = actual / limit - 1 if limit else actual
    seen = replace(result, actual=quantity(actual, key.unit), actual_value=actual)
    if actual > limit:
        return replace(seen, state=Limit.BROKEN, excess=excess)
    if record.unavailable_facts:  # what was seen may be too low: it can break a limit, and can hold none
        return replace(result, why=record.unavailable_facts)
    unstable = [difference for difference in record.facts.unstable if difference.fact == key.judges]
    if unstable:
        return replace(seen, why=f"it differs between runs: {difference_text(unstable[0])}")
    return replace(seen, state=Limit.HELD)


def _fact(facts: Facts, name: str, allowed_cpu_ops: frozenset[str]) -> float:
    if name == "cpu_nodes":
        shape_ops = Counter[str]()
        for counted in facts.shape_nodes:
            shape_ops[counted.node.op_type] += counted.executions
        return facts.cpu_nodes - sum(facts.ops.get(f"{CPU}:{op}", 0) - shape_ops[op] for op in allowed_cpu_ops)
    return float(getattr(facts, name))


def _check_required_ops(key: BudgetKey, required: frozenset[str], record: Record) -> LimitResult:
    limit_text = ", ".join(sorted(required))
    if record.facts is None or record.unavailable_facts:
        return LimitResult(key.name, Limit.CANNOT_TELL, "", limit_text, why=record.unavailable_facts)
    ran = {op.split(":", 1)[1] for op in record.facts.ops}
    missing = sorted(required - ran)
    if not missing:
        return LimitResult(key.name, Limit.HELD, limit_text, limit_text)
    close = {op: difflib.get_close_matches(op, ran, n=1) for op in missing}
    hints = "".join(f"; {op}: did you mean {names[0]}?" for op, names in close.items() if names)
    why = f"missing: {', '.join(missing)}{hints}"
    there = f"only {', '.join(sorted(required & ran))} ran" if required & ran else "none of them ran"
    return LimitResult(key.name, Limit.BROKEN, there, limit_text, 1, why)
