"""The reference workloads beside one tested work: made of their kinds and sizes, run in turn with it, closed.

Which kinds there are: see `reference` (numpy, on the CPU) and `reference_cuda`.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from . import reference, reference_cuda
from .cuda_libraries import Cuda
from .reference import NotPossibleError

if TYPE_CHECKING:
    from collections.abc import Callable

TESTED = "tested"


class References:
    """Warm workloads, each of a kind and a fixed size."""

    def __init__(self, sizes: dict[str, dict[str, int]], tested_ns: int, device_id: int = 0) -> None:
        """Make them.

        Args:
            sizes: Kind -> size; those of an empty one take together about a third of `tested_ns`.
            tested_ns: The time of the tested work.
            device_id: Of the device that it runs on, for the kinds that run there too.

        Raises:
            NotPossibleError: One of them does not run here: without it, those beside it would have more of the caches.
        """
        self.sizes = sizes
        self._cuda: Cuda | None = None
        self._works: list[Any] = []
        wanted_ns = tested_ns // (3 * max(len(sizes), 1))
        try:
            for kind, size in sizes.items():
                self._works.append(self._made(kind, size, wanted_ns, device_id))
            for work in self._works:
                work.run()
        except NotPossibleError:
            self.close()
            raise

    def _made(self, kind: str, size: dict[str, int], wanted_ns: int, device_id: int) -> Any:
        try:
            if kind in reference.KINDS:
                return reference.Reference(kind, dict(size) or reference.calibrated(kind, wanted_ns))
            if kind in reference_cuda.KINDS:
                self._cuda = self._cuda or Cuda(device_id)
                return reference_cuda.made(kind, size, wanted_ns, self._cuda)
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            msg = f"the reference `{kind}` cannot be made in the size {size} that the baseline has: {error!r}"
            raise NotPossibleError(msg) from error
        msg = f"the baseline's kind `{kind}` is none that this version knows"
        raise NotPossibleError(msg)

    def run(self, times_ns: dict[str, list[int]]) -> None:
        """Run each once, in random order, and add its time.

        Raises:
            NotPossibleError: One of them failed.
        """
        _run_in_turn([(each.kind, each.run) for each in self._works], times_ns)

    def paired_rounds(self, tested: Callable[[], Any], rounds: int) -> dict[str, list[int]]:
        """Time rounds of the tested work and of each reference, in random order within each pair.

        Returns:
            `tested`, and each kind -> times in ns, one for each pair.

        Raises:
            NotPossibleError: A reference failed.
        """
        works = [(TESTED, tested), *((each.kind, each.run) for each in self._works)]
        times: dict[str, list[int]] = {name: [] for name, _ in works}
        for _ in range(rounds):
            _run_in_turn(works, times)
        return times

    def described(self) -> dict[str, Any]:
        """Return kind -> `size`, `version` and `checksum`.

        Raises:
            NotPossibleError: A result cannot be read back.
        """
        return {each.kind: each.described() for each in self._works}

    def close(self) -> None:
        """Free what they took on a device."""
        self._works.clear()
        if self._cuda is not None:
            self._cuda.close()
        self._cuda = None


def _run_in_turn(works: list[tuple[str, Callable[[], Any]]], times_ns: dict[str, list[int]]) -> None:
    clock = time.perf_counter_ns
    for name, run in random.sample(works, len(works)):
        begin_ns = clock()
        run()
        times_ns[name].append(clock() - begin_ns)
