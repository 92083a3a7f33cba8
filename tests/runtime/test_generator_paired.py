"""Generations beside reference workloads: taken in pieces by a real process, until the verdict is certain."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.compare_metrics import Beside
from pytest_onnxperf.core.decide import StoredLimits
from pytest_onnxperf.core.paired import TESTED
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.stopping import Plan as StoppingPlan
from pytest_onnxperf.runtime.child.generator import GeneratorSteps
from pytest_onnxperf.runtime.child.references import References
from pytest_onnxperf.runtime.child.session import StepError
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.plan import Plan, Timing
from pytest_onnxperf.runtime.process import ProcessWorker
from tests import genai_models
from tests.genai_models import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.needs_genai

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LIMIT_LOG: Final = math.log(3)
"""So far from what is measured that no load of the machine leads from one side of a limit to the other."""
BETTER, WORSE, BETWEEN = -2 * LIMIT_LOG, 2 * LIMIT_LOG, 0.0
METRICS: Final = ("ttft", "decode_throughput")
SIZES: Final[dict[str, Any]] = {
    "ttft": {"compute": {"extent": 32, "repeats": 3}},
    "decode": {"compute": {"extent": 32, "repeats": 1}, "memory": {"rows": 8, "buffer_bytes": 1 << 20}},
}


class CountedWorker(ProcessWorker):
    """Notes how many generations beside references were asked for in each piece."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.pieces: list[int] = []

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        if command == "paired":
            self.pieces.append(arguments["rounds"])
        return super().call(command, **arguments)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genai_models.decoder(tmp_path_factory.mktemp("genai") / "decoder", size=Size(context=64))


@pytest.fixture
def timed(directory: Path, tmp_path: Path) -> Callable[..., tuple[Timing, list[int]]]:
    """Times the model in a process, and returns what it found and its pieces."""

    def timed(
        references: Mapping[str, Beside], *, new_tokens: int = 6, rounds: int | None = None, **changes: Any
    ) -> tuple[Timing, list[int]]:
        options: dict[str, Any] = {
            "warmup_rounds": 1, "min_rounds": 5, "max_time_s": 2.0, "profile_runs": 1, "timeout_s": 300.0,
            "isolation": "process", "threads": 1, **changes,
        }  # fmt: skip
        prompt = {"prompt_tokens": 8, "new_tokens": new_tokens}
        job = GeneratorJob(directory, directory.name, provider_of("cpu"), prompt=prompt, rounds=rounds)
        logs = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        logs.mkdir()
        with CountedWorker(logs, timeout_s=300, environment=ONE_THREAD, kind="generator") as worker:
            return job.time(worker, Plan(references=references, **options)), worker.pieces

    return timed


def baseline(timing: Timing, **changes: float | None) -> dict[str, Beside]:
    """A baseline against which `timing` is so much slower, as a logarithm; without limits where that is None."""
    made = {}
    for metric, change in changes.items():
        found = timing.paired[metric]
        ratio = found.tested_ns / found.references_ns["compute"]
        limits = None
        if change is not None:
            limits = StoredLimits(math.log(ratio) - change, calm_log=-LIMIT_LOG, worse_log=LIMIT_LOG)
        made[metric] = Beside(found.specs, limits, "compute")
    return made


def test_clear_cases_end_early_and_one_between_the_limits_takes_all_the_time(
    timed: Callable[..., tuple[Timing, list[int]]],
) -> None:
    first, pieces = timed({}, max_time_s=0.0, min_rounds=15)
    assert pieces == [15]  # nothing is known yet: all at once

    between, all_pieces = timed(baseline(first, ttft=BETWEEN, decode_throughput=BETWEEN))
    rounds = sum(all_pieces)
    looks = StoppingPlan(0, 0, 0, most_rounds=rounds).looks()
    assert [*accumulate(all_pieces)] == [*looks, rounds]
    assert len(looks) >= 2

    for changes in ((BETTER, BETTER), (WORSE, WORSE), (BETTER, WORSE)):
        wanted = baseline(first, **dict(zip(METRICS, changes, strict=True)))
        found, pieces = timed(wanted)
        assert sum(pieces) < rounds / 2, changes
        for metric in METRICS:  # what stood in the entry is what was run, in every piece
            assert found.paired[metric].specs == first.paired[metric].specs == between.paired[metric].specs


def test_both_metrics_must_be_certain(timed: Callable[..., tuple[Timing, list[int]]]) -> None:
    first, _ = timed({}, max_time_s=0.0, min_rounds=15)
    for ttft, decode in ((BETTER, BETWEEN), (BETWEEN, WORSE)):
        _, pieces = timed(baseline(first, ttft=ttft, decode_throughput=decode))
        looks = StoppingPlan(0, 0, 0, most_rounds=sum(pieces)).looks()
        assert [*accumulate(pieces)] == [*looks, sum(pieces)], (ttft, decode)
        assert len(looks) >= 2
    for changes in ({"ttft": BETTER, "decode_throughput": None}, {"ttft": WORSE}):
        _, pieces = timed(baseline(first, **changes))
        assert len(pieces) == 1, changes
        assert pieces[0] > 30


def test_a_given_number_of_generations_is_kept(timed: Callable[..., tuple[Timing, list[int]]]) -> None:
    first, pieces = timed({}, rounds=4)
    assert pieces == [4]
    _, pieces = timed(baseline(first, ttft=BETTER, decode_throughput=BETTER), rounds=50)
    assert pieces == [50]


def test_one_new_token_has_no_decode_to_wait_for(timed: Callable[..., tuple[Timing, list[int]]]) -> None:
    first, _ = timed({}, new_tokens=1, max_time_s=0.0)
    assert set(first.paired) == {"ttft"}
    found, pieces = timed(baseline(first, ttft=BETTER), new_tokens=1)
    assert set(found.paired) == {"ttft"}
    assert sum(pieces) <= 45


@pytest.fixture
def steps(directory: Path) -> Iterator[GeneratorSteps]:
    steps = GeneratorSteps()
    steps.open(GeneratorJob(directory, "decoder", provider_of("cpu")).open_arguments(1, ""))
    yield steps
    steps.close()


def test_a_piece_has_as_many_times_of_every_generation(steps: GeneratorSteps) -> None:
    steps.prepare(prompt_tokens=8, new_tokens=4)
    for rounds in (3, 1):
        found = steps.paired(SIZES, rounds)
        counts = {name: {kind: len(times) for kind, times in each["times_ns"].items()} for name, each in found.items()}
        assert counts == {
            "ttft": {TESTED: rounds, "compute": rounds},
            "decode": {TESTED: 3 * rounds, "compute": 4 * rounds, "memory": 4 * rounds},
        }
        sizes = {name: {kind: spec["size"] for kind, spec in each["specs"].items()} for name, each in found.items()}
        assert sizes == SIZES


def test_pieces_go_on_with_the_same_workloads_until_the_prompt_or_a_size_changes(
    steps: GeneratorSteps, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def noted(sizes: dict[str, dict[str, int]], tested_ns: int, device_id: int) -> References:
        made.append(sizes)
        return References(sizes, tested_ns, device_id)

    monkeypatch.setattr("pytest_onnxperf.runtime.child.generator_paired.References", noted)
    to_find: dict[str, Any] = {"ttft": {"compute": {}}, "decode": {"compute": {}}}
    steps.prepare(prompt_tokens=8, new_tokens=4)

    first, second = (steps.paired(to_find, 2) for _ in range(2))
    assert made == [{"compute": {}}] * 2  # once for each of the two metrics
    assert [first[name]["specs"] for name in to_find] == [second[name]["specs"] for name in to_find]

    steps.paired(SIZES, 1)
    assert made[2:] == list(SIZES.values())
    steps.prepare(prompt_tokens=9, new_tokens=4)
    steps.paired(SIZES, 1)
    assert made[4:] == list(SIZES.values())


def test_without_a_prompt_there_is_nothing_to_time(steps: GeneratorSteps) -> None:
    with pytest.raises(StepError, match="no prompt was given yet"):
        steps.paired(SIZES, 1)
