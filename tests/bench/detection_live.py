"""Measures processes of models that are really 3, 5 and 10 % larger, in the format that `replay` reads."""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.process import ProcessWorker
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

BLOCKS: Final = (100, 103, 105, 110)
ROUNDS: Final = 200
WARMUP_ROUNDS: Final = 20
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(directory: Path, processes: int) -> None:
    """Run so many processes of each model in random order and write `live.jsonl`.

    Args:
        directory: Where the file goes.
        processes: Of each model.
    """
    order = [blocks for blocks in BLOCKS for _ in range(processes)]
    random.shuffle(order)
    sizes: dict[str, dict[str, int]] = {"compute": {}, "memory": {}}
    with tempfile.TemporaryDirectory() as temporary, (directory / "live.jsonl").open("w", encoding="utf-8") as file:
        paths = {blocks: models.slow_model(Path(temporary) / f"{blocks}.onnx", blocks=blocks) for blocks in BLOCKS}
        for number, blocks in enumerate(order):
            logs = Path(temporary) / str(number)
            logs.mkdir()
            start_s = time.time()
            alone_ns, beside = _process(paths[blocks], logs, sizes)
            sizes = {kind: spec["size"] for kind, spec in beside["specs"].items()}
            kinds = {"A" if blocks == 100 else f"B{blocks - 100}": [alone_ns]}
            tested_ns = beside["times_ns"]["tested"]
            kinds |= {f"r{kind}{blocks}": [beside["times_ns"][kind], tested_ns] for kind in sizes}
            for kind, data in kinds.items():
                print(json.dumps({"kind": kind, "t0": start_s, "data": data}), file=file)


def _process(model: Path, logs: Path, sizes: dict[str, dict[str, int]]) -> tuple[list[int], dict[str, Any]]:
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
