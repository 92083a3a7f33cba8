"""Makes a measuring process, and no other, misbehave: by a `sitecustomize` on its PYTHONPATH."""

from __future__ import annotations

import os
import textwrap
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.session_job import SessionJob

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "ONNXPERF_TEST_MARK"

_AT_STEP = """
import sys

def _watch(frame, event, argument):
    code = frame.f_code
    is_step = code.co_name == {step!r} and code.co_filename.endswith(("child/steps.py", "child/generator.py"))
    if event == "call" and is_step:
        sys.setprofile(None)
        _misbehave()

def _misbehave():
{body}

if sys.orig_argv[1:2] == ["-c"]:  # no pytest: to watch it would make it several times slower
    sys.setprofile(_watch)
"""


def at_start(directory: Path, code: str) -> dict[str, str]:
    """Return the environment in which every Python runs `code` before anything else."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return {"PYTHONPATH": str(directory)}


def at_step(directory: Path, step: str, code: str) -> dict[str, str]:
    """Return the environment in which a measuring process runs `code` as it begins a step."""
    return at_start(directory, _AT_STEP.format(step=step, body=textwrap.indent(textwrap.dedent(code), "    ")))


def job_of(model: Path, ep: str = "cpu", *, profile_prefix: str = "", **changes: Any) -> dict[str, Any]:
    """Return the argument of the step `open`."""
    return SessionJob(model, model.name, provider_of(ep), **changes).open_arguments(1, profile_prefix)


def new_mark() -> str:
    """Return a value for `MARK`, by which the processes of one test are known."""
    return uuid.uuid4().hex


def marked_processes(mark: str) -> list[int]:
    """Return the processes that have the mark in their environment; those that have ended but are not reaped too."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in _environment(entry).get(MARK, ""):
            found.append(int(entry.name))
    return found


def _environment(process: Path) -> Mapping[str, str]:
    try:
        text = (process / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:  # it has just ended, or is another user's
        return {}
    return dict(pair.partition("=")[::2] for pair in text.split("\0"))


def wait_until_gone(process: int, timeout_s: float = 30) -> bool:
    """Wait for the end of a process that is no child of this one."""
    import select

    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout_s)[0])
    finally:
        os.close(descriptor)
