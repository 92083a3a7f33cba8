"""The workload that times are of: shapes that the test gives, tokens, threads. Times of another one are no baseline.

It is the test's and never the model's: a model that makes more of the same inputs has become slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def workload(ep: str, threads: int, **parts: object) -> dict[str, str]:
    """Return a workload as it is stored.

    Args:
        ep: Short name of the EP. Threads belong to the workload of the CPU: beside a GPU they follow from the host.
        threads: Intra-op threads; 0, where session options of the test set them, is left out.
        parts: `inputs` of a session; `tokens` of a generator, and `concurrency`.
    """
    found = {name: str(value) for name, value in parts.items() if value}
    return {**found, "threads": str(threads)} if threads and ep == "cpu" else found


def sizes_text(sizes: Mapping[str, int | Sequence[int]]) -> str:
    """Write sizes of dimensions, and whole shapes, by their names.

    >>> sizes_text({"seq": 128, "batch": 8, "x": [8, 2]})
    'batch=8, seq=128, x=[8,2]'
    """
    texts = {name: _shape(each) if isinstance(each, Sequence) else str(each) for name, each in sizes.items()}
    return ", ".join(f"{name}={texts[name]}" for name in sorted(texts))


def shapes_text(shapes: Iterable[Sequence[int]]) -> str:
    """Write the shapes of arrays, equal ones together.

    >>> shapes_text([(1, 128), (8,), (1, 128)])
    '2 [1,128], [8]'
    """
    counts = Counter(map(_shape, shapes))
    return ", ".join(f"{count} {shape}" if count > 1 else shape for shape, count in counts.items())


def _shape(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def tokens_text(batch_size: int, prompt_tokens: int, new_tokens: int) -> str:
    """Write the tokens of a generation.

    >>> tokens_text(4, 128, 32)
    '4 x (128 + 32 new)'
    """
    return f"{batch_size} x ({prompt_tokens} + {new_tokens} new)"


def workload_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Say in what two workloads differ, `threads 2 -> 1`; what one of them does not tell is no difference."""
    return [f"{name} {old[name]} -> {new[name]}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
