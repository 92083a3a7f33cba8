"""Where a test stands in a matrix: what its report carries, and what the file of results keeps of it."""

from __future__ import annotations

import msgspec


class MatrixPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cell of one test."""

    table: str
    """Name of the test without the cell's id; tests with the same stand in one table."""
    id: str
    """Of the cell, the same in every run: `f16-cuda-p500-b1`."""
    coordinates: dict[str, str]
    """Dimension -> the word for its value, in the order of the id."""
    order: int = 0
    """Cells of the matrix that stand before it."""
    reference: dict[str, str] | None = None
    """Coordinates of the cell that it is compared with; null where the matrix names none."""

    @property
    def is_reference(self) -> bool:
        """Whether others are compared with it."""
        return self.coordinates == self.reference
