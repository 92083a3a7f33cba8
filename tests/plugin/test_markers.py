"""The markers `onnx_budget` and `onnx_measure`: what a wrong one says, and how several combine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.plugin.suite import ON, QUICK, section

if TYPE_CHECKING:
    from tests.plugin.suite import Suite


def setup_error(suite: Suite, source: str) -> str:
    """Run one test whose marker is wrong and return what is said."""
    suite.module(source)
    result = suite.run(*ON, "--no-header")  # and so without a look at the runtime
    result.assert_outcomes(errors=1)
    titles = [line for line in result.outlines if line.startswith("_") and "ERROR at setup of" in line]
    assert len(titles) == 1, result.stdout.str()
    text = "\n".join(section(result, titles[0].strip("_ ")))
    assert "Traceback" not in text
    return text


WRONG: Final = [
    ("max_memcopy=0", "unknown key `max_memcopy`, did you mean `max_memcpy`?"),
    ("latency=3", "unknown key `latency`, did you mean `max_latency_ms`?"),
    ("zzz=1", "unknown key `zzz`, known: max_memcpy, "),
    ("max_memcpy='0'", "`max_memcpy`: expected a whole number >= 0, got '0'"),
    ("max_memcpy=1.5", "`max_memcpy`: expected a whole number >= 0, got 1.5"),
    ("max_memcpy=True", "`max_memcpy`: expected a whole number >= 0, got True"),
    ("max_memcpy=None", "`max_memcpy`: expected a whole number >= 0, got None"),
    ("max_memcpy=-1", "`max_memcpy`: expected a whole number >= 0, got -1"),
    ("max_memcpy_share=1.5", "`max_memcpy_share`: expected a ratio between 0 and 1, got 1.5"),
    ("max_memcpy_share=-0.1", "`max_memcpy_share`: expected a ratio >= 0, 0.05 for 5 %, got -0.1"),
    ("max_latency_ms=0", "`max_latency_ms`: expected a number of ms above 0, got 0"),
    ("max_latency_ms=-2", "`max_latency_ms`: expected a number of ms above 0, got -2"),
    ("max_latency_ms=float('nan')", "`max_latency_ms`: expected a number of ms above 0, got nan"),
    ("max_latency_ms='12ms'", "`max_latency_ms`: expected a number of ms above 0, got '12ms'"),
    ("max_regression=-0.1", "`max_regression`: expected a ratio >= 0, 0.05 for 5 %, got -0.1"),
    ("require_ops=3", "`require_ops`: expected an op type or a set of them, got 3"),
    ("require_ops=set()", "`require_ops`: expected an op type or a set of them, got set()"),
    ("require_ops={1}", "`require_ops`: expected op types as strings, got {1}"),
    ("on=0", '`on`: expected an EP or a device pattern, "cuda" or "*h200*", got 0'),
    ("on=''", '`on`: expected an EP or a device pattern, "cuda" or "*h200*", got \'\''),
    ("3", "takes keyword arguments only, got 3"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[arguments for arguments, _ in WRONG])
def test_a_wrong_budget_fails_its_test_in_setup_with_the_place_and_the_closest_name(
    suite: Suite, arguments: str, message: str
) -> None:
    text = setup_error(
        suite,
        f"""
        import pytest

        @pytest.mark.onnx_budget({arguments})
        def test_mlp(onnx_session):
            pass
        """,
    )

    assert text.startswith("@pytest.mark.onnx_budget at test_perf.py:3: "), text
    assert message in text, text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("warmup=3", "unknown key `warmup`, did you mean `warmup_rounds`?"),
        ("zzz=3", "unknown key `zzz`, known: ep, tolerance, "),
        ("min_rounds=0", "`min_rounds`: expected a whole number >= 1, got 0"),
        ("min_rounds=1.5", "`min_rounds`: expected a whole number >= 1, got 1.5"),
        ("min_rounds=True", "`min_rounds`: expected a whole number >= 1, got True"),
        ("min_rounds=10**400", "`min_rounds`: expected a whole number >= 1, got 1000"),
        ("max_time=-1", "`max_time`: expected a number >= 0, got -1"),
        ("timing=True", "`timing`: expected one of on, off, got True"),
        ("unverifiable=[]", "`unverifiable`: expected one of fail, skip, pass, got []"),
        (
            "ep='cudaa'",
            "`ep`: expected an execution provider (unknown execution provider 'cudaa', did you mean `cuda`?",
        ),
        ("ep=3", "`ep`: expected a text that is not empty, got 3"),
        ("'off'", "takes keyword arguments only, got 'off'"),
    ],
)
def test_a_wrong_option_of_a_test_fails_it_in_setup_with_the_place(suite: Suite, arguments: str, message: str) -> None:
    text = setup_error(
        suite,
        f"""
        import pytest

        @pytest.mark.onnx_measure({arguments})
        def test_mlp(onnx_session):
            pass
        """,
    )

    assert text.startswith("@pytest.mark.onnx_measure at test_perf.py:3: "), text
    assert message in text, text


def test_an_option_that_no_marker_sets_is_said_to_be_one(suite: Suite) -> None:
    text = setup_error(
        suite,
        """
        import pytest

        @pytest.mark.onnx_measure(strict=True)
        def test_mlp(onnx_session):
            pass
        """,
    )

    assert "`strict` is set for the whole session only: --onnxperf-strict, or onnxperf_strict" in text


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param(
            """
            import pytest
            pytestmark = pytest.mark.onnx_budget(max_memcpy=-1)

            def test_mlp(onnx_session):
                pass
            """,
            "of test_perf.py",
            id="module",
        ),
        pytest.param(
            """
            import pytest

            @pytest.mark.onnx_budget(max_memcpy=-1)
            class TestModels:
                def test_mlp(self, onnx_session):
                    pass
            """,
            "of test_perf.py::TestModels",
            id="class",
        ),
        pytest.param(
            """
            import pytest

            @pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.onnx_budget(max_memcpy=-1))])
            def test_mlp(onnx_session, batch):
                pass
            """,
            "of the parameter at test_perf.py:3",
            id="parameter",
        ),
    ],
)
def test_the_place_of_a_wrong_marker_is_that_of_the_marker(suite: Suite, source: str, place: str) -> None:
    assert setup_error(suite, source).startswith(f"@pytest.mark.onnx_budget {place}: `max_memcpy`: expected")


def test_a_wrong_marker_on_one_parameter_fails_that_test_alone(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.onnx_budget(max_memcpyy=0))])
        def test_mlp(onnx_session, batch):
            onnx_session("mlp.onnx").measure(shapes={"batch": batch})
    """)

    suite.run(*QUICK).assert_outcomes(passed=1, errors=1)


# Writes the budgets of each test, as the plugin merged them.
SHOW: Final = """
import json
import pytest
from pytest_onnxperf.session import BUDGETS, SETTINGS

@pytest.fixture(autouse=True)
def _show(request):
    budgets = request.node.stash[BUDGETS]
    shown = {budget.on: {name: budget.limits[name] for name in sorted(budget.limits)} for budget in budgets}
    with open("budgets.json", "a") as file:
        settings = request.node.stash[SETTINGS]
        file.write(json.dumps([request.node.name, shown, settings.min_rounds, settings.max_time]) + "\\n")
"""


def merged(suite: Suite, source: str) -> dict[str, tuple[dict[str, Any], int, float]]:
    """Return test name -> merged budgets by `on`, rounds, seconds."""
    suite.module(SHOW, "conftest.py")
    suite.module(source)
    assert suite.run("--onnxperf", "-p", "no:terminal").ret in (0, 1)
    lines = (suite.path / "budgets.json").read_text("utf-8").splitlines()
    return {name: (budgets, rounds, seconds) for name, budgets, rounds, seconds in map(json.loads, lines)}


def test_the_nearest_marker_wins_for_each_key(suite: Suite) -> None:
    tests = merged(
        suite,
        """
        import pytest

        pytestmark = [
            pytest.mark.onnx_budget(max_memcpy=1, max_nodes=10, max_cpu_nodes=100, max_load_ms=1000, max_p90_ms=1e4),
            pytest.mark.onnx_measure(min_rounds=11, max_time=11),
        ]

        @pytest.mark.onnx_budget(max_memcpy=2, max_nodes=20, max_cpu_nodes=200, max_load_ms=2000)
        class TestOuter:
            @pytest.mark.onnx_budget(max_memcpy=3, max_nodes=30, max_cpu_nodes=300)
            @pytest.mark.onnx_measure(min_rounds=33)
            class TestInner:
                @pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.onnx_budget(max_memcpy=6))])
                @pytest.mark.onnx_budget(max_memcpy=5)
                @pytest.mark.onnx_budget(max_memcpy=4, max_nodes=40)
                def test_it(self, n):
                    pass

        def test_module():
            pass
        """,
    )

    limits = {"max_cpu_nodes": 300, "max_load_ms": 2000, "max_memcpy": 4, "max_nodes": 40, "max_p90_ms": 1e4}
    assert tests["test_it[0]"] == ({"": limits}, 33, 11)
    assert tests["test_it[1]"] == ({"": {**limits, "max_memcpy": 6}}, 33, 11)
    assert tests["test_module"][0][""]["max_memcpy"] == 1


def test_markers_of_different_devices_stand_side_by_side(suite: Suite) -> None:
    tests = merged(
        suite,
        """
        import pytest

        pytestmark = pytest.mark.onnx_budget(on="cuda", max_latency_ms=1, max_memcpy=1)

        @pytest.mark.onnx_budget(max_memcpy=0)
        @pytest.mark.onnx_budget(on="cuda", max_latency_ms=2)
        @pytest.mark.onnx_budget(on="*h200*", max_latency_ms=3)
        def test_it():
            pass
        """,
    )

    assert tests["test_it"][0] == {
        "": {"max_memcpy": 0},
        "cuda": {"max_latency_ms": 2, "max_memcpy": 1},
        "*h200*": {"max_latency_ms": 3},
    }


def test_what_belongs_to_another_device_is_said_not_to_be_applicable_and_judges_nothing(suite: Suite) -> None:
    suite.model()
    suite.module("""
        import pytest

        @pytest.mark.onnx_budget(max_nodes=1, on="cuda")
        @pytest.mark.onnx_budget(max_nodes=1, on="*h200*")
        @pytest.mark.onnx_budget(max_nodes=9, on="CPU")
        @pytest.mark.onnx_budget(max_nodes=9, on="bench*")
        def test_mlp(onnx_session):
            onnx_session("mlp.onnx").measure(shapes={"batch": 1})
    """)

    result = suite.run(*QUICK)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "1 measurement; budgets: 2 held; *",
            "1 budget on='[*]h200[*]' not applicable: measured on bench-1.cpu",
            "1 budget on='cuda' not applicable: measured on bench-1.cpu",
        ]
    )


def test_no_two_tests_share_what_a_marker_holds(suite: Suite) -> None:
    """A set in a marker of a module is seen by every test of it; nothing may change it."""
    tests = merged(
        suite,
        """
        import pytest

        ops = pytest.mark.onnx_budget(max_memcpy=0)

        @ops
        @pytest.mark.onnx_budget(max_nodes=1)
        def test_one():
            pass

        @ops
        def test_two():
            pass
        """,
    )

    assert tests["test_one"][0] == {"": {"max_memcpy": 0, "max_nodes": 1}}
    assert tests["test_two"][0] == {"": {"max_memcpy": 0}}
