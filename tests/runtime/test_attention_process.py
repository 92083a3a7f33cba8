"""What a real measuring process prints of attention, by file descriptor and among other output, is read by step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_onnxperf.core.ort_log import read_log
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.process import ProcessWorker
from tests import genai_models, models

from .children import at_start, job_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tests print through libc")

LONG_S = 60.0

# Prints as a CUDA build does, at each call of a function: through C's standard output, in colour, and on standard error
# through its file descriptor. Another thread prints all the while, often without the end of a line.
_PRINTS = """
import ctypes, os, sys, threading

libc = ctypes.CDLL(None)
calls = []

def noise():
    for number in range(3000):
        os.write(1, b"noise %d, " % number + (b"\\n" if number % 3 else b""))
        os.write(2, b"\\x1b[0;93m[W:onnxruntime:, noise.cc:1 F] %d\\x1b[m\\n" % number)

def print_kernel():
    calls.append(None)
    if len(calls) == 1:
        threading.Thread(target=noise, daemon=True).start()
    name = b"attn %d" % len(calls)
    line = b"\\x1b[36mOperator=GroupQueryAttention Node=%s DataType=fp16 SdpaKernel=FLASH_ATTENTION\\x1b[0m\\n"
    libc.printf(b"%s", line % name)
    libc.fflush(None)
    os.write(2, b"2026-12-02 [V:onnxruntime:, attention.cc:1 F] ONNX Attention: using cuDNN SDPA\\n")

def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name == {python!r} and code.co_filename.endswith("child/steps.py"):
        print_kernel()
    if event == "c_call" and argument.__name__ == {native!r}:
        print_kernel()

if sys.orig_argv[1:2] == ["-c"]:
    sys.setprofile(watch)
"""


def that_prints(directory: Path, *, python: str = "", native: str = "") -> dict[str, str]:
    """Return the environment of a process that prints at each call of a step's function, or of a runtime's method."""
    code = _PRINTS.replace("{python!r}", repr(python)).replace("{native!r}", repr(native))
    return at_start(directory, code)


def test_lines_of_the_profiled_runs_are_read_and_those_of_the_warm_up_are_not(tmp_path: Path) -> None:
    model = models.mlp(tmp_path / "mlp.onnx")
    prefix = str(tmp_path / "profile")
    environment = that_prints(tmp_path / "site", python="round")
    (tmp_path / "log").mkdir()

    with ProcessWorker(tmp_path / "log", timeout_s=LONG_S, environment=environment) as process:
        process.call("open", job=job_of(model, profile_prefix=prefix))
        process.call("make_feeds", shapes={"batch": 2}, ranges={}, bind=False)
        process.call("warm_up", rounds=2)
        process.call("profile", runs=3)
        process.close()
        everything = process.log()
        log = read_log(process.log_lines())

    assert everything.count("SdpaKernel=") == 5
    assert everything.count("noise.cc") > 0
    debug = [(line.phase, line.node, line.kernel) for line in log.attention if line.node]
    assert debug == [("", f"attn {run}", "FLASH_ATTENTION") for run in (3, 4, 5)]
    assert [line.kernel for line in log.attention if not line.node] == ["cuDNN SDPA"] * 3


@pytest.mark.needs_genai
def test_lines_of_a_generator_belong_to_prefill_or_decode(tmp_path: Path) -> None:
    directory = genai_models.decoder(tmp_path / "decoder", size=genai_models.Size(context=256))
    job = GeneratorJob(directory, "decoder", provider_of("cpu")).open_arguments(1, str(tmp_path / "profile"))
    environment = that_prints(tmp_path / "site", native="generate_next_token")
    (tmp_path / "log").mkdir()

    with ProcessWorker(tmp_path / "log", timeout_s=LONG_S, environment=environment, kind="generator") as process:
        process.call("open", job=job)
        process.call("prepare", prompt_tokens=8, new_tokens=4)
        process.call("warm_up", rounds=1)
        steps: list[dict[str, Any]] = process.call("profile", decode_steps=2)["steps"]
        process.close()
        printed = process.log().count("SdpaKernel=")
        log = read_log(process.log_lines())

    assert [step["phase"] for step in steps] == ["prefill", "decode", "decode"]
    assert printed > 3
    for kernel in ("FLASH_ATTENTION", "cuDNN SDPA"):
        phases = [line.phase for line in log.attention if line.kernel == kernel]
        assert phases == ["prefill", "decode", "decode"]


def test_a_process_that_prints_nothing_of_attention_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()

    with ProcessWorker(tmp_path / "log", timeout_s=LONG_S) as process:
        process.call("open", job=job_of(models.mlp(tmp_path / "mlp.onnx"), profile_prefix=str(tmp_path / "profile")))
        process.call("make_feeds", shapes={"batch": 2}, ranges={}, bind=False)
        process.call("profile", runs=2)
        process.close()
        marks = process.log().count("onnxperf-step begin")
        log = read_log(process.log_lines())

    assert marks == 2 * 2  # on standard output and on standard error
    assert log.attention == ()
