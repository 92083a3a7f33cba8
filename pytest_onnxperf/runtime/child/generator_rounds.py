"""One generation and its times: a fresh `Generator`, the prompt, then exactly so many tokens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .generator_config import fail, message_of
from .reference import NotPossibleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .generator_model import LoadedModel
    from .generator_prompt import Prompt


class Generation:
    """What is generated, again and again: a prompt, a number of tokens, and the search options."""

    def __init__(
        self,
        opened: LoadedModel,
        prompt: Prompt,
        new_tokens: int,
        share_buffer: bool | None,
        options: dict[str, Any],
        min_new_tokens: int | None = None,
    ) -> None:
        """Check the lengths, and let the runtime check the options.

        Args:
            opened: The model.
            prompt: Of this model.
            new_tokens: At least 1.
            share_buffer: None: as the configuration says.
            options: Search options, checked.
            min_new_tokens: Tokens before the model may end the text; None: all of them.

        Raises:
            StepError: Prompt and new tokens exceed the context (`input`), or an option is refused (`option`).
        """
        if isinstance(new_tokens, bool) or not isinstance(new_tokens, (int, np.integer)) or new_tokens < 1:
            fail("input", f"`new_tokens` must be a whole number of at least 1, got {new_tokens!r}")
        context = int(opened.config["model"].get("context_length", 0))
        self.max_length = prompt.prompt_tokens + int(new_tokens)
        if self.max_length > context:
            fail(
                "input",
                f"a prompt of {prompt.prompt_tokens} tokens and {new_tokens} new ones are {self.max_length}, and the "
                f"context of the model is {context} (`context_length` in genai_config.json)",
            )
        self.prompt = prompt
        self.new_tokens = int(new_tokens)
        self._genai, self._model = opened.genai, opened.model
        shortest = new_tokens if min_new_tokens is None else min_new_tokens
        self._options: dict[str, Any] = {
            "do_sample": False,
            **options,
            "max_length": self.max_length,
            "min_length": prompt.prompt_tokens + int(shortest),
            "batch_size": prompt.batch_size,
        }
        configured = opened.config.get("search", {}).get("past_present_share_buffer", False)
        self.share_buffer = bool(configured if share_buffer is None else share_buffer)
        self._options["past_present_share_buffer"] = self.share_buffer
        self._params()

    def _params(self) -> Any:
        try:
            params = self._genai.GeneratorParams(self._model)
            params.set_search_options(**self._options)
        except Exception as error:
            self._fail_options(error)
        return params

    def new_generator(self) -> Any:
        """Return a `Generator` that has seen nothing yet."""
        params = self._params()
        try:
            return self._genai.Generator(self._model, params)
        except Exception as error:
            self._fail_options(error)

    def _fail_options(self, error: Exception) -> NoReturn:
        text = message_of(error)
        given = ", ".join(f"{name}={value}" for name, value in self._options.items())
        kind = "run" if "alloc" in text or "memory" in text else "option"  # a generator allocates its KV cache
        fail(kind, f"no generator can be made with these search options ({given}): {text}", error)

    def begin(self, generator: Any) -> None:
        """Give the prompt to a generator, which runs the prefill."""
        if self.prompt.inputs is not None:
            generator.set_inputs(self.prompt.inputs)
        else:
            generator.append_tokens(self.prompt.ids)

    def round(self) -> dict[str, Any]:
        """Generate once and return the times in ns: `append_ns`, `first_ns` and `gaps_ns`."""
        return self._timed(self.new_generator())

    def _timed(self, generator: Any) -> dict[str, Any]:
        # `is_done` belongs inside of every time: on a device it is what waits for the token.
        clock, step, is_done = time.perf_counter_ns, generator.generate_next_token, generator.is_done
        ends_ns: list[int] = []
        count = 0
        begin_ns = clock()
        try:
            self.begin(generator)
            appended_ns = clock()
            while count < self.new_tokens:
                step()
                done = is_done()
                ends_ns.append(clock())
                count += 1
                if done:
                    break
        except Exception as error:
            self.fail_at(error, count)
        if count < self.new_tokens or not done:
            self._fail_count(count, done)
        gaps_ns = [after - before for before, after in zip(ends_ns, ends_ns[1:])]  # noqa: RUF007 -- Python 3.9
        return {"append_ns": appended_ns - begin_ns, "first_ns": ends_ns[0] - appended_ns, "gaps_ns": gaps_ns}

    def interleaved_round(self, rest: Callable[[], None]) -> tuple[int, list[int]]:
        """Generate once and call `rest` after every token, outside of the times.

        Returns:
            TTFT, and the time of each step after the first token, in ns.
        """
        generator, clock = self.new_generator(), time.perf_counter_ns
        times_ns: list[int] = []
        try:
            for index in range(self.new_tokens):
                begin_ns = clock()
                if not index:
                    self.begin(generator)
                generator.generate_next_token()
                generator.is_done()
                times_ns.append(clock() - begin_ns)
                rest()
        except NotPossibleError:
            raise  # of the reference workload in `rest`, no failure of the generation
        except Exception as error:
            self.fail_at(error, len(times_ns))
        return times_ns[0], times_ns[1:]

    def fail_at(self, error: Exception, count: int) -> NoReturn:
        """Raise the error of a generation in which the runtime failed after `count` tokens."""
        where = f"after {count} of {self.new_tokens} tokens" if count else "in the prefill"
        hint = ""
        if self.share_buffer and not count:
            hint = "\n\nPast and present share a buffer here, which not every model can: try `share_buffer=False`."
        fail("run", f"{where}: {message_of(error)}{hint}", error)

    def _fail_count(self, count: int, done: bool) -> NoReturn:
        if done:
            why = f"the generation ended after token {count} of {self.new_tokens}, by itself (EOS)"
            fail("run", f"{why}; a generator is measured over exactly `new_tokens` tokens")
        fail("run", f"the generation did not end after {count} tokens, at its `max_length` {self.max_length}")

    def checked_round(self) -> dict[str, Any]:
        """Generate once and check that each row really has the tokens that were timed."""
        generator = self.new_generator()
        times = self._timed(generator)
        for row in range(self.prompt.batch_size):
            length = len(generator.get_sequence(row))
            if length != self.max_length:
                msg = f"row {row} has {length - self.prompt.prompt_tokens} new tokens, not {self.new_tokens}"
                fail("run", msg)
        return times

    def tokens(self) -> list[list[int]]:
        """Generate and return the new tokens of each row; fewer where the model ends the text."""
        generator = self.new_generator()
        count = 0
        try:
            self.begin(generator)
            while count < self.new_tokens and not generator.is_done():
                generator.generate_next_token()
                count += 1
        except Exception as error:
            self.fail_at(error, count)
        skipped = self.prompt.prompt_tokens
        return [np.asarray(generator.get_sequence(row))[skipped:].tolist() for row in range(self.prompt.batch_size)]
