"""What a pytest session that uses none of it pays for the plugin: installed, against `-p no:onnxperf`.

`python tests/bench/inert.py` runs both in turn and compares the CPU time, user and system, that the kernel counts for a
session. Each runs in a fork of a process that has imported pytest and nothing of ours: pytest's own start costs fifty
times the limit and varies by more, and is left out of both. All modules are compiled before, as pip does it. It prints
the smallest and the median of both and what the plugin imported. It exits with 1 where the difference is above 5 ms, or
numpy, onnx, onnxruntime or subprocess came with it. Other processes only ever add to the CPU time of one: of the
difference of the smallest, that of the medians, and the median of the differences in turn, the smallest counts.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import pytest
from _pytest.config import default_plugins

LIMIT_MS: Final = 5.0
TIMES: Final = 60
BATCHES: Final = 3
"""On a busy machine one batch may not be enough: as long as the limit is missed, up to so many are run."""
NEVER: Final = ("numpy", "onnx", "onnxruntime", "subprocess", "msgspec", "filelock")
WITHOUT: Final = ("-p", "no:onnxperf")
# Left out of both, where they are installed, since they cost ten times as much and vary by more.
OTHERS: Final = tuple(
    f"-pno:{name}"
    for name in ("asyncio", "benchmark", "cov", "hypothesispytest", "pytest_cov", "rerunfailures", "timeout", "xdist")
)

_CONFTEST = """
import json, os, sys

def pytest_unconfigure():
    if "ONNXPERF_DUMP" in os.environ:
        with open(os.environ["ONNXPERF_DUMP"], "w") as file:
            json.dump(sorted(sys.modules), file)
"""
_TESTS = "import pytest\n" + "\n".join(f"def test_{number}(): pass" for number in range(20))


def command(directory: Path, arguments: tuple[str, ...]) -> list[str]:
    """Return the arguments of pytest."""
    return ["-q", "-p", "no:cacheprovider", *OTHERS, *arguments, str(directory)]


def run(directory: Path, arguments: tuple[str, ...]) -> float:
    """Run a session in a fork and return its CPU time in ms."""
    process = os.fork()
    if not process:
        nothing = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nothing, descriptor)
        os._exit(int(pytest.main(command(directory, arguments))))
    _, status, usage = os.wait4(process, 0)
    if status:
        msg = f"pytest ended with {os.waitstatus_to_exitcode(status)}: {command(directory, arguments)}"
        raise SystemExit(msg)
    return (usage.ru_utime + usage.ru_stime) * 1e3


def imported(directory: Path) -> list[str]:
    """Return the modules that are there with the plugin and not without it."""
    modules = []
    for name, arguments in (("with", ()), ("without", WITHOUT)):
        dump = directory / f"{name}.json"
        full = [sys.executable, "-m", "pytest", *command(directory, arguments)]
        subprocess.run(full, env={**os.environ, "ONNXPERF_DUMP": str(dump)}, check=True, stdout=subprocess.DEVNULL)
        modules.append(set(json.loads(dump.read_text())))
    return sorted(modules[0] - modules[1])


def differences(with_ms: list[float], without_ms: list[float]) -> tuple[float, float, float]:
    """Return the difference of the smallest, that of the medians, and the median of the differences in turn."""
    in_turn = median(with_one - without_one for with_one, without_one in zip(with_ms, without_ms, strict=True))
    return min(with_ms) - min(without_ms), median(with_ms) - median(without_ms), in_turn


def main() -> int:
    """Compare, and print the figures."""
    for plugin in default_plugins:
        importlib.import_module(f"_pytest.{plugin}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(directory / "compiled")
        (directory / "conftest.py").write_text(_CONFTEST)
        (directory / "pytest.ini").write_text("[pytest]\n")
        (directory / "test_nothing.py").write_text(_TESTS)
        for _ in range(2):  # what is compiled once is compiled here
            run(directory, ())
            run(directory, WITHOUT)
        with_ms: list[float] = []
        without_ms: list[float] = []
        for turn in range(BATCHES * TIMES):
            order: list[tuple[tuple[str, ...], list[float]]] = [((), with_ms), (WITHOUT, without_ms)]
            for arguments, times_ms in order if turn % 2 else reversed(order):
                times_ms.append(run(directory, arguments))
            if turn % TIMES == TIMES - 1 and min(differences(with_ms, without_ms)) <= LIMIT_MS:
                break
        modules = imported(directory)
    least, middle, in_turn = differences(with_ms, without_ms)
    print(f"with the plugin     CPU time {min(with_ms):6.1f} ms at least, median {median(with_ms):6.1f} ms")
    print(f"with -p no:onnxperf CPU time {min(without_ms):6.1f} ms at least, median {median(without_ms):6.1f} ms")
    print(f"ratio of the least {min(with_ms) / min(without_ms):.3f}; {len(with_ms)} sessions of each, in turn")
    print(f"modules it brought: {', '.join(modules) or 'none'}")
    heavy = sorted({module.partition(".")[0] for module in modules} & set(NEVER))
    missed = min(least, middle, in_turn) > LIMIT_MS or bool(heavy)
    print(
        f"difference {least:.1f} ms (of the least), {middle:.1f} ms (of the medians), {in_turn:.1f} ms (in turn), "
        f"limit {LIMIT_MS:.0f} ms; "
        f"heavy imports: {', '.join(heavy) or 'none'}: {'missed' if missed else 'held'}"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
