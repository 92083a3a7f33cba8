"""Compares the outputs of two arms by name, in pieces, so that large outputs are not held several times over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

_PIECE = 1 << 20
Found = dict[str, Any]


def compare_outputs(reference: Mapping[str, Any], candidate: Mapping[str, Any], rtol: float, atol: float) -> Found:
    """Compare outputs, name -> array: |candidate - reference| <= atol + rtol * |reference|, NaN equals NaN.

    Other floating types, float16 and float32 say, are compared as they are, as numbers. An infinity equals its like.

    Returns:
        `state` (`equal`, `differ` or `cannot tell`), `text`, and `largest_difference`, absolute, None without numbers.
    """
    if set(reference) != set(candidate):
        names = "; ".join(
            f"the {arm} has {', '.join(f'`{name}`' for name in outputs)}"
            for arm, outputs in (("reference", reference), ("candidate", candidate))
        )
        return _found("cannot tell", f"the outputs have other names: {names}")
    results = [_compare(name, reference[name], candidate[name], rtol, atol) for name in reference]
    largest = max((each["largest_difference"] or 0.0 for each in results), default=None)
    for state in ("differ", "cannot tell"):
        texts = [each["text"] for each in results if each["state"] == state]
        if texts:
            more = f" (and {len(texts) - 1} more outputs)" if len(texts) > 1 else ""
            return _found(state, texts[0] + more, largest)
    worst = max(results, key=lambda each: each["largest_difference"] or 0.0, default=None)
    return _found("equal", worst["text"] if worst else "the models have no outputs", largest)


def _found(state: str, text: str, largest: float | None = None) -> Found:
    return {"state": state, "text": text, "largest_difference": largest}


def _compare(name: str, reference: Any, candidate: Any, rtol: float, atol: float) -> Found:
    for value in (reference, candidate):
        if not isinstance(value, (np.ndarray, np.generic)):
            what = value.data_type() if hasattr(value, "data_type") else type(value).__name__
            return _found("cannot tell", f"`{name}` is a {what}, which numpy has no numbers for")
    reference, candidate = np.asarray(reference), np.asarray(candidate)
    if reference.shape != candidate.shape:
        return _found(
            "differ",
            f"`{name}` has shape {list(reference.shape)} in the reference, {list(candidate.shape)} in the candidate",
        )
    if reference.dtype.kind in "OUS" or candidate.dtype.kind in "OUS":
        wrong = int(np.sum(reference != candidate))
        return _found("differ" if wrong else "equal", f"{wrong} of {reference.size} texts of `{name}` differ", None)
    return _compare_numbers(name, reference, candidate, rtol, atol)


def _compare_numbers(name: str, reference: NDArray[Any], candidate: NDArray[Any], rtol: float, atol: float) -> Found:
    beyond, largest, place, at = 0, 0.0, -1, 0
    for expected, got in _pieces(reference, candidate):
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(got - expected)
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))  # infinities of one sign too
            difference[same] = 0
            difference[np.isnan(difference)] = np.inf  # NaN in one place alone
            beyond += int(np.sum(~same & ~(difference <= atol + rtol * np.abs(expected) * np.isfinite(expected))))
        if difference.size and (place < 0 or difference.max() > largest):
            largest, place = float(difference.max()), at + int(difference.argmax())
        at += difference.size
    where = [int(index) for index in np.unravel_index(max(place, 0), reference.shape)] if reference.size else []
    text = f"`{name}`: largest difference {largest:.3g}"
    if not beyond:
        return _found("equal", text, largest)
    values = f"{reference[tuple(where)]} and {candidate[tuple(where)]}"
    return _found("differ", f"{text} at {where} ({values}), {beyond} of {reference.size} values beyond", largest)


def _pieces(reference: NDArray[Any], candidate: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    wide = np.complex128 if "c" in (reference.dtype.kind, candidate.dtype.kind) else np.float64
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (reference, candidate)]
    for begin in range(0, flat[0].size, _PIECE):
        yield flat[0][begin : begin + _PIECE].astype(wide), flat[1][begin : begin + _PIECE].astype(wide)
