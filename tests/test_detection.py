"""The benchmark of detection, on recordings made up here: what it prints, and that a rule which fails is named."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark", reason="runs the rules of pytest-benchmark")

ROOT = Path(__file__).parent.parent
PERCENTS = (0, 3, 5, 10)


def record(path: Path, *, slowdown_shows: bool) -> None:
    """Write 14 processes of each kind on a machine that is up to a fifth slower from one to the next."""
    generator = random.Random(1)
    lines = []
    for number in range(14):
        for percent in PERCENTS:
            machine = 1 + 0.2 * generator.random()
            slower = 1 + percent / 100 if slowdown_shows else 1.0
            rounds = {
                "reference": [int(300_000 * machine * generator.uniform(1, 1.02)) for _ in range(60)],
                "tested": [int(1_000_000 * machine * slower * generator.uniform(1, 1.02)) for _ in range(60)],
            }
            kinds = {
                f"rnp{100 + percent}": [rounds["reference"], rounds["tested"]],
                "A" if not percent else f"B{percent}": [rounds["tested"]],
            }
            lines += [json.dumps({"kind": kind, "t0": number, "data": data}) for kind, data in kinds.items()]
    path.write_text("\n".join(lines), encoding="utf-8")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "tests" / "bench" / "detection.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_clear_recording_reaches_the_targets_beside_its_reference(tmp_path: Path) -> None:
    record(tmp_path / "clear.jsonl", slowdown_shows=True)

    result = run(str(tmp_path), "--json")

    assert result.returncode == 0, result.stderr
    found = {each["rule"]: each for each in json.loads(result.stdout)}
    ours = found["stored-reference"]
    assert ours["false_alarms"] <= 0.01
    assert ours["detection"]["5"] >= 0.95
    assert ours["processes_per_check"] <= 1.2
    assert (ours["baseline"], ours["current"]) == ("clear.jsonl", "clear.jsonl")
    assert found["pytest-benchmark mean:5%"]["false_alarms"] > 0.1  # the machine alone is beyond 5 %


def test_a_slowdown_that_does_not_show_misses_its_target_and_fails(tmp_path: Path) -> None:
    record(tmp_path / "flat.jsonl", slowdown_shows=False)
    assert run(str(tmp_path), "--json").returncode == 1


@pytest.mark.parametrize("made", [True, False])
def test_a_directory_without_recordings_is_an_error_that_says_what_it_needs(tmp_path: Path, made: bool) -> None:
    result = run(str(tmp_path if made else tmp_path / "absent"))
    assert result.returncode == 2
    assert "needs a DIR with .jsonl" in result.stderr
