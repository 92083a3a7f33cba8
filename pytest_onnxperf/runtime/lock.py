"""One measurement at a time on a device: a file lock per device and user, for all pytest processes of a machine."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from pytest_onnxperf.core.environment import slug
from pytest_onnxperf.core.errors import MeasurementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_POLL_S: Final = 0.5


def lock_directory() -> Path:
    """Return the directory of this user's locks, made if need be.

    Lock files stay there, empty: to delete one while another process waits for it would let two in at once.

    Raises:
        MeasurementError: It cannot be made, or it is another user's.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        directory = Path(tempfile.gettempdir()) / f"onnxperf-locks-{user}"
        directory.mkdir(mode=0o700, exist_ok=True)
        owner = directory.stat().st_uid
    except OSError as error:
        msg = (
            f"{error.filename or 'the directory of locks'}: cannot be made: {error.strerror}; locks keep two "
            f"measurements apart. Set TMPDIR to a directory that can be written"
        )
        raise MeasurementError(msg) from error
    if hasattr(os, "getuid") and owner != user:
        msg = f"{directory}: belongs to another user, who could hold its locks for ever: remove it, or set TMPDIR"
        raise MeasurementError(msg)
    return directory


def visible_names(environment: Mapping[str, str]) -> list[str] | None:
    """Return the devices that `CUDA_VISIBLE_DEVICES` names, in its order; None where it is not set.

    >>> visible_names({"CUDA_VISIBLE_DEVICES": "4, 6"})
    ['4', '6']
    """
    given = environment.get("CUDA_VISIBLE_DEVICES")
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def device_name(execution_provider: str, provider_options: Mapping[str, object], environment: Mapping[str, str]) -> str:
    """Name the physical device that a session will use.

    Args:
        execution_provider: The EP's short name.
        provider_options: `device_id` is read, 0 if it is not there.
        environment: Environment variables; `CUDA_VISIBLE_DEVICES` renumbers the devices of CUDA.

    >>> device_name("cuda", {"device_id": 1}, {"CUDA_VISIBLE_DEVICES": "4,6"})
    'cuda-6'
    """
    if execution_provider == "cpu":
        return "cpu"
    device = str(provider_options.get("device_id", 0))
    visible = visible_names(environment) or []
    if execution_provider in ("cuda", "tensorrt", "trt-rtx"):
        if device.isdigit() and int(device) < len(visible):
            device = visible[int(device)]
        execution_provider = "cuda"
    return slug(f"{execution_provider}-{device}")


@contextmanager
def claimed(device: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a device; `waiting` is called at once where it is taken, and about twice a second after that.

    Raises:
        MeasurementError: There can be no lock.
    """
    lock = FileLock(lock_directory() / f"device-{device}.lock")
    timeout_s = 0.0
    while True:
        try:
            lock.acquire(timeout=timeout_s)
            break
        except Timeout:
            waiting()
            timeout_s = _POLL_S
        except OSError as error:
            msg = f"{lock.lock_file}: the lock of the device cannot be taken: {error.strerror}"
            raise MeasurementError(msg) from error
    try:
        yield
    finally:
        lock.release()


def file_lock(path: Path) -> FileLock:
    """Return the lock that writers of one file share; it lies beside the locks of devices, not beside the file."""
    name = sha256(os.path.realpath(path).encode()).hexdigest()[:24]
    return FileLock(lock_directory() / f"file-{name}.lock", timeout=60)
