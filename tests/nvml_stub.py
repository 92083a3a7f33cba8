"""Builds the small NVML of `nvml_stub.c`, which nvidia-ml-py's own loader finds by LD_LIBRARY_PATH."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).with_suffix(".c")


def built(directory: Path) -> Path:
    """Build the library into a directory and return that; skip the test where there is no package or no compiler."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py, as the test extra brings it")
    if not sys.platform.startswith("linux") or shutil.which("cc") is None:
        pytest.skip("needs Linux and a compiler, cc")
    target = directory / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(target), str(SOURCE)], check=True)
    return directory
