"""Who may import whom, and what loading the plugin loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parent.parent / "pytest_onnxperf"
HEAVY: Final = frozenset({"numpy", "onnx", "onnxruntime", "onnxruntime_genai", "scipy", "torch", "transformers"})
CORE_MAY_IMPORT: Final = sys.stdlib_module_names | {"msgspec"}
REPORT_MAY_IMPORT: Final = CORE_MAY_IMPORT | {"wcwidth"}
CORE_MAY_IMPORT_IN_FUNCTIONS: Final = frozenset({"scipy.special"})
"""The distributions of its statistics. Not `scipy.stats`, whose import costs a second."""
NUMPY_IN_GLUE: Final = frozenset({"handles.py", "generator_handles.py"})
CHILD_MAY_IMPORT: Final = sys.stdlib_module_names | {
    "numpy",
    "onnxruntime",
    "onnxruntime_genai",
    "torch",
    "transformers",
}


def modules(layer: str) -> list[Path]:
    return sorted((PACKAGE / layer).rglob("*.py"))


def imports(path: Path, *, also_in_functions: bool = True) -> set[str]:
    """Return the absolute names of what a module imports, type checking left out."""
    tree = ast.parse(path.read_text("utf-8"))
    names: set[str] = set()
    nodes = ast.walk(tree) if also_in_functions else iter(tree.body)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            names |= {".".join([*base, *([node.module] if node.module else []), *([] if node.module else [alias.name])])
                      for alias in node.names}  # fmt: skip
    return names


def test_core_is_pure_and_report_knows_core_alone() -> None:
    layers = (("core", {"core"}, CORE_MAY_IMPORT), ("report", {"core", "report"}, REPORT_MAY_IMPORT))
    for layer, allowed, packages in layers:
        for path in modules(layer):
            for name in imports(path):
                top, _, rest = name.partition(".")
                if top == "pytest_onnxperf":
                    assert rest.split(".")[0] in allowed, f"{path}: {name}"
                elif not (layer == "core" and name in CORE_MAY_IMPORT_IN_FUNCTIONS):
                    assert top in packages, f"{path}: {name}"


def test_runtime_knows_core_and_neither_report_nor_pytest() -> None:
    for path in modules("runtime"):
        for name in imports(path):
            assert name.split(".")[0] not in {"pytest", "_pytest"}, f"{path}: {name}"
            if name.startswith("pytest_onnxperf."):
                assert name.split(".")[1] in {"core", "runtime"}, f"{path}: {name}"


def test_the_measuring_process_needs_the_standard_library_numpy_and_the_runtime_alone() -> None:
    for path in modules("runtime/child"):
        for name in imports(path):
            inside = name.startswith("pytest_onnxperf.runtime.child")
            assert inside or name.split(".")[0] in CHILD_MAY_IMPORT, f"{path}: {name}"


def test_the_runtimes_are_imported_inside_functions() -> None:
    for path in PACKAGE.rglob("*.py"):
        allowed = {"numpy"} if "runtime" in path.parts or path.name in NUMPY_IN_GLUE else set()
        found = {name.split(".")[0] for name in imports(path, also_in_functions=False)} & HEAVY
        assert found <= allowed, f"{path}: {found}"


@pytest.mark.parametrize("module", ["plugin", "cli"])
def test_loading_a_way_in_loads_no_heavy_module(module: str) -> None:
    heavy = f"{sorted(HEAVY)!r}"
    code = f"import sys, pytest_onnxperf.{module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_modules_and_functions_stay_small() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                body = [inner for inner in node.body if not is_docstring(inner)]
                length = (node.end_lineno - body[0].lineno + 1) if body else 0
                assert length <= 40, f"{path}: {node.name} has {length} lines"


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
