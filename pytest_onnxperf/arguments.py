"""Arguments of the fixtures, checked: each message names function and argument, what was expected and what came."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .core.attention_backend import OPTION, backend_settings
from .core.errors import SettingError
from .core.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core.providers import Provider


def checked_path(value: object, function: str) -> Path:
    """Return the path of a model.

    Raises:
        SettingError: It is none.
    """
    if not isinstance(value, str | os.PathLike) or not str(value):
        msg = f"{function}(model): expected a path, got {value!r:.80}"
        raise SettingError(msg)
    return Path(value)


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a model's path as reports show it: relative as given, its name alone where it is absolute."""
    return printable(Path(path).name if Path(path).is_absolute() else str(path))


def checked_attention(
    function: str, provider: Provider, provider_options: Mapping[str, Any] | None, backend: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the provider options and the environment variables of a session.

    Raises:
        SettingError: The options are no dict, or the attention kernel cannot be chosen.
    """
    options = checked_mapping("provider_options", provider_options, function)
    if backend is None:
        return options, {}
    chosen, variables = backend_settings(backend, provider)
    if OPTION in options:
        msg = f"{function}: attention_backend sets the provider option `{OPTION}`, which is given too: leave one out"
        raise SettingError(msg)
    return options | chosen, variables


def checked_variables(value: Mapping[str, Any] | None, function: str) -> dict[str, str]:
    """Return environment variables.

    Raises:
        SettingError: They are no dict of texts.
    """
    variables = checked_mapping("environment", value, function)
    for name, text in variables.items():
        if not isinstance(name, str) or not isinstance(text, str) or not name or "=" in name or "\0" in name + text:
            msg = f"{function}(environment=...): expected a dict of texts, got {name!r}: {text!r:.80}"
            raise SettingError(msg)
    return variables


def checked_sizes(value: Mapping[str, Any] | None, function: str) -> dict[str, int]:
    """Return free dimensions.

    Raises:
        SettingError: They are no dict, or one is no size.
    """
    sizes = checked_mapping("free_dimensions", value, function)
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            msg = f"{function}(free_dimensions=...): `{name}`: expected a whole number >= 0, got {size!r}"
            raise SettingError(msg)
    return sizes


def checked_mapping(name: str, value: Mapping[str, Any] | None, function: str) -> dict[str, Any]:
    """Return an argument that must be a dict, empty for None.

    Raises:
        SettingError: It is something else.
    """
    if value is None:
        return {}
    try:
        return dict(value.items())
    except (AttributeError, TypeError):
        msg = f"{function}({name}=...): expected a dict, got {type(value).__name__}: {value!r:.80}"
        raise SettingError(msg) from None
