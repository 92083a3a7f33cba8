"""A generator's measuring process that dies, hangs or is interrupted inside the runtime: one message, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pytest_onnxperf.core.errors import MeasurementError
from pytest_onnxperf.core.providers import provider_of
from pytest_onnxperf.core.record import TestKey
from pytest_onnxperf.runtime.generator_job import GeneratorJob
from pytest_onnxperf.runtime.lock import claimed
from pytest_onnxperf.runtime.measure import Measurement
from pytest_onnxperf.runtime.plan import Plan
from tests import genai_models
from tests.genai_models import Size

from . import children
from .children import at_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.needs_genai,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

ROOT = Path(__file__).parents[2]
INTERRUPTED = 2
LARGE = Size(layers=4, hidden=256, heads=8, kv_heads=4, inner=512)
"""A prompt of thousands of tokens takes it seconds."""
LONG_PROMPT = 3000
PLAN = Plan(
    warmup_rounds=1, min_rounds=2, max_time_s=0, profile_runs=1, timeout_s=60, isolation="process", threads=1
)  # fmt: skip

# libc's abort as the handler of a timer: it interrupts native code, which a thread or a handler of Python's cannot.
_ABORT_INSIDE = """
    import ctypes, faulthandler, signal
    faulthandler.enable()
    libc = ctypes.CDLL(None)
    libc.signal(signal.SIGALRM, ctypes.cast(libc.abort, ctypes.c_void_p))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Every test leaves no process behind, no file in the temporary directory, and no lock that is held."""
    mark, temporary = children.new_mark(), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv(children.MARK, mark)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield temporary
    assert children.marked_processes(mark) == []
    assert [path for path in temporary.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    with claimed("cpu", lambda: pytest.fail("the lock is still held")):
        pass


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Measures a generator whose processes run `code` in a step, and returns how that failed; files lie in "files"."""

    def measure(directory: Path, step: str, code: str, plan: Plan, prompt_tokens: int = 8) -> str:
        for name, value in at_step(tmp_path / "site", step, code).items():
            monkeypatch.setenv(name, value)
        prompt = {"prompt_tokens": prompt_tokens, "new_tokens": 3}
        job = GeneratorJob(directory, directory.name, provider_of("cpu"), prompt=prompt)
        with pytest.raises(MeasurementError) as caught:
            Measurement(job, plan, tmp_path / "files", lambda _: None).record(TestKey("t", "t"), lambda _: False)
        return str(caught.value)

    return measure


def test_an_abort_in_the_middle_of_a_prefill_says_how_the_process_died(
    measure: Callable[..., str], tmp_path: Path
) -> None:
    message = measure(genai_models.decoder(tmp_path / "m", size=LARGE), "warm_up", _ABORT_INSIDE, PLAN, LONG_PROMPT)
    assert message.startswith("the measuring process was killed by SIGABRT in its step `warm_up`\nLast output:\n")
    assert "  | Fatal Python error: Aborted" in message
    assert 'generator_rounds.py", line' in message
    assert " in begin\n" in message  # `append_tokens` is called there
    assert message.endswith(f"Full log: {tmp_path / 'files' / '1-timing'}")


@pytest.mark.parametrize(
    ("code", "timeout_s", "message"),
    [
        ("import os; os.abort()", 60, "was killed by SIGABRT in its step `profile`"),
        ("import time; time.sleep(1000)", 8, "was ended after 8 s, in its step `profile` (--onnxperf-timeout)"),
    ],
    ids=["abort", "hang"],
)
def test_a_profile_process_that_dies_leaves_no_linked_model(
    code: str, timeout_s: float, message: str, measure: Callable[..., str], tmp_path: Path
) -> None:
    """Several sessions are profiled from a directory of links, which would keep the space of a deleted model."""
    directory = genai_models.vision_language(tmp_path / "model", size=Size(context=64))
    linked = tmp_path / "files" / "profile-model"
    seen = f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(str(os.path.isdir({str(linked)!r})))\n"
    plan = replace(PLAN, timeout_s=timeout_s, timing=False)
    assert message in measure(directory, "profile", seen + code, plan)
    assert (tmp_path / "seen").read_text() == "True"
    assert not linked.exists()
    assert {path.name for path in directory.iterdir()} >= {"decoder.onnx", "vision.onnx", "genai_config.json"}


def test_a_prefill_that_is_not_over_at_the_timeout_is_ended(measure: Callable[..., str], tmp_path: Path) -> None:
    directory = genai_models.decoder(tmp_path / "m", size=Size(context=64))
    make_endless(directory / "model.onnx")
    message = measure(directory, "nothing", "pass", replace(PLAN, timeout_s=5))
    assert "was ended after 5 s, in its step `warm_up` (--onnxperf-timeout)" in message


def make_endless(path: Path) -> None:
    """Put a loop of 10**12 trips before the logits of a decoder."""
    model = onnx.load(path)
    graph = model.graph
    (last,) = (node for node in graph.node if "logits" in node.output)
    last.output[:] = ["raw_logits"]
    names = {"trip": TensorProto.INT64, "go_on": TensorProto.BOOL, "sum": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in names.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", names[name], []) for name in ("go_on", "sum")]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_on"], ["go_on_out"]), helper.make_node("Cos", ["sum"], ["sum_out"])],
        "body",
        inputs,
        outputs,
    )
    for name, value in (("trips", np.int64(10**12)), ("yes", np.bool_(1)), ("nought", np.float32(0))):
        graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    graph.node.append(helper.make_node("Loop", ["trips", "yes", "nought"], ["nearly"], body=body))
    graph.node.append(helper.make_node("Add", ["raw_logits", "nearly"], ["logits"]))
    onnx.save(model, path)


_TESTS = """
from pathlib import Path
from pytest_onnxperf.runtime.child.generator import GeneratorSteps

def test_long(genai_generator, monkeypatch):
    warm_up = GeneratorSteps.warm_up  # of this process, where the steps are done in it

    def begin(steps, rounds):
        Path({began!r}).touch()
        return warm_up(steps, rounds)

    monkeypatch.setattr(GeneratorSteps, "warm_up", begin)
    genai_generator("model").measure(prompt_tokens={prompt}, new_tokens=3)
"""


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("decoder", ()),
        ("vision_language", ("--onnxperf-timing=off",)),
        ("decoder", ("--onnxperf-isolation=none",)),
    ],
    ids=["timing", "linked", "in-process"],
)
def test_ctrl_c_in_a_long_prefill_ends_the_run_and_leaves_nothing(
    kind: str, options: tuple[str, ...], tmp_path: Path, temporary: Path
) -> None:
    write: Callable[..., Path] = getattr(genai_models, kind)
    write(tmp_path / "model", size=LARGE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    began = tmp_path / "began"
    (tmp_path / "test_long.py").write_text(_TESTS.format(prompt=LONG_PROMPT, began=str(began)), "utf-8")
    site = at_step(tmp_path / "site", "warm_up", f"open({str(began)!r}, 'w').close()")["PYTHONPATH"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--onnxperf", "--onnxperf-ep=cpu", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([site, str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(began, run)
    linked = list(temporary.rglob("profile-model/decoder.onnx"))
    time.sleep(0.1)  # into `append_tokens`, which takes seconds
    run.send_signal(signal.SIGINT)
    output = run.communicate(timeout=120)[0]

    assert run.returncode == INTERRUPTED, output
    assert "KeyboardInterrupt" in output
    assert "INTERNALERROR" not in output
    assert len(linked) == (kind == "vision_language")


def wait_for(path: Path, run: subprocess.Popen[Any], timeout_s: float = 60) -> None:
    end_s = time.monotonic() + timeout_s
    while not path.exists():
        if run.poll() is not None or time.monotonic() > end_s:
            run.kill()
            pytest.fail(f"never came so far:\n{run.communicate()[0]}")
        time.sleep(0.02)
