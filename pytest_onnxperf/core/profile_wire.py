"""One event of an ONNX Runtime profile, as it stands in the file, and how a line that is no valid JSON is read.

The runtime writes each event on a line of its own, in one frame that has not changed from 1.10 to 1.32. Up to 1.30 it
does not escape names: a quote, a newline or a backslash in a node's name makes invalid JSON, or valid JSON that says
something else. The frame still tells where the name begins and ends.
"""

import json
import re
from typing import Annotated, Any

import msgspec

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding may raise."""

Count = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class NoEventError(ValueError):
    """A piece of the file is no event; its text is the reason."""


class Head(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An event without its arguments."""

    cat: str
    pid: Count
    tid: Count
    dur: Count
    ts: Count
    ph: str
    name: str


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that this package uses; any of them may be absent."""

    op_name: str = ""
    provider: str = ""
    input_type_shape: Any = None
    output_type_shape: Any = None
    dropped_event_count: str = ""
    activation_size: Any = None
    parameter_size: Any = None
    output_size: Any = None
    stream: Any = None


class Event(Head, gc=False, forbid_unknown_fields=True):
    """An event with its arguments."""

    args: Args = msgspec.field(default_factory=Args)


decode_heads = msgspec.json.Decoder(list[Head]).decode
_decode_event = msgspec.json.Decoder(Event).decode
_decode_args = msgspec.json.Decoder(Args).decode
_decode_any = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode

_FRAME = re.compile(
    rb'\{"cat" : "(?P<cat>\w+)","pid" :(?P<pid>-?\d{1,18}),"tid" :(?P<tid>-?\d{1,18}),"dur" :(?P<dur>-?\d{1,18}),'
    rb'"ts" :(?P<ts>-?\d{1,18}),"ph" : "(?P<ph>\w)","name" :"(?P<name>.*)","args" : (?P<args>\{.*\})\}',
    re.DOTALL,
)
_OP_NAME = re.compile(rb'"op_name" : "([^"]*)"')
_PROVIDER = re.compile(rb'"provider" : "([^"]*)"')


def event_of_line(line: bytes) -> tuple[Event, bool]:
    """Read one line, without its comma and line end.

    Returns:
        The event, and True where the line had to be repaired.

    Raises:
        NoEventError: No event can be made out of it; its text is the reason.
    """
    if b"\\" not in line:
        try:
            return _decode_event(line), False
        except BAD_JSON:
            pass
    frame = _FRAME.fullmatch(line)
    if frame is not None:
        return _event_of_frame(frame)
    return event_of_object(_decode_leniently(line)), False


def _decode_leniently(text: bytes) -> object:
    """Decode JSON that may hold control characters and bytes that are no UTF-8."""
    try:
        return _decode_any(text)
    except BAD_JSON:
        pass
    try:
        return json.loads(decode_text(text), strict=False)
    except RecursionError:
        msg = "not JSON: nested too deeply"
        raise NoEventError(msg) from None
    except ValueError as error:
        msg = f"not JSON: {getattr(error, 'msg', 'a number is too long')}"
        raise NoEventError(msg) from None


def _event_of_frame(frame: re.Match[bytes]) -> tuple[Event, bool]:
    name, is_plain = _node_name(frame["name"], is_escaped=b'"mem_' in frame["args"])
    try:
        args, is_valid = _decode_args(frame["args"]), True
    except BAD_JSON:
        args, is_valid = _args_of_invalid(frame["args"]), False
    numbers = {key: int(frame[key]) for key in ("pid", "tid", "dur", "ts")}
    event = Event(cat=frame["cat"].decode("latin-1"), ph=frame["ph"].decode("latin-1"), name=name, args=args, **numbers)
    return event, not (is_plain and is_valid)


def _args_of_invalid(text: bytes) -> Args:
    """Find the operator in arguments that are no JSON; without it they are cut off, where an inner object ends."""
    op_name, provider = _OP_NAME.search(text), _PROVIDER.search(text)
    if op_name is None:
        msg = "not an event: its arguments are no JSON and name no operator"
        raise NoEventError(msg)
    return Args(decode_text(op_name[1]), decode_text(provider[1]) if provider else "")


def _node_name(raw: bytes, *, is_escaped: bool) -> tuple[str, bool]:
    """Return a name, and whether plain JSON would have said the same.

    Names are escaped from 1.31, and `mem_` arguments exist from 1.28: without them the bytes are the name. With them
    (1.28 to 1.32) what can be read as JSON is read as JSON.
    """
    try:
        text = _decode_text(b'"' + raw + b'"')
    except BAD_JSON:
        return decode_text(raw), False
    if is_escaped:
        return text, True
    return decode_text(raw), b"\\" not in raw


def decode_text(raw: bytes) -> str:
    """Decode UTF-8, and whatever else it is as Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def event_of_object(value: object) -> Event:
    """Make an event of a decoded JSON object.

    Raises:
        NoEventError: It is no event; the text is the reason.
    """
    if not isinstance(value, dict):
        msg = "not a JSON object"
        raise NoEventError(msg)
    cat, name = value.get("cat"), value.get("name")
    if not isinstance(cat, str) or not isinstance(name, str):
        msg = "not an event: `cat` and `name` are not both there"
        raise NoEventError(msg)
    numbers = {key: _integer(value, key) for key in ("pid", "tid", "dur", "ts")}
    return Event(cat=cat, name=name, ph="X", args=_args_of_object(value.get("args")), **numbers)


def _integer(value: dict[str, object], key: str) -> int:
    number = value.get(key, 0)
    if isinstance(number, int | float) and -(2**62) <= number <= 2**62:
        return int(number)
    msg = f"not an event: `{key}` is no number in range"
    raise NoEventError(msg)


_ANY_TYPE = ("input_type_shape", "output_type_shape", "activation_size", "parameter_size", "output_size", "stream")


def _args_of_object(value: object) -> Args:
    if not isinstance(value, dict):
        return Args()
    texts = {
        key: value[key] for key in ("op_name", "provider", "dropped_event_count") if isinstance(value.get(key), str)
    }
    others: dict[str, Any] = {key: value.get(key) for key in _ANY_TYPE}
    return Args(**texts, **others)


def is_integer_only_small(args: Args) -> bool:
    """Return True where every tensor is integer or bool with at most 100 elements, and there is one.

    False: another tensor is among them, or no shapes are given.
    """
    tensors = [*tensors_of(args.input_type_shape), *tensors_of(args.output_type_shape)]
    return bool(tensors) and all(_is_small_integer(kind, shape) for kind, shape in tensors)


def tensors_of(shapes: object) -> list[tuple[str, object]]:
    """Return element type and shape of each tensor of `input_type_shape` or `output_type_shape`."""
    if not isinstance(shapes, list):
        return []
    return [(str(kind), shape) for tensor in shapes if isinstance(tensor, dict) for kind, shape in tensor.items()]


def _is_small_integer(kind: str, shape: object) -> bool:
    """True up to 100 elements: a shape, an axis list or a few indices, as against data."""
    if not kind.startswith(("int", "uint", "bool")) or not isinstance(shape, list):
        return False
    elements = 1
    for extent in shape:
        if not isinstance(extent, int):
            return False
        elements *= extent
    return elements <= _SMALL_ELEMENTS


_SMALL_ELEMENTS = 100
