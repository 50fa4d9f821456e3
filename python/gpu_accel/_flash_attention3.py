"""FlashAttention3 and RingAttention: attention in a chosen precision, and over many ranks, as two classes."""
import sys

from . import _core
from ._streams import refuse_tangents, torch_stream

_TYPES = {"bf16": "bf16", "fp16": "f16", "fp8": "e4m3", "int8": "i8"}


def like(result, x):
    """An Array as x's own framework has arrays, over the same memory: NumPy's or PyTorch's, else as it is."""
    family = type(x).__module__.partition(".")[0]
    if family == "numpy":
        return sys.modules["numpy"].asarray(result)
    if family == "torch":
        return sys.modules["torch"].from_dlpack(result)
    return result


def _device(x):
    kind, index = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
    return f"cuda:{index}" if kind in (2, 13) else "cpu"


def _heads_second(x, layout):
    """[batch, tokens, heads, dim] of x, nothing copied."""
    if layout == "bshd":
        return x
    return x.transpose(1, 2) if type(x).__module__.startswith("torch") else x.transpose(0, 2, 1, 3)


class FlashAttention3:
    """FlashAttention3(precision='bf16', *, layout='bshd')

    Exact attention over q, k and v that are rounded to a precision first: 'bf16', 'fp16', 'fp8' (e4m3) or 'int8' (q and k;
    v is e4m3 then). In 8 bits blocks of 128 tokens have scales, and q and k go through a Hadamard transform where head_dim
    is a power of two. layout: 'bshd' [batch, tokens, heads, dim], or 'bhsd' with heads before tokens.

    After forward() `used` says on what and how it ran. A CPU has no 8-bit rows: device 'ref' computes those, slowly; and
    16-bit values are computed in f32."""

    def __init__(self, precision="bf16", *, layout="bshd"):
        for name, value, allowed in (("precision", precision, _TYPES), ("layout", layout, ("bshd", "bhsd"))):
            if value not in allowed:
                raise _core.ArgumentError(f"FlashAttention3: {name} is {value!r}; allowed are {', '.join(map(repr, allowed))}")
        self.precision, self.layout, self.used = precision, layout, None

    def forward(self, Q, K, V, causal=False, *, scale=None):
        """softmax(scale Q K^T) V in the type of Q, as an array of Q's framework. Raises what gpu_accel.attention does."""
        refuse_tangents("FlashAttention3", Q, K, V)
        device = _device(Q)
        context, stream = _core.default_context(device), torch_stream(Q)
        if self.precision in ("bf16", "fp16"):
            return like(self._in_16_bits(context, [_core.asarray(x) for x in (Q, K, V)], causal, scale, stream), Q)
        q, k, v = (_core.asarray(_heads_second(x, self.layout)) for x in (Q, K, V))
        return _heads_second(like(self._in_8_bits(context, q, k, v, causal, scale, stream), Q), self.layout)

    __call__ = forward

    def _in_16_bits(self, context, qkv, causal, scale, stream):
        kind, options = _TYPES[self.precision], {"causal": causal, "scale": scale, "layout": self.layout}
        rounded = [_as(context, x, kind, stream) for x in qkv]
        if context.device == "cpu":  # whose rows take f32
            rounded = [context.convert(x, "f32") for x in rounded]
        self.used = f"{context.device}: {context.plan('attention', *rounded, **options).kernel}, {kind} values"
        return _as(context, context.attention(*rounded, **options, **stream), qkv[0].dtype, stream)

    def _in_8_bits(self, context, q, k, v, causal, scale, stream):
        kind, dim = _TYPES[self.precision], q.shape[-1]
        spread = dim & (dim - 1) == 0
        q8, q_scale = context.attn_quant(q, "rows", kind, hadamard=spread, **stream)
        k8, k_scale = context.attn_quant(k, "rows", kind, hadamard=spread, **stream)
        v8, v_scale = context.attn_quant(v, "values", **stream)
        runs = context if context.device != "cpu" else _reference()
        options = {"causal": causal, "scale": scale, "out_dtype": "f32" if context.device == "cpu" else _half(q.dtype)}
        args = (q8, k8, v8, q_scale, k_scale, v_scale)
        self.used = f"{runs.device}: {runs.plan('attention_8bit', *args, **options).kernel}, {kind} values"
        return _as(context, runs.attention_8bit(*args, **options, **stream), q.dtype, stream)


def _as(context, x, dtype, stream):
    return x if x.dtype == dtype else context.convert(x, dtype, **stream)


def _half(dtype):
    return dtype if dtype in ("f16", "bf16") else "bf16"


def _reference():
    global _ref
    if _ref is None:
        _ref = _core.Context("ref")
    return _ref


_ref = None


class RingAttention:
    """RingAttention(num_gpus=8, *, method='zigzag')

    Attention over a number of ranks by a published method (distributed_methods() names them). What the machine has is used,
    and `used` says it after forward(): arrays on the CPU go over num_gpus threads, each a rank that sends and receives;
    arrays on a GPU are computed by that GPU alone, as ranks over several GPUs are not there yet."""

    def __init__(self, num_gpus=8, *, method="zigzag", timeout=600.0):
        self.num_gpus, self.method, self.timeout, self.used = num_gpus, method, timeout, None

    def forward(self, Q, K, V, seq_len=None, causal=True):
        """Q, K, V [batch, tokens, heads, dim], f32 on the CPU. seq_len: the most tokens that a sequence may have; None: any.
        Raises ShapeError, ArgumentError, CommError."""
        refuse_tangents("RingAttention", Q, K, V)
        if seq_len is not None and Q.shape[1] > seq_len:
            raise _core.ShapeError(f"RingAttention: Q has {Q.shape[1]} tokens; allowed are {seq_len}, which is seq_len")
        device = _device(Q)
        if device == "cpu":
            o = _core.distributed_attention(Q, K, V, ranks=self.num_gpus, method=self.method, causal=causal, timeout=self.timeout)
            self.used = f"{self.num_gpus} CPU ranks, method {self.method}"
        else:
            o = _core.attention(Q, K, V, causal=causal, **torch_stream(Q))
            self.used = f"1 GPU, {device}: {self.num_gpus} were asked for"
        return like(o, Q)

    __call__ = forward
