"""The CUDA runtime and cuBLAS that ONNX Runtime has loaded into this process, called through ctypes.

Nothing is loaded here: a library is taken from the list of what the process has mapped, and opened with RTLD_NOLOAD, so
that the work goes through the very code that the runtime uses. Source of the signatures and of the values of the enums:
cuda_runtime_api.h, driver_types.h and library_types.h of the package nvidia-cuda-runtime, cublas_api.h of
nvidia-cublas, in versions 12.9 and 13, which agree in all of them. Enums are ints there.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .reference import NotPossibleError

if TYPE_CHECKING:
    from collections.abc import Iterable

RUNTIME, BLAS = "libcudart", "libcublas"
KNOWN_MAJORS = (12, 13)
"""Those whose headers were compared; another may call its functions otherwise."""
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3  # cudaMemcpyKind
L2_CACHE_SIZE = 38  # cudaDeviceAttr: cudaDevAttrL2CacheSize
HALF = 2  # cudaDataType: CUDA_R_16F
COMPUTE_FLOAT = 68  # cublasComputeType_t: CUBLAS_COMPUTE_32F
NOT_TRANSPOSED = 0  # cublasOperation_t: CUBLAS_OP_N
DEFAULT_ALGORITHM = -1  # cublasGemmAlgo_t: CUBLAS_GEMM_DEFAULT
_NON_BLOCKING = 1  # cudaStreamNonBlocking: it does not wait for the stream 0
_MIB = 1 << 20
_NAME = re.compile(rf"({RUNTIME}|{BLAS})(?:-[0-9a-f]+)?\.so\.(\d+)")
"""A name may hold a hash, where a wheel brings the library along."""

_int, _size, _pointer, _unsigned = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint
_ints, _sizes, _pointers = ctypes.POINTER(_int), ctypes.POINTER(_size), ctypes.POINTER(_pointer)
_SIGNATURES: dict[str, dict[str, tuple[Any, ...]]] = {
    RUNTIME: {
        "cudaGetLastError": (),
        "cudaSetDevice": (_int,),
        "cudaDeviceGetAttribute": (_ints, _int, _int),
        "cudaMemGetInfo": (_sizes, _sizes),
        "cudaMalloc": (_pointers, _size),
        "cudaFree": (_pointer,),
        "cudaStreamCreateWithFlags": (_pointers, _unsigned),
        "cudaStreamDestroy": (_pointer,),
        "cudaStreamSynchronize": (_pointer,),
        "cudaMemcpyAsync": (_pointer, _pointer, _size, _int, _pointer),
        "cudaMemsetAsync": (_pointer, _int, _size, _pointer),
    },
    BLAS: {
        "cublasCreate_v2": (_pointers,),
        "cublasDestroy_v2": (_pointer,),
        "cublasSetStream_v2": (_pointer, _pointer),
        "cublasGetVersion_v2": (_pointer, _ints),
        # handle, two operations, m n k, alpha, A its type and leading extent, B likewise, beta, C likewise, how to
        # compute, algorithm
        "cublasGemmEx": (
            _pointer, _int, _int, _int, _int, _int, _pointer, _pointer, _int, _int, _pointer, _int, _int, _pointer,
            _pointer, _int, _int, _int, _int,
        ),
    },
}  # fmt: skip
_NAMES_OF_CODES = {RUNTIME: "cudaGetErrorName", BLAS: "cublasGetStatusName"}


class CudaError(NotPossibleError):
    """A library, a symbol or a device is missing, memory is short, or a call failed; the message says which."""


def loaded_libraries(maps: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return library -> major version -> path, of what the lines of /proc/self/maps name.

    >>> loaded_libraries(["7f00-7f10 r-xp 00000000 08:01 42   /opt/cuda/lib/libcudart.so.12.9.79"])
    {'libcudart': {12: '/opt/cuda/lib/libcudart.so.12.9.79'}, 'libcublas': {}}
    """
    found: dict[str, dict[int, str]] = {RUNTIME: {}, BLAS: {}}
    for line in maps:
        fields = line.rstrip("\n").split(None, 5)
        name = _NAME.match(os.path.basename(fields[5])) if len(fields) == 6 else None
        if name is not None:
            found[name.group(1)].setdefault(int(name.group(2)), fields[5])
    return found


def chosen_paths(found: dict[str, dict[int, str]]) -> dict[str, str]:
    """Return the path of each library, of the newest version that both are there in.

    Raises:
        CudaError: One is not loaded, or both are and in no version that is known here.
    """
    missing = [name for name, versions in found.items() if not versions]
    if missing:
        msg = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not loaded in the measuring process"
        raise CudaError(msg)
    common = set.intersection(*(set(versions) for versions in found.values())) & set(KNOWN_MAJORS)
    if not common:
        there = ", ".join(f"{name} {' and '.join(map(str, sorted(versions)))}" for name, versions in found.items())
        known = " or ".join(map(str, KNOWN_MAJORS))
        msg = f"{there} are loaded; both are needed in one version, {known}"
        raise CudaError(msg)
    return {name: versions[max(common)] for name, versions in found.items()}


def _opened(name: str, path: str) -> ctypes.CDLL:
    """Return a library that is loaded already, with the signatures of what is called."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
        for function, arguments in _SIGNATURES[name].items():
            symbol = getattr(library, function)
            symbol.argtypes, symbol.restype = arguments, _int
        symbol = getattr(library, _NAMES_OF_CODES[name])
        symbol.argtypes, symbol.restype = (_int,), ctypes.c_char_p
    except (OSError, AttributeError) as error:
        msg = f"{path} cannot be used: {error}"
        raise CudaError(msg) from error
    return library


class Cuda:
    """One device, with a stream and a cuBLAS handle of its own, and the memory that was taken on it."""

    def __init__(self, device_id: int) -> None:
        """Take the device that the session has.

        Raises:
            CudaError: It cannot be used from here.
        """
        self._stream, self._handle = _pointer(), _pointer()
        self._memory: list[Any] = []
        if not sys.platform.startswith("linux"):
            msg = "the libraries that a process has loaded are looked up on Linux alone"
            raise CudaError(msg)
        with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
            paths = chosen_paths(loaded_libraries(maps))
        self._libraries = {name: _opened(name, path) for name, path in paths.items()}
        try:
            self._runtime("cudaSetDevice", device_id)
            self._runtime("cudaStreamCreateWithFlags", ctypes.byref(self._stream), _NON_BLOCKING)
            self._blas("cublasCreate_v2", ctypes.byref(self._handle))
            self._blas("cublasSetStream_v2", self._handle, self._stream)
            version, l2_bytes = _int(), _int()
            self._blas("cublasGetVersion_v2", self._handle, ctypes.byref(version))
            self._runtime("cudaDeviceGetAttribute", ctypes.byref(l2_bytes), L2_CACHE_SIZE, device_id)
        except CudaError:
            self.close()
            raise
        self.blas_version, self.l2_bytes = version.value, l2_bytes.value

    def allocated(self, size_bytes: int) -> Any:
        """Return the address of so much device memory; half of what is free is left to what is measured.

        Raises:
            CudaError: There is not so much.
        """
        free, total = _size(), _size()
        self._runtime("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        if 2 * size_bytes > free.value:
            needed, there = (-(-count // _MIB) for count in (2 * size_bytes, free.value))
            msg = f"device memory is short: {needed} MiB must be free, half of it to be used, and {there} MiB are"
            raise CudaError(msg)
        address = _pointer()
        self._runtime("cudaMalloc", ctypes.byref(address), size_bytes)
        self._memory.append(address)
        return address

    def release(self, address: Any) -> None:
        """Free what `allocated` returned."""
        self._memory.remove(address)
        self._runtime("cudaFree", address)

    def copy(self, target: Any, source: Any, size_bytes: int, kind: int) -> None:
        """Enqueue a copy; `kind` is `HOST_TO_DEVICE` or another of the three."""
        self._runtime("cudaMemcpyAsync", target, source, size_bytes, kind, self._stream)

    def clear(self, address: Any, size_bytes: int) -> None:
        """Enqueue zeros."""
        self._runtime("cudaMemsetAsync", address, 0, size_bytes, self._stream)

    def multiply(self, a: Any, b: Any, out: Any, extent: int, one: Any, zero: Any) -> None:
        """Enqueue out = a @ b of square float16 matrices in C order, summed up in float32.

        cuBLAS takes the columns of a matrix one after another, so that a matrix in C order is its transpose to it, and
        transpose(a @ b) is transpose(b) @ transpose(a).

        Args:
            a: Its address, as of the others.
            b: The right factor.
            out: The result.
            extent: Rows and columns of each.
            one: A float32 of the host, as `ctypes.byref` gives it; `zero` likewise.
            zero: What the old result is multiplied by.
        """
        status = self._libraries[BLAS].cublasGemmEx(
            self._handle, NOT_TRANSPOSED, NOT_TRANSPOSED, extent, extent, extent, one, b, HALF, extent, a, HALF, extent,
            zero, out, HALF, extent, COMPUTE_FLOAT, DEFAULT_ALGORITHM,
        )  # fmt: skip
        if status:
            self._fail(BLAS, "cublasGemmEx", status)

    def synchronize(self) -> None:
        """Wait for what was enqueued.

        Raises:
            CudaError: It failed on the device.
        """
        self._runtime("cudaStreamSynchronize", self._stream)

    def close(self) -> None:
        """Free everything. What fails is left: a device that is lost answers every call with the same error."""
        runtime, blas = self._libraries[RUNTIME], self._libraries[BLAS]
        statuses = [runtime.cudaFree(address) for address in self._memory]
        self._memory.clear()
        if self._handle:
            statuses.append(blas.cublasDestroy_v2(self._handle))
        if self._stream:
            statuses.append(runtime.cudaStreamDestroy(self._stream))
        self._handle, self._stream = _pointer(), _pointer()
        if any(statuses):
            runtime.cudaGetLastError()

    def _runtime(self, function: str, *arguments: Any) -> None:
        self._call(RUNTIME, function, *arguments)

    def _blas(self, function: str, *arguments: Any) -> None:
        self._call(BLAS, function, *arguments)

    def _call(self, library: str, function: str, *arguments: Any) -> None:
        status = getattr(self._libraries[library], function)(*arguments)
        if status:
            self._fail(library, function, status)

    def _fail(self, library: str, function: str, status: int) -> NoReturn:
        name = getattr(self._libraries[library], _NAMES_OF_CODES[library])(status) or b"an unknown error"
        # The runtime keeps the last error of a thread, and ONNX Runtime would take it for one of its own launches.
        self._libraries[RUNTIME].cudaGetLastError()
        msg = f"{function} answers {name.decode('ascii', 'replace')} ({status})"
        raise CudaError(msg)
