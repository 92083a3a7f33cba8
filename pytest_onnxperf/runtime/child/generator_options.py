"""Turns the options of a job into what is laid over a configuration, or into a whole configuration.

Laid over: enough for the decoder. The `session_options` of any other section are replaced by an overlay and lose their
providers, so that such a section is only touched where it runs on the CPU. For a profile of several sessions the whole
configuration is written anew (see `generator_scratch`).
"""

from __future__ import annotations

import copy
from typing import Any

from .generator_config import DECODER, closest, deep_merged, fail, sections

# Lower-case name -> GenAI's own spelling. Source: NormalizeProviderName in src/config.cpp.
PROVIDERS = {
    "cpu": "cpu",
    "cuda": "cuda",
    "dml": "DML",
    "webgpu": "WebGPU",
    "qnn": "QNN",
    "openvino": "OpenVINO",
    "vitisai": "VitisAI",
    "ryzenai": "RyzenAI",
    "nvtensorrtrtx": "NvTensorRtRtx",
    "amdgpu": "AMDGPU",
}


def wanted_provider(config: dict[str, Any], name: str) -> str:
    """Return the lower-case name of the provider asked for; with "" the first of the decoder's own."""
    if not name:
        return first_provider(config, DECODER)
    short = _short(name)
    if short not in PROVIDERS:
        fail("option", f"unknown provider {name!r}: {closest(short, PROVIDERS)}")
    return short


def first_provider(config: dict[str, Any], section: str) -> str:
    """Return the lower-case name of the first provider in the section's own options, `cpu` where there is none."""
    for entry in config["model"][section].get("session_options", {}).get("provider_options") or []:
        for name in entry:
            return _short(name)
    return "cpu"


def _short(name: str) -> str:
    suffix = "executionprovider"
    short = name.lower()
    return short[: -len(suffix)] if short.endswith(suffix) else short


def provider_option_texts(options: dict[str, Any]) -> dict[str, str]:
    """Return provider options as the texts that GenAI takes."""
    return {name: str(int(value)) if isinstance(value, bool) else str(value) for name, value in options.items()}


def overlay_of(config: dict[str, Any], job: dict[str, Any], provider: str) -> dict[str, Any]:
    """Return what is laid over `config` (of the file): the overlay of the job, its threads and its log level.

    Raises:
        StepError: The overlay has options for a section that would lose its provider (`option`).
    """
    overlay = deep_merged({"model": {}}, job["overlay"])
    for name in sections(config):
        given = overlay["model"].get(name, {}).get("session_options", {})
        own = config["model"][name].get("session_options", {})
        options = {**_common(job), **given}
        if name != DECODER:
            if not _runs_on_cpu(config, job, name, provider):
                if given:
                    msg = f"the overlay's `model.{name}.session_options`: GenAI would move this section to the CPU"
                    fail("option", f"{msg}; write them into genai_config.json")
                continue
            if not own and not given:
                continue  # it takes the decoder's
            options = {**{key: value for key, value in own.items() if key != "provider_options"}, **options}
        overlay["model"] = deep_merged(overlay["model"], {name: {"session_options": options}})
    return overlay


def _common(job: dict[str, Any]) -> dict[str, Any]:
    common = {"log_severity_level": job["log_severity"]}
    return {**common, "intra_op_num_threads": job["threads"]} if job["threads"] else common


def _runs_on_cpu(config: dict[str, Any], job: dict[str, Any], section: str, provider: str) -> bool:
    if "session_options" not in config["model"][section]:
        return provider == "cpu"
    return "cpu" in (_short(job["provider"]), first_provider(config, section))


def profiled_config(
    config: dict[str, Any], job: dict[str, Any], provider: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the whole configuration of a job with a profile for each session, and session -> prefix of its file."""
    whole = deep_merged(config, job["overlay"])
    model = whole["model"]
    inherited = _with_provider(model[DECODER].get("session_options", {}), job, provider)
    prefixes: dict[str, str] = {}

    def turn_on(part: dict[str, Any], name: str, is_decoder: bool) -> None:
        options = part.get("session_options")
        if options is None or is_decoder:
            options = inherited
        elif _short(job["provider"]) == "cpu":
            options = {**options, "provider_options": []}
        prefixes[name] = f"{job['profile_prefix']}-{name}"
        part["session_options"] = {**options, **_common(job), "enable_profiling": prefixes[name]}

    for name in sections(whole):
        stages = _stages(model[name])
        for stage_name, stage in stages:
            turn_on(stage, f"{name}.{stage_name}", False)
        if not stages:
            turn_on(model[name], name, name == DECODER)
    return whole, prefixes


def _with_provider(options: dict[str, Any], job: dict[str, Any], provider: str) -> dict[str, Any]:
    result = copy.deepcopy(options)
    given = provider_option_texts(job["provider_options"])
    if job["provider"]:
        result["provider_options"] = [] if provider == "cpu" else [{PROVIDERS[provider]: given}]
    elif given:
        entries = result["provider_options"]
        entries[0] = {name: {**old, **given} for name, old in entries[0].items()}
    return result


def device_id_of(config: dict[str, Any], job: dict[str, Any], provider: str) -> int:
    """Return the number of the decoder's device, of the job's options or its own; 0 where none is given."""
    options = _with_provider(config["model"][DECODER].get("session_options", {}), job, provider)
    given = [entry for entries in options.get("provider_options") or [] for entry in entries.values()]
    return int((given[0] or {}).get("device_id", 0)) if given else 0


def _stages(section: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the stages of a pipeline, which is an object of them or a list of such objects."""
    pipeline = section.get("pipeline") or []
    objects = [pipeline] if isinstance(pipeline, dict) else pipeline
    return [(name, stage) for entry in objects for name, stage in entry.items()]
