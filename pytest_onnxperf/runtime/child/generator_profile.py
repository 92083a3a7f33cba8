"""Profiles a prefill and some decode steps: one file for each step where the runtime can, else one for each session.

Run-level: `set_runtime_option("enable_profiling", prefix)`, the file is written with the run. Its name has the
millisecond, so that each step gets a prefix of its own. Session-level: the file is written when the model is gone, and
a step is a window in it. The profile's clock begins when the empty file is made, whose time is only as fine as the
kernel's tick (up to 10 ms), so that steps are kept apart by pauses.
"""

from __future__ import annotations

import glob
import os
import time
from typing import TYPE_CHECKING, Any

from .generator_config import DECODER, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from .generator_model import LoadedModel
    from .generator_rounds import Generation

# Sections that run for the prompt alone.
_PROMPT_SECTIONS = ("encoder", "speech", "vision")
# Around each step of a session-level profile: more than a tick of the kernel, and more than twice that.
_MARGIN_NS = 12_000_000
_PAUSE_S = 0.03


def profile(
    opened: LoadedModel, generation: Generation, decode_steps: int, mark: Callable[[str], Any]
) -> dict[str, Any]:
    """Return the profiled steps (see `GeneratorSteps.profile`).

    Raises:
        StepError: The model was opened without a `profile_prefix`, or `new_tokens` is too small (`input`).
    """
    if decode_steps < min(1, generation.new_tokens - 1) or decode_steps >= generation.new_tokens:
        msg = f"`decode_steps` must be 1 to {generation.new_tokens - 1} (`new_tokens` - 1), got {decode_steps}"
        fail("input", msg)
    generation.round()  # what a first run does besides is not profiled
    if opened.has_run_profile:
        return _by_run(generation, opened.profile_prefix, decode_steps, mark)
    if not opened.session_prefixes:
        fail("input", "the model was opened without a `profile_prefix`")
    return _by_session(opened, generation, decode_steps, mark)


def _by_run(generation: Generation, prefix: str, decode_steps: int, mark: Callable[[str], Any]) -> dict[str, Any]:
    generator = generation.new_generator()
    steps = []
    count = 0
    try:
        for index in range(decode_steps + 1):
            step_prefix = f"{prefix}-step{index:06d}"
            generator.set_runtime_option("enable_profiling", step_prefix)
            with mark(_phase(index)):
                if index == 0:
                    generation.begin(generator)
                    generator.set_runtime_option("enable_profiling", "0")
                generator.generate_next_token()  # the first samples a token, and runs nothing
            generator.is_done()
            count += 1
            steps += [_step(index, DECODER, path, None) for path in _written(step_prefix)]
    except RuntimeError as error:
        generation.fail_at(error, count)
    return {"steps": steps, "session_paths": {}}


def _by_session(
    opened: LoadedModel, generation: Generation, decode_steps: int, mark: Callable[[str], Any]
) -> dict[str, Any]:
    paths = {section: _written(prefix)[0] for section, prefix in opened.session_prefixes.items()}
    starts_ns = {section: _start_ns(path) for section, path in paths.items()}
    generator = generation.new_generator()
    steps = []
    count = 0
    try:
        for index in range(decode_steps + 1):
            time.sleep(_PAUSE_S)
            begin_ns = time.time_ns()
            with mark(_phase(index)):
                if index == 0:
                    generation.begin(generator)
                generator.generate_next_token()
                generator.is_done()
            end_ns = time.time_ns()
            count += 1
            for section, path in paths.items():
                if index == 0 or section not in _PROMPT_SECTIONS:
                    start_ns = starts_ns[section]
                    window = [begin_ns - start_ns - _MARGIN_NS, end_ns - start_ns + _MARGIN_NS]
                    steps.append(_step(index, section, path, window))
    except RuntimeError as error:
        generation.fail_at(error, count)
    return {"steps": steps, "session_paths": paths}


def _step(index: int, session: str, path: str, window: list[int] | None) -> dict[str, Any]:
    return {"phase": _phase(index), "step": index, "session": session, "path": path, "window": window}


def _phase(index: int) -> str:
    return "decode" if index else "prefill"


def _written(prefix: str) -> list[str]:
    """Return the files that a profile with this prefix was written to; a prefill in chunks has several."""
    found = sorted(glob.glob(f"{glob.escape(prefix)}_*.json"))
    if not found:
        fail("run", f"the runtime was asked for a profile {os.path.basename(prefix)}_*.json and wrote none")
    return found


def _start_ns(path: str) -> int:
    """Return the system time at which a profile began: its file is made then, and written when the session ends."""
    return os.stat(path).st_mtime_ns
