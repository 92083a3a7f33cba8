"""A small project of a user: real models, test modules that measure them, and pytest on it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

# Loaded before an inner session starts: pytester unloads what an inner session loads, and numpy cannot load twice.
import onnxruntime  # noqa: F401

import pytest_onnxperf.handles
import pytest_onnxperf.hooks  # noqa: F401
from pytest_onnxperf.report.wrap import columns
from tests import models

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

DEVICE: Final = "Bench 1"
KEY: Final = "bench-1.cpu"
ON: Final = ("--onnxperf", "--onnxperf-ep=cpu", f"--onnxperf-device={DEVICE}", "--onnxperf-warmup-rounds=1")
FACTS: Final = (*ON, "--onnxperf-timing=off", "--onnxperf-profile-runs=2")
QUICK: Final = (*FACTS, "--onnxperf-isolation=none")
"""For tests that are not about how it is measured: the same steps, without a process for them."""
TIMES: Final = (*ON, "--onnxperf-max-time=0.05")

MEASURE: Final = """
    def test_mlp(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})
"""
"""A test module that measures the model `mlp.onnx` once."""
OVER_AND_HELD: Final = """
    import pytest

    @pytest.mark.onnx_budget(max_nodes=1)
    def test_over(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    @pytest.mark.onnx_budget(max_nodes=2)
    def test_held(onnx_session):
        onnx_session("mlp.onnx").measure(shapes={"batch": 1})

    def test_other():
        pass
"""
"""Two tests of the model `mlp.onnx`, the first over its budget, and one that measures nothing."""


class Suite:
    """The directory of an inner pytest session, with helpers to fill, run and read it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path: Path = pytester.path

    def model(self, name: str = "mlp.onnx", write: Callable[..., Path] = models.mlp, **options: Any) -> Path:
        """Write a model, over the one of that name if there is one."""
        return write(self.path / name, **options)

    def module(self, source: str = MEASURE, name: str = "test_perf.py") -> Path:
        """Write a test module, into a directory if its name has one."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = source.strip("\n").splitlines()
        margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        path.write_text("\n".join(line[margin:] for line in lines) + "\n", encoding="utf-8")
        return path

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process."""
        return self.pytester.runpytest_inprocess(*arguments)

    def run_apart(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a process of its own."""
        return self.pytester.runpytest_subprocess(*arguments)

    def baseline(self, module: str = "test_perf", key: str = KEY) -> Path:
        """The baseline's file of a test module."""
        return self.path / "baselines" / key / f"{module}.json"

    def entries(self, module: str = "test_perf", key: str = KEY) -> Mapping[str, Any]:
        """The entries of a test module's baseline."""
        entries: Mapping[str, Any] = json.loads(self.baseline(module, key).read_text("utf-8"))["tests"]
        return entries

    def junit(self, path: str = "junit.xml") -> dict[str, tuple[dict[str, str], str]]:
        """Test name -> its properties and the text of its failure."""
        cases = ElementTree.parse(self.path / path).getroot().iter("testcase")
        return {
            case.attrib["name"]: (
                {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")},
                "".join(failure.text or "" for failure in case.iter("failure")),
            )
            for case in cases
        }


def section(result: pytest.RunResult, title: str) -> list[str]:
    """Return the lines of one section of pytest's output, without its head."""
    lines = result.outlines
    heads = [index for index, line in enumerate(lines) if re.fullmatch(rf"[=_-]+ {re.escape(title)} [=_-]+", line)]
    assert heads, f"no section {title!r} in\n{result.stdout.str()}"
    body = []
    for line in lines[heads[0] + 1 :]:
        if re.fullmatch(r"([=_-])\1+ .* \1+", line):
            break
        body.append(line)
    return body


def masked(lines: list[str]) -> str:
    """Mask every measured number and the widths that follow from it, so that a text can be compared as a whole."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    text = re.sub(r"^(op type) +(EP) +", r"\1 \2 ", text, flags=re.MULTILINE)  # its width is that of the names
    text = re.sub(r"^(\w+) +(CPU) +(\d)", r"\1 \2 \3", text, flags=re.MULTILINE)
    return re.sub(r" +\d+\.\d+", " N", text)


# Lines of pytest's that it does not wrap. It cuts those of FAILED, PERF and ERROR.
_PYTESTS_OWN: Final = (
    "_",
    "PERF ",
    "rootdir: ",
    "plugins: ",
    "platform ",
    "cachedir: ",
    "SKIPPED ",
    "XFAIL ",
    "configfile: ",
)


def too_wide(lines: list[str]) -> list[str]:
    """Return the lines that do not fit into 80 columns, but for paths and commands, which are not broken."""
    unbroken = (*_PYTESTS_OWN, "    onnxperf profile ")
    return [line for line in lines if columns(line) > 80 and " " in line.strip() and not line.startswith(unbroken)]
