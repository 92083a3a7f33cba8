"""Finds out which execution provider truly runs here: runs a product of two matrices on it and reads its profile.

`get_available_providers()` is no proof: it lists what the build was compiled with.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_onnxperf.core.errors import OnnxPerfError, ProfileError, ProviderError
from pytest_onnxperf.core.facts import facts_of
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.core.providers import CPU, PROVIDERS, Provider

from .process import ProcessWorker
from .session_job import SessionJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# y = MatMul(x, x) for float x[2,2], opset 13, IR 8; tests/runtime/test_probe.py makes the same bytes with `onnx`.
PROBE_MODEL: Final = (
    b'\x08\x08\x12\x00:D\n\x11\n\x01x\n\x01x\x12\x01y"\x06MatMul\x12\x05probeZ\x13\n\x01x\x12\x0e\n\x0c\x08\x01\x12'
    b"\x08\n\x02\x08\x02\n\x02\x08\x02b\x13\n\x01y\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x02\n\x02\x08\x02B\x04\n"
    b"\x00\x10\r"
)


@dataclass
class Prober:
    """Tries execution providers, each once, in a process of its own: an EP that crashes must not take pytest along."""

    timeout_s: float
    _reasons: dict[str, str] = field(default_factory=dict)
    _hello: dict[str, object] = field(default_factory=dict)

    def why_not(self, provider: Provider) -> str:
        """Return why a provider does not run here, with the words of ONNX Runtime; empty where it runs."""
        if provider.name not in self._reasons:
            self._reasons[provider.name] = self._try(provider)
        return self._reasons[provider.name]

    def best(self) -> Provider:
        """Return the first provider, in the order of `PROVIDERS`, that runs here.

        Raises:
            ProviderError: Not even the CPU runs: onnxruntime is missing or broken.
        """
        available = self.available()
        for provider in PROVIDERS:
            if provider.in_auto and provider.name in available and not self.why_not(provider):
                return provider
        msg = f"no execution provider runs here: {self.why_not(PROVIDERS[-1])}"
        raise ProviderError(msg)

    def available(self) -> tuple[str, ...]:
        """Return what this build of onnxruntime was compiled with.

        Raises:
            MeasurementError: onnxruntime cannot be imported.
        """
        names = self._greet()["available"]
        return tuple(names) if isinstance(names, list) else ()

    def versions(self) -> dict[str, str]:
        """Return the versions of runtime, numpy and Python."""
        versions = self._greet()["versions"]
        return dict(versions) if isinstance(versions, dict) else {}

    def not_running(self) -> dict[str, str]:
        """Return the providers of this build that were tried in vain so far, with the reasons."""
        return {name: reason for name, reason in self._reasons.items() if reason}

    def findings(self) -> dict[str, object]:
        """Return what was found so far, as plain data for another process."""
        return {"reasons": dict(self._reasons), "hello": dict(self._hello)}

    def take(self, findings: Mapping[str, Any]) -> None:
        """Take what another process found on this machine."""
        self._reasons.update(findings["reasons"])
        self._hello.update(findings["hello"])

    def _greet(self) -> dict[str, object]:
        if not self._hello:
            with _directory() as directory, self._worker(directory) as worker:
                self._hello = worker.call("hello")
                worker.close()
        return self._hello

    def _worker(self, directory: Path) -> ProcessWorker:
        return ProcessWorker(directory, timeout_s=self.timeout_s, log_stays=False)

    def _try(self, provider: Provider) -> str:
        try:
            with _directory() as directory:
                ran = self._run(provider, directory)
        except OnnxPerfError as error:
            return str(error)
        if provider.name in ran:
            return ""
        return f"a session was made, but its node ran on {', '.join(ran) or 'nothing that its profile shows'}"

    def _run(self, provider: Provider, directory: Path) -> tuple[str, ...]:
        """Run the product and return the providers that ran a node of it."""
        model = directory / "probe.onnx"
        model.write_bytes(PROBE_MODEL)
        job = SessionJob(model, "the probe", provider)
        with self._worker(directory) as worker:
            self._hello = worker.call("hello")
            try:
                worker.call("open", job=job.open_arguments(1, str((directory / "profile").resolve())))
            except ProviderError as error:
                raise with_reason(error, worker.log()) from error
            worker.call("make_feeds", shapes={}, ranges={}, bind=False)
            windows = worker.call("profile", runs=1)["windows"]
            path = worker.close()["profile_path"]
        try:
            facts = facts_of(read_profile(path, [tuple(window) for window in windows]))
        except ProfileError:
            return ()
        return tuple(facts.nodes_by_provider) or ((CPU,) if provider.name == CPU else ())


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="onnxperf-probe-", ignore_cleanup_errors=True) as name:
        yield Path(name)
