"""What a session says of its model beside its runs: the optimised graph, the verbose log, the recorded assignment.

A process creates the session and does not run it. What it writes is removed, however it ends.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.errors import ModelError, ProviderError
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.graph import Model
from pytest_onnxperf.core.ort_log import OrtLog, PlacedNode, read_log
from pytest_onnxperf.core.units import quantity

from .graph_file import read_graph
from .model_files import model_files
from .process import ProcessWorker
from .stages import Stages

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERBOSE: Final = 0
_PREFIX: Final = "onnxperf-explain-"
_NOT_OURS: Final = (
    "optimized_model_filepath",
    "session.optimized_model_external_initializers_file_name",
    "session.optimized_model_external_initializers_min_size_in_bytes",
)
"""Session options of a test that would save the graph a second time, or in the test's place."""
_ROOM_RATIO: Final = 1.25
_MIB: Final = 1 << 20
_ROOM_BYTES: Final = 16 * _MIB
"""Free space beyond the model's size: the runtime adds initializers of its own and keeps some twice. A choice."""


@dataclass(frozen=True, slots=True)
class ModelEvidence:
    """What was learnt."""

    model: Model | None
    """The optimised graph."""
    why_no_graph: str
    """Why `model` is None, without a full stop; else empty."""
    log: OrtLog
    """Verbose, of the creation of the session."""
    assignment: tuple[PlacedNode, ...] | None
    """What the runtime recorded, before its last optimisations; None where it does not."""
    why_no_assignment: str
    """Why `assignment` is None; else empty."""


@dataclass(frozen=True, slots=True)
class _Start:
    """How to start the process."""

    arguments: Mapping[str, Any]
    timeout_s: float
    environment: Mapping[str, str] | None
    stages: Stages | None


def explain(
    open_arguments: dict[str, Any],
    directory: Path,
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    stages: Stages | None = None,
) -> ModelEvidence:
    """Create a session in a process of its own and return what it says of its model.

    Args:
        open_arguments: Of the step `open`, from `SessionJob.open_arguments`; a profile is not written.
        directory: Where the optimised graph is written for the moment, with all weights of the model.
        timeout_s: The process is killed after so many seconds, and so is the second, where one is needed.
        environment: Variables set beside those of this process.
        stages: Hears of its steps.

    Raises:
        ModelError: The model is missing, or the runtime refuses it.
        ProviderError: The EP does not run.
        MeasurementError: The process crashed, or was killed at its time limit.
    """
    options = {name: value for name, value in open_arguments["session_options"].items() if name not in _NOT_OURS}
    own = {"session_options": options, "profile_prefix": "", "log_severity": _VERBOSE, "record_assignment": True}
    start = _Start({**open_arguments, **own}, timeout_s, environment, stages)
    size_bytes = sum(file.stat().st_size for file in model_files(Path(open_arguments["model"])))
    with _scratch(directory) as (scratch, why_no_graph):
        why_no_graph = why_no_graph or _no_room(scratch, size_bytes)
        if why_no_graph:
            return _evidence(start, scratch, why_no_graph)
        try:
            return _evidence(start, scratch, "")
        except (ModelError, ProviderError) as error:
            # A compiling EP, a full disk, a graph over 2 GB: it may be the saving that fails, and not the session.
            with contextlib.suppress(OSError):
                shutil.rmtree(scratch / "saved")
            return _evidence(start, scratch, f"ONNX Runtime did not save it: {error}")


@contextlib.contextmanager
def _scratch(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield an empty directory and why no graph can be written there, "" where one can; remove it in the end."""
    why_not = ""
    try:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
    except OSError as error:
        why_not = f"{directory} cannot be written: {error.strerror}"
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield path, why_not
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _no_room(scratch: Path, size_bytes: int) -> str:
    """Return why the optimised graph is not written, where its weights might fill the disk."""
    needed = int(size_bytes * _ROOM_RATIO) + _ROOM_BYTES
    free = shutil.disk_usage(scratch).free
    if free >= needed:
        return ""
    needed_text, free_text = quantity(needed / _MIB, "MiB"), quantity(free / _MIB, "MiB")
    return f"its weights may need {needed_text} in {scratch.parent}, where {free_text} are free"


def _evidence(start: _Start, scratch: Path, why_no_graph: str) -> ModelEvidence:
    """Create the session; the graph is saved unless there is a reason not to."""
    saved = scratch / "saved"
    logs = Path(tempfile.mkdtemp(dir=scratch))
    path = ""
    if not why_no_graph:
        saved.mkdir()
        path = str((saved / "optimized.onnx").resolve())
    process = ProcessWorker(
        logs, timeout_s=start.timeout_s, environment=start.environment, stages=start.stages, log_stays=False
    )
    with process as worker:
        worker.call("hello")
        try:
            worker.call("open", job={**start.arguments, "optimized_model_path": path})
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error
        assignment = worker.call("assignment")
        worker.close()
        log = read_log(worker.log_lines())
    model = None
    if path:
        try:
            model = read_graph(Path(path))
        except ModelError as error:
            why_no_graph = str(error)
    nodes = tuple(PlacedNode(name, op_type, provider) for provider, op_type, name in assignment["nodes"])
    why_not = assignment["why_not"]
    return ModelEvidence(model, why_no_graph, log, None if why_not else nodes, why_not)
