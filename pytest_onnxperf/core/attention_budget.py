"""The budget keys `attention` and `min_attention_nodes`: which kernels attention nodes must run."""

from __future__ import annotations

import difflib
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from .attention_names import FUSED, FUSED_KERNELS, KERNELS
from .errors import BudgetError
from .limits import LimitResult
from .phases import DECODE, PREFILL
from .states import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .attention import AttentionUse
    from .limits import Value
    from .record import Record

ATTENTION: Final = "attention"
LEAST: Final = "min_attention_nodes"
_MOST_GROUPS: Final = 4


def parse_kernels(name: str, value: object) -> frozenset[str]:
    """Return the kernels that a budget names, with `fused` for any of the fused ones.

    Raises:
        BudgetError: It is no name of a kernel or a set of them.
    """
    values = {value} if isinstance(value, str) else value
    known = ", ".join([*KERNELS, FUSED])
    if not isinstance(values, set | frozenset | list | tuple) or not values:
        msg = f"`{name}`: expected the name of a kernel or a set of them ({known}), got {value!r}"
        raise BudgetError(msg)
    for kernel in values:
        if not isinstance(kernel, str) or kernel not in {*KERNELS, FUSED}:
            close = difflib.get_close_matches(str(kernel).lower(), [*KERNELS, FUSED], n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {known}"
            msg = f"`{name}`: unknown kernel {kernel!r}, {hint}"
            raise BudgetError(msg)
    return frozenset(values)


def check_attention(limits: Mapping[str, Value], record: Record) -> Iterator[LimitResult]:
    """Check the two keys, which belong together: all nodes must run one of the kernels, or at least so many.

    Of a generator each phase must hold them.
    """
    if ATTENTION not in limits and LEAST not in limits:
        return
    named = limits.get(ATTENTION, frozenset())
    allowed = frozenset(named) if isinstance(named, frozenset) else frozenset[str]()
    least = limits.get(LEAST)
    key = ATTENTION if allowed else LEAST
    limit = _limit_text(allowed, least)
    if record.facts is None:
        yield LimitResult(key, Limit.CANNOT_TELL, "", limit, why=record.unavailable_facts)
        return
    by_phase: dict[str, list[AttentionUse]] = defaultdict(list)
    for phase in (PREFILL, DECODE):
        if phase in record.phases:
            by_phase[phase] = []
    for use in record.facts.attention:
        by_phase[use.phase].append(use)
    results = [
        _check_phase(key, limit, uses, _with_fused(allowed), least)
        if uses or least == 0
        else _without_attention(key, limit, record, phase)
        for phase, uses in (by_phase or {"": []}).items()
    ]
    order = (Limit.BROKEN, Limit.CANNOT_TELL, Limit.HELD)
    worst = min(results, key=lambda result: (order.index(result.state), -result.excess))
    # What was seen may be too little: a node that ran otherwise breaks the limit, too few nodes do not.
    if record.unavailable_facts and (worst.state is Limit.HELD or least is not None):
        worst = LimitResult(key, Limit.CANNOT_TELL, worst.actual, limit, why=record.unavailable_facts)
    yield worst


def _limit_text(allowed: frozenset[str], least: Value | None) -> str:
    kernels = " or ".join(sorted(allowed)) or "attention"
    return kernels if least is None else f"at least {_count(int(str(least)))} of {kernels}"


def _with_fused(allowed: frozenset[str]) -> frozenset[str]:
    return (allowed - {FUSED}) | FUSED_KERNELS if FUSED in allowed else allowed


def _without_attention(key: str, limit: str, record: Record, phase: str) -> LimitResult:
    """Without a node there is nothing that ran as demanded; a node that hides others leaves it open."""
    why = record.unavailable_facts
    facts = record.phases.get(phase, record.facts)
    hiding = [op for op in (facts.ops if facts else {}) if _may_hide(op)]
    if hiding:
        why = f"no attention node is in the profile, and {hiding[0].split(':')[0]} may have compiled it into another"
    if why:
        return LimitResult(key, Limit.CANNOT_TELL, "", limit, why=why)
    why = "the profile has no attention operator, and no MatMul, Softmax, MatMul that fit together"
    actual = "no attention node" + (f" ({phase})" if phase else "")
    return LimitResult(key, Limit.BROKEN, actual, limit, 1.0, why)


def _may_hide(op: str) -> bool:
    """Tell whether `<provider>:<op type>` is a part that the provider compiled: no operator has such a name.

    >>> _may_hide("TensorrtExecutionProvider:TRTKernel_graph_main_1_0"), _may_hide("CPUExecutionProvider:MatMul")
    (True, False)
    """
    return not op.partition(":")[2].isalnum()


def _check_phase(
    key: str, limit: str, uses: Sequence[AttentionUse], allowed: frozenset[str], least: Value | None
) -> LimitResult:
    good = [use for use in uses if use.kernels and (not allowed or set(use.kernels) <= allowed)]
    unknown = [use for use in uses if not use.kernels] if allowed else []
    bad = [use for use in uses if use not in good and use not in unknown]
    if not allowed:
        good, bad = list(uses), []
    wanted = len(uses) if least is None else int(str(least))
    actual = "; ".join(kernels_text([*bad, *unknown, *good]))
    why = "; ".join(uses_text([*bad, *unknown]))
    if len(good) >= wanted and (least is not None or not (bad or unknown)):
        return LimitResult(key, Limit.HELD, actual, limit)
    missing = wanted - len(good)
    if (least is None and bad) or (least is not None and len(good) + len(unknown) < wanted):
        return LimitResult(key, Limit.BROKEN, actual, limit, missing / max(wanted, 1), why)
    return LimitResult(key, Limit.CANNOT_TELL, actual, limit, why=why)


def kernels_text(uses: Sequence[AttentionUse]) -> list[str]:
    """Return how many nodes ran each kernel, `unfused in 2 nodes (decode)`."""
    groups: dict[tuple[str, str], int] = defaultdict(int)
    for use in uses:
        groups["+".join(use.kernels) or "unknown", use.phase] += 1
    return [
        f"{kernel} in {_count(number)}{f' ({phase})' if phase else ''}" for (kernel, phase), number in groups.items()
    ]


def uses_text(uses: Sequence[AttentionUse]) -> list[str]:
    """Return a line for each group of nodes that ran alike: operator, kernel, shape, an example, and the evidence."""
    groups: dict[tuple[object, ...], list[AttentionUse]] = defaultdict(list)
    for use in uses:
        alike = (use.node.op_type, use.kernels, use.phase, use.head_size, use.query_length, use.element_type)
        groups[alike].append(use)
    lines = [_group_text(group) for group in groups.values()]
    if len(lines) > _MOST_GROUPS:
        lines[_MOST_GROUPS:] = [f"and {len(lines) - _MOST_GROUPS} more groups"]
    return lines


def _group_text(group: Sequence[AttentionUse]) -> str:
    use = group[0]
    kernel = " and ".join(use.kernels) or "cannot tell"
    shape = [f"{word} {value}" for word, value in (("head size", use.head_size), ("query length", use.query_length))
             if value is not None]  # fmt: skip
    details = ", ".join([*([use.element_type] if use.element_type else []), *shape])
    example = f", e.g. {use.node.name}" if len(group) > 1 else f" {use.node.name}"
    phase = f" in {use.phase}" if use.phase else ""
    text = f"{len(group)} x {use.node.op_type}{phase}" if len(group) > 1 else f"{use.node.op_type}{phase}"
    return f"{text}: {kernel} ({details}){example}: {use.evidence}"


def _count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"
