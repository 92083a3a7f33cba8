"""Decode throughput as the plugin reports it, against loops by hand over the same decoder, a generation each in turn.

`python tests/bench/decode.py` prints three figures. The plugin's tokens per second against a bare loop over the same
model: exits with 1 where they differ by more than 2 %. The same loop over a second model that ORT profiles, against the
bare one: why a process that is timed is never profiled. And what a whole measurement costs beyond its rounds.

Each ratio is the median over triples of neighbouring generations. They are short, since on a shared machine the speed
changes within tenths of a second. Triples are added until the 95 % interval of the first ratio (by order statistics)
lies on one side of the limit, or there are enough.
"""

from __future__ import annotations

import gc
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime_genai

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.core.tokens import Generation, generation_metrics
from pytest_onnxperf.declare import OPTION
from pytest_onnxperf.runtime.child.generator import GeneratorSteps
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from tests import genai_models
from tests.genai_models import Size

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT: Final = 0.02
SIZE: Final = Size(layers=4, hidden=256, heads=8, kv_heads=4, inner=512, context=256)
"""A step takes about a millisecond, so that the loop around it is a small part of it, as in a real decoder."""
PROMPT_TOKENS: Final = 32
NEW_TOKENS: Final = 17
TRIPLES: Final = 200
MOST_TRIPLES: Final = 1200
MOST_PROFILED: Final = 300
"""Generations of the profiled loop; ORT keeps a million events of a session, and then drops them at less cost."""
MEASUREMENTS: Final = 3


def bare_loop(model: Any, ids: Any) -> float:
    """What a person writes who wants to know the tokens per second of a model, after its first token."""
    gc.collect()  # as the plugin does before a block: the generation after it finds cold caches
    params = onnxruntime_genai.GeneratorParams(model)
    length = ids.shape[1] + NEW_TOKENS
    params.set_search_options(max_length=length, min_length=length, do_sample=False)
    generator = onnxruntime_genai.Generator(model, params)
    generator.append_tokens(ids)
    generator.generate_next_token()
    count = 0
    begin_ns = time.perf_counter_ns()
    while not generator.is_done():
        generator.generate_next_token()
        count += 1
    return count * 1e9 / (time.perf_counter_ns() - begin_ns)


def of_plugin(steps: GeneratorSteps) -> float:
    """The decode throughput that the plugin reports of one generation."""
    block = steps.block(min_rounds=1, max_time_s=0.0)
    generations = [Generation(each["append_ns"], each["first_ns"], tuple(each["gaps_ns"])) for each in block["rounds"]]
    return generation_metrics(generations, PROMPT_TOKENS, 1)["decode_throughput"]


def job_of(directory: Path) -> GeneratorJob:
    """The job of a test with default options."""
    prompt = {"prompt_tokens": PROMPT_TOKENS, "new_tokens": NEW_TOKENS}
    return GeneratorJob(directory, directory.name, provider_of("cpu"), prompt=prompt)


def profiled_model(directory: Path) -> Any:
    """The same model in a session that ORT profiles."""
    config = onnxruntime_genai.Config(str(directory))
    prefix = str(directory.parent / "profile").replace("\\", "/")
    options = f'{{"enable_profiling": "{prefix}", "intra_op_num_threads": 1}}'
    config.overlay(f'{{"model": {{"decoder": {{"session_options": {options}}}}}}}')
    return onnxruntime_genai.Model(config)


class Comparison:
    """The models, and what each loop found in each of its generations so far."""

    def __init__(self, directory: Path) -> None:
        self._steps = steps = GeneratorSteps()
        steps.open(job_of(directory).open_arguments(1, ""))
        steps.prepare(prompt_tokens=PROMPT_TOKENS, new_tokens=NEW_TOKENS)
        assert steps._generation is not None
        ids, model, profiled = steps._generation.prompt.ids, steps.model, profiled_model(directory)
        self._loops: dict[str, Callable[[], float]] = {
            "plugin": lambda: of_plugin(steps),
            "bare": lambda: bare_loop(model, ids),
            "profiled": lambda: bare_loop(profiled, ids),
        }
        steps.warm_up(3)
        bare_loop(profiled, ids)
        self._generator = random.Random(0)
        self._found: dict[str, list[float]] = {name: [] for name in self._loops}

    def add_triple(self) -> None:
        """Generate once with each, in random order."""
        for name in self._generator.sample(sorted(self._loops), len(self._loops)):
            if name != "profiled" or len(self._found[name]) < MOST_PROFILED:
                self._found[name].append(self._loops[name]())

    def ratio(self, name: str = "plugin") -> tuple[float, float, float]:
        """Return the median of the ratios to the bare loop and the ends of its 95 % interval."""
        ratios = sorted(value / bare for value, bare in zip(self._found[name], self._found["bare"], strict=False))
        reach = 0.98 * math.sqrt(len(ratios))
        low, high = math.floor(len(ratios) / 2 - reach), math.ceil(len(ratios) / 2 + reach)
        return median(ratios), ratios[max(low, 0)], ratios[min(high, len(ratios) - 1)]

    def is_clear(self) -> bool:
        """Whether the interval lies on one side of the limit."""
        _, low, high = self.ratio()
        return (low >= 1 - LIMIT and high <= 1 + LIMIT) or high < 1 - LIMIT or low > 1 + LIMIT

    def text(self) -> str:
        """Return the figures."""
        lines = []
        for name in ("plugin", "profiled"):
            ratio, low, high = self.ratio(name)
            lines.append(
                f"{name:<9}{median(self._found[name]):8.1f} tok/s, bare loop {median(self._found['bare']):8.1f} tok/s, "
                f"ratio {ratio:.4f} [{low:.4f} to {high:.4f}]"
            )
        count = len(self._found["bare"])
        return "\n".join([*lines, f"{count} triples of generations of {NEW_TOKENS} tokens"])


def whole_cost(directory: Path) -> float:
    """Measure as a test with default options does; print and return the seconds beyond the rounds."""
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
    differences_s = []
    for number in range(MEASUREMENTS):
        measurement = Measurement(job_of(directory), plan, directory.parent / str(number), lambda _: None)
        begin, begin_s = os.times(), time.perf_counter()
        record = measurement.record(TestKey("bench", "decoder"), lambda _: False)
        wall_s, end = time.perf_counter() - begin_s, os.times()
        children_s = end.children_user + end.children_system - begin.children_user - begin.children_system
        own_s = end.user + end.system - begin.user - begin.system
        rounds_s = sum(each.ttft_ns + each.decode_ns for process in record.generations for each in process) / 1e9
        differences_s.append(wall_s - rounds_s)
        print(
            f"measure() {wall_s:.2f} s, {record.rounds} rounds {rounds_s:.2f} s, difference {differences_s[-1]:.2f} s; "
            f"CPU time of its processes {children_s:.2f} s, of pytest's own {own_s:.2f} s"
        )
    return median(differences_s)


def main() -> int:
    """Compare, then measure the whole cost."""
    with tempfile.TemporaryDirectory() as name:
        tempfile.tempdir = name  # a lock of its own: who else measures here is not waited for
        directory = genai_models.decoder(Path(name) / "decoder", size=SIZE)
        comparison = Comparison(directory)
        for triple in range(1, MOST_TRIPLES + 1):
            comparison.add_triple()
            if triple % TRIPLES == 0 and comparison.is_clear():
                break
        print(comparison.text(), flush=True)
        ratio, profiled = comparison.ratio()[0], comparison.ratio("profiled")[0]
        cost_s = whole_cost(directory)
        tempfile.tempdir = None
    verdict = "missed" if abs(ratio - 1) > LIMIT else "held"
    print(f"difference to the bare loop {abs(ratio - 1):.2%}, limit {LIMIT:.0%}: {verdict}")
    print(f"a profiled step takes {1 / profiled:.2f} times as long: times and profiles are measured apart")
    load = f", load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else ""
    print(f"a whole measurement costs {cost_s:.2f} s beyond its rounds, median of {MEASUREMENTS}{load}")
    return int(verdict == "missed")


if __name__ == "__main__":
    sys.exit(main())
