"""What kind of work an operator is, what to do about time spent in it, and which operators are fusions.

Source: the ONNX operator list, and ONNX Runtime's docs/ContribOperators.md for the `com.microsoft` operators.
"""

MEMCPY_TO_HOST = "MemcpyToHost"
MEMCPY_FROM_HOST = "MemcpyFromHost"
MEMCPY_OPS = frozenset({MEMCPY_TO_HOST, MEMCPY_FROM_HOST})
"""What the runtime puts in where a tensor changes between the host and a device."""

CONTROL_FLOW_OPS = frozenset(
    {"If", "Loop", "Scan", "SequenceMap", "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}
)
"""Operators that run subgraphs."""

COMPUTE, MEMORY, COPY, METADATA, OTHER = "compute", "memory", "copy", "metadata", "other"

ADVICE = {
    COMPUTE: "arithmetic: try a lower precision, a fused operator or fewer, larger products",
    MEMORY: "bound by memory traffic: fuse it with its neighbours, or use a smaller type",
    COPY: "moves data and computes nothing: keep one device and one layout, and export without it",
    METADATA: "only changes a shape: fold constants, fix dynamic dimensions, keep it off the device",
    OTHER: "not known: look at the node",
}
"""Class -> what to do about time spent in it."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUSED_OPS = _names(
    """
    Attention BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BitmaskBiasDropout CausalConvWithState
    DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DynamicQuantizeLSTM
    DynamicQuantizeMatMul EmbedLayerNormalization FastGelu FusedConv FusedGemm FusedMatMul FusedMatMulActivation
    GatedAdd GatedDeltaNet GatedRMSNorm GatedRelativePositionBias GatherBlockQuantized GemmFastGelu
    GemmaRotaryEmbedding GroupNorm GroupQueryAttention LinearAttention LinearAttentionGate LongformerAttention
    MRotaryEmbedding MatMulBnb4 MatMulFpQ4 MatMulIntegerToFloat MatMulNBits MatMulNBitsMlp MatMulNBitsQkv MoE
    MultiHeadAttention NhwcFusedConv PackedAttention PackedMultiHeadAttention PagedAttention QAttention
    QEmbedLayerNormalization QMoE QOrderedAttention QOrderedGelu QOrderedLayerNormalization
    QOrderedLongformerAttention QuickGelu RelativePositionBias RotaryEmbedding SimplifiedLayerNormalization
    SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization SparseAttention TransposeMatMul
    VarlenCausalConvWithState
    """
)
"""Operators that stand for several nodes of the exported model. `Attention` and `RotaryEmbedding` are ai.onnx's too."""

ATTENTION_OPS = frozenset(name for name in FUSED_OPS if name.endswith("Attention"))

_COMPUTE_OPS = ATTENTION_OPS | _names(
    """
    AttnLSTM BeamSearch CausalConvWithState Conv ConvInteger ConvTranspose ConvTransposeWithDynamicPads DFT DeformConv
    Det DynamicQuantizeLSTM DynamicQuantizeMatMul Einsum FusedConv FusedGemm FusedMatMul FusedMatMulActivation GRU
    GatedDeltaNet Gemm GemmFastGelu GemmFloat8 GreedySearch Inverse Irfft LSTM MatMul MatMulBlockQuantizedFp4Weight
    MatMulBlockQuantizedFp8Weight MatMulBnb4 MatMulFpQ4 MatMulInteger MatMulInteger16 MatMulIntegerToFloat MatMulNBits
    MatMulNBitsMlp MatMulNBitsQkv MoE NhwcConv NhwcFusedConv QGemm QLinearConv QLinearMatMul QMoE QOrderedMatMul RNN
    Rfft STFT Sampling SparseToDenseMatMul TransposeMatMul VarlenCausalConvWithState WhisperBeamSearch
    WordConvEmbedding
    """
)
_COPY_OPS = MEMCPY_OPS | _names(
    """
    CenterCropPad Compress Concat ConcatFromSequence DepthToSpace Expand Gather GatherElements GatherND Pad
    QLinearConcat RemovePadding ReorderInput ReorderOutput RestorePadding ReverseSequence Scatter ScatterElements
    ScatterND Slice SpaceToDepth Split SplitToSequence TensorScatter Tile Transpose UnfoldTensor Upsample
    """
)
_METADATA_OPS = _names(
    """
    Constant ConstantOfShape ExpandDims Flatten Identity Range Reshape SequenceAt SequenceConstruct SequenceEmpty
    SequenceErase SequenceInsert SequenceLength Shape Size Squeeze Unsqueeze
    """
)
_MEMORY_OPS = _names(
    """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli
    BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu BitShift BitmaskBiasDropout BitmaskDropout BitwiseAnd
    BitwiseNot BitwiseOr BitwiseXor Cast CastLike CDist Ceil Celu Clip Col2Im ComplexMul ComplexMulConj Cos Cosh
    CropAndResize CumProd CumSum DequantizeBFP DequantizeLinear DequantizeWithOrder Div Dropout DynamicQuantizeLinear
    Elu EmbedLayerNormalization Equal Erf Exp EyeLike FastGelu Floor GatedAdd GatedRMSNorm GatedRelativePositionBias
    GatherBlockQuantized Gelu GemmaRotaryEmbedding GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual
    GridSample GroupNorm GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsAllFinite IsInf
    IsNaN LRN LayerNormalization LeakyRelu Less LessOrEqual LinearAttentionGate Log LogSoftmax LpNormalization LpPool
    MRotaryEmbedding Max MaxPool MaxRoiPool MaxUnpool MaxpoolWithMask Mean MeanVarianceNormalization Min Mish Mod Mul
    MulInteger Multinomial Neg NhwcMaxPool NonMaxSuppression NonZero Not OneHot Or PRelu Pow QEmbedLayerNormalization
    QLinearAdd QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QLinearWhere QOrderedGelu QOrderedLayerNormalization QuantizeBFP QuantizeLinear
    QuantizeWithOrder QuickGelu RMSNormalization RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumInteger ReduceSumSquare RelativePositionBias Relu Resize RoiAlign RotaryEmbedding Round Selu Shrink
    Sigmoid Sign SimplifiedLayerNormalization Sin Sinh SkipGroupNorm SkipLayerNormalization
    SkipSimplifiedLayerNormalization Softmax Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu TopK
    TorchEmbedding Trilu Unique Where Xor
    """
)
_CLASSES = {
    **dict.fromkeys(_MEMORY_OPS, MEMORY),
    **dict.fromkeys(_METADATA_OPS, METADATA),
    **dict.fromkeys(_COPY_OPS, COPY),
    **dict.fromkeys(_COMPUTE_OPS, COMPUTE),
}


def op_class(op_type: str) -> str:
    """Return the class of an operator.

    >>> op_class("MatMul"), op_class("MemcpyToHost"), op_class("Reshape"), op_class("MyOwnOp")
    ('compute', 'copy', 'metadata', 'other')
    """
    return _CLASSES.get(op_type, OTHER)
