"""The schema in the package is what the code writes and reads. `python tests/core/test_results_schema.py` renews it."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import msgspec
import pytest

from pytest_onnxperf.core import (
    device_state,
    matrix_place,
    results,
    results_facts,
    results_judged,
    results_measured,
    stages,
)
from pytest_onnxperf.core.results_text import write_results
from tests.results import everything

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PATH: Final = Path(results.__file__).parent.parent / "results.schema.json"
MODULES: Final = (device_state, matrix_place, results, results_facts, results_judged, results_measured, stages)


def field_texts(structs: Container[str]) -> dict[str, dict[str, str]]:
    """Struct -> field -> the text that stands under it."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if not isinstance(node, ast.ClassDef) or node.name not in structs:
                continue
            for field, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    assert isinstance(text, ast.Expr), f"{node.name}.{field.target.id} has no text"
                    value = ast.literal_eval(text.value)
                    found.setdefault(node.name, {})[field.target.id] = " ".join(value.split())
    return found


def generated() -> dict[str, Any]:
    """The schema of the structs, with the texts of their fields."""
    (schema,), parts = msgspec.json.schema_components([results.Results], ref_template="#/$defs/{name}")
    for struct, fields in field_texts(parts).items():
        for name, text in fields.items():
            parts[struct]["properties"][name]["description"] = text
    parts["GpuState"]["properties"]["throttled"].setdefault("default", {})  # which msgspec 0.19 leaves out
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pytest-onnxperf results, schema {results.SCHEMA}",
        **schema,
        "$defs": dict(sorted(parts.items())),
    }
    found: dict[str, Any] = ordered(json.loads(json.dumps(document)))
    return found


def ordered(value: Any) -> Any:
    """Return a schema with its alternatives in one order: that of msgspec differs between its versions."""
    if isinstance(value, list):
        return [ordered(each) for each in value]
    if isinstance(value, dict):
        inner = {key: ordered(each) for key, each in value.items()}
        return {**inner, **({"anyOf": sorted(inner["anyOf"], key=json.dumps)} if "anyOf" in inner else {})}
    return value


def validator() -> Any:
    schema = json.loads(PATH.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_schema_in_the_package_is_that_of_the_code() -> None:
    assert json.loads(PATH.read_text("utf-8")) == generated(), f"run: python {__file__}"


def test_a_file_with_something_in_every_field_is_valid() -> None:
    validator().validate(json.loads(write_results(everything())))


def test_the_file_that_these_tests_take_has_something_in_every_field() -> None:
    filled = set(fields_set(everything()))

    structs = json.loads(PATH.read_text("utf-8"))["$defs"]
    assert [f"{struct}.{name}" for struct, fields in structs.items() for name in fields["properties"]
            if (struct, name) not in filled] == []  # fmt: skip


def fields_set(value: object) -> Iterator[tuple[str, str]]:
    """Yield struct and field of every value that is not the default of its field."""
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        fields = msgspec.structs.fields(value) if isinstance(value, msgspec.Struct) else dataclasses.fields(value)
        for field in fields:
            inner = getattr(value, field.name)
            if inner not in (field.default, None, "", (), {}) or field.name in ("schema", "quantiles"):
                yield type(value).__name__, field.name
            yield from fields_set(inner)
    elif isinstance(value, dict):
        yield from (each for inner in value.values() for each in fields_set(inner))
    elif isinstance(value, tuple):
        yield from (each for inner in value for each in fields_set(inner))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("runs", 0, "tests", 0, "outcome"), "great", id="an unknown outcome"),
        pytest.param(("runs", 0, "tests", 0, "nodeid"), 3, id="a number for a name"),
        pytest.param(("runs", 0, "machine"), None, id="no machine"),
        pytest.param(("runs", 0, "tests", 0, "measurements", 0, "metrics", "latency_p50", "value"), "1", id="a text"),
    ],
)
def test_a_file_that_differs_from_the_schema_is_refused_by_it_and_by_us(path: tuple[Any, ...], value: object) -> None:
    document = json.loads(write_results(everything()))
    broken = copy.deepcopy(document)
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    assert not validator().is_valid(broken)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(broken, results.Results)


if __name__ == "__main__":
    PATH.write_text(json.dumps(generated(), indent=1, ensure_ascii=False) + "\n", "utf-8")
