"""Builds the stand-ins for libcudart and libcublas of `cuda_stub.c`, and has a process load them before all else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = Path(__file__).with_suffix(".c")
PARTS: Final = {"libcudart": "STUB_RUNTIME", "libcublas": "STUB_BLAS"}
_HEADER_WORDS: Final = ("__host__", "__device__", "__device_builtin__", "__cudart_builtin__", "CUDARTAPI", "CUBLASAPI")
_ALIGNED: Final = ("__align__(n)", "__builtin_align__(n)")


def compiler() -> str:
    """Return a C compiler, or skip the test."""
    found = shutil.which("cc")
    if found is None:
        pytest.skip("needs a C compiler, cc, to build a stand-in for CUDA's libraries")
    return found


def built(directory: Path, major: int = 12, parts: Mapping[str, str] = PARTS) -> str:
    """Build the libraries and return the value of LD_PRELOAD that loads them."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, part in parts.items():
        path = directory / f"{name}.so.{major}"
        command = [compiler(), "-O3", "-march=native", "-shared", "-fPIC", f"-D{part}", str(SOURCE), "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        paths.append(str(path))
    return " ".join(paths)


def check_against_headers(directory: Path, include: Path) -> None:
    """Compile the stub with NVIDIA's own declarations, for which a word of their compiler means nothing here.

    Raises:
        CalledProcessError: A definition of the stub differs from its declaration.
    """
    crt = directory / "crt"
    crt.mkdir(parents=True)
    words = "".join(f"#define {word}\n" for word in (*_HEADER_WORDS, *_ALIGNED))
    (crt / "host_defines.h").write_text(words, encoding="ascii")
    skipped = ("-D__CUDA_FP16_H__", "-D__CUDA_BF16_H__")  # headers of C++, which declare nothing of this
    for part in PARTS.values():
        command = [
            compiler(), "-Werror", "-fsyntax-only", f"-I{directory}", f"-I{include}", *skipped, "-DSTUB_HEADERS",
            f"-D{part}", str(SOURCE),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, text=True)
