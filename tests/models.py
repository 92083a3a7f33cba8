"""Small real ONNX models, written by the tests that use them.

Every function writes one model to `path` and returns `path`; the weights are seeded, so the same options give the same
bytes. All load in onnxruntime 1.20 (IR 8 to 10, opset 17 to 21) but `opset24` and the newest types of `every_type`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Dims = Sequence[int | str | None]

MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64


class _Graph:
    """Collects a graph; `node` returns the name of its output, so that calls read like expressions."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def input(self, name: str, element_type: int, dims: Dims) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element_type, dims))
        return name

    def output(self, name: str, element_type: int, dims: Dims | None = None) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, element_type, dims))

    def constant(self, name: str, value: object, dtype: type[np.generic] = np.int64) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Add seeded weights that keep the variance of what they are multiplied with."""
        values: NDArray[Any] = self._generator.standard_normal(shape) / math.sqrt(shape[-2] if len(shape) > 1 else 1)
        return self.constant(name, values, np.float32)

    def node(self, op_type: str, *inputs: str, out: str, domain: str = "", **attributes: Any) -> str:
        self.add(op_type, inputs, [out], domain=domain, **attributes)
        return out

    def add(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        name = f"{outputs[0]}/{op_type}"
        self.nodes.append(helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes))

    def proto(self, name: str = "main") -> onnx.GraphProto:
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)

    def model(self, *, opset: int = 17, ir_version: int = 8, **other_opsets: int) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        opsets += [helper.make_opsetid(domain.replace("_", "."), number) for domain, number in other_opsets.items()]
        return helper.make_model(self.proto(), opset_imports=opsets, ir_version=ir_version, producer_name="tests")


def _write(path: Path, model: onnx.ModelProto) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def mlp(path: Path, *, width: int = 32, layers: int = 2, seed: int = 0) -> Path:
    """x [batch, width] -> y: layers of MatMul, Add, Relu."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    for layer in range(layers):
        value = graph.node("MatMul", value, graph.weight(f"w{layer}", width, width), out=f"product{layer}")
        value = graph.node("Add", value, graph.weight(f"b{layer}", width), out=f"sum{layer}")
        value = graph.node("Relu", value, out="y" if layer == layers - 1 else f"hidden{layer}")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def transformer_block(
    path: Path,
    *,
    layers: int = 1,
    heads: int = 4,
    kv_heads: int = 2,
    head_size: int = 16,
    vocabulary: int = 64,
    seed: int = 0,
) -> Path:
    """A decoder: embedding, `layers` of LayerNormalization, GroupQueryAttention with KV cache and an MLP, then logits.

    input_ids [batch, seq], attention_mask [batch, total], past_key_values.N.key and .value [batch, kv_heads, past,
    head_size] -> logits, present.N.key and .value. `total` is `past` + `seq`; the lengths that the attention needs are
    computed from the mask, as exporters do it.
    """
    hidden, kv_hidden = heads * head_size, kv_heads * head_size
    graph = _Graph(seed)
    ids = graph.input("input_ids", INT64, ["batch", "seq"])
    mask = graph.input("attention_mask", INT64, ["batch", "total"])
    tokens = graph.node("ReduceSum", mask, graph.constant("axis_1", [1]), out="tokens", keepdims=0)
    last = graph.node("Sub", tokens, graph.constant("one", 1), out="last_position")
    lengths = graph.node("Cast", last, out="seqlens_k", to=TensorProto.INT32)
    shape = graph.node("Shape", mask, out="mask_shape")
    total = graph.node("Gather", shape, graph.constant("index_1", 1), out="mask_length")
    total = graph.node("Cast", total, out="total_sequence_length", to=TensorProto.INT32)
    value = graph.node("Gather", graph.weight("embedding", vocabulary, hidden), ids, out="embedded")
    for layer in range(layers):
        prefix = f"layer{layer}"
        normal = _layer_norm(graph, value, hidden, f"{prefix}/norm1")
        query = graph.node("MatMul", normal, graph.weight(f"{prefix}/wq", hidden, hidden), out=f"{prefix}/q")
        key = graph.node("MatMul", normal, graph.weight(f"{prefix}/wk", hidden, kv_hidden), out=f"{prefix}/k")
        content = graph.node("MatMul", normal, graph.weight(f"{prefix}/wv", hidden, kv_hidden), out=f"{prefix}/v")
        cache = [
            graph.input(f"past_key_values.{layer}.{kind}", FLOAT, ["batch", kv_heads, "past", head_size])
            for kind in ("key", "value")
        ]
        present = [f"present.{layer}.key", f"present.{layer}.value"]
        graph.add(
            "GroupQueryAttention",
            [query, key, content, *cache, lengths, total],
            [f"{prefix}/attention", *present],
            domain=MICROSOFT,
            num_heads=heads,
            kv_num_heads=kv_heads,
        )
        projection = graph.weight(f"{prefix}/wo", hidden, hidden)
        attended = graph.node("MatMul", f"{prefix}/attention", projection, out=f"{prefix}/projected")
        value = graph.node("Add", value, attended, out=f"{prefix}/residual1")
        normal = _layer_norm(graph, value, hidden, f"{prefix}/norm2")
        wide = graph.node("MatMul", normal, graph.weight(f"{prefix}/up", hidden, 4 * hidden), out=f"{prefix}/wide")
        wide = graph.node("Tanh", wide, out=f"{prefix}/activated")
        narrow = graph.node("MatMul", wide, graph.weight(f"{prefix}/down", 4 * hidden, hidden), out=f"{prefix}/narrow")
        value = graph.node("Add", value, narrow, out=f"{prefix}/residual2")
        for name in present:
            graph.output(name, FLOAT, ["batch", kv_heads, "total", head_size])
    value = _layer_norm(graph, value, hidden, "norm")
    graph.node("MatMul", value, graph.weight("head", hidden, vocabulary), out="logits")
    graph.output("logits", FLOAT, ["batch", "seq", vocabulary])
    return _write(path, graph.model())


def _layer_norm(graph: _Graph, value: str, width: int, name: str) -> str:
    scale = graph.constant(f"{name}/scale", np.ones(width), np.float32)
    bias = graph.constant(f"{name}/bias", np.zeros(width), np.float32)
    return graph.node("LayerNormalization", value, scale, bias, out=name, axis=-1)


def convnet(path: Path, *, size: int = 16, channels: int = 8, seed: int = 0) -> Path:
    """image [batch, 3, size, size] -> scores [batch, 10]: two of Conv, Relu, MaxPool, then GlobalAveragePool, Gemm."""
    graph = _Graph(seed)
    value = graph.input("image", FLOAT, ["batch", 3, size, size])
    width = 3
    for layer in range(2):
        kernel = graph.weight(f"kernel{layer}", channels, width, 3, 3)
        value = graph.node("Conv", value, kernel, out=f"conv{layer}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        value = graph.node("Relu", value, out=f"relu{layer}")
        value = graph.node("MaxPool", value, out=f"pool{layer}", kernel_shape=[2, 2], strides=[2, 2])
        width = channels
    value = graph.node("GlobalAveragePool", value, out="pooled")
    value = graph.node("Flatten", value, out="features")
    graph.node("Gemm", value, graph.weight("classes", channels, 10), graph.weight("bias", 10), out="scores")
    graph.output("scores", FLOAT, ["batch", 10])
    return _write(path, graph.model())


def cpu_island(path: Path, *, size: int = 16, seed: int = 0) -> Path:
    """x [batch, size, size] -> y: Det, which only the CPU has, between MatMul and Mul, which every device has.

    On a device that is one MemcpyToHost and one MemcpyFromHost a run.
    """
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", size, size])
    value = graph.node("MatMul", value, graph.weight("w", size, size), out="product")
    value = graph.node("Det", value, out="determinants")
    graph.node("Mul", value, graph.constant("factor", 0.5, np.float32), out="y")
    graph.output("y", FLOAT, ["batch"])
    return _write(path, graph.model())


def two_islands(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: two Hardmax, which only the CPU has, between MatMul, Mul and Add."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    value = graph.node("MatMul", value, graph.weight("w", width, width), out="product")
    value = graph.node("Hardmax", value, out="first")
    value = graph.node("Mul", value, graph.weight("factor", width), out="scaled")
    value = graph.node("Hardmax", value, out="second")
    graph.node("Add", value, graph.weight("b", width), out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def _island(graph: _Graph, value: str, name: str, out: str) -> str:
    """Add Mul, Hardmax and Add to a graph in which `w` and `b` can be seen."""
    value = graph.node("Mul", value, "w", out=f"{name}/scaled")
    value = graph.node("Hardmax", value, out=f"{name}/hardmax")
    return graph.node("Add", value, "b", out=out)


def if_island(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width], chosen (bool) -> y: an island on the CPU in the then branch; the else branch has none."""
    then, otherwise = _Graph(), _Graph()
    _island(then, "start", "then", "then_y")
    then.output("then_y", FLOAT, ["batch", width])
    otherwise.node("Add", "start", "b", out="else_y")
    otherwise.output("else_y", FLOAT, ["batch", width])
    graph = _Graph(seed)
    graph.node("Relu", graph.input("x", FLOAT, ["batch", width]), out="start")
    chosen = graph.input("chosen", TensorProto.BOOL, [])
    graph.weight("w", width)
    graph.weight("b", width)
    value = graph.node("If", chosen, out="end", then_branch=then.proto("then"), else_branch=otherwise.proto("else"))
    graph.node("Tanh", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def loop_island(path: Path, *, trips: int = 3, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: a Loop with an island on the CPU in its body, between Relu and Tanh."""
    body = _Graph()
    body.input("trip", INT64, [])
    body.input("go_on_in", TensorProto.BOOL, [])
    body.input("state_in", FLOAT, ["batch", width])
    body.node("Identity", "go_on_in", out="go_on_out")
    _island(body, "state_in", "body", "state_out")
    body.output("go_on_out", TensorProto.BOOL, [])
    body.output("state_out", FLOAT, ["batch", width])
    graph = _Graph(seed)
    graph.weight("w", width)
    graph.weight("b", width)
    count, go_on = graph.constant("trips", trips), graph.constant("go_on", True, np.bool_)
    value = graph.node("Relu", graph.input("x", FLOAT, ["batch", width]), out="start")
    value = graph.node("Loop", count, go_on, value, out="end", body=body.proto("body"))
    graph.node("Tanh", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def scan_island(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [seq, width] -> y [seq, width]: a Scan with an island on the CPU in its body."""
    body = _Graph()
    body.input("state_in", FLOAT, [width])
    body.input("row", FLOAT, [width])
    body.node("Add", "state_in", "row", out="state_out")
    _island(body, "state_out", "body", "row_out")
    body.output("state_out", FLOAT, [width])
    body.output("row_out", FLOAT, [width])
    graph = _Graph(seed)
    graph.weight("w", width)
    graph.weight("b", width)
    value = graph.node("Relu", graph.input("x", FLOAT, ["seq", width]), out="start")
    state = graph.constant("state", np.zeros(width), np.float32)
    graph.add("Scan", [state, value], ["last", "rows"], body=body.proto("body"), num_scan_inputs=1)
    graph.node("Tanh", "rows", out="y")
    graph.output("y", FLOAT, ["seq", width])
    return _write(path, graph.model())


def shape_chain(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: zeros of a computed shape joined to a product, so that shape nodes feed a tensor."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    value = graph.node("MatMul", value, graph.weight("w", width, width), out="product")
    batch = graph.node("Gather", graph.node("Shape", value, out="shape"), graph.constant("index", 0), out="rows")
    batch = graph.node("Mul", batch, graph.constant("two", 2), out="twice")
    batch = graph.node("Unsqueeze", batch, graph.constant("axis", [0]), out="row_dim")
    shape = graph.node("Concat", batch, graph.constant("columns", [width]), out="zeros_shape", axis=0)
    zeros = graph.node("ConstantOfShape", shape, out="zeros")
    value = graph.node("Concat", value, zeros, out="joined", axis=0)
    graph.node("Relu", value, out="y")
    graph.output("y", FLOAT, ["more", width])
    return _write(path, graph.model())


def nested_islands(path: Path, *, depth: int = 4, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width], chosen (bool) -> y: If in If, `depth` of them, an island on the CPU in the innermost."""
    graph = _Graph(seed)
    graph.node("Relu", graph.input("x", FLOAT, ["batch", width]), out="start")
    graph.input("chosen", TensorProto.BOOL, [])
    graph.weight("w", width)
    graph.weight("b", width)
    inner = _Graph()
    inner.node("Add", inner.node("Hardmax", "start", out="innermost"), "b", out=f"level{depth}_y")
    inner.output(f"level{depth}_y", FLOAT, ["batch", width])
    for level in range(depth - 1, -1, -1):
        outer, otherwise = (graph if level == 0 else _Graph()), _Graph()
        otherwise.node("Add", "start", "b", out=f"else{level + 1}_y")
        otherwise.output(f"else{level + 1}_y", FLOAT, ["batch", width])
        branches = {
            "then_branch": inner.proto(f"then{level + 1}"),
            "else_branch": otherwise.proto(f"else{level + 1}"),
        }
        out = "y" if level == 0 else f"level{level}_y"
        outer.node("If", "chosen", out=out, **branches)
        outer.output(out, FLOAT, ["batch", width])
        inner = outer
    return _write(path, graph.model())


ODD_NAMES = ("", 'a "quoted" name', "two words (Hardmax)", "first line\nsecond line", "", "Hardmax_3")


def odd_names(path: Path, *, width: int = 8, seed: int = 0) -> Path:
    """x [batch, width] -> y: a Hardmax for each of `ODD_NAMES`, after a Mul without a name."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    factor = graph.weight("factor", width)
    for index, name in enumerate(ODD_NAMES):
        value = graph.node("Mul", value, factor, out=f"scaled{index}")
        graph.nodes[-1].name = ""
        value = graph.node("Hardmax", value, out=f"hardmax{index}")
        graph.nodes[-1].name = name
    graph.node("Relu", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def device_length(path: Path, *, heads: int = 4, head_size: int = 16) -> Path:
    """query, key, value [batch, seq, hidden], seqlens_k [batch], total [1] -> y: GroupQueryAttention.

    It takes the total length, which an Add computes on the device, in host memory.
    """
    hidden = heads * head_size
    graph = _Graph()
    parts = [graph.input(name, FLOAT, ["batch", "seq", hidden]) for name in ("query", "key", "value")]
    lengths = graph.input("seqlens_k", TensorProto.INT32, ["batch"])
    total = graph.input("total", TensorProto.INT32, [1])
    total = graph.node("Add", total, graph.constant("nothing", [0], np.int32), out="total_sequence_length")
    inputs = [*parts, "", "", lengths, total]
    kept = {"num_heads": heads, "kv_num_heads": heads}
    graph.add("GroupQueryAttention", inputs, ["attention", "key_out", "value_out"], domain=MICROSOFT, **kept)
    graph.node("Tanh", "attention", out="y")
    graph.output("y", FLOAT, ["batch", "seq", hidden])
    return _write(path, graph.model())


def shared_values(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: x goes into Hardmax on the CPU and Mul on a device, and so does a captured value in an If.

    The condition of the If is computed from x on the device, and the If takes it on the host.
    """
    then, otherwise = _Graph(), _Graph()
    both = then.node("Add", then.node("Hardmax", "start", out="then_hard"), "start", out="then_sum")
    then.node("Mul", both, "w", out="then_y")
    then.output("then_y", FLOAT, ["batch", width])
    otherwise.node("Add", "start", "w", out="else_y")
    otherwise.output("else_y", FLOAT, ["batch", width])
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    hard = graph.node("Hardmax", value, out="hard")
    scaled = graph.node("Mul", value, graph.weight("w", width), out="scaled")
    graph.node("Add", hard, scaled, out="start")
    largest = graph.node("ReduceMax", value, out="largest", keepdims=0)
    chosen = graph.node("Greater", largest, graph.constant("nothing", 0, np.float32), out="chosen")
    value = graph.node("If", chosen, out="end", then_branch=then.proto("then"), else_branch=otherwise.proto("else"))
    graph.node("Tanh", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def other_type(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: Softmax in float, and in double, for which devices seldom have a kernel."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    value = graph.node("Softmax", value, out="float_scores")
    wide = graph.node("Cast", value, out="wide", to=TensorProto.DOUBLE)
    wide = graph.node("Softmax", wide, out="double_scores")
    value = graph.node("Cast", wide, out="narrow", to=FLOAT)
    graph.node("Relu", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def loop_model(path: Path, *, trips: int | None = 4, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width] -> y: a Loop over MatMul and Add between Relu and Tanh.

    Without `trips` the trip count is the input `trips` (int64, a scalar).
    """
    body = _Graph()
    body.input("trip", INT64, [])
    body.input("go_on_in", TensorProto.BOOL, [])
    body.input("state_in", FLOAT, ["batch", width])
    body.node("Identity", "go_on_in", out="go_on_out")
    body.node("Add", body.node("MatMul", "state_in", "w", out="body_product"), "b", out="state_out")
    body.output("go_on_out", TensorProto.BOOL, [])
    body.output("state_out", FLOAT, ["batch", width])
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    count = graph.input("trips", INT64, []) if trips is None else graph.constant("trips", trips)
    graph.weight("w", width, width)
    graph.weight("b", width)
    go_on = graph.constant("go_on", True, np.bool_)
    value = graph.node("Relu", value, out="start")
    value = graph.node("Loop", count, go_on, value, out="end", body=body.proto("body"))
    graph.node("Tanh", value, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def if_model(path: Path, *, width: int = 16, seed: int = 0) -> Path:
    """x [batch, width], chosen (bool) -> y: MatMul in the then branch, Add in the else branch."""
    then, otherwise = _Graph(), _Graph()
    then.node("MatMul", "x", "w", out="then_y")
    then.output("then_y", FLOAT, ["batch", width])
    otherwise.node("Add", "x", "b", out="else_y")
    otherwise.output("else_y", FLOAT, ["batch", width])
    graph = _Graph(seed)
    graph.input("x", FLOAT, ["batch", width])
    chosen = graph.input("chosen", TensorProto.BOOL, [])
    graph.weight("w", width, width)
    graph.weight("b", width)
    graph.node("If", chosen, out="y", then_branch=then.proto("then"), else_branch=otherwise.proto("else"))
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def dynamic_shapes(path: Path, *, heads: int = 4, head_size: int = 8, seed: int = 0) -> Path:
    """x [batch, seq, hidden], y [batch, other, hidden] -> z: attention scores; a computed Reshape makes the heads.

    The new shape is made of Shape, Gather and Concat, which ONNX Runtime places on the CPU on purpose.
    """
    hidden = heads * head_size
    graph = _Graph(seed)
    zero, one = graph.constant("index_0", [0]), graph.constant("index_1", [1])
    split = graph.constant("split", [heads, head_size])
    parts = []
    for name, dim, order in (("x", "seq", [0, 2, 1, 3]), ("y", "other", [0, 2, 3, 1])):
        value = graph.input(name, FLOAT, ["batch", dim, hidden])
        value = graph.node("MatMul", value, graph.weight(f"w_{name}", hidden, hidden), out=f"{name}/product")
        shape = graph.node("Shape", value, out=f"{name}/shape")
        batch = graph.node("Gather", shape, zero, out=f"{name}/batch")
        length = graph.node("Gather", shape, one, out=f"{name}/length")
        shape = graph.node("Concat", batch, length, split, out=f"{name}/new_shape", axis=0)
        value = graph.node("Reshape", value, shape, out=f"{name}/heads")
        parts.append(graph.node("Transpose", value, out=f"{name}/turned", perm=order))
    scores = graph.node("MatMul", *parts, out="scores")
    graph.node("Softmax", scores, out="z", axis=-1)
    graph.output("z", FLOAT, ["batch", heads, "seq", "other"])
    return _write(path, graph.model())


def external_data(path: Path, *, width: int = 32, layers: int = 2, seed: int = 0) -> Path:
    """`mlp` with its weights in the file `<name>.data` beside it."""
    model = onnx.load(mlp(path, width=width, layers=layers, seed=seed))
    onnx.save_model(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=0)
    return path


def opset24(path: Path, *, heads: int = 4, head_size: int = 16, seed: int = 0) -> Path:
    """x [batch, seq, hidden] -> y: ai.onnx Attention and Reshape of opset 24; runs from onnxruntime 1.24 on."""
    hidden = heads * head_size
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", "seq", hidden])
    q, k, v = (graph.node("MatMul", value, graph.weight(f"w{part}", hidden, hidden), out=part) for part in "qkv")
    value = graph.node("Attention", q, k, v, out="attended", q_num_heads=heads, kv_num_heads=heads, is_causal=1)
    graph.node("Reshape", value, graph.constant("new_shape", [0, 0, heads, head_size]), out="y")
    graph.output("y", FLOAT, ["batch", "seq", heads, head_size])
    return _write(path, graph.model(opset=24, ir_version=12))


def attention(
    path: Path,
    form: Literal["gqa", "mha", "attention", "unfused"] = "gqa",
    *,
    seq: int = 32,
    past: int = 0,
    heads: int = 4,
    kv_heads: int = 2,
    head_size: int = 64,
    element_type: int = FLOAT,
    window: int = 0,
    layers: int = 1,
) -> Path:
    """Attention and little else, of one sequence: with a cache, of the contrib or the ai.onnx domain, or in its parts.

    gqa: query [1, seq, hidden], key, value, past_key, past_value [1, kv_heads, past, head_size] -> y and the caches;
    mha, and attention (opset 23): query, key, value [1, seq, hidden] -> y; unfused: query [1, heads, seq, head_size],
    key [1, heads, head_size, total], value [1, heads, total, head_size] -> y. With more layers, each one's result is
    the query of the next; they share key and value.
    """
    graph = _Graph()
    total, hidden, kv_hidden = past + seq, heads * head_size, kv_heads * head_size
    shapes: dict[str, Sequence[int]] = dict.fromkeys(("query", "key", "value"), (1, seq, hidden))
    if form == "gqa":
        shapes |= dict.fromkeys(("key", "value"), (1, seq, kv_hidden))
        shapes |= dict.fromkeys(("past_key", "past_value"), (1, kv_heads, past, head_size))
        lengths = [graph.constant("seqlens_k", [total - 1], np.int32), graph.constant("total", [total], np.int32)]
    elif form == "unfused":
        shapes = {"query": (1, heads, seq, head_size), "value": (1, heads, total, head_size)}
        shapes["key"] = (1, heads, head_size, total)
        scale = graph.constant(
            "scale", head_size**-0.5, np.float16 if element_type == TensorProto.FLOAT16 else np.float32
        )
    for name, shape in shapes.items():
        graph.input(name, element_type, shape)
    value = "query"
    for layer in range(layers):
        out = f"attended{layer}"
        if form == "gqa":
            kept = {"local_window_size": window} if window else {}
            caches = [f"present_{kind}{layer}" for kind in ("key", "value")]
            inputs = [value, "key", "value", "past_key", "past_value", *lengths]
            graph.add("GroupQueryAttention", inputs, [out, *caches], domain=MICROSOFT, num_heads=heads,
                      kv_num_heads=kv_heads, **kept)  # fmt: skip
            for name in caches:
                graph.output(name, element_type, (1, kv_heads, total, head_size))
        elif form == "mha":
            graph.node("MultiHeadAttention", value, "key", "value", out=out, domain=MICROSOFT, num_heads=heads)
        elif form == "attention":
            heads_of: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads}
            graph.node("Attention", value, "key", "value", out=out, is_causal=1, **heads_of)
        else:
            scores = graph.node("MatMul", value, "key", out=f"scores{layer}")
            scores = graph.node("Mul", scores, scale, out=f"scaled{layer}")
            scores = graph.node("Softmax", scores, out=f"probabilities{layer}", axis=-1)
            graph.node("MatMul", scores, "value", out=out)
        value = out
    graph.node("Tanh", value, out="y")
    graph.output("y", element_type, shapes["query"])
    return _write(path, graph.model(opset=23 if form == "attention" else 17, ir_version=10))


def every_type(path: Path, element_type: int) -> Path:
    """x [n] of any element type (`TensorProto.DataType`) -> y [n].

    Identity where the CPU execution provider has it for the type (y has the type of x), else DequantizeLinear or Cast
    to float: it has no kernel of any operator for complex64, complex128 and float4e2m1.
    """
    graph = _Graph()
    graph.input("x", element_type, ["n"])
    sub_byte = {TensorProto.UINT4: (21, 10), TensorProto.INT4: (21, 10), 25: (25, 13), 26: (25, 13)}  # uint2, int2
    casts = {23: (23, 11), 24: (24, 12)}  # float4e2m1, float8e8m0
    if element_type in sub_byte:
        opset, ir_version = sub_byte[element_type]
        graph.node("DequantizeLinear", "x", graph.constant("scale", 1, np.float32), out="y")
    elif element_type in casts:
        opset, ir_version = casts[element_type]
        graph.node("Cast", "x", out="y", to=FLOAT)
    else:
        opset, ir_version = 19, 9
        graph.node("Identity", "x", out="y")
    is_kept = element_type not in sub_byte and element_type not in casts
    graph.output("y", element_type if is_kept else FLOAT, ["n"])
    return _write(path, graph.model(opset=opset, ir_version=ir_version))


def string_input(path: Path) -> Path:
    """words [n] (strings) -> ids [n]: the LabelEncoder of ai.onnx.ml; "s0" to "s9" have the ids 0 to 9, others -1."""
    graph = _Graph()
    words = graph.input("words", TensorProto.STRING, ["n"])
    known = {"keys_strings": [f"s{index}" for index in range(10)], "values_int64s": list(range(10))}
    graph.node("LabelEncoder", words, out="ids", domain="ai.onnx.ml", default_int64=-1, **known)
    graph.output("ids", INT64, ["n"])
    return _write(path, graph.model(ai_onnx_ml=2))


def several_inputs(path: Path, *, width: int = 8, seed: int = 0) -> Path:
    """x [batch, width], wide (double) and mask (bool) of the same shape, ids [batch] -> y [batch, width]."""
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    wide = graph.input("wide", TensorProto.DOUBLE, ["batch", width])
    ids = graph.input("ids", INT64, ["batch"])
    mask = graph.input("mask", TensorProto.BOOL, ["batch", width])
    value = graph.node("Add", value, graph.node("Cast", wide, out="float", to=FLOAT), out="sum")
    row = graph.node("Gather", graph.weight("table", 4, width), ids, out="row")
    graph.node("Where", mask, value, row, out="y")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def slow_model(path: Path, *, blocks: int = 100, width: int = 64, seed: int = 0) -> Path:
    """x [batch, width] -> y: blocks of MatMul, Add, Tanh. Its time grows with them: 105 is really 5 % slower than 100.

    At the default size a run takes about 1 to 2 ms on one CPU core.
    """
    graph = _Graph(seed)
    value = graph.input("x", FLOAT, ["batch", width])
    weight, bias = graph.weight("w", width, width), graph.weight("b", width)
    for block in range(blocks):
        value = graph.node("MatMul", value, weight, out=f"product{block}")
        value = graph.node("Add", value, bias, out=f"sum{block}")
        value = graph.node("Tanh", value, out="y" if block == blocks - 1 else f"hidden{block}")
    graph.output("y", FLOAT, ["batch", width])
    return _write(path, graph.model())


def bad_opset(path: Path) -> Path:
    """A model of opset 99, which no runtime knows."""
    graph = _Graph()
    graph.node("Relu", graph.input("x", FLOAT, ["n"]), out="y")
    graph.output("y", FLOAT, ["n"])
    return _write(path, graph.model(opset=99))


def unknown_op(path: Path) -> Path:
    """A model with the operator `NoSuchOperator`."""
    graph = _Graph()
    graph.node("NoSuchOperator", graph.input("x", FLOAT, ["n"]), out="y")
    graph.output("y", FLOAT, ["n"])
    return _write(path, graph.model())


def truncated(path: Path) -> Path:
    """The first half of the file of a good model."""
    content = mlp(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def not_onnx(path: Path) -> Path:
    """A text file with a model's name."""
    path.write_text("this is no model\n", encoding="utf-8")
    return path
