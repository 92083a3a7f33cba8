"""Several files of `--onnxperf-json` made one: shards of a suite, or one suite on several machines or versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from .errors import ResultsError
from .results import Machine, Results, Run, Test

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .results_measured import Environment, Measurement

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Merge:
    runs: list[tuple[Run, list[Test]]] = field(default_factory=list)
    """Each with no tests of its own, and its tests."""
    homes: dict[_Key, tuple[str, Test]] = field(default_factory=dict)
    """What was measured -> the file, and the test, where it stands."""
    machines: dict[tuple[object, ...], tuple[Machine, str]] = field(default_factory=dict)
    """Each with the first file that it is in."""


def merge(files: Sequence[tuple[str, Results]]) -> tuple[Results, tuple[str, ...]]:
    """Return one file of all, and what a reader should know of the mixture.

    A test may stand in several files where it was measured in several environments, device, execution provider and
    versions together. The same test in the same environment is one too many, unless it is the same in every field: then
    it is kept once, so that a file merged twice changes nothing.

    Args:
        files: Path, for the messages, and content.

    Raises:
        ResultsError: A test stands twice in the same environment, with different results; it names both files.
    """
    state, warnings = _Merge(), []
    for path, results in files:
        for run in results.runs:
            if not run.is_complete:
                ended = f"{len(run.tests)} test{'s' if len(run.tests) != 1 else ''}"
                warnings.append(f"{path}: a run in it did not come to its end; {ended} had ended")
            state.machines.setdefault(msgspec.structs.astuple(run.machine), (run.machine, path))
            _add(state, path, run)
    if len(state.machines) > 1:
        names = ", ".join(f"{each.node} ({each.cpu}, {path})" for each, path in state.machines.values())
        warnings.append(
            f"these are results of {len(state.machines)} machines: {names}. Each result names its environment; hold no "
            f"time of one machine against that of another"
        )
    runs = tuple(msgspec.structs.replace(head, tests=tuple(tests)) for head, tests in state.runs)
    return Results(runs=runs), tuple(warnings)


def _add(state: _Merge, path: str, run: Run) -> None:
    head = msgspec.structs.replace(run, tests=())
    kept = next((tests for known, tests in state.runs if known == head), None)
    if kept is None:
        kept = []
        state.runs.append((head, kept))
    unmeasured = {test.nodeid: test for test in kept if not any(_keys(test))}
    for test in run.tests:
        keys = list(_keys(test))
        twins = [state.homes[key] for key in keys if key in state.homes]
        if any(twin != test for _, twin in twins):
            where, _ = next(each for each in twins if each[1] != test)
            msg = (
                f"{test.nodeid} was measured twice in the same environment, with different results: in {where} and in "
                f"{path}. Leave one of them out"
            )
            raise ResultsError(msg)
        if twins or (not keys and unmeasured.get(test.nodeid) == test):
            continue
        state.homes.update(dict.fromkeys(keys, (path, test)))
        kept.append(test)


def _keys(test: Test) -> Iterator[_Key]:
    """Yield what names each thing that a test measured."""
    for one in test.measurements:
        yield test.nodeid, one.label, *_environment_key(one)
    for comparison in test.comparisons:
        arms = (comparison.reference, comparison.candidate)
        yield test.nodeid, comparison.label, "compared", *(key for arm in arms for key in _environment_key(arm))


def _environment_key(measurement: Measurement) -> _Key:
    place: Environment = measurement.environment
    return place.key, place.device, tuple(sorted(place.versions.items()))
