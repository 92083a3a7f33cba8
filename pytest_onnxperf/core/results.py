"""What the file of `--onnxperf-json` holds: runs, their tests, and all that was measured and judged.

The file is a contract with other programs. `results.schema.json` in this package is made of this module, field texts
included, and a test compares the two. A field may be added with a default; anything else that changes the form raises
`SCHEMA`. Numbers, but for moments, have at most six significant digits, and none is NaN or infinite: what cannot be
told is left out.

What grows with the model or with the rounds is bounded: a distribution has one number for each of `quantiles`, inter-
token latencies at most `MOST_POINTS` points a process, tables at most `MOST_ROWS` rows. What is cut says how much.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .matrix_place import MatrixPlace
from .results_measured import AbComparison, Measurement
from .sample import QUANTILES
from .stages import Held

SCHEMA: Final = 1
MOST_TEXT: Final = 8000
"""Characters of a message; a choice: ten times a failure of one budget."""

Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]


class TimeSpent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the time of one measurement or comparison went, also of one that failed."""

    label: str = ""
    """Its label."""
    stages_s: dict[str, float]
    """`load`, `warm-up`, `timed rounds`, ... -> seconds; all of them together are the whole."""
    held: tuple[Held, ...] = ()
    """When it held which device; no two of one device overlap."""


class Test(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One test that measures, also where it was skipped or failed before it did."""

    __test__ = False  # the name begins with Test, and pytest must not collect it

    nodeid: str
    """pytest's name of it."""
    outcome: Outcome
    """`error`: its setup or teardown failed, or its process crashed."""
    is_breach: bool = False
    """True where it failed because of its budget, baseline or requirement, and not by an error."""
    duration_s: float = 0.0
    """Of setup, call and teardown."""
    message: str = ""
    """Why it failed or was skipped, as pytest shows it."""
    measurements: tuple[Measurement, ...] = ()
    """In the order of the calls."""
    comparisons: tuple[AbComparison, ...] = ()
    """In the order of the calls."""
    spent: tuple[TimeSpent, ...] = ()
    """In the order of the ends."""
    matrix: MatrixPlace | None = None
    """Where it stands in a matrix; null for a test of none."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The machine that pytest ran on; a GPU stands in the environments."""

    node: str
    """Its network name."""
    system: str
    """`Linux`."""
    release: str
    """Of the system."""
    architecture: str
    """`x86_64`."""
    cpu: str
    """With the cores that may be used."""
    cores: int
    """That may be used."""
    python: str
    """`CPython 3.11.9`."""


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pytest session."""

    started: str
    """UTC, ISO 8601."""
    duration_s: float = 0.0
    """So far, where it did not end."""
    is_complete: bool = False
    """False while it runs, and for ever where it was killed; the tests that are there had ended."""
    exit_status: int | None = None
    """pytest's; null while it runs."""
    stopped: str = ""
    """Why pytest did not come to its end, as after `-x`; empty where it did."""
    uncollected: tuple[str, ...] = ()
    """Modules and classes that could not be collected, whose tests are missing."""
    plugin_version: str
    """Of pytest-onnxperf."""
    pytest_version: str
    """Of pytest."""
    commit: str = ""
    """That was checked out; empty outside a git repository."""
    branch: str = ""
    """That was checked out; empty for a detached head."""
    machine: Machine
    """Where pytest ran."""
    options: dict[str, str | int | float | bool]
    """Option -> its value in the session, without `--onnxperf-` and with underscores; a test can have its own."""
    tests: tuple[Test, ...]
    """In the order in which they ended."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    schema: int = SCHEMA
    """Version of this form."""
    quantiles: tuple[float, ...] = QUANTILES
    """Where distributions were taken, 0.5 is the median."""
    runs: tuple[Run, ...]
    """One, and of a merged file several."""
