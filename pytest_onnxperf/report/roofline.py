"""The roofline table as lines of at most 80 columns: what bounds each operator, and how near its ceiling it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.providers import CPU
from pytest_onnxperf.core.units import number

from .profile import TABLE_WIDTH, short_provider
from .wrap import cell, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_onnxperf.core.roofline import Ceilings, RooflineRow

_OP_WIDTH: Final = 19
_EP_WIDTH: Final = 6
_COLUMNS: Final = (("FLOP", 7), ("bytes", 7), ("FLOP/B", 6), ("bound", 7), ("least", 7), ("node", 7), ("of it", 5))
PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def roofline_lines(rows: Sequence[RooflineRow], ceilings: Ceilings | None) -> Iterator[str]:
    """Yield the source of the ceilings, the rows, each a run, and what the numbers do not cover.

    k, M and G are 10^3, 10^6 and 10^9. `least` is the least time at the ceilings, `node` the measured time of the
    nodes, `of it` the first over the second; `<` before a number says that it is an upper bound.
    """
    yield from _wrapped(_head(ceilings))
    if not rows:
        yield "No product, convolution or attention ran: there is nothing to tell."
        return
    names = " ".join(f"{name:<{width}}" if name == "bound" else f"{name:>{width}}" for name, width in _COLUMNS)
    yield f"{'op type, a run':<{_OP_WIDTH}} {'EP':<{_EP_WIDTH}} {names}"
    yield from map(_line, rows)
    yield from _notes(rows, ceilings)


def _head(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return "Roofline: no ceilings are known for this device, so what bounds an operator is not told."
    rates = ", ".join(f"{name} {scaled(rate, PREFIXES, ' ')}FLOP/s" for name, rate in ceilings.flop_per_s.items())
    return (
        f"Roofline, ceilings of {ceilings.device} ({ceilings.source}): {rates}, "
        f"memory {scaled(ceilings.bytes_per_s, PREFIXES, ' ')}B/s"
    )


def scaled(value: float, units: Sequence[tuple[float, str]], space: str = "") -> str:
    """Write a value with three digits in the largest unit of which there is one, else without."""
    for scale, unit in units:
        if value >= scale:
            return f"{number(value / scale)}{space}{unit}"
    return f"{number(value)}{space}"


def _time(value_ns: float) -> str:
    text = scaled(value_ns, _TIMES)
    return text if text[-1] == "s" else f"{text}ns"


def _line(row: RooflineRow) -> str:
    mark = "<" if row.is_upper_bound else ""
    is_unknown = row.unknown_per_run >= row.executions_per_run
    values = (
        "-" if is_unknown else mark + scaled(row.flop_per_run, PREFIXES),
        "-" if is_unknown else mark + scaled(row.bytes_per_run, PREFIXES),
        "-" if row.flop_per_byte is None else scaled(row.flop_per_byte, PREFIXES),
        row.bound or "-",
        "-" if row.least_ns_per_run is None else mark + _time(row.least_ns_per_run),
        "-" if row.node_ns_per_run is None else _time(row.node_ns_per_run),
        "-" if row.attained_ratio is None else f"{row.attained_ratio:.0%}",
    )
    texts = [
        f"{text:<{width}}" if name == "bound" else f"{text:>{width}}"
        for text, (name, width) in zip(values, _COLUMNS, strict=True)
    ]
    provider = short_provider(row.execution_provider)[:_EP_WIDTH]
    op_type = cell(_plain(row.op_type), _OP_WIDTH, _OP_WIDTH - 3)
    return f"{op_type} {cell(provider, _EP_WIDTH)} {' '.join(texts)}"


def _notes(rows: Sequence[RooflineRow], ceilings: Ceilings | None) -> Iterator[str]:
    on_device = [row for row in rows if row.execution_provider != CPU]
    if any(row.node_ns_per_run is not None for row in on_device):
        yield from _wrapped("`node` is the time of the device's own events, warm-up runs among them.")
    elif on_device:
        yield from _wrapped(
            "Node time on another EP than the CPU is the time to launch the node, not the time on the device: it is "
            "not shown, nor held against the least time."
        )
    if any(row.is_upper_bound for row in rows):
        yield from _wrapped(
            "<: at most. Causal attention is counted as the whole matrix, and a shared KV buffer to its full length."
        )
    for row in rows:
        if row.unknown_per_run:
            yield from _wrapped(
                f"{row.op_type} on {short_provider(row.execution_provider)}: the shapes of "
                f"{number(row.unknown_per_run)} of {number(row.executions_per_run)} executions a run do not tell the "
                "work (packed weights are not in a profile), and it is not counted."
            )
    if ceilings is not None and any(row.least_ns_per_run is None and row.flop_per_run for row in rows):
        yield from _wrapped(
            "Where `least` is missing, no ceiling is known for that EP, or for the element type of an execution."
        )


def _wrapped(text: str) -> list[str]:
    return wrapped(_plain(text), "  ", TABLE_WIDTH, break_long_words=True)


def _plain(text: str) -> str:
    """Replace what a terminal would act on, a column for a column."""
    return "".join(char if char.isprintable() else "?" for char in text)
