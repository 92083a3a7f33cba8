"""Makes, checks and encodes prompts: token ids of exactly the length that is measured."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .generator_config import fail, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .generator_model import LoadedModel

_SEED = 20240229
# What the names of the inputs have in common that a processor makes of images and audios.
_MARKS = {"images": ("image", "pixel"), "audios": ("audio",)}
_IMAGE_BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@dataclass(frozen=True)
class Given:
    """What a test gave as its prompt: exactly one of the first three."""

    prompt_tokens: int | None = None
    prompt: Any = None
    tokens: Any = None
    batch_size: int = 1
    images: list[str] = field(default_factory=list)
    audios: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Prompt:
    """What a generation begins with."""

    prompt_tokens: int
    """Of each row."""
    batch_size: int
    ids: Any
    """int32 [batch, tokens]; None where `inputs` is there."""
    inputs: Any = None
    """`NamedTensors` of the model's own processor."""


def make(opened: LoadedModel, tokenizer: Callable[[], Any], given: Given) -> Prompt:
    """Return the prompt that was given.

    Raises:
        StepError: Not exactly one form was given, or it does not fit the model (`input`).
    """
    forms = {"prompt_tokens": given.prompt_tokens, "prompt": given.prompt, "tokens": given.tokens}
    names = [name for name, value in forms.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(names) or "none"
        fail("input", f"give exactly one of `prompt_tokens`, `prompt` and `tokens`, got {got}")
    _check_count("batch_size", given.batch_size)
    if given.images or given.audios:
        return _processed(opened, given)
    if given.prompt_tokens is not None:
        _check_count("prompt_tokens", given.prompt_tokens)
        row = made_tokens(given.prompt_tokens, allowed_tokens(opened.config, opened.directory))
        ids = np.tile(row, (given.batch_size, 1))
    elif given.prompt is not None:
        ids = _rows(_encoded(tokenizer(), given.prompt), given.batch_size)
    else:
        ids = _rows(given.tokens, given.batch_size)
    _check_range(ids, int(opened.config["model"].get("vocab_size", 0)))
    return Prompt(ids.shape[1], ids.shape[0], np.ascontiguousarray(ids, dtype=np.int32))


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        fail("input", f"`{name}` must be a whole number of at least 1, got {value!r}")


def made_tokens(count: int, allowed: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return `count` of the allowed ids, the same on every machine: numpy fixes the raw bits of PCG64, and no more."""
    bits = np.asarray(np.random.PCG64(_SEED).random_raw(count))
    return np.asarray(allowed[bits % np.uint64(len(allowed))])


def allowed_tokens(config: dict[str, Any], directory: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the ids of ordinary tokens: in the vocabulary, and special neither to the model nor to its tokenizer."""
    size = int(config["model"].get("vocab_size", 0))
    known, special = _tokenizer_tokens(directory)
    special |= set(_config_tokens(config["model"]))
    ids = np.array([i for i in range(min(size, known or size)) if i not in special], dtype=np.int32)
    if not len(ids):
        fail("model", f"no prompt can be made: of {size} tokens (`vocab_size`) all are special")
    return ids


def _config_tokens(section: dict[str, Any]) -> Iterator[int]:
    """Yield what is called `..._token_id` anywhere in the configuration: an id or a list of them."""
    for name, value in section.items():
        if isinstance(value, dict):
            yield from _config_tokens(value)
        elif name.endswith(("_token_id", "_token_ids")):
            yield from (value if isinstance(value, list) else [value])


def _tokenizer_tokens(directory: str) -> tuple[int, set[int]]:
    """Return the number of ids that tokenizer.json knows, 0 where that cannot be told, and the special ones."""
    try:
        with open(os.path.join(directory, "tokenizer.json"), encoding="utf-8-sig") as file:
            content = json.load(file)
        vocabulary = content["model"]["vocab"]
        added = {entry["id"]: bool(entry.get("special")) for entry in content.get("added_tokens") or []}
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        return max([*ids, *added]) + 1, {token for token, is_special in added.items() if is_special}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0, set()


def _encoded(tokenizer: Any, prompt: Any) -> list[list[int]]:
    texts = [prompt] if isinstance(prompt, str) else list(prompt)
    for text in texts:
        if not isinstance(text, str):
            fail("input", f"`prompt` must be a text or a list of texts, got {text!r}")
        if not text:
            fail("input", "`prompt` is empty")
    try:
        return [np.asarray(tokenizer.encode(text)).tolist() for text in texts]
    except Exception as error:
        fail("input", f"the prompt cannot be tokenised: {message_of(error)}", error)


def _rows(tokens: Any, batch_size: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Return [batch, tokens] of one row or several; one row is repeated."""
    if isinstance(tokens, (list, tuple)) and tokens and all(isinstance(row, (list, tuple)) for row in tokens):
        lengths = sorted({len(row) for row in tokens})
        if len(lengths) > 1:
            fail("input", f"all rows of a batch must be equally long, got rows of {lengths} tokens")
    try:
        ids = np.atleast_2d(np.asarray(tokens))
    except ValueError as error:
        fail("input", f"`tokens` must be a row of ids or rows of equal length: {error}", error)
    if ids.size == 0:
        fail("input", "the prompt has no tokens")
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        fail("input", f"`tokens` must be whole numbers, [tokens] or [batch, tokens], got {ids.dtype}{ids.shape}")
    if len(ids) == 1:
        return np.tile(ids, (batch_size, 1))
    if batch_size not in (1, len(ids)):
        fail("input", f"`batch_size` is {batch_size}, and the prompt has {len(ids)} rows")
    return ids


def _check_range(ids: np.ndarray[Any, np.dtype[Any]], vocabulary: int) -> None:
    if vocabulary < 1:
        fail("model", "genai_config.json has no `vocab_size`, so that token ids cannot be checked")
    wrong = ids[(ids < 0) | (ids >= vocabulary)]
    if len(wrong):
        fail("input", f"token id {wrong[0]} is not in the vocabulary of the model, 0 to {vocabulary - 1}")


def _processed(opened: LoadedModel, given: Given) -> Prompt:
    """Run the model's own processor on the images or audios and the text."""
    if not isinstance(given.prompt, str) or given.batch_size != 1:
        fail("input", "images and audios go with one `prompt`, a text with the marks of the model in it")
    if not hasattr(opened.model, "create_multimodal_processor"):
        fail("runtime", "this version of onnxruntime-genai has no processor for images and audios")
    media = {
        "images": _opened_files(opened.genai, "Images", given.images),
        "audios": _opened_files(opened.genai, "Audios", given.audios),
    }
    try:
        processor = opened.model.create_multimodal_processor()
    except Exception as error:
        kind = str(opened.model.type)
        fail("input", f"this model ({kind}) takes no images or audios: {message_of(error)}", error)
    try:
        inputs = processor(given.prompt, **{name: value for name, value in media.items() if value is not None})
    except Exception as error:
        fail("input", f"the model's processor refuses the prompt: {message_of(error)}", error)
    names = sorted(inputs.keys())
    for kind, files in media.items():
        if files is not None and not any(mark in name for name in names for mark in _MARKS[kind]):
            fail("input", f"the model's processor has no use for {kind}: it gives only {', '.join(names)}")
    ids = [name for name in names if name.endswith("input_ids")]  # some encoder-decoder models: decoder_input_ids
    if not ids:
        fail("input", f"the model's processor gives no token ids, only {', '.join(names)}: its prompt has no length")
    return Prompt(int(inputs[ids[0]].shape()[-1]), 1, None, inputs)


def _opened_files(genai: Any, kind: str, paths: Sequence[str]) -> Any:
    if not paths:
        return None
    for path in paths:
        if not os.path.isfile(path):
            fail("input", f"{path} is no file")
        if kind == "Images":
            _check_image(path)
    if not hasattr(genai, kind):
        fail("runtime", f"this version of onnxruntime-genai has no {kind}")
    try:
        return getattr(genai, kind).open(*paths)
    except Exception as error:
        fail("input", f"{', '.join(paths)} cannot be opened: {message_of(error)}", error)


def _check_image(path: str) -> None:
    """Refuse what the decoder on Linux takes for a JPEG: it ends the process at a file that is none."""
    with open(path, "rb") as file:
        beginning = file.read(8)
    if sys.platform.startswith("linux") and not beginning.startswith(_IMAGE_BEGINNINGS):
        fail("input", f"{path} is neither a PNG nor a JPEG, the images that ONNX Runtime GenAI reads here")
