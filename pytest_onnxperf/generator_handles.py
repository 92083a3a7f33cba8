"""What `genai_generator` hands to a test: a factory of generators, and the handle that measures and runs one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import checked_attention, checked_mapping, checked_path, checked_variables, path_text
from .core.errors import OnnxPerfError
from .runtime.child.generator import GeneratorSteps
from .runtime.child.machine import cores
from .runtime.child.session import StepError
from .runtime.generator_job import GeneratorJob, configured_provider
from .runtime.load_job import LoadJob
from .workbench import Workbench, failed

if TYPE_CHECKING:
    from .core.record import Record

Tokens = Sequence[int] | Sequence[Sequence[int]] | np.ndarray[Any, np.dtype[Any]]


class GenaiGenerators:
    """The factory behind the fixture `genai_generator`."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    def __call__(
        self,
        model: str | Path,
        *,
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        attention_backend: str | None = None,
        environment: Mapping[str, str] | None = None,
        overlay: Mapping[str, object] | None = None,
        label: str = "",
    ) -> GenaiGenerator:
        """Return a handle; nothing is loaded before it is asked to measure or generate.

        The EP is that of the model's own genai_config.json unless the test demands one or the options name one.
        `attention_backend` and `environment` are as in `onnx_session`.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        try:
            job = generator_job(
                self._bench,
                "genai_generator",
                model,
                ep=ep,
                provider_options=provider_options,
                attention_backend=attention_backend,
                environment=environment,
                overlay=overlay,
            )
        except OnnxPerfError as error:
            raise failed(str(error)) from None
        return GenaiGenerator(self._bench, job, label)


def generator_job(
    bench: Workbench,
    function: str,
    model: object,
    *,
    ep: str | None,
    provider_options: Mapping[str, object] | None,
    attention_backend: str | None,
    environment: Mapping[str, str] | None,
    overlay: Mapping[str, object] | None,
) -> GeneratorJob:
    """Return the job of a model directory, without a prompt; the arguments are those of `genai_generator`.

    Raises:
        OnnxPerfError: One of them is wrong, or the EP does not run.
    """
    __tracebackhide__ = True
    path = checked_path(model, function)
    given = bench.demanded(ep)
    if given is None and bench.settings.names_ep:
        given = bench.provider(None)
    provider = given or configured_provider(path.absolute())
    options, variables = checked_attention(function, provider, provider_options, attention_backend)
    return GeneratorJob(
        model=path.absolute(),
        model_text=path_text(path),
        provider=provider,
        is_provider_given=given is not None,
        provider_options=options,
        variables=variables | checked_variables(environment, function),
        overlay=checked_mapping("overlay", overlay, function),
    )


def prompt_arguments(
    *, tokens: Tokens | None, images: Sequence[str | Path], audios: Sequence[str | Path], **given: Any
) -> dict[str, Any]:
    """Return the arguments of the step `prepare`."""
    return {
        **given,
        "tokens": plain_tokens(tokens),
        "images": [str(Path(path).absolute()) for path in images],
        "audios": [str(Path(path).absolute()) for path in audios],
    }


class GenaiGenerator:
    """One model directory with its options: `measure()` it, or `generate()` in the test's own process."""

    def __init__(self, bench: Workbench, job: GeneratorJob, label: str) -> None:
        self._bench, self._job, self._label = bench, job, label
        self._live: GeneratorSteps | None = None

    def measure(
        self,
        *,
        new_tokens: int,
        prompt_tokens: int | None = None,
        prompt: str | Sequence[str] | None = None,
        tokens: Tokens | None = None,
        batch_size: int = 1,
        share_buffer: bool | None = None,
        images: Sequence[str | Path] = (),
        audios: Sequence[str | Path] = (),
        rounds: int | None = None,
        label: str = "",
        **search_options: object,
    ) -> Record:
        """Measure generations and keep the record; it is judged when the test ends.

        Args:
            new_tokens: Tokens that each generation makes, exactly.
            prompt_tokens: Length of a made prompt, the same on every machine; or one of the next two.
            prompt: A text, or one for each row of the batch.
            tokens: Ids, one row or rows of equal length.
            batch_size: Rows of the batch.
            share_buffer: Whether past and present of the KV cache share one buffer; None: as the model's configuration.
            images: Paths, for the model's own processor, with `prompt`; TTFT then covers encoder and prefill.
            audios: Likewise.
            rounds: Generations that a process times; None: as the options say.
            label: Tells several measurements of one test apart.
            **search_options: Of GenAI.

        Returns:
            Facts by phase and metrics.
        """
        given = prompt_arguments(
            new_tokens=new_tokens,
            prompt_tokens=prompt_tokens,
            prompt=prompt,
            tokens=tokens,
            batch_size=batch_size,
            share_buffer=share_buffer,
            images=images,
            audios=audios,
            search_options=search_options,
        )
        job = dataclasses.replace(self._job, prompt=given, rounds=checked_rounds(rounds))
        return self._bench.measure(job, label or self._label)

    def measure_load(
        self,
        *,
        concurrency: Sequence[int],
        prompt_tokens: int,
        new_tokens: int,
        rounds: int | None = None,
        label: str = "",
    ) -> list[Record]:
        """Measure requests at once through the engine: one record for each concurrency, each judged on its own.

        Args:
            concurrency: Requests at once, `[1, 4, 16]`.
            prompt_tokens: Length of each made prompt.
            new_tokens: Tokens that each request generates.
            rounds: Times that a process repeats the requests; None: as the options say.
            label: Stands before the concurrency in the label of each record.

        Returns:
            The records, labelled `load-1`, `load-4`, ...; the facts of a generator are those of `measure()`.
        """
        levels = list(concurrency) if isinstance(concurrency, Sequence) else []
        wrong = [each for each in levels if isinstance(each, bool) or not isinstance(each, int) or each < 1]
        if wrong or not levels or len(set(levels)) < len(levels):
            msg = f"measure_load(concurrency=...): expected a list of different whole numbers >= 1, got {concurrency!r}"
            raise failed(msg)
        given = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens}
        job = dataclasses.replace(self._job, prompt=given, rounds=checked_rounds(rounds))
        prefix = label or self._label
        return [
            self._bench.measure(LoadJob(job, each), f"{prefix}-load-{each}" if prefix else f"load-{each}")
            for each in levels
        ]

    def generate(self, prompt: str | Tokens, *, new_tokens: int = 64) -> Any:
        """Generate in the test's own process; a text gives a text, a row of token ids a row, rows give rows.

        The first call loads the model and generates once untimed, so that what follows is warm.
        """
        steps = self._steps()
        form = {"prompt": prompt} if isinstance(prompt, str) else {"tokens": plain_tokens(prompt)}
        try:
            answer = steps.generate(new_tokens, **form)
        except StepError as error:
            msg = f"{self._job.model_text}: {error}"
            raise failed(msg) from None
        if isinstance(prompt, str):
            return answer["texts"][0]
        return answer["tokens"] if np.ndim(prompt) > 1 else answer["tokens"][0]

    @property
    def model(self) -> Any:
        """The live `onnxruntime_genai.Model` in the test's process."""
        return self._steps().model

    @property
    def tokenizer(self) -> Any:
        """The live `onnxruntime_genai.Tokenizer`."""
        return self._steps().tokenizer

    def _steps(self) -> GeneratorSteps:
        if self._live is None:
            steps = GeneratorSteps()
            try:
                steps.hello()
                steps.open(self._job.open_arguments(self._bench.settings.threads or cores(), ""))
                steps.prepare(new_tokens=4, prompt_tokens=8)
                steps.warm_up(1)
            except StepError as error:
                msg = f"{self._job.model_text}: {error}"
                raise failed(msg) from None
            self._live = steps
        return self._live


def checked_rounds(rounds: int | None) -> int | None:
    """Return a number of rounds, or None; anything else fails the test."""
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1):
        msg = f"rounds: expected a whole number >= 1, got {rounds!r}"
        raise failed(msg)
    return rounds


def plain_tokens(tokens: Any) -> Any:
    """Return token ids as lists, which cross a pipe."""
    return tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
