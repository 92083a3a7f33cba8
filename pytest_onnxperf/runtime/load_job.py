"""A model directory under load: requests at once through the engine of onnxruntime-genai."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_onnxperf.core.tokens import Request, load_distributions, load_metrics
from pytest_onnxperf.core.workload import workload

from .generator_job import GeneratorJob, tokens_of
from .inline import Kind
from .plan import Plan, Profiled, Timing, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_onnxperf.core.providers import Provider


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A generator, and how many requests it gets at once."""

    kind: ClassVar[Kind] = "generator"
    timed_metrics: ClassVar[tuple[str, ...]] = (
        "ttft", "ttft_p99", "total_throughput", "itl_p50", "itl_p90", "itl_p99", "itl_max", "load",
    )  # fmt: skip

    generator: GeneratorJob
    concurrency: int

    @property
    def model_text(self) -> str:
        """The model as the test gave it, and the load."""
        return f"{self.generator.model_text}, {self.concurrency} at once"

    @property
    def provider(self) -> Provider:
        """The EP of the generator."""
        return self.generator.provider

    @property
    def provider_options(self) -> Mapping[str, object]:
        """The options of its EP."""
        return self.generator.provider_options

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables of the generator's processes."""
        return self.generator.variables

    @property
    def feeds_on_host(self) -> bool:
        """As the generator."""
        return self.generator.feeds_on_host

    def sessions(self) -> dict[str, dict[str, Any]]:
        """Return none: requests at once are not profiled."""
        return {}

    def size_bytes(self) -> int:
        """Return the size of all files in the directory."""
        return self.generator.size_bytes()

    def time(self, worker: Worker, plan: Plan) -> Timing:
        """Time rounds of requests at once, after one of warm-up."""
        opened = self.generator.open(worker, plan, "")
        min_rounds, max_time_s = self.generator.block_size(plan)
        block = worker.call(
            "load", concurrency=self.concurrency, min_rounds=min_rounds, max_time_s=max_time_s
        )  # fmt: skip
        others = worker.call("others")
        worker.close()
        requests = [Request(tuple(times)) for each in block["rounds"] for times in each["token_ns"]]
        metrics = load_metrics(requests, [each["total_ns"] for each in block["rounds"]], self.concurrency)
        return Timing(
            metrics=metrics | {"load": opened["load_ns"]},
            rounds=len(block["rounds"]),
            other_load=others["other_load"],
            peak_rss_bytes=block["peak_rss_bytes"],
            versions=opened["versions"],
            threads=opened["threads"],
            cores=opened["cores"],
            workload=workload(
                self.provider.short, opened["threads"], tokens=tokens_of(opened), concurrency=self.concurrency
            ),
            distributions=load_distributions(requests),
            warnings=(f"batched {block['batching']}: {_MEANING[block['batching']]}",),
        )

    def profile(self, worker: Worker, plan: Plan, prefix: str) -> Profiled:
        """Return no facts: the engine decides which requests share a step, and its steps are not profiled."""
        versions = worker.call("hello")["versions"]
        worker.close()
        return Profiled(None, versions, why_not=_NO_FACTS, is_possible=False)


_NO_FACTS = "requests at once are not profiled: judge facts by measure()"
_MEANING = {
    "static": "a request beyond the batch waits for a whole batch",
    "continuous": "requests join and leave the batch at any step",
}
