<<<<<<< HEAD
"""Makes a model directory beside a profile that has another genai_config.json and the same files.

GenAI can lay a configuration over the decoder alone: any other section would lose its providers, and the stages of a
pipeline would be doubled. In a copy each session gets its own options.
"""

from __future__ import annotations

import contextlib
import copy
=======
"""Makes a model directory beside a profile that has another genai_config.json and otherwise the same files."""

from __future__ import annotations

>>>>>>> main
import json
import os
import shutil
from typing import Any

<<<<<<< HEAD
from .generator_config import CONFIG_NAME, DECODER, sections
=======
from .generator_config import CONFIG_NAME
>>>>>>> main


def link_directory(directory: str, target: str, config: dict[str, Any]) -> None:
    """Make `target` with `config` and hard links (else symbolic ones) to everything else in `directory`."""
<<<<<<< HEAD
    shutil.rmtree(target, ignore_errors=True)
=======
>>>>>>> main
    for folder, _, files in os.walk(directory):
        place = os.path.normpath(os.path.join(target, os.path.relpath(folder, directory)))
        os.makedirs(place, exist_ok=True)
        for name in files:
<<<<<<< HEAD
            _link(os.path.join(folder, name), os.path.join(place, name))
    path = os.path.join(target, CONFIG_NAME)
    os.unlink(path)  # a link: to write through it would change the model
    with open(path, "w", encoding="utf-8") as file:
=======
            if name != CONFIG_NAME or folder != directory:
                _link(os.path.join(folder, name), os.path.join(place, name))
    with open(os.path.join(target, CONFIG_NAME), "w", encoding="utf-8") as file:
>>>>>>> main
        json.dump(config, file)


def _link(source: str, target: str) -> None:
    source = os.path.realpath(source)
    try:
        os.link(source, target)
<<<<<<< HEAD
    except OSError:
        os.symlink(source, target)


def remove(directory: str) -> None:
    """Remove what `link_directory` made."""
    with contextlib.suppress(OSError):
        shutil.rmtree(directory)


def profiled_config(config: dict[str, Any], prefix: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the configuration in which every session has a profile prefix of its own, and session -> prefix."""
    changed = copy.deepcopy(config)
    model = changed["model"]
    inherited = dict(model[DECODER].get("session_options", {}))
    prefixes: dict[str, str] = {}

    def turn_on(section: dict[str, Any], name: str) -> None:
        prefixes[name] = f"{prefix}-{name}"
        options = section.get("session_options", inherited)
        section["session_options"] = {**options, "enable_profiling": prefixes[name]}

    for name in sections(changed):
        stages = _stages(model[name])
        for stage_name, stage in stages:
            turn_on(stage, f"{name}.{stage_name}")
        if not stages:
            turn_on(model[name], name)
    return changed, prefixes


def _stages(section: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the stages of a pipeline, which is an object of them or a list of such objects."""
    pipeline = section.get("pipeline") or []
    objects = [pipeline] if isinstance(pipeline, dict) else pipeline
    return [(name, stage) for entry in objects for name, stage in entry.items()]
=======
    except OSError:  # another file system, or one without links
        os.symlink(source, target)


def remove_directory(directory: str) -> None:
    """Remove what `link_directory` made, if it did."""
    if directory:
        shutil.rmtree(directory, ignore_errors=True)
>>>>>>> main
