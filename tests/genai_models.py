"""Small real model directories for ONNX Runtime GenAI, written by the tests that use them.

Every function writes a directory and returns it; the weights are seeded, so the same options give the same bytes. The
models load in onnxruntime-genai 0.11 to 0.18, and the form `attention` runs from onnxruntime 1.24 on. The vocabulary is
the 256 bytes and some special tokens, and a token is a byte: the tokenizer needs no training and no package. The
special tokens have a bias of -1e4 in the head, so that a model never ends a text by itself.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from onnx import TensorProto, helper

from tests.models import FLOAT, INT64, MICROSOFT, _Graph, _write

if TYPE_CHECKING:
    from pathlib import Path

Attention = Literal["gqa", "attention", "unfused"]
"""com.microsoft GroupQueryAttention; ai.onnx Attention; MatMul, Softmax, MatMul."""
FORMS: Final[tuple[Attention, ...]] = ("gqa", "attention", "unfused")

SPECIAL_TOKENS: Final = ("<pad>", "<s>", "</s>", "<|user|>", "<start_of_image>", "<image_soft_token>", "<end_of_image>")
PAD, BOS, EOS, USER, START_OF_IMAGE, IMAGE, END_OF_IMAGE = range(256, 256 + len(SPECIAL_TOKENS))
VOCABULARY: Final = 256 + len(SPECIAL_TOKENS)
IMAGE_TOKENS: Final = 256
"""Tokens that an image takes in the prompt; the processor of model type gemma3 has this number built in."""
_IMAGE_SIDE: Final = 32
_PATCH: Final = 2


@dataclass(frozen=True)
class Size:
    """How large a decoder is. GroupQueryAttention wants a head size that is a multiple of 16, on the CPU too."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    inner: int = 128
    """Width of the MLP."""
    context: int = 4096

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True)
class Setting:
    """What the configuration says beside the sizes."""

    share_buffer: bool | None = None
    """Past and present in one buffer; None: where the form of attention can, which is gqa alone."""
    provider: str = ""
    """GenAI's name, "webgpu"; "" for the CPU."""
    provider_options: Mapping[str, str] = field(default_factory=dict)
    eos: int | Sequence[int] = EOS


SMALL: Final = Size()
PLAIN: Final = Setting()


def decoder(
    directory: Path, attention: Attention = "gqa", *, size: Size = SMALL, setting: Setting = PLAIN, seed: int = 0
) -> Path:
    """A text model: embedding, layers of norm, attention with rotary positions and KV cache, MLP; last norm, head.

    The three forms of attention have the same weights for a seed, and give the same tokens.
    """
    graph = _Graph(seed)
    ids = graph.input("input_ids", INT64, ["batch", "seq"])
    embedded = graph.node("Gather", graph.weight("embedding", VOCABULARY, size.hidden), ids, out="embedded")
    _Decoder(graph, attention, size, ids).build(embedded)
    _write(directory / "model.onnx", graph.model(opset=_opset(attention), ir_version=10))
    inputs = {"input_ids": "input_ids"} | _position_ids(attention)
    _write_tokenizer(directory)
    _write_json(directory / "genai_config.json", _config("llama", "model.onnx", inputs, attention, size, setting))
    return directory


def vision_language(directory: Path, *, size: Size = SMALL, setting: Setting = PLAIN, seed: int = 0) -> Path:
    """A model of type gemma3 with three sessions: vision, embedding, decoder (gqa).

    Prompts hold `<start_of_image>` once for each image; it becomes 256 soft tokens and some more. The vision session
    turns pixels [images, 3, 32, 32] into 256 patches of 2 x 2 and projects them.
    """
    opset = {"opset": 21, "ir_version": 10}
    _write(directory / "vision.onnx", _vision(size, seed).model(**opset))
    _write(directory / "embedding.onnx", _embedding(size, seed).model(**opset))
    graph = _Graph(seed)
    embedded = graph.input("inputs_embeds", FLOAT, ["batch", "seq", size.hidden])
    _Decoder(graph, "gqa", size, embedded).build(embedded)
    _write(directory / "decoder.onnx", graph.model(**opset))

    config = _config("gemma3", "decoder.onnx", {"inputs_embeds": "inputs_embeds"}, "gqa", size, setting)
    config["model"]["vision"] = {
        "filename": "vision.onnx",
        "config_filename": "processor_config.json",
        "inputs": {"pixel_values": "pixel_values"},
        "outputs": {"image_features": "image_features"},
    }
    config["model"]["embedding"] = {
        "filename": "embedding.onnx",
        "inputs": {"input_ids": "input_ids", "image_features": "image_features"},
        "outputs": {"inputs_embeds": "inputs_embeds"},
    }
    _write_tokenizer(directory)
    _write_json(directory / "processor_config.json", _processor_config())
    _write_json(directory / "genai_config.json", config)
    return directory


def _vision(size: Size, seed: int) -> _Graph:
    """pixel_values -> image_features [images, 256, hidden]: patches, projected."""
    graph = _Graph(seed)
    pixels = graph.input("pixel_values", FLOAT, ["images", 3, _IMAGE_SIDE, _IMAGE_SIDE])
    kernel = graph.weight("patches", size.hidden, 3, _PATCH, _PATCH)
    value = graph.node("Conv", pixels, kernel, out="patched", kernel_shape=[_PATCH] * 2, strides=[_PATCH] * 2)
    value = graph.node("Reshape", value, graph.constant("rows", [0, 0, -1]), out="flat")
    value = graph.node("Transpose", value, out="turned", perm=[0, 2, 1])
    graph.node("MatMul", value, graph.weight("projection", size.hidden, size.hidden), out="image_features")
    graph.output("image_features", FLOAT, ["images", "image_tokens", size.hidden])
    return graph


def _embedding(size: Size, seed: int) -> _Graph:
    """input_ids, image_features -> inputs_embeds: the features in the places of the image tokens."""
    graph = _Graph(seed)
    ids = graph.input("input_ids", INT64, ["batch", "seq"])
    # Of no fixed rank: without an image GenAI 0.18 gives [0, hidden], older versions [0, 0, hidden].
    graph.inputs.append(helper.make_tensor_value_info("image_features", FLOAT, None))
    features = graph.node("Reshape", "image_features", graph.constant("rows", [-1, size.hidden]), out="features")
    value = graph.node("Gather", graph.weight("embedding", VOCABULARY, size.hidden), ids, out="embedded")
    is_image = graph.node("Equal", ids, graph.constant("image", IMAGE), out="is_image")
    places = graph.node("Transpose", graph.node("NonZero", is_image, out="found"), out="places", perm=[1, 0])
    graph.node("ScatterND", value, places, features, out="inputs_embeds")
    graph.output("inputs_embeds", FLOAT, ["batch", "seq", size.hidden])
    return graph


def image(path: Path, *, side: int = 48, seed: int = 0) -> Path:
    """A square PNG of seeded noise."""
    rows = np.random.Generator(np.random.PCG64(seed)).integers(0, 256, (side, 3 * side), np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    written = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + written)
    return path


class _Decoder:
    """Writes the layers of a decoder into a graph, with the inputs and outputs of its KV cache."""

    def __init__(self, graph: _Graph, attention: Attention, size: Size, first: str) -> None:
        self._graph, self._attention, self._size = graph, attention, size
        self._first = first
        """The input whose second dimension is the number of new tokens."""
        self._mask = graph.input("attention_mask", INT64, ["batch", "total"])
        self._scale = size.head_size**-0.5
        self._positions = "" if attention == "gqa" else graph.input("position_ids", INT64, ["batch", "seq"])
        angles = np.outer(np.arange(size.context), 1e4 ** -(np.arange(0, size.head_size, 2) / size.head_size))
        self._rotary = [
            graph.constant(name, function(angles), np.float32)
            for name, function in (("cos_cache", np.cos), ("sin_cache", np.sin))
        ]

    def build(self, value: str) -> None:
        """Add everything from the embedded tokens to the logits."""
        graph, size = self._graph, self._size
        lengths = self._lengths() if self._attention == "gqa" else [self._bias()]
        for layer in range(size.layers):
            value = self._layer(value, layer, lengths)
        normal = self._norm(value, "last_norm")
        product = graph.node("MatMul", normal, graph.weight("head", size.hidden, VOCABULARY), out="head_product")
        bias = np.where(np.arange(VOCABULARY) < 256, 0, -1e4)
        graph.output("logits", FLOAT, ["batch", "seq", VOCABULARY])
        graph.node("Add", product, graph.constant("head_bias", bias, np.float32), out="logits")

    def _lengths(self) -> list[str]:
        """The two lengths that GroupQueryAttention takes, from the attention mask."""
        graph = self._graph
        tokens = graph.node("ReduceSum", self._mask, graph.constant("axis_1", [1]), out="tokens", keepdims=0)
        tokens = graph.node("Cast", tokens, out="tokens_32", to=TensorProto.INT32)
        last = graph.node("Sub", tokens, graph.constant("one", [1], np.int32), out="seqlens_k")
        shape = graph.node("Shape", self._mask, out="mask_shape")
        total = graph.node("Gather", shape, graph.constant("index_1", 1), out="total", axis=0)
        return [last, graph.node("Cast", total, out="total_sequence_length", to=TensorProto.INT32)]

    def _bias(self) -> str:
        """The additive mask [batch, 1, new, total] of the other two forms: causal, and not the padding."""
        graph = self._graph
        zero, one, index = graph.constant("zero", 0), graph.constant("one", 1), graph.constant("index_1", 1)
        shapes = [graph.node("Shape", name, out=f"{name}_shape") for name in (self._mask, self._first)]
        total, new = (graph.node("Gather", shape, index, out=f"{shape}_1", axis=0) for shape in shapes)
        past = graph.node("Sub", total, new, out="past")
        keys = graph.node("Range", zero, total, one, out="key_positions")
        queries = graph.node("Range", past, total, one, out="query_positions")
        queries = graph.node("Unsqueeze", queries, graph.constant("axis_1", [1]), out="query_column")
        causal = graph.node("LessOrEqual", keys, queries, out="causal")
        kept = graph.node("Cast", self._mask, out="kept", to=TensorProto.BOOL)
        kept = graph.node("Unsqueeze", kept, graph.constant("axes_1_2", [1, 2]), out="kept_4d")
        seen = graph.node("And", causal, kept, out="seen")
        values = [graph.constant(name, value, np.float32) for name, value in (("open", 0), ("shut", -1e4))]
        return graph.node("Where", seen, *values, out="bias")

    def _norm(self, value: str, name: str) -> str:
        scale = self._graph.constant(f"{name}/scale", np.ones(self._size.hidden), np.float32)
        return self._graph.node("LayerNormalization", value, scale, out=name, epsilon=1e-5)

    def _product(self, value: str, name: str, rows: int, columns: int) -> str:
        return self._graph.node("MatMul", value, self._graph.weight(f"{name}/weight", rows, columns), out=name)

    def _layer(self, value: str, layer: int, lengths: list[str]) -> str:
        graph, size, place = self._graph, self._size, f"layer{layer}"
        normal = self._norm(value, f"{place}/norm1")
        widths = {"q": size.hidden, "k": size.kv_heads * size.head_size, "v": size.kv_heads * size.head_size}
        parts = [self._product(normal, f"{place}/{part}", size.hidden, width) for part, width in widths.items()]
        attend = {"gqa": self._gqa, "attention": self._ai_onnx, "unfused": self._unfused}[self._attention]
        attended = attend(place, parts, self._cache(layer), lengths)
        attended = self._product(attended, f"{place}/o", size.hidden, size.hidden)
        value = graph.node("Add", value, attended, out=f"{place}/residual1")
        normal = self._norm(value, f"{place}/norm2")
        gate, up = (self._product(normal, f"{place}/{part}", size.hidden, size.inner) for part in ("gate", "up"))
        active = graph.node("Mul", gate, graph.node("Sigmoid", gate, out=f"{place}/sigmoid"), out=f"{place}/silu")
        inner = graph.node("Mul", active, up, out=f"{place}/inner")
        down = self._product(inner, f"{place}/down", size.inner, size.hidden)
        return graph.node("Add", value, down, out=f"{place}/residual2")

    def _cache(self, layer: int) -> list[str]:
        """Declare past and present of a layer; return past key, past value, present key, present value."""
        names = {}
        for when, length in (("past_key_values", "past"), ("present", "total")):
            declare = self._graph.input if when == "past_key_values" else self._graph.output
            for kind in ("key", "value"):
                names[when, kind] = f"{when}.{layer}.{kind}"
                declare(names[when, kind], FLOAT, ["batch", self._size.kv_heads, length, self._size.head_size])
        return list(names.values())

    def _gqa(self, place: str, parts: list[str], cache: list[str], lengths: list[str]) -> str:
        out = f"{place}/attended"
        self._graph.add(
            "GroupQueryAttention",
            [*parts, *cache[:2], *lengths, *self._rotary],
            [out, *cache[2:]],
            domain=MICROSOFT,
            num_heads=self._size.heads,
            kv_num_heads=self._size.kv_heads,
            scale=self._scale,
            do_rotary=1,
            rotary_interleaved=0,
        )
        return out

    def _ai_onnx(self, place: str, parts: list[str], cache: list[str], lengths: list[str]) -> str:
        size, graph = self._size, self._graph
        rotated = [
            graph.node("RotaryEmbedding", part, *self._rotary, self._positions, out=f"{part}_rotated", num_heads=heads)
            for part, heads in zip(parts, (size.heads, size.kv_heads), strict=False)
        ]
        out = f"{place}/attended"
        graph.add(
            "Attention",
            [*rotated, parts[2], *lengths, *cache[:2]],
            [out, *cache[2:]],
            q_num_heads=size.heads,
            kv_num_heads=size.kv_heads,
            is_causal=0,
            scale=self._scale,
        )
        return out

    def _unfused(self, place: str, parts: list[str], cache: list[str], lengths: list[str]) -> str:
        size, graph = self._size, self._graph
        columns = []
        for part, heads in zip(parts, (size.heads, size.kv_heads, size.kv_heads), strict=True):
            value = part if part is parts[2] else self._rotated(part, heads)
            shape = graph.constant(f"{part}/shape", [0, 0, heads, size.head_size])
            value = graph.node("Reshape", value, shape, out=f"{part}/heads")
            columns.append(graph.node("Transpose", value, out=f"{part}/turned", perm=[0, 2, 1, 3]))
        for past, new, present in zip(cache[:2], columns[1:], cache[2:], strict=True):
            graph.node("Concat", past, new, out=present, axis=2)
        keys, values = (self._repeated(present, f"{place}/{present}") for present in cache[2:])
        keys = graph.node("Transpose", keys, out=f"{place}/keys_turned", perm=[0, 1, 3, 2])
        scores = graph.node("MatMul", columns[0], keys, out=f"{place}/scores")
        scale = graph.constant(f"{place}/scale", self._scale, np.float32)
        scores = graph.node("Mul", scores, scale, out=f"{place}/scaled")
        scores = graph.node("Add", scores, lengths[0], out=f"{place}/masked")
        shares = graph.node("Softmax", scores, out=f"{place}/shares", axis=-1)
        mixed = graph.node("MatMul", shares, values, out=f"{place}/mixed")
        mixed = graph.node("Transpose", mixed, out=f"{place}/mixed_turned", perm=[0, 2, 1, 3])
        return graph.node("Reshape", mixed, graph.constant(f"{place}/rows", [0, 0, -1]), out=f"{place}/attended")

    def _rotated(self, part: str, heads: int) -> str:
        return self._graph.node(
            "RotaryEmbedding",
            part,
            self._positions,
            *self._rotary,
            out=f"{part}/rotated",
            domain=MICROSOFT,
            num_heads=heads,
            rotary_embedding_dim=self._size.head_size,
        )

    def _repeated(self, value: str, place: str) -> str:
        """Repeat each key or value head for the query heads that share it."""
        graph, size = self._graph, self._size
        times = size.heads // size.kv_heads
        if times == 1:
            return value
        wide = graph.node("Unsqueeze", value, graph.constant(f"{place}/axis", [2]), out=f"{place}/unsqueezed")
        wide = graph.node("Expand", wide, graph.constant(f"{place}/times", [1, 1, times, 1, 1]), out=f"{place}/wide")
        shape = graph.constant(f"{place}/shape", [0, size.heads, -1, size.head_size])
        return graph.node("Reshape", wide, shape, out=f"{place}/repeated")


def _opset(attention: Attention) -> int:
    return 23 if attention == "attention" else 21


def _position_ids(attention: Attention) -> dict[str, str]:
    return {} if attention == "gqa" else {"position_ids": "position_ids"}


def _config(
    kind: str, filename: str, inputs: dict[str, str], attention: Attention, size: Size, setting: Setting
) -> dict[str, Any]:
    """The content of genai_config.json; the search options are those that the model builder writes."""
    providers = [{setting.provider: dict(setting.provider_options)}] if setting.provider else []
    share_buffer = attention == "gqa" if setting.share_buffer is None else setting.share_buffer
    eos = setting.eos if isinstance(setting.eos, int) else list(setting.eos)
    return {
        "model": {
            "type": kind,
            "bos_token_id": BOS,
            "eos_token_id": eos,
            "pad_token_id": PAD,
            "vocab_size": VOCABULARY,
            "context_length": size.context,
            "decoder": {
                "filename": filename,
                "head_size": size.head_size,
                "hidden_size": size.hidden,
                "num_attention_heads": size.heads,
                "num_key_value_heads": size.kv_heads,
                "num_hidden_layers": size.layers,
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": providers},
                "inputs": {
                    **inputs,
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": False,
            "early_stopping": True,
            "max_length": size.context,
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": share_buffer,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    }


def _processor_config() -> dict[str, Any]:
    half = [0.5, 0.5, 0.5]
    operations: dict[str, dict[str, Any]] = {
        "DecodeImage": {"color_space": "RGB"},
        "Resize": {"width": _IMAGE_SIDE, "height": _IMAGE_SIDE, "interpolation": "LINEAR", "keep_aspect_ratio": 0},
        "Rescale": {"rescale_factor": 1 / 255},
        "Normalize": {"mean": half, "std": half},
        "Permute3D": {"dims": [2, 0, 1]},
    }
    transforms = [
        {"operation": {"name": kind.lower(), "type": kind, "attrs": attributes}}
        for kind, attributes in operations.items()
    ]
    return {"processor": {"name": "gemma_3_image_processing", "transforms": transforms}}


def _write_tokenizer(directory: Path) -> None:
    """Write a byte-level BPE without merges: each byte is a token."""
    added = [
        {
            "id": 256 + place,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        | {"special": True}
        for place, text in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    vocabulary = {letter: byte for byte, letter in enumerate(_byte_letters())}
    model: dict[str, Any] = {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocabulary, "merges": []}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": model,
    }
    config = {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": 1 << 20,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "</s>",
        "added_tokens_decoder": {str(entry["id"]): {k: v for k, v in entry.items() if k != "id"} for entry in added},
        "chat_template": "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}",
    }
    _write_json(directory / "tokenizer.json", tokenizer)
    _write_json(directory / "tokenizer_config.json", config)


def _byte_letters() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary. Source: GPT-2."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
