"""A model directory measured through onnxruntime-genai: the steps of its timing and profile processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytest_onnxperf.core.errors import ModelError, OnnxPerfError, ProfileError, ProviderError
from pytest_onnxperf.core.fallback import with_reason
from pytest_onnxperf.core.ort_log import read_log
from pytest_onnxperf.core.phases import DECODE, PREFILL, worse_of
from pytest_onnxperf.core.providers import Provider, provider_of
from pytest_onnxperf.core.stages import Stage
from pytest_onnxperf.core.tokens import FEW_DECODE_TOKENS, Generation, generation_distributions, generation_metrics
from pytest_onnxperf.core.workload import tokens_text, workload

from .child import generator_config
from .child.generator_scratch import remove_directory, scratch_directory
from .child.session import StepError
from .inline import Kind
from .looks import take_rounds
from .plan import Plan, Profiled, Timing, Worker, paired_found, sizes_of, unpaired_found
from .session_job import LOG_WARNING, SessionJob, check_provider, profile_severity
from .trace import DECODER, Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator


_SHORT_NAMES: Final = {"nvtensorrtrtx": "trt-rtx"}
"""GenAI's name of a provider, in lower case -> ours, where they differ."""


_PAIRED: Final = {"ttft": "ttft", DECODE: "decode_throughput"}
"""What is timed beside a reference workload -> the metric that it judges."""


@dataclass(frozen=True, slots=True)
class GeneratorJob:
    """What to measure of which model directory."""

    kind: ClassVar[Kind] = "generator"
    timed_metrics: ClassVar[tuple[str, ...]] = (
        "ttft", "prefill", "prefill_throughput", "decode_throughput", "total_throughput", "itl_p50", "itl_p90",
        "itl_p99", "itl_max", "cold_start", "load",
    )  # fmt: skip

    model: Path
    model_text: str
    provider: Provider
    is_provider_given: bool = False
    """False leaves the provider to the model's own configuration."""
    provider_options: Mapping[str, object] = field(default_factory=dict)
    overlay: Mapping[str, object] = field(default_factory=dict)
    """Laid over genai_config.json."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its processes."""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the step `prepare`: prompt, batch size, tokens to generate, search options."""
    rounds: int | None = None
    """Generations a process times; None leaves it to the plan."""

    @property
    def feeds_on_host(self) -> bool:
        """False: GenAI keeps its tensors where the session wants them."""
        return False

    def sessions(self) -> dict[str, dict[str, Any]]:
        """Return the arguments of the step `open` of a plain session for each part of the model that is one file."""
        parts = read_config(self.model).get("model", {})
        found = {}
        for name, part in parts.items():
            file = part.get("filename") if isinstance(part, dict) else None
            if isinstance(file, str) and (self.model / file).is_file():
                job = SessionJob(self.model / file, file, self.provider, self.provider_options)
                found[name] = job.open_arguments(1, "")
        return found

    def size_bytes(self) -> int:
        """Return the size of all files in the directory.

        Raises:
            ModelError: There is no such directory, or no genai_config.json in it.
        """
        read_config(self.model)
        return sum(file.stat().st_size for file in self.model.rglob("*") if file.is_file())

    def time(self, worker: Worker, plan: Plan) -> Timing:
        """Warm up and time a block of generations."""
        opened = self.open(worker, plan, "")
        first = worker.call("warm_up", rounds=plan.warmup_rounds)
        min_rounds, max_time_s = self.block_size(plan)
        block = worker.call("block", min_rounds=min_rounds, max_time_s=max_time_s)
        generation_ns = block["block_ns"] / len(block["rounds"])
        work = workload(self.provider.short, opened["threads"], tokens=tokens_of(opened))
        beside = self._paired(worker, plan, generation_ns, work, has_decode=opened["new_tokens"] > 1)
        others = worker.call("others")
        worker.close()
        generations = tuple(
            Generation(each["append_ns"], each["first_ns"], tuple(each["gaps_ns"])) for each in block["rounds"]
        )
        metrics = generation_metrics(generations, opened["prompt_tokens"], opened["batch_size"])
        return Timing(
            metrics=metrics | {"load": opened["load_ns"], "cold_start": first["cold_start_ns"]},
            rounds=len(generations),
            other_load=others["other_load"],
            peak_rss_bytes=block["peak_rss_bytes"],
            versions=opened["versions"],
            threads=opened["threads"],
            cores=opened["cores"],
            workload=work,
            generations=generations,
            paired=paired_found(beside),
            unpaired=unpaired_found(beside),
            distributions=generation_distributions(generations),
            warnings=_warnings(opened),
        )

    def _paired(
        self, worker: Worker, plan: Plan, generation_ns: float, work: Mapping[str, str], *, has_decode: bool
    ) -> Mapping[str, Mapping[str, Any]]:
        """Time generations beside reference workloads, in a block of their own; a round is a generation.

        Returns:
            Metric -> what the step `paired` answered; empty where no such rounds are wanted.
        """
        if plan.references is None:
            return {}
        names = {name: metric for name, metric in _PAIRED.items() if has_decode or name != DECODE}
        sizes = {name: sizes_of(plan, metric, self.provider, work) for name, metric in names.items()}
        least_rounds, max_time_s = self.block_size(plan)

        def take(rounds: int) -> dict[str, Any]:
            found = worker.call("paired", sizes=sizes, rounds=rounds)
            return {metric: found[name] for name, metric in names.items()}

        wanted = {metric: plan.references.get(metric) for metric in names.values()}
        return take_rounds(
            take, wanted, round_ns=generation_ns, least_rounds=least_rounds, max_time_s=max_time_s,
            tell=lambda texts: worker.stages.at(Stage.REFERENCE, *texts),
        )  # fmt: skip

    def profile(self, worker: Worker, plan: Plan, prefix: str) -> Profiled:
        """Warm up, profile a prefill and a few decode steps, and read the facts of each phase.

        Raises:
            ProviderError: Not one node ran on the EP that was asked for.
        """
        try:
            opened = self.open(worker, plan, prefix)
            worker.call("warm_up", rounds=plan.warmup_rounds)
            steps = worker.call("profile", decode_steps=min(plan.profile_runs, opened["new_tokens"] - 1))["steps"]
            worker.close()
        except OnnxPerfError:
            remove_directory(scratch_directory(prefix))  # a process that was killed could not
            raise
        log = read_log(worker.log_lines()) if plan.isolation == "process" else None
        try:
            traces = tuple(_phase_traces(steps))
        except ProfileError as error:
            return Profiled(None, opened["versions"], why_not=str(error))
        phases = {trace.phase: trace.facts(log, self.provider, opened["versions"]) for trace in traces}
        if not phases:
            return Profiled(None, opened["versions"], why_not="no step could be profiled")
        facts = worse_of(phases)
        check_provider(facts, self.provider, self.model_text)
        return Profiled(facts, opened["versions"], phases, _options(opened), traces=traces)

    def block_size(self, plan: Plan) -> tuple[int, float]:
        """Return the least number of timed rounds, and the seconds for more of them."""
        return (self.rounds, 0.0) if self.rounds else (plan.min_rounds, plan.max_time_s)

    def open(self, worker: Worker, plan: Plan, prefix: str) -> dict[str, Any]:
        """Do the steps up to the prompt and return what they answered."""
        hello = worker.call("hello")
        threads = plan.threads or hello["cores"]
        try:
            opened = worker.call("open", job=self.open_arguments(threads, prefix))
        except ProviderError as error:
            raise with_reason(error, worker.log()) from error
        return {**hello, **opened, **worker.call("prepare", **self.prompt), "threads": self.threads(threads)}

    def threads(self, given: int) -> int:
        """Return the intra-op threads of the decoder: those of the overlay come before those given."""
        overlay: Mapping[str, Any] = self.overlay
        own = overlay.get("model", {}).get(DECODER, {}).get("session_options", {}).get("intra_op_num_threads")
        return own if isinstance(own, int) and own else given

    def open_arguments(self, threads: int, profile_prefix: str) -> dict[str, Any]:
        """Return the argument of the step `open`."""
        return {
            "model": str(self.model),
            "provider": self.provider.short if self.is_provider_given else "",
            "provider_options": dict(self.provider_options),
            "overlay": dict(self.overlay),
            "threads": threads,
            "profile_prefix": profile_prefix,
            "log_severity": profile_severity(self.provider) if profile_prefix else LOG_WARNING,
        }


def read_config(directory: Path) -> dict[str, Any]:
    """Read genai_config.json of a model directory.

    Raises:
        ModelError: It is not there or cannot be read.
    """
    try:
        return generator_config.read_config(str(directory))
    except StepError as error:
        raise ModelError(str(error)) from error


def configured_provider(directory: Path) -> Provider:
    """Return the provider that a model's own configuration names; the CPU where it names none.

    Raises:
        ModelError: The configuration cannot be read.
    """
    decoder = read_config(directory).get("model", {}).get(DECODER, {})
    options = decoder.get("session_options", {}).get("provider_options", [])
    name = next((name for entry in options for name in entry), "cpu").lower()
    try:
        return provider_of(_SHORT_NAMES.get(name, name))
    except OnnxPerfError as error:
        msg = f"{directory / generator_config.CONFIG_NAME} names a provider that is not known here: {error}"
        raise ModelError(msg) from error


def _phase_traces(steps: Sequence[Mapping[str, Any]]) -> Iterator[Trace]:
    """Yield the trace of each phase, `prefill` and `decode` for the decoder, `prefill.vision` for other sessions."""

    def name(step: Mapping[str, Any]) -> str:
        return step["phase"] if step["session"] == DECODER else f"{step['phase']}.{step['session']}"

    for phase, group in groupby(sorted(steps, key=name), key=name):
        files: dict[str, list[tuple[int, int]] | None] = {}
        for step in group:
            if step["window"] is None:
                files[step["path"]] = None
            else:
                windows = files.setdefault(step["path"], [])
                assert windows is not None
                windows.append(tuple(step["window"]))
        trace = read_trace(list(files.items()), phase)
        # A session that did not run in a phase, such as vision for a text, is none of it; the decoder always runs.
        if trace.profile.measured_runs or phase in (PREFILL, DECODE):
            yield trace


def tokens_of(opened: Mapping[str, Any]) -> str:
    """Return the tokens of a generation as a workload names them."""
    return tokens_text(opened["batch_size"], opened["prompt_tokens"], opened["new_tokens"])


def _options(opened: Mapping[str, Any]) -> dict[str, str]:
    return {
        "max_length": str(opened["max_length"]),
        "context_length": str(opened["context_length"]),
        "share_buffer": str(bool(opened["share_buffer"])).lower(),
        "batch_size": str(opened["batch_size"]),
    }


def _warnings(opened: Mapping[str, Any]) -> tuple[str, ...]:
    decode_tokens = opened["new_tokens"] - 1
    if decode_tokens >= FEW_DECODE_TOKENS:
        return ()
    return (
        f"decode rests on {decode_tokens} tokens a generation, fewer than {FEW_DECODE_TOKENS}: give more new_tokens",
    )
