"""The benchmark of detection, on recordings made up here: what it prints, and that a rule which fails is named."""

from __future__ import annotations

import json
import random
import re
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


def record_decoder(path: Path, *, is_steady: bool) -> None:
    """Write 14 processes of a decoder and of one 10 % slower, 60 generations of 8 steps; unsteady: half way 20 % more.

    Only the model's times change half way, so that an early stop sees another ratio than the whole block.
    """
    generator = random.Random(2)
    lines = []
    for number in range(14):
        for percent in (0, 10):
            machine = 1 + 0.2 * generator.random()
            reference, tested = [], []
            for place in range(60):
                changed = 1.0 if is_steady or not percent or place >= 20 else 1.0 / 1.2
                base = machine * (1 + percent / 100) * changed
                tested += [int(1_000_000 * base * (1 + step / 50) * generator.uniform(1, 1.02)) for step in range(8)]
                reference += [int(300_000 * machine * generator.uniform(1, 1.02)) for _ in range(9)]
            kinds = {f"gmade_decode_{kind}{100 + percent}": [reference, tested] for kind in ("compute", "memory")}
            lines += [
                json.dumps({"kind": kind, "t0": number, "data": data, "rounds": 60}) for kind, data in kinds.items()
            ]
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


def test_generations_that_end_early_say_the_same_and_the_differences_of_processes_are_printed(tmp_path: Path) -> None:
    record_decoder(tmp_path / "steady.jsonl", is_steady=True)

    result = run(str(tmp_path))

    assert result.returncode == 0, result.stdout + result.stderr
    early = [line for line in result.stdout.splitlines() if line.startswith("stored-generator-early")]
    assert len(early) == 2  # kinds of reference
    for line in early:
        assert line.rstrip().endswith("100.0%/100.0%")
    (variation,) = (line for line in result.stdout.splitlines() if line.startswith("between "))
    found = re.fullmatch(
        r"between 14 processes, steady.jsonl made_decode: raw (.+)%, / compute (.+)%, / memory (.+)%, chosen .+",
        variation,
    )
    assert found is not None, variation
    assert float(found[1]) > 3 > 1 > float(found[2])


def test_an_early_stop_that_says_something_else_than_all_rounds_misses_its_target(tmp_path: Path) -> None:
    record_decoder(tmp_path / "unsteady.jsonl", is_steady=False)

    result = run(str(tmp_path))

    assert result.returncode == 1
    assert "the same verdict at +10 %" in result.stdout


@pytest.mark.parametrize("made", [True, False])
def test_a_directory_without_recordings_is_an_error_that_says_what_it_needs(tmp_path: Path, made: bool) -> None:
    result = run(str(tmp_path if made else tmp_path / "absent"))
    assert result.returncode == 2
    assert "needs a DIR with .jsonl" in result.stderr
