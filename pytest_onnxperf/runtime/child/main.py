"""The measuring process: reads commands from its standard input and answers on what was its standard output.

It imports the standard library, numpy and the runtime and nothing else, by relative names, so that any interpreter can
run it from its source. What anything else prints goes to the log files that pytest names.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .element_types import InputError
from .protocol import read_frame, unpack_feeds, write_frame
from .session import StepError, runtime_words
from .step_marks import mark_log
from .steps import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)


def main(arguments: Sequence[str]) -> int:
    """Serve until the pipe closes.

    Args:
        arguments: The paths for standard output and standard error, the parent's pid, and what is measured.
    """
    stdout_path, stderr_path, parent_pid, kind = arguments
    _die_with_parent(int(parent_pid))
    commands = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    for path, descriptor in ((stdout_path, 1), (stderr_path, 2)):
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, descriptor)
        os.close(log)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    steps = steps_of(kind)
    steps.mark = mark_log
    while True:
        frame = read_frame(commands)
        if frame is None:
            return 0
        message, blobs = frame
        write_frame(replies, answer(steps, message["command"], message["arguments"], blobs))
        if message["command"] == "close":
            return 0


def steps_of(kind: str) -> Any:
    """Return the steps of a process that measures a `session`, a `generator` or an `hf` model, or compares a pair."""
    if kind == "pair":
        from .pair import PairSteps

        return PairSteps()
    if kind == "generator_pair":
        from .generator_pair import GeneratorPairSteps

        return GeneratorPairSteps()
    if kind == "generator":
        from .generator import GeneratorSteps

        return GeneratorSteps()
    if kind == "hf":
        from .hf import HfSteps

        return HfSteps()
    return Steps()


def answer(steps: Any, command: str, arguments: dict[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
    """Do one step and return `{"result": ...}`, or `{"error": {kind, message, traceback}}`."""
    try:
        if command == "set_feeds":
            arguments = {**arguments, "feeds": unpack_feeds(arguments["feeds"], blobs)}
        return {"result": getattr(steps, command)(**arguments)}
    except StepError as error:
        return _error(error.kind, str(error))
    except InputError as error:
        return _error("input", str(error))
    except MemoryError as error:
        return _error("memory", f"out of memory: {error}".rstrip(": "))
    except Exception as error:  # the runtime's exceptions have no other base; nothing is swallowed, all is reported
        if type(error).__module__.startswith("onnxruntime"):
            return _error("run", runtime_words(error))
        return _error("python", f"{type(error).__name__}: {error}", traceback.format_exc())


def _error(kind: str, message: str, trace: str = "") -> dict[str, Any]:
    memory = ("bad_alloc", "Failed to allocate memory", "out of memory")
    if kind in ("ep", "model", "run") and any(mark in message for mark in memory):
        kind = "memory"
    return {"error": {"kind": kind, "message": message, "traceback": trace}}


def _die_with_parent(parent_pid: int) -> None:
    """Ask Linux to kill this process when pytest dies, however it dies."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)
