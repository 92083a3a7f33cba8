"""The fixtures. Each imports the runtime side in its body: a session that uses none of them must not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .state import session_of

if TYPE_CHECKING:
    from .handles import OnnxSessions


@pytest.fixture
def onnx_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OnnxSessions:
    """Open ONNX models for measuring: `onnx_session("models/encoder.onnx").measure(shapes={"batch": 1})`.

    Call it with the model's path, relative to the working directory, and, by keyword:

    - `ep`: the execution provider that this session demands, such as `"cuda"`; else that of the options
    - `provider_options`: options of the EP, `{"device_id": 1}`
    - `session_options`: fields of `onnxruntime.SessionOptions` and configuration entries,
      `{"graph_optimization_level": "basic", "session.disable_prepacking": "1"}`
    - `free_dimensions`: symbolic dimensions that are fixed when the session is created, `{"batch": 1}`
    - `bind`: True keeps inputs and outputs on the device (IOBinding)
    - `custom_op_libraries`: paths of shared libraries with custom operators
    - `label`: a name, where one test measures several sessions

    The handle it returns has

    - `measure(feeds)` or `measure(shapes={"batch": 1, "seq": 128})`: measures in fresh processes; budget and baseline
      are judged when the test ends
    - `run(feeds)`: runs a warmed-up session in the test's own process and returns its outputs
    - `inference_session`: that session

    Example:
        def test_encoder(onnx_session):
            onnx_session("models/encoder.onnx").measure(shapes={"batch": 1, "seq": 128})
    """
    active = session_of(request.config)
    if active is None:
        pytest.skip("needs --onnxperf")
    from .handles import OnnxSessions

    return OnnxSessions(active, request.node, lambda: tmp_path_factory.mktemp("onnxperf"))
