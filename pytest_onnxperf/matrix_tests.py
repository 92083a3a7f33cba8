"""`@pytest.mark.onnx_matrix`: its cells as tests, also in a session that measures nothing and skips them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .core.errors import SettingError
from .core.matrix_axes import Cell, cells_of
from .declare import CELL, MATRIX

if TYPE_CHECKING:
    from .core.matrix_place import MatrixPlace


def generate(metafunc: pytest.Metafunc) -> None:
    """Make a test of each cell; of several markers the nearest wins per keyword.

    Raises:
        pytest.fail.Exception: The marker, or the test that has it, is wrong.
    """
    marks = list(metafunc.definition.iter_markers(MATRIX))
    path, line, _ = metafunc.definition.location
    where = f"{path}:{(line or 0) + 1}"
    if not marks:
        _fail(f"{metafunc.function.__name__} at {where}: takes the fixture {CELL} and has no @pytest.mark.{MATRIX}")
    if CELL not in metafunc.fixturenames:
        _fail(f"@pytest.mark.{MATRIX} at {where}: its test must take the fixture {CELL}, which measures a cell")
    keywords: dict[str, object] = {}
    for mark in marks:
        if mark.args:
            _fail(f"@pytest.mark.{MATRIX} at {where}: takes keyword arguments only, got {mark.args[0]!r:.80}")
        keywords = {**mark.kwargs, **keywords}
    try:
        cells = cells_of(keywords)
    except SettingError as error:
        msg = f"@pytest.mark.{MATRIX} at {where}: {error}"
        raise pytest.fail.Exception(msg, pytrace=False) from None
    metafunc.parametrize(CELL, cells, ids=[cell.id for cell in cells], indirect=True)


def _fail(message: str) -> None:
    raise pytest.fail.Exception(message, pytrace=False)


def place_of(item: pytest.Item) -> MatrixPlace | None:
    """Return where a test stands in a matrix; None for a test of none."""
    callspec = getattr(item, "callspec", None)
    cell = callspec.params.get(CELL) if callspec is not None else None
    if callspec is None or not isinstance(cell, Cell):
        return None
    from .core.matrix_place import MatrixPlace

    others = [word for word in callspec.id.partition(cell.id)[::2] if word]
    rest = f"[{''.join(others).strip('-')}]" if others else ""
    table = item.nodeid.removesuffix(f"[{callspec.id}]") + rest
    return MatrixPlace(
        table=table, id=cell.id, coordinates=cell.coordinates, order=cell.order, reference=cell.reference
    )
