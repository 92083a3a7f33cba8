"""False alarms and detection of the timing verdicts, replayed on recorded processes: ours, and what others do.

`python tests/bench/detection.py DIR` reads every file of recorded processes in DIR (the format is in `replay.py`) and
runs each pair of files, as baseline and as current, through pytest-benchmark's own compare-fail, Mann-Whitney, and the
rules of `pytest_onnxperf.core`. It prints false alarms with 95 % intervals, detection, and processes and rounds spent,
with `--json` a list of objects, and exits with 1 where a target is missed. `--live N` measures N processes of each kind
afresh first, with models that are really 3, 5 and 10 % larger, into DIR or a temporary directory, and replays those;
`--live-decoders N` likewise, of GenAI decoders of 3 and of 48 MB. How processes of one model differ is printed too.

Shares are of 1 in JSON and of 100 in the table. Stored processes are consecutive ones, and so are those of a check.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import detection_rules as rules
from tests.bench.replay import BESIDE, Process, Recording, consecutive, files, lines, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.bench.detection_rules import Check, Result

    StoredCheck = Callable[[Sequence[float], Sequence[Process]], Check]

DRAWS: Final = 600
SEED: Final = 7
EARLY: Final = "-early"
STEPS: Final = "stored-steps"
"""The rule of decode, whose rounds hold several times, on recordings of a session."""
FALSE_ALARMS: Final = {
    "stored-reference": 0.01,
    "stored-generator": 0.01,
    STEPS: 0.01,
    "stored-raw": 0.02,
    "ab-one-process": 0.01,
    "ab-two-processes": 0.01,
}
DETECTION: Final = {
    "stored-reference": {5: 0.95, 10: 0.99},
    "ab-one-process": {5: 0.95},
    "ab-two-processes": {5: 0.95},
}
PROCESSES: Final = {"stored-reference": 1.2}
ROUNDS: Final = 0.5
"""Of the fixed number: the most that an early stop may spend on unchanged pairs and on pairs at +10 %."""
SAME_VERDICT: Final = 0.98
"""Share of the checks in which an early stop says what the whole block says. Not at +3 %, which is the tolerance: there
both find half."""


def result(
    rule: str, names: tuple[str, str], checks: dict[int, list[Check]], distinct: int, reference: str = ""
) -> Result:
    """Sum up the checks by slowdown, 0 for unchanged files."""
    shares = {percent: _mean([check.is_alarm for check in each]) for percent, each in checks.items()}
    return rules.Result(
        rule=rule,
        baseline=names[0],
        current=names[1],
        false_alarms=shares[0],
        false_alarms_interval=rules.clopper_pearson(shares[0], distinct),
        detection={percent: share for percent, share in sorted(shares.items()) if percent},
        processes_per_check=_mean([check.processes for check in checks[0]]),
        noisy=_mean([check.is_noisy for check in checks[0]]),
        reference=reference,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def one_against_one(old: Recording, new: Recording) -> Iterator[Result]:
    """Yield what others do: one process against one stored process."""
    series = "single"
    if not (old.series.get(series, {}).get(0) and new.series.get(series, {}).get(0)):
        return
    stored = old.series[series][0]
    names, distinct = (old.name, new.name), len(new.series[series][0])

    def replay(rule: str, run: Callable[[list[Process], bool], list[bool]]) -> Result:
        checks = {
            percent: [rules.Check(alarm) for alarm in run(current, old is new and percent == 0)]
            for percent, current in new.series[series].items()
        }
        return result(rule, names, checks, distinct)

    if len(stored) > 1:
        for field in rules.BENCHMARK_FIELDS:
            yield replay(
                f"pytest-benchmark {field}:5%",
                functools.partial(_benchmark, stored, field),
            )
        yield replay("mann-whitney and 5%", lambda current, same: rules.mann_whitney_checks(stored, current, same=same))


def _benchmark(stored: Sequence[Process], field: str, current: Sequence[Process], same: bool) -> list[bool]:
    return rules.benchmark_checks(stored, current, field, same=same)


def stored_rules(old: Recording, new: Recording) -> Iterator[Result]:
    """Yield our rules against a stored baseline."""
    for series in sorted(set(old.series) & set(new.series)):
        first, _, reference = series.partition(" ")
        groups: list[tuple[str, int, Callable[[Process], float], tuple[StoredCheck, ...]]] = []
        if series == "single":
            groups = [("stored-raw", rules.STORED_RAW, rules.raw_value, (rules.raw_check,))]
        elif first in BESIDE.values():
            both = rules.reference_check, rules.reference_check_early
            groups = [(f"stored-{first}", rules.STORED_REFERENCE, rules.reference_value, both)]
        if first == "reference":
            of_steps = functools.partial(rules.by_steps, both[0]), functools.partial(rules.by_steps, both[1])
            groups.append((STEPS, rules.STORED_REFERENCE, rules.reference_value, of_steps))
        for name, count, value, rule_and_early in groups:
            found = []
            for rule, check in zip((name, name + EARLY), rule_and_early, strict=False):
                checks = _stored_checks(old, new, series, count, value, check)
                if 0 in checks:
                    distinct = len(new.series[series][0])
                    found.append((result(rule, (old.name, new.name), checks, distinct, reference), checks))
            yield from _with_rounds(found)


def _stored_checks(
    old: Recording,
    new: Recording,
    series: str,
    count: int,
    value: Callable[[Process], float],
    check: StoredCheck,
) -> dict[int, list[Check]]:
    base = old.series[series].get(0, [])
    values = [value(each) for each in base]
    checks = {}
    for percent, current in new.series[series].items():
        same = old is new and percent == 0
        drawn = consecutive(len(base), count, len(current), rules.REPEATS, same=same, seed=SEED + percent, draws=DRAWS)
        if drawn:
            checks[percent] = [check([values[i] for i in was], [current[i] for i in now]) for was, now in drawn]
    return checks


def pair_rules(recording: Recording) -> Iterator[Result]:
    """Yield our rules for A/B: three processes drawn at random."""
    for series, rule, always in (("pairs", "ab-one-process", False), ("lockstep", "ab-two-processes", True)):
        by_percent = {
            percent: [rules.log_ratios(each) for each in processes]
            for percent, processes in recording.series.get(series, {}).items()
            if len(processes) >= rules.REPEATS
        }
        if 0 not in by_percent:
            continue
        rng = np.random.default_rng(SEED)
        drawn = {
            percent: [rng.permutation(len(each))[: rules.REPEATS] for _ in range(DRAWS)]
            for percent, each in by_percent.items()
        }
        found = []
        for name, early in ((rule, False), (rule + EARLY, True)):
            checks = {
                percent: [
                    rules.pair_check([by_percent[percent][i] for i in draw], always_three=always, early=early)
                    for draw in draws
                ]
                for percent, draws in drawn.items()
            }
            found.append((result(name, (recording.name,) * 2, checks, len(by_percent[0])), checks))
        yield from _with_rounds(found)


def _with_rounds(found: list[tuple[Result, dict[int, list[Check]]]]) -> Iterator[Result]:
    """Yield the rule with a fixed number of rounds, and the early one with its rounds in relation to it."""
    for each, checks in found:
        if each.rule.endswith(EARLY):
            fixed = found[0][1]
            each.rounds_ratio = {
                percent: sum(check.rounds for check in checks[percent]) / max(sum(c.rounds for c in fixed[percent]), 1)
                for percent in sorted(checks)
            }
            each.same_verdict = {
                percent: _mean([a.is_alarm is b.is_alarm for a, b in zip(fixed[percent], checks[percent], strict=True)])
                for percent in sorted(checks)
            }
        yield each


def judge(each: Result) -> list[str]:
    """Return the targets that a rule missed on one pair of files."""
    rule = each.rule.removesuffix(EARLY)
    missed = []
    if each.false_alarms > FALSE_ALARMS.get(rule, 1):
        missed.append(f"false alarms {each.false_alarms:.1%} > {FALSE_ALARMS[rule]:.0%}")
    for percent, least in DETECTION.get(rule, {}).items():
        if each.detection.get(percent, 1) < least:
            missed.append(f"detection at +{percent} % {each.detection[percent]:.1%} < {least:.0%}")
    if each.processes_per_check > PROCESSES.get(rule, 9):
        missed.append(f"{each.processes_per_check:.2f} processes a check > {PROCESSES[rule]}")
    for percent in (0, 10):
        if each.rounds_ratio.get(percent, 0) > ROUNDS and rule != STEPS:
            missed.append(f"{each.rounds_ratio[percent]:.0%} of the rounds at +{percent} % > {ROUNDS:.0%}")
    for percent in (0, 5, 10):
        if each.same_verdict.get(percent, 1) < SAME_VERDICT:
            missed.append(f"the same verdict at +{percent} % in {each.same_verdict[percent]:.1%} < {SAME_VERDICT:.0%}")
    return missed


def stopping_at_its_limit(recordings: Sequence[Recording]) -> Iterator[tuple[str, float, float]]:
    """Yield the shares of wrong certain verdicts of the stopping rule where the truth is at the limit."""
    for recording in recordings:
        for series in ("pairs", "lockstep"):
            if processes := recording.series.get(series, {}).get(0):
                wrong = rules.false_certain([rules.log_ratios(each) for each in processes], times=5, seed=SEED)
                yield f"{recording.name} {series}", *wrong


def variations(recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield a line for each model that was timed beside references: how its unchanged processes differ."""
    for recording in recordings:
        models: dict[str, dict[str, list[Process]]] = defaultdict(dict)
        for series, by_percent in recording.series.items():
            first, _, rest = series.partition(" ")
            if first in BESIDE.values() and len(by_percent.get(0, [])) > 2:
                model, _, kind = rest.rpartition("_")
                models[model or "session"][kind] = by_percent[0]
        for model, by_kind in models.items():
            if len({len(each) for each in by_kind.values()}) == 1:
                found = rules.variation(by_kind)
                beside = "".join(f", / {kind} {spread:.2%}" for kind, spread in found.beside.items())
                fit = f"{found.fit.spread_log:.2%} by {found.fit.kind}" if found.fit.spread_log else "unknown"
                yield (
                    f"between {found.processes} processes, {recording.name} {model}: "
                    f"raw {found.raw:.2%}{beside}, chosen {fit}"
                )


def replay(directory: Path) -> tuple[list[Result], list[Recording]]:
    """Run every rule on every pair of files it fits."""
    recordings = [recording for path in files(directory) if (recording := load(path)) is not None]
    results: list[Result] = []
    for old in recordings:
        for new in recordings:
            results += one_against_one(old, new)
            results += stored_rules(old, new)
    for recording in recordings:
        results += pair_rules(recording)
    for each in results:
        each.missed = judge(each)
    return sorted(results, key=lambda each: (each.rule, each.baseline, each.current, each.reference)), recordings


def row(each: Result) -> str:
    """Write one line of the table."""
    low, high = each.false_alarms_interval
    names = " > ".join(dict.fromkeys(name.partition(".")[0] for name in (each.baseline, each.current)))
    detection = "/".join(f"{each.detection[p]:.0%}" if p in each.detection else "-" for p in (3, 5, 10))
    rounds = "/".join(f"{each.rounds_ratio[p]:.0%}" for p in (0, 10) if p in each.rounds_ratio)
    same = "/".join(f"{each.same_verdict[p]:.1%}" for p in (0, 5, 10) if p in each.same_verdict)
    return (
        f"{each.rule:<28}{f'{names} {each.reference}':<30}{each.false_alarms:6.1%} [{low:5.1%},{high:6.1%}]  "
        f"{detection:<16}{each.processes_per_check:5.2f}  {each.noisy:5.0%}  {rounds:<9} {same:<19} "
        f"{'MISSED: ' + '; '.join(each.missed) if each.missed else ''}"
    ).rstrip()


def report(results: Sequence[Result], recordings: Sequence[Recording], directory: Path) -> bool:
    """Print the table and return whether every target is reached."""
    heads = ("rule", "files", "false alarms", "+3/+5/+10 %", "procs", "noisy", "rounds, same/+10 %; same verdict")
    print(f"{heads[0]:<28}{heads[1]:<30}{heads[2]:<23}{heads[3]:<16}{heads[4]:>5}  {heads[5]:>5}  {heads[6]}")
    for each in results:
        print(row(each))
    for line in variations(recordings):
        print(line)
    is_kept = True
    for name, worse, ok in stopping_at_its_limit(recordings):
        is_kept &= worse <= 0.01 and ok <= 0.05
        print(
            f"stopping with the truth at the limit, {name}: certain_worse {worse:.2%} (1 %), certain_ok {ok:.2%} (5 %)"
        )
    for path in files(directory):
        if load(path) is None:
            fits = rules.statistics_checks(list(lines(path)), seed=SEED)
            for name, stored, checks in fits:
                shares = [_mean([check.is_alarm for check in checks[arm]]) for arm in (0, 5)]
                print(f"{path.name} {name}, K = {stored}: false alarms {shares[0]:.1%}, found at +5 % {shares[1]:.1%}")
    missed = [each for each in results if each.missed]
    if not results:
        print("no rule has enough processes")
        return False
    print("every target is reached" if is_kept and not missed else f"{len(missed) + (not is_kept)} lines miss a target")
    return is_kept and not missed


def main() -> int:
    """Replay, print, and say by the status whether the targets are reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="Files of recorded processes")
    parser.add_argument("--json", action="store_true", help="Print a list of objects instead of a table")
    parser.add_argument("--live", type=int, default=0, metavar="N", help="Measure N processes of each kind first")
    parser.add_argument(
        "--live-decoders", type=int, default=0, metavar="N", help="Measure N processes of each size of decoder first"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        if options.live:
            from tests.bench.detection_live import measure

            measure(directory, options.live)
        if options.live_decoders:
            from tests.bench.detection_live import measure_decoders

            measure_decoders(directory, options.live_decoders)
        if not directory.is_dir() or not files(directory):
            parser.error(
                "needs a DIR with .jsonl or .jsonl.gz files of recorded processes (see replay.py), --live N, or "
                "--live-decoders N"
            )
        results, recordings = replay(directory)
        if not results and not any(variations(recordings)):
            parser.error(f"{directory}: no file there has enough processes for any rule")
        if options.json:
            print(json.dumps([asdict(each) for each in results], indent=1))
            return int(not results or any(each.missed for each in results))
        return int(not report(results, recordings, directory))


if __name__ == "__main__":
    sys.exit(main())
