"""The pipeline `hf` of a matrix beside the others, on the real PyTorch; and what is said where there is none."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from tests import genai_models, hf_models
from tests.plugin.suite import ON, section

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.suite import Suite

QUICK: Final = (
    *ON,
    "--onnxperf-max-time=0",
    "--onnxperf-min-rounds=2",
    "--onnxperf-profile-runs=1",
    "--onnxperf-threads=1",
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hf_models.llama_apart(tmp_path_factory.mktemp("hf") / "llama")


@pytest.mark.needs_hf
@pytest.mark.needs_genai
def test_a_generator_is_compared_with_transformers_by_the_same_metrics(suite: Suite, llama: Path) -> None:
    genai_models.decoder(suite.path / "genai")
    shutil.copytree(llama, suite.path / "llama")
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(
            model={"genai": "genai", "hf": "llama"}, pipeline=["genai", "hf"], prompt_tokens=[20], batch_size=[2],
            cache=["static", "dynamic"], reference={"pipeline": "hf"},
        )
        def test_decoder(onnx_cell):
            record = onnx_cell.measure(new_tokens=6)
            assert {"ttft", "prefill_throughput", "decode_throughput", "itl_p50", "load"} <= set(record.metrics)
            assert len(record.generations[0][0].gaps_ns) == 5
            if onnx_cell.pipeline == "hf":
                assert record.environment.execution_provider == "PyTorch-CPU"
                assert {"torch", "transformers", "python"} <= set(record.environment.versions)
                assert record.options == {"cache": onnx_cell["cache"], "dtype": "float32"}
                assert record.not_measured["facts"] == "PyTorch ran it: there is no ONNX Runtime profile"
    """)
    result = suite.run_apart(*QUICK)
    result.assert_outcomes(passed=4)
    lines = section(result, "onnxperf matrix")
    cells = [line.split() for line in lines if line.startswith(("genai-", "hf-"))]
    rows = {cell[0]: cell[1:] for cell in cells if cell[-1].endswith(("x", "ref"))}
    assert list(rows) == [f"{name}-p20-b2-{cache}" for name in ("genai", "hf") for cache in ("static", "dynamic")]
    assert all(each.endswith("x") for each in rows["genai-p20-b2-static"][1::2])
    assert rows["hf-p20-b2-static"][1::2] == ["ref", "ref", "ref"]
    assert "MIXES BUILDS" not in result.stdout.str()
    (hf,) = [
        line
        for line in section(result, "onnxperf")
        if line.startswith("test_decoder[hf-p20-b2-static]") and "?" in line
    ]
    assert hf.endswith("  memcpy ?   no-baseline")


@pytest.mark.needs_hf
def test_the_reference_has_baselines_of_its_own_and_passes_against_them(suite: Suite, llama: Path) -> None:
    shutil.copytree(llama, suite.path / "llama")
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="llama", pipeline=["hf"], dtype=["bf16"], prompt_tokens=[20])
        def test_decoder(onnx_cell):
            assert onnx_cell.measure(new_tokens=6).options["dtype"] == "bfloat16"
    """)
    arguments = (*QUICK, "--onnxperf-tolerance=1000", "--onnxperf-baseline-processes=2")
    suite.run_apart(*arguments, "--onnxperf-update", "--onnxperf-update-force").assert_outcomes(passed=1)
    entry = suite.entries(key="bench-1.pytorch-cpu")["test_decoder[bf16-hf-p20]"]
    assert "facts" not in entry
    suite.run_apart(*arguments).assert_outcomes(passed=1)


@pytest.mark.needs_hf
def test_in_the_tests_own_process_it_is_the_same(suite: Suite, llama: Path) -> None:
    shutil.copytree(llama, suite.path / "llama")
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="llama", pipeline=["hf"], prompt_tokens=[20])
        def test_decoder(onnx_cell):
            assert "ttft" in onnx_cell.measure(new_tokens=6, rounds=1).metrics
    """)
    suite.run_apart(*QUICK, "--onnxperf-isolation=none").assert_outcomes(passed=1)


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is there")
def test_without_pytorch_the_extra_is_named(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="llama", pipeline=["hf"], prompt_tokens=[20])
        def test_decoder(onnx_cell):
            onnx_cell.measure(new_tokens=6)
    """)
    (suite.path / "llama").mkdir()
    (suite.path / "llama" / "config.json").write_text("{}", "utf-8")
    (suite.path / "llama" / "model.safetensors").write_bytes(b"weights")
    result = suite.run_apart(*QUICK)
    result.assert_outcomes(failed=1)
    text = " ".join(" ".join(section(result, "test_decoder[hf-p20]")).split())
    assert "the pipeline `hf` needs torch and transformers, and " in text
    assert "is missing: pip install 'pytest-onnxperf[hf]'" in text


def test_a_directory_that_is_none_of_transformers_gets_one_message(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="nowhere", pipeline=["hf"], prompt_tokens=[20])
        def test_decoder(onnx_cell):
            onnx_cell.measure(new_tokens=6)
    """)
    result = suite.run(*QUICK)
    result.assert_outcomes(failed=1)
    text = " ".join(" ".join(section(result, "test_decoder[hf-p20]")).split())
    assert "config.json cannot be read: " in text
    assert text.endswith("a directory of transformers is wanted")


def test_an_ep_that_pytorch_has_no_device_for_is_skipped_where_it_runs_and_where_it_does_not(suite: Suite) -> None:
    suite.module("""
        import pytest

        @pytest.mark.onnx_matrix(model="nowhere", pipeline=["hf"], ep=["webgpu"], prompt_tokens=[20])
        def test_decoder(onnx_cell):
            onnx_cell.measure(new_tokens=6)
    """)
    result = suite.run("--onnxperf", "-rs")
    result.assert_outcomes(skipped=1)
