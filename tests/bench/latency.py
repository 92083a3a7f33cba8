"""Median latency as the plugin measures it, against a bare loop over the same session, in short blocks in turn.

`python tests/bench/latency.py` prints the ratio for models of 10 us to 1 ms, and exits with 1 where one is beyond 2 %.
It is the median over pairs of neighbouring blocks of the ratio of their medians: the two blocks of a pair share most of
the noise of the machine. Pairs are added until the 95 % interval of that median (by order statistics) lies on one side
of the limit, or there are enough: on a quiet machine that is at once.
"""

from __future__ import annotations

import gc
import math
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
BLOCK_S: Final = 0.04
PAIRS: Final = 25
MOST_PAIRS: Final = 300


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


class Comparison:
    """One model, its session, and the blocks so far."""

    def __init__(self, model: Path, shapes: dict[str, int]) -> None:
        self._steps = Steps()
        self._steps.open(SessionJob(model, model.name, provider_of("cpu")).open_arguments(1, ""))
        self._session = self._steps._session
        self._feeds: dict[str, Any] = dict(inputs.make_feeds(self._session, shapes, {}))
        # The same arrays: where they lie in memory is worth more than 1 %.
        self._steps.set_feeds(self._feeds, bind=False)
        self._steps.warm_up(20)
        self._rounds = max(5, int(BLOCK_S * 1e9 / median(bare_loop(self._session, self._feeds, 20))))
        self._generator = random.Random(0)
        self._plugin_ns: list[float] = []
        self._bare_ns: list[float] = []

    def add_pair(self) -> None:
        """Run a block of each, in random order."""
        for is_plugin in self._generator.sample([True, False], 2):
            if is_plugin:
                block = self._steps.block(min_rounds=self._rounds, max_time_s=0.0)
                self._plugin_ns.append(median(block["rounds_ns"]))
            else:
                gc.collect()  # as the plugin does before a block: the rounds after it find cold caches
                self._bare_ns.append(median(bare_loop(self._session, self._feeds, self._rounds)))

    def ratio(self) -> tuple[float, float, float]:
        """Return the median of the ratios and the ends of its 95 % interval."""
        ratios = sorted(plugin / bare for plugin, bare in zip(self._plugin_ns, self._bare_ns, strict=True))
        reach = 0.98 * math.sqrt(len(ratios))
        low, high = math.floor(len(ratios) / 2 - reach), math.ceil(len(ratios) / 2 + reach)
        return median(ratios), ratios[max(low, 0)], ratios[min(high, len(ratios) - 1)]

    def is_clear(self) -> bool:
        """Whether the interval lies on one side of the limit."""
        _, low, high = self.ratio()
        return (low >= 1 - LIMIT and high <= 1 + LIMIT) or high < 1 - LIMIT or low > 1 + LIMIT

    def text(self) -> str:
        """Return the figures."""
        ratio, low, high = self.ratio()
        return (
            f"plugin {median(self._plugin_ns) / 1e3:8.2f} us, bare loop {median(self._bare_ns) / 1e3:8.2f} us, "
            f"ratio {ratio:.4f} [{low:.4f} to {high:.4f}] ({len(self._bare_ns)} pairs of {self._rounds} rounds)"
        )


def main() -> int:
    """Compare on each model."""
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
            comparison = Comparison(model, shapes)
            for pair in range(1, MOST_PAIRS + 1):
                comparison.add_pair()
                if pair % PAIRS == 0 and comparison.is_clear():
                    break
            print(f"{case:<12}{comparison.text()}", flush=True)
            worst = max(worst, abs(comparison.ratio()[0] - 1))
    print(f"worst difference {worst:.2%}, limit {LIMIT:.0%}: {'missed' if worst > LIMIT else 'held'}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
