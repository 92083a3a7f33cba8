"""Baselines: recorded, compared, kept, updated, and every file that cannot be used."""

from __future__ import annotations

import json
import math
import shutil
import sys
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.runtime import looks
from tests import models
from tests.plugin.suite import DEVICE, FACTS, ON, QUICK, TIMES, section, too_wide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_onnxperf.core.compare_metrics import Beside
    from tests.plugin.suite import Suite

# Times that a loaded machine cannot turn round: few rounds, one process, and a tolerance of ten times.
SLOW: Final = (*TIMES, "--onnxperf-update-force", "--onnxperf-baseline-processes=3", "--onnxperf-tolerance=4")
UPDATE: Final = "--onnxperf-update"
SLOW_MODULE: Final = """
    def test_slow(onnx_session):
        onnx_session("slow.onnx").measure(shapes={"batch": 8})
"""
DECODER_MODULE: Final = """
    from pathlib import Path

    def test_decoder(onnx_session):
        shapes = {"batch": 1, "seq": 4, "past": 0, "total": 4}
        is_decoder = b"GroupQueryAttention" in Path("decoder.onnx").read_bytes()
        onnx_session("decoder.onnx").measure(shapes=shapes if is_decoder else {"batch": 1})
"""


def check_cycle(
    suite: Suite, arguments: tuple[str, ...], good: Callable[[], Path], worse: Callable[[], Path]
) -> pytest.RunResult:
    """No baseline, recorded, passes, worse, fails with the file unchanged, updated, passes. Return the failing run."""
    good()
    result = suite.run(*arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 test has no baseline for bench-1.cpu: run --onnxperf-update"])
    assert not suite.baseline().exists()

    suite.run(*arguments, UPDATE).assert_outcomes(passed=1)
    recorded = suite.baseline().read_bytes()
    result = suite.run(*arguments)
    result.assert_outcomes(passed=1)
    assert "no baseline" not in result.stdout.str()

    worse()
    failed = suite.run(*arguments)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["PERF test_perf.py::*", "*1 failed in *"])
    assert suite.baseline().read_bytes() == recorded

    result = suite.run(*arguments, UPDATE)
    result.assert_outcomes(passed=1)
    assert suite.baseline().read_bytes() != recorded
    suite.run(*arguments).assert_outcomes(passed=1)
    return failed


def test_more_nodes_are_a_regression(suite: Suite) -> None:
    suite.module()

    failed = check_cycle(suite, FACTS, lambda: suite.model(layers=2), lambda: suite.model(layers=4))

    lines = section(failed, "test_mlp")
    assert lines[0] == "regressed: cpu_nodes 2 -> 4 a run"
    text = "\n".join(lines)
    assert "  regressed    cpu_nodes 2 -> 4 a run\n" in text
    assert "  regressed    model size 0.00844 -> 0.0167 MiB (+98 %)\n" not in text  # below its slack of 0.01 MiB
    place = next(index for index, line in enumerate(lines) if line.startswith("Baseline of 20"))
    assert lines[place + 1] == f"    {suite.baseline()}"
    assert lines[lines.index("- If this is intended, record it:") + 1] == (
        "    pytest --onnxperf-update test_perf.py::test_mlp"
    )
    assert too_wide(failed.outlines) == []


def test_a_lost_fusion_is_a_regression(suite: Suite) -> None:
    suite.module(DECODER_MODULE)

    failed = check_cycle(
        suite,
        QUICK,
        lambda: suite.model("decoder.onnx", models.transformer_block),
        lambda: suite.model("decoder.onnx", models.mlp),
    )

    text = " ".join(" ".join(section(failed, "test_decoder")).split())
    assert "regressed fused GroupQueryAttention 1 -> 0 a run" in text
    assert "- A fusion was lost: check the exporter, the opset, and graph_optimization_level; compare" in text


def test_a_really_slower_model_is_a_regression_and_a_faster_one_is_none(suite: Suite) -> None:
    """As many nodes, thousands of times the work. Where others load the machine, its time is said to be disturbed."""
    suite.module(SLOW_MODULE)

    failed = check_cycle(
        suite,
        (*SLOW, "-v"),
        lambda: suite.model("slow.onnx", models.slow_model, blocks=40, width=4),
        lambda: suite.model("slow.onnx", models.slow_model, blocks=40, width=600),
    )
    failed.stdout.re_match_lines([r" +(regressed|disturbed):? +latency p50 [\d.]+ -> [\d.]+ ms \(\+\d+ %\)"])

    suite.model("slow.onnx", models.slow_model, blocks=40, width=4)
    passed = suite.run(*SLOW, "-v")
    passed.assert_outcomes(passed=1)
    passed.stdout.re_match_lines([r" +[a-z]+: +latency p50 [\d.]+ -> [\d.]+ ms \(-\d+ %\)"])


HOT_MACHINE: Final = """
    import pytest_onnxperf.runtime.machine_state as machine_state

    from pytest_onnxperf.core.device_state import MachineState

    # No test can heat a CPU: what the sensor says is given.
    machine_state.MachineMeter.state = lambda meter: MachineState("ondemand", thermal_events=3)
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_an_update_leaves_out_disturbed_times_unless_it_is_forced(suite: Suite, workers: tuple[str, ...]) -> None:
    suite.model()
    suite.module()
    suite.module(HOT_MACHINE, "conftest.py")
    arguments = (*TIMES, "--onnxperf-baseline-processes=1", UPDATE, *workers)

    refused = suite.run_apart(*arguments)
    output = " ".join(refused.stdout.str().split())
    assert "onnxperf: CPU governor ondemand" in output
    assert "NOT UPDATED: test_perf.py::test_mlp: its times were not recorded: " in output
    assert "the CPU was slowed down for its temperature 3 times while rounds were timed (--onnxperf-update-force)" in (
        output
    )
    assert refused.ret == pytest.ExitCode.TESTS_FAILED
    (entry,) = suite.entries().values()
    assert "latency_p50_ms" not in entry["metrics"]
    assert entry["versions"]["governor"] == "ondemand"

    assert suite.run_apart(*arguments, "--onnxperf-update-force").ret == pytest.ExitCode.OK
    (entry,) = suite.entries().values()
    assert "latency_p50_ms" in entry["metrics"]

    output = " ".join(suite.run_apart(*TIMES).stdout.str().split())
    assert "1 disturbed, " in output
    assert "the CPU was slowed down for its temperature 3 times while rounds were timed: test_mlp" in output


def test_max_regression_of_a_test_overrides_the_tolerance_of_the_session(suite: Suite) -> None:
    suite.model("slow.onnx", models.slow_model, blocks=2)
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_regression=99)
        def test_slow(onnx_session):
            onnx_session("slow.onnx").measure(shapes={"batch": 8})
    """)
    suite.run(*SLOW, UPDATE).assert_outcomes(passed=1)
    entries = suite.entries()["test_slow"]["metrics"]
    document = json.loads(suite.baseline().read_text("utf-8"))
    document["tests"]["test_slow"]["metrics"] = {name: [value / 20 for value in old] for name, old in entries.items()}
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")

    suite.run(*ON, "--onnxperf-max-time=0.05").assert_outcomes(passed=1)


def test_max_regression_is_also_the_limit_at_which_rounds_stop_early(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.model()
    suite.module("""
        import pytest

        def test_of_session(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_regression=99)
        def test_of_budget(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)
    suite.run(*SLOW, UPDATE).assert_outcomes(passed=2)
    document = json.loads(suite.baseline().read_text("utf-8"))
    for entry in document["tests"].values():  # the ratio to one reference does not vary, so that the tolerance is all
        columns = entry["paired"]["latency_p50"]
        columns["tested"] = columns["compute"] = [1000 * place for place, _ in enumerate(columns["tested"], 1)]
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    seen: list[float] = []

    class SeenLooks(looks.Looks):
        def __init__(self, wanted: Mapping[str, Beside | None], least_rounds: int, most_rounds: int) -> None:
            super().__init__(wanted, least_rounds, most_rounds)
            seen.extend(each.limits.worse_log for each in wanted.values() if each is not None and each.limits)

    monkeypatch.setattr(looks, "Looks", SeenLooks)

    suite.run(*TIMES, "--onnxperf-tolerance=4")

    assert seen[0] == pytest.approx(math.log1p(4))
    assert seen[-1] == pytest.approx(math.log1p(99))


def test_strict_fails_without_a_baseline_and_passes_with_one(suite: Suite) -> None:
    suite.model()
    suite.module()

    result = suite.run(*QUICK, "--onnxperf-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["PERF test_perf.py::test_mlp - Failed: no-baseline: *"])
    assert too_wide(result.outlines) == []

    suite.run(*QUICK, "--onnxperf-strict", UPDATE).assert_outcomes(passed=1)
    suite.run(*QUICK, "--onnxperf-strict").assert_outcomes(passed=1)


def test_a_fact_without_a_better_side_is_changed_and_fails_in_strict_mode_only(suite: Suite) -> None:
    suite.model(write=models.cpu_island)  # three nodes: MatMul, Det, Mul
    suite.module()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    suite.model(layers=3, width=16)  # three nodes: FusedGemm

    result = suite.run(*QUICK, "-v")
    result.assert_outcomes(passed=1)
    assert "changed: CPUExecutionProvider Det 1 -> 0 a run" in result.stdout.str()

    suite.run(*QUICK, "--onnxperf-strict").assert_outcomes(failed=1)


MODES: Final = """
    def test_kept(onnx_session):
        onnx_session("kept.onnx").measure(shapes={"batch": 1})

    def test_changed(onnx_session):
        onnx_session("changed.onnx").measure(shapes={"batch": 1})
"""


@pytest.mark.parametrize(("mode", "written"), [("new", "new"), ("changed", "new, changed"), ("all", "all")])
def test_the_update_mode_says_which_entries_are_written(suite: Suite, mode: str, written: str) -> None:
    suite.model("kept.onnx")
    suite.model("changed.onnx")
    suite.module(MODES)
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=2)
    document = json.loads(suite.baseline().read_text("utf-8"))
    for entry in document["tests"].values():
        entry["date"] = entry["anchor"]["date"] = "2020-01-01"
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    suite.model("changed.onnx", layers=4)
    suite.module(MODES + MODES.replace("test_kept", "test_new").partition("\n\n")[0])

    result = suite.run(*QUICK, UPDATE, f"--onnxperf-update-mode={mode}")

    result.assert_outcomes(passed=3)
    entries = suite.entries()
    fresh = {name.removeprefix("test_") for name, entry in entries.items() if entry["date"] != "2020-01-01"}
    assert fresh == ({"new", "changed", "kept"} if written == "all" else set(written.split(", ")))
    assert {entry["anchor"]["date"] for name, entry in entries.items() if name != "test_new"} == {"2020-01-01"}
    text = result.stdout.str()
    assert "test_new: new" in text
    changed = [line for line in " ".join(text.split()).split("test_") if line.startswith("changed: ")]
    assert [("cpu_nodes 2 -> 4" in line) for line in changed] == ([] if mode == "new" else [True])
    assert ("test_kept: written again, the values are the same" in text) is (mode == "all")


def test_an_update_that_changes_nothing_says_so_and_leaves_the_file(suite: Suite) -> None:
    suite.model()
    suite.module()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    before = suite.baseline().read_bytes(), suite.baseline().stat().st_mtime_ns

    result = suite.run(*QUICK, UPDATE)

    result.stdout.fnmatch_lines(["updated: nothing, all is as recorded"])
    assert (suite.baseline().read_bytes(), suite.baseline().stat().st_mtime_ns) == before


def test_entries_of_tests_that_did_not_run_stay(suite: Suite) -> None:
    suite.model("kept.onnx")
    suite.model("changed.onnx")
    suite.module(MODES)
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=2)
    before = suite.entries()

    suite.model("changed.onnx", layers=4)
    suite.run(*QUICK, UPDATE, "test_perf.py::test_changed").assert_outcomes(passed=1)

    after = suite.entries()
    assert after["test_kept"] == before["test_kept"]
    assert after["test_changed"]["facts"]["cpu_nodes"] == 4


def test_a_test_that_broke_its_budget_or_failed_is_not_recorded(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1)
        def test_over(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_wrong(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
            assert False

        @pytest.mark.xfail
        @pytest.mark.onnx_budget(max_nodes=1)
        def test_expected(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.onnx_budget(max_latency_ms=1000)
        def test_not_judged(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_good(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1, failed=3, xfailed=1)

    assert list(suite.entries()) == ["test_good"]


def test_the_anchor_stays_and_slow_creep_is_said(suite: Suite) -> None:
    suite.model(layers=2)
    suite.module()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    first = suite.entries()["test_mlp"]
    for layers in (6, 12):
        suite.model(layers=layers)
        suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)

    last = suite.entries()["test_mlp"]
    assert last["anchor"] == first["anchor"]
    assert last["facts"]["cpu_nodes"] == 12
    result = suite.run(*QUICK)
    result.assert_outcomes(passed=1)
    assert "model size +" in result.stdout.str()
    assert "since its first record of " in " ".join(result.stdout.str().split())


BATCH_MODULE: Final = """
    def test_slow(onnx_session):
        onnx_session("slow.onnx").measure(shapes={{"batch": {batch}}})
"""


def test_times_of_another_batch_are_not_compared_and_an_update_records_all_of_them_anew(suite: Suite) -> None:
    models.slow_model(suite.path / "slow.onnx")
    suite.module(BATCH_MODULE.format(batch=8))
    suite.run(*SLOW, UPDATE).assert_outcomes(passed=1)

    suite.module(BATCH_MODULE.format(batch=64))  # slower by far
    result = suite.run(*SLOW, "-v")
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    change = "inputs batch=8 -> batch=64"
    assert f"1 test has times of another workload as baseline, {change}: --onnxperf-update records these" in said
    assert "no-baseline: latency p50" in said
    assert "ok: ops" in said
    assert "ok: model size" in said
    assert "no baseline of" not in said
    failed = suite.run(*SLOW, "--onnxperf-strict")
    failed.assert_outcomes(failed=1)
    text = " ".join(failed.stdout.str().split())
    assert f"the baseline's times are of another workload: {change}" in text
    assert "Slower than it should be" not in text

    suite.run(*SLOW, UPDATE).assert_outcomes(passed=1)
    entry = suite.entries()["test_slow"]
    assert entry["workload"]["inputs"] == "batch=64"
    assert entry["anchor"]["metrics"]["latency_p50_ms"] == pytest.approx(median(entry["metrics"]["latency_p50_ms"]))
    assert len(entry["paired"]["latency_p50"]["tested"]) == 3
    assert "another workload" not in suite.run(*SLOW).stdout.str()


def test_times_of_other_threads_are_not_compared_also_where_the_test_sets_them(suite: Suite) -> None:
    models.slow_model(suite.path / "slow.onnx")
    suite.module("""
        from pathlib import Path

        def test_slow(onnx_session):
            onnx_session("slow.onnx").measure(shapes={"batch": 8})

        def test_own(onnx_session):
            session = onnx_session("slow.onnx", session_options={"intra_op_num_threads": 1})
            session.measure(shapes={"batch": 8})

        def test_changed(onnx_session):
            threads = 1 + Path("changed").exists()
            session = onnx_session("slow.onnx", session_options={"intra_op_num_threads": threads})
            session.measure(shapes={"batch": 8})
    """)
    suite.run(*SLOW, UPDATE, "--onnxperf-threads=1").assert_outcomes(passed=3)
    (suite.path / "changed").touch()

    result = suite.run(*SLOW, "--onnxperf-threads=2")
    result.assert_outcomes(passed=3)
    said = " ".join(result.stdout.str().split())
    assert "2 tests have times of another workload as baseline, threads 1 -> 2" in said
    assert suite.entries()["test_own"]["workload"]["threads"] == "1"


def test_a_quantity_that_an_entry_lacks_is_named(suite: Suite) -> None:
    models.slow_model(suite.path / "slow.onnx")
    suite.module(SLOW_MODULE)
    suite.run(*SLOW, UPDATE).assert_outcomes(passed=1)
    document = json.loads(suite.baseline().read_text("utf-8"))
    del document["tests"]["test_slow"]["metrics"]["load_ms"]
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")

    result = suite.run(*SLOW)
    result.stdout.fnmatch_lines(["1 test has no baseline of load for bench-1.cpu: run --onnxperf-update"])
    suite.run(*SLOW, UPDATE, "--onnxperf-timing=off")

    document["tests"]["test_slow"]["metrics"] = {}
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    said = " ".join(suite.run(*SLOW).stdout.str().split())
    assert "1 test has facts alone as baseline for bench-1.cpu: run --onnxperf-update" in said


def test_a_note_in_an_entry_survives_an_update(suite: Suite) -> None:
    suite.model(layers=2)
    suite.module()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    document = json.loads(suite.baseline().read_text("utf-8"))
    document["tests"]["test_mlp"]["note"] = "slower on purpose, see #12"
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")
    suite.model(layers=4)

    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)

    assert suite.entries()["test_mlp"]["note"] == "slower on purpose, see #12"


def test_the_file_has_sorted_keys_and_ends_with_a_line_break(suite: Suite) -> None:
    suite.model("kept.onnx")
    suite.model("changed.onnx")
    suite.module(MODES)
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=2)

    text = suite.baseline().read_text("utf-8")
    assert text.endswith("}\n")
    document = json.loads(text)
    assert list(document) == ["schema", "device", "execution_provider", "tests"]
    assert document["device"] == DEVICE
    assert list(document["tests"]) == sorted(document["tests"])
    for entry in document["tests"].values():
        assert list(entry) == sorted(entry)


def test_a_byte_order_mark_that_an_editor_left_is_read_over(suite: Suite) -> None:
    suite.model()
    suite.module()
    suite.run(*FACTS, UPDATE).assert_outcomes(passed=1)
    suite.baseline().write_text(suite.baseline().read_text("utf-8"), encoding="utf-8-sig")

    result = suite.run(*FACTS)
    result.assert_outcomes(passed=1)
    assert "no-baseline" not in result.stdout.str()


def test_a_baseline_of_another_device_compares_facts_and_says_so(suite: Suite) -> None:
    suite.model(layers=2)
    suite.module()
    times = [*TIMES, "--onnxperf-baseline-processes=1"]
    suite.run(*times, "--onnxperf-device=Old runner", UPDATE).assert_outcomes(passed=1)

    result = suite.run(*times)
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert "1 compared in facts alone, with another device: old-runner.cpu" in said
    assert "other-environment" in said

    suite.model(layers=4)
    result = suite.run(*times)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  regressed    cpu_nodes 2 -> 4 a run", "Baseline of 20*", "    old-runner.cpu"])


CONFLICT: Final = """\
{
 "schema": 1,
<<<<<<< HEAD
 "device": "a",
=======
 "device": "b",
>>>>>>> theirs
 "execution_provider": "CPUExecutionProvider",
 "tests": {}
}
"""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(CONFLICT, "test_perf.json:3: ", id="merge-conflict"),
        pytest.param('{"schema": 1, "tests": ', "test_perf.json:1", id="truncated"),
        pytest.param("", "test_perf.json", id="empty"),
        pytest.param("[]", "not a baseline of pytest-onnxperf", id="no-object"),
        pytest.param(b"\xff\xfe{}", "not UTF-8 text", id="not-utf8"),
        pytest.param('{\n "schema": 99\n}', "test_perf.json:2: schema 99 is newer than the 1", id="newer-schema"),
        pytest.param('{"schema": true}', "schema", id="schema-is-no-number"),
        pytest.param(
            '{"schema": 1, "device": "a", "execution_provider": "b", "tests": {"test_mlp": 3}}',
            "entry 'test_mlp': Expected `object`, got `int`",
            id="entry-is-no-object",
        ),
        pytest.param('{"schema": 1, "schema": 1}', "test_perf.json:1", id="key-twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_with_its_place_and_is_left_as_it_is(
    suite: Suite, content: str | bytes, message: str
) -> None:
    suite.model()
    suite.module()
    suite.baseline().parent.mkdir(parents=True)
    written = content.encode() if isinstance(content, str) else content
    suite.baseline().write_bytes(written)

    is_conflict = content == CONFLICT  # for one of them, what an update says as well
    for arguments in [[], [UPDATE]] if is_conflict else [[]]:
        result = suite.run(*QUICK, "--no-header", *arguments)
        result.assert_outcomes(failed=1)
        check_unusable(suite, result, message)
        assert suite.baseline().read_bytes() == written


def check_unusable(suite: Suite, result: pytest.RunResult, message: str) -> None:
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert str(suite.baseline()) in text
    assert message in text, text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that not even root can write to")
def test_a_directory_that_cannot_be_written_fails_the_session_and_says_what_to_do(suite: Suite) -> None:
    suite.model()
    suite.module()

    result = suite.run(*QUICK, UPDATE, "--onnxperf-baseline-dir=/sys/onnxperf")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(result.stdout.str().split())
    assert "NOT UPDATED: /sys/onnxperf/bench-1.cpu/test_perf.json: cannot be written: " in text
    assert "Give --onnxperf-baseline-dir a directory that can be written" in text


@pytest.mark.parametrize("place", ["baselines", "baselines/bench-1.cpu"])
def test_a_file_where_a_directory_is_expected_fails_the_session_and_is_left_as_it_is(suite: Suite, place: str) -> None:
    suite.model()
    suite.module()
    path = suite.path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine", encoding="utf-8")

    suite.run(*QUICK).assert_outcomes(passed=1)
    result = suite.run(*QUICK, UPDATE)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(result.stdout.str().split())
    assert "NOT UPDATED: " in text
    assert "cannot be written" in text
    assert path.read_text("utf-8") == "mine"
    assert "INTERNALERROR" not in result.stderr.str() + text


def test_a_directory_where_the_file_is_expected_is_said(suite: Suite) -> None:
    suite.model()
    suite.module()
    suite.baseline().mkdir(parents=True)

    result = suite.run(*QUICK)

    result.assert_outcomes(failed=1)
    assert "test_perf.json: cannot be read: Is a directory" in " ".join(result.stdout.str().split())


IDS: Final = [
    "a/b/c",
    "../up",
    "two words",
    "x" * 300,
    "Case",
    "case",
    "größe-模型",
    "with]bracket",
    "a#b",
    'quote"d',
    "it's",
    "back\\slash",
    "::",
    "é",
]


def test_odd_parameter_ids_have_an_entry_each_and_find_it_again(suite: Suite) -> None:
    suite.model()
    suite.module(f"""
        import pytest

        @pytest.mark.onnx_measure(isolation="none")
        @pytest.mark.parametrize("n", range({len(IDS)}), ids={IDS!a})
        def test_mlp(onnx_session, n):
            onnx_session("mlp.onnx").measure(shapes={{"batch": n + 1}})
    """)

    suite.run(*QUICK, UPDATE).assert_outcomes(passed=len(IDS))

    assert len(suite.entries()) == len(IDS)
    assert list((suite.path / "baselines").rglob("*.*")) == [suite.baseline().parent, suite.baseline()]
    result = suite.run(*QUICK, "--onnxperf-strict")
    result.assert_outcomes(passed=len(IDS))
    assert too_wide(result.outlines) == []


def test_modules_that_differ_in_case_or_directory_only_do_not_share_a_file(suite: Suite) -> None:
    suite.model()
    names = ["test_a.py", "sub dir/test_a.py", "sub dir/deep/test_a.py"]
    for name in names:
        suite.module(name=name)

    suite.run(*QUICK, UPDATE, "--import-mode=importlib").assert_outcomes(passed=3)

    for name in names:
        assert list(suite.entries(name.removesuffix(".py"))) == ["test_mlp"]


def test_labels_have_an_entry_each(suite: Suite) -> None:
    suite.model()
    suite.module("""
        def test_mlp(onnx_session):
            for batch in (1, 2):
                onnx_session("mlp.onnx").measure(shapes={"batch": batch}, label=f"batch {batch}")
            onnx_session("mlp.onnx", label="plain").measure(shapes={"batch": 4})
    """)

    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)

    assert list(suite.entries()) == ["test_mlp#batch 1", "test_mlp#batch 2", "test_mlp#plain"]


def test_workers_measure_and_the_controller_writes_every_entry_once(suite: Suite) -> None:
    suite.model()
    for name in ("test_a.py", "test_b.py"):
        suite.module(
            """
            import pytest

            @pytest.mark.parametrize("batch", [1, 2])
            def test_mlp(onnx_session, batch):
                onnx_session("mlp.onnx").measure(shapes={"batch": batch})
            """,
            name,
        )

    result = suite.run_apart(*FACTS, UPDATE, "-n", "2")

    result.assert_outcomes(passed=4)
    for module in ("test_a", "test_b"):
        assert list(suite.entries(module)) == ["test_mlp[1]", "test_mlp[2]"]
        assert result.stdout.str().count(f"baselines/bench-1.cpu/{module}.json") == 1
    suite.run(*QUICK, "--onnxperf-strict").assert_outcomes(passed=4)


def test_a_test_module_outside_the_root_stays_inside_the_directory_of_baselines(
    suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suite.model()
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(suite.module(), outside / "test_perf.py")

    suite.run(*QUICK, UPDATE, f"--rootdir={suite.path}", str(outside / "test_perf.py")).assert_outcomes(passed=1)

    files = list((suite.path / "baselines").rglob("*.json"))
    assert files[0].relative_to(suite.path / "baselines").parts[0] == "bench-1.cpu"
    assert not list(outside.glob("baselines"))
    suite.run(*QUICK, "--onnxperf-strict", f"--rootdir={suite.path}", str(outside / "test_perf.py")).assert_outcomes(
        passed=1
    )


def test_baselines_are_found_from_any_working_directory(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.pytester.makeini("[pytest]\n")
    suite.module(name="tests/test_perf.py")
    suite.model()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    suite.model("tests/mlp.onnx")
    monkeypatch.chdir(suite.path / "tests")

    suite.run(*QUICK, "--onnxperf-strict").assert_outcomes(passed=1)


def test_versions_that_differ_from_the_recorded_ones_are_said(suite: Suite) -> None:
    suite.model()
    suite.module()
    suite.run(*QUICK, UPDATE).assert_outcomes(passed=1)
    document: dict[str, Any] = json.loads(suite.baseline().read_text("utf-8"))
    document["tests"]["test_mlp"]["versions"]["onnxruntime"] = "1.2.3"
    suite.baseline().write_text(json.dumps(document), encoding="utf-8")

    result = suite.run(*QUICK)

    result.assert_outcomes(passed=1)
    assert "since the baselines: onnxruntime 1.2.3 -> " in " ".join(result.stdout.str().split())


def test_an_update_writes_nothing_of_a_test_whose_teardown_fails(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.fixture
        def broken():
            yield
            raise ValueError("in teardown")

        def test_torn(onnx_session, broken):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        @pytest.mark.xfail(reason="one day")
        def test_better_than_expected(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})

        def test_whole(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run(*QUICK, UPDATE).assert_outcomes(passed=2, errors=1, xpassed=1)

    assert set(suite.entries()) == {"test_better_than_expected", "test_whole"}
