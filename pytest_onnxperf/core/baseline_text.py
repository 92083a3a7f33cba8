"""The text of a baseline's file: what is written, and every way in which what is read can be wrong."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from .baseline import SCHEMA, Baseline, Entry
from .errors import BaselineError
from .metrics import STORED_METRIC
from .paired import TESTED

_LEAST_NS: Final = 1e-3
_MOST: Final = 1e18
"""In ns 30 years: what is beyond was not measured, and its ratios do not fit into a float."""


def write_baseline(baseline: Baseline) -> str:
    """Return the text of a baseline's file."""
    document = {
        "schema": SCHEMA,
        "device": baseline.device,
        "execution_provider": baseline.execution_provider,
        "tests": {key: _plain(entry) for key, entry in baseline.tests.items()},
    }
    return _write(document, "") + "\n"


def _plain(entry: Entry) -> dict[str, Any]:
    plain = msgspec.to_builtins(entry)
    return {name: value for name, value in plain.items() if value not in ("", {}, [])}


def _write(value: Any, indent: str) -> str:
    """Write JSON with sorted keys, objects over several lines, and arrays on one."""
    if not isinstance(value, dict) or not value:
        return _plain_text(value)
    inner = indent + " "
    keys = sorted(value, key=lambda key: (key != "schema", key))
    rows = [f"{inner}{_plain_text(key)}: {_write(value[key], inner)}" for key in keys]
    return "{\n" + ",\n".join(rows) + "\n" + indent + "}"


def _plain_text(value: Any) -> str:
    """Write JSON without escapes, but where half a surrogate pair, which a note may hold, is no UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text) else json.dumps(value)


def read_baseline(text: str, path: str) -> Baseline:
    """Read a baseline's file.

    Args:
        text: The content of the file.
        path: Where it came from, for the messages.

    Raises:
        BaselineError: It has conflict markers, is no JSON, names a test twice, is of a newer schema, or a field is
            missing or of the wrong type; the message names the file and, where there is one, the line.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<<", ">>>>>>>")):
            msg = f"{path}:{number}: an unresolved merge conflict, {line[:30]!r}: resolve it in git"
            raise BaselineError(msg)
    try:
        document = json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        msg = (
            f"{path}:{error.lineno}: not valid JSON: {error.msg}; restore the file from git, or delete it and record "
            f"with --onnxperf-update"
        )
        raise BaselineError(msg) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        msg = f"{path}:1: not a baseline of pytest-onnxperf: {error}"
        raise BaselineError(msg) from error
    except _Duplicate as error:
        place = _last_line_of(text, str(error))
        msg = f"{path}:{place}: the key {str(error)!r} stands twice, perhaps a wrong merge"
        raise BaselineError(msg) from None
    return _convert(document, text, path)


class _Duplicate(Exception):
    """A key stands twice in one object."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Duplicate(key)
        result[key] = value
    return result


def _last_line_of(text: str, key: str) -> int:
    needle = json.dumps(key, ensure_ascii=False) + ":"
    lines = [number for number, line in enumerate(text.splitlines(), 1) if needle in line]
    return lines[-1] if lines else 1


def _convert(document: Any, text: str, path: str) -> Baseline:
    if not isinstance(document, dict) or type(document.get("schema")) is not int:
        msg = f"{path}:1: not a baseline of pytest-onnxperf: there is no `schema` number in it"
        raise BaselineError(msg)
    if document["schema"] < 1:
        msg = f"{path}:{_last_line_of(text, 'schema')}: there is no schema {document['schema']}: the first is 1"
        raise BaselineError(msg)
    if document["schema"] > SCHEMA:
        msg = (
            f"{path}:{_last_line_of(text, 'schema')}: schema {document['schema']} is newer than the {SCHEMA} that this "
            f"pytest-onnxperf understands: upgrade it (pip install -U pytest-onnxperf)"
        )
        raise BaselineError(msg)
    tests = document.get("tests", {})
    if not isinstance(tests, dict):
        msg = f"{path}:{_last_line_of(text, 'tests')}: `tests` must be an object"
        raise BaselineError(msg)
    entries = {key: _convert_entry(value, key, text, path) for key, value in tests.items()}
    head = {name: document.get(name) for name in ("device", "execution_provider")}
    for name, value in head.items():
        if not isinstance(value, str):
            msg = f"{path}:1: `{name}` must be a string, got {value!r}"
            raise BaselineError(msg)
    return Baseline(str(head["device"]), str(head["execution_provider"]), entries)


def _convert_entry(value: Any, key: str, text: str, path: str) -> Entry:
    where = f"{path}:{_last_line_of(text, key)}"
    try:
        entry = msgspec.convert(value, Entry)
    except msgspec.ValidationError as error:
        msg = f"{where}: entry {key!r}: {error}"
        raise BaselineError(msg) from error
    for name, values in (*entry.metrics.items(), *((name, [first]) for name, first in entry.anchor.metrics.items())):
        if name in STORED_METRIC and (not values or any(not 0 <= v <= _MOST for v in values)):
            msg = f"{where}: entry {key!r}: `{name}` must hold numbers from 0 to {_MOST:g}, got {values}"
            raise BaselineError(msg)
    for name, columns in entry.paired.items():
        numbers = [value for column in columns.values() for value in column]
        is_whole = len({len(column) for column in columns.values()}) == 1 and TESTED in columns
        if not numbers or not is_whole or any(not _LEAST_NS <= value <= _MOST for value in numbers):
            msg = (
                f"{where}: entry {key!r}: `paired` of `{name}` must hold `{TESTED}` and its references with as many "
                f"numbers from {_LEAST_NS:g} to {_MOST:g} each, got {columns}"
            )
            raise BaselineError(msg)
        kinds, known = columns.keys() - {TESTED}, entry.references.get(name, {}).keys()
        if kinds - known:
            msg = (
                f"{where}: entry {key!r}: `references` of `{name}` must tell the size of {', '.join(sorted(kinds))}, "
                f"which `paired` has times of; it tells {', '.join(sorted(known)) or 'none'}"
            )
            raise BaselineError(msg)
    return entry
