"""What pytest is told at its start: options, ini keys and markers, from two tables.

Every pytest session of an environment pays for this module, so it makes no dataclass and imports next to nothing.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, cast

import pytest

from .core.budget_keys import KEYS

BUDGET: Final = "onnx_budget"
MEASURE: Final = "onnx_measure"
MATRIX: Final = "onnx_matrix"
CELL: Final = "onnx_cell"
"""The fixture that a test with the marker `onnx_matrix` takes."""

Kind = Literal["flag", "int", "float", "text", "choice"]
_INI_TYPES: Final = {"flag": "bool", "int": "int", "float": "float", "text": "string", "choice": "string"}


class Option(NamedTuple):
    """One option. Its flag is `--onnxperf-<name>`, its ini key `onnxperf_<name>`."""

    name: str
    """With underscores; the field of `Settings`."""
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0
    """The smallest number allowed."""
    in_marker: bool = False
    """True where a single test can set it by `@pytest.mark.onnx_measure(name=...)`."""
    in_ini: bool = True
    metavar: str = ""

    @property
    def flag(self) -> str:
        """The command-line option."""
        return "--onnxperf" + (f"-{self.name.replace('_', '-')}" if self.name != "enabled" else "")

    @property
    def ini(self) -> str:
        """The key in pytest's configuration file."""
        return f"onnxperf_{self.name}"


OPTIONS: Final = (
    Option("enabled", "flag", False, "Run and judge the tests that measure ONNX models; without it they are skipped"),
    Option("update", "flag", False, "Record baselines: run like --onnxperf and rewrite the baselines of the tests that "
           "pass", in_ini=False),
    Option("update_mode", "choice", "changed", "Which entries --onnxperf-update writes: `new` ones only, those that "
           "`changed` beyond the recorded interval, or `all`", ("new", "changed", "all")),
    Option("update_force", "flag", False, "Record times although they were disturbed", in_ini=False),
    Option("ep", "text", "auto", "Execution provider: auto (the best that truly runs here), cpu, cuda, tensorrt, "
           "webgpu, dml, openvino, ... or ONNX Runtime's own name", in_marker=True, metavar="NAME"),
    Option("baseline_dir", "text", "baselines", "Directory of the baselines, from pytest's root directory",
           metavar="DIR"),
    Option("tolerance", "float", 0.05, "Ratio by which a metric may be worse than its baseline, 0.05 is 5 %",
           in_marker=True, metavar="RATIO"),
    Option("strict", "flag", False, "Fail whatever is not `ok`: no baseline, changed, noisy, ..."),
    Option("unverifiable", "choice", "fail", "What a budget that cannot be judged does to its test",
           ("fail", "skip", "pass"), in_marker=True),
    Option("timing", "choice", "on", "`off` measures facts alone: fast, and the same on every machine", ("on", "off"),
           in_marker=True),
    Option("explain", "flag", False, "Say of every measurement why its facts are what they are: memcpy culprits, "
           "placement, attention kernels, roofline; without it only of those that fail"),
    Option("against", "text", "", "Compare with another version of the world instead of a baseline's times: an "
           "interpreter (another onnxruntime), or a git revision (its model files); both are timed in turn",
           in_ini=False, metavar="PYTHON_OR_REF"),
    Option("json", "text", "", "File of everything that was measured and judged, for machines: `onnxperf export` makes "
           "what other tools read of it, `onnxperf merge` joins those of shards", metavar="FILE"),
    Option("markdown", "text", "", "File that gets the results as Markdown, worst first, such as for a comment on a "
           "pull request; a job summary of GitHub gets them without it", metavar="FILE"),
    Option("html", "text", "", "Page of what --onnxperf-json holds, for people: one file that opens offline; `onnxperf "
           "report` makes one of several such files, with the history of each metric", metavar="FILE"),
    Option("durations", "int", None, "After the run, the N slowest measurements and where their time went (0: all)",
           metavar="N"),
    Option("isolation", "choice", "process", "Where rounds run: in fresh processes, or (`none`, for debuggers) in the "
           "test's own", ("process", "none"), in_marker=True),
    Option("warmup_rounds", "int", 5, "Untimed rounds before the first timed one; the first is the cold start", low=1,
           in_marker=True, metavar="N"),
    Option("min_rounds", "int", 10, "Timed rounds at least", low=1, in_marker=True, metavar="N"),
    Option("max_time", "float", 1.0, "Seconds of timed rounds in a process, once there are enough of them",
           in_marker=True, metavar="SECONDS"),
    Option("profile_runs", "int", 3, "Profiled runs, whose facts must agree", low=1, in_marker=True, metavar="N"),
    Option("baseline_processes", "int", 5, "Processes that an update times, since noise lies between them", low=1,
           in_marker=True, metavar="N"),
    Option("threads", "int", 0, "Intra-op threads; 0 takes as many as there are CPU cores to use", in_marker=True,
           metavar="N"),
    Option("timeout", "float", 600.0, "Seconds after which a measuring process is ended and its test fails", low=0.1,
           in_marker=True, metavar="SECONDS"),
    Option("device", "text", "", "Name of the device in the environment key, where the one found says too little",
           metavar="NAME"),
)  # fmt: skip
OPTION: Final = {option.name: option for option in OPTIONS}


def add_options(parser: pytest.Parser) -> None:
    """Add every row of `OPTIONS` to command line and ini, unset by default so that the source of a value is known."""
    group = parser.getgroup("onnxperf", "performance regression tests of ONNX models (pytest-onnxperf)")
    for option in OPTIONS:
        default = "" if option.kind == "flag" or option.default in ("", None) else f" (default: {option.default})"
        choices = f" [{'|'.join(option.choices)}]" if option.choices else ""  # an ini key has no metavar
        text = (option.help + default).replace("%", "%%")
        if option.kind == "flag":
            group.addoption(option.flag, dest=option.ini, action="store_true", default=None, help=text)
        else:
            metavar = option.metavar or "|".join(option.choices)
            group.addoption(option.flag, dest=option.ini, default=None, metavar=metavar, help=text)
        if option.in_ini:
            parser.addini(
                option.ini, option.help + choices + default, type=cast("Any", _INI_TYPES[option.kind]), default=None
            )


def is_enabled(config: pytest.Config) -> bool:
    """Tell whether this session measures; asks for nothing but the two flags."""
    flags = (config.getoption("onnxperf_enabled", None), config.getoption("onnxperf_update", None))
    try:
        return bool(flags[0] or flags[1] or config.getini("onnxperf_enabled"))
    except (TypeError, ValueError, pytest.UsageError) as error:
        msg = f"onnxperf_enabled in {config.inipath}: expected true or false: {error}"
        raise pytest.UsageError(msg) from error


_IDLE: Final = ("against", "json", "html", "markdown", "durations", "explain")
"""Options that judge or show what a session measures."""


def check_idle(config: pytest.Config) -> None:
    """Refuse a command line on which they stand without --onnxperf: it would pass, and judge and write nothing.

    Raises:
        pytest.UsageError: One stands there.
    """
    typed = {str(argument).partition("=")[0] for argument in config.invocation_params.args}
    idle = [OPTION[name].flag for name in _IDLE if OPTION[name].flag in typed]
    if idle:
        msg = f"{', '.join(idle)}: nothing is measured without --onnxperf, give it too"
        raise pytest.UsageError(msg)


def register_markers(config: pytest.Config) -> None:
    """Register the markers, with the lines that `pytest --markers` prints."""
    keys = ", ".join(key.name for key in KEYS)
    config.addinivalue_line(
        "markers",
        f"{BUDGET}(*, on=None, **limits): limits for what the test measures, as in "
        f"@pytest.mark.onnx_budget(max_memcpy=0, max_latency_ms=12, on='cuda'). Keys: {keys}",
    )
    options = ", ".join(option.name for option in OPTIONS if option.in_marker)
    config.addinivalue_line(
        "markers",
        f"{MEASURE}(**options): options for one test, as --onnxperf-<key> sets them for all. Keys: {options}",
    )
    config.addinivalue_line(
        "markers",
        f"{MATRIX}(**dimensions, reference=None, exclude=[]): one test for each cell, which the fixture {CELL} "
        f"measures, as in @pytest.mark.onnx_matrix(model='models/gemma-{{dtype}}', dtype=['f16', 'int4'], "
        f"prompt_tokens=[20, 500], reference={{'dtype': 'f16'}}). Known dimensions: model, dtype, pipeline, ep, "
        f"prompt_tokens, batch_size, new_tokens, cache, share_buffer; any other is the test's own",
    )
