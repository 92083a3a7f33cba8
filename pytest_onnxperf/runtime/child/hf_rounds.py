"""One generation of a transformers model and its times, with the definitions of `generator_rounds`.

Greedy, eager (nothing is compiled), without gradients, exactly so many tokens: the end of a text does not end it, as
`min_length` does not let GenAI end one. The logits of the last position alone are computed where the model can do that,
as in `generate`. A time ends when the token is on the host: on a device the copy waits for all that was launched.
"""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .generator_config import fail, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .generator_prompt import Prompt
    from .hf_model import LoadedHf


class HfGeneration:
    """What is generated, again and again: the counterpart of `generator_rounds.Generation`."""

    def __init__(self, opened: LoadedHf, prompt: Prompt, new_tokens: int, *, is_static: bool) -> None:
        """Check the lengths.

        Raises:
            StepError: Prompt and new tokens exceed the positions of the model (`input`).
        """
        if isinstance(new_tokens, bool) or not isinstance(new_tokens, (int, np.integer)) or new_tokens < 1:
            fail("input", f"`new_tokens` must be a whole number of at least 1, got {new_tokens!r}")
        self.max_length = prompt.prompt_tokens + int(new_tokens)
        if opened.context_length and self.max_length > opened.context_length:
            fail(
                "input",
                f"a prompt of {prompt.prompt_tokens} tokens and {new_tokens} new ones are {self.max_length}, and the "
                f"model has {opened.context_length} positions (`max_position_embeddings` in config.json)",
            )
        self.prompt, self.new_tokens, self.share_buffer = prompt, int(new_tokens), is_static
        self._opened, self._torch, self._model = opened, opened.torch, opened.model
        self._ids = opened.torch.from_numpy(prompt.ids.astype(np.int64)).to(opened.device)
        self._static: Any = None
        parameters = inspect.signature(opened.model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # renamed in transformers 5
        self._last_alone = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}

    def _new_cache(self) -> Any:
        """Return an empty cache; a static one keeps its memory, since GenAI too allocates outside of the times."""
        if not self.share_buffer:
            return self._opened.new_cache(self.max_length, is_static=False)
        if self._static is None:
            self._static = self._opened.new_cache(self.max_length, is_static=True)
        else:
            with self._torch.inference_mode():  # where its memory was made, it is changed
                self._static.reset()
        return self._static

    def _logits(self, ids: Any, cache: Any) -> Any:
        return self._model(input_ids=ids, use_cache=True, **{self._cache_name: cache}, **self._last_alone).logits

    def _token(self, logits: Any) -> tuple[Any, list[int]]:
        """Return the likeliest token of each row, [batch, 1], and the same on the host."""
        token = logits[:, -1].argmax(-1, keepdim=True)
        return token, token[:, 0].tolist()

    def round(self) -> dict[str, Any]:
        """Generate once and return the times in ns: `append_ns`, `first_ns` and `gaps_ns`."""
        return self._timed(self._new_cache())

    def _timed(self, cache: Any) -> dict[str, Any]:
        clock = time.perf_counter_ns
        ends_ns: list[int] = []
        with self._torch.inference_mode():
            begin_ns = clock()
            try:
                logits = self._logits(self._ids, cache)
                self._opened.synchronize()  # as `append_tokens` of GenAI returns when its run is done
                appended_ns = clock()
                token, _ = self._token(logits)
                ends_ns.append(clock())
                while len(ends_ns) < self.new_tokens:
                    token, _ = self._token(self._logits(token, cache))
                    ends_ns.append(clock())
            except Exception as error:
                self._fail_at(error, len(ends_ns))
        gaps_ns = [after - before for before, after in zip(ends_ns, ends_ns[1:])]  # noqa: RUF007 -- Python 3.9
        return {"append_ns": appended_ns - begin_ns, "first_ns": ends_ns[0] - appended_ns, "gaps_ns": gaps_ns}

    def checked_round(self) -> dict[str, Any]:
        """Generate once and check that the cache holds every token but the last, which nothing was computed from."""
        cache = self._new_cache()
        times = self._timed(cache)
        length = int(cache.get_seq_length())
        if length != self.max_length - 1:
            fail("runtime", f"the KV cache holds {length} positions and not {self.max_length - 1}: is it used at all?")
        return times

    def interleaved_round(self, rest: Callable[[], None]) -> tuple[int, list[int]]:
        """Generate once and call `rest` after every token, outside of the times.

        Returns:
            TTFT, and the time of each step after the first token, in ns.
        """
        cache, clock = self._new_cache(), time.perf_counter_ns
        times_ns: list[int] = []
        token = self._ids
        with self._torch.inference_mode():
            try:
                for _ in range(self.new_tokens):
                    begin_ns = clock()
                    token, _ = self._token(self._logits(token, cache))
                    times_ns.append(clock() - begin_ns)
                    rest()
            except Exception as error:
                self._fail_at(error, len(times_ns))
        return times_ns[0], times_ns[1:]

    def tokens(self) -> list[list[int]]:
        """Generate and return the new tokens of each row."""
        cache, token = self._new_cache(), self._ids
        columns = []
        with self._torch.inference_mode():
            for _ in range(self.new_tokens):
                token, on_host = self._token(self._logits(token, cache))
                columns.append(on_host)
        return [list(row) for row in zip(*columns)]

    def _fail_at(self, error: Exception, count: int) -> NoReturn:
        where = f"after {count} of {self.new_tokens} tokens" if count else "in the prefill"
        fail("runtime", f"PyTorch failed {where}: {message_of(error)}", error)
