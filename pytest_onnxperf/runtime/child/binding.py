"""Keeps the inputs and outputs of a session on its device, by IOBinding.

What onnxruntime really does with a binding, measured on 1.20.1, 1.27.0 (webgpu) and 1.32.0:

- A device that is not the session's own is no error, only a silent copy on every run. So the device always comes from
  the session's first execution provider.
- `bind_output(name, "webgpu")` works; `OrtValue.ortvalue_from_numpy(array, "webgpu")` fails ("Can't allocate memory on
  the device"). An input gets onto a WebGPU device as the output of a session that does nothing but Identity.
- On WebGPU neither `run_with_iobinding` nor `synchronize_outputs` waits for the device (0.3 ms for a run of 500 ms).
  Reading back any value of the same device does, because its queue keeps the order: `Bound` reads back one number.
- A WebGPU buffer that outlives the last WebGPU session is a segmentation fault when it is freed, also at the end of the
  interpreter. `Bound` owns the session and clears its bindings first.
- Strings and non-tensors cannot be bound at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .element_types import InputError, element_type_of, is_native
from .running import run, runner, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnxruntime

    from .inputs import Feed

__all__ = ["DEVICES", "Bound", "bind", "run", "runner"]

DEVICES = {
    "CPUExecutionProvider": "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
    "WebGpuExecutionProvider": "webgpu",
    "DmlExecutionProvider": "dml",
    "CANNExecutionProvider": "cann",
}
"""Execution provider -> the name that ONNX Runtime's Python API has for its device."""


class Bound:
    """A session with its inputs and outputs bound to the device.

    Close it before the session goes, or let it go with the session: it keeps the session alive.
    """

    binding: Any = None
    """The `onnxruntime.IOBinding`; None once it is closed."""

    def __init__(self, session: onnxruntime.InferenceSession, device: str, device_id: int) -> None:
        self._uploads: list[Bound] = []
        self._one_number: Bound | None = None
        self.session = session
        self.device = device
        """ONNX Runtime's name of the device, `"cpu"`, `"cuda"`, `"webgpu"`, ..."""
        self.device_id = device_id
        self.binding = session.io_binding()

    def run(self) -> None:
        """Run once and wait until the device has finished; inputs and outputs stay where they are."""
        self.session.run_with_iobinding(self.binding)
        if self._one_number is None:
            self.binding.synchronize_outputs()
        else:
            self._one_number.binding.copy_outputs_to_cpu()

    def outputs(self) -> list[object]:
        """Copy the outputs of the last run to the host: arrays, or `OrtValue`s of types that numpy lacks.

        An `OrtValue` may lie on the device still.
        """
        values = self.binding.get_outputs()
        if all(is_native(value.data_type()) for value in values):
            return list(self.binding.copy_outputs_to_cpu())
        return [to_numpy(value) for value in values]

    def close(self) -> None:
        """Free what lies on the device, while a session is still there to free it; further calls do nothing."""
        binding, self.binding = self.binding, None
        if binding is not None:
            binding.clear_binding_outputs()
            binding.clear_binding_inputs()
        for upload in self._uploads:
            upload.close()

    def __enter__(self) -> Bound:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def bind_input(self, name: str, feed: Feed, *, is_host: bool) -> None:
        """Put one input on the device, or on the host; what the device API cannot hold stays on the host too."""
        import onnxruntime

        if isinstance(feed, onnxruntime.OrtValue):
            value = feed
        elif not isinstance(feed, np.ndarray) or feed.dtype.kind in "OU":
            msg = f"cannot bind input `{name}`: onnxruntime binds tensors of numbers only; measure without binding"
            raise InputError(msg)
        elif is_host or self.device == "cpu":
            value = onnxruntime.OrtValue.ortvalue_from_numpy(feed)
        elif self.device == "webgpu":
            value = self._upload(feed).binding.get_outputs()[0]
        else:
            value = onnxruntime.OrtValue.ortvalue_from_numpy(feed, self.device, self.device_id)
        self.binding.bind_ortvalue_input(name, value)

    def bind_outputs(self, host_names: set[str]) -> None:
        """Leave every output on the device, those in `host_names` on the host."""
        for output in self.session.get_outputs():
            element = element_type_of(output.type)
            if element is None or element.name == "string":
                msg = f"cannot bind output `{output.name}`: onnxruntime binds no {output.type}; measure without binding"
                raise InputError(msg)
            if output.name in host_names:
                self.binding.bind_output(output.name, "cpu")
            else:
                self.binding.bind_output(output.name, self.device, self.device_id)

    def wait_by_reading_back(self) -> None:
        """From now on `run` waits for the device by reading back one number that lies there."""
        self._one_number = self._upload(np.zeros(1, np.float32))

    def _upload(self, array: np.ndarray[Any, Any]) -> Bound:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        number = onnxruntime.OrtValue.ortvalue_from_numpy(array).element_type()
        session = onnxruntime.InferenceSession(
            _identity_model(number, array.ndim), options, providers=[self.session.get_providers()[0]]
        )
        upload = Bound(session, self.device, self.device_id)
        self._uploads.append(upload)
        upload.binding.bind_cpu_input("x", array)
        upload.binding.bind_output("y", self.device, self.device_id)
        session.run_with_iobinding(upload.binding)
        upload.binding.copy_outputs_to_cpu()
        return upload


def bind(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Feed], device: str | None = None, device_id: int = 0
) -> Bound:
    """Bind inputs and outputs to the device of the session's execution provider.

    What the model itself wants on the host (known from onnxruntime 1.23 on) and element types that numpy lacks stay on
    the host, and the runtime copies them where it must.

    Args:
        session: an `onnxruntime.InferenceSession`.
        feeds: from `inputs.make_feeds` or `inputs.check_feeds`.
        device: ONNX Runtime's name of the device; None is the session's own, the only one that can be bound.
        device_id: which of the devices of that kind.

    Raises:
        InputError: the execution provider has no device that can be bound, `device` is another one, or an input or
            output has a type that cannot be bound.
    """
    provider = session.get_providers()[0]
    if provider not in DEVICES:
        msg = (
            f"cannot bind inputs and outputs on {provider}: onnxruntime's Python API has no device name for it; "
            f"measure without binding (known: {', '.join(DEVICES)})"
        )
        raise InputError(msg)
    own = DEVICES[provider]
    if device not in (None, own):
        msg = f"cannot bind on `{device}`: the session runs on {provider}, whose device is `{own}`"
        raise InputError(msg)
    bound = Bound(session, own, device_id)
    host_names = _host_names(session)
    for name, feed in feeds.items():
        bound.bind_input(name, feed, is_host=name in host_names)
    bound.bind_outputs(host_names)
    if own == "webgpu":
        bound.wait_by_reading_back()
    return bound


def _host_names(session: onnxruntime.InferenceSession) -> set[str]:
    """Return the inputs and outputs that the session wants on the host; onnxruntime before 1.23 cannot say."""
    names = set()
    for describe, locate in (("get_inputs", "get_input_memory_infos"), ("get_outputs", "get_output_memory_infos")):
        if hasattr(session, locate):
            infos = list(getattr(session, locate)())
            declared = list(getattr(session, describe)())
            names |= {each.name for each, info in zip(declared, infos) if info.name == "Cpu"}
    return names


def _identity_model(element_number: int, rank: int) -> bytes:
    """Return an ONNX model y = Identity(x), IR 8, opset 16, written by hand: `onnx` may not be there.

    The numbers are the field numbers of `onnx.proto`.
    """

    def nested(field: int, content: bytes) -> bytes:
        return bytes([field << 3 | 2, len(content)]) + content

    def integer(field: int, number: int) -> bytes:
        return bytes([field << 3, number])

    dims = b"".join(nested(1, nested(2, b"%d" % axis)) for axis in range(rank))
    tensor = nested(1, integer(1, element_number) + nested(2, dims))
    node = nested(1, b"x") + nested(2, b"y") + nested(4, b"Identity")
    graph = (
        nested(1, node)
        + nested(2, b"copy")
        + nested(11, nested(1, b"x") + nested(2, tensor))
        + nested(12, nested(1, b"y") + nested(2, tensor))
    )
    return integer(1, 8) + nested(7, graph) + nested(8, nested(1, b"") + integer(2, 16))
