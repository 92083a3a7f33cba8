"""Reads a genai_config.json and checks what is to be laid over it, since GenAI ignores some unknown keys silently.

What GenAI does with an overlay (its src/config.cpp, and measured on 0.11 to 0.18): an unknown key is an error, but not
in `session_options` and `run_options`, where an unknown key with a text becomes a configuration entry that nothing
reads, and not in a section that the model does not have. `provider_options` in an overlay are not used. The
`session_options` of sections other than the decoder are replaced, not merged, and lose their providers.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
from typing import TYPE_CHECKING, Any, NoReturn

from .session import StepError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIG_NAME = "genai_config.json"
DECODER = "decoder"
# Source: src/config.cpp of onnxruntime-genai, from v0.11 to v0.18.
SECTIONS = ("decoder", "draft", "embedding", "encoder", "joiner", "mtp", "speech", "vad", "vision")
_SESSION_OPTIONS = (
    "custom_ops_library",
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "graph_optimization_level",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "log_id",
    "log_severity_level",
    "log_verbosity_level",
)
# Without a dot. Source: onnxruntime_run_options_config_keys.h.
_RUN_OPTIONS = ("disable_synchronize_execution_providers", "gpu_graph_id")
SEARCH_OPTIONS = (
    "blank_penalty",
    "chunk_size",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_beams",
    "num_return_sequences",
    "random_seed",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
)
# Options that the measurement sets itself -> what to say instead.
_OWN_SEARCH_OPTIONS = {
    "max_length": "`new_tokens` sets it",
    "min_length": "`new_tokens` sets it",
    "batch_size": "`batch_size` of the measurement sets it",
    "past_present_share_buffer": "`share_buffer` of the measurement sets it",
}
_NO_PROFILE = "profiles are taken in a process of their own, never while times are measured"
_OWN_RUN_OPTIONS = {"enable_profiling": _NO_PROFILE}
_OWN_SESSION_OPTIONS = {
    "provider_options": "GenAI does not use them in an overlay; give the provider and its options on their own",
    "enable_profiling": _NO_PROFILE,
    "session.enable_profiling": _NO_PROFILE,
}
# Name of an object with options in a section -> what may be in it beside entries with a dot, and what may not.
_OPTIONS = {
    "session_options": (_SESSION_OPTIONS, _OWN_SESSION_OPTIONS),
    "run_options": (_RUN_OPTIONS, _OWN_RUN_OPTIONS),
}
NO_GENERATOR = "what generates no tokens, an encoder for one, is measured with `onnx_session`"


def fail(kind: str, message: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the error of a step; `kind` as in `StepError`, or `runtime`."""
    raise StepError(kind, message) from cause


def message_of(error: BaseException) -> str:
    """Return the message of an exception of the runtime, or its type where it has none."""
    return str(error).strip() or type(error).__name__


def closest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" or the list of what is known."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known: {', '.join(names)}"


def read_config(directory: str) -> dict[str, Any]:
    """Return the genai_config.json of a model directory.

    Raises:
        StepError: The directory or the file is not there, is no JSON or no configuration of a generator (`model`).
    """
    if not os.path.isdir(directory):
        what = "is a file" if os.path.exists(directory) else "does not exist"
        fail("model", f"{directory} {what}; expected a directory with {CONFIG_NAME} and the ONNX files it names")
    path = os.path.join(directory, CONFIG_NAME)
    if not os.path.isfile(path):
        fail("model", f"{directory} has no {CONFIG_NAME}, so it is no model directory of ONNX Runtime GenAI")
    try:
        with open(path, encoding="utf-8-sig") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        fail("model", f"{path} cannot be read: {error}", error)
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        fail("model", f'{path} has no object "model", so it is no configuration of a generator')
    decoder = config["model"].get(DECODER)
    if not isinstance(decoder, dict) or not (decoder.get("filename") or decoder.get("pipeline")):
        fail("model", f"{path} has no decoder, so the model generates no tokens; {NO_GENERATOR}")
    if not isinstance(config.get("search", {}), dict):
        fail("model", f"{path}: `search` is no object: {config['search']!r}")
    for section in sections(config):
        _check_configured(config["model"][section], f"{path}: `model.{section}")
    return config


def _check_configured(section: dict[str, Any], place: str) -> None:
    """Refuse a section of the file whose options are of no use here."""
    for name in _OPTIONS:
        options = section.get(name, {})
        if not isinstance(options, dict):
            fail("model", f"{place}.{name}` is no object: {options!r}")
        for key in ("enable_profiling", "session.enable_profiling"):
            if key in options:
                fail("model", f"{place}.{name}.{key}` turns profiling on, which would slow every step")
    providers = section.get("session_options", {}).get("provider_options", [])
    if not isinstance(providers, list) or not all(isinstance(entry, dict) for entry in providers):
        expected = 'expected a list of objects, [{"cuda": {}}]'
        fail("model", f"{place}.session_options.provider_options`: {expected}, got {providers!r}")


def sections(config: dict[str, Any]) -> list[str]:
    """Return the names of the parts of the model that have a session, the decoder first."""
    model = config["model"]
    parts = {name: model[name] for name in SECTIONS if isinstance(model.get(name), dict)}
    found = [name for name, part in parts.items() if part.get("filename") or part.get("pipeline")]
    return [DECODER, *(name for name in found if name != DECODER)]


def deep_merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `over`, objects merged, anything else replaced."""
    merged = copy.deepcopy(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = deep_merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def check_overlay(config: dict[str, Any], overlay: dict[str, Any]) -> None:
    """Refuse what GenAI would ignore or what the measurement sets itself.

    Raises:
        StepError: A key is unknown, misplaced or not to be set here (`option`).
    """
    for key, value in overlay.items():
        if key not in ("model", "search", "engine", "speculative"):
            _fail_unknown(key, ("model", "search", "engine", "speculative"), "")
        if not isinstance(value, dict):
            fail("option", f"the overlay's `{key}`: expected an object, got {value!r}")
    check_search_options(overlay.get("search", {}), "the overlay's `search`")
    for key, value in overlay.get("model", {}).items():
        if key not in SECTIONS:
            continue  # of the scalars GenAI knows the names and refuses the others
        if not isinstance(config["model"].get(key), dict):
            there = ", ".join(sections(config))
            fail("option", f"the overlay's `model.{key}`: this model has no such section, only {there}")
        if not isinstance(value, dict):
            fail("option", f"the overlay's `model.{key}`: expected an object, got {value!r}")
        _check_section(value, f"model.{key}")


def _check_section(section: dict[str, Any], place: str) -> None:
    if "pipeline" in section:
        fail("option", f"the overlay's `{place}.pipeline`: GenAI would add stages, not change them")
    for kind, (known, own) in _OPTIONS.items():
        options = section.get(kind, {})
        if not isinstance(options, dict):
            fail("option", f"the overlay's `{place}.{kind}`: expected an object, got {options!r}")
        for name in options:
            if name in own:
                fail("option", f"the overlay's `{place}.{kind}.{name}`: {own[name]}")
            if name not in known and "." not in name:  # with a dot: a configuration entry, session.x
                _fail_unknown(name, known, f"{place}.{kind}.")


def check_search_options(options: dict[str, Any], place: str) -> None:
    """Refuse search options that are unknown, of a wrong type or set by the measurement."""
    for name, value in options.items():
        if name in _OWN_SEARCH_OPTIONS:
            fail("option", f"{place}: `{name}` cannot be given, {_OWN_SEARCH_OPTIONS[name]}")
        if name not in SEARCH_OPTIONS:
            fail("option", f"{place}: unknown option `{name}`, {closest(name, SEARCH_OPTIONS)}")
        if not isinstance(value, (bool, int, float)):
            fail("option", f"{place}: `{name}` must be a number or a bool, got {value!r}")


def _fail_unknown(key: str, known: Iterable[str], place: str) -> NoReturn:
    fail("option", f"the overlay has an unknown key `{place}{key}`, which would be ignored: {closest(key, known)}")
