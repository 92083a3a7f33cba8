"""Median latency as the plugin measures it, against a bare loop over the same session, in short blocks in turn.

`python tests/bench/latency.py` prints the ratio for models of a few us to a few ms, and exits with 1 where one is
beyond 2 %. It is the median over pairs of neighbouring blocks of the ratio of their medians: the two blocks of a pair
share the noise of the machine, so that the ratio holds on a busy one too.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.child import inputs
from pytest_onnxperf.runtime.child.steps import Steps
from pytest_onnxperf.runtime.session_job import SessionJob
from tests import models

LIMIT: Final = 0.02
BLOCK_S: Final = 0.01
PAIRS: Final = 200


def bare_loop(session: Any, feeds: dict[str, Any], rounds: int) -> list[int]:
    """What a person writes who wants to know the latency of a session.

    The outputs are named: with None in their place onnxruntime lists them anew in each run, which costs about 0.5 us.
    """
    names = [output.name for output in session.get_outputs()]
    times_ns = []
    for _ in range(rounds):
        begin_ns = time.perf_counter_ns()
        session.run(names, feeds)
        times_ns.append(time.perf_counter_ns() - begin_ns)
    return times_ns


def compare(model: Path, shapes: dict[str, int]) -> tuple[list[float], list[float], int]:
    """Return the median latency of each block of both, in ns, and the rounds in a block."""
    steps = Steps()
    steps.open(SessionJob(model, model.name, provider_of("cpu")).open_arguments(1, ""))
    session = steps._session
    feeds: dict[str, Any] = dict(inputs.make_feeds(session, shapes, {}))
    steps.set_feeds(feeds, bind=False)  # the same arrays: where they lie in memory is worth more than 1 %
    steps.warm_up(20)
    rounds = max(5, int(BLOCK_S * 1e9 / median(bare_loop(session, feeds, 20))))
    generator = random.Random(0)
    plugin_ns: list[float] = []
    bare_ns: list[float] = []
    for _ in range(PAIRS):
        order = [True, False]
        generator.shuffle(order)
        for is_plugin in order:
            if is_plugin:
                plugin_ns.append(median(steps.block(min_rounds=rounds, max_time_s=0.0)["rounds_ns"]))
            else:
                bare_ns.append(median(bare_loop(session, feeds, rounds)))
    steps.close()
    return plugin_ns, bare_ns, rounds


def ratio_of(case: str, model: Path, shapes: dict[str, int]) -> float:
    """Print the figures of one model and return its ratio."""
    plugin_ns, bare_ns, rounds = compare(model, shapes)
    ratio = median(plugin / bare for plugin, bare in zip(plugin_ns, bare_ns, strict=True))
    print(
        f"{case:<12} plugin {median(plugin_ns) / 1e3:8.2f} us, bare loop {median(bare_ns) / 1e3:8.2f} us, "
        f"ratio {ratio:.4f} ({PAIRS} pairs of blocks of {rounds} rounds)"
    )
    return ratio


def main() -> int:
    """Compare on each model; one beyond the limit is compared twice more, and the median of the three counts."""
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cases = {
            "mlp": (models.mlp(directory / "mlp.onnx"), {"batch": 1}),
            "convnet": (models.convnet(directory / "convnet.onnx"), {"batch": 1}),
            "transformer": (
                models.transformer_block(directory / "block.onnx"),
                {"batch": 1, "seq": 32, "past": 0, "total": 32},
            ),
            "slow": (models.slow_model(directory / "slow.onnx"), {"batch": 8}),
        }
        for case, (model, shapes) in cases.items():
            ratio = ratio_of(case, model, shapes)
            if abs(ratio - 1) > LIMIT:
                ratio = median([ratio, ratio_of(case, model, shapes), ratio_of(case, model, shapes)])
            worst = max(worst, abs(ratio - 1))
    print(f"worst difference {worst:.2%}, limit {LIMIT:.0%}: {'missed' if worst > LIMIT else 'held'}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
