"""The steps of an A/B of two GenAI models in one process, which generate from the same prompt in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .generator import GeneratorSteps
from .generator_config import message_of
from .output_check import compare_outputs
from .pair_turns import CANDIDATE, REFERENCE, Turns
from .step_marks import no_mark

if TYPE_CHECKING:
    from .generator_rounds import Generation


class GeneratorPairSteps:
    """Two models and what is generated with them. Times are ns of the monotonic clock."""

    def __init__(self) -> None:
        self._arms = {REFERENCE: GeneratorSteps(), CANDIDATE: GeneratorSteps()}
        self._turns = Turns()
        self.mark = no_mark

    def hello(self) -> dict[str, Any]:
        """Say which interpreter and runtime these are, as `GeneratorSteps.hello`."""
        return self._arms[REFERENCE].hello()

    def open(self, arm: str, job: dict[str, Any]) -> dict[str, Any]:
        """Load the model of one arm (see `GeneratorSteps.open`)."""
        return self._arms[arm].open(job)

    def prepare(self, arm: str, **prompt: Any) -> dict[str, Any]:
        """Make the prompt of one arm (see `GeneratorSteps.prepare`)."""
        return self._arms[arm].prepare(**prompt)

    def warm_up(self, arm: str, rounds: int) -> dict[str, Any]:
        """Generate untimed with one arm (see `GeneratorSteps.warm_up`)."""
        return self._arms[arm].warm_up(rounds)

    def outputs(self, rtol: float, atol: float) -> dict[str, Any]:
        """Generate with both at once, and compare logits before each token for as long as both choose the same ones.

        Where logits were equal within the tolerances and yet another token is chosen, two tokens were as likely: what
        follows are two texts, of which nothing can be compared.
        """
        found = self._compared(REFERENCE, CANDIDATE, rtol, atol)
        if found["state"] == "differ":
            again = self._compared(REFERENCE, REFERENCE, rtol, atol)
            if again["state"] == "differ":  # of kernels that are not deterministic, say
                text = f"the reference differs from itself in two generations, {again['text']}"
                return {**again, "state": "cannot tell", "text": text}
        return found

    def _compared(self, one: str, other: str, rtol: float, atol: float) -> dict[str, Any]:
        generations = [self._arms[arm].generation for arm in (one, other)]
        generators = [each.new_generator() for each in generations]
        worst: dict[str, Any] = {"state": "cannot tell", "text": "no token was generated", "largest_difference": None}
        for generation, generator in zip(generations, generators):
            generation.begin(generator)
        for place in range(generations[0].new_tokens):
            name = f"logits before token {place + 1}"
            try:
                logits = [{name: np.array(generator.get_logits())} for generator in generators]
            except Exception as error:  # the runtime's exceptions have no other base
                return {**worst, "state": "cannot tell", "text": f"the {name} cannot be had: {message_of(error)}"}
            found = compare_outputs(logits[0], logits[1], rtol, atol)
            if found["state"] != "equal":
                return found
            if not place or found["largest_difference"] > worst["largest_difference"]:
                worst = found
            for generator in generators:
                generator.generate_next_token()
            tokens = [_last_tokens(each, generator) for each, generator in zip(generations, generators)]
            if tokens[0] != tokens[1]:
                text = f"{worst['text']}; token {place + 1} differs, both as likely, and what follows is not compared"
                return {**worst, "text": text}
        return worst

    def block(self, pairs: int, max_time_s: float) -> dict[str, Any]:
        """Time pairs of generations (see `Turns.block`); each is what `GeneratorSteps.round` returns."""
        rounds = {arm: steps.generation.round for arm, steps in self._arms.items()}
        return self._turns.block(rounds, pairs, max_time_s)

    def close(self) -> dict[str, Any]:
        """Drop both models."""
        for steps in self._arms.values():
            steps.close()
        self._turns = Turns()
        return {}


def _last_tokens(generation: Generation, generator: Any) -> list[int]:
    return [int(generator.get_sequence(row)[-1]) for row in range(generation.prompt.batch_size)]
