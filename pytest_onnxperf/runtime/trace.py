"""What a profile process left of one phase: its profile, and the single events of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_onnxperf.core.attention import attention_of
from pytest_onnxperf.core.facts import Facts, facts_of
from pytest_onnxperf.core.phases import joined
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_detail import Detail, read_detail
from pytest_onnxperf.core.profile_json import read_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_onnxperf.core.ort_log import OrtLog
    from pytest_onnxperf.core.providers import Provider


DECODER: Final = "decoder"


@dataclass(frozen=True, slots=True)
class Trace:
    """The measured runs of one phase."""

    profile: Profile
    details: tuple[Detail, ...]
    """One for each file."""
    phase: str
    """`prefill`, `decode`, `prefill.vision`; empty for a session's runs."""

    @property
    def session(self) -> str:
        """The session that ran: `decoder`, `vision`, ...; empty for one that is no part of a generator."""
        if not self.phase:
            return ""
        return self.phase.partition(".")[2] or DECODER

    def facts(self, log: OrtLog | None, wanted: Provider, versions: Mapping[str, str]) -> Facts:
        """Return the facts of the runs.

        Args:
            log: Of the process; None where it has none of its own.
            wanted: The execution provider that was asked for.
            versions: Of which `onnxruntime` is read.
        """
        attention = attention_of(
            self.details, log, wanted=wanted.name, runtime_version=versions.get("onnxruntime", ""), phase=self.phase
        )
        return facts_of(self.profile, log.forced_cpu_nodes if log else None, attention)


def read_trace(files: Sequence[tuple[str, Sequence[tuple[int, int]] | None]], phase: str = "") -> Trace:
    """Read the files of one phase, each a path with its measured windows.

    Raises:
        ProfileError: One of them cannot be read.
    """
    profiles = [read_profile(path, windows) for path, windows in files]
    details = tuple(read_detail(path, windows) for path, windows in files)
    return Trace(joined(profiles), details, phase)
