"""A tiny Llama of Hugging Face transformers with random weights, made from a configuration: nothing is downloaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.genai_models import BOS, PAD, VOCABULARY


def llama(directory: Path, **changes: Any) -> Path:
    """Save one with the sizes of `genai_models.decoder`; it has no token that ends a text unless that is given."""
    import torch
    import transformers

    torch.manual_seed(0)
    plain: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": BOS,
        "eos_token_id": None, "pad_token_id": PAD,
    }  # fmt: skip
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**plain, **changes})).save_pretrained(directory)
    return directory


def llama_apart(directory: Path, **changes: Any) -> Path:
    """The same, made in another process: pytester takes away what a test loads, and PyTorch's C code loads once."""
    command = [sys.executable, "-m", "tests.hf_models", str(directory), json.dumps(changes)]
    subprocess.run(command, cwd=Path(__file__).parent.parent, check=True, capture_output=True)
    return directory


if __name__ == "__main__":
    llama(Path(sys.argv[1]), **json.loads(sys.argv[2]))
