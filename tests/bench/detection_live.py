"""Measures processes of models that are really 3, 5 and 10 % larger, in the format that `replay` reads."""

from __future__ import annotations

import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_onnxperf.core.paired import TESTED
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.child import reference
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.process import ProcessWorker
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import genai_models, models
from tests.genai_models import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCKS: Final = (100, 103, 105, 110)
ROUNDS: Final = 200
WARMUP_ROUNDS: Final = 20
LAYERS: Final = (20, 21, 22)
"""Of a decoder: 5 and 10 % more work in every step."""
WIDTHS: Final = {
    "tiny": Size(context=64),
    "large": Size(hidden=256, heads=8, kv_heads=4, inner=512, context=64),
}
"""With 20 layers of 3 MB, which stay in a cache, and of 48 MB, which do not."""
GENERATIONS: Final = 60
PROMPT: Final = {"prompt_tokens": 32, "new_tokens": 25}
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_Arm = TypeVar("_Arm")
_Sizes = dict[str, dict[str, int]]


def measure(directory: Path, processes: int) -> None:
    """Run so many processes of each model in random order and write `live.jsonl`.

    Args:
        directory: Where the file goes.
        processes: Of each model.
    """
    sizes: _Sizes = {kind: {} for kind in reference.KINDS}
    with tempfile.TemporaryDirectory() as temporary:
        paths = {blocks: models.slow_model(Path(temporary) / f"{blocks}.onnx", blocks=blocks) for blocks in BLOCKS}

        def process(blocks: int, logs: Path) -> list[dict[str, Any]]:
            alone_ns, beside = _process(paths[blocks], logs, sizes)
            sizes.update({kind: spec["size"] for kind, spec in beside["specs"].items()})
            alone = {"kind": "A" if blocks == 100 else f"B{blocks - 100}", "data": [alone_ns]}
            return [alone, *_beside(beside, "r", blocks)]

        _record(directory / "live.jsonl", BLOCKS, processes, process)


def measure_decoders(directory: Path, processes: int) -> None:
    """Run so many processes of each decoder in random order and write `decoders.jsonl`.

    Args:
        directory: Where the file goes.
        processes: Of each decoder.
    """
    sizes: dict[str, dict[str, _Sizes]] = {
        width: {phase: {kind: {} for kind in reference.KINDS} for phase in ("ttft", "decode")} for width in WIDTHS
    }
    with tempfile.TemporaryDirectory() as temporary:
        decoders = [(width, layers) for width in WIDTHS for layers in LAYERS]
        paths = {
            (width, layers): genai_models.decoder(
                Path(temporary) / f"{width}{layers}", size=replace(WIDTHS[width], layers=layers)
            )
            for width, layers in decoders
        }

        def process(decoder: tuple[str, int], logs: Path) -> list[dict[str, Any]]:
            width, layers = decoder
            found = _decoder_process(paths[decoder], logs, sizes[width])
            recorded = []
            for phase, beside in found.items():
                sizes[width][phase] = {kind: spec["size"] for kind, spec in beside["specs"].items()}
                recorded += _beside(beside, f"g{width}_{phase}_", 100 * layers // LAYERS[0])
            return [{**each, "rounds": GENERATIONS} for each in recorded]

        _record(directory / "decoders.jsonl", decoders, processes, process)


def _record(
    path: Path, arms: Sequence[_Arm], processes: int, process: Callable[[_Arm, Path], list[dict[str, Any]]]
) -> None:
    """Run so many processes of each arm in random order, and write what each recorded as soon as it is there."""
    order = [arm for arm in arms for _ in range(processes)]
    random.shuffle(order)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, path.open("w", encoding="utf-8") as file:
        for number, arm in enumerate(order):
            logs = Path(temporary) / str(number)
            logs.mkdir()
            start_s = time.time()
            for each in process(arm, logs):
                print(json.dumps({**each, "t0": start_s}), file=file, flush=True)


def _beside(found: dict[str, Any], prefix: str, percent: int) -> list[dict[str, Any]]:
    """Return a line for each kind of reference in the answer of a step `paired`."""
    times_ns = found["times_ns"]
    return [
        {"kind": f"{prefix}{kind}{percent}", "data": [times, times_ns[TESTED]]}
        for kind, times in times_ns.items()
        if kind != TESTED
    ]


def _process(model: Path, logs: Path, sizes: _Sizes) -> tuple[list[int], dict[str, Any]]:
    """Return the rounds of a fresh process, alone and beside the reference workloads."""
    job = SessionJob(model, model.name, provider_of("cpu"))
    with ProcessWorker(logs, timeout_s=120, environment=_ONE_THREAD) as worker:
        worker.call("hello")
        worker.call("open", job=job.open_arguments(1, ""))
        worker.call("make_feeds", shapes={"batch": 8}, ranges={}, bind=False)
        worker.call("warm_up", rounds=WARMUP_ROUNDS)
        alone_ns = worker.call("block", min_rounds=ROUNDS, max_time_s=0.0)["rounds_ns"]
        beside = worker.call("paired", sizes=sizes, rounds=ROUNDS)
        worker.close()
    return alone_ns, beside


def _decoder_process(model: Path, logs: Path, sizes: dict[str, _Sizes]) -> dict[str, Any]:
    """Return the generations of a fresh process beside the reference workloads, by phase."""
    job = GeneratorJob(model, model.name, provider_of("cpu"), prompt=PROMPT)
    with ProcessWorker(logs, timeout_s=120, environment=_ONE_THREAD, kind="generator") as worker:
        worker.call("hello")
        worker.call("open", job=job.open_arguments(1, ""))
        worker.call("prepare", **job.prompt)
        worker.call("warm_up", rounds=3)
        beside = worker.call("paired", sizes=sizes, rounds=GENERATIONS)
        worker.close()
    return beside
