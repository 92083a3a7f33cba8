"""Puts together why a model's facts are what they are: traces of its profile, and what an explaining process says."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pytest_onnxperf.core.attention_names import ON_CPU
from pytest_onnxperf.core.cast_pairs import cast_pairs
from pytest_onnxperf.core.culprit import RARE_TYPES, boundary_note, group
from pytest_onnxperf.core.culprits import culprits_of
from pytest_onnxperf.core.errors import OnnxPerfError
from pytest_onnxperf.core.explanation import Explanation, ModelExplanation, NotFlash, PhaseRoofline
from pytest_onnxperf.core.not_flash import reasons_not_flash
from pytest_onnxperf.core.ort_log import OrtLog
from pytest_onnxperf.core.phases import summed
from pytest_onnxperf.core.placement import placement_of
from pytest_onnxperf.core.providers import CPU
from pytest_onnxperf.core.roofline import roofline

from .explain import ModelEvidence, explain
from .graph_file import changed_ops, read_opsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_onnxperf.core.attention import AttentionUse
    from pytest_onnxperf.core.facts import Facts
    from pytest_onnxperf.core.graph import Model
    from pytest_onnxperf.core.providers import Provider
    from pytest_onnxperf.core.roofline import Ceilings

    from .stages import Stages
    from .trace import Trace


class Explainable(Protocol):
    """A subject of which sessions can be explained."""

    @property
    def provider(self) -> Provider:
        """The EP that was asked for."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables of its processes."""

    @property
    def feeds_on_host(self) -> bool:
        """Whether inputs and outputs of a run are in host memory."""

    def sessions(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the arguments of the step `open` of each session; its name is empty where there is one alone."""


class Explainer:
    """Explains what a measurement found."""

    def __init__(
        self,
        subject: Explainable,
        traces: Sequence[Trace],
        facts: Facts | None,
        options: Mapping[str, str],
        versions: Mapping[str, str],
        ceilings: Ceilings | None,
        device: str,
    ) -> None:
        self._subject, self._traces, self._facts = subject, traces, facts
        self._options, self._ceilings, self._device = options, ceilings, device
        self._runtime = f"ORT {versions.get('onnxruntime', '')}".strip()

    def explain(
        self, directory: Path, *, timeout_s: float, stages: Stages | None = None, in_process: bool = True
    ) -> Explanation:
        """Return what is known, session by session; a session that cannot be explained is said so.

        Args:
            directory: Where the optimised graph is written for the moment.
            timeout_s: Of each explaining process.
            stages: Hears of their steps.
            in_process: False leaves the explaining processes out: then the profile alone speaks.
        """
        models: list[ModelExplanation] = []
        reasons: list[str] = []
        with contextlib.suppress(OSError):  # then another directory is taken, and the reason told
            directory.mkdir(parents=True, exist_ok=True)
        for session, arguments in self._subject.sessions().items():
            evidence = ModelEvidence(None, "it was not asked for", OrtLog(), None, "it was not asked for")
            if in_process:
                try:
                    evidence = explain(
                        dict(arguments), directory, timeout_s=timeout_s, environment=self._subject.variables,
                        stages=stages,
                    )  # fmt: skip
                except (OnnxPerfError, OSError) as error:
                    reasons.append(f"{session}: {error}" if session else str(error))
                    evidence = replace(evidence, why_no_graph="the explaining process failed")
            models.append(self._model(session, arguments, evidence))
        return Explanation(tuple(models), "; ".join(reasons))

    def _model(self, session: str, arguments: Mapping[str, Any], evidence: ModelEvidence) -> ModelExplanation:
        traces = [trace for trace in self._traces if trace.session == session]
        nodes = summed([trace.profile.nodes for trace in traces])
        opsets = read_opsets(arguments["model"])
        provider = self._subject.provider.name
        is_device = provider != CPU
        culprits = culprits_of(
            evidence.model, evidence.log, nodes, opsets, provider, self._runtime
        ) if is_device else ()  # fmt: skip
        return ModelExplanation(
            session=session,
            opsets=opsets,
            culprits=group(culprits),
            why_no_graph=evidence.why_no_graph if is_device else "",
            placement=placement_of(nodes, evidence.log, evidence.assignment, evidence.model),
            boundary=boundary_note(provider, self._subject.feeds_on_host),
            not_flash=self._not_flash(traces, evidence.model),
            rooflines=tuple(self._roofline(trace) for trace in traces),
            ceilings=self._ceilings,
            cast_pairs=_cast_pairs(traces),
            rare_types=_rare_types(traces),
            changed_ops=changed_ops(opsets.get("", 0), {key.op_type for key in nodes}),
        )

    def _not_flash(self, traces: Sequence[Trace], model: Model | None) -> tuple[NotFlash, ...]:
        phases = {trace.phase for trace in traces}
        uses: list[AttentionUse] = [use for use in self._facts.attention if use.phase in phases] if self._facts else []
        return tuple(
            NotFlash(use, reasons_not_flash(use, model, self._options, self._device))
            for use in uses
            if use.kernels and not {"flash", ON_CPU}.intersection(use.kernels)
        )

    def _roofline(self, trace: Trace) -> PhaseRoofline:
        """Return the roofline of the nodes on the EP that was asked for: the ceilings are those of its device."""
        wanted = self._subject.provider.name
        executions = [e for each in trace.details for e in each.executions if e.key.execution_provider == wanted]
        runs = sum(detail.runs for detail in trace.details)
        return PhaseRoofline(trace.phase, roofline(executions, runs, self._ceilings, _device_ns(trace)))


def _device_ns(trace: Trace) -> dict[str, float]:
    """Return the time of the device's events in a run, by operator; of all runs of the files, as they hold them."""
    total_ns = Counter[str]()
    for detail in trace.details:
        total_ns.update(detail.device_ns)
    runs = sum(detail.all_runs for detail in trace.details)
    return {op_type: each / runs for op_type, each in total_ns.items()} if runs else {}


def _rare_types(traces: Sequence[Trace]) -> dict[str, str]:
    """Return rare types of first inputs: further ones are axes, indices and shapes, which are int64 as a rule."""
    found: dict[str, str] = {}
    for execution in (e for trace in traces for detail in trace.details for e in detail.executions):
        kinds = [tensor.element_type for tensor in execution.inputs[:1] if tensor.element_type in RARE_TYPES]
        if kinds and execution.key.execution_provider == CPU:
            found.setdefault(execution.key.op_type, kinds[0])
    return found


def _cast_pairs(traces: Sequence[Trace]) -> int:
    """Return the casts that are turned back in the first run of the phase that has most of them."""
    counts = Counter[str]()
    for trace in traces:
        for detail in trace.details[:1]:
            counts[trace.phase] = cast_pairs([each for each in detail.executions if each.run == 0])
    return max(counts.values(), default=0)
