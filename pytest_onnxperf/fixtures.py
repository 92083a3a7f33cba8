"""The fixtures. Each imports the runtime side in its body: a session that uses none of them must not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .state import session_of

if TYPE_CHECKING:
    from .compare_bench import CompareBench
    from .compare_handles import GenaiComparer, OnnxComparer
    from .generator_handles import GenaiGenerators
    from .handles import OnnxSessions
    from .matrix_handles import OnnxCell
    from .session import ActiveSession
    from .workbench import Workbench


@pytest.fixture
def onnx_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OnnxSessions:
    """Open ONNX models for measuring: `onnx_session("models/encoder.onnx").measure(shapes={"batch": 1})`.

    Call it with the model's path, relative to the working directory, and, by keyword:

    - `ep`: the execution provider that this session demands, such as `"cuda"`; else that of the options
    - `provider_options`: options of the EP, `{"device_id": 1}`
    - `session_options`: fields of `onnxruntime.SessionOptions` and configuration entries,
      `{"graph_optimization_level": "basic", "session.disable_prepacking": "1"}`
    - `free_dimensions`: symbolic dimensions that are fixed when the session is created, `{"batch": 1}`
    - `bind`: True keeps inputs and outputs on the device (IOBinding)
    - `custom_op_libraries`: paths of shared libraries with custom operators
    - `label`: a name, where one test measures several sessions

    The handle it returns has

    - `measure(feeds)` or `measure(shapes={"batch": 1, "seq": 128})`: measures in fresh processes; budget and baseline
      are judged when the test ends
    - `run(feeds)`: runs a warmed-up session in the test's own process and returns its outputs;
      `benchmark(session.run, feeds)`, with pytest-benchmark, lets budgets judge its timing
    - `inference_session`: that session

    Example:
        def test_encoder(onnx_session):
            onnx_session("models/encoder.onnx").measure(shapes={"batch": 1, "seq": 128})
    """
    from .handles import OnnxSessions

    bench = _bench(request, tmp_path_factory)
    if "benchmark" in request.fixturenames:
        from .benchmark import watch

        watch(request.getfixturevalue("benchmark"), bench)
    return OnnxSessions(bench)


@pytest.fixture
def genai_generator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GenaiGenerators:
    """Open ONNX Runtime GenAI models for measuring: `genai_generator("models/gemma").measure(prompt_tokens=500, ...)`.

    Call it with the model's directory, relative to the working directory, and, by keyword:

    - `ep`: the execution provider that this generator demands; else that of the options, or of the model's own
      genai_config.json
    - `provider_options`: options of the EP
    - `overlay`: laid over genai_config.json, `{"search": {"chunk_size": 256}}`
    - `label`: a name, where one test measures several generators

    The handle it returns has

    - `measure(new_tokens=64, prompt_tokens=500)`, or with `prompt="..."`, or with `tokens=[...]`: measures in fresh
      processes; budget and baseline are judged when the test ends
    - `generate(prompt, new_tokens=64)`: generates in the test's own process, warmed up
    - `model`, `tokenizer`: the live objects of onnxruntime_genai

    Example:
        @pytest.mark.onnx_budget(max_ttft_ms=90, min_decode_tok_s=60, decode={"max_memcpy": 1})
        def test_decoder(genai_generator):
            genai_generator("models/gemma").measure(prompt_tokens=500, new_tokens=64)
    """
    from .generator_handles import GenaiGenerators

    return GenaiGenerators(_bench(request, tmp_path_factory))


@pytest.fixture
def onnx_compare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OnnxComparer:
    """Compare two ONNX models in turn: `onnx_compare("old.onnx", "new.onnx", shapes={...}).require(min_speedup=1.5)`.

    Both are opened in one process, fed with the same values and timed in turn, in random order within each pair. No
    baseline is needed, and none is written. Call it with the paths of the reference and the candidate and, by keyword:

    - `shapes={"batch": 1}`, with `ranges`, or `feeds={...}`: as for `onnx_session(...).measure`
    - `ep`, `provider_options`, `attention_backend`, `session_options`, `free_dimensions`, `custom_op_libraries`: of
      both, as for `onnx_session`
    - `reference_options`, `candidate_options`: the same as dicts, of one of them alone; the two models may be one file
    - `rtol`, `atol`: tolerances of the outputs, which are compared by name; `check_outputs=False` leaves that out
    - `label`: a name, where one test compares several times

    The result has `speedup`, `low`, `high` (above 1 the candidate is faster), `reference` and `candidate` with facts
    and metrics, `outputs`, and

    - `require(min_speedup=1.5)`, `require(max_slowdown=1.02)`: fails the test where that does not hold, where the
      outputs differ, or where it cannot be told

    Example:
        def test_fused_attention_pays(onnx_compare):
            shapes = {"batch": 1, "seq": 512}
            onnx_compare("models/unfused.onnx", "models/gqa.onnx", shapes=shapes).require(min_speedup=1.5)
    """
    from .compare_handles import OnnxComparer

    return OnnxComparer(_compare_bench(request, tmp_path_factory, "onnx_compare"))


@pytest.fixture
def genai_compare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GenaiComparer:
    """Compare two GenAI models in turn: `genai_compare("a", "b", prompt_tokens=500, new_tokens=64).require(...)`.

    Both are loaded in one process and generate from one prompt in turn, in random order within each pair. No baseline
    is needed, and none is written. Call it with the directories of the reference and the candidate and, by keyword:

    - `new_tokens`, `prompt_tokens` or `prompt` or `tokens`, `batch_size`, search options: as for
      `genai_generator(...).measure`
    - `ep`, `provider_options`, `attention_backend`, `overlay`, `share_buffer`: of both
    - `reference_options`, `candidate_options`: the same as dicts, of one of them alone; the two may be one directory
    - `rtol`, `atol`: tolerances of the logits, which are compared before each token for as long as both choose the
      same ones; `check_outputs=False` leaves that out
    - `label`: a name, where one test compares several times

    The result is that of `onnx_compare`. `speedup` is that of a whole generation; `speedup_of("ttft")` and
    `speedup_of("decode_throughput")` are those of its parts, and `require(..., metric="ttft")` asks it of one of them.

    Example:
        def test_int4_pays(genai_compare):
            result = genai_compare("models/f16", "models/int4", prompt_tokens=500, new_tokens=64, check_outputs=False)
            result.require(min_speedup=1.5, metric="decode_throughput")
    """
    from .compare_handles import GenaiComparer

    return GenaiComparer(_compare_bench(request, tmp_path_factory, "genai_compare"))


def _compare_bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, function: str
) -> CompareBench:
    active = _active(request)
    from .compare_bench import CompareBench

    return CompareBench(active, request.node, lambda: tmp_path_factory.mktemp("onnxperf"), function)


@pytest.fixture
def onnx_cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OnnxCell:
    """Measure one cell of `@pytest.mark.onnx_matrix(...)`, whose every cell is a test with a speaking id.

    A list, or a dict of name -> value, makes a dimension; a single value holds for all cells. Known dimensions:

    - `model`: paths; a name in braces, `"models/gemma-{dtype}"`, is filled in; a dict of pipeline -> path is one model
    - `dtype`: names, `["f16", "int4"]`
    - `pipeline`: `session` (ONNX Runtime), `genai` (ONNX Runtime GenAI), `hf` (transformers on PyTorch)
    - `ep`: execution providers
    - `prompt_tokens`, `batch_size`, `new_tokens`: numbers
    - `cache`: `static` (its full length from the start, a shared buffer in GenAI) or `dynamic`; or `share_buffer`

    Any other is the test's own. `reference={"pipeline": "hf"}` names the cell that each is compared with: it has these
    coordinates, and those of the cell in the rest. `exclude=[{"pipeline": "hf", "dtype": "int4"}]` leaves cells out.
    The summary, and `onnxperf matrix`, show a table for each model.

    The cell has

    - `measure(new_tokens=64)`: measures what its pipeline measures, with the values of the cell; what else the pipeline
      takes goes by keyword, `shapes={"batch": onnx_cell["batch_size"]}`, and for opening in `options={...}`
    - `onnx_cell["padding"]`: the value of a dimension; `id`, `path`, `pipeline`

    Example:
        @pytest.mark.onnx_matrix(
            model="models/gemma-{dtype}", dtype=["f16", "int4"], prompt_tokens=[20, 500], reference={"dtype": "f16"}
        )
        def test_decoder(onnx_cell):
            onnx_cell.measure(new_tokens=64)
    """
    bench = _bench(request, tmp_path_factory)
    from .matrix_handles import OnnxCell

    return OnnxCell(bench, request.param)


def _bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    active = _active(request)
    from .workbench import Workbench

    return Workbench(active, request.node, lambda: tmp_path_factory.mktemp("onnxperf"))


def _active(request: pytest.FixtureRequest) -> ActiveSession:
    active = session_of(request.config)
    if active is None:
        pytest.skip("needs --onnxperf")
    return active
