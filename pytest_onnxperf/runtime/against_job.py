"""One measurement in two arms: two measuring processes timed in turn, a profile of each, and a record of each.

One timed run at a time crosses a pipe to one of two processes that are both warm, in random order within each pair.
Which process starts first alternates: it is worth 1 % (measured).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.against import Turns, turns_of
from pytest_onnxperf.core.errors import InputsError, MeasurementError, about
from pytest_onnxperf.core.pairs import FEWEST_PAIRS
from pytest_onnxperf.core.stages import Stage

from .generator_job import GeneratorJob
from .measure import Measurement
from .turns import HeldWorker, Times, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pytest_onnxperf.core.record import Record, TestKey
    from pytest_onnxperf.core.stages import Tell

    from .against import Reference
    from .plan import Plan, Profiled, Subject, Timing

_UNTIMED: Final = 2
_SHORT_NS: Final = 10_000_000
"""A round shorter than this has untimed ones right before it. Measured: a process that waits on a pipe wakes up to cold
caches and pays 0.2 ms, twice the time of a small model, of which a slowdown of 45 % is then seen as 27 %."""


class _Arm(Measurement):
    """What both arms do."""

    def __init__(self, subject: Subject, plan: Plan, directory: Path, progress: Tell, reference: Reference) -> None:
        super().__init__(subject, replace(plan, references=None), directory, progress)
        self._reference = reference
        self.timings: list[Timing] = []

    def open_and_time(self, worker: HeldWorker) -> None:
        """Open, warm up and time a block of rounds; the process stays."""
        self.timings.append(self._with_vram(self._subject.time(worker, self._plan)))

    def held(self, after_open: Callable[[Mapping[str, Any]], None]) -> HeldWorker:
        """Start a timing process of this arm."""
        return HeldWorker(self._new_directory("timing"), after_open, **self._process_options("timing"))


class _ReferenceArm(_Arm):
    """The arm of the reference; every error says that it is this one's."""

    def open_and_time(self, worker: HeldWorker) -> None:
        with self.named():
            super().open_and_time(worker)

    def profile(self) -> None:
        """Profile it in a process of its own."""
        with self.named():
            self._profiled = self._profile()

    def assembled(self, key: TestKey) -> Record:
        """Return the record of what was measured so far."""
        assert self._profiled is not None
        return self._assemble(key, self.timings, self._profiled, self._subject.size_bytes())

    @contextmanager
    def named(self) -> Iterator[None]:
        """Say in an error that it is about this arm."""
        with about(f"the reference arm, {self._reference.text}"):
            try:
                yield
            except InputsError as error:
                msg = f"{error}\nWhere the model here takes them, the two have other inputs and cannot be compared."
                raise InputsError(msg) from error

    def _process_options(self, what: str) -> dict[str, Any]:
        options = super()._process_options(what)
        options["environment"] |= self._reference.variables
        return {**options, "python": self._reference.python}


class AgainstMeasurement(_Arm):
    """The tested arm, which takes the reference arm along: `record()` measures both."""

    def __init__(
        self,
        subject: Subject,
        counterpart: Subject,
        plan: Plan,
        directory: Path,
        progress: Tell,
        *,
        reference: Reference,
        floor_ratio: float,
    ) -> None:
        """Prepare both arms.

        Args:
            subject: Of the tested arm.
            counterpart: Of the reference arm.
            plan: For both.
            directory: For the files of their processes.
            progress: Told what goes on.
            reference: Whose interpreter the counterpart runs in.
            floor_ratio: A median within it is no change.
        """
        super().__init__(subject, plan, directory, progress, reference)
        block = replace(plan, max_time_s=0.0)  # its absolute figures are shown by nobody, but memory is read after it
        self._other = _ReferenceArm(counterpart, block, directory / "reference", self._stages.relay, reference)
        self._floor_ratio = floor_ratio
        self._repetitions: list[list[tuple[Times, Times]]] = []
        self._decoded_tokens = 0

    def turns(self) -> tuple[Turns, ...]:
        """Judge what was timed in turn so far."""
        names = self._repetitions[0][0][0] if self._repetitions else ()
        return tuple(
            turns_of(
                name,
                [[(before[name], tested[name]) for before, tested in pairs] for pairs in self._repetitions],
                self._decoded_tokens if name == "decode_throughput" else 0,
                self._floor_ratio,
            )
            for name in names
        )

    def is_suspicious(self) -> bool:
        """Whether two more pairs of processes should decide."""
        return any(turns.is_suspicious for turns in self.turns())

    def changed_files(self) -> tuple[str, ...]:
        """Return the files of the model that the arms have otherwise."""
        return self._reference.changed_files(self._subject)

    def reference_record(self, key: TestKey) -> Record:
        """Return what the reference arm is."""
        return self._other.assembled(key)

    def _time(self) -> Timing:
        inputs: list[Any] = []
        arms = (self, self._other) if len(self._repetitions) % 2 else (self._other, self)
        workers: dict[_Arm, HeldWorker] = {}
        with ExitStack() as stack:
            for arm in arms:
                with self._other.named() if arm is self._other else ExitStack():
                    worker = arm.held(lambda opened: self._check_inputs(inputs, opened))
                workers[arm] = stack.enter_context(worker)
                arm.open_and_time(worker)
            tested, other = workers[self], workers[self._other]
            self._repetitions.append(self._take_turns(other, tested))
            if isinstance(self._subject, GeneratorJob):
                self._decoded_tokens = tested.decoded_tokens
            tested.end()
            with self._other.named():
                other.end()
        return self.timings[-1]

    def _check_inputs(self, seen: list[Any], opened: Mapping[str, Any]) -> None:
        """Refuse arms that take inputs of other names: the same feeds could not go to both."""
        seen.append(sorted(each["name"] for each in opened.get("inputs", ())))
        if len(seen) == 2 and seen[0] != seen[1]:
            text = [", ".join(f"`{name}`" for name in names) or "none" for names in seen]
            mine, its = text if len(self._repetitions) % 2 else reversed(text)
            msg = (
                f"the two arms take inputs of other names, so that the same feeds cannot go to both: {mine} here, "
                f"{its} in {self._reference.text}"
            )
            raise MeasurementError(msg)

    def _take_turns(self, other: HeldWorker, tested: HeldWorker) -> list[tuple[Times, Times]]:
        min_rounds, max_time_s = self._plan.min_rounds, self._plan.max_time_s
        if isinstance(self._subject, GeneratorJob):
            min_rounds, max_time_s = self._subject.block_size(self._plan)

        def its_round() -> Times:
            with self._other.named():
                return other.round(untimed)

        usual_ns = min(sum(tested.round().values()) for _ in range(3))
        untimed = _UNTIMED if usual_ns < _SHORT_NS else 0
        return take_turns(
            its_round,
            lambda: tested.round(untimed),
            min_pairs=max(min_rounds, FEWEST_PAIRS),
            max_time_s=2 * max_time_s,  # `max_time_s` for each arm
            floor_ratio=self._floor_ratio,
            seed=len(self._repetitions),
            tell=partial(self._stages.at, Stage.ROUNDS),
        )

    def _profile(self) -> Profiled:
        profiled = super()._profile()
        self._other.profile()
        return profiled
