"""Requests at once through `onnxruntime_genai.Engine`: the time of every token of every request.

Two forms of its API are known: from 0.16 on events (`create_request`, `begin_turn`, `run`), before that steps
(`Request`, `add_request`, `step`). All requests are handed in at once. Continuous batching needs a model with
PagedAttention, others are batched statically: a request beyond the batch waits for a whole batch.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .generator_config import fail

if TYPE_CHECKING:
    from collections.abc import Sequence


def batching(config: dict[str, Any]) -> str:
    """Return `continuous` where the configuration asks the engine for it, else `static`."""
    return "continuous" if config.get("engine", {}).get("dynamic_batching") else "static"


def run_requests(genai: Any, model: Any, prompts: Sequence[Any], new_tokens: int) -> dict[str, Any]:
    """Run one request for each prompt, all at once, and return when each of its tokens came.

    Args:
        genai: The module.
        model: The open model.
        prompts: An int32 array of token ids for each request.
        new_tokens: Tokens that each request generates.

    Returns:
        `token_ns`: for each request, the times of its tokens after the requests were handed in; `total_ns`: the last.

    Raises:
        StepError: The version has no engine (`input`), or a request failed or ended early (`run`).
    """
    if not hasattr(genai, "Engine"):
        msg = "input"
        raise fail(msg, "this onnxruntime-genai has no Engine: requests at once need 0.11 or later")
    run = _run_events if hasattr(genai.Engine, "create_request") else _run_steps
    token_ns = run(genai, model, prompts, new_tokens)
    for number, times in enumerate(token_ns):
        if len(times) != new_tokens:
            msg = "run"
            raise fail(msg, f"request {number} of {len(prompts)} made {len(times)} tokens instead of {new_tokens}")
    return {"token_ns": token_ns, "total_ns": max(times[-1] for times in token_ns)}


def _run_events(genai: Any, model: Any, prompts: Sequence[Any], new_tokens: int) -> list[list[int]]:
    engine = genai.Engine(model)
    token_ns: list[list[int]] = [[] for _ in prompts]
    requests: dict[int, tuple[int, Any]] = {}
    turns = []
    for number, _ in enumerate(prompts):
        request = engine.create_request()
        options = genai.TurnOptions(request)
        options.set_max_generated_tokens(new_tokens)
        options.set_min_generated_tokens(new_tokens)
        options.set_do_sample(False)
        requests[id(request)] = (number, request)
        turns.append((request, options))
    events = engine.create_event_buffer(max(64, 2 * len(prompts)))
    begin_ns = time.perf_counter_ns()
    for (request, options), tokens in zip(turns, prompts):
        request.begin_turn(tokens, options)
    while engine.has_pending_requests():
        for event in engine.run(events):
            number = requests[id(event.request)][0]
            if int(event.flags) & int(genai.EngineEventFlags.FAILED):
                msg = "run"
                raise fail(msg, f"request {number} failed: {event.error_code}")
            if int(event.flags) & int(genai.EngineEventFlags.TOKEN):
                token_ns[number].append(time.perf_counter_ns() - begin_ns)
    for request, _ in turns:
        request.close()
    return token_ns


def _run_steps(genai: Any, model: Any, prompts: Sequence[Any], new_tokens: int) -> list[list[int]]:
    engine = genai.Engine(model)
    token_ns: list[list[int]] = [[] for _ in prompts]
    requests = []
    for tokens in prompts:
        params = genai.GeneratorParams(model)
        length = len(tokens) + new_tokens
        params.set_search_options(max_length=length, min_length=length, do_sample=False)
        request = genai.Request(params)
        request.add_tokens(tokens)
        requests.append(request)
    begin_ns = time.perf_counter_ns()
    for request in requests:
        engine.add_request(request)
    while engine.has_pending_requests():
        engine.step()
        now_ns = time.perf_counter_ns() - begin_ns
        for request, times in zip(requests, token_ns):
            while request.has_unseen_tokens():
                request.get_unseen_token()
                times.append(now_ns)
    return token_ns


def run_block(
    genai: Any, model: Any, prompt: Any, new_tokens: int, concurrency: int, min_rounds: int, max_time_s: float
) -> list[dict[str, Any]]:
    """Run `concurrency` requests at once, again and again for `max_time_s`, at least `min_rounds`, after a warm-up.

    Every request has the prompt rotated by its number: equal prompts would let the engine reuse a prefix.
    """
    prompts = [np.roll(prompt, number).astype(np.int32) for number in range(concurrency)]
    run_requests(genai, model, prompts, new_tokens)
    rounds: list[dict[str, Any]] = []
    end_s = time.monotonic() + max_time_s
    while len(rounds) < min_rounds or time.monotonic() < end_s:
        rounds.append(run_requests(genai, model, prompts, new_tokens))
    return rounds
