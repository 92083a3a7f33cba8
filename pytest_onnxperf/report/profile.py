"""A profile, its facts and what changed between two, as lines of at most 80 columns."""

from collections.abc import Iterator, Mapping, Sequence

from pytest_onnxperf.core.facts import CPU, Facts, difference_text
from pytest_onnxperf.core.op_table import OpRow
from pytest_onnxperf.core.profile import DeviceTotal, Profile
from pytest_onnxperf.core.text import printable
from pytest_onnxperf.report.profile_diff import ProfileChanges
from pytest_onnxperf.report.wrap import cell, shortened, wrapped

TABLE_WIDTH = 80
_OP_WIDTH = 25
_EP_WIDTH = 10
_LAUNCH = "Node time here is the time to launch it, not the time on the device."
_HEAD = f"{'op type':<{_OP_WIDTH}} {'EP':<{_EP_WIDTH}} {'a run':>7} {'ms total':>9} {'ms self':>9} {'share':>6} class"


def profile_lines(profile: Profile, facts: Facts, top: int | None) -> Iterator[str]:
    """Yield what `onnxperf profile` shows: the file, what to know about it, the facts, the op table."""
    yield printable(profile.path)
    counts = ", ".join(f"{category} {count:,}" for category, count in sorted(profile.categories.items()))
    events, runs = _number(profile.events, "event"), _number(len(profile.runs), "run")
    yield from _wrapped(f"{events} ({counts}), {runs}")
    for note in profile.notes:
        yield from _wrapped(f"Note: {note}", "  ")
    for line in profile.unread:
        yield from _wrapped(f"  line {line.line}: {line.text}", "    ")
    yield ""
    yield from fact_lines(facts)
    if facts.op_table:
        yield ""
        yield from op_table_lines(facts.op_table, top)
    for category, totals in (("Api", profile.api_events), ("Kernel", profile.kernel_events)):
        if totals:
            yield ""
            yield from _device_lines(category, totals, top)


def fact_lines(facts: Facts) -> Iterator[str]:
    """Yield the facts, a line each, or the reason why they cannot be told."""
    if facts.unavailable is not None:
        yield from _wrapped(f"Facts cannot be told: {facts.unavailable}.", "  ")
        if not facts.runs:
            return
        yield "Seen all the same, and maybe too low, a run:"
    else:
        yield "Facts, a run:"
    yield f"  memcpy nodes {facts.memcpy} (to host {facts.memcpy_to_host}, from host {facts.memcpy_from_host})"
    if facts.memcpy:
        yield f"  memcpy time  {facts.memcpy_ns / 1e6:.3f} ms, {facts.memcpy_share:.1%} of node time"
    providers = ", ".join(f"{provider or '(none)'} {count}" for provider, count in facts.nodes_by_provider.items())
    yield from _wrapped(f"  nodes        {facts.nodes} ({providers})", " " * 15)
    yield f"  CPU nodes    {facts.cpu_nodes}"
    if facts.shape_nodes:
        names = ", ".join(f"{counted.node.op_type} {counted.node.name}" for counted in facts.shape_nodes)
        yield from _wrapped(f"  not counted, as they compute shapes on the CPU on purpose: {names}", " " * 4)
    if facts.fused_ops:
        fused = ", ".join(f"{op_type} {count}" for op_type, count in facts.fused_ops.items())
        yield from _wrapped(f"  fused ops    {fused}", " " * 15)
    for difference in facts.unstable if facts.unavailable is None else ():
        yield from _wrapped(f"  unstable: {difference.fact} differs: {difference_text(difference)}", " " * 4)


def op_table_lines(rows: Sequence[OpRow], top: int | None, *, with_advice: bool = True) -> Iterator[str]:
    """Yield the op table, the rows with most self time first, and the advice for the classes in it.

    Args:
        rows: The rows, in their order.
        top: How many of them; None: all.
        with_advice: False leaves the advice out.
    """
    if any(row.execution_provider not in {CPU, ""} for row in rows):
        yield _LAUNCH
    yield _HEAD
    shown = rows if top is None else rows[:top]
    for row in shown:
        op_type = cell(printable(row.op_type or "(none)"), _OP_WIDTH)
        provider = cell(short_provider(row.execution_provider), _EP_WIDTH)
        times = f"{row.duration_per_run_ns / 1e6:>9.3f} {row.self_per_run_ns / 1e6:>9.3f} {row.self_share_ratio:>6.1%}"
        yield f"{op_type} {provider} {row.executions_per_run:>7.4g} {times} {row.op_class}"
    if len(shown) < len(rows):
        yield f"and {len(rows) - len(shown)} more"
    classes = dict.fromkeys((row.op_class, row.advice) for row in shown) if with_advice else {}
    for op_class, advice in classes:
        yield from _wrapped(f"{op_class}: {advice}", "  ")


def diff_lines(changes: ProfileChanges) -> Iterator[str]:
    """Yield what `onnxperf diff` shows."""
    yield f"A: {printable(changes.old_path)}"
    yield f"B: {printable(changes.new_path)}"
    yield ""
    for name, reason in (("A", changes.old_unavailable), ("B", changes.new_unavailable)):
        if reason is not None:
            yield from _wrapped(f"Facts of {name} cannot be told: {reason}.", "  ")
    if changes.facts:
        yield f"{'a run':<56} {'A':>7} {'B':>7} {'change':>7}"
        for change in changes.facts:
            yield f"{cell(printable(change.name), 56)} {change.old:>7} {change.new:>7} {change.new - change.old:>+7}"
    elif changes.old_unavailable is None and changes.new_unavailable is None:
        yield "The facts are the same."
    yield ""
    if changes.is_launch_time:
        yield _LAUNCH
    yield f"{'self time, ms a run (noise: decides nothing)':<53} {'A':>8} {'B':>8} {'change':>8}"
    for time in changes.times:
        ratio = f"{time.new_ns / time.old_ns - 1:>+8.0%}" if time.old_ns and time.new_ns else f"{'-':>8}"
        yield f"{cell(printable(time.op_type), 53)} {time.old_ns / 1e6:>8.3f} {time.new_ns / 1e6:>8.3f} {ratio}"


def short_provider(name: str) -> str:
    """Return the name of an execution provider for a column.

    >>> short_provider("CUDAExecutionProvider"), short_provider("")
    ('CUDA', '-')
    """
    return shortened(printable(name.removesuffix("ExecutionProvider") or "-"), _EP_WIDTH)


def op_name(op: str) -> str:
    """Return `<provider>:<op type>` as people say it.

    >>> op_name("CUDAExecutionProvider:MatMul")
    'MatMul on CUDA'
    """
    provider, _, op_type = op.partition(":")
    return f"{op_type or '(none)'} on {short_provider(provider)}"


def _device_lines(category: str, totals: Mapping[str, DeviceTotal], top: int | None) -> Iterator[str]:
    yield f"{category + ' events, whole file, on the clock of the device':<62} {'events':>7} {'ms':>9}"
    by_time = sorted(totals.items(), key=lambda item: (-item[1].duration_ns, item[0]))
    for name, total in by_time[:top]:
        yield f"{cell(printable(name), 62)} {total.events:>7} {total.duration_ns / 1e6:>9.3f}"
    if top is not None and top < len(by_time):
        yield f"and {len(by_time) - top} more"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrapped(printable(text), indent, TABLE_WIDTH)
