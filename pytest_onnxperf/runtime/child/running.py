"""Runs a session on the feeds of `inputs`, with the outputs on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .element_types import InputError, element_type_of, is_native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import onnxruntime

    from .inputs import Feed


def run(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Feed], output_names: Sequence[str] | None = None
) -> list[object]:
    """Run a session once; see `runner`."""
    return runner(session, feeds, output_names)()


def runner(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Feed], output_names: Sequence[str] | None = None
) -> Callable[[], list[object]]:
    """Return a function that runs a session once and returns its outputs on the host.

    What can be decided once is decided here, so that a timed round is one call of the runtime. The outputs are numpy
    arrays; those whose element type numpy lacks are `OrtValue`s on the host.

    Raises:
        InputError: the feeds hold strings while an output has a type that numpy lacks.
    """
    outputs = {each.name: each.type for each in session.get_outputs()}
    names = list(output_names) if output_names else list(outputs)
    elements = [element_type_of(outputs.get(name, "")) for name in names]
    if all(element is None or element.is_native for element in elements):
        run_session, fixed_feeds = session.run, dict(feeds)
        # Nothing more, not even a `partial` in its place: that is 2 % of a model of 10 us.
        return lambda: run_session(names, fixed_feeds)
    values = {name: _host_value(name, feed) for name, feed in feeds.items()}
    run_values = session.run_with_ort_values
    return lambda: [to_numpy(value) for value in run_values(names, values)]


def _host_value(name: str, feed: Feed) -> onnxruntime.OrtValue:
    import onnxruntime

    if isinstance(feed, onnxruntime.OrtValue):
        return feed
    if not isinstance(feed, np.ndarray) or feed.dtype.kind in "OU":
        msg = (
            f"input `{name}` is no tensor of numbers and an output has a type that numpy lacks: onnxruntime "
            f"{onnxruntime.__version__} cannot run both at once from Python; ask for the other outputs by name"
        )
        raise InputError(msg)
    return onnxruntime.OrtValue.ortvalue_from_numpy(feed)


def to_numpy(value: onnxruntime.OrtValue) -> object:
    """Return a tensor on the host as an array, or the value itself where numpy lacks its type."""
    return value.numpy() if is_native(value.data_type()) else value
