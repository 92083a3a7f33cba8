"""The bytes of the file of `--onnxperf-json`: what is written, a test a line, and how what is read can be wrong."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .errors import ResultsError
from .results import SCHEMA, Results, Run, Test

if TYPE_CHECKING:
    from collections.abc import Iterable

_END: Final = b'"tests":[]}'
_SEPARATOR: Final = b",\n"
_BYTE_ORDER_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Head(msgspec.Struct):
    """What is looked at before anything else; `runs` is not decoded."""

    schema: int
    runs: msgspec.Raw


def encode(value: msgspec.Struct) -> bytes:
    """Return JSON on one line. Half a surrogate pair, of a path that is no UTF-8, is written as its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(each) for each in value]
    return value


def write_results(results: Results) -> bytes:
    """Return the content of a file."""
    runs = (encode_run(run, map(encode, run.tests)) for run in results.runs)
    return encode_file(runs)


def encode_run(run: Run, tests: Iterable[bytes]) -> bytes:
    """Return a run with tests that are encoded already; those in `run` are left out."""
    head = encode(msgspec.structs.replace(run, tests=()))
    assert head.endswith(_END), "`tests` is the last field of a run"
    return head[: -len(_END)] + b'"tests":[\n' + _SEPARATOR.join(tests) + b"\n]}"


def encode_file(runs: Iterable[bytes]) -> bytes:
    """Return the content of a file of runs that are encoded already."""
    head = encode(Results(runs=()))
    assert head.endswith(b"[]}"), "`runs` is the last field of the file"
    return head[: -len(b"[]}")] + b"[" + _SEPARATOR.join(runs) + b"]}\n"


def read_results(data: bytes, path: str) -> Results:
    """Read the content of a file.

    Args:
        data: The content.
        path: Where it came from, for the messages.

    Raises:
        ResultsError: It is no JSON, cut off, of another schema, or a field is missing or of the wrong type; the message
            names the file and the place in it.
    """
    data = data.removeprefix(codecs.BOM_UTF8)  # PowerShell writes it
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.ValidationError as error:
        msg = f"{path}: not a file of --onnxperf-json: {error}"
        raise ResultsError(msg) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = _what_is_wrong(data, error)
        msg = f"{path}: {what} ({len(data)} bytes); copy it again, or run the tests again with --onnxperf-json"
        raise ResultsError(msg) from None
    if head.schema != SCHEMA:
        older = "older", "run the tests again to write it in the new form"
        word, advice = ("newer", "upgrade it (pip install -U pytest-onnxperf)") if head.schema > SCHEMA else older
        msg = (
            f"{path}: schema {head.schema} is {word} than the {SCHEMA} that this pytest-onnxperf understands: {advice}"
        )
        raise ResultsError(msg)
    try:
        return msgspec.json.decode(data, type=Results)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: {error}"
        raise ResultsError(msg) from None


def _what_is_wrong(data: bytes, error: Exception) -> str:
    if not data.strip():
        return "empty"
    if data.startswith(_BYTE_ORDER_MARKS):
        return "not UTF-8 as JSON is, it begins with a byte order mark, which a shell or an editor wrote"
    return f"not valid JSON, it may be cut off: {error}"


class Journal(msgspec.Struct, frozen=True):
    """The first line of a journal: the run that the tests on the other lines are of."""

    schema: int
    started: str


def with_journal(results: Results, journal: bytes) -> Results:
    """Return the results with the tests of a journal, which a killed writer left beside them; else as they are.

    A journal of another run, or beside a run that is complete, is one that another killed writer left. Of two lines on
    one test the later holds. A line that was cut off ends it.
    """
    lines = journal.split(b"\n")[:-1]
    if len(results.runs) != 1 or results.runs[0].is_complete or not lines:
        return results
    run = results.runs[0]
    try:
        head = msgspec.json.decode(lines[0], type=Journal)
        if head != Journal(SCHEMA, run.started):
            return results
        tests = {test.nodeid: test for test in run.tests}
        tests |= {test.nodeid: test for test in (msgspec.json.decode(line, type=Test) for line in lines[1:])}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return results
    return Results(runs=(msgspec.structs.replace(run, tests=tuple(tests.values())),))
