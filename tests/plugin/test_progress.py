"""What a measuring test shows while it measures: a line on a terminal that disappears, lines with -v elsewhere."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

import pytest

from pytest_onnxperf.core.stages import Doing, Stage
from pytest_onnxperf.progress import Progress, fitted
from pytest_onnxperf.runtime.lock import claimed
from tests import models
from tests.plugin.suite import FACTS, MEASURE, ON, TIMES

if TYPE_CHECKING:
    import subprocess

    from tests.plugin.suite import Suite
    from tests.plugin.terminal import Screen

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from tests.plugin.terminal import run_on_terminal

# Slow enough to be seen: a measurement of less than a second shows nothing.
LONG: Final = (*ON, "--onnxperf-max-time=1.5", "--onnxperf-profile-runs=1", "-p", "no:cacheprovider")
SLOW: Final = """
    import pytest

    def test_passes(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_fails(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""
IS_PROGRESS: Final = re.compile(r"onnxperf: .*\d+ s")


class Watch:
    """Collects the lines that were shown, of which there is never more than one."""

    def __init__(self, *, interrupts: bool = False) -> None:
        self.shown: list[str] = []
        self._interrupts = interrupts

    def __call__(self, screen: Screen, process: subprocess.Popen[bytes]) -> None:
        lines = [line.rstrip() for line in screen.lines if IS_PROGRESS.match(line)]
        assert len(lines) <= 1, screen.text
        self.shown += lines
        if lines and self._interrupts:
            self._interrupts = False
            process.send_signal(signal.SIGINT)


def stages_of(result: pytest.RunResult) -> list[str]:
    """Return the stages that were told, without the wait for others of this machine."""
    lines = [line.removeprefix("onnxperf: test_mlp: ") for line in result.outlines]
    return [line for line in lines if line in [*Stage] and line != Stage.WAITING]


@pytest.mark.parametrize("columns", [80, 40])
def test_a_terminal_shows_one_line_that_fits_and_is_gone_in_the_end(suite: Suite, columns: int) -> None:
    suite.model(write=models.slow_model)  # 200 000 rounds of a smaller one end before a second is over
    suite.module(SLOW)
    watch = Watch()

    status, screen = run_on_terminal(suite.path, [*LONG, "--tb=line"], os.environ, columns=columns, seen=watch)

    assert status == pytest.ExitCode.TESTS_FAILED, screen.text
    assert max(map(len, watch.shown)) < columns
    assert any(re.match(r"onnxperf: (test_passes: )?timed rounds, \d+ s$", line) for line in watch.shown), watch.shown
    assert re.search(r"^test_perf.py \.P +\[100%\]$", screen.text, re.MULTILINE), screen.text
    assert not IS_PROGRESS.search(screen.text)


def test_pytests_own_words_stay_whole_with_v_and_without_capturing(suite: Suite) -> None:
    suite.model(write=models.slow_model)  # 200 000 rounds of a smaller one end before a second is over
    suite.module(SLOW)
    watch = Watch()

    _, screen = run_on_terminal(suite.path, [*LONG, "-v", "-s", "--tb=no"], os.environ, columns=80, seen=watch)

    assert watch.shown
    assert re.search(r"^test_perf.py::test_passes PASSED$", screen.text, re.MULTILINE), screen.text
    assert re.search(r"^test_perf.py::test_fails PERF$", screen.text, re.MULTILINE), screen.text
    assert not IS_PROGRESS.search(screen.text)


def test_ctrl_c_takes_the_line_away(suite: Suite) -> None:
    suite.model(write=models.slow_model)  # 200 000 rounds of a smaller one end before a second is over
    suite.module(SLOW)
    watch = Watch(interrupts=True)

    status, screen = run_on_terminal(suite.path, [*LONG], os.environ, columns=80, seen=watch)

    assert watch.shown
    assert status == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in screen.text
    assert not IS_PROGRESS.search(screen.text)


@pytest.mark.parametrize("arguments", [["-q"], ["-n1", "-v"]], ids=["quiet", "xdist"])
def test_a_quiet_session_and_workers_show_nothing(suite: Suite, arguments: list[str]) -> None:
    suite.model()
    suite.module(MEASURE)
    watch = Watch()

    status, screen = run_on_terminal(suite.path, [*LONG, *arguments], os.environ, columns=80, seen=watch)

    assert status == pytest.ExitCode.OK, screen.text
    assert watch.shown == []
    assert "onnxperf: test_mlp" not in screen.text


def test_a_log_gets_a_line_for_each_stage_with_v_alone(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    with_v = suite.run_apart(*TIMES, "-v")

    assert stages_of(with_v) == ["load", "warm-up", "timed rounds", "profile"]
    assert re.search(r"^test_perf.py::test_mlp PASSED", with_v.stdout.str(), re.MULTILINE)
    for arguments in ([], ["-v", "-n1"]):
        result = suite.run_apart(*FACTS, *arguments)
        result.assert_outcomes(passed=1)
        assert "onnxperf: test_mlp" not in result.stdout.str()


def test_reference_and_confirming_processes_are_stages_of_their_own(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    forced = ("--onnxperf-update", "--onnxperf-update-force", "--onnxperf-baseline-processes=3")
    update = suite.run_apart(*TIMES, *forced, "-v")
    document = json.loads(suite.baseline().read_text("utf-8"))
    columns = document["tests"]["test_mlp"]["paired"]["latency_p50"]
    columns["tested"] = columns["compute"] = [1000 * place for place, _ in enumerate(columns["tested"], 1)]
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    suite.model(layers=60)
    check = suite.run_apart(*TIMES, "-v")

    assert stages_of(update) == ["load", "warm-up", "timed rounds", "reference", "profile"]
    assert stages_of(check)[:6] == ["load", "warm-up", "timed rounds", "reference", "profile", "confirm"]


@pytest.mark.usefixtures("own_locks")
def test_who_waits_for_the_device_says_so_and_for_how_long(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)
    release = threading.Event()

    def hold() -> None:
        with claimed("cpu"):
            release.wait(60)

    holder = threading.Thread(target=hold)
    watch = Watch()

    def seen(screen: Screen, process: subprocess.Popen[bytes]) -> None:
        watch(screen, process)
        if watch.shown:
            release.set()

    holder.start()
    try:
        status, screen = run_on_terminal(suite.path, [*FACTS], os.environ, columns=80, seen=seen)
    finally:
        release.set()
        holder.join()

    assert status == pytest.ExitCode.OK, screen.text
    assert watch.shown[0].startswith("onnxperf: test_mlp: waiting for the device, `cpu`, ")


DOING: Final = Doing(Stage.REFERENCE, ("45 rounds", "+0.4 % [-0.2 % to +1.1 %]"))


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (72, "onnxperf: test_mlp: reference, 45 rounds, +0.4 % [-0.2 % to +1.1 %], 3 s"),
        (71, "onnxperf: reference, 45 rounds, +0.4 % [-0.2 % to +1.1 %], 3 s"),
        (62, "onnxperf: reference, 45 rounds, +0.4 % [-0.2 % to +1.1 %], 3 s"),
        (61, "onnxperf: reference, 45 rounds, 3 s"),
        (34, "onnxperf: reference, 3 s"),
        (10, "onnxperf: "),
        (-1, ""),
    ],
)
def test_what_does_not_fit_is_left_out_the_name_first(width: int, text: str) -> None:
    assert fitted("test_mlp", DOING, "3 s", width) == text


def test_a_wide_character_counts_as_two_columns() -> None:
    name, needed = "test_\u6a21\u578b", len("onnxperf: test_1234: reference, 45 rounds, +0.4 % [-0.2 % to +1.1 %], 3 s")

    assert name in fitted(name, DOING, "3 s", needed)
    assert name not in fitted(name, DOING, "3 s", needed - 1)


def test_a_name_that_a_terminal_would_act_on_is_left_out() -> None:
    assert "test" not in fitted("test_\u202e", DOING, "3 s", 200)


def test_all_the_time_of_a_measurement_goes_to_its_stages(pytester: pytest.Pytester) -> None:
    now_s = iter([10.0, 11.0, 13.0, 16.0, 20.0])
    progress = Progress(pytester.parseconfig("-p", "no:terminal"), clock=lambda: next(now_s))

    progress.begin("test_mlp")
    progress.tell(Doing(Stage.ROUNDS))
    progress.tell(Doing(Stage.ROUNDS, ("20 rounds",)))
    progress.tell(Doing(Stage.LOAD))

    assert progress.end() == ({Stage.LOAD: 1.0 + 4.0, Stage.ROUNDS: 2.0 + 3.0}, ())
