"""The steps of a measurement on one GenAI model: open, prepare, warm up, rounds or profiled steps, close.

The same shape as `steps.Steps`: works in a measuring process and, with `--onnxperf-isolation=none`, in the test's own.
"""

from __future__ import annotations

import gc
import math
import platform
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from . import (
    generator_engine,
    generator_model,
    generator_paired,
    generator_profile,
    generator_prompt,
    generator_rounds,
)
from .generator_config import check_search_options, fail, message_of
from .machine import Metered, cores, peak_rss_bytes
from .step_marks import no_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .generator_rounds import Generation

# A block ends at so many timed tokens whatever its time limit says, so that a tiny model does not fill the pipe.
MAX_TOKENS = 1_000_000
# Steps after the first that a warm-up makes at least: on WebGPU the first of them is as cold as the prefill.
WARM_DECODE_STEPS = 2


class GeneratorSteps(Metered):
    """One model and what is generated with it. Times are ns of the monotonic clock unless said otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._loaded: generator_model.LoadedModel | None = None
        self._generation: Generation | None = None
        self._tokenizer: Any = None
        self._profile_paths: list[str] = []
        self._paired = generator_paired.PairedSteps()
        self.mark = no_mark

    @property
    def model(self) -> Any:
        """The `onnxruntime_genai.Model`."""
        return self._opened.model

    @property
    def tokenizer(self) -> Any:
        """The `onnxruntime_genai.Tokenizer` of the model, made when it is first asked for."""
        if self._tokenizer is None:
            opened = self._opened
            try:
                self._tokenizer = opened.genai.Tokenizer(opened.model)
            except Exception as error:
                fail("model", f"the tokenizer cannot be loaded: {message_of(error)}", error)
        return self._tokenizer

    @property
    def _opened(self) -> generator_model.LoadedModel:
        if self._loaded is None or self._loaded.model is None:
            fail("input", "no model is open")
        return self._loaded

    def hello(self) -> dict[str, Any]:
        """Say which interpreter and runtime these are: `versions`, `features`, `cores`.

        Raises:
            StepError: onnxruntime_genai does not import, or is older than 0.11 (`runtime`).
        """
        genai = generator_model.import_genai()
        own = {"numpy": str(np.__version__), "python": platform.python_version()}
        versions = {**generator_model.runtime_versions(genai), **own}
        return {"versions": versions, "features": generator_model.features(genai), "cores": cores()}

    def open(self, job: dict[str, Any]) -> dict[str, Any]:
        """Load the model of a job.

        Args:
            job: `model` (directory), `provider` (GenAI's name, "" as the configuration says), `provider_options`,
                `overlay` (laid over genai_config.json), `threads` (intra-op, of every session; 0: leave to GenAI),
                `profile_prefix` (absolute, "" for none), `log_severity` (ORT's 0 to 4).

        Returns:
            `load_ns`, `device_type` and `model_type` (GenAI's words), `context_length`, `vocab_size`, `share_buffer`
            (as the configuration says), `run_level_profile` (false without a `profile_prefix`: it was not tried).
        """
        self.close()
        self._loaded = loaded = generator_model.LoadedModel(job)
        model = loaded.config["model"]
        return {
            "load_ns": loaded.load_ns,
            "device_type": str(loaded.model.device_type),
            "model_type": str(loaded.model.type),
            "context_length": int(model.get("context_length", 0)),
            "vocab_size": int(model.get("vocab_size", 0)),
            "share_buffer": bool(loaded.config.get("search", {}).get("past_present_share_buffer", False)),
            "sections": loaded.sections,
            "run_level_profile": loaded.has_run_profile,
        }

    def prepare(
        self,
        new_tokens: int,
        prompt_tokens: int | None = None,
        prompt: str | Sequence[str] | None = None,
        tokens: Any = None,
        batch_size: int = 1,
        share_buffer: bool | None = None,
        search_options: dict[str, Any] | None = None,
        images: Sequence[str] = (),
        audios: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Make the prompt and fix what is generated; exactly one of `prompt_tokens`, `prompt` and `tokens` is given.

        Args:
            new_tokens: Tokens to generate, at least 1.
            prompt_tokens: Length of a made prompt: seeded, the same everywhere, without special tokens.
            prompt: A text, or one for each row of the batch, of equal numbers of tokens.
            tokens: Ids; one row, repeated for each row of the batch, or rows of equal length.
            batch_size: Rows; with several rows of `tokens` it may be left at 1.
            share_buffer: Whether past and present of the KV cache share one buffer; None: as the configuration says.
            search_options: Of GenAI; `do_sample` is false unless it is given here.
            images: Paths, for the model's own processor, with `prompt`.
            audios: Paths, likewise.

        Returns:
            `prompt_tokens`, `batch_size`, `new_tokens`, `max_length`, `share_buffer`.

        Raises:
            StepError: Something does not fit the model (`input`) or is no option (`option`).
        """
        opened = self._opened
        options = dict(search_options or {})
        check_search_options(options, "the search options")
        given = generator_prompt.Given(prompt_tokens, prompt, tokens, batch_size, list(images), list(audios))
        made = generator_prompt.make(opened, lambda: self.tokenizer, given)
        self._generation = generation = generator_rounds.Generation(opened, made, new_tokens, share_buffer, options)
        self._paired.close()
        return {
            "prompt_tokens": made.prompt_tokens,
            "batch_size": made.batch_size,
            "new_tokens": new_tokens,
            "max_length": generation.max_length,
            "share_buffer": generation.share_buffer,
        }

    def warm_up(self, rounds: int) -> dict[str, Any]:
        """Generate `rounds` times, at least so often that two decode steps were made at the measured shape.

        Returns:
            `cold_start_ns`: the first generation, from making its `Generator` to its last token.
        """
        generation = self.generation
        decode_steps = generation.new_tokens - 1  # where there is none, none is measured
        least = math.ceil(WARM_DECODE_STEPS / decode_steps) if decode_steps else 1
        begin_ns = time.perf_counter_ns()
        generation.checked_round()
        cold_start_ns = time.perf_counter_ns() - begin_ns
        for _ in range(max(rounds, least) - 1):
            generation.round()
        return {"cold_start_ns": cold_start_ns}

    def round(self, untimed: int = 0) -> dict[str, Any]:
        """Generate once, with the garbage collector off and a fresh `Generator`, which is made outside of the times.

        Args:
            untimed: Generations right before it, which wake the core and fill its caches.

        Returns:
            `append_ns` (the prefill), `first_ns` (the first `generate_next_token` and `is_done`; TTFT is both), and
            `gaps_ns` (`new_tokens` - 1 of them; each a `generate_next_token` and `is_done`).
        """
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            for _ in range(untimed):
                self.generation.round()
            return self.generation.round()
        finally:
            if is_collecting:
                gc.enable()

    def block(self, min_rounds: int, max_time_s: float) -> dict[str, Any]:
        """Run rounds for `max_time_s`, at least `min_rounds`, no garbage collector; `block_ns` is all of it."""
        generation, clock = self.generation, time.perf_counter_ns
        rounds: list[dict[str, Any]] = []
        gc.collect()
        gc.disable()
        self.begin_block()
        begin_ns = clock()
        end_ns = begin_ns + int(max_time_s * 1e9)
        try:
            while True:
                rounds.append(generation.round())
                is_full = len(rounds) * generation.new_tokens >= MAX_TOKENS
                if len(rounds) >= min_rounds and (clock() >= end_ns or is_full):
                    break
        finally:
            gc.enable()
        block_ns = clock() - begin_ns
        return {"rounds": rounds, "block_ns": block_ns, "peak_rss_bytes": peak_rss_bytes()}

    def paired(self, sizes: dict[str, dict[str, dict[str, int]]], rounds: int) -> dict[str, Any]:
        """Time generations beside reference workloads: those of `ttft` between generations, of `decode` between steps.

        A step with the same sizes goes on with the same workloads.

        Args:
            sizes: `ttft`, and `decode` for more than one token -> kind -> size; an empty size is found here.
            rounds: Generations.

        Returns:
            For each in `sizes` `times_ns` (`tested` and each kind), `specs` (kind -> `size`, `version`, `checksum`),
            and `why_not`: why there is neither, where a workload cannot run here.
        """
        return self._paired.take(self.generation, sizes, rounds, self._opened.device_id)

    def load(self, concurrency: int, min_rounds: int, max_time_s: float) -> dict[str, Any]:
        """Run the prepared prompt as requests at once through the engine; see `generator_engine.run_block`.

        Returns:
            `rounds` (each `token_ns` of every request and `total_ns`), `batching`, `peak_rss_bytes`.
        """
        opened, generation = self._opened, self.generation
        self.begin_block()
        rounds = generator_engine.run_block(
            opened.genai,
            opened.model,
            generation.prompt.ids[0],
            generation.new_tokens,
            concurrency=concurrency,
            min_rounds=min_rounds,
            max_time_s=max_time_s,
        )
        return {
            "rounds": rounds,
            "batching": generator_engine.batching(opened.config),
            "peak_rss_bytes": peak_rss_bytes(),
        }

    def profile(self, decode_steps: int) -> dict[str, Any]:
        """Profile one prefill and `decode_steps` decode steps, after an unprofiled warm-up.

        Returns:
            `steps`: for each step and session `phase` ("prefill", "decode"), `step` (0 is the prefill), `session` (the
            section), `path`, and `window` (ns on the profile's own clock; None: the file holds this step alone).
            `session_paths`: section -> path, of a session-level profile; its files are complete after `close`.
        """
        result = generator_profile.profile(self._opened, self.generation, decode_steps, self.mark)
        self._profile_paths = sorted({step["path"] for step in result["steps"]})
        return result

    def generate(
        self,
        new_tokens: int,
        prompt: str | Sequence[str] | None = None,
        tokens: Any = None,
        images: Sequence[str] = (),
        audios: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Generate up to `new_tokens` tokens, the likeliest each time, fewer where the model ends the text.

        Returns:
            `tokens`: the new tokens of each row, and `texts`, which is None where the prompt was given as tokens.
        """
        opened = self._opened
        given = generator_prompt.Given(None, prompt, tokens, 1, list(images), list(audios))
        made = generator_prompt.make(opened, lambda: self.tokenizer, given)
        generation = generator_rounds.Generation(opened, made, new_tokens, None, {}, min_new_tokens=0)
        rows = generation.tokens()
        return {"tokens": rows, "texts": None if prompt is None else [self.tokenizer.decode(row) for row in rows]}

    def close(self) -> dict[str, Any]:
        """Drop everything, which completes session-level profiles; `profile_paths` are the files there are."""
        self._paired.close()
        self._generation = self._tokenizer = None
        if self._loaded is not None:
            self._loaded.close()
        self._loaded = None
        gc.collect()
        paths, self._profile_paths = self._profile_paths, []
        return {"profile_paths": paths}

    @property
    def generation(self) -> Generation:
        """What `prepare` fixed."""
        if self._generation is None:
            fail("input", "no prompt was given yet")
        return self._generation
