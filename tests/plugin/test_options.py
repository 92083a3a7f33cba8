"""Options: where a value comes from, what a wrong one says, and how pytest lists them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_onnxperf.core.budget_keys import KEYS
from pytest_onnxperf.declare import OPTIONS, Option
from tests.plugin.suite import FACTS, MEASURE

if TYPE_CHECKING:
    from tests.plugin.suite import Suite

# Writes what the plugin made of the options, of the session and of a test with the marker.
SHOW: Final = """
    import dataclasses, json
    import pytest
    from pytest_onnxperf.state import session_of

    @pytest.mark.onnx_measure({marker})
    def test_show(request):
        session = session_of(request.config)
        values = {{"enabled": False}}
        if session is not None:
            values = dataclasses.asdict(session.settings_of(request.node))
        with open("values.json", "w") as file:
            json.dump(values, file, default=str)
"""
IDS: Final = [option.name for option in OPTIONS]


def shown(suite: Suite, *arguments: str, marker: str = "", ini: str = "") -> dict[str, Any]:
    """Run a session with these settings and return the values it used."""
    suite.module(SHOW.format(marker=marker))
    (suite.path / "pytest.ini").write_text(f"[pytest]\n{ini}\n", encoding="utf-8")
    result = suite.run("-p", "no:terminal", *arguments)
    assert result.ret == 0, result.stderr.str()
    values: dict[str, Any] = json.loads((suite.path / "values.json").read_text("utf-8"))
    return values


def other_than(option: Option, *taken: object) -> Any:
    """Return an allowed value of an option that is none of the given ones."""
    candidates: dict[str, tuple[Any, ...]] = {
        "flag": (True, False),
        "choice": option.choices,
        "int": (7, 8, 9),
        "float": (0.5, 1.5, 2.5),
        "text": ("cpu", "cuda", "webgpu") if option.name == "ep" else tuple(f"{option.name}-{n}" for n in range(3)),
    }
    return next(value for value in candidates[option.kind] if value not in taken)


def on_command_line(option: Option, value: object) -> list[str]:
    return [option.flag] if option.kind == "flag" else [f"{option.flag}={value}"]


@pytest.mark.parametrize("option", OPTIONS, ids=IDS)
def test_a_marker_beats_the_command_line_beats_ini_beats_the_default(suite: Suite, option: Option) -> None:
    name = option.name
    on = [] if name == "enabled" else ["--onnxperf"]
    assert shown(suite, *on)[name] == option.default

    in_ini = option.default
    ini = ""
    if option.in_ini:
        in_ini = other_than(option, option.default)
        ini = f"{option.ini} = {str(in_ini).lower()}"
        assert shown(suite, *on, ini=ini)[name] == in_ini
        if option.kind == "flag":  # the command line can only switch it on
            ini = f"{option.ini} = false"
            assert shown(suite, *on, ini=ini)[name] is False

    given = True if option.kind == "flag" else other_than(option, in_ini)
    assert shown(suite, *on, *on_command_line(option, given), ini=ini)[name] == given

    if option.in_marker:
        marked = other_than(option, given)
        marker = f"{name}={marked!r}"
        assert shown(suite, *on, *on_command_line(option, given), ini=ini, marker=marker)[name] == marked


def test_the_marker_sets_what_the_table_says_and_nothing_else(suite: Suite) -> None:
    for option in (option for option in OPTIONS if not option.in_marker):
        suite.module(f"""
            import pytest

            @pytest.mark.onnx_measure({option.name}={other_than(option, option.default)!r})
            def test_it():
                pass
        """)

        result = suite.run("--onnxperf", "-p", "no:terminal", "--junitxml=junit.xml")

        assert result.ret == pytest.ExitCode.TESTS_FAILED, option.name
        text = (suite.path / "junit.xml").read_text("utf-8")
        assert f"`{option.name}`" in text, text


def test_update_implies_enabled(suite: Suite) -> None:
    assert shown(suite, "--onnxperf-update")["enabled"] is True


def test_update_does_not_swallow_the_path_behind_it(suite: Suite) -> None:
    suite.model()
    suite.module(name="test_one.py")
    suite.module(name="test_two.py")

    result = suite.run(*FACTS, "--onnxperf-update", "test_one.py")

    result.assert_outcomes(passed=1)
    assert sorted(suite.baseline("test_one").parent.iterdir()) == [suite.baseline("test_one")]


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest.toml is read from pytest 9 on")
def test_native_toml_types_are_taken_as_they_are(suite: Suite) -> None:
    def toml(option: Option) -> str:
        value = other_than(option, option.default)
        return f"{option.ini} = {json.dumps(value)}"

    rows = [option for option in OPTIONS if option.in_ini]
    suite.module(SHOW.format(marker=""))
    text = "[pytest]\n" + "\n".join(toml(option) for option in rows) + "\n"
    (suite.path / "pytest.toml").write_text(text, encoding="utf-8")

    assert suite.run("-p", "no:terminal").ret == 0

    values = json.loads((suite.path / "values.json").read_text("utf-8"))
    assert {row.name: values[row.name] for row in rows} == {row.name: other_than(row, row.default) for row in rows}


WRONG: Final = {
    "flag": ["maybe"],
    "int": ["many", "-1", "1.5", ""],
    "float": ["much", "-1", "nan", "inf", ""],
    "choice": ["never", "", "NEW"],
    "text": [""],
}
EXPECTED: Final = {
    "flag": "true or false",
    "int": "a whole number >= ",
    "float": "a number >= ",
    "choice": "one of ",
    "text": "a text that is not empty",
}


def usage_error(result: pytest.RunResult) -> str:
    """Return the one line of a usage error."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    lines = [line for line in result.errlines if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        pytest.param(option, value, id=f"{option.name}={value}")
        for option in OPTIONS
        if option.kind != "flag"
        for value in [*WRONG[option.kind], *(["nonsense"] if option.name == "ep" else [])]
    ],
)
def test_a_wrong_value_on_the_command_line_is_a_usage_error_that_names_the_option(
    suite: Suite, option: Option, value: str
) -> None:
    error = usage_error(suite.run("--onnxperf", f"{option.flag}={value}"))

    assert error.startswith(f"ERROR: {option.flag}: expected "), error
    assert error.endswith(f", got {value!r}"), error
    expected = "an execution provider (unknown " if value == "nonsense" else EXPECTED[option.kind]
    assert expected in error, error


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.in_ini], ids=lambda option: option.name)
def test_a_wrong_value_in_the_ini_file_is_a_usage_error_that_names_key_and_file(suite: Suite, option: Option) -> None:
    for value in [value for value in WRONG[option.kind] if value]:
        suite.pytester.makeini(f"[pytest]\n{option.ini} = {value}\n")

        error = usage_error(suite.run(*([] if option.name == "enabled" else ["--onnxperf"])))

        assert error.startswith(f"ERROR: {option.ini} in {suite.path / 'tox.ini'}: expected "), error
        assert EXPECTED[option.kind].replace(" >= ", "") in error, error
        assert value in error.rpartition(":")[2], error


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest.toml is read from pytest 9 on")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tolerance", '"0.1"'),
        ("tolerance", "true"),
        ("tolerance", "-0.5"),
        ("min_rounds", "1.5"),
        ("min_rounds", "0"),
        ("strict", '"yes"'),
        ("ep", "1"),
        ("unverifiable", "true"),
        ("enabled", "1"),
    ],
)
def test_a_wrong_type_in_toml_is_a_usage_error_that_names_key_and_file(suite: Suite, key: str, value: str) -> None:
    (suite.path / "pytest.toml").write_text(f"[pytest]\nonnxperf_{key} = {value}\n", encoding="utf-8")

    error = usage_error(suite.run(*([] if key == "enabled" else ["--onnxperf"])))

    assert error.startswith(f"ERROR: onnxperf_{key} in {suite.path / 'pytest.toml'}: expected "), error


def test_a_flag_takes_no_value(suite: Suite) -> None:
    result = suite.run("--onnxperf-update=all")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--onnxperf-update: ignored explicit argument 'all'*"])


def test_an_unknown_execution_provider_gets_the_closest_name(suite: Suite) -> None:
    error = usage_error(suite.run("--onnxperf", "--onnxperf-ep=cudaa"))

    assert "did you mean `cuda`?" in error


def test_the_runtimes_own_name_of_a_provider_is_understood(suite: Suite) -> None:
    assert shown(suite, "--onnxperf", "--onnxperf-ep=CPUExecutionProvider")["ep"] == "CPUExecutionProvider"
    assert shown(suite, "--onnxperf", "--onnxperf-ep=CPU")["ep"] == "CPU"


def test_a_wrong_option_does_not_matter_to_a_session_that_measures_nothing(suite: Suite) -> None:
    suite.module("def test_other(): pass")

    suite.run("--onnxperf-tolerance=much").assert_outcomes(passed=1)


def test_help_lists_every_option_and_key_and_fits_into_80_columns(suite: Suite) -> None:
    result = suite.run("--help")

    lines = result.outlines
    begin = lines.index("performance regression tests of ONNX models (pytest-onnxperf):")
    ours = lines[begin : begin + lines[begin:].index("")]
    for option in OPTIONS:
        assert any(re.match(rf"  {option.flag}( |=|$)", line) for line in ours), option.flag
        if option.in_ini:
            kind = {"flag": "bool", "int": "int", "float": "float"}.get(option.kind, "string")
            place = next(i for i, line in enumerate(lines) if line.startswith(f"  {option.ini} ({kind}):"))
            text = " ".join(lines[place : place + 5])
            assert all(choice in text for choice in option.choices), text
    assert [line for line in ours if len(line) > 80] == []
    result.stdout.fnmatch_lines(
        [
            "performance regression tests of ONNX models (pytest-onnxperf):",
            "  --onnxperf            Run and judge the tests that measure ONNX models;",
            "                        without it they are skipped",
            "  --onnxperf-update     Record baselines: run like --onnxperf and rewrite the",
            "                        baselines of the tests that pass",
            "  --onnxperf-tolerance=RATIO",
            "                        Ratio by which a metric may be worse than its baseline,",
            "                        0.05 is 5 % (default: 0.05)",
        ]
    )


def test_markers_are_listed_with_every_key(suite: Suite) -> None:
    lines = suite.run("--markers").outlines

    budget = next(line for line in lines if line.startswith("@pytest.mark.onnx_budget("))
    assert budget.startswith("@pytest.mark.onnx_budget(*, on=None, **limits): limits for what the test measures")
    assert all(key.name in budget for key in KEYS)
    measure = next(line for line in lines if line.startswith("@pytest.mark.onnx_measure("))
    keys = measure.rsplit("Keys: ", 1)[1].split(", ")
    assert keys == [option.name for option in OPTIONS if option.in_marker]


def test_both_markers_are_known_under_strict_markers_with_and_without_the_flag(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_memcpy=0)
        @pytest.mark.onnx_measure(timing="off")
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    suite.run("--strict-markers", "--strict-config").assert_outcomes(skipped=1)
    suite.run("--strict-markers", "--strict-config", *FACTS).assert_outcomes(passed=1)


def test_a_baseline_directory_is_taken_from_the_root_or_absolute(
    suite: Suite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suite.model()
    suite.module(MEASURE)
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    suite.run(*FACTS, "--onnxperf-update", "--onnxperf-baseline-dir=ci/bl").assert_outcomes(passed=1)
    suite.run(*FACTS, "--onnxperf-update", f"--onnxperf-baseline-dir={elsewhere}").assert_outcomes(passed=1)

    assert (suite.path / "ci" / "bl" / "bench-1.cpu" / "test_perf.json").is_file()
    assert (elsewhere / "bench-1.cpu" / "test_perf.json").is_file()


def test_the_name_of_the_device_makes_the_environment_key(suite: Suite) -> None:
    suite.model()
    suite.module(MEASURE)

    suite.run(*FACTS, "--onnxperf-update", "--onnxperf-device=Our runner (8 cores)").assert_outcomes(passed=1)

    assert suite.entries(key="our-runner-8-cores.cpu")


@pytest.mark.parametrize(
    "arguments",
    [["--onnxperf-json=r.json"], ["--onnxperf-html", "r.html"], ["--onnxperf-markdown=r.md"], ["--onnxperf-explain"],
     ["--onnxperf-against=HEAD"], ["--onnxperf-durations=3"]],
)  # fmt: skip
def test_what_judges_or_shows_is_refused_where_nothing_is_measured(suite: Suite, arguments: list[str]) -> None:
    suite.module(MEASURE)

    result = suite.run(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    flag = arguments[0].partition("=")[0]
    result.stderr.fnmatch_lines([f"ERROR: {flag}: nothing is measured without --onnxperf, give it too"])


def test_an_option_in_the_ini_file_is_no_fault_of_a_session_that_measures_nothing(suite: Suite) -> None:
    suite.module(MEASURE)
    (suite.path / "pytest.ini").write_text("[pytest]\naddopts = --onnxperf-json=r.json\nonnxperf_html = r.html\n")

    suite.run().assert_outcomes(skipped=1)
    assert not [*suite.path.glob("r.*")]
