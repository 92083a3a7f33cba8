"""Baselines on disk: find, read, and replace atomically under a lock."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from filelock import Timeout

from pytest_onnxperf.core.baseline import Baseline, Entry
from pytest_onnxperf.core.baseline_text import read_baseline, write_baseline
from pytest_onnxperf.core.baseline_update import merged
from pytest_onnxperf.core.errors import BaselineError, MeasurementError
from pytest_onnxperf.core.judge import Found
from pytest_onnxperf.core.providers import short_name

from .atomic import replace_file
from .lock import file_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_onnxperf.core.environment import Environment
    from pytest_onnxperf.core.record import TestKey

_MARK: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""The byte order mark that an editor may put first."""


class Store:
    """The directory of baselines, `<environment key>/<test module path>.json` in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: dict[Path, tuple[tuple[int, int], Baseline | None]] = {}

    def path(self, environment_key: str, module: str) -> Path:
        """Return the file of one test module in one environment; never outside the directory.

        A module outside of pytest's root directory may have no name there: it is `_outside` then.
        """
        parts = ["_up" if part == ".." else part.replace(":", "_") for part in _parts(module) or ["_outside"]]
        return self.directory.joinpath(environment_key, *parts).with_suffix(".json")

    def load(self, path: Path) -> Baseline | None:
        """Read one file; None where there is none. A file that did not change is read once.

        Raises:
            BaselineError: It cannot be read, or its content is wrong.
        """
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_ino)  # two replacements may fall into one tick of the clock
            if path not in self._read or self._read[path][0] != version:
                baseline = read_baseline(path.read_text("utf-8").removeprefix(_MARK), str(path))
                _check_place(path, path.relative_to(self.directory).parts[0], baseline.execution_provider)
                self._read[path] = (version, baseline)
            return self._read[path][1]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            msg = f"{path}: not UTF-8 text: {error.reason} at byte {error.start}"
            raise BaselineError(msg) from error
        except OSError as error:
            msg = f"{path}: cannot be read: {error.strerror}"
            raise BaselineError(msg) from error

    def find(self, key: TestKey, environment: Environment) -> Found:
        """Return the entry of a measurement, or that of another device with the same EP, the latest by date."""
        path = self.path(environment.key, key.module)
        baseline = self.load(path)
        if baseline is not None and key.entry in baseline.tests:
            return Found(baseline.tests[key.entry], str(path))
        others = []
        for other in self.environment_keys():
            if other != environment.key and other.endswith("." + short_name(environment.execution_provider)):
                document = self.load(self.path(other, key.module))
                if document is not None and key.entry in document.tests:
                    others.append((document.tests[key.entry].date, other, document.tests[key.entry]))
        if not others:
            return Found(None, str(path))
        _, other, entry = max(others, key=lambda found: found[:2])
        return Found(entry, str(path), other)

    def environment_keys(self) -> tuple[str, ...]:
        """Return the keys of all environments that have baselines; none where the directory cannot be listed."""
        try:
            children = list(self.directory.iterdir())
        except OSError:
            return ()  # is not there, or a test says what is wrong with it
        return tuple(sorted(child.name for child in children if child.is_dir() and "." in child.name))

    def latest_date(self, environment_key: str) -> date | None:
        """Return the date of the latest entry of an environment; None where there is none that can be read."""
        dates = []
        try:
            paths = list((self.directory / environment_key).rglob("*.json"))
        except OSError:
            return None
        for path in paths:
            try:
                baseline = self.load(path)
            except BaselineError:
                continue  # its tests say what is wrong with it
            dates += [entry.date for entry in baseline.tests.values()] if baseline else []
        try:
            return date.fromisoformat(max(dates, default=""))
        except ValueError:
            return None

    def update(
        self,
        path: Path,
        environment: Environment,
        entries: Mapping[str, Entry],
        mode: str,
        completed: Callable[[Entry], Entry] = lambda entry: entry,
    ) -> dict[str, tuple[Entry | None, Entry]]:
        """Write entries into one file and return old and new of those that changed.

        Args:
            path: From `path()`.
            environment: Named in the head of the file.
            entries: Entry key -> fresh entry.
            mode: `new` writes only what has no entry; `changed` keeps values inside the old interval; `all` replaces.
            completed: Adds to an entry what follows from all of its values.

        Raises:
            BaselineError: The file cannot be read or written; it is left as it was.
        """
        try:
            with file_lock(path):
                self._read.pop(path, None)
                old = self.load(path) or Baseline(environment.device, environment.execution_provider)
                changed = {}
                for key, entry in entries.items():
                    before = old.tests.get(key)
                    if before is not None and mode == "new":
                        continue
                    after = completed(merged(before, entry, replace_all=mode == "all"))
                    if after != before:
                        changed[key] = (before, after)
                if changed:
                    tests = {**old.tests, **{key: after for key, (_, after) in changed.items()}}
                    replace_file(path, write_baseline(replace(old, tests=tests)).encode())
                return changed
        except MeasurementError as error:
            msg = f"{path}: cannot be locked: {error}"
            raise BaselineError(msg) from error
        except Timeout as error:
            msg = f"{path}: another process has held its lock for 60 s: {error.lock_file}"
            raise BaselineError(msg) from error
        except OSError as error:
            msg = (
                f"{path}: cannot be written: {error.strerror}; nothing of it was changed. Give "
                f"--onnxperf-baseline-dir a directory that can be written"
            )
            raise BaselineError(msg) from error


def _check_place(path: Path, environment_key: str, execution_provider: str) -> None:
    """Refuse a file that was moved to the directory of another EP."""
    expected = environment_key.rpartition(".")[2]
    if short_name(execution_provider) != expected:
        msg = f"{path}: it was recorded on {execution_provider}, and lies in a directory of `{expected}`: put it back"
        raise BaselineError(msg)


def _parts(module: str) -> list[str]:
    """Split a path at slashes of either kind; no part is a root, a drive or empty."""
    return [part for part in PurePosixPath(module.replace("\\", "/")).parts if part not in ("/", "//", ".")]
