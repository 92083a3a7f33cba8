"""Where the plugin keeps its state: one key on the config. Imported by an inert session too, so it imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .session import ActiveSession

ACTIVE: pytest.StashKey[ActiveSession] = pytest.StashKey()
"""Set under --onnxperf."""


def session_of(config: pytest.Config) -> ActiveSession | None:
    """Return the measuring session; None without --onnxperf."""
    return config.stash.get(ACTIVE, None)
