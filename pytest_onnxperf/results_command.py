"""The commands `onnxperf export`, `merge`, `report` and `matrix`: files of --onnxperf-json read, others written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .core.errors import ResultsError, SettingError
from .core.matrix import run_tests_of, tables_of
from .core.results_merge import merge
from .core.results_text import write_results
from .core.units import listed
from .report import export
from .report.html.page import page
from .report.matrix import matrix_text
from .runtime.atomic import replace_file
from .runtime.results_disk import check_writable, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST_NAMES: Final = 3


def exported(form: str, path: Path, *, with_header: bool) -> tuple[str, tuple[str, ...]]:
    """Return the results of a file in the form of another tool, and what a reader should know of them.

    Raises:
        ResultsError: The file cannot be read.
    """
    results = read_file(path)
    text = export.exported(form, results, with_header=with_header)
    if export.is_empty(form, text, with_header=with_header):
        return text, (f"{path}: nothing in it goes into {form}: no test ran, or it has no place for what was measured",)
    untimed = export.untimed(form, results)
    if not untimed:
        return text, ()
    named = listed(untimed, _MOST_NAMES)
    return text, (f"{path}: not in {form}, which takes the times of single models alone: {named}",)


def merged(paths: Sequence[Path]) -> tuple[bytes, tuple[str, ...]]:
    """Return one file of all, and what a reader should know of the mixture.

    Raises:
        ResultsError: A file cannot be read, or two do not go together.
    """
    results, warnings = merge([(str(path), read_file(path)) for path in paths])
    return write_results(results), warnings


def reported(paths: Sequence[Path]) -> str:
    """Return one page of all files; the newest run of a test is shown, and the others are its history.

    Raises:
        ResultsError: A file cannot be read.
    """
    return page([read_file(path) for path in paths])


def matrix(form: str, paths: Sequence[Path]) -> tuple[str, tuple[str, ...]]:
    """Return the tables of the matrices in files, and what a reader should know of the mixture.

    Raises:
        ResultsError: A file cannot be read, two do not go together, or there is no matrix in them.
    """
    results, warnings = merge([(str(path), read_file(path)) for path in paths])
    tables = tables_of(run_tests_of(results))
    if not tables:
        msg = f"{', '.join(map(str, paths))}: no test of @pytest.mark.onnx_matrix is in it"
        raise ResultsError(msg)
    return matrix_text(form, tables), warnings


def write(path: Path, data: bytes, inputs: Sequence[Path] = ()) -> None:
    """Write a file in one step.

    Args:
        path: Where.
        data: What.
        inputs: Files that it may not replace.

    Raises:
        SettingError: No file can be written there.
        ResultsError: Its disk is full.
    """
    check_writable(path, "--output")
    if path.resolve() in {each.resolve() for each in inputs}:
        msg = f"--output: {path} is a file of results that is read: give another name"
        raise SettingError(msg)
    try:
        replace_file(path, data)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}; nothing of it was changed"
        raise ResultsError(msg) from error
