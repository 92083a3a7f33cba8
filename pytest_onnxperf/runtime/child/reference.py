"""The CPU's reference workload: a fixed piece of work beside each tested round, which feels what happens to both.

It is no part of ONNX Runtime, so that what got slower there does not cancel. Three kinds, since neighbours take away
three things: `compute`, products of matrices that stay in the cache; `memory`, a matrix-vector product that walks
through a buffer larger than the last level cache; and `dispatch`, calls of many small functions, which wait for
instructions and branches as a runtime does between the nodes of a small model. All in numpy, on one thread (the caller
sets the variables of the BLAS).
"""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .ceilings import last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 2
"""Of what is computed and how it is summed up: a change makes old ratios incomparable (2: ratios of a moment)."""
KINDS = ("compute", "dispatch", "memory")

_SMALL, _LARGE = 32, 128
"""Extents of the matrices: a product of 128 x 128 keeps three of them in 192 KiB, which fits any second level cache."""
_LARGE_FROM_NS = 200_000
_COLUMNS = 1024
_ROW_BYTES = 4 * _COLUMNS
_LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES = 64 << 20, 512 << 20
_FUNCTIONS = (
    "add", "subtract", "multiply", "maximum", "minimum", "negative", "square", "absolute", "sign", "floor", "sqrt",
    "copysign", "greater", "less", "equal", "isfinite", "heaviside", "rint", "trunc", "ceil",
)  # fmt: skip
"""Of numpy, on 16 elements and more: each call is its own code, and hardly any arithmetic."""
_SEED = 0


class NotPossibleError(Exception):
    """A reference workload cannot run here; the message says why. The tested work can be measured all the same."""


class Reference:
    """One kind of work of a fixed size."""

    def __init__(self, kind: str, spec: dict[str, int]) -> None:
        """Prepare it.

        Args:
            kind: One of `KINDS`.
            spec: Of `compute`: `extent` and `repeats`. Of `dispatch`: `calls` a round. Of `memory`: `rows` a round, and
                `buffer_bytes`.
        """
        self.kind, self.spec = kind, spec
        generator = np.random.Generator(np.random.PCG64(_SEED))
        self.run: Callable[[], None]
        if kind == "compute":
            extent = spec["extent"]
            self._a = generator.standard_normal((extent, extent), np.float32)
            self._b = generator.standard_normal((extent, extent), np.float32)
            self._out = np.empty_like(self._a)
            self.run = self._products
        elif kind == "dispatch":
            calls = list(_small_calls(generator))
            whole, rest = divmod(spec["calls"], len(calls))
            self._calls = [calls] * whole + [calls[:rest]]
            self.run = self._dispatch
        else:
            rows = spec["buffer_bytes"] // _ROW_BYTES
            self._rows = np.resize(generator.standard_normal(1 << 20, np.float32), (rows, _COLUMNS))
            self._vector = generator.standard_normal(_COLUMNS, np.float32)
            self._at = 0
            self.run = self._walk

    def _products(self) -> None:
        for _ in range(self.spec["repeats"]):
            np.matmul(self._a, self._b, out=self._out)

    def _dispatch(self) -> None:
        for calls in self._calls:
            for function, inputs, out in calls:
                function(*inputs, out=out)

    def _walk(self) -> None:
        rows = self.spec["rows"]
        if self._at + rows > len(self._rows):
            self._at = 0
        self._sums = self._rows[self._at : self._at + rows] @ self._vector
        self._at += rows

    def described(self) -> dict[str, Any]:
        """Return what makes it comparable: `size`, `version` and `checksum`."""
        return {"size": self.spec, "version": VERSION, "checksum": self._checksum()}

    def _checksum(self) -> str:
        """Return what it computes, to 3 digits: another BLAS rounds otherwise, another workload is another number.

        The time of a small call is that of the interpreter and of numpy, so their versions say what it is.
        """
        if self.kind == "dispatch":
            return f"python {platform.python_version()}, numpy {np.__version__}"
        if self.kind == "compute":
            return f"{float(np.abs(self._a @ self._b).sum()):.3g}"
        return f"{float(np.abs(self._rows[:1024] @ self._vector).sum()):.3g}"


def _small_calls(generator: np.random.Generator) -> Iterator[tuple[Callable[..., Any], list[Any], Any]]:
    for number, name in enumerate(_FUNCTIONS):
        function = getattr(np, name)
        for kind in (np.float32, np.float64):
            inputs = [np.abs(generator.standard_normal(16 + number)).astype(kind) for _ in range(function.nin)]
            yield function, inputs, function(*inputs)


def calibrated(kind: str, wanted_ns: int) -> dict[str, int]:
    """Return the size of a reference that takes about `wanted_ns` here, at least one product, one call or one row."""
    if kind == "compute":
        spec = {"extent": _LARGE if wanted_ns > _LARGE_FROM_NS else _SMALL, "repeats": 1}
        return {**spec, "repeats": max(1, round(wanted_ns / usual_ns(Reference(kind, spec).run)))}
    if kind == "dispatch":
        probe = 2 * len(_FUNCTIONS)
        return {"calls": max(1, round(wanted_ns * probe / usual_ns(Reference(kind, {"calls": probe}).run)))}
    wanted = max(_LEAST_BUFFER_BYTES, 4 * last_level_cache_bytes())
    buffer_bytes = min(wanted, _MOST_BUFFER_BYTES) // _ROW_BYTES * _ROW_BYTES
    rows = buffer_bytes // _ROW_BYTES
    probe = min(1024, rows)
    row_ns = usual_ns(Reference(kind, {"rows": probe, "buffer_bytes": buffer_bytes}).run) / probe
    return {"rows": int(min(max(1, round(wanted_ns / row_ns)), rows)), "buffer_bytes": buffer_bytes}


def usual_ns(run: Callable[[], None]) -> float:
    """Return the 25 % quantile of some runs, after a warm-up."""
    times = []
    for _ in range(12):
        begin_ns = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - begin_ns)
    return max(float(np.quantile(times[2:], 0.25)), 1.0)
