"""The measuring session: what is known once --onnxperf is given, and the verdicts of its tests."""

from __future__ import annotations

import contextlib
import importlib.metadata
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

import pytest

from .core.baseline import entry_of
from .core.baseline_update import changes
from .core.compare_metrics import with_detectable
from .core.environment import Environment
from .core.errors import BaselineError, ProviderError
from .core.judge import Policy, Verdict, judge
from .core.providers import Provider, provider_of, short_name
from .marks import budgets_of, settings_of
from .progress import Progress
from .runtime.devices import Device, describe_device
from .runtime.probe import Prober
from .runtime.state_meter import StateMeter
from .runtime.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .core.ab import AaSensor, AbRecord
    from .core.baseline import Entry
    from .core.budget import Budget
    from .core.device_state import GpuState, MachineState
    from .core.outcome import Outcome, TestOutcome
    from .core.record import Record, TestKey
    from .core.stages import Spent
    from .settings import Settings

OUTCOMES: pytest.StashKey[list[Outcome]] = pytest.StashKey()
BUDGETS: pytest.StashKey[tuple[Budget, ...]] = pytest.StashKey()
SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
JUDGED: pytest.StashKey[bool] = pytest.StashKey()
"""Whether the test's own code has ended, so that its measurements were judged."""
COMPARISONS: pytest.StashKey[list[AbRecord]] = pytest.StashKey()
SPENT: pytest.StashKey[list[Spent]] = pytest.StashKey()
"""Where the time of its measurements and comparisons went, also of those that failed."""
BROKEN: pytest.StashKey[BaseException | None] = pytest.StashKey()
"""What failed a test because a comparison does not hold what it requires; None where nothing did."""
_PROBE_TIMEOUT_S: Final = 120


class ActiveSession:
    """What all tests of a measuring session share."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config, self.settings = config, settings
        self.progress = Progress(config)
        self.store = Store(settings.baseline_path)
        self.prober = Prober(_PROBE_TIMEOUT_S)
        self._sensors: dict[str, AaSensor] = {}

    # -- the execution provider ------------------------------------------------------------------------------------

    def provider(self, settings: Settings) -> Provider:
        """Return the provider that the options name, or for `auto` the best that runs here.

        Raises:
            ProviderError: The named one does not run, or none does.
        """
        if not settings.names_ep:
            return self.prober.best()
        provider = provider_of(settings.ep)
        reason = self.prober.why_not(provider)
        if reason:
            raise ProviderError(self.not_running(provider, reason, settings.ep_source))
        return provider

    def not_running(self, provider: Provider, reason: str, source: str) -> str:
        """Say that a provider that was named does not run."""
        return (
            f"{provider.name} ({source}) does not run here: {reason}\n"
            f"Install what it needs, or give --onnxperf-ep=auto to take the best that runs"
        )

    def device(self, provider: Provider) -> Device:
        """Name the device of a provider."""
        return describe_device(provider.short, {}, self.settings.device)

    def environment(self) -> Environment:
        """Return the environment of tests that demand nothing else, with all runtimes that are installed.

        Raises:
            OnnxPerfError: No runtime, or the EP that was named does not run.
        """
        provider = self.provider(self.settings)
        device = self.device(provider)
        versions = {**self.prober.versions(), **_genai_version(), **device.versions}
        return Environment(device.name, device.key, provider.name, versions)

    def state(self, environment: Environment) -> tuple[GpuState | None, str, MachineState]:
        """Return the state of GPU and machine now, and why the GPU's is not known."""
        meter = StateMeter(short_name(environment.execution_provider), {})
        meter.begin()
        return meter.gpu(), meter.why_no_gpu, meter.machine.state()

    # -- tests -----------------------------------------------------------------------------------------------------

    def prepare(self, item: pytest.Item) -> None:
        """Check the markers of a test before it runs.

        Raises:
            OnnxPerfError: A marker is wrong.
        """
        item.stash[OUTCOMES] = []
        item.stash[COMPARISONS] = []
        item.stash[SPENT] = []
        item.stash[BROKEN] = None
        item.stash[JUDGED] = False
        item.stash[BUDGETS] = budgets_of(item)
        item.stash[SETTINGS] = settings_of(item, self.settings)

    def settings_of(self, item: pytest.Item) -> Settings:
        """Return the settings of a test."""
        return item.stash[SETTINGS]

    def is_judged(self, item: pytest.Item) -> bool:
        """Tell whether the test's own code has ended: what a teardown measures would be judged by nobody."""
        return item.stash[JUDGED]

    def outcomes(self, item: pytest.Item) -> list[Outcome]:
        """Return what a test has measured so far."""
        return item.stash[OUTCOMES]

    def spent(self, item: pytest.Item) -> list[Spent]:
        """Return where the time of a test's measurements went so far."""
        return item.stash[SPENT]

    def judge(self, item: pytest.Item, record: Record) -> Verdict:
        """Judge a record against the budgets and the baseline of its test.

        Raises:
            BaselineError: The baseline cannot be read.
        """
        settings = self.settings_of(item)
        found = self.store.find(record.key, record.environment)
        policy = Policy(settings.tolerance, settings.strict, settings.unverifiable, settings.update)
        budgets = item.stash[BUDGETS]
        return judge(record, budgets, found, policy)

    def aa_sensor(self, device: str, sense: Callable[[], AaSensor]) -> AaSensor:
        """Return what a model against itself said of a device, measured once in a session."""
        if device not in self._sensors:
            self._sensors[device] = sense()
        return self._sensors[device]

    def environment_of(self, provider: Provider, provider_options: Mapping[str, object]) -> Environment:
        """Return where a measurement will be, as far as that is known before: without versions."""
        device = describe_device(provider.short, provider_options, self.settings.device)
        return Environment(device.name, device.key, provider.name, {})

    def baseline_of(self, key: TestKey, environment: Environment) -> Entry | None:
        """Return the baseline of a measurement before it is made; None where there is none of this environment.

        What cannot be read should not cost the time of measuring, and the reference workload is that of the baseline.

        Raises:
            BaselineError: It cannot be read.
        """
        found = self.store.find(key, environment)
        return None if found.other_environment else found.entry

    def keep(self, item: pytest.Item, outcome: Outcome, directory: Path) -> None:
        """Keep an outcome; its profile and logs stay where the test fails by it, for a closer look."""
        kept, verdict = "", outcome.verdict
        if verdict.fails:
            kept = str(next(directory.glob("profile*.json"), directory))
        if not verdict.fails:
            shutil.rmtree(directory, ignore_errors=True)
        updatable = self.settings.update and not verdict.broken and not verdict.fails
        self.outcomes(item).append(replace(outcome, updatable=updatable, kept=kept))


def _genai_version() -> dict[str, str]:
    """Return the version of onnxruntime-genai, by its metadata: importing it loads a second ONNX Runtime."""
    for name in ("onnxruntime-genai", "onnxruntime-genai-cuda", "onnxruntime-genai-directml"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return {name: importlib.metadata.version(name)}
    return {}


def today() -> date:
    """Return the date that an entry gets, UTC."""
    return datetime.now(UTC).date()


def write_baselines(store: Store, settings: Settings, tests: list[TestOutcome]) -> tuple[list[str], list[str]]:
    """Write the baselines of the tests that passed.

    Returns:
        What was updated, a line each, and what could not be.
    """
    day, commit = today().isoformat(), _commit(settings.root)
    files: dict[Path, list[Outcome]] = {}
    for test in tests:
        for outcome in test.outcomes:
            if outcome.updatable:
                path = store.path(outcome.record.environment.key, outcome.record.key.module)
                files.setdefault(path, []).append(outcome)
    updated: list[str] = []
    failed: list[str] = []
    for path, outcomes in sorted(files.items()):
        entries = {}
        for outcome in outcomes:
            record = outcome.record
            disturbed = bool(record.disturbance) and not settings.update_force
            if disturbed:
                failed.append(
                    f"{_name(record.key)}: its times were not recorded: {record.disturbance} (--onnxperf-update-force)"
                )
            entries[record.key.entry] = entry_of(record, day, commit, with_times=not disturbed)
        try:
            changed = store.update(path, outcomes[0].record.environment, entries, settings.update_mode,
                                   lambda entry: with_detectable(entry, settings.tolerance))  # fmt: skip
        except BaselineError as error:
            failed.append(str(error))
            continue
        if changed:
            shown = path.relative_to(settings.root) if path.is_relative_to(settings.root) else path
            updated.append(f"updated: {shown}")
        for key, (old, new) in sorted(changed.items()):
            updated.append(f"  {key}: {', '.join(changes(old, new)) or 'written again, the values are the same'}")
    return updated, failed


def _name(key: TestKey) -> str:
    return f"{key.module}::{key.entry}"


def _commit(root: Path) -> str:
    """Return the short name of the commit that is checked out; empty outside a git repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
