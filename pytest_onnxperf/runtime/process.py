"""Starts a measuring process, sends it steps and reads its answers.

A process that crashes, hangs or answers with an error ends as one exception that says what it printed and where the
whole log is. However it ends, the process is gone when `close()` or the `with` block is left.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pytest_onnxperf.core.errors import MeasurementError, SettingError

from .child.protocol import pack_feeds, read_frame, write_frame
from .inline import Kind, result_of
from .stages import Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

CHILD: Final = Path(__file__).parent / "child"

# Loads the child from its source under a name of its own, so that an interpreter without this package can run it.
# The empty entry of sys.path goes first: the working directory must not shadow numpy.
_BOOT: Final = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("onnxperf_child", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["onnxperf_child"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["onnxperf_child"])
from onnxperf_child.main import main
sys.exit(main(sys.argv[2:]))
"""

# Coverage and its friends would measure, and slow, what is being measured.
_ENV_DROPPED: Final = (
    "COVERAGE_PROCESS_START",
    "COVERAGE_PROCESS_CONFIG",
    "COV_CORE_SOURCE",
    "COV_CORE_CONFIG",
    "COV_CORE_DATAFILE",
)
_LOG_TAIL_LINES: Final = 15
_LOG_TAIL_BYTES: Final = 64 << 10
# What the runtime says of a session stands at the front of its log; a process that prints without end is cut here.
_LOG_BYTES: Final = 16 << 20
_LONGEST_LINE_BYTES: Final = 64 << 10
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_POLL_S: Final = 0.5
_READER_S: Final = 2.0


class ProcessWorker:
    """Does the steps in a fresh process."""

    def __init__(
        self,
        directory: Path,
        *,
        timeout_s: float,
        kind: Kind = "session",
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        stages: Stages | None = None,
        after_step: Callable[[int, str], None] | None = None,
        log_stays: bool = True,
    ) -> None:
        """Start the process.

        Args:
            directory: An existing directory for its log files; they stay there.
            kind: Which steps it does.
            timeout_s: It is killed this many seconds after its start.
            python: The interpreter, with numpy and the runtime; it need not have this package.
            environment: Variables set beside those of this process.
            stages: Hears each step, and about twice a second that an answer is awaited.
            after_step: Called with the process id and the step while an answer is awaited, and after each.
            log_stays: False where the directory is soon removed, so that no message sends a person there.

        Raises:
            MeasurementError: The interpreter cannot be started.
        """
        self._stdout_path, self._stderr_path = directory / "stdout.log", directory / "stderr.log"
        self._timeout_s, self._log_stays = timeout_s, log_stays
        self.stages = stages or Stages()
        self._after_step = after_step
        self._deadline_s = time.monotonic() + timeout_s
        variables = {name: value for name, value in os.environ.items() if name not in _ENV_DROPPED}
        variables |= {"ORT_DISABLE_TELEMETRY": "1", **(environment or {})}
        arguments = [str(CHILD), str(self._stdout_path), str(self._stderr_path), str(os.getpid()), kind]
        try:
            with self._stderr_path.open("ab") as early_errors:
                self._process = subprocess.Popen(
                    [python, "-c", _BOOT, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=early_errors,
                    env=variables,
                    start_new_session=True,  # Ctrl-C goes to pytest alone, which then ends the process
                )
        except OSError as error:
            msg = f"the interpreter {python} cannot be started: {error.strerror}"
            raise MeasurementError(msg) from error
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="onnxperf-reader", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while (frame := read_frame(stdout)) is not None:
            self._answers.put(frame[0])
        self._answers.put(None)

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Do one step and return its result.

        Raises:
            SettingError: An argument is of a type that cannot cross the pipe.
            ProviderError: The EP does not run.
            ModelError: The runtime refuses the model.
            MeasurementError: Anything else: a step failed, the process crashed, or it was killed at its time limit.
        """
        self.stages.step(command)
        blobs: Sequence[bytes] = ()
        if "feeds" in arguments:
            arguments["feeds"], blobs = pack_feeds(arguments["feeds"])
        stdin = self._process.stdin
        assert stdin is not None
        try:
            with self._ended_in_time(blobs), contextlib.suppress(BrokenPipeError):
                write_frame(stdin, {"command": command, "arguments": arguments}, blobs)
        except TypeError as error:
            msg = f"an option cannot be handed to the measuring process, which takes numbers and texts: {error}"
            raise SettingError(msg) from error
        return result_of(self._await(command), self._ending)  # if it is dead, this says how it died

    @contextlib.contextmanager
    def _ended_in_time(self, blobs: Sequence[bytes]) -> Iterator[None]:
        """Kill the process at its time limit: one that is stopped takes no feeds, and to write them would block."""
        guard = threading.Timer(max(self._left_s(), 0), self.kill) if blobs else None
        if guard is not None:
            guard.start()
        try:
            yield
        finally:
            if guard is not None:
                guard.cancel()
                guard.join()

    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    def _await(self, command: str) -> dict[str, Any]:
        while True:
            left_s = self._left_s()
            if left_s <= 0:
                raise self._too_late(command)
            try:
                message = self._answers.get(timeout=min(left_s, _POLL_S))
            except queue.Empty:
                self.stages.tick()
                self._observe(command)
                continue
            if message is None:
                self._answers.put(None)  # for the next call, which hears the same
                how = self._how_it_died(command)
                msg = f"the measuring process {how} in its step `{command}`{self._ending()}"
                raise MeasurementError(msg)
            self._observe(command)
            return message

    def _observe(self, step: str) -> None:
        if self._after_step is not None:
            self._after_step(self._process.pid, step)

    def _too_late(self, command: str) -> MeasurementError:
        self.kill()
        return MeasurementError(
            f"the measuring process was ended after {self._timeout_s:g} s, in its step `{command}` "
            f"(--onnxperf-timeout){self._ending()}"
        )

    def _how_it_died(self, command: str) -> str:
        try:
            code = self._process.wait(timeout=max(self._left_s(), 1))
        except subprocess.TimeoutExpired:
            raise self._too_late(command) from None
        if code >= 0:
            return f"exited with status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"

    def _ending(self) -> str:
        """Return the last lines it printed and where the whole log is, to stand behind a message."""
        text = "".join(_read_part(path, -_LOG_TAIL_BYTES) for path in (self._stdout_path, self._stderr_path))
        text = _COLOURS.sub("", text)
        lines = [line for line in text.splitlines() if line.strip()]
        tail = "".join(f"\n  | {line[:200]}" for line in lines[-_LOG_TAIL_LINES:])
        place = f"\nFull log: {self._stderr_path.parent}" if self._log_stays else ""
        return f"\nLast output:{tail}{place}" if tail else ""

    def log(self) -> str:
        """Return what the process printed so far, standard output first; at most the first 16 MiB of each."""
        return "".join(_read_part(path, _LOG_BYTES) for path in (self._stdout_path, self._stderr_path))

    def log_lines(self) -> Iterator[str]:
        """Yield what the process printed so far, standard output first; a line over 64 KiB comes in pieces."""
        for path in (self._stdout_path, self._stderr_path):
            yield from _lines(path)

    def close(self) -> dict[str, Any]:
        """End the session and the process."""
        step = "close"
        result = self.call(step)
        try:
            self._process.wait(timeout=max(self._left_s(), 1))
        except subprocess.TimeoutExpired:
            raise self._too_late(step) from None
        return result

    def kill(self) -> None:
        """End the process and its children at once, and wait until it is gone."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # its children may live on where it has ended
        except (AttributeError, ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.close()
        self._reader.join(_READER_S)
        if not self._reader.is_alive():  # else a process that left the group holds the pipe, and to close would block
            stdout.close()


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, without their ends, however long it is; none without a file."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE_BYTES):
            yield line.decode("utf-8", "replace").rstrip("\r\n")


def _read_part(path: Path, size: int) -> str:
    """Return the first `size` bytes of a file as text, or the last where `size` is negative; empty without a file."""
    try:
        with path.open("rb") as file:
            if size < 0:
                file.seek(max(path.stat().st_size + size, 0))
            return file.read(abs(size)).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
