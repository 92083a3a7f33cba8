"""pytest-benchmark beside `onnx_session`: what `benchmark(session.run, feeds)` times is what budgets judge.

The plugin is not imported: a test that asks for `benchmark` brings it. pytest-codspeed has a fixture of that name too.
"""

from __future__ import annotations

import os
import time
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from .core.benchmark_times import BenchmarkTimes, extra_info
from .core.device_state import disturbance_of
from .core.errors import MeasurementError
from .core.stages import Stage
from .handles import OnnxSession
from .runtime.child.machine import LoadMeter
from .runtime.lock import device_name
from .runtime.stages import Stages
from .workbench import failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from .handles import LiveRun
    from .workbench import Workbench

_CODSPEED: Final = "pytest_codspeed"
_PACKAGES: Final = frozenset({"pytest_benchmark", _CODSPEED})
_LATENCY_CLOCKS: Final = (time.perf_counter, time.monotonic, time.time)
"""Those that a `--benchmark-timer` may name and that tell seconds as a caller feels them."""
_DISABLED: Final = "pytest-benchmark timed nothing, --benchmark-disable or pytest-xdist switched it off: run without"
_SET_CLASS: Final = object.__dict__["__class__"].__set__
"""The fixture of pytest-codspeed has a property in its place."""


def watch(benchmark: Any, bench: Workbench) -> None:
    """Make a record of what `benchmark` times where that is the `run` of a session; all else it does as before.

    A fixture can be called in a test's other fixtures and by `pedantic`, and pytest-benchmark insists on its own type:
    so this one object becomes one of a subclass. A function of the test's own around `run` is more than the session.

    Args:
        benchmark: The fixture of this test; one that belongs to nobody known here is left alone.
        bench: Of the test.
    """
    kind: Any = type(benchmark)
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__} & _PACKAGES
    if not packages:
        return

    class Watched(kind):  # type: ignore[misc]  # which plugin it is, is known here alone
        def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            session = _session_of(function)
            if session is None:
                return super().__call__(function, *args, **kwargs)
            live = session.live(*args, **kwargs)
            return _timed(self, bench, live, super().__call__, is_codspeed=_CODSPEED in packages)

        def pedantic(
            self, target: Any, args: Any = (), kwargs: Any = None, setup: Any = None, teardown: Any = None,
            *rest: Any, **options: Any,
        ) -> Any:  # fmt: skip
            session = _session_of(target) if setup is None and teardown is None else None
            if session is None:
                return super().pedantic(target, args, kwargs, setup, teardown, *rest, **options)

            def call(run: Callable[[], Any]) -> Any:
                return super(Watched, self).pedantic(run, (), None, None, None, *rest, **options)

            live = session.live(*args, **(kwargs or {}))
            return _timed(self, bench, live, call, is_codspeed=_CODSPEED in packages)

    _SET_CLASS(benchmark, Watched)


def _session_of(function: Any) -> OnnxSession | None:
    if isinstance(function, MethodType) and function.__func__ is OnnxSession.run:
        owner = function.__self__
        return owner if isinstance(owner, OnnxSession) else None
    return None


def _timed(
    benchmark: Any, bench: Workbench, live: LiveRun, call: Callable[[Callable[[], Any]], Any], *, is_codspeed: bool
) -> Any:
    """Let the fixture time the bare run of a warm session, with the device claimed, and keep the record."""
    job = live.job
    if job.variables:
        names = ", ".join(job.variables)
        msg = f"{names} can be set in a measuring process alone, and benchmark(session.run, ...) times this one"
        raise failed(msg)
    device = device_name(job.provider.short, job.provider_options, os.environ)
    try:
        with bench.underway(bench.key(live.label)) as tell, (stages := Stages(tell)).alone_on(device):
            stages.at(Stage.ROUNDS)
            meter = LoadMeter(time.monotonic())
            result = call(live.run)
            other_load = meter.other_load(time.monotonic()) or 0.0
    except MeasurementError as error:
        msg = f"{job.model_text} could not be measured: {error}"
        raise failed(msg) from None
    times = BenchmarkTimes(
        *_found(benchmark, is_codspeed=is_codspeed),
        other_load_ratio=other_load,
        disturbance=disturbance_of(other_load, None, None, "rounds were timed"),
        threads=live.threads,
        inputs=job.inputs,
    )
    benchmark.extra_info["onnxperf"] = extra_info(bench.measure(job, live.label, times))
    return result


def _found(benchmark: Any, *, is_codspeed: bool) -> tuple[tuple[float, ...], int, str]:
    """Return the seconds of each round, the calls in each, and why there are none."""
    if is_codspeed:
        return (), 1, "the fixture `benchmark` is that of pytest-codspeed, which keeps its times to itself"
    if not benchmark.stats:
        return (), 1, _DISABLED
    timer = benchmark.stats["options"]["timer"]
    if timer not in _LATENCY_CLOCKS:
        name = getattr(timer, "__name__", repr(timer))
        return (), 1, f"--benchmark-timer={name} does not tell the seconds that a caller waits: take time.perf_counter"
    return tuple(benchmark.stats["data"]), benchmark.stats["iterations"], ""
