"""What can go wrong, as one tree that callers catch by its root.

OnnxPerfError
├── ProfileError            an ONNX Runtime profile cannot be used
│   ├── ProfileMissing      no file there, or it may not be read
│   ├── ProfileEmpty        the file is there and has no content
│   └── NotAProfile         the content is something else
├── SettingError            an option, an ini value or an argument is wrong
├── BudgetError             a marker's key or value is wrong
├── BaselineError           a baseline file cannot be read or written
├── ResultsError            a file of results cannot be read, written or merged
├── ModelError              the model cannot be loaded
└── MeasurementError        a measurement did not come to its end
    ├── InputsError         what the test gives does not fit the inputs of the model
    └── ProviderError       the execution provider does not run here
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class OnnxPerfError(Exception):
    """Root of all errors that this package raises on purpose; its text says what, where and what to do."""


class ProfileError(OnnxPerfError):
    """An ONNX Runtime profile cannot be used."""


class ProfileMissing(ProfileError):
    """No file is there, or it is not a file, or it may not be read."""


class ProfileEmpty(ProfileError):
    """The file is there and has 0 bytes: ONNX Runtime creates it with the session and writes it at the end."""


class NotAProfile(ProfileError):
    """The file has content that is no profile of ONNX Runtime."""


class SettingError(OnnxPerfError):
    """An option, an ini value or an argument has a value that is not allowed."""


class BudgetError(OnnxPerfError):
    """A marker holds an unknown key, or a value of the wrong type or range."""


class BaselineError(OnnxPerfError):
    """A baseline file cannot be read or written; it is left as it is."""


class ResultsError(OnnxPerfError):
    """A file of `--onnxperf-json` cannot be read, written or merged; what is there is left as it is."""


class ModelError(OnnxPerfError):
    """The model file is missing, is no ONNX model, or the runtime refuses it."""


class MeasurementError(OnnxPerfError):
    """A measurement did not come to its end."""


class InputsError(MeasurementError):
    """The feeds, shapes or ranges of the test do not fit the inputs of the model."""


class ProviderError(MeasurementError):
    """The execution provider that was asked for does not run here."""


@contextmanager
def about(what: str) -> Iterator[None]:
    """Say in an error of the block what it is about; its kind stays."""
    try:
        yield
    except OnnxPerfError as error:
        msg = f"{what}: {error}"
        raise type(error)(msg) from error
