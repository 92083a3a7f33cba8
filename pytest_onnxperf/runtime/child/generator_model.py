"""Loads the model of a job with ONNX Runtime GenAI, and checks that it runs on the device that was asked for."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import time
from typing import Any

from .generator_config import (
    DECODER,
    NO_GENERATOR,
    check_overlay,
    deep_merged,
    fail,
    message_of,
    read_config,
    sections,
)
from .generator_options import (
    PROVIDERS,
    device_id_of,
    overlay_of,
    profiled_config,
    provider_option_texts,
    wanted_provider,
)
from .generator_scratch import link_directory, remove_directory, scratch_directory

# Of these `Model.device_type` is the provider's name; the others keep their tensors on the CPU in some versions.
_TOLD_BY_DEVICE = ("cpu", "cuda", "dml", "webgpu")
_ORT_DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-webgpu",
    "onnxruntime-directml",
    "onnxruntime-qnn",
    "onnxruntime-openvino",
)


def import_genai() -> Any:
    """Return the module `onnxruntime_genai`.

    Raises:
        StepError: It cannot be imported, or is older than 0.11 (`runtime`).
    """
    try:
        import onnxruntime_genai
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime_genai"
        advice = ": install it with `pip install 'pytest-onnxperf[genai]'`, or [genai-cuda]" if is_missing else ""
        fail("runtime", f"onnxruntime_genai cannot be imported: {message_of(error)}{advice}", error)
    # Below 0.9 there is no overlay; in 0.9 and 0.10 one step beyond `max_length` aborts the process. What tells them
    # from 0.11 is a method of the tokenizer.
    config, tokenizer = (getattr(onnxruntime_genai, name, None) for name in ("Config", "Tokenizer"))
    if not hasattr(config, "overlay") or not hasattr(tokenizer, "update_options"):
        version = getattr(onnxruntime_genai, "__version__", "of unknown version")
        fail("runtime", f"onnxruntime-genai {version} is too old: 0.11 or newer is needed")
    return onnxruntime_genai


def runtime_versions(genai: Any) -> dict[str, str]:
    """Return the versions of GenAI and of the ONNX Runtime whose library it loads, where that can be told."""
    versions = {"onnxruntime-genai": str(genai.__version__)}
    for name in _ORT_DISTRIBUTIONS:
        try:
            versions["onnxruntime"] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        break
    return versions


def features(genai: Any) -> list[str]:
    """Return what this version can do beyond generating; found by looking, never by its number."""
    found = {
        "runtime_options": hasattr(genai.Generator, "set_runtime_option"),
        "rewind": hasattr(genai.Generator, "rewind_to"),
        "engine": hasattr(genai, "Engine"),
        "engine_events": hasattr(genai, "EngineEventBuffer"),
        "images": hasattr(genai, "Images"),
        "audios": hasattr(genai, "Audios"),
        "speculative": hasattr(genai.GeneratorParams, "set_speculative_options"),
    }
    return sorted(name for name, is_there in found.items() if is_there)


class LoadedModel:
    """A model, its configuration with the overlay, and what its loading took."""

    def __init__(self, job: dict[str, Any]) -> None:
        """Load the model of `job` (see `GeneratorSteps.open`).

        Raises:
            StepError: The provider does not run (`ep`), an option is unknown (`option`), or the runtime refuses the
                model (`model`).
        """
        self.genai = import_genai()
        self.directory: str = os.path.abspath(job["model"])
        self.profile_prefix: str = job["profile_prefix"]
        file_config = read_config(self.directory)
        check_overlay(file_config, job["overlay"])
        self.provider = wanted_provider(file_config, job["provider"])
        if job["provider_options"] and self.provider == "cpu":
            fail("option", "provider options were given, and the CPU has none")
        self.config = deep_merged(file_config, job["overlay"])
        self.sections = sections(self.config)
        self.session_prefixes: dict[str, str] = {}
        """Session -> prefix of its profile; empty unless profiled at session level."""
        self.has_run_profile = False
        self.model: Any = None
        self._job = job
        self._scratch = ""
        # A run-level profile is a file for each run, named by the millisecond: of several sessions in one step the
        # files would replace each other, so that only a model of one session is profiled that way.
        is_one_session = self.sections == [DECODER] and not self.config["model"][DECODER].get("pipeline")
        if not self.profile_prefix or is_one_session:
            self.load_ns = self._load(self.directory, overlay_of(file_config, job, self.provider))
            self.has_run_profile = bool(self.profile_prefix) and _has_run_profile(self.genai, self.model)
        if self.profile_prefix and not self.has_run_profile:
            self.close()
            self.load_ns = self._load_profiled(file_config)

    @property
    def device_id(self) -> int:
        """The number of the device that the decoder runs on; 0 where its provider numbers none."""
        return device_id_of(self.config, self._job, self.provider)

    def close(self) -> None:
        """Drop the model; a session-level profile is written now, unless a generator still holds it."""
        self.model = None
        gc.collect()
        remove_directory(self._scratch)
        self._scratch = ""

    def _load_profiled(self, file_config: dict[str, Any]) -> int:
        """Load with a session-level profile of every session, from a directory with a configuration that says so."""
        whole, self.session_prefixes = profiled_config(file_config, self._job, self.provider)
        self._scratch = scratch_directory(self.profile_prefix)
        try:
            link_directory(self.directory, self._scratch, whole)
            return self._load(self._scratch, None)
        except BaseException:
            self.close()
            raise

    def _load(self, directory: str, overlay: dict[str, Any] | None) -> int:
        """Load from a directory and return the time it took; without an overlay its configuration says everything."""
        if self.provider in ("cuda", "nvtensorrtrtx"):
            _preload_cuda()
        begin_ns = time.perf_counter_ns()
        try:
            config = self.genai.Config(directory)
        except Exception as error:
            fail("model", message_of(error), error)
        if overlay is not None:
            self._lay_over(config, overlay)
        try:
            self.model = self.genai.Model(config)
        except Exception as error:
            text = message_of(error)
            if "Unsupported model_type" in text:
                kind = self.config["model"].get("type", "")
                version = self.genai.__version__
                text = f"its `model.type` {kind!r} is none that GenAI {version} runs ({text}); {NO_GENERATOR}"
            about_provider = _is_about_provider(text.replace(directory, ""), self.provider)
            fail("ep" if about_provider else "model", text, error)
        load_ns = time.perf_counter_ns() - begin_ns
        device = str(self.model.device_type)
        if self.provider in _TOLD_BY_DEVICE and device.lower() != self.provider:
            fail("ep", f"{self.provider} was asked for, and the model runs on {device}")
        return load_ns

    def _lay_over(self, config: Any, overlay: dict[str, Any]) -> None:
        try:
            config.overlay(json.dumps(overlay))
        except Exception as error:
            fail("option", f"GenAI refuses the overlay: {message_of(error)}", error)
        try:
            self._set_provider(config)
        except Exception as error:
            fail("ep", message_of(error), error)

    def _set_provider(self, config: Any) -> None:
        if self._job["provider"]:
            config.clear_providers()
            if self.provider != "cpu":  # none at all means the CPU; to append it is an error below 0.15
                config.append_provider(PROVIDERS[self.provider])
        for name, value in provider_option_texts(self._job["provider_options"]).items():
            config.set_provider_option(PROVIDERS[self.provider], name, value)


def _has_run_profile(genai: Any, model: Any) -> bool:
    """Return whether the runtime profiles single runs: some versions have the method and refuse the option."""
    if not hasattr(genai.Generator, "set_runtime_option"):
        return False
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=2)
    generator = genai.Generator(model, params)
    try:
        generator.set_runtime_option("enable_profiling", "0")
    except Exception:
        return False
    return True


def _preload_cuda() -> None:
    """Load the CUDA libraries that pip installed; GenAI itself does not look for them there."""
    try:
        import onnxruntime
    except ImportError:
        return
    if getattr(onnxruntime, "cuda_version", "") and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()


def _is_about_provider(message: str, provider: str) -> bool:
    marks = ("interface not available", "execution provider", "executionprovider", "failed to load library", "adapter")
    text = message.lower()
    return provider != "cpu" and (provider in text or any(mark in text for mark in marks))
