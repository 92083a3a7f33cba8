"""The command `onnxperf`: what any ONNX Runtime profile says, and what changed between two.

It reads files alone, and needs neither onnxruntime nor a device.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from pytest_onnxperf.core.errors import ProfileError
from pytest_onnxperf.core.facts import Facts, facts_of
from pytest_onnxperf.core.ops import MEMCPY_FROM_HOST, MEMCPY_TO_HOST
from pytest_onnxperf.core.profile import Profile
from pytest_onnxperf.core.profile_json import read_profile
from pytest_onnxperf.report.profile import diff_lines, profile_lines
from pytest_onnxperf.report.profile_diff import changes_between

SAME, DIFFERS, UNREADABLE = 0, 1, 2
_EXIT_CODES = "Exit codes: 0, 1 (differs, with --exit-code), 2 (a file cannot be read; the reason is on stderr)."
_DEFAULT_TOP = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; `argv` without the name of the program, None: the process's own. Return the exit code."""
    options = _parser().parse_args(argv)
    try:
        code: int = options.command(options)
        sys.stdout.flush()
    except ProfileError as error:
        print(f"onnxperf: {error}", file=sys.stderr)
        return UNREADABLE
    except BrokenPipeError:  # `| head` has seen enough; nothing more can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SAME
    except OSError as error:
        print(f"onnxperf: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREADABLE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="onnxperf", description="Read profiles that ONNX Runtime wrote.", epilog=_EXIT_CODES
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
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
    diff = commands.add_parser(
        "diff",
        help="What changed between two profiles",
        description="Show what changed from profile A to profile B, per run: nodes gained and lost by operator and "
        "execution provider, memcpy nodes, time by operator. Facts decide whether they differ; time is noise: it is "
        "shown, and never decides.",
        epilog=_EXIT_CODES,
    )
    diff.add_argument("a", type=Path, metavar="A", help="Profile before the change")
    diff.add_argument("b", type=Path, metavar="B", help="Profile after it")
    diff.add_argument("--exit-code", action="store_true", help="Exit with 1 if a fact differs (time alone does not)")
    diff.add_argument("--json", action="store_true", help="Write one JSON object")
    diff.set_defaults(command=_diff)
    return parser


def _rows(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        msg = f"expected a number of rows, 0 or more, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _profile(options: argparse.Namespace) -> int:
    profile = read_profile(options.file)
    facts = facts_of(profile)
    if options.json:
        _write([json.dumps(_json_of_profile(profile, facts), indent=2)])
    else:
        _write(profile_lines(profile, facts, options.top))
    return SAME


def _diff(options: argparse.Namespace) -> int:
    old, new = read_profile(options.a), read_profile(options.b)
    changes = changes_between(old, facts_of(old), new, facts_of(new))
    if options.json:
        _write([json.dumps({**asdict(changes), "differs": changes.differs}, indent=2)])
    else:
        _write(diff_lines(changes))
    if options.exit_code and (changes.old_unavailable is not None or changes.new_unavailable is not None):
        return UNREADABLE  # what cannot be told is neither the same nor different
    return DIFFERS if options.exit_code and changes.differs else SAME


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


def _write(lines: Iterable[str]) -> None:
    """Print lines; what the terminal's encoding lacks is shown by its code."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        print(line.encode(encoding, "backslashreplace").decode(encoding))


if __name__ == "__main__":
    sys.exit(main())
