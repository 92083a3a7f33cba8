"""What `@pytest.mark.onnx_matrix` declares, as cells: the product of its dimensions, each with an id that speaks.

A list, or a dict of name -> value, declares a dimension; it is a part of every id, also while it has one value, so that
an id stays when a value is added. A single value holds for all cells and is no part of an id. Every session that has
a matrix pays for this module, also without --onnxperf, so it imports next to nothing.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from .environment import slug
from .errors import SettingError
from .providers import provider_of

MODEL: Final = "model"
PIPELINES: Final = ("session", "genai", "hf")
CACHES: Final = ("static", "dynamic")
_ALMOST: Final = 0.8
"""A keyword this like a known dimension is a slip, not a dimension of the test's own; a choice."""


class Cell(NamedTuple):
    """One cell: one test."""

    id: str
    """`f16-cuda-p500-b1`."""
    coordinates: dict[str, str]
    """Dimension -> the word for its value in the id, in the order of the id."""
    values: dict[str, Any]
    """Dimension, or single value of the marker -> the value."""
    order: int
    """Cells before it."""
    reference: dict[str, str] | None
    """Coordinates of the cell that this one is compared with; None where the marker names none."""

    @property
    def pipeline(self) -> str:
        """`session`, `genai` or `hf`; where none is given, what the name of the model's path says."""
        given = self.values.get("pipeline")
        path = self.values.get(MODEL)
        return given or ("session" if str(path).endswith(".onnx") else "genai")

    def path(self) -> str:
        """Return the path of the model, with `{dtype}` and any other name of a value in braces filled in.

        Raises:
            SettingError: There is no model, none for this pipeline, or a name in braces is unknown.
        """
        given = self.values.get(MODEL)
        if isinstance(given, Mapping):
            given = given.get(self.pipeline)
        if given is None:
            what = f" for the pipeline `{self.pipeline}`" if MODEL in self.values else ""
            msg = f"`{MODEL}`: no path{what}; known pipelines: {', '.join(PIPELINES)}"
            raise SettingError(msg)
        try:
            return str(given).format(**{name: value for name, value in self.values.items() if name != MODEL})
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            names = ", ".join(name for name in self.values if name != MODEL)
            msg = f"`{MODEL}`: {str(given)!r}: a name in braces is filled in with a value, known are {names}: {error}"
            raise SettingError(msg) from None


class _Dimension(NamedTuple):
    word: Callable[[Any], str]
    is_right: Callable[[Any], bool]
    expected: str


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_model(value: object) -> bool:
    """Whether it is a path, or a dict of pipeline -> path."""
    if isinstance(value, Mapping):
        return bool(value) and set(value) <= set(PIPELINES) and all(_is_model(path) for path in value.values())
    return _is_text(value) or isinstance(value, PurePath)


def _slug(value: object) -> str:
    """Write a value as a part of an id, which is ASCII."""
    text = str(value)
    if not re.search("[a-z0-9]", text.lower()):
        msg = f"{text!r:.80} has no letter from a to z and no digit for the id of a test: give a dict of name -> value"
        raise SettingError(msg)
    return slug(text)


def _model_word(value: Any) -> str:
    path = next(iter(value.values())) if isinstance(value, Mapping) else value
    return _slug(PurePath(path).name.removesuffix(".onnx"))


def _count(letter: str) -> _Dimension:
    return _Dimension(lambda value: f"{letter}{value}", _is_count, "a whole number >= 1")


# In the order of an id. A dimension of the test's own stands behind them.
_KNOWN: Final = {
    MODEL: _Dimension(_model_word, _is_model, "a path, or a dict of pipeline -> path"),
    "dtype": _Dimension(_slug, _is_text, "a name such as 'f16', 'int4' or 'nf4'"),
    "pipeline": _Dimension(str, PIPELINES.__contains__, f"one of {', '.join(PIPELINES)}"),
    "ep": _Dimension(lambda value: provider_of(value).short, _is_text, "the name of an execution provider"),
    "prompt_tokens": _count("p"),
    "batch_size": _count("b"),
    "new_tokens": _count("n"),
    "cache": _Dimension(str, CACHES.__contains__, f"one of {', '.join(CACHES)}"),
    "share_buffer": _Dimension(
        lambda value: "share" if value else "noshare", lambda value: isinstance(value, bool), "True or False"
    ),
}
DIMENSIONS: Final = tuple(_KNOWN)


def cells_of(keywords: Mapping[str, object]) -> list[Cell]:
    """Return the cells of a marker, the last dimension changing fastest.

    Args:
        keywords: Those of the marker. `reference` names coordinates: the cell that another is compared with has these,
            and its own in the rest. `exclude` is a list of coordinates, whose cells are left out.

    Raises:
        SettingError: A keyword or a value is wrong; the message does not say where the marker stands.
    """
    given = {name: keywords[name] for name in (*_KNOWN, *keywords) if name in keywords and name not in _NOT_DIMENSIONS}
    _check_names(given)
    single = {name: _checked(name, value) for name, value in given.items() if not _is_dimension(name, value)}
    axes = {name: _axis(name, value) for name, value in given.items() if _is_dimension(name, value)}
    if not axes:
        msg = "expected at least one list, such as prompt_tokens=[20, 500]: a list makes a dimension"
        raise SettingError(msg)
    reference = _coordinates("reference", keywords["reference"], axes) if "reference" in keywords else None
    excluded = _excluded(keywords.get("exclude", ()), axes)
    cells: list[Cell] = []
    for words in itertools.product(*axes.values()):
        coordinates = dict(zip(axes, words, strict=True))
        if not any(each.items() <= coordinates.items() for each in excluded):
            values = single | {name: axes[name][word] for name, word in coordinates.items()}
            other = None if reference is None else coordinates | reference
            cells.append(Cell("-".join(words), coordinates, values, len(cells), other))
    _check_cells(cells, reference)
    return cells


_NOT_DIMENSIONS: Final = ("reference", "exclude")


def _check_names(given: Mapping[str, object]) -> None:
    for name in given:
        close = difflib.get_close_matches(name, (*_KNOWN, *_NOT_DIMENSIONS), n=1, cutoff=_ALMOST)
        if name not in _KNOWN and close:
            msg = f"unknown key `{name}`, did you mean `{close[0]}`? (A dimension of your own needs another name)"
            raise SettingError(msg)
    if "cache" in given and "share_buffer" in given:
        msg = "`cache` and `share_buffer` name one thing, a cache of its full length from the start: give one of them"
        raise SettingError(msg)


def _is_dimension(name: str, value: object) -> bool:
    """Tell a dimension from a single value: a dict of pipelines is one model, with another path for each pipeline."""
    if isinstance(value, Mapping):
        return not (name == MODEL and value and set(value) <= set(PIPELINES))
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _axis(name: str, given: Any) -> dict[str, Any]:
    """Return word -> value of a dimension."""
    if not given:
        msg = f"`{name}`: expected at least one value, got {given!r}"
        raise SettingError(msg)
    if isinstance(given, Mapping):
        pairs = [(_own_word(name, key) if name not in _KNOWN else _slug(key), _checked(name, value))
                 for key, value in given.items()]  # fmt: skip
    else:
        pairs = [(_word(name, _checked(name, value)), value) for value in given]
    twice = [word for word, count in Counter(word for word, _ in pairs).items() if count > 1]
    if twice:
        do = "give other names" if isinstance(given, Mapping) else "give a dict of name -> value"
        msg = f"`{name}`: two values have the word `{twice[0]}` in the id: {do}"
        raise SettingError(msg)
    return dict(pairs)


def _word(name: str, value: Any) -> str:
    return _KNOWN[name].word(value) if name in _KNOWN else _own_word(name, value)


def _own_word(name: str, value: object) -> str:
    return f"{name}_{_slug(value)}"


def _checked(name: str, value: Any) -> Any:
    known = _KNOWN.get(name)
    if known is None:
        return value
    try:
        is_right = known.is_right(value)
    except TypeError:  # what has no hash is in no set
        is_right = False
    if not is_right:
        msg = f"`{name}`: expected {known.expected}, got {value!r:.80}"
        raise SettingError(msg)
    if name == "ep":
        if value.lower() == "auto":
            msg = "`ep`: `auto` is another EP on another machine: name one, or leave `ep` out"
            raise SettingError(msg)
        provider_of(value)
    return value


def _coordinates(key: str, given: object, axes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the words of coordinates, which a test gives as values or as words."""
    if not isinstance(given, Mapping) or not given:
        msg = f"`{key}`: expected a dict of dimension -> value, got {given!r:.80}"
        raise SettingError(msg)
    found = {}
    for name, value in given.items():
        if name not in axes:
            close = difflib.get_close_matches(str(name), axes, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are: {', '.join(axes)}"
            msg = f"`{key}`: no dimension `{name}`, {hint}"
            raise SettingError(msg)
        words = [word for word, each in axes[name].items() if _is_named(value, word.removeprefix(f"{name}_"), each)]
        if not words:
            names = [word.removeprefix(f"{name}_") for word in axes[name]]
            close = difflib.get_close_matches(str(value), names, n=1)
            is_near = close and close[0] != str(value)  # NaN looks like itself, and is not equal
            hint = f"did you mean `{close[0]}`?" if is_near else f"there are: {', '.join(names)}"
            msg = f"`{key}`: no value {value!r} in `{name}`, {hint}"
            raise SettingError(msg)
        found[name] = words[0]
    return found


def _is_named(given: object, word: str, value: object) -> bool:
    return given == word or (type(given) is type(value) and given == value)


def _excluded(given: object, axes: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        msg = f"`exclude`: expected a list of dicts of dimension -> value, got {given!r:.80}"
        raise SettingError(msg)
    return [_coordinates("exclude", each, axes) for each in given]


def _check_cells(cells: Sequence[Cell], reference: Mapping[str, str] | None) -> None:
    if not cells:
        msg = "`exclude` leaves no cell"
        raise SettingError(msg)
    twice = [word for word, count in Counter(cell.id for cell in cells).items() if count > 1]
    if twice:
        msg = f"two cells have the id `{twice[0]}`: give one of their values another name, in a dict of name -> value"
        raise SettingError(msg)
    for cell in cells:
        if MODEL in cell.values:
            cell.path()
    if reference is not None and not any(cell.coordinates == cell.reference for cell in cells):
        msg = f"`reference`: `exclude` leaves no cell with {', '.join(reference.values())}"
        raise SettingError(msg)
