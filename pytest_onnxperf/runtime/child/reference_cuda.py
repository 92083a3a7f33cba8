"""The reference workload of CUDA: products by cuBLAS and copies on the device, through what the runtime has loaded.

`cuda_compute` are products of float16 matrices, summed up in float32, which stay in the L2 cache: what most models on
CUDA spend their time with, in the Tensor Cores, whose power decides the clock. Entries are whole numbers from -2 to 2,
so that every sum is exact in any order: another checksum is another workload, never another rounding. The version of
cuBLAS is part of its size, since another one multiplies at another speed and would make a model look faster or slower.

`cuda_memory` walks through a buffer of four times the L2 cache and copies it to another, which reads and writes device
memory. Source of the size: McCalpin, STREAM, "each array must be at least 4 times the size of the available cache".

Each run enqueues all on a stream of its own and waits for that, so that the time of the host is that of the device.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .cuda_libraries import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Cuda
from .reference import usual_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 2
"""Of what is computed: a change of it makes old ratios incomparable."""
COMPUTE, MEMORY = KINDS = ("cuda_compute", "cuda_memory")

_EXTENTS = (4096, 2048, 1024, 512, 256)
_ENQUEUED_FAST = 1024
"""A product of this extent takes a device longer than the host needs to enqueue it, some 5 us, so that it is taken even
where three such matrices, 6 MiB, do not fit into the L2 cache: at 341 FLOP a byte it is bound by arithmetic anyway."""
_MIB = 1 << 20
_LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES = 64 * _MIB, 512 * _MIB
_PATTERN_BYTES = 4 * _MIB
_PROBE_REPEATS = 8
_SEED = 0
_HALF_BYTES = 2


class _Reference:
    """One kind of work of a fixed size on a device."""

    kind = ""

    def __init__(self, cuda: Cuda, size: Mapping[str, int]) -> None:
        self._cuda, self._size = cuda, dict(size)
        self._memory: list[Any] = []

    def run(self) -> None:
        """Do all of it and wait until the device has.

        Raises:
            CudaError: A call failed, or what it enqueued.
        """
        for _ in range(self._size["repeats"]):
            self._enqueue()
        self._cuda.synchronize()

    def described(self) -> dict[str, Any]:
        """Return what makes it comparable: `size`, `version` and `checksum`, of a result that is read back."""
        return {"size": self._size, "version": VERSION, "checksum": f"{zlib.crc32(self.result().tobytes()):08x}"}

    def close(self) -> None:
        """Free its device memory."""
        while self._memory:
            self._cuda.release(self._memory.pop())

    def result(self) -> Any:
        """Return what it computed."""
        raise NotImplementedError

    def _enqueue(self) -> None:
        raise NotImplementedError

    def _allocated(self, size_bytes: int) -> Any:
        self._memory.append(self._cuda.allocated(size_bytes))
        return self._memory[-1]

    def _upload(self, address: int, array: Any) -> None:
        self._cuda.copy(address, array.ctypes.data, array.nbytes, HOST_TO_DEVICE)
        self._cuda.synchronize()

    def _download(self, address: Any, array: Any) -> None:
        self._cuda.copy(array.ctypes.data, address, array.nbytes, DEVICE_TO_HOST)
        self._cuda.synchronize()


class Products(_Reference):
    """Products of two matrices. Its size: `extent`, `repeats` a run, and `cublas`, the version that multiplies."""

    kind = COMPUTE

    def __init__(self, cuda: Cuda, size: Mapping[str, int]) -> None:
        super().__init__(cuda, {**size, "cublas": cuda.blas_version})
        self._extent = extent = size["extent"]
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._factors = (ctypes.byref(self._one), ctypes.byref(self._zero))
        self._a, self._b, self._out = (self._allocated(extent * extent * _HALF_BYTES) for _ in range(3))
        for address, matrix in zip((self._a, self._b), matrices(extent)):
            self._upload(address.value, matrix)

    def result(self) -> Any:
        """Return the last product, of whole numbers."""
        out = np.empty((self._extent, self._extent), np.float16)
        self._download(self._out, out)
        return out.astype(np.int16)

    def _enqueue(self) -> None:
        self._cuda.multiply(self._a, self._b, self._out, self._extent, *self._factors)


class Copies(_Reference):
    """Copies on the device. Its size: `copy_bytes` one after another in `buffer_bytes`, and `repeats` a run."""

    kind = MEMORY

    def __init__(self, cuda: Cuda, size: Mapping[str, int]) -> None:
        super().__init__(cuda, size)
        buffer_bytes = size["buffer_bytes"]
        self._source, self._target = (self._allocated(buffer_bytes) for _ in range(2))
        pattern = np.random.Generator(np.random.PCG64(_SEED)).integers(0, 256, _PATTERN_BYTES, np.uint8)
        for at in range(0, buffer_bytes, _PATTERN_BYTES):
            self._upload(self._source.value + at, pattern[: buffer_bytes - at])
        cuda.clear(self._target, buffer_bytes)
        self._at = 0

    def result(self) -> Any:
        """Return the copy of the first MiB, or of the whole buffer where that is less; zeros before the first run."""
        out = np.empty(min(self._size["buffer_bytes"], _MIB), np.uint8)
        self._download(self._target, out)
        return out

    def _enqueue(self) -> None:
        copy_bytes = self._size["copy_bytes"]
        if self._at + copy_bytes > self._size["buffer_bytes"]:
            self._at = 0
        self._cuda.copy(self._target.value + self._at, self._source.value + self._at, copy_bytes, DEVICE_TO_DEVICE)
        self._at += copy_bytes


def matrices(extent: int) -> tuple[Any, Any]:
    """Return the two factors in float16: whole numbers, whose products and sums float16 and float32 hold exactly.

    A sum of `extent` products of such numbers has a standard deviation of 2 * sqrt(extent), 128 at most, and float16
    holds whole numbers up to 2048.
    """
    generator = np.random.Generator(np.random.PCG64(_SEED))
    a, b = (generator.integers(-2, 3, (extent, extent), np.int8).astype(np.float16) for _ in range(2))
    return a, b


def made(kind: str, size: Mapping[str, int], wanted_ns: int, cuda: Cuda) -> Products | Copies:
    """Return a reference of that size; of an empty one it is found, so that a run takes about `wanted_ns`.

    Raises:
        CudaError: It does not run on this device.
    """
    if kind == COMPUTE:
        return Products(cuda, size or _products_size(cuda, wanted_ns))
    return Copies(cuda, size or _copies_size(cuda, wanted_ns))


def _products_size(cuda: Cuda, wanted_ns: int) -> dict[str, int]:
    """Return the largest extent of which one product is not too long, and how often it fits."""
    fitting = [each for each in _EXTENTS if each <= _ENQUEUED_FAST or 3 * _HALF_BYTES * each**2 <= cuda.l2_bytes]
    for extent in fitting:
        reference = Products(cuda, {"extent": extent, "repeats": 1})
        once_ns = usual_ns(reference.run)
        reference.close()
        if once_ns <= wanted_ns or extent == fitting[-1]:
            break
    several = Products(cuda, {"extent": extent, "repeats": 1 + _PROBE_REPEATS})
    each_ns = max((usual_ns(several.run) - once_ns) / _PROBE_REPEATS, 1.0)
    several.close()
    return {"extent": extent, "repeats": 1 + max(0, round((wanted_ns - once_ns) / each_ns))}


def _copies_size(cuda: Cuda, wanted_ns: int) -> dict[str, int]:
    """Return how many bytes are copied in that time, in whole MiB, in one copy where the buffer holds so many."""
    buffer_bytes = min(max(_LEAST_BUFFER_BYTES, 4 * cuda.l2_bytes), _MOST_BUFFER_BYTES) // _MIB * _MIB
    times_ns = []
    for copy_bytes in (_MIB, buffer_bytes):
        reference = Copies(cuda, {"buffer_bytes": buffer_bytes, "copy_bytes": copy_bytes, "repeats": 1})
        times_ns.append(usual_ns(reference.run))
        reference.close()
    mib_ns = max((times_ns[1] - times_ns[0]) / (buffer_bytes // _MIB - 1), 1.0)
    wanted_bytes = (1 + max(0, round((wanted_ns - times_ns[0]) / mib_ns))) * _MIB
    copy_bytes = min(wanted_bytes, buffer_bytes)
    return {"buffer_bytes": buffer_bytes, "copy_bytes": copy_bytes, "repeats": round(wanted_bytes / copy_bytes)}
