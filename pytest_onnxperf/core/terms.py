"""The words that reports and options use, each with its meaning: one table for `onnxperf reference`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Term(NamedTuple):
    """One word."""

    name: str
    meaning: str


TERMS: Final = (
    Term("execution provider (EP)", "What ran a node: ONNX Runtime's own string, `CUDAExecutionProvider`"),
    Term("run", "One inference, or one prefill or decode step"),
    Term("round", "One timed repetition, outputs on the host"),
    Term("warm-up round", "Untimed, before the first timed one, at the same shapes"),
    Term("process", "A fresh process that measures; noise lies between processes, so an update times several"),
    Term("latency", "Time of one inference as the caller sees it"),
    Term("TTFT", "Time to first token: `append_tokens` begun to the first token returned, without tokenising"),
    Term("prefill", "The part of TTFT in `append_tokens`"),
    Term("inter-token latency (ITL)", "The gaps between tokens: n tokens have n - 1"),
    Term("decode throughput", "Batch x (n - 1) / (last token - first token)"),
    Term("memcpy node", "A node `MemcpyFromHost` or `MemcpyToHost` that ONNX Runtime put in"),
    Term("fact", "A count or a name read off a profile, without noise; compared by equality"),
    Term("metric", "A noisy quantity: time, throughput, memory; compared by statistics"),
    Term("budget, breach", "A limit that a test declares; it was broken"),
    Term("baseline, regression", "What an earlier update recorded; worse than that beyond noise"),
    Term("anchor", "The first values that were recorded, kept across updates, so that slow creep stays visible"),
    Term("environment", "Device and EP; versions are recorded beside it and shown where they differ"),
    Term("reference workload", "Work of numpy beside each round, which feels what neighbours and clock do to both"),
    Term("reference, candidate", "The arms of an A/B: what is compared with, and what is to be faster or no slower"),
)
