"""The steps of a measurement, one after another on one session: open, feeds, warm up, rounds or profiled runs, close.

The same object works in a measuring process and, with `--onnxperf-isolation=none`, in the test's own.
"""

from __future__ import annotations

import gc
import platform
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from . import binding, inputs, running
from .ceilings import measure_ceilings
from .machine import Metered, cores, peak_rss_bytes
from .reference import NotPossibleError
from .references import References
from .session import StepError, create_session
from .step_marks import no_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# A block ends here whatever its time limit says, so that a model of a microsecond does not fill the pipe.
MAX_ROUNDS = 200_000


class Steps(Metered):
    """One session and what is done with it. Times are ns of the monotonic clock unless said otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._session: Any = None
        self._feeds: dict[str, Any] = {}
        self._run: Callable[[], Any] = _no_feeds
        self._profiling = False
        self._references: References | None = None
        self.mark = no_mark

    def hello(self) -> dict[str, Any]:
        """Say which interpreter and runtime these are.

        Raises:
            StepError: onnxruntime is not installed or does not import.
        """
        try:
            import onnxruntime
        except ImportError as error:
            msg = "runtime"
            missing = isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime"
            advice = ": install it with `pip install pytest-onnxperf[cpu]`, or [cuda], or [webgpu]" if missing else ""
            raise StepError(msg, f"onnxruntime cannot be imported: {error}{advice}") from error
        versions = {
            "onnxruntime": str(onnxruntime.__version__),
            "numpy": str(np.__version__),
            "python": platform.python_version(),
        }
        cuda = getattr(onnxruntime, "cuda_version", "")
        if cuda:
            versions["cuda"] = str(cuda)
        return {"versions": versions, "available": onnxruntime.get_available_providers(), "cores": cores()}

    def open(self, job: dict[str, Any]) -> dict[str, Any]:
        """Create the session of `job` (see `create_session`) and return `load_ns`, `inputs` and `providers`."""
        self._session, load_ns = create_session(job)
        self._profiling = bool(job["profile_prefix"])
        return {
            "load_ns": load_ns,
            "inputs": inputs.describe_inputs(self._session),
            "providers": self._session.get_providers(),
        }

    def assignment(self) -> dict[str, Any]:
        """Return `nodes`, `[provider, operator, name]` of each, or `why_not`: what the runtime recorded of a session.

        It has it from 1.24 on, for a session made with `record_assignment`.
        """
        ask = getattr(self._session, "get_provider_graph_assignment_info", None)
        if ask is None:
            import onnxruntime

            why_not = f"onnxruntime {onnxruntime.__version__} does not record it, 1.24 and later do"
            return {"nodes": [], "why_not": why_not}
        found = [(part.ep_name, node.op_type, node.name) for part in ask() for node in part.get_nodes()]
        return {"nodes": found, "why_not": ""}

    def make_feeds(self, shapes: dict[str, Any], ranges: dict[str, Any], bind: bool) -> dict[str, Any]:
        """Make seeded feeds of the given shapes; with `bind` inputs and outputs are kept on the device."""
        return self._take(inputs.make_feeds(self._session, shapes, ranges), bind)

    def set_feeds(self, feeds: Mapping[str, Any], bind: bool) -> dict[str, Any]:
        """Take the arrays of the test, once they are checked against the session."""
        return self._take(inputs.check_feeds(self._session, dict(feeds)), bind)

    def _take(self, feeds: dict[str, Any], bind: bool) -> dict[str, Any]:
        if bind:
            self._run = binding.bind(self._session, feeds).run
        else:
            self._run = running.runner(self._session, feeds)
        return {"feeds": sorted(feeds)}

    def warm_up(self, rounds: int) -> dict[str, Any]:
        """Run `rounds` untimed rounds; the time of the first is the cold start."""
        times_ns = [self.round()["round_ns"] for _ in range(rounds)]
        return {"cold_start_ns": times_ns[0] if times_ns else None}

    def round(self, untimed: int = 0) -> dict[str, Any]:
        """Run once, with the garbage collector off, and return the time, outputs on the host.

        Args:
            untimed: Runs right before it, which wake the core and fill its caches.
        """
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            for _ in range(untimed):
                self._run()
            begin_ns = time.perf_counter_ns()
            self._run()
            return {"round_ns": time.perf_counter_ns() - begin_ns}
        finally:
            if is_collecting:
                gc.enable()

    def block(self, min_rounds: int, max_time_s: float) -> dict[str, Any]:
        """Run rounds for `max_time_s`, at least `min_rounds`, with the garbage collector off."""
        run, clock = self._run, time.perf_counter_ns
        rounds_ns: list[int] = []
        gc.collect()
        gc.disable()
        self.begin_block()
        end_ns = clock() + int(max_time_s * 1e9)
        try:
            while True:
                begin_ns = clock()
                run()
                now_ns = clock()
                rounds_ns.append(now_ns - begin_ns)
                if len(rounds_ns) >= min_rounds and (now_ns >= end_ns or len(rounds_ns) >= MAX_ROUNDS):
                    break
        finally:
            gc.enable()
        return {"rounds_ns": rounds_ns, "peak_rss_bytes": peak_rss_bytes()}

    def paired(self, sizes: dict[str, dict[str, int]], rounds: int) -> dict[str, Any]:
        """Time rounds beside a reference workload of each kind in `sizes`; an empty size is found here.

        A step with the same sizes goes on with the same workloads.

        Returns:
            `times_ns`: `tested` and each kind -> times; `specs`: kind -> `size`, `version` and `checksum`; `why_not`:
            why there is neither, where a workload cannot run here.
        """
        try:
            references = self._prepared(sizes)
            gc.collect()
            gc.disable()
            try:
                times_ns = references.paired_rounds(self._run, rounds)
            finally:
                gc.enable()
            return {"times_ns": times_ns, "specs": references.described(), "why_not": ""}
        except NotPossibleError as error:
            self._drop_references()
            return {"times_ns": {}, "specs": {}, "why_not": str(error)}

    def _prepared(self, sizes: dict[str, dict[str, int]]) -> References:
        if self._references is None or self._references.sizes != sizes:
            self._drop_references()
            usual_ns = sorted(self.round()["round_ns"] for _ in range(5))[2]
            self._references = References(sizes, usual_ns, self._device_id())
        return self._references

    def _device_id(self) -> int:
        """Return the number of the device that the session has, 0 where its EP numbers none."""
        options = self._session.get_provider_options().get(self._session.get_providers()[0], {})
        return int(options.get("device_id", 0))

    def _drop_references(self) -> None:
        if self._references is not None:
            self._references.close()
        self._references = None

    def profile(self, runs: int) -> dict[str, Any]:
        """Run `runs` profiled runs and return a window of the profile's own clock around each, in ns."""
        start_ns = self._session.get_profiling_start_time_ns()
        windows: list[Sequence[int]] = []
        for _ in range(runs):
            begin_ns = time.time_ns()  # the profile's clock is the system clock, though its docstring says monotonic
            with self.mark(""):
                self.round()
            windows.append((begin_ns - start_ns, time.time_ns() - start_ns))
        return {"windows": windows}

    def ceilings(
        self, execution_providers: list[str], provider_options: dict[str, Any], threads: int
    ) -> dict[str, Any]:
        """Return the rates that an execution provider attains (see `measure_ceilings`)."""
        return measure_ceilings(execution_providers, provider_options, threads)

    def close(self) -> dict[str, Any]:
        """End profiling, drop the session, and return the path of the profile, "" where there is none."""
        self._drop_references()
        path: str | None = None
        if self._session is not None and self._profiling:
            path = self._session.end_profiling()
        self._session, self._run, self._profiling = None, _no_feeds, False
        gc.collect()
        return {"profile_path": path or ""}


def _no_feeds() -> None:
    msg = "input"
    raise StepError(msg, "no feeds were given yet")
