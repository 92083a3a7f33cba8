"""Messages between pytest and a measuring process: JSON with binary attachments, in frames on a pipe.

Arrays travel as raw bytes with dtype and shape, never pickled: the two sides may be other Pythons with other numpys.
A frame begins with a mark, so that whatever an interpreter prints while it starts is skipped.
"""

from __future__ import annotations

import json
import os
import struct
from typing import IO, TYPE_CHECKING, Any, Union

import numpy as np

from .element_types import RawTensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARK = b"\x00onnxperf\x01"
_HEAD = struct.Struct(">Q")

Message = dict[str, Any]
Array = Union["np.ndarray[Any, np.dtype[Any]]", RawTensor]


def write_frame(stream: IO[bytes], message: Message, blobs: Sequence[bytes] = ()) -> None:
    """Write one message with its attachments.

    Raises:
        TypeError: Something in the message is no JSON; nothing was written.
    """
    header = json.dumps({"message": message, "blobs": [len(blob) for blob in blobs]}, default=_plain).encode()
    stream.write(MARK + _HEAD.pack(len(header)) + header)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def _plain(value: Any) -> Any:
    """Turn what numpy and pathlib make of plain values back into plain values."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return os.fspath(value)


def read_frame(stream: IO[bytes]) -> tuple[Message, list[bytes]] | None:
    """Read one message with its attachments; None at the end of the stream, also in the middle of a frame."""
    if not _skip_to_mark(stream):
        return None
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    header = stream.read(_HEAD.unpack(head)[0])
    try:
        frame = json.loads(header)
    except ValueError:
        return None
    blobs = [stream.read(size) for size in frame["blobs"]]
    if [len(blob) for blob in blobs] != frame["blobs"]:
        return None
    return frame["message"], blobs


def _skip_to_mark(stream: IO[bytes]) -> bool:
    seen = b""
    while not seen.endswith(MARK):
        byte = stream.read(1)
        if not byte:
            return False
        seen = (seen + byte)[-len(MARK) :]
    return True


def pack_feeds(feeds: Mapping[str, Array]) -> tuple[list[Message], list[bytes]]:
    """Split arrays into descriptions and raw bytes."""
    specs: list[Message] = []
    blobs: list[bytes] = []
    for name, array in feeds.items():
        spec: Message = {"name": name, "shape": list(array.shape)}
        if isinstance(array, RawTensor):
            spec["element_type"] = array.element_type
            blobs.append(array.data)
        elif array.dtype.kind in "OUS":
            spec["dtype"] = "object"
            blobs.append(json.dumps([_text(value) for value in array.reshape(-1)]).encode())
        else:
            spec["dtype"] = array.dtype.str
            blobs.append(array.tobytes())
        specs.append(spec)
    return specs, blobs


def unpack_feeds(specs: Sequence[Message], blobs: Sequence[bytes]) -> dict[str, Array]:
    """Join what `pack_feeds` split."""
    feeds: dict[str, Array] = {}
    for spec, blob in zip(specs, blobs):
        shape = tuple(spec["shape"])
        if "element_type" in spec:
            feeds[spec["name"]] = RawTensor(blob, spec["element_type"], shape)
        elif spec["dtype"] == "object":
            feeds[spec["name"]] = np.array(json.loads(blob), dtype=object).reshape(shape)
        else:
            feeds[spec["name"]] = np.frombuffer(bytearray(blob), dtype=spec["dtype"]).reshape(shape)
    return feeds


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
