"""Cost of a whole `measure()` of a small model on the CPU, beside the sum of its measured rounds.

`python tests/bench/overhead.py` prints both for several measurements and exits with 1 where the median of what is left
over is above 2 s. Two processes start one after another, import numpy and onnxruntime, and make a session each: that is
CPU time, printed too, so that a figure from a busy machine, where it takes longer on the wall, can be told apart.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.declare import OPTION
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

LIMIT_S: Final = 2.0
TIMES: Final = 5


def main() -> int:
    """Measure the mlp model as a test with default options does."""
    defaults = {name: option.default for name, option in OPTION.items()}
    plan = Plan(
        warmup_rounds=defaults["warmup_rounds"],
        min_rounds=defaults["min_rounds"],
        max_time_s=defaults["max_time"],
        profile_runs=defaults["profile_runs"],
        timeout_s=defaults["timeout"],
        isolation="process",
        threads=defaults["threads"],
    )
    overheads_s = []
    with tempfile.TemporaryDirectory() as name:
        tempfile.tempdir = name  # a lock of its own: who else measures here is not waited for
        job = SessionJob(models.mlp(Path(name) / "mlp.onnx"), "mlp.onnx", provider_of("cpu"), shapes={"batch": 1})
        for time_number in range(TIMES):
            measurement = Measurement(job, plan, Path(name) / str(time_number), lambda _: None)
            begin, begin_s = os.times(), time.perf_counter()
            record = measurement.record(TestKey("bench", "mlp"), lambda _: False)
            wall_s, end = time.perf_counter() - begin_s, os.times()
            children_s = end.children_user + end.children_system - begin.children_user - begin.children_system
            own_s = end.user + end.system - begin.user - begin.system
            rounds_s = record.rounds / record.metrics["throughput"][0]
            overheads_s.append(wall_s - rounds_s)
            print(
                f"measure() {wall_s:.2f} s, {record.rounds} rounds {rounds_s:.2f} s, "
                f"difference {overheads_s[-1]:.2f} s; "
                f"CPU time of its processes {children_s:.2f} s, of pytest's own {own_s:.2f} s"
            )
        tempfile.tempdir = None
    overhead_s = median(overheads_s)
    verdict = "missed" if overhead_s > LIMIT_S else "held"
    load = f", load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    print(f"median overhead {overhead_s:.2f} s, limit {LIMIT_S:.0f} s: {verdict}{load}")
    return int(overhead_s > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
