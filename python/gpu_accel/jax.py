"""GA in JAX: attention, products and products with quantised weights, with gradients, by jax.ffi.

The functions work under jit, grad, scan, vmap and shard_map, on the CPU and on CUDA. On a GPU work goes to the stream that XLA
runs the program on, and workspaces are XLA's. On the CPU f16 and bf16 are computed in f32."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from . import _core
from ._blocks import block_of

try:
    from jax import ffi
    ffi.ffi_call, ffi.register_ffi_target
except (ImportError, AttributeError):
    raise ImportError(f"gpu_accel.jax needs jax.ffi, of JAX 0.5 or newer; this is JAX {jax.__version__}") from None

for _name, _platform, _handler in _core.jax_targets():
    ffi.register_ffi_target(_name, _handler, platform=_platform, api_version=1)

_PLAIN = ("float32", "float16", "bfloat16")
_ACTS = {None: 0, "none": 0, "silu": 1, "gelu_tanh": 2, "gelu": 3}  # the order of the C API
_ACT_FUNCTIONS = {1: jax.nn.silu, 2: functools.partial(jax.nn.gelu, approximate=True), 3: functools.partial(jax.nn.gelu, approximate=False)}


def _call(target, results, vmap_method, *arrays, **options):
    """Numbers go as 32 bits, which the handlers read."""
    options = {name: x if isinstance(x, str) else (np.float32(x) if isinstance(x, float) else np.int32(x)) for name, x in options.items()}
    made = ffi.ffi_call(f"gpu_accel_{target}", results, vmap_method=vmap_method)(*arrays, **options)
    return tuple(_along(_axes(*arrays), *made)) if isinstance(results, tuple) else _along(_axes(*arrays), made)[0]


def _axes(*arrays):
    """Axes of a mesh over which arrays differ, inside of shard_map. Versions of JAX before 0.6 do not say."""
    types = [jax.typeof(x) for x in arrays if x is not None] if hasattr(jax, "typeof") else []
    axes = (getattr(t, "vma", None) or getattr(getattr(t, "manual_axis_type", None), "varying", None) for t in types)
    return frozenset().union(*(x for x in axes if x))


def _along(axes, *arrays):
    """Arrays as ones that differ over these axes: gradients of those that did not are summed over devices."""
    seen = []
    for x in arrays:
        missing = () if x is None else tuple(axes - _axes(x))
        if missing:
            x = jax.lax.pcast(x, missing, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(x, missing)
        seen.append(x)
    return seen


def _check_plain(op, **arrays):
    """All of one type, one that GA computes with."""
    first = None
    for name, x in arrays.items():
        if x.dtype.name not in _PLAIN:
            raise _core.DtypeError(f"{op}: {name} is {x.dtype.name}; allowed are {', '.join(_PLAIN)}")
        first = first or (name, x.dtype)
        if x.dtype != first[1]:
            raise _core.DtypeError(f"{op}: {name} is {x.dtype.name}; allowed is the type of {first[0]}, {first[1].name}")


# ---- attention ----

def _check_heads(q, k, v):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise _core.ShapeError(f"attention: {name} has {x.ndim} dimensions; allowed are 4: [batch, tokens, heads, dim]")
    for name, x, wanted in (("k", k, (q.shape[0], k.shape[1], k.shape[2], q.shape[3])), ("v", v, (q.shape[0], k.shape[1], k.shape[2], v.shape[3]))):
        if x.shape != wanted:
            raise _core.ShapeError(f"attention: {name} is {list(x.shape)}; allowed is {list(wanted)} beside q {list(q.shape)}")
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise _core.ShapeError(f"attention: q has {q.shape[2]} heads, k {k.shape[2]}; allowed is a multiple of those of k")


_OPTIONS = ("causal", "window", "scale", "softcap", "max_q", "max_kv")


def _extras(sinks, q_start, kv_start, options):
    """Arrays that options bring, the numbers for the handler, and how vmap is done: borders and sinks are of one call."""
    arrays = [x for x in (sinks, q_start, kv_start) if x is not None]
    numbers = dict(zip(_OPTIONS, options)) | {"sinks": sinks is not None, "packed": q_start is not None}
    return arrays, numbers, "sequential" if arrays else "broadcast_all"


@functools.partial(jax.custom_vjp, nondiff_argnums=(6, 7, 8, 9, 10, 11, 12))
def _attention(q, k, v, sinks, q_start, kv_start, *options):
    batch, n, heads, _ = q.shape
    *options, deterministic = options
    arrays, numbers, vmap_method = _extras(sinks, q_start, kv_start, options)
    rows = (batch, heads, n) if q_start is None else (q_start.shape[0] - 1, heads, numbers["max_q"])
    results = (jax.ShapeDtypeStruct((batch, n, heads, v.shape[3]), q.dtype), jax.ShapeDtypeStruct(rows, jnp.float32))
    return _call("attention", results, vmap_method, q, k, v, *arrays, **numbers)


def _attention_forward(q, k, v, sinks, q_start, kv_start, *options):
    o, lse = _attention(q, k, v, sinks, q_start, kv_start, *options)
    return (o, lse), (q, k, v, sinks, q_start, kv_start, o, lse)


def _attention_backward(*arguments):
    *options, kept, gradients = arguments
    q, k, v, sinks, q_start, kv_start, o, lse = kept
    dq, dk, dv, *dsinks = _gradients(q, k, v, o, gradients[0], lse, sinks, q_start, kv_start, *options)
    return dq, dk, dv, dsinks[0] if dsinks else None, None, None


@functools.partial(jax.custom_vjp, nondiff_argnums=(9, 10, 11, 12, 13, 14, 15))
def _gradients(q, k, v, o, dout, lse, sinks, q_start, kv_start, *options):
    *options, deterministic = options
    arrays, numbers, vmap_method = _extras(sinks, q_start, kv_start, options)
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in ((q, k, v) if sinks is None else (q, k, v, sinks)))
    return _call("attention_backward", results, vmap_method, q, k, v, o, dout, lse, *arrays, deterministic=deterministic, **numbers)


def _refuse_second(*_):
    raise _core.UnsupportedError("attention: second derivatives; allowed are first ones")


_attention.defvjp(_attention_forward, _attention_backward)
_gradients.defvjp(_refuse_second, _refuse_second)


def _check_numbers(q, window, scale, softcap):
    """scale as a number."""
    scale = float(q.shape[-1] ** -0.5 if scale is None else scale) if q.shape[-1] else 1.0
    if not isinstance(window, (int, np.integer)) or not 0 <= window < 2**31:
        raise _core.ArgumentError(f"attention: window is {window!r}; allowed are 0 to 2147483647")
    if not math.isfinite(scale) or not math.isfinite(softcap) or softcap < 0:
        raise _core.ArgumentError(f"attention: scale is {scale!r}, softcap {softcap!r}; allowed are finite numbers, softcap of 0 or more")
    return scale


def _check_array(name, x, dtype, shape):
    if x.dtype != dtype or x.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, x.shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise _core.ShapeError(f"attention: {name} is {x.dtype.name} {list(x.shape)}; allowed is {jnp.dtype(dtype).name} [{wanted}]")


def _check_packed(q_start, kv_start, max_q, max_kv, layout):
    if any(x is None for x in (q_start, kv_start, max_q, max_kv)):
        raise _core.ArgumentError("attention: q_start, kv_start, max_q and max_kv go together")
    for name, x in (("q_start", q_start), ("kv_start", kv_start)):
        _check_array(name, x, jnp.int32, q_start.shape)
    if q_start.ndim != 1 or q_start.shape[0] < 2:
        raise _core.ShapeError(f"attention: q_start is {list(q_start.shape)}; allowed is [sequences + 1]")
    for name, x in layout.items():
        if x.ndim != 3:
            raise _core.ShapeError(f"attention: {name} has {x.ndim} dimensions; allowed beside q_start are 3: [tokens, heads, dim]")


def attention(q, k, v, *, causal=False, window=0, scale=None, softcap=0.0, sinks=None, q_start=None, kv_start=None, max_q=None, max_kv=None,
              deterministic=False, return_lse=False):
    """q [batch, q, heads, dim], k, v [batch, kv, kv_heads, dim], of one type: float32, float16 or bfloat16; the layout of
    jax.nn.dot_product_attention. heads is a multiple of kv_heads.

    Packed sequences: q_start, kv_start int32 [sequences + 1] are their borders, the first 0, max_q, max_kv the longest ones; q,
    k and v are [tokens, heads, dim], lse [sequences, heads, max_q]. Tokens behind the last border are padding: results and
    gradients are 0 there, and lse is -inf behind a sequence's end. On the CPU borders are checked while the program runs.
    causal: the last query sees the last key. window: a query sees that many keys up to its own, 0 = all. scale: None =
    dim ** -0.5. softcap: 0 = none. sinks [heads] float32: logits that take part in the softmax and have no value.
    deterministic: equal gradients in each run. return_lse: (o, lse [batch, heads, q] float32), lse without a gradient.
    Gradients of q, k, v and sinks are first ones, in reverse mode. Raises ShapeError, DtypeError, ArgumentError,
    UnsupportedError; what a device finds while it runs comes as JAX's own error with GA's text."""
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    sinks, q_start, kv_start = (None if x is None else jnp.asarray(x) for x in (sinks, q_start, kv_start))
    packed = any(x is not None for x in (q_start, kv_start, max_q, max_kv))
    if packed:
        _check_packed(q_start, kv_start, max_q, max_kv, {"q": q, "k": k, "v": v})
        q, k, v = (x[None] for x in (q, k, v))
    _check_plain("attention", q=q, k=k, v=v)
    _check_heads(q, k, v)
    if sinks is not None:
        _check_array("sinks", sinks, jnp.float32, (q.shape[2],))
    scale = _check_numbers(q, window, scale, softcap)
    if 0 in q.shape or 0 in v.shape:
        o = jnp.zeros((*q.shape[:3], v.shape[3]), q.dtype)
        rows = (q_start.shape[0] - 1, q.shape[2], max_q) if packed else (q.shape[0], q.shape[2], q.shape[1])
        lse = jnp.full(rows, -jnp.inf, jnp.float32)
    else:
        arrays = _along(_axes(q, k, v, sinks), q, k, v, sinks)
        o, lse = _attention(*arrays, q_start, kv_start, bool(causal), int(window), scale, float(softcap), int(max_q or 0), int(max_kv or 0),
                            bool(deterministic))
    o = o[0] if packed else o
    return (o, jax.lax.stop_gradient(lse)) if return_lse else o


def paged_attention(q, k, v, page_table, kv_len, *, causal=True, window=0, scale=None, softcap=0.0):
    """q [batch, q, heads, dim] over a cache: k, v [pages, page_size, kv_heads, dim], page_table int32 [batch, n], kv_len int32
    [batch]. The rest as in attention(). Gradients raise UnsupportedError; on the CPU tables and lengths are checked while the program runs."""
    q, k, v, page_table, kv_len = (jnp.asarray(x) for x in (q, k, v, page_table, kv_len))
    _check_plain("attention", q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise _core.ShapeError(f"attention: {name} has {x.ndim} dimensions; allowed are 4")
    _check_array("k", k, q.dtype, (*k.shape[:3], q.shape[3]))
    _check_array("v", v, q.dtype, (*k.shape[:3], None))
    _check_array("page_table", page_table, jnp.int32, (q.shape[0], None))
    _check_array("kv_len", kv_len, jnp.int32, (q.shape[0],))
    scale = _check_numbers(q, window, scale, softcap)
    result = jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)
    return _paged(q, k, v, page_table, kv_len, result, bool(causal), int(window), scale, float(softcap))


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6, 7, 8, 9))
def _paged(q, k, v, page_table, kv_len, result, causal, window, scale, softcap):
    return _call("paged", result, "sequential", q, k, v, page_table, kv_len, causal=causal, window=window, scale=scale, softcap=softcap)


def _refuse_paged(*_):
    raise _core.UnsupportedError("paged_attention: gradients; allowed are those of attention(), or jax.lax.stop_gradient of q, k and v")


_paged.defvjp(_refuse_paged, _refuse_paged)


# ---- products ----

def _product(x, w, bias, m, n, dtype, *, xt=False, wt=False, act=0, scale=1.0, w_dtype=""):
    arrays = (x, w) if bias is None else (x, w, bias)
    return _call("gemm", jax.ShapeDtypeStruct((m, n), dtype), "expand_dims", *arrays, xt=xt, wt=wt, act=act, scale=float(scale),
                 bias=bias is not None, w_dtype=w_dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5, 6))
def _gemm(x, w, bias, act, scale, dtype, w_dtype):
    return _product(x, w, bias, x.shape[0], w.shape[0], dtype, act=act, scale=scale, w_dtype=w_dtype)


def _gemm_forward(x, w, bias, *options):
    return _gemm(x, w, bias, *options), (x, w, bias)


def _gemm_backward(act, scale, dtype, w_dtype, kept, dy):
    x, w, bias = kept
    m, k, n = *x.shape, w.shape[0]
    if act:
        before = _product(x, w, bias, m, n, dtype, scale=scale, w_dtype=w_dtype)
        dy, = jax.vjp(_ACT_FUNCTIONS[act], before)[1](dy)
    plain = dequantize(w, w_dtype, dtype=x.dtype) if w_dtype else w
    dx = _product(dy.astype(plain.dtype), plain, None, m, k, x.dtype, wt=True, scale=scale)
    dw = None if w_dtype else _product(dy.astype(x.dtype), x, None, n, k, w.dtype, xt=True, wt=True, scale=scale)
    return dx, dw, None if bias is None else dy.astype(jnp.float32).sum(0)


_gemm.defvjp(_gemm_forward, _gemm_backward)


def _as_rows(op, x, w, k, bias, act, scale, out_dtype, w_dtype):
    if x.ndim < 1 or x.shape[-1] != k:
        raise _core.ShapeError(f"{op}: x is {list(x.shape)}; allowed is [..., {k}] beside w {list(w.shape)}")
    if act not in _ACTS:
        raise _core.ArgumentError(f"{op}: act is {act!r}; allowed are None, 'silu', 'gelu_tanh', 'gelu'")
    if not math.isfinite(scale):
        raise _core.ArgumentError(f"{op}: scale is {scale!r}; allowed are finite numbers")
    dtype = jnp.dtype(out_dtype or x.dtype)
    if dtype.name not in _PLAIN:
        raise _core.DtypeError(f"{op}: out_dtype is {dtype.name}; allowed are {', '.join(_PLAIN)}")
    if bias is not None:
        bias = jnp.asarray(bias)
        if bias.shape != (w.shape[0],) or bias.dtype != jnp.float32:
            raise _core.ShapeError(f"{op}: bias is {bias.dtype.name} {list(bias.shape)}; allowed is float32 [{w.shape[0]}]")
    lead = x.shape[:-1]
    if 0 in (*lead, w.shape[0], k):
        raise _core.ShapeError(f"{op}: x is {list(x.shape)}, w {list(w.shape)}; allowed are dimensions of 1 and more")
    x, w, bias = _along(_axes(x, w, bias), x, w, bias)
    y = _gemm(x.reshape(-1, k), w, bias, _ACTS[act], float(scale), dtype, w_dtype)
    return y.reshape(*lead, w.shape[0])


def gemm(x, w, bias=None, *, act=None, scale=1.0, out_dtype=None):
    """y [..., n] = act(scale * x @ w.T + bias). x [..., k], w [n, k] of one type: float32, float16 or bfloat16; bias [n]
    float32. act: None, 'silu', 'gelu_tanh' or 'gelu'. out_dtype: None = that of x. Gradients of x, w and bias.
    Raises ShapeError, DtypeError, ArgumentError."""
    x, w = jnp.asarray(x), jnp.asarray(w)
    _check_plain("gemm", x=x, w=w)
    if w.ndim != 2:
        raise _core.ShapeError(f"gemm: w has {w.ndim} dimensions; allowed are 2: [n, k]")
    return _as_rows("gemm", x, w, w.shape[1], bias, act, scale, out_dtype, "")


# ---- quantised weights ----

def _check_blocks(op, w, w_dtype):
    """Elements of a row of w, which holds blocks as bytes."""
    elements, size = block_of(op, w_dtype)
    if w.dtype != jnp.uint8:
        raise _core.DtypeError(f"{op}: w is {w.dtype.name}; allowed is uint8, the bytes of blocks")
    if w.ndim != 2 or w.shape[1] % size:
        raise _core.ShapeError(f"{op}: w is {list(w.shape)}; allowed is [n, bytes], {size} bytes for each {elements} of k")
    return w.shape[1] // size * elements


def quantize(w, w_dtype):
    """w [n, k] float32, float16 or bfloat16 as blocks of w_dtype ('q8_0', 'q4_0', ...): uint8 [n, bytes], rows of GGUF.
    CPUs alone do this."""
    w = jnp.asarray(w)
    _check_plain("quantize", w=w)
    elements, size = block_of("quantize", w_dtype)
    if w.ndim != 2 or w.shape[1] % elements:
        raise _core.ShapeError(f"quantize: w is {list(w.shape)}; allowed is [n, k], k a multiple of {elements}")
    result = jax.ShapeDtypeStruct((w.shape[0], w.shape[1] // elements * size), jnp.uint8)
    return _call("quantize", result, "broadcast_all", jax.lax.stop_gradient(w), dtype=w_dtype)


def dequantize(w, w_dtype, *, dtype=jnp.float32):
    """w uint8 [n, bytes], blocks of w_dtype, as [n, k] of dtype: float32, float16 or bfloat16."""
    w = jnp.asarray(w)
    k = _check_blocks("dequantize", w, w_dtype)
    rows = jnp.arange(w.shape[0], dtype=jnp.int32)
    return _call("rows", jax.ShapeDtypeStruct((w.shape[0], k), dtype), "broadcast_all", w, rows, w_dtype=w_dtype)


def quantized_gemm(x, w, w_dtype, bias=None, *, act=None, scale=1.0, out_dtype=None):
    """gemm() with w uint8 [n, bytes]: rows of blocks of w_dtype, as quantize() and GGUF files have them. Gradients of x and
    bias; backward makes w plain once, in the type of x. Raises ShapeError, DtypeError, ArgumentError."""
    x, w = jnp.asarray(x), jnp.asarray(w)
    _check_plain("quantized_gemm", x=x)
    k = _check_blocks("quantized_gemm", w, w_dtype)
    return _as_rows("quantized_gemm", x, w, k, bias, act, scale, out_dtype, str(w_dtype))
