"""Why the facts are what they are: memcpy culprits, placement, attention kernels, roofline, by session of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .attention import AttentionUse
from .culprit import CulpritGroup
from .placement import Placement
from .roofline import Ceilings, RooflineRow


@dataclass(frozen=True, slots=True)
class NotFlash:
    """An attention node that did not run Flash Attention, and what is known to stand in its way."""

    use: AttentionUse
    reasons: tuple[str, ...]
    """Empty where neither the model nor the device tells."""


@dataclass(frozen=True, slots=True)
class PhaseRoofline:
    """The roofline of one phase."""

    phase: str
    """Empty for a session's run."""
    rows: tuple[RooflineRow, ...]


@dataclass(frozen=True, slots=True)
class ModelExplanation:
    """One session of a model."""

    session: str
    """`decoder`, `vision`, ...; empty where the model is one session."""
    opsets: Mapping[str, int]
    """Domain, empty for ai.onnx -> version, of the file."""
    culprits: tuple[CulpritGroup, ...]
    why_no_graph: str
    """Why the optimised graph could not be had, without which a culprit is only suspected; else empty."""
    placement: Placement
    boundary: str
    """What is copied where a run begins and ends; no nodes, and not counted."""
    not_flash: tuple[NotFlash, ...] = ()
    rooflines: tuple[PhaseRoofline, ...] = ()
    ceilings: Ceilings | None = None
    """Of the device; None where they are not known."""
    changed_ops: Mapping[str, int] = field(default_factory=dict)
    """Operator of ai.onnx that has an older form -> the opset that changed it last, up to the model's own."""
    rare_types: Mapping[str, str] = field(default_factory=dict)
    """Operator on the CPU -> element type of its first input, where kernels of a device seldom take that."""
    cast_pairs: int = 0
    """Casts whose result another Cast turns back, in one run."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an explaining process found out."""

    models: tuple[ModelExplanation, ...] = field(default_factory=tuple)
    why_not: str = ""
    """Why there is none, or none of a further session; else empty."""
