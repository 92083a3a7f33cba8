"""Reads a profile that does not have one event a line: indented, on one line, or wrapped in an object."""

import json
import re

import msgspec

from pytest_onnxperf.core.profile_events import Sink
from pytest_onnxperf.core.profile_wire import BAD_JSON, decode_text, event_of_object

_EVENT = re.compile(r'\{\s*"')
_WRAPPER = re.compile(r'\{\s*"traceEvents"\s*:\s*')


def add_whole(raw: bytes, events: Sink) -> bool:
    """Read all events of the text; True where its end is missing."""
    try:
        value = msgspec.json.decode(raw)
    except BAD_JSON:
        return _add_pieces(decode_text(raw), events)
    if isinstance(value, dict) and "traceEvents" in value:
        value = value["traceEvents"]
    if not isinstance(value, list):
        events.add_unread(1, "not an array of events", raw)
        return False
    for index, item in enumerate(value):
        try:
            events.add(event_of_object(item))
        except ValueError as error:
            events.add_unread(index + 1, str(error), msgspec.json.encode(item))
    return False


def _add_pieces(text: str, events: Sink) -> bool:
    """Read one event after the other out of a text that as a whole is no JSON."""
    decode = json.JSONDecoder(strict=False).raw_decode
    wrapper = _WRAPPER.match(text)
    position = end = wrapper.end() if wrapper else 0
    while match := _EVENT.search(text, position):
        start = match.start()
        if between := text[position:start].strip("[, \t\r\n"):
            _add_unread(events, text, position, "not an event", between)
        try:
            value, position = decode(text, start)
            events.add(event_of_object(value))
            end = position
        except RecursionError:
            _add_unread(events, text, start, "nested too deeply", text[start : start + 100])
            return True
        except ValueError as error:
            _add_unread(events, text, start, str(error), text[start : start + 100])
            following = text.find('"cat"', start + len('{ "cat"'))
            position = len(text) if following < 0 else max(start + 1, text.rfind("{", 0, following))
    if not events.categories and not events.unread_lines:
        events.add_unread(1, "no event in it", text[:100].encode("utf-8", "replace"))
    return not text[end:].strip().startswith("]")


def _add_unread(events: Sink, text: str, position: int, reason: str, shown: str) -> None:
    line = text.count("\n", 0, position) + 1 if events.keeps_unread else 0
    events.add_unread(line, reason, shown.encode("utf-8", "replace"))
