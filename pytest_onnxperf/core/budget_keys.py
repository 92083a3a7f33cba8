"""The keys of the `onnx_budget` marker: one table for the check, for `--markers` and for documentation."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple


class BudgetKey(NamedTuple):
    """One key of the marker."""

    name: str
    kind: Literal["count", "ratio", "quantity", "ops", "kernels", "pattern", "phase"]
    """`count`: whole number >= 0; `ratio`: 0 to 1, or above 0 for `max_regression`; `quantity`: number > 0."""
    help: str
    judges: str = ""
    """The fact or metric it limits; empty for a key that modifies others."""
    unit: str = ""


KEYS: Final = (
    BudgetKey("max_memcpy", "count", "Memcpy nodes per run, both directions together", "memcpy", "a run"),
    BudgetKey("max_memcpy_share", "ratio", "Share of the node time spent in memcpy nodes", "memcpy_share", "ratio"),
    BudgetKey("max_cpu_nodes", "count", "Nodes per run on the CPU, without shape chains that ORT puts there on "
              "purpose", "cpu_nodes", "a run"),
    BudgetKey("allow_cpu_ops", "ops", "Op types that max_cpu_nodes does not count"),
    BudgetKey("max_nodes", "count", "Node executions per run", "nodes", "a run"),
    BudgetKey("require_ops", "ops", "Op types that must run, such as GroupQueryAttention", "ops"),
    BudgetKey("attention", "kernels", "Kernels that every attention node must run: flash, cudnn_flash, xqa, decoder, "
              "efficient, trt_fused, lean, latent, unfused, or fused for any but the last", "attention"),
    BudgetKey("min_attention_nodes", "count", "So many attention nodes must run one of these kernels, instead of all",
              "attention", "nodes"),
    BudgetKey("max_latency_ms", "quantity", "Median latency", "latency_p50", "ms"),
    BudgetKey("max_p90_ms", "quantity", "Latency that 90 % of the rounds stay under", "latency_p90", "ms"),
    BudgetKey("max_p99_ms", "quantity", "Latency that 99 % of the rounds stay under", "latency_p99", "ms"),
    BudgetKey("min_throughput", "quantity", "Runs per second, one after another", "throughput", "/s"),
    BudgetKey("max_ttft_ms", "quantity", "Time to first token: `append_tokens` begun to the first token there", "ttft",
              "ms"),
    BudgetKey("min_prefill_tok_s", "quantity", "Prompt tokens per second of `append_tokens`", "prefill_throughput",
              "tok/s"),
    BudgetKey("min_decode_tok_s", "quantity", "Tokens per second after the first token", "decode_throughput", "tok/s"),
    BudgetKey("max_itl_ms", "quantity", "Median inter-token latency", "itl_p50", "ms"),
    BudgetKey("max_itl_p99_ms", "quantity", "Inter-token latency that 99 % of the gaps stay under", "itl_p99", "ms"),
    BudgetKey("max_cold_start_ms", "quantity", "Time of the first run of a session", "cold_start", "ms"),
    BudgetKey("max_load_ms", "quantity", "Time to create the session", "load", "ms"),
    BudgetKey("max_peak_rss_mib", "quantity", "Peak resident memory of the measuring process", "peak_rss", "MiB"),
    BudgetKey("max_peak_vram_mib", "quantity", "Peak device memory of the measuring process, where NVML tells it",
              "peak_vram", "MiB"),
    BudgetKey("max_model_size_mib", "quantity", "Size of the model's files, external data included", "model_size",
              "MiB"),
    BudgetKey("prefill", "phase", "Limits on facts of the prefill alone, `{'max_memcpy': 0}`"),
    BudgetKey("decode", "phase", "Limits on facts of a decode step alone"),
    BudgetKey("max_regression", "ratio", "Tolerance against the baseline for this test, 0.05 is 5 %"),
    BudgetKey("on", "pattern", "The EP (`cuda`) or device pattern (`*h200*`) that the budget belongs to"),
)  # fmt: skip
KEY: Final = {key.name: key for key in KEYS}
