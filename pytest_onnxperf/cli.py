"""The command `onnxperf`: what a profile says, what changed between two, and why a model does what it does.

`profile`, `diff` and `trace` read profiles alone, and need neither onnxruntime nor a device; `explain` runs the model;
`reference` prints the tables of the plugin. What reads results is in `cli_results`.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_onnxperf import cli_results
from pytest_onnxperf.console import DIFFERS, SAME, UNREADABLE, write
from pytest_onnxperf.core.errors import OnnxPerfError, SettingError
from pytest_onnxperf.core.facts import Facts, facts_of
from pytest_onnxperf.core.ops import MEMCPY_FROM_HOST, MEMCPY_TO_HOST
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.report.profile import diff_lines, profile_lines
from pytest_onnxperf.report.profile_diff import changes_between

INTERRUPTED = 130
"""As shells have it: 128 and SIGINT."""
_EXIT_CODES = "Exit codes: 0, 2 (a file cannot be read; the reason is on stderr)."
_DEFAULT_TOP = 20
_TOPICS = ("options", "budgets", "metrics", "states", "limits", "terms", "notes")
"""Those of `reference_command.TOPICS`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` without the name of the program, None: the process's own. Return the exit code."""
    options = _parser().parse_args(argv)
    try:
        code: int = options.command(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OnnxPerfError as error:
        print(f"onnxperf: {error}", file=sys.stderr)
        return UNREADABLE
    except KeyboardInterrupt:
        print("onnxperf: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; nothing more can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SAME
    except OSError as error:
        print(f"onnxperf: the output cannot be written: {error.strerror}", file=sys.stderr)
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREADABLE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onnxperf",
        description="Read profiles that ONNX Runtime wrote, and results of --onnxperf-json.",
        epilog="Exit codes: 0, 1 (diff --exit-code, explain --fail-on: there is something), 2 (an error; the reason is "
        "on stderr).",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_profile(commands)
    diff = commands.add_parser(
        "diff",
        help="What changed between two profiles",
        description="Show what changed from profile A to profile B, per run: nodes gained and lost by operator and "
        "execution provider, memcpy nodes, time by operator. Facts decide whether they differ; time is noise: it is "
        "shown, and never decides.",
        epilog="Exit codes: 0, 1 (differs, with --exit-code), 2 (a file cannot be read; the reason is on stderr).",
    )
    diff.add_argument("a", type=Path, metavar="A", help="Profile before the change")
    diff.add_argument("b", type=Path, metavar="B", help="Profile after it")
    diff.add_argument("--exit-code", action="store_true", help="Exit with 1 if a fact differs (time alone does not)")
    diff.add_argument("--json", action="store_true", help="Write one JSON object")
    diff.set_defaults(command=_diff)
    _add_trace(commands.add_parser("trace", help="A profile as a trace for ui.perfetto.dev"))
    _add_explain(commands.add_parser(
        "explain",
        help="What a model does on an execution provider, and why",
        description="Profile a few runs of a model (a file, or a directory of ONNX Runtime GenAI) and say what forces "
        "its memcpy nodes, which nodes run on the CPU and why, which attention kernels run, what bounds its operators, "
        "and what to do.",
        epilog="Exit codes: 0, 1 (found, with --fail-on), 2 (an error, or it cannot be told; the reason is on stderr).",
    ))  # fmt: skip
    cli_results.add_commands(commands)
    _add_reference(commands)
    return parser


def _add_profile(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    profile = commands.add_parser(
        "profile",
        help="Facts and op table of a profile",
        description="Show the facts and the op table of a profile, from any version and execution provider.",
        epilog=_EXIT_CODES,
    )
    profile.add_argument("file", type=Path, metavar="FILE", help="Profile, as `session.end_profiling()` names it")
    profile.add_argument("--json", action="store_true", help="Write one JSON object")
    profile.add_argument("--top", type=_rows, default=_DEFAULT_TOP, help="Rows of the op table [%(default)s]")
    profile.set_defaults(command=_profile)


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a profile as a trace that ui.perfetto.dev and chrome://tracing open: phases, runs, a track for the "
        "nodes of each execution provider, memcpy nodes, and the device's events apart, since their clock is another. "
        "Empty events are left out, names are cleaned, and what overlaps nests."
    )
    parser.epilog = "Exit codes: 0, 2 (a file cannot be read or written; the reason is on stderr)."
    parser.add_argument("file", type=Path, metavar="PROFILE", help="Profile, as `session.end_profiling()` names it")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE",
                        help="Trace to write, replaced where it exists; .gz compresses it")  # fmt: skip
    parser.add_argument("--warmup-runs", type=_count, default=0, metavar="N",
                        help="Mark the first N runs as warm-up; a profile cannot tell [%(default)s]")  # fmt: skip
    parser.set_defaults(command=_trace)


def _add_reference(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reference",
        help="Every option, ini key, marker key, metric, state and term; how it is judged",
        description="Print every option with its ini key and default, every key of the markers, every metric, state "
        "and term, as this version has them, and notes on how it measures and judges.",
    )
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=f"One of {', '.join(_TOPICS)} [all]", choices=_TOPICS)
    parser.add_argument("--markdown", action="store_true", help="Write tables of Markdown")
    parser.set_defaults(command=_reference)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="ONNX file, or directory with genai_config.json")
    parser.add_argument("--ep", default="auto", help="Execution provider, as for --onnxperf-ep [%(default)s]")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=SIZE",
                        help="Size of a symbolic dimension, or a whole input: batch=1, image=1x3x224x224")  # fmt: skip
    parser.add_argument("--provider-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--session-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=_number, default=0, help="Intra-op threads [all cores that may be used]")
    parser.add_argument("--runs", type=_number, default=3, help="Profiled runs, or decode steps [%(default)s]")
    parser.add_argument("--prompt-tokens", type=_number, default=64, help="Of a generator [%(default)s]")
    parser.add_argument("--new-tokens", type=_number, default=8, help="Of a generator [%(default)s]")
    parser.add_argument("--measure-ceilings", action="store_true",
                        help="Measure what a large product and a large copy attain, for the roofline")  # fmt: skip
    parser.add_argument("--fail-on", metavar="WHAT,...", help="Exit with 1 for memcpy, cpu or unfused")
    parser.add_argument("--json", action="store_true", help="Write one JSON object")
    parser.set_defaults(command=_explain)


def _rows(text: str) -> int:
    return _count(text, "rows")


def _count(text: str, noun: str = "runs") -> int:
    if not text.isascii() or not text.isdigit():
        msg = f"expected a number of {noun}, 0 or more, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        msg = f"expected a whole number, 1 or more, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _profile(options: argparse.Namespace) -> int:
    profile = read_profile(options.file)
    facts = facts_of(profile)
    if options.json:
        write([json.dumps(_json_of_profile(profile, facts), indent=2)])
    else:
        write(profile_lines(profile, facts, options.top))
    return SAME


def _diff(options: argparse.Namespace) -> int:
    old, new = read_profile(options.a), read_profile(options.b)
    changes = changes_between(old, facts_of(old), new, facts_of(new))
    if options.json:
        write([json.dumps({**asdict(changes), "differs": changes.differs}, indent=2)])
    else:
        write(diff_lines(changes))
    if options.exit_code and (changes.old_unavailable is not None or changes.new_unavailable is not None):
        return UNREADABLE  # what cannot be told is neither the same nor different
    return DIFFERS if options.exit_code and changes.differs else SAME


def _trace(options: argparse.Namespace) -> int:
    from . import trace_command  # it is about files that are written, which the other commands do not

    write(trace_command.run(options.file, options.output, options.warmup_runs))
    return SAME


def _explain(options: argparse.Namespace) -> int:
    from . import explain_command  # it loads numpy and what measures, which the other commands need not

    names = [] if options.fail_on is None else [name.strip() for name in options.fail_on.split(",")]
    for name in names:
        if name not in explain_command.FAIL_ON:
            msg = f"--fail-on: expected {', '.join(explain_command.FAIL_ON)}, got {name!r}"
            raise SettingError(msg)
    explained = explain_command.run(options)
    if options.json:
        write([json.dumps(explain_command.plain(explained), indent=2)])
    else:
        write(explain_command.lines(explained))
    found, unknown = explained.failing(names)
    for name in found:
        print(f"onnxperf: --fail-on {name}: found", file=sys.stderr)
    for name in unknown:
        print(f"onnxperf: --fail-on {name}: it cannot be told", file=sys.stderr)
    return DIFFERS if found else UNREADABLE if unknown else SAME


def _reference(options: argparse.Namespace) -> int:
    from . import reference_command  # it loads pytest

    write(reference_command.lines(options.topic, as_markdown=options.markdown))
    return SAME


def _json_of_profile(profile: Profile, facts: Facts) -> dict[str, object]:
    executions: Counter[str] = Counter()
    providers: Counter[str] = Counter()
    for key, total in profile.all_nodes.items():
        executions[key.op_type] += total.executions
        providers[key.execution_provider] += total.executions
    return {
        "path": profile.path,
        "runs": len(profile.runs),
        "events": profile.events,
        "unread_lines": profile.unread_lines,
        "repaired_lines": profile.repaired_lines,
        "truncated": profile.truncated,
        "dropped_events": profile.dropped_events,
        "memcpy_to_host": executions[MEMCPY_TO_HOST],
        "memcpy_from_host": executions[MEMCPY_FROM_HOST],
        "memcpy_per_run": facts.memcpy,
        "nodes_by_provider": dict(providers),
        "op_time_us": dict(profile.op_time_us),
        "categories": dict(profile.categories),
        "unattributed_nodes": profile.unattributed_nodes,
        "notes": list(profile.notes),
        "unread": [asdict(line) for line in profile.unread],
        "api_events": {name: asdict(total) for name, total in profile.api_events.items()},
        "kernel_events": {name: asdict(total) for name, total in profile.kernel_events.items()},
        "facts": asdict(facts),
    }


if __name__ == "__main__":
    sys.exit(main())
