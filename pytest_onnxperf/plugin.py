"""The pytest plugin: what every session pays for. The rest is in `hooks`, which --onnxperf alone brings in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .declare import CELL, MATRIX, add_options, check_idle, is_enabled, register_markers
from .fixtures import genai_compare as genai_compare  # a fixture is found by its name in the plugin
from .fixtures import genai_generator as genai_generator
from .fixtures import onnx_cell as onnx_cell
from .fixtures import onnx_compare as onnx_compare
from .fixtures import onnx_session as onnx_session

if TYPE_CHECKING:
    from collections.abc import Sequence

FIXTURES = frozenset(["genai_compare", "genai_generator", CELL, "onnx_compare", "onnx_session"])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and under --onnxperf the measuring session."""
    register_markers(config)
    if not is_enabled(config):
        check_idle(config)
        return
    from .core.errors import OnnxPerfError
    from .hooks import Hooks
    from .markdown_file import register_markdown
    from .outputs import check_distinct
    from .session import ActiveSession
    from .settings import resolve
    from .state import ACTIVE
    from .worker_gpus import WorkerGpus, take

    take(config)
    try:
        active = ActiveSession(config, resolve(config))
        hooks = Hooks(active)
        config.pluginmanager.register(hooks.ending, "onnxperf-ending")
        if not hasattr(config, "workerinput"):
            if not config.option.collectonly:
                check_distinct(config, active.settings)
            register_markdown(config, hooks, active.settings)
            if active.settings.json or active.settings.html:
                from .results_file import ResultsHooks

                config.pluginmanager.register(ResultsHooks(config, hooks, active.settings), "onnxperf-results")
    except OnnxPerfError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[ACTIVE] = active
    if not hasattr(config, "workerinput"):
        from .matrix_hooks import MatrixHooks

        matrix = MatrixHooks(hooks, active.settings.root)  # its part of the summary stands below
        config.pluginmanager.register(matrix, "onnxperf-matrix")
        config.pluginmanager.register(WorkerGpus(config), "onnxperf-gpus")
    config.pluginmanager.register(hooks, "onnxperf-session")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each cell of a matrix."""
    if CELL in metafunc.fixturenames or metafunc.definition.get_closest_marker(MATRIX):
        from .matrix_tests import generate

        generate(metafunc)


def measures(item: pytest.Item) -> bool:
    """Tell whether a test uses a fixture that measures."""
    return not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Without --onnxperf, skip what measures."""
    if is_enabled(config):
        return
    for item in items:
        if measures(item) or item.get_closest_marker("onnx_budget"):
            item.add_marker(pytest.mark.skip(reason="needs --onnxperf"))
