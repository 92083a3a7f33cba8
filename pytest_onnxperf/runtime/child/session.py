"""Creates the `InferenceSession` of a job: options, providers, and the check that the EP asked for is there."""

from __future__ import annotations

import difflib
import os
import re
import time
from typing import Any

OPTIMIZATION_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
EXECUTION_MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
_EXTRAS = {
    f"{name}ExecutionProvider": f" (pytest-onnxperf[{name.lower()}] installs one that has it)"
    for name in ("CUDA", "WebGpu")
}
_OWN_OPTIONS = ("enable_profiling", "profile_file_prefix")

_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (\w+) : ")
_SOURCE = re.compile(
    r"(?<=\.)\w+\.cc:\d+ \w+(?= )"
    r"|\S*onnxruntime\S*\.(?:h|cc|cpp|cu|cuh):\d+ .*?\)(?: const)?(?: \[with [^\]]*\])? "
)


class StepError(Exception):
    """A step failed for a reason that a person can act on.

    `kind` is one of `ep` (the execution provider does not run), `option`, `model`, `input` and `run`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def create_session(job: dict[str, Any]) -> tuple[Any, int]:
    """Return the session of `job` and the time its creation took, in ns.

    Args:
        job: `model` (path), `execution_providers` (names, first is the one asked for), `provider_options`,
            `session_options`, `free_dimensions`, `threads` (0: leave to the runtime), `profile_prefix` ("" for none),
            `log_severity` (ORT's 0 to 4), `custom_op_libraries` (paths); where a model is explained, also
            `optimized_model_path` (where to save the optimised graph, "" for nowhere) and `record_assignment`.

    Raises:
        StepError: The EP is not in this build or was not created (`ep`), an option is unknown (`option`), or the
            runtime refuses the model (`model`).
    """
    import onnxruntime

    names = job["execution_providers"]
    available = onnxruntime.get_available_providers()
    if names[0] not in available:
        msg = "ep"
        raise StepError(
            msg,
            f"this build of onnxruntime {onnxruntime.__version__} has no {names[0]}, only {', '.join(available)}"
            f"{_EXTRAS.get(names[0], '')}",
        )
    if names[0] != "CPUExecutionProvider" and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # finds the CUDA libraries that pip installed; prints what it misses, never raises
    options = _session_options(onnxruntime, job)
    providers = [(name, dict(job["provider_options"]) if name == names[0] else {}) for name in names]
    begin_ns = time.perf_counter_ns()
    try:
        session = onnxruntime.InferenceSession(job["model"], options, providers=providers, enable_fallback=0)
    except Exception as error:  # the runtime's exceptions have no common base but Exception
        kind = "ep" if _is_provider_error(str(error), names[0]) else "model"
        raise StepError(kind, runtime_words(error)) from error
    load_ns = time.perf_counter_ns() - begin_ns
    got = session.get_providers()
    if got[0] != names[0]:
        msg = "ep"
        raise StepError(msg, f"{names[0]} was asked for and ONNX Runtime fell back to {', '.join(got)}")
    return session, load_ns


def _is_provider_error(message: str, name: str) -> bool:
    marks = (
        "CUDA failure",
        "WebGPU adapter",
        "CUDNN failure",
        "Please install",
        name.replace("ExecutionProvider", "_execution_provider"),
    )
    return any(mark.lower() in message.lower() for mark in (*marks, name))


def runtime_words(error: Exception) -> str:
    """Return what an error of ONNX Runtime says, without the place in its source, its code at the end.

    >>> runtime_words(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Load model from a.onnx failed:no graph"))
    'Load model from a.onnx failed: no graph [FAIL]'
    """
    text = str(error).strip()
    if not text:
        return type(error).__name__
    code = _CODE.match(text)
    if code is None:
        return f"{type(error).__name__}: {_SOURCE.sub('', text)}"
    words = re.sub(r"(Load model from .*? failed:)(?=\S)", r"\1 ", text[code.end() :])
    words = _SOURCE.sub("", words)
    is_cut = "protobuf" in words.lower() or "does not have a graph" in words
    hint = ", the file is no ONNX model or is cut off" if is_cut else ""
    return f"{words.rstrip('.')}{hint} [{code.group(1)}]"


def _session_options(onnxruntime: Any, job: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = job["log_severity"]
    if job["threads"]:
        options.intra_op_num_threads = job["threads"]
    if job["profile_prefix"]:
        options.enable_profiling = True
        options.profile_file_prefix = job["profile_prefix"]
    for name, value in job["free_dimensions"].items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            msg = "option"
            raise StepError(msg, f"free dimension `{name}`: expected an int of at least 1, got {value!r}")
        options.add_free_dimension_override_by_name(name, value)
    for path in job["custom_op_libraries"]:
        try:
            options.register_custom_ops_library(path)
        except Exception as error:
            msg = "option"
            raise StepError(msg, f"custom op library {path}: {runtime_words(error)}") from error
    for name, value in job["session_options"].items():
        _set_option(onnxruntime, options, name, value)
    if job["profile_prefix"] or job.get("record_assignment"):  # what is logged is needed, whatever the test wants
        options.log_severity_level = min(options.log_severity_level, job["log_severity"])
    _explain(options, job)
    return options


def _explain(options: Any, job: dict[str, Any]) -> None:
    """Have the optimised graph saved, its weights in a file beside it, and the nodes' providers recorded."""
    path = job.get("optimized_model_path", "")
    if path:
        options.optimized_model_filepath = path
        entry = "session.optimized_model_external_initializers_"
        options.add_session_config_entry(entry + "file_name", os.path.basename(path) + ".data")
        options.add_session_config_entry(entry + "min_size_in_bytes", "1024")
    if job.get("record_assignment"):
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")


def _set_option(onnxruntime: Any, options: Any, name: str, value: Any) -> None:
    if "." in name:  # a configuration entry such as session.disable_prepacking
        options.add_session_config_entry(name, str(value))
        return
    known: list[str] = [n for n in dir(options) if not n.startswith("_") and not callable(getattr(options, n))]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        msg = "option"
        raise StepError(msg, f"unknown session option `{name}`, " + (
            f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}, and entries such as `session.x`"
        ))  # fmt: skip
    if name in _OWN_OPTIONS:
        msg = "option"
        raise StepError(msg, f"session option `{name}`: the plugin sets it itself, to measure times and facts apart")
    enums = {
        "graph_optimization_level": (onnxruntime.GraphOptimizationLevel, OPTIMIZATION_LEVELS),
        "execution_mode": (onnxruntime.ExecutionMode, EXECUTION_MODES),
    }
    if name in enums:
        enum, words = enums[name]
        if not isinstance(value, str) or value not in words:
            msg = "option"
            raise StepError(msg, f"session option `{name}`: expected one of {', '.join(words)}, got {value!r}")
        value = getattr(enum, words[value])
    try:
        setattr(options, name, value)
    except TypeError as error:
        msg = "option"
        raise StepError(msg, f"session option `{name}`: {value!r} has the wrong type") from error
