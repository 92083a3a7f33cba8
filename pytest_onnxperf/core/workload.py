"""The workload that times are of: shapes that the test gives, tokens, threads. Times of another one are no baseline.

It is the test's and never the model's: a model that makes more of the same inputs has become slower.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from .text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_NAMES: Final = 4


def workload(ep: str, threads: int, **parts: object) -> dict[str, str]:
    """Return a workload as it is stored.

    Args:
        ep: Short name of the EP. Threads belong to the workload of the CPU: beside a GPU they follow from the host.
        threads: Intra-op threads.
        parts: `inputs` of a session; `tokens` of a generator, and `concurrency`.
    """
    found = {name: str(value) for name, value in parts.items() if value}
    return {**found, "threads": str(threads)} if ep == "cpu" else found


def sizes_text(sizes: Mapping[str, int | Sequence[int]]) -> str:
    """Write sizes of dimensions, and whole shapes, by their names; names of one shape together where they are many.

    >>> sizes_text({"seq": 128, "batch": 8, "x": [8, 2]}), sizes_text({f"kv.{place}": [1, 4] for place in range(48)})
    ('batch=8, seq=128, x=[8,2]', 'kv.0 and 47 more=[1,4]')
    >>> sizes_text({})
    'of the model'
    """
    names: dict[str, list[str]] = {}
    for name in sorted(sizes):
        each = sizes[name]
        names.setdefault(_size_text(each), []).append(name)
    parts = []
    for shape, found in names.items():
        shown = found if len(found) <= _MOST_NAMES else [f"{found[0]} and {len(found) - 1} more"]
        parts += [f"{name}={shape}" for name in shown]
    return ", ".join(sorted(parts)) or "of the model"


def _size_text(size: int | Sequence[int]) -> str:
    """Write a number, or a shape as any sequence gives it: an array of numpy is one too, and is not a `Sequence`."""
    try:
        return str(operator.index(size))  # type: ignore[arg-type]
    except TypeError:
        return f"[{','.join(map(str, size))}]"  # type: ignore[arg-type]


def tokens_text(batch_size: int, prompt_tokens: int, new_tokens: int) -> str:
    """Write the tokens of a generation.

    >>> tokens_text(4, 128, 32)
    '4 x (128 + 32 new)'
    """
    return f"{batch_size} x ({prompt_tokens} + {new_tokens} new)"


def workload_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Say in what two workloads differ, `threads 2 -> 1`; one that is empty is not known, and no other."""
    return list(map(printable, differing(old, new, "none"))) if old and new else []


def option_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Say what was set otherwise, `share_buffer true -> false`."""
    return differing(old, new, "unset")


def differing(old: Mapping[str, str], new: Mapping[str, str], missing: str) -> list[str]:
    """Say what differs between two mappings, `name old -> new`; `missing` stands for what one of them lacks."""
    names = sorted(name for name in {**old, **new} if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, missing)} -> {new.get(name, missing)}" for name in names]
