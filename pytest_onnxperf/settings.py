"""The options of a measuring session, resolved from command line, ini file and the `onnx_measure` marker.

Precedence: marker > command line > ini > default.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from .core.errors import SettingError
from .core.providers import provider_of
from .declare import OPTION, OPTIONS, Kind, Option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """All options, resolved. Times are in seconds, `tolerance` is a ratio."""

    enabled: bool
    update: bool
    update_mode: str
    update_force: bool
    ep: str
    baseline_dir: str
    against: str
    durations: int | None
    """How many of the slowest measurements are listed; 0 lists all, None nothing."""
    tolerance: float
    strict: bool
    unverifiable: Literal["fail", "skip", "pass"]
    timing: str
    explain: bool
    json: str
    """Path of the file of results: from where pytest was started, of the root directory if ini has it; or empty."""
    markdown: str
    """Path of the file: from where pytest was started, of the root directory if ini has it; or empty."""
    html: str
    """Path of the page of results, as `json`."""
    isolation: Literal["process", "none"]
    warmup_rounds: int
    min_rounds: int
    max_time: float
    profile_runs: int
    baseline_processes: int
    threads: int
    timeout: float
    device: str
    root: Path
    """Pytest's root directory."""
    ep_source: str
    """Where `ep` was set, for messages: `marker`, `--onnxperf-ep`, `onnxperf_ep`, or empty for the default."""
    is_tolerance_given: bool = False
    """Whether a person gave `tolerance`, so that it also holds where its default is none, as against a reference."""

    @property
    def baseline_path(self) -> Path:
        """The directory of the baselines."""
        return self.root / self.baseline_dir

    @property
    def names_ep(self) -> bool:
        """Whether one EP is named, instead of `auto`."""
        return self.ep.lower() != "auto"


def resolve(config: pytest.Config) -> Settings:
    """Return the settings of a session: command line, else ini, else default.

    Raises:
        SettingError: A value is wrong; the message names its source, what was expected and what it is.
    """
    values: dict[str, Any] = {}
    ep_source, is_tolerance_given = "", False
    for option in OPTIONS:
        given, source = config.getoption(option.ini, None), option.flag
        if given is None and option.in_ini:
            given, source = _ini_value(config, option), f"{option.ini} in {config.inipath or 'the configuration file'}"
        values[option.name] = option.default if given is None else parse(option, given, source)
        if option.name == "ep" and given is not None:
            ep_source = source
        if option.name == "tolerance":
            is_tolerance_given = given is not None
    values["enabled"] = values["enabled"] or values["update"]
    return Settings(
        **values, root=config.rootpath, ep_source=ep_source, is_tolerance_given=is_tolerance_given
    )  # fmt: skip


def _ini_value(config: pytest.Config, option: Option) -> object:
    try:
        return config.getini(option.ini)
    except (TypeError, ValueError, pytest.UsageError) as error:
        what = {"flag": "true or false", "int": "a whole number", "float": "a number"}.get(option.kind, "a text")
        msg = f"{option.ini} in {config.inipath}: expected {what}: {error}"
        raise SettingError(msg) from error


def with_marker(settings: Settings, given: Mapping[str, object], where: str) -> Settings:
    """Return `settings` with the values of an `onnx_measure` marker.

    Raises:
        SettingError: A key is unknown or not settable by a marker, or a value is wrong.
    """
    known = [option.name for option in OPTIONS if option.in_marker]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name in OPTION and name not in known:
            flag, ini = OPTION[name].flag, f", or {OPTION[name].ini}" if OPTION[name].in_ini else ""
            msg = f"{where}: `{name}` is set for the whole session only: {flag}{ini}"
            raise SettingError(msg)
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
            msg = f"{where}: unknown key `{name}`, {hint}"
            raise SettingError(msg)
        values[name] = parse(OPTION[name], value, f"{where}: `{name}`")
    if "ep" in values:
        values["ep_source"] = "marker"
    if "tolerance" in values:
        values["is_tolerance_given"] = True
    return replace(settings, **values)


def parse(option: Option, value: object, source: str) -> Any:
    """Return a checked value of an option; text is read, as it comes from command line and ini.

    Raises:
        SettingError: It has the wrong type or is out of range.
    """
    try:
        return _PARSERS[option.kind](option, value)
    except (TypeError, ValueError) as error:
        msg = f"{source}: expected {error}, got {value!r}"
        raise SettingError(msg) from None


def _flag(option: Option, value: object) -> bool:
    if not isinstance(value, bool):
        msg = "true or false"
        raise TypeError(msg)
    return value


def _number(option: Option, value: object) -> float:
    what = "a whole number" if option.kind == "int" else "a number"
    expected = f"{what} >= {option.low:g}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(expected)
    try:
        parsed = int(value) if option.kind == "int" and isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        raise ValueError(expected) from None
    if not option.low <= parsed < float("inf") or (option.kind == "int" and parsed != int(parsed)):
        raise ValueError(expected)
    return int(parsed) if option.kind == "int" else parsed


def _choice(option: Option, value: object) -> str:
    if value not in option.choices:
        msg = f"one of {', '.join(option.choices)}"
        raise ValueError(msg)
    return str(value)


def _text(option: Option, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = "a text that is not empty"
        raise ValueError(msg)
    if option.name == "ep" and value.lower() != "auto":
        try:
            provider_of(value)
        except SettingError as error:
            msg = f"an execution provider ({error})"
            raise ValueError(msg) from None
    return value


_PARSERS: Final[dict[Kind, Callable[[Option, object], Any]]] = {
    "flag": _flag, "int": _number, "float": _number, "choice": _choice, "text": _text,
}  # fmt: skip
