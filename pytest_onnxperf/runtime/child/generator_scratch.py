"""Makes a model directory beside a profile that has another genai_config.json and otherwise the same files."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from .generator_config import CONFIG_NAME


def scratch_directory(profile_prefix: str) -> str:
    """Return where the model lies while the sessions of this prefix are profiled."""
    return f"{profile_prefix}-model"


def link_directory(directory: str, target: str, config: dict[str, Any]) -> None:
    """Make `target` with `config` and hard links (else symbolic ones) to everything else in `directory`."""
    for folder, _, files in os.walk(directory):
        place = os.path.normpath(os.path.join(target, os.path.relpath(folder, directory)))
        os.makedirs(place, exist_ok=True)
        for name in files:
            if name != CONFIG_NAME or folder != directory:
                _link(os.path.join(folder, name), os.path.join(place, name))
    with open(os.path.join(target, CONFIG_NAME), "w", encoding="utf-8") as file:
        json.dump(config, file)


def _link(source: str, target: str) -> None:
    source = os.path.realpath(source)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        os.symlink(source, target)


def remove_directory(directory: str) -> None:
    """Remove what `link_directory` made, if it did."""
    if directory:
        shutil.rmtree(directory, ignore_errors=True)
