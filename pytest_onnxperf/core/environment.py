"""What a record was made on: device and execution provider make the key, versions are kept beside it and only shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .providers import short_name

# Words of a CPU's name that tell nothing about its speed, or that change between readings.
_EMPTY_WORDS = frozenset(
    ["cpu", "processor", "platinum", "gold", "silver", "bronze", "with", "radeon", "graphics", "virtual"]
)


@dataclass(frozen=True, slots=True)
class Environment:
    """Device, execution provider and versions of one measurement."""

    device: str
    """A name for people: `NVIDIA H200`, `AMD EPYC, family 25 model 1, 2 cores`."""
    device_key: str
    """The device in a baseline's path: lower case, digits and dashes."""
    execution_provider: str
    """ONNX Runtime's own string."""
    versions: Mapping[str, str]
    """`onnxruntime`, `numpy`, `python`, and `driver`, `cuda` where there are any."""

    @property
    def key(self) -> str:
        """The environment key: device and EP, never a version or a live value such as a clock."""
        return f"{self.device_key}.{short_name(self.execution_provider)}"

    def differing_versions(self, recorded: Mapping[str, str]) -> tuple[str, ...]:
        """Say which versions differ from recorded ones, as `onnxruntime 1.31.1 -> 1.32.0`."""
        names = sorted(set(self.versions) & set(recorded))
        return tuple(f"{n} {recorded[n]} -> {self.versions[n]}" for n in names if recorded[n] != self.versions[n])


def slug(text: str) -> str:
    """Write any name with lower-case letters, digits and single dashes.

    >>> slug("NVIDIA H200 (141 GB)")
    'nvidia-h200-141-gb'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"


def cpu_device(model_name: str, family: str, model: str, cores: int) -> tuple[str, str]:
    """Name a CPU for people and for a path.

    A virtual CPU's name says little, so the cores that may be used belong to it, and family and model where the name
    holds no number of its own.

    >>> cpu_device("Intel(R) Xeon(R) Platinum 8488C", "6", "143", 2)
    ('Intel Xeon Platinum 8488C, 2 cores', 'intel-xeon-8488c-2c')
    >>> cpu_device("AMD EPYC", "25", "1", 8)
    ('AMD EPYC, family 25 model 1, 8 cores', 'amd-epyc-f25m1-8c')
    """
    name = re.sub(r"\((r|tm|c)\)", " ", model_name, flags=re.IGNORECASE)
    name = re.sub(r"@.*$|\b\d+-core\b", " ", name, flags=re.IGNORECASE)
    words = [word for word in slug(name).split("-") if word not in _EMPTY_WORDS]
    shown = " ".join(name.split()) or "unknown CPU"
    if not any(any(c.isdigit() for c in word) for word in words) and family:
        words.append(f"f{family}m{model}")
        shown += f", family {family} model {model}"
    return f"{shown}, {cores} core{'s' if cores != 1 else ''}", "-".join([*words, f"{cores}c"])
