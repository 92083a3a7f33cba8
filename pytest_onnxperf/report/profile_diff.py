"""What changed between two profiles: facts, which decide, and time, which is shown."""

from dataclasses import dataclass

from pytest_onnxperf.core.facts import CPU, Facts
from pytest_onnxperf.core.profile import Profile


@dataclass(frozen=True, slots=True)
class FactChange:
    """A count that is not the same."""

    name: str
    """`memcpy`, `nodes`, `cpu_nodes`, or the execution provider and operator, `CUDAExecutionProvider:MatMul`."""

    old: int
    new: int


@dataclass(frozen=True, slots=True)
class TimeChange:
    """Self time of all nodes of an operator, per run."""

    op_type: str
    old_ns: float
    new_ns: float


@dataclass(frozen=True, slots=True)
class ProfileChanges:
    """What is different in the second profile, per run."""

    old_path: str
    new_path: str
    old_unavailable: str | None
    """Why the facts of the first cannot be told; None where they can."""

    new_unavailable: str | None
    facts: tuple[FactChange, ...]
    times: tuple[TimeChange, ...]
    """Of every operator, the largest change first."""

    is_launch_time: bool
    """True: an asynchronous execution provider ran nodes, and their time is the time to launch them."""

    @property
    def differs(self) -> bool:
        """True: a fact is not the same, or can be told of one profile only. Time does not count."""
        return bool(self.facts) or (self.old_unavailable is None) != (self.new_unavailable is None)


def changes_between(old: Profile, old_facts: Facts, new: Profile, new_facts: Facts) -> ProfileChanges:
    """Compare two profiles."""
    old_counts, new_counts = _counts(old_facts), _counts(new_facts)
    names = dict.fromkeys([*old_counts, *new_counts])
    changed = [name for name in names if old_counts.get(name, 0) != new_counts.get(name, 0)]
    return ProfileChanges(
        old_path=old.path,
        new_path=new.path,
        old_unavailable=old_facts.unavailable,
        new_unavailable=new_facts.unavailable,
        facts=tuple(FactChange(name, old_counts.get(name, 0), new_counts.get(name, 0)) for name in changed),
        times=_times(old_facts, new_facts),
        is_launch_time=any(
            row.execution_provider not in {CPU, ""} for row in (*old_facts.op_table, *new_facts.op_table)
        ),
    )


def _counts(facts: Facts) -> dict[str, int]:
    return {
        "memcpy": facts.memcpy,
        "memcpy_to_host": facts.memcpy_to_host,
        "memcpy_from_host": facts.memcpy_from_host,
        "nodes": facts.nodes,
        "cpu_nodes": facts.cpu_nodes,
        **facts.ops,
    }


def _times(old: Facts, new: Facts) -> tuple[TimeChange, ...]:
    old_ns, new_ns = _self_ns(old), _self_ns(new)
    names = dict.fromkeys([*old_ns, *new_ns])
    times = [TimeChange(name or "(none)", old_ns.get(name, 0.0), new_ns.get(name, 0.0)) for name in names]
    return tuple(sorted(times, key=lambda time: (-abs(time.new_ns - time.old_ns), time.op_type)))


def _self_ns(facts: Facts) -> dict[str, float]:
    times: dict[str, float] = {}
    for row in facts.op_table:
        times[row.op_type] = times.get(row.op_type, 0.0) + row.self_per_run_ns
    return times
