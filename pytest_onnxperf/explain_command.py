"""The command `onnxperf explain`: what a model does on an execution provider, and why."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .core.advice import advice_for
from .core.attention_names import ON_CPU, UNFUSED
from .core.errors import InputsError, MeasurementError, SettingError
from .core.explanation import Explanation
from .core.peaks import measured_ceilings
from .core.providers import CPU, Provider, provider_of
from .core.record import Record, TestKey
from .core.situation import ASKED, Situation
from .report.explanation import attention_lines, explanation_lines
from .report.profile import fact_lines, op_table_lines
from .report.wrap import wrapped
from .runtime.child.machine import cores
from .runtime.generator_job import GeneratorJob, configured_provider
from .runtime.measure import Measurement
from .runtime.plan import Plan, Subject
from .runtime.probe import Prober
from .runtime.process import ProcessWorker
from .runtime.session_job import SessionJob

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from .core.roofline import Ceilings

MEMCPY, CPU_NODES, NOT_FUSED = "memcpy", "cpu", "unfused"
FAIL_ON: Final = (MEMCPY, CPU_NODES, NOT_FUSED)
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Explained:
    """A model, what it did and why."""

    record: Record
    explanation: Explanation

    def advice(self) -> tuple[str, ...]:
        """Return what to do."""
        found, _ = self.failing(FAIL_ON)
        names = [{MEMCPY: "memcpy", CPU_NODES: "cpu_nodes", NOT_FUSED: "attention"}[name] for name in found]
        situation = Situation(self.record, frozenset({*names, ASKED}), self.explanation)
        return tuple(each.text for each in advice_for(situation))

    def failing(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return which of `memcpy`, `cpu` and `unfused` there are, and which cannot be told."""
        facts = self.record.facts
        if facts is None or facts.unavailable:
            return [], list(names)
        uses = facts.attention
        found = {
            MEMCPY: facts.memcpy > 0,
            CPU_NODES: facts.cpu_nodes > 0 and self.record.environment.execution_provider != CPU,
            NOT_FUSED: any({UNFUSED, ON_CPU} & set(use.kernels) for use in uses),
        }
        unknown = [NOT_FUSED] if not found[NOT_FUSED] and any(not use.kernels for use in uses) else []
        return [name for name in names if found[name]], [name for name in names if name in unknown]


def run(options: argparse.Namespace) -> Explained:
    """Measure the facts of a model and explain them.

    Raises:
        OnnxPerfError: An option is wrong, the EP does not run, or the model cannot be measured.
    """
    subject = _subject(options)
    plan = Plan(
        warmup_rounds=1, min_rounds=1, max_time_s=0.0, profile_runs=options.runs, timeout_s=_TIMEOUT_S,
        isolation="process", threads=options.threads, timing=False,
    )  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="onnxperf-explain-"))
    try:
        measurement = Measurement(subject, plan, directory, lambda _: None)
        try:
            record = measurement.record(TestKey("", ""), lambda _: False)
        except InputsError as error:
            raise InputsError(_in_flags(str(error))) from error
        ceilings = _measured_ceilings(subject, options, record, directory) if options.measure_ceilings else None
        return Explained(record, measurement.explain(record, in_process=True, ceilings=ceilings))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _in_flags(message: str) -> str:
    """Say `--shape batch=1` where a message for tests says `shapes={'batch': 1}`."""
    given = re.search(r"shapes=(\{.*\})$", message)
    if given is None:
        return message
    sizes: dict[str, int | list[int]] = ast.literal_eval(given[1])
    texts = (f"{name}={'x'.join(map(str, [size] if isinstance(size, int) else size))}" for name, size in sizes.items())
    return message[: given.start()] + " ".join(f"--shape {shlex.quote(text)}" for text in texts)


def _subject(options: argparse.Namespace) -> Subject:
    path: Path = options.model
    provider_options = dict(_pairs(options.provider_option, "--provider-option"))
    if path.is_dir():
        provider = configured_provider(path) if options.ep == "auto" else _provider(options.ep)
        prompt = {"prompt_tokens": options.prompt_tokens, "new_tokens": options.new_tokens}
        return GeneratorJob(
            path.absolute(), str(path), provider, options.ep != "auto", provider_options, prompt=prompt
        )  # fmt: skip
    return SessionJob(
        model=path.absolute(),
        model_text=str(path),
        provider=_provider(options.ep),
        provider_options=provider_options,
        session_options={name: _value(text) for name, text in _pairs(options.session_option, "--session-option")},
        shapes={name: _shape(text) for name, text in _pairs(options.shape, "--shape")},
    )


def _provider(name: str) -> Provider:
    prober = Prober(_TIMEOUT_S)
    if name == "auto":
        return prober.best()
    provider = provider_of(name)
    reason = prober.why_not(provider)
    if reason:
        msg = f"{provider.name} does not run here: {reason}"
        raise SettingError(msg)
    return provider


def _pairs(texts: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            msg = f"{option}: expected NAME=VALUE, got {text!r}"
            raise SettingError(msg)
        yield name, value


def _shape(text: str) -> int | list[int]:
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        msg = f"--shape: expected NAME=SIZE of a symbolic dimension, or INPUT=1x3x224x224, got {text!r}"
        raise SettingError(msg)
    return int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]


def _value(text: str) -> Any:
    """Read a number or true or false where it is one, as `SessionOptions` wants them."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, int | float | bool) else text


def _measured_ceilings(subject: Subject, options: argparse.Namespace, record: Record, directory: Path) -> Ceilings:
    """Return what a large product and a large copy attain here.

    Raises:
        MeasurementError: They were too short to be told.
    """
    logs = directory / "ceilings"
    logs.mkdir()
    provider = subject.provider
    with ProcessWorker(logs, timeout_s=_TIMEOUT_S, log_stays=False) as worker:
        worker.call("hello")
        found = worker.call(
            "ceilings",
            execution_providers=[provider.name, *provider.followed_by],
            provider_options=dict(subject.provider_options),
            threads=options.threads or cores(),
        )
        worker.close()
    ceilings = measured_ceilings(record.environment.device, found)
    if ceilings is None:
        msg = f"--measure-ceilings: {provider.name} was too fast or too slow to be told: leave the option out"
        raise MeasurementError(msg)
    return ceilings


def lines(explained: Explained) -> Iterator[str]:
    """Yield what a person reads, at most 80 columns wide."""
    record = explained.record
    environment = record.environment
    yield record.model
    yield f"on {environment.execution_provider}, {environment.device}"
    yield ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    if record.facts is None:
        yield f"Facts cannot be told: {record.unavailable_facts}"
        return
    for phase, facts in (record.phases or {"": record.facts}).items():
        yield ""
        if phase:
            yield f"In {phase}"
        yield from fact_lines(facts)
        yield from attention_lines(facts.attention)
        yield from op_table_lines(facts.op_table, 10, with_advice=False)
    shown = list(explanation_lines(explained.explanation))
    yield from shown if not shown or not shown[0] else ["", *shown]
    for model in explained.explanation.models[:1]:
        if model.boundary:
            yield from ["", *wrapped(f"Note: {model.boundary}", "  ")]
    advice = explained.advice()
    yield from ["", "What to do"] if advice else []
    for text in advice:
        yield from wrapped(f"- {text}", "  ")


def plain(explained: Explained) -> dict[str, Any]:
    """Return the whole as JSON types."""
    return {
        "record": msgspec.to_builtins(explained.record),
        "explanation": msgspec.to_builtins(explained.explanation),
        "advice": list(explained.advice()),
    }
