"""Many workers: a GPU for each where there are several, and never two measurements on one device at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import nvml_stub
from tests.plugin.suite import FACTS, QUICK, TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plugin.suite import Suite

pytestmark = pytest.mark.usefixtures("own_locks")

ROOT: Final = Path(__file__).parents[2]
DEVICES: Final = """
    import os, time
    from pathlib import Path
    import pytest

    @pytest.mark.parametrize("number", range(9))
    def test_devices(number, worker_id):
        Path(f"{worker_id}.devices").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
        time.sleep(0.1)
"""
FOUR: Final = """
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_many(onnx_session, number):
        session = onnx_session("mlp.onnx")
        session.measure(shapes={"batch": 1})
        if number == 0:
            session.measure(shapes={"batch": 2}, label="again")

    def test_pair(onnx_compare):
        onnx_compare("mlp.onnx", "mlp.onnx", shapes={"batch": 1})

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_fails_and_is_explained(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml_stub.built(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the machine GPUs of these models."""

    def give(*names: str, visible: str | None = None) -> None:
        lines = [f"count {len(names)}", *(f"name{index} {name}" for index, name in enumerate(names))]
        lines += [f"uuid{index} GPU-{index}a{index}f" for index, _ in enumerate(names)]
        (tmp_path / "state").write_text("\n".join(lines))
        monkeypatch.setenv("NVML_STUB", str(tmp_path / "state"))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return give


def devices_of(suite: Suite) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(suite.path.glob("*.devices"))}


H200: Final = "NVIDIA H200"


@pytest.mark.parametrize(
    ("names", "visible", "expected"),
    [
        ((H200, H200, H200), None, {"gw0": "0,1,2", "gw1": "1,2,0", "gw2": "2,0,1"}),
        ((H200, H200), None, {"gw0": "0,1", "gw1": "1,0", "gw2": "0,1"}),
        ((H200, "NVIDIA T4", H200), None, {"gw0": "0,2", "gw1": "2,0", "gw2": "0,2"}),
        ((H200,) * 4, "3, 1", {"gw0": "3,1", "gw1": "1,3", "gw2": "3,1"}),
        ((H200, H200), "GPU-1a,GPU-0a", {"gw0": "GPU-1a,GPU-0a", "gw1": "GPU-0a,GPU-1a", "gw2": "GPU-1a,GPU-0a"}),
    ],
    ids=["one each", "shared", "alike alone", "those that are visible", "by UUID"],
)  # fmt: skip
def test_each_worker_has_a_gpu_as_its_first(
    suite: Suite, gpus: Callable[..., None], names: tuple[str, ...], visible: str | None, expected: dict[str, str]
) -> None:
    gpus(*names, visible=visible)
    suite.module(DEVICES)

    result = suite.run_apart(*QUICK, "-n3")

    result.assert_outcomes(passed=9)
    assert devices_of(suite) == expected
    listed = expected["gw0"].replace(",", ", ")
    result.stdout.fnmatch_lines([f"onnxperf: each worker has a GPU as its first, in turn: {listed}"])


@pytest.mark.parametrize(
    ("names", "visible", "options"),
    [((H200,), None, QUICK), ((H200, "NVIDIA T4"), None, QUICK), ((H200, H200), "1", QUICK), ((H200, H200), "", QUICK),
     ((H200, H200), "7,8", QUICK), ((H200, H200), None, ())],
    ids=["one", "not alike", "one is visible", "none is visible", "none of these is there", "nothing is measured"],
)  # fmt: skip
def test_nothing_is_set_where_there_is_no_choice(
    suite: Suite, gpus: Callable[..., None], names: tuple[str, ...], visible: str | None, options: tuple[str, ...]
) -> None:
    gpus(*names, visible=visible)
    suite.module(DEVICES)

    result = suite.run_apart(*options, "-n2")

    result.assert_outcomes(passed=9)
    assert set(devices_of(suite).values()) == {visible if visible is not None else "none"}
    result.stdout.no_fnmatch_line("*as its first*")


def test_a_new_worker_has_the_gpu_of_the_one_that_crashed(suite: Suite, gpus: Callable[..., None]) -> None:
    gpus(H200, H200)
    suite.module(DEVICES.replace("range(9)", "range(60)"))  # more than one worker does before the new one is there
    suite.module(
        """
        import os

        def test_crash(worker_id):
            os.kill(os.getpid(), 9)
        """,
        name="test_a_crash.py",
    )

    suite.run_apart(*QUICK, "-n2")

    found = devices_of(suite)
    assert found["gw2"] != next(found[name] for name in ("gw0", "gw1") if name in found)


def held(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the times in which each device was held, of all tests in a file of results."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for test in measured_in(path):
        for spent in test.get("spent", ()):
            for each in spent.get("held", ()):
                found[each["device"]].append((each["begin_s"], each["end_s"]))
    return found


def measured_in(path: Path) -> Iterator[dict[str, Any]]:
    yield from json.loads(path.read_text("utf-8"))["runs"][0]["tests"]


@pytest.mark.parametrize("options", [TIMES, FACTS], ids=["times", "facts"])
def test_measurements_of_one_device_never_overlap(suite: Suite, options: tuple[str, ...]) -> None:
    suite.model()
    suite.module(FOUR)
    command = [sys.executable, "-m", "pytest", "-q", *options, "-n2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.Popen([*command, f"--onnxperf-json={name}.json"], cwd=suite.path, env=environment)
        for name in ("a", "b")
    ]
    assert [run.wait(timeout=240) for run in runs] == [1, 1]

    times: list[tuple[float, float]] = []
    for name in ("a", "b"):
        found = held(suite.path / f"{name}.json")
        assert set(found) == {"cpu"}
        assert len(found["cpu"]) >= 7  # six measurements, and what failed once more to explain it
        times += found["cpu"]
    times.sort()
    assert all(begin < end for begin, end in times)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_what_was_held_is_known_of_a_measurement_that_failed(suite: Suite) -> None:
    suite.model("broken.onnx").write_bytes(b"no model")
    suite.module(
        """
        def test_broken(onnx_session):
            onnx_session("broken.onnx").measure()
        """
    )

    suite.run(*QUICK, "--onnxperf-json=a.json").assert_outcomes(failed=1)

    (test,) = measured_in(suite.path / "a.json")
    (spent,) = test["spent"]
    assert len(spent["held"]) == 1
    assert sum(spent["stages_s"].values()) <= test["duration_s"] + 0.01
