"""A GPU for each worker of pytest-xdist: which it has as its first, where a machine has several that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class VisibleGpus:
    """The GPUs that CUDA shows a process, as `CUDA_VISIBLE_DEVICES` names them, and who has which as its first."""

    names: Sequence[str]
    """Index or UUID of each, two or more."""
    firsts: dict[str, str] = field(default_factory=dict)
    """Worker -> its first."""

    def take(self, worker: str) -> str:
        """Give a worker the GPU that the fewest have, and return its `CUDA_VISIBLE_DEVICES`.

        The others follow, so that a test that names a `device_id` still finds one. Two workers that share a GPU take
        turns by the lock of the device.

        >>> gpus = VisibleGpus(["4", "6"])
        >>> gpus.take("gw0"), gpus.take("gw1"), gpus.take("gw2")
        ('4,6', '6,4', '4,6')
        """
        taken = list(self.firsts.values())
        at = min(range(len(self.names)), key=lambda index: taken.count(self.names[index]))
        self.firsts[worker] = self.names[at]
        return ",".join([*self.names[at:], *self.names[:at]])

    def free(self, worker: str) -> None:
        """Take its GPU from a worker that has ended."""
        self.firsts.pop(worker, None)


def alike(names: Sequence[str], models: Sequence[str]) -> tuple[str, ...]:
    """Return the GPUs of the model of the first: baselines belong to a model, and a result must not depend on a worker.

    Args:
        names: Of the GPUs, as `CUDA_VISIBLE_DEVICES` has them.
        models: What each is; empty where it is not known.

    >>> alike(["0", "1", "2"], ["NVIDIA H200", "NVIDIA T4", "NVIDIA H200"])
    ('0', '2')
    """
    return tuple(name for name, model in zip(names, models, strict=True) if model and model == models[0])
