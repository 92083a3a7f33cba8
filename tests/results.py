"""Outcomes with something in every field, and runs of them, for tests of the file of results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from pytest_onnxperf.core.ab import AaSensor, AbRecord, Outputs, judged, requirements_of
from pytest_onnxperf.core.against import Against, Turns
from pytest_onnxperf.core.attention import AttentionUse
from pytest_onnxperf.core.baseline import entry_of
from pytest_onnxperf.core.budget import parse_budget
from pytest_onnxperf.core.culprit import Culprit, CulpritGroup
from pytest_onnxperf.core.device_state import GpuState, MachineState
from pytest_onnxperf.core.explanation import Explanation, ModelExplanation, NotFlash, PhaseRoofline
from pytest_onnxperf.core.facts import CountedNode, Difference, NodeChange
from pytest_onnxperf.core.judge import Found, Policy, judge
from pytest_onnxperf.core.matrix_place import MatrixPlace
from pytest_onnxperf.core.op_table import OpRow
from pytest_onnxperf.core.outcome import Outcome
from pytest_onnxperf.core.paired import Paired, ReferenceSpec
from pytest_onnxperf.core.pairs import judge_pairs
from pytest_onnxperf.core.placement import CpuGroup, Disagreement, Placement
from pytest_onnxperf.core.profile import NodeKey
from pytest_onnxperf.core.record import Record, TestKey
from pytest_onnxperf.core.results import Machine, Results, Run, Test, TimeSpent
from pytest_onnxperf.core.results_build import comparison_of, measurement_of
from pytest_onnxperf.core.roofline import Ceilings, RooflineRow
from pytest_onnxperf.core.sample import Sample
from pytest_onnxperf.core.stages import Held
from pytest_onnxperf.core.tokens import Generation, generation_distributions
from tests.records import CPU, CUDA, MS, facts, record

HOSTILE: Final = "<script>alert('1')</script>\"\\\n\r\t\u2028\u202e\u200f=cmd|' /C calc'!A0,;|`é🎉"
"""A name as a model, a node or a parameter may have one: markup, quotes, line ends, right-to-left marks, a formula."""


def session_record(**changes: Any) -> Record:
    """A record of a session in two processes."""
    times = [Sample.of([9 * MS, 10 * MS, 11 * MS]), Sample.of([10 * MS, 12 * MS])]
    of_both = [sample.metrics() for sample in times]
    plain: dict[str, Any] = {
        "metrics": {name: tuple(each[name] for each in of_both) for name in of_both[0]},
        "distributions": {"latency": tuple(sample.distribution() for sample in times)},
        "rounds": 5,
        "threads": 2,
        "not_measured": {"peak_vram": "the device has no NVML"},
    }
    return record(**{**plain, **changes})


def session_outcome(**changes: Any) -> Outcome:
    """A measurement that holds its budget and has no baseline."""
    found = session_record(**changes)
    return Outcome(
        found, judge(found, [parse_budget({"max_latency_ms": 100})], Found(None, "/r/b/a.json"), Policy(0.05))
    )


def generator_record(tokens: int = 300) -> Record:
    """A record of a generator, with tables in every phase and names that try to break what reads them."""
    generations = tuple(Generation(40 * MS, 2 * MS, tuple(MS * (1 + i % 3) for i in range(tokens))) for _ in range(3))
    use = AttentionUse(NodeKey(HOSTILE, "GroupQueryAttention", CUDA), ("unfused",), HOSTILE, "float16", 64, 1, "decode")
    row = OpRow("MatMul", CUDA, 3.0, 2e6, 1.5e6, 0.75, "compute", "long text")
    node = NodeKey("n", "Shape", CPU)
    decode = facts(
        op_table=(row,) * 300,
        attention=(use,),
        ops={f"{CUDA}:MatMul": 2, f"{CUDA}:New": 1, "a:Add": 7},
        fused_ops={"Attention": 1},
        memcpy=2,
        memcpy_to_host=1,
        memcpy_from_host=1,
        memcpy_ns=5e5,
        memcpy_share=0.25,
        unavailable=None,
        unstable=(Difference("nodes", (2, 3), (NodeChange(node, 0, 1),)),),
        shape_nodes=(CountedNode(node, 2),),
    )
    spec = ReferenceSpec({"n": 64}, 1, "abc")
    return record(
        {
            "ttft": (42.0 * MS,),
            "decode_throughput": (500.0,),
            "peak_rss": (float(1 << 28),),
            "model_size": (1048576.0,),
        },
        of=replace(decode, memcpy=2),
        ep=CUDA,
        key=TestKey("tests/test_a.py", f"test_g[{HOSTILE}]", "chat"),
        model=HOSTILE,
        phases={"prefill": facts(), "decode": decode},
        generations=(generations,),
        distributions={name: (each,) for name, each in generation_distributions(generations).items()},
        paired={"decode_throughput": (Paired(2e6, {"memory": 1e6}, 0.1, {"memory": spec}),)},
        options={"max_length": "512"},
        workload={"tokens": "1 x (16 + 300 new)"},
        threads=1,
        disturbance="other processes used 50 %",
        other_load_ratio=0.5,
        warnings=("few tokens",),
        rounds=3,
    )


def gpu() -> GpuState:
    """A GPU of which everything is known."""
    return GpuState(
        name="NVIDIA H200", uuid_hash="0123456789ab", driver="570.1", mig="off", power_limit_w=700.0,
        max_clock_mhz=1980, clock_before_mhz=345, clock_during_mhz=1755, clock_after_mhz=1980,
        throttled={"power cap": 1 / 3}, temperature_c=63, memory_before_bytes=512 << 20, memory_peak_bytes=3 << 30,
        utilisation_ratio=2 / 3, other_processes=1, other_use_ratio=0.25,
    )  # fmt: skip


def explanation() -> Explanation:
    """An explanation with a row in every table."""
    culprit = Culprit(
        "Memcpy_1", (), "to_host", "x", HOSTILE, "Reshape", "com.microsoft", 24, "no_kernel", CUDA, "ORT 1.32.0"
    )
    use = AttentionUse(NodeKey("a", "Attention", CUDA), ("unfused",), "printed", phase="decode")
    row = RooflineRow("MatMul", CUDA, 2.0, 1.0, 2e9, 1e6, 2000.0, True, "compute", 1e5, 2e5, 0.9, 0.5)
    model = ModelExplanation(
        session="decoder",
        opsets={"": 24},
        culprits=(CulpritGroup(2, culprit),),
        why_no_graph="it was not written",
        placement=Placement((), (Disagreement("n", "Add", ()),), (CpuGroup("Reshape", "no_kernel", 2, HOSTILE),), ""),
        boundary="inputs are copied",
        not_flash=(NotFlash(use, ("head size 300",)),),
        rooflines=(PhaseRoofline("decode", (row,) * 300),),
        ceilings=Ceilings("NVIDIA H200", {"float16": 9.9e14}, 4.8e12, "datasheet"),
    )
    return Explanation((model,), "vision: no file")


def generator_outcome(tokens: int = 300) -> Outcome:
    """A measurement that breaks a budget, got slower than its baseline, and is explained."""
    found = generator_record(tokens)
    paired = tuple(Paired(tested, {"memory": tested / 1.1}, 0.1, found.paired["decode_throughput"][0].specs)
                   for tested in (1.1e6, 1.3e6, 1.2e6, 1.0e6, 1.15e6))  # fmt: skip
    decode = replace(
        found.phases["decode"], ops={f"{CPU}:MatMul": 1, f"{CUDA}:MatMul": 1, f"{CUDA}:Old": 1, "a:Add": 9}
    )
    before = replace(
        found,
        metrics={"ttft": (20.0 * MS, 20.1 * MS, 20.0 * MS), "decode_throughput": (900.0, 990.0, 820.0, 950.0, 860.0)},
        paired={"decode_throughput": paired},
        phases={**found.phases, "decode": decode},
        options={"max_length": "256"},
        environment=replace(found.environment, versions={"onnxruntime": "1.31.0"}),
    )
    entry = entry_of(before, "2026-01-02", "abc1234")
    budgets = [parse_budget({"max_ttft_ms": 10, "require_ops": {"Gemm"}}), parse_budget({"max_memcpy": 9, "on": "cpu"})]
    verdict = judge(found, budgets, Found(entry, "/r/baselines/k/tests/test_a.json"), Policy(0.05))
    return Outcome(found, verdict, explanation=explanation(), kept="/tmp/profile.json")


def elsewhere_outcome() -> Outcome:
    """A measurement without facts, and with the baseline of another device, of which it crept away."""
    found = session_record(of=facts(unavailable="the profile was cut off"), metrics={"model_size": (3e6,)})
    entry = entry_of(replace(found, metrics={"model_size": (1e6,)}), "2026-01-02", "abc1234")
    near = judge(found, [], Found(entry, "/elsewhere/a.json"), Policy(0.05))
    far = judge(session_record(), [], Found(entry, "/elsewhere/a.json", "h200.cuda"), Policy(0.05))
    return Outcome(found, replace(near, other_environment=far.other_environment))


def against_outcome() -> Outcome:
    """A measurement that was compared with another version."""
    turns = Turns("latency_p50", 9.0 * MS, 10.0 * MS, judge_pairs([0.1, 0.11] * 10), 20, 3)
    plain = session_outcome()
    return replace(
        plain,
        against=Against(
            "revision main (1a2b3c4)", {"onnxruntime": "1.31.0"}, (turns,), (HOSTILE,), "one file", "another kind"
        ),
    )


JUDGED: Final = judge_pairs([-0.1, -0.11] * 10)


def ab_record(**changes: Any) -> AbRecord:
    """A comparison whose candidate is 10 % faster."""
    plain: dict[str, Any] = {
        "key": TestKey("tests/test_a.py", "test_ab", "again"),
        "reference": session_record(),
        "candidate": session_record(ep=CPU),
        "times": {"latency_p50": JUDGED},
        "outputs": Outputs("equal", "0 at y[0]", 0.0),
        "pairs": 20,
        "processes": 1,
        "sensor": AaSensor(1.03, True),
        "settings": {"reference": {"graph_optimization_level": "disable"}, "candidate": {}},
        "why_not": "",
    }
    record = AbRecord(**{**plain, **changes})
    return replace(
        record, requirements=tuple(judged(each, record) for each in requirements_of(1.05, None, list(record.times)))
    )


def machine(node: str = "runner-1") -> Machine:
    """A machine with two cores."""
    return Machine(
        node=node, system="Linux", release="6.1", architecture="x86_64", cpu="AMD EPYC, 2 cores", cores=2,
        python="CPython 3.11.9",
    )  # fmt: skip


def run(*tests: Test, **changes: Any) -> Run:
    """A run that came to its end."""
    plain: dict[str, Any] = {
        "started": "2026-12-02T08:00:00.000+00:00",
        "duration_s": 12.5,
        "is_complete": True,
        "exit_status": 0,
        "plugin_version": "0.1.0",
        "pytest_version": "9.2.0",
        "commit": "1" * 40,
        "branch": "main",
        "machine": machine(),
        "options": {"tolerance": 0.05, "ep": "auto", "strict": False, "threads": 0},
        "tests": tests,
    }
    return Run(**{**plain, **changes})


def test_of(nodeid: str, *outcomes: Outcome, **changes: Any) -> Test:
    """A test that measured these."""
    measurements = tuple(measurement_of(outcome, "/r") for outcome in outcomes)
    return Test(**{"nodeid": nodeid, "outcome": "passed", "duration_s": 1.5, "measurements": measurements, **changes})


test_of.__test__ = False  # type: ignore[attr-defined]  # the name begins with test, and pytest must not collect it


def everything() -> Results:
    """A file with something in every field."""
    return Results(
        runs=(
            run(
                test_of(
                    "tests/test_a.py::test_a",
                    session_outcome(gpu=gpu(), machine=MachineState("powersave", 1.5, 1 / 3, 0.25, 2)),
                    spent=(TimeSpent(label="again", stages_s={"load": 1.5}, held=(Held("cpu", 1.5, 2.5),)),),
                ),
                test_of(
                    f"tests/test_a.py::test_g[{HOSTILE}]", generator_outcome(), outcome="failed", is_breach=True,
                    message=HOSTILE,
                ),
                test_of("tests/test_a.py::test_elsewhere", elsewhere_outcome()),
                test_of("tests/test_a.py::test_other_version", against_outcome()),
                test_of(
                    "tests/test_a.py::test_ab",
                    comparisons=(
                        comparison_of(ab_record()),
                        comparison_of(ab_record(times={}, why_not="off")),
                        comparison_of(
                            ab_record(times={"total_throughput": JUDGED, "ttft": JUDGED, "decode_throughput": JUDGED})
                        ),
                    ),
                ),
                test_of("tests/test_a.py::test_gpu", outcome="skipped", message="demands CUDA"),
                test_of("tests/test_a.py::test_m[f16]", session_outcome(), matrix=place(0, dtype="f16")),
                test_of("tests/test_a.py::test_m[int4]", session_outcome(), matrix=place(1, dtype="int4")),
                stopped="stopping after 1 failures", uncollected=("tests/test_lost.py",),
            ),
        )
    )  # fmt: skip


def place(order: int, table: str = "tests/test_a.py::test_m", **coordinates: str) -> MatrixPlace:
    """The cell of a matrix whose reference is that of f16."""
    return MatrixPlace(
        table=table, id="-".join(coordinates.values()), coordinates=coordinates, order=order,
        reference={**coordinates, "dtype": "f16"},
    )  # fmt: skip


def with_versions(test: Test, **versions: str) -> Test:
    """The same test, measured with other versions."""
    moved = [
        msgspec.structs.replace(one, environment=msgspec.structs.replace(one.environment, versions=versions))
        for one in test.measurements
    ]
    return msgspec.structs.replace(test, measurements=tuple(moved))
