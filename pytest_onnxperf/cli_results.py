"""The commands `export`, `merge`, `report` and `matrix` of `onnxperf`: they read files of --onnxperf-json."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_onnxperf.console import SAME, write
from pytest_onnxperf.report.export import FORMATS
from pytest_onnxperf.report.matrix import FORMS

_EXIT_CODES = "Exit codes: 0, 2 (a file cannot be read, written or merged; the reason is on stderr)."


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands that read files of --onnxperf-json."""
    export = commands.add_parser(
        "export",
        help="Results in the form of another tool",
        description="Write the results of --onnxperf-json in a form that another tool reads: pytest-benchmark's JSON, "
        "Bencher metric format, github-action-benchmark's two custom forms, OpenMetrics text, or CSV.",
        epilog=_EXIT_CODES,
    )
    export.add_argument("format", metavar="FORMAT", choices=FORMATS, help=", ".join(FORMATS))
    export.add_argument("file", type=Path, metavar="FILE", help="File of --onnxperf-json, or a merged one")
    export.add_argument("-o", "--output", type=Path, metavar="OUT", help="File to write [standard output]")
    export.add_argument("--no-header", action="store_true", help="Of csv: rows alone, to append to others")
    export.set_defaults(command=_export)
    merge = commands.add_parser(
        "merge",
        help="Results of several runs in one file",
        description="Join files of --onnxperf-json: shards of a suite, or a suite on several devices or versions.",
        epilog=_EXIT_CODES,
    )
    merge.add_argument("files", type=Path, nargs="+", metavar="FILE", help="File of --onnxperf-json")
    merge.add_argument("-o", "--output", type=Path, metavar="OUT", required=True, help="File to write")
    merge.set_defaults(command=_merge)
    report = commands.add_parser(
        "report",
        help="Results as a page to look at",
        description="Write results of --onnxperf-json as one page that opens offline. Of several runs each test is "
        "shown by its newest, with the history of each metric.",
        epilog=_EXIT_CODES,
    )
    report.add_argument("files", type=Path, nargs="+", metavar="FILE", help="File of --onnxperf-json, or a merged one")
    report.add_argument("-o", "--output", type=Path, metavar="OUT", required=True, help="Page to write, HTML")
    report.set_defaults(command=_report)
    _add_matrix(commands)


def _add_matrix(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    matrix = commands.add_parser(
        "matrix",
        help="Tables of the tests of @pytest.mark.onnx_matrix",
        description="Show the cells of a matrix beside their reference, a table for each model, of one file of "
        "--onnxperf-json or of several: shards of a suite, or the same suite with other builds.",
        epilog=_EXIT_CODES,
    )
    matrix.add_argument("files", type=Path, nargs="+", metavar="FILE", help="File of --onnxperf-json, or a merged one")
    forms = matrix.add_mutually_exclusive_group()
    for form in FORMS[1:]:
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=f"Write {form}")
    matrix.add_argument("-o", "--output", type=Path, metavar="OUT", help="File to write [standard output]")
    matrix.set_defaults(command=_matrix, form=FORMS[0])


def _export(options: argparse.Namespace) -> int:
    from . import results_command

    text, warnings = results_command.exported(options.format, options.file, with_header=not options.no_header)
    _put(text, options.output, [options.file])
    return _warned(warnings)


def _merge(options: argparse.Namespace) -> int:
    from . import results_command

    data, warnings = results_command.merged(options.files)
    results_command.write(options.output, data)
    return _warned(warnings)


def _report(options: argparse.Namespace) -> int:
    from . import results_command

    results_command.write(options.output, results_command.reported(options.files).encode(), options.files)
    return SAME


def _matrix(options: argparse.Namespace) -> int:
    from . import results_command

    text, warnings = results_command.matrix(options.form, options.files)
    _put(text, options.output, options.files)
    return _warned(warnings)


def _warned(warnings: Sequence[str]) -> int:
    for warning in warnings:
        print(f"onnxperf: warning: {warning}", file=sys.stderr)
    return SAME


def _put(text: str, path: Path | None, inputs: Sequence[Path]) -> None:
    """Write a text to a file, which is none of those that were read, or to standard output."""
    from . import results_command

    if path is None:
        write([text.removesuffix("\n")])
    else:
        results_command.write(path, text.encode(), inputs)
