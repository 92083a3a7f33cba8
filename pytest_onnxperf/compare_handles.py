"""The functions that `onnx_compare` and `genai_compare` hand to a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ab_handle import compared
from .arguments import checked_attention, checked_path, checked_sizes, checked_variables, path_text
from .compare_bench import CompareBench, checked_inputs, merged_options
from .core.ab import CANDIDATE, REFERENCE
from .generator_handles import generator_job, prompt_arguments
from .runtime.session_job import SessionJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .ab_handle import AbComparison
    from .generator_handles import Tokens
    from .runtime.generator_job import GeneratorJob
    from .runtime.pair_process import Job


class OnnxComparer:
    """The function behind the fixture `onnx_compare`."""

    def __init__(self, bench: CompareBench) -> None:
        self._bench = bench

    def __call__(
        self,
        reference: str | Path,
        candidate: str | Path,
        *,
        feeds: Mapping[str, object] | None = None,
        shapes: Mapping[str, int | Sequence[int]] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        attention_backend: str | None = None,
        environment: Mapping[str, str] | None = None,
        session_options: Mapping[str, object] | None = None,
        free_dimensions: Mapping[str, int] | None = None,
        custom_op_libraries: Sequence[str | Path] = (),
        reference_options: Mapping[str, Any] | None = None,
        candidate_options: Mapping[str, Any] | None = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
        check_outputs: bool = True,
        label: str = "",
    ) -> AbComparison:
        """Measure both models in turn and return the result, which passes unless it is asked to `require` something.

        Args:
            reference: The model to compare with.
            candidate: The model that is to be faster, or no slower.
            feeds: Input name -> array, for both; floating values are cast where an arm takes another width.
            shapes: Instead of feeds: symbolic dimension -> size, or input name -> whole shape.
            ranges: Input name -> (lowest, highest) of made values.
            ep: The execution provider of both; like what follows, of one arm by its own options.
            provider_options: Options of the EP.
            attention_backend: As for `onnx_session`.
            environment: Variables of the measuring processes, of both arms.
            session_options: As for `onnx_session`.
            free_dimensions: As for `onnx_session`.
            custom_op_libraries: As for `onnx_session`.
            reference_options: Of the reference alone: a dict of `ep`, `provider_options`, `attention_backend`,
                `session_options`, `free_dimensions`, `custom_op_libraries`; what is a dict is laid over that of both.
            candidate_options: Of the candidate alone.
            rtol: Outputs are equal where |candidate - reference| <= atol + rtol * |reference|.
            atol: The same.
            check_outputs: False compares the speed alone.
            label: Tells several comparisons of one test apart.
        """
        __tracebackhide__ = True  # the place of a skip is the test's line
        function = self._bench.function
        common = {
            "ep": ep,
            "provider_options": provider_options,
            "attention_backend": attention_backend,
            "session_options": session_options,
            "free_dimensions": free_dimensions,
            "custom_op_libraries": custom_op_libraries,
        }

        def jobs() -> dict[str, Job]:
            inputs = checked_inputs(function, feeds, shapes, ranges)
            return {
                arm: self._job(arm, model, merged_options(function, f"{arm}_options", common, own), environment, inputs)
                for arm, model, own in (
                    (REFERENCE, reference, reference_options),
                    (CANDIDATE, candidate, candidate_options),
                )
            }

        return compared(self._bench, label, jobs, (rtol, atol) if check_outputs else None)

    def _job(
        self, arm: str, model: object, options: Mapping[str, Any], environment: Mapping[str, str] | None,
        inputs: Mapping[str, Any],
    ) -> SessionJob:  # fmt: skip
        __tracebackhide__ = True
        function, provider = self._bench.function, self._bench.provider(options["ep"])
        path = checked_path(model, f"{function}: {arm}")
        provider_options, variables = checked_attention(
            function, provider, options["provider_options"], options["attention_backend"]
        )
        return SessionJob(
            model=path.absolute(),
            model_text=path_text(path),
            provider=provider,
            provider_options=provider_options,
            variables=variables | checked_variables(environment, function),
            session_options=options["session_options"],
            free_dimensions=checked_sizes(options["free_dimensions"], function),
            custom_op_libraries=tuple(str(Path(path).absolute()) for path in options["custom_op_libraries"] or ()),
            **inputs,
        )


class GenaiComparer:
    """The function behind the fixture `genai_compare`."""

    def __init__(self, bench: CompareBench) -> None:
        self._bench = bench

    def __call__(
        self,
        reference: str | Path,
        candidate: str | Path,
        *,
        new_tokens: int,
        prompt_tokens: int | None = None,
        prompt: str | Sequence[str] | None = None,
        tokens: Tokens | None = None,
        batch_size: int = 1,
        images: Sequence[str | Path] = (),
        audios: Sequence[str | Path] = (),
        ep: str | None = None,
        provider_options: Mapping[str, object] | None = None,
        attention_backend: str | None = None,
        overlay: Mapping[str, object] | None = None,
        share_buffer: bool | None = None,
        environment: Mapping[str, str] | None = None,
        reference_options: Mapping[str, Any] | None = None,
        candidate_options: Mapping[str, Any] | None = None,
        rtol: float = 1e-3,
        atol: float = 1e-5,
        check_outputs: bool = True,
        label: str = "",
        **search_options: object,
    ) -> AbComparison:
        """Generate with both models in turn and return the result, which passes unless it is asked to `require`.

        Args:
            reference: The model directory to compare with.
            candidate: The one that is to be faster, or no slower.
            new_tokens: Tokens that each generation makes, exactly.
            prompt_tokens: As for `genai_generator(...).measure`, like the next five.
            prompt: The same text for both; each model has its own tokenizer.
            tokens: Ids, the same for both.
            batch_size: Rows of the batch.
            images: Paths.
            audios: Paths.
            ep: The execution provider of both; like what follows, of one arm by its own options.
            provider_options: Options of the EP.
            attention_backend: As for `onnx_session`.
            overlay: Laid over genai_config.json.
            share_buffer: Whether past and present of the KV cache share one buffer.
            environment: Variables of the measuring processes, of both arms.
            reference_options: Of the reference alone: a dict of `ep`, `provider_options`, `attention_backend`,
                `overlay`, `share_buffer`; what is a dict is laid over that of both.
            candidate_options: Of the candidate alone.
            rtol: Logits are equal where |candidate - reference| <= atol + rtol * |reference|.
            atol: The same.
            check_outputs: False compares the speed alone.
            label: Tells several comparisons of one test apart.
            **search_options: Of GenAI, of both.
        """
        __tracebackhide__ = True
        function = self._bench.function
        common = {
            "ep": ep,
            "provider_options": provider_options,
            "attention_backend": attention_backend,
            "overlay": overlay,
            "share_buffer": share_buffer,
        }
        given: dict[str, Any] = {
            "new_tokens": new_tokens,
            "prompt_tokens": prompt_tokens,
            "prompt": prompt,
            "tokens": tokens,
            "batch_size": batch_size,
            "images": images,
            "audios": audios,
            "search_options": search_options,
        }

        def job(arm: str, model: object, own: Mapping[str, Any] | None) -> GeneratorJob:
            __tracebackhide__ = True
            options = merged_options(function, f"{arm}_options", common, own)
            shared = options.pop("share_buffer")
            made = generator_job(self._bench, f"{function}: {arm}", model, environment=environment, **options)
            return replace(made, prompt=prompt_arguments(**given, share_buffer=shared))

        def jobs() -> dict[str, Job]:
            return {
                REFERENCE: job(REFERENCE, reference, reference_options),
                CANDIDATE: job(CANDIDATE, candidate, candidate_options),
            }

        return compared(self._bench, label, jobs, (rtol, atol) if check_outputs else None)
