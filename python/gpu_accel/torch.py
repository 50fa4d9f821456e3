"""GA behind PyTorch: attention and the other ops of a layer as operators, with gradients, and install() behind
scaled_dot_product_attention.

The operators gpu_accel::attention, attention_backward, rms_norm, rope, linear, quantize and dequantize are defined by
torch.library, with fake tensors; autograd stands outside of them. On a GPU work goes to torch's current stream, also while that is captured. On the CPU
f16 and bf16 are computed in f32. What GA does not do raises UnsupportedError, which names the argument."""
import contextlib
import threading
from collections import Counter
from contextvars import ContextVar

import torch
from torch import Tensor

from . import _core
from ._blocks import BLOCKS, block_of
from ._streams import refuse_tangents, torch_stream

# Before this table tensors come by __dlpack__, which refuses those that want a gradient.
_HAS_TABLE = hasattr(Tensor, "__dlpack_c_exchange_api__")
_HALF = (torch.float16, torch.bfloat16)
_context = ContextVar("gpu_accel.torch.using", default=None)  # computes what lies on the CPU; None: the default one


@contextlib.contextmanager
def using(context):
    """CPU tensors are computed by this Context within the block, in this thread; gradients of them by it too, wherever they
    are asked for: Context('ref') adds in double."""
    if context.device.startswith("cuda"):
        raise _core.ArgumentError(f"using: context is on {context.device}; allowed are 'cpu' and 'ref'")
    token = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(token)


# ---- operators ----

_library = torch.library.Library("gpu_accel", "DEF")
_OPTIONS = "Tensor? sinks, Tensor? q_start, Tensor? kv_start, SymInt max_q, SymInt max_kv, bool causal, SymInt window, float scale, float softcap"
_library.define(f"attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}, Tensor? kv_len=None) -> (Tensor, Tensor)")
_library.define("attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
                f"{_OPTIONS}, bool deterministic, Tensor? kv_len=None) -> (Tensor, Tensor, Tensor, Tensor)")


def _call(op, tensors, options, out):
    """Runs an op of the module on the tensors' device, behind torch's work there."""
    device = tensors[0].device
    refuse_tangents(op, *tensors, *options.values())
    if not _HAS_TABLE:
        tensors = [x.detach() if isinstance(x, Tensor) else x for x in tensors]
        options = {name: x.detach() if isinstance(x, Tensor) else x for name, x in options.items()}
    if device.type == "cpu":
        context = _context.get() or _core.default_context("cpu")
        return getattr(context, op)(*tensors, **options, **out)
    context = _core.default_context(f"cuda:{device.index}")
    with torch.cuda.device(device):
        options |= torch_stream(tensors[0])
        if not torch.cuda.is_current_stream_capturing():
            return getattr(context, op)(*tensors, **options, **out)
        # A call before the capture has loaded the code, so that a plan is host work alone.
        stream = options.pop("stream")
        plan = context.plan(op, *tensors, **options, **out)
        workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device=device) if plan.workspace_bytes else None
        return plan.run(*tensors, **options, **out, workspace=workspace, stream=stream)


def _check_device(q, others):
    if q.device.type not in ("cpu", "cuda"):
        raise _core.UnsupportedError(f"attention: q lies on {q.device.type}; allowed are cpu and cuda")
    for name, x in others.items():
        if x is not None and x.device != q.device:
            raise _core.ArgumentError(f"attention: {name} lies on {x.device}; allowed is that of q, {q.device}")


def _options(sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, kv_len):
    options = {"causal": causal, "window": window, "scale": scale, "softcap": softcap, "sinks": sinks}
    if q_start is not None:
        options |= {"q_start": q_start, "kv_start": kv_start, "max_q": max_q, "max_kv": max_kv, "kv_len": kv_len}
    return options


def _takes(x):
    """Whether what computes x has rows of its type: those of a CPU take f32. An emulated GPU has them, over memory of the CPU."""
    if x.dtype not in _HALF or x.device.type != "cpu":
        return True
    context = _context.get()
    return context is not None and context.device.startswith("emu")


def _in_f32(x):
    return x if _takes(x) else x.float()


def _results(q, v, q_start, max_q):
    batch = q.shape[0] if q_start is None else q_start.shape[0] - 1
    o = q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, q.new_empty((batch, q.shape[-2], max_q), dtype=torch.float32)


def _attention(q, k, v, sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, kv_len=None):
    o, lse = _results(q, v, q_start, max_q)
    if lse.numel() == 0 or o.numel() == 0:
        return o.zero_(), lse.fill_(float("-inf"))
    out = o if _in_f32(q) is q else torch.empty_like(o, dtype=torch.float32)
    _call("attention", [_in_f32(x) for x in (q, k, v)],
          _options(sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, kv_len), {"out": out, "out_lse": lse})
    return (o if out is o else o.copy_(out)), lse


def _attention_fake(q, k, v, sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, kv_len=None):
    return _results(q, v, q_start, max_q)


def _gradients(q, k, v, sinks):
    none = q.new_empty((0,), dtype=torch.float32)
    return *(torch.empty_like(x) for x in (q, k, v)), none if sinks is None else torch.empty_like(sinks)


def _attention_backward(dout, q, k, v, o, lse, sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, deterministic,
                        kv_len=None):
    grads = _gradients(q, k, v, sinks)
    if lse.numel() == 0 or k.numel() == 0:
        for grad in grads:
            grad.zero_()
        return grads
    whole = [g if _in_f32(g) is g else torch.empty_like(g, dtype=torch.float32) for g in grads]
    out = {"out_dq": whole[0], "out_dk": whole[1], "out_dv": whole[2]}
    if sinks is not None:
        out["out_dsinks"] = whole[3]
    options = _options(sinks, q_start, kv_start, max_q, max_kv, causal, window, scale, softcap, kv_len) | {"deterministic": deterministic}
    _call("attention_backward", [*(_in_f32(x) for x in (q, k, v, o)), lse, _in_f32(dout)], options, out)
    for grad, seen in zip(grads, whole):
        if grad is not seen:
            grad.copy_(seen)
    return grads


def _attention_backward_fake(dout, q, k, v, o, lse, sinks, *options):
    return _gradients(q, k, v, sinks)


def _refuse_vmap(info, in_dims, *args):
    raise _core.UnsupportedError("attention: torch.func.vmap; allowed is a batch dimension of q, k and v")


def _refuse_second(context, *grads):
    raise _core.UnsupportedError("attention: second derivatives; allowed are first ones")


def _by_function(function, name):
    """What applies an autograd.Function. torch calls jvp for forward-mode differentiation, and cannot compile a Function that has one."""
    def jvp(ctx, *tangents):
        raise _core.UnsupportedError(f"{name}: forward-mode differentiation; allowed is reverse mode, such as backward() and torch.func.vjp")
    transformed = type(function.__name__, (function,), {"jvp": staticmethod(jvp)})
    return lambda *inputs: (function if torch.compiler.is_compiling() else transformed).apply(*inputs)


for _name, _real, _fake in (("attention", _attention, _attention_fake), ("attention_backward", _attention_backward, _attention_backward_fake)):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _real, _key)
    torch.library.register_fake(f"gpu_accel::{_name}", _fake, lib=_library)
    torch.library.register_vmap(f"gpu_accel::{_name}", _refuse_vmap, lib=_library)
torch.library.register_autograd("gpu_accel::attention_backward", _refuse_second, lib=_library)


# ---- with gradients ----

_forward = torch.ops.gpu_accel.attention.default
_backward = torch.ops.gpu_accel.attention_backward.default


def _save(ctx, inputs, output):
    ctx.context = None if torch.compiler.is_compiling() else _context.get()
    q, k, v, sinks, q_start, kv_start, kv_len, ctx.options, ctx.deterministic = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, *output, sinks, q_start, kv_start, kv_len)


def _again(context):
    """The forward pass's Context: autograd may run backward in a thread of its own."""
    return contextlib.nullcontext() if context is None else using(context)


class _Attention(torch.autograd.Function):
    """As torch.func and torch.compile want it."""

    @staticmethod
    def forward(q, k, v, sinks, q_start, kv_start, kv_len, options, deterministic):
        return _forward(q, k, v, sinks, q_start, kv_start, *options, kv_len)

    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, o, lse, *rest, kv_len = ctx.saved_tensors
        dout = _plain_strides(dout)
        with _again(ctx.context):
            dq, dk, dv, dsinks = _gradients_of(dout, q, k, v, o, lse, *rest, *ctx.options, ctx.deterministic, kv_len)
        return dq, dk, dv, None if rest[0] is None else dsinks, None, None, None, None, None

    vmap = staticmethod(_refuse_vmap)


class _Gradients(torch.autograd.Function):
    """The operator of the gradients for torch.func, whose transforms take functions of this kind alone."""

    @staticmethod
    def forward(*inputs):
        return _backward(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    backward, vmap = staticmethod(_refuse_second), staticmethod(_refuse_vmap)


_attention_by_function, _gradients_by_function = _by_function(_Attention, "attention"), _by_function(_Gradients, "attention")


def _gradients_of(*inputs):
    return (_gradients_by_function if _transforms_active() and not torch.compiler.is_compiling() else _backward)(*inputs)


# ---- plain calls ----
#
# Where nothing but the result is asked for, a call enters C at once: torch's dispatcher, which calls back into Python for each
# operator, takes longer than all the rest.

# Older versions of torch may not tell.
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_is_batched = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda x: False)  # by jacobian(vectorize=True)
_profiled = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_TENSORS = (Tensor, torch.nn.Parameter)
_cuda_contexts = {}


def _is_plain(q, k, v):
    """No subclass, compiler, transform, mode, trace or profile, which want to see an operator; and something to compute."""
    return (_HAS_TABLE and type(q) in _TENSORS and type(k) in _TENSORS and type(v) in _TENSORS and not torch.compiler.is_compiling()
            and not _modes() and not _transforms_active() and not _profiled() and not torch.jit.is_tracing()
            and not q.is_neg() and not k.is_neg() and not v.is_neg() and q.numel() and k.numel() and v.numel())


def _place(q):
    """(context, stream) for C, or None where a call needs more: another current device, or a conversion."""
    index = q.get_device()
    if index < 0:
        return (_context.get() or _core.default_context(), None) if _takes(q) else None
    if index != torch.cuda.current_device():
        return None
    context = _cuda_contexts.get(index)
    if context is None:
        context = _cuda_contexts[index] = _core.default_context(f"cuda:{index}")
    return context, torch._C._cuda_getCurrentRawStream(index)


def _now(place, q, k, v, sinks, q_start, kv_start, kv_len, options, layout, want_lse):
    """(o, lse or None), of C alone."""
    max_q, max_kv, causal, window, scale, softcap = options
    context, stream = place
    o = q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[-1])).transpose(1, 2) if layout == "bhsd" else q.new_empty((*q.shape[:-1], v.shape[-1]))
    if q_start is None:
        lse = q.new_empty((q.shape[0], q.shape[1 if layout == "bhsd" else 2], max_q), dtype=torch.float32) if want_lse else None
        context.attention(q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, sinks=sinks, layout=layout, out=o, out_lse=lse, stream=stream)
        return o, lse
    lse = q.new_empty((q_start.shape[0] - 1, q.shape[1], max_q), dtype=torch.float32) if want_lse else None
    context.attention(q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, sinks=sinks, q_start=q_start, kv_start=kv_start, max_q=max_q,
                      max_kv=max_kv, kv_len=kv_len, out=o, out_lse=lse, stream=stream)
    return o, lse


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sinks, q_start, kv_start, kv_len, options, layout, deterministic, place, return_lse):
        o, lse = _now(place, q, k, v, sinks, q_start, kv_start, kv_len, options, layout, True)
        ctx.context, ctx.options, ctx.layout, ctx.deterministic = _context.get(), options, layout, deterministic
        ctx.save_for_backward(q, k, v, o, lse, sinks, q_start, kv_start, kv_len)
        ctx.set_materialize_grads(False)
        if not return_lse:
            return o
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    def backward(ctx, dout, _=None):
        if dout is None:
            return (None,) * 12
        with _again(ctx.context):
            return *_plain_backward(ctx, dout), *(None,) * 8


def _plain_backward(ctx, dout):
    q, k, v, o, lse, sinks, q_start, kv_start, kv_len = ctx.saved_tensors
    dout = _plain_strides(dout)
    place = _place(q) if _is_plain(q, k, dout) and not _is_batched(dout) and not torch.is_grad_enabled() else None
    if place is None or (place[1] is not None and torch.cuda.is_current_stream_capturing()):
        swap = ctx.layout == "bhsd"
        q, k, v, o, dout = (x.transpose(1, 2) if swap else x for x in (q, k, v, o, dout))
        *grads, dsinks = _backward(dout, q, k, v, o, lse, sinks, q_start, kv_start, *ctx.options, ctx.deterministic, kv_len)
        return *(x.transpose(1, 2) if swap else x for x in grads), None if sinks is None else dsinks
    max_q, max_kv, causal, window, scale, softcap = ctx.options
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dsinks = None if sinks is None else torch.empty_like(sinks)
    more = {"layout": ctx.layout} if q_start is None else {"q_start": q_start, "kv_start": kv_start, "max_q": max_q, "max_kv": max_kv,
                                                                       "kv_len": kv_len}
    context, stream = place
    context.attention_backward(q, k, v, o, lse, dout, causal=causal, window=window, scale=scale, softcap=softcap, sinks=sinks, deterministic=ctx.deterministic,
                               out_dq=dq, out_dk=dk, out_dv=dv, out_dsinks=dsinks, stream=stream, **more)
    return dq, dk, dv, dsinks


def _plain_strides(dy):
    """torch's own gradient: what sum() hands back has strides of 0."""
    return dy.contiguous() if 0 in dy.stride() or dy.stride(-1) != 1 else dy


def _apart(*tensors):
    """The same tensors, each an object of its own: torch cannot compile a Function that gets one twice."""
    made = []
    for x in tensors:
        made.append(x.view_as(x) if x is not None and any(x is other for other in made) else x)
    return made


def _differentiable(*inputs):
    if torch.compiler.is_compiling():
        inputs = *_apart(*inputs[:7]), *inputs[7:]
    if torch.compiler.is_compiling() or _transforms_active() or (
            torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs[:4])):
        return _attention_by_function(*inputs)
    return _forward(*inputs[:6], *inputs[7], inputs[6])


def _by_operator(q, k, v, sinks, q_start, kv_start, kv_len, options, layout, deterministic):
    swap = layout == "bhsd" and q_start is None
    if swap:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o, lse = _differentiable(q, k, v, sinks, q_start, kv_start, kv_len, options, deterministic)
    return (o.transpose(1, 2) if swap else o), lse


def attention(q, k, v, *, causal=False, window=0, scale=None, softcap=0.0, sinks=None, layout="bshd", q_start=None, kv_start=None,
              max_q=None, max_kv=None, kv_len=None, deterministic=False, return_lse=False):
    """gpu_accel.attention on tensors, with gradients of q, k, v and sinks.

    q [batch, q, heads, dim], k, v [batch, kv, kv_heads, dim], or 'bhsd'; with q_start and kv_start [batch + 1] i32 and
    max_q, max_kv all are [tokens, heads, dim]; kv_len [batch] i32: of its keys a sequence has only the first so many. sinks [heads] f32. deterministic: equal gradients in each run.
    return_lse: (o, lse [batch, heads, max_q]), lse without a gradient. Under autocast q, k and v take its type."""
    if layout not in ("bshd", "bhsd"):
        raise _core.ArgumentError(f"attention: layout is {layout!r}; allowed are 'bshd', 'bhsd'")
    if (q_start is None) != (kv_start is None) or (q_start is not None and (max_q is None or max_kv is None)):
        raise _core.ArgumentError("attention: q_start, kv_start, max_q and max_kv go together")
    if kv_len is not None and q_start is None:
        raise _core.ArgumentError("attention: kv_len without q_start; allowed beside it")
    refuse_tangents("attention", q, k, v, sinks)
    device = q.device
    if k.device != device or v.device != device or device.type not in ("cpu", "cuda") or sinks is not None or q_start is not None:
        _check_device(q, {"k": k, "v": v, "sinks": sinks, "q_start": q_start, "kv_start": kv_start, "kv_len": kv_len})
    if torch.is_autocast_enabled(device.type):
        q, k, v = (x.to(torch.get_autocast_dtype(device.type)) for x in (q, k, v))
    if q_start is None:
        tokens = 2 if layout == "bhsd" else 1
        max_q, max_kv = q.shape[tokens], k.shape[tokens]
    else:
        max_q, max_kv = int(max_q), int(max_kv)
    options = (max_q, max_kv, bool(causal), int(window), q.shape[-1] ** -0.5 if scale is None else float(scale), float(softcap))
    place = _place(q) if _is_plain(q, k, v) else None
    if place is None or (place[1] is not None and torch.cuda.is_current_stream_capturing()):
        o, lse = _by_operator(q, k, v, sinks, q_start, kv_start, kv_len, options, layout, deterministic)
    elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or (sinks is not None and sinks.requires_grad)):
        return _Plain.apply(q, k, v, sinks, q_start, kv_start, kv_len, options, layout, deterministic, place, return_lse)
    else:
        o, lse = _now(place, q, k, v, sinks, q_start, kv_start, kv_len, options, layout, return_lse)
    return (o, lse) if return_lse else o


# ---- the other ops of a layer ----

_aten = torch.ops.aten
_ACTS = {"none": lambda dy, z: dy, "silu": lambda dy, z: dy * z.sigmoid() * (1 + z * (1 - z.sigmoid())), "gelu": _aten.gelu_backward,
         "gelu_tanh": lambda dy, z: _aten.gelu_backward(dy, z, approximate="tanh")}  # gradients
_library.define("rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor")
_library.define("rope(Tensor x, Tensor positions, Tensor inv_freq, str pairs, float magnitude) -> Tensor")
_library.define("linear(Tensor x, Tensor w, str w_dtype, Tensor? bias, str act, float scale) -> Tensor")
_library.define("quantize(Tensor w, str w_dtype) -> Tensor")
_library.define("dequantize(Tensor w, str w_dtype, ScalarType dtype) -> Tensor")


def _rms_norm(x, weight, eps):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    out = y if _in_f32(x) is x else torch.empty_like(y, dtype=torch.float32)
    _call("norm", [_in_f32(x)], {"weight": weight, "eps": eps}, {"out": out})
    return y if out is y else y.copy_(out)


def _rope(x, positions, inv_freq, pairs, magnitude):
    y = torch.empty(x.shape, dtype=_in_f32(x).dtype, device=x.device).copy_(x)  # GA turns in place
    if y.numel():
        _call("rope", [y.flatten(0, -3), positions.flatten(), inv_freq], {"pairs": pairs, "magnitude": magnitude}, {})
    return y.to(x.dtype)


def _blocks(w, w_dtype):
    """w as GA sees it: bytes as blocks of their type."""
    return _core.asarray(w.detach(), dtype=w_dtype) if w_dtype else _in_f32(w)


def _linear(x, w, w_dtype, bias, act, scale):
    y = _linear_fake(x, w, w_dtype, bias, act, scale)
    if not y.numel():
        return y
    if not x.shape[-1]:
        raise _core.ShapeError(f"linear: x is {list(x.shape)}; allowed is a last dimension of 1 and more")
    out = y if _in_f32(x) is x else torch.empty_like(y, dtype=torch.float32)
    _call("gemm", [_in_f32(x), _blocks(w, w_dtype)], {"bias": bias, "act": act, "scale": scale}, {"out": out})
    return y if out is y else y.copy_(out)


def _linear_fake(x, w, w_dtype, bias, act, scale):
    return x.new_empty((*x.shape[:-1], w.shape[0]))


def _quantize(w, w_dtype):
    blocks = _quantize_fake(w, w_dtype)
    if blocks.numel():
        _call("convert", [w], {"dtype": w_dtype}, {"out": _core.asarray(blocks, dtype=w_dtype)})
    return blocks


def _quantize_fake(w, w_dtype):
    elements, size = BLOCKS[w_dtype]
    return w.new_empty((*w.shape[:-1], w.shape[-1] // elements * size), dtype=torch.uint8)


def _dequantize(w, w_dtype, dtype):
    whole = _dequantize_fake(w, w_dtype, dtype)
    if not whole.numel():
        return whole
    out = whole if _in_f32(whole) is whole else torch.empty_like(whole, dtype=torch.float32)
    rows = torch.arange(w.shape[0], dtype=torch.int32, device=w.device)
    _call("embed", [rows, _core.asarray(w, dtype=w_dtype)], {"out_dtype": out.dtype}, {"out": out})
    return whole if out is whole else whole.copy_(out)


def _dequantize_fake(w, w_dtype, dtype):
    elements, size = BLOCKS[w_dtype]
    return w.new_empty((*w.shape[:-1], w.shape[-1] // size * elements), dtype=dtype)


for _name, _real, _fake in (("rms_norm", _rms_norm, lambda x, weight, eps: x.new_empty(x.shape)),
                            ("rope", _rope, lambda x, positions, inv_freq, pairs, magnitude: x.new_empty(x.shape)),
                            ("linear", _linear, _linear_fake), ("quantize", _quantize, _quantize_fake),
                            ("dequantize", _dequantize, _dequantize_fake)):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _real, _key)
    torch.library.register_fake(f"gpu_accel::{_name}", _fake, lib=_library)


def _vmap_refused(name):
    def refuse(info, in_dims, *args):
        raise _core.UnsupportedError(f"{name}: torch.func.vmap; allowed are leading dimensions of the tensor")
    return refuse


for _name in ("rms_norm", "rope", "linear", "quantize", "dequantize"):
    torch.library.register_vmap(f"gpu_accel::{_name}", _vmap_refused(_name), lib=_library)
_ops = torch.ops.gpu_accel


class _RmsNorm(torch.autograd.Function):
    """Backward is PyTorch's arithmetic, in f32."""

    @staticmethod
    def forward(x, weight, eps):
        return _ops.rms_norm.default(x, weight, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.eps = inputs[2]

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        wide, dy = x.float(), dy.float()
        scale = (wide.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        normal = wide * scale
        inner = dy if weight is None else dy * weight
        dx = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True))
        return dx.to(x.dtype), None if weight is None else (dy * normal).reshape(-1, dy.shape[-1]).sum(0), None

    vmap = staticmethod(lambda info, in_dims, *args: _vmap_refused("rms_norm")(info, in_dims))


class _Rope(torch.autograd.Function):
    """The gradient is turned back."""

    @staticmethod
    def forward(x, positions, inv_freq, pairs, magnitude):
        return _ops.rope.default(x, positions, inv_freq, pairs, magnitude)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[1:3])
        ctx.options = inputs[3:]

    @staticmethod
    def backward(ctx, dy):
        positions, inv_freq = ctx.saved_tensors
        return _rope_by_function(dy, positions, -inv_freq, *ctx.options), None, None, None, None

    vmap = staticmethod(lambda info, in_dims, *args: _vmap_refused("rope")(info, in_dims))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(x, w, w_dtype, bias, act, scale):
        return _ops.linear.default(x, w, w_dtype, bias, act, scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, w_dtype, bias, act, scale = inputs
        ctx.save_for_backward(x, w, bias)
        ctx.options = w_dtype, act, scale

    @staticmethod
    def backward(ctx, dy):
        (x, w, bias), (w_dtype, act, scale) = ctx.saved_tensors, ctx.options
        dy = _plain_strides(dy)
        if act != "none":  # what went into the activation is computed again
            dy = _ACTS[act](dy, _linear_by_function(x, w, w_dtype, bias, "none", scale))
        rows, k = dy.reshape(-1, dy.shape[-1]), x.shape[-1]
        whole = _ops.dequantize.default(w, w_dtype, x.dtype) if w_dtype else w
        dx = _linear_by_function(rows, whole.t(), "", None, "none", scale).view(x.shape) if ctx.needs_input_grad[0] else None
        dw = None
        if ctx.needs_input_grad[1]:
            dw = _linear_by_function(rows.t(), x.reshape(-1, k).t(), "", None, "none", scale) if rows.shape[0] else torch.zeros_like(w)
        return dx, dw, None, rows.float().sum(0) if ctx.needs_input_grad[3] else None, None, None

    vmap = staticmethod(lambda info, in_dims, *args: _vmap_refused("linear")(info, in_dims))


_rms_norm_by_function, _rope_by_function, _linear_by_function = (
    _by_function(function, name) for function, name in ((_RmsNorm, "rms_norm"), (_Rope, "rope"), (_Linear, "linear")))


def _apply(by_function, op, *inputs):
    """By autograd where a gradient, a transform or the compiler may ask for it."""
    if torch.compiler.is_compiling() or _transforms_active() or (
            torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)):
        return by_function(*inputs)
    return op(*inputs)


def _check_layer(name, x, others, dims=1):
    refuse_tangents(name, x, *others.values())
    if x.device.type not in ("cpu", "cuda"):
        raise _core.UnsupportedError(f"{name}: x lies on {x.device.type}; allowed are cpu and cuda")
    if x.dtype not in (torch.float32, *_HALF):
        raise _core.DtypeError(f"{name}: x is {x.dtype}; allowed are float32, float16, bfloat16")
    if x.dim() < dims:
        raise _core.ShapeError(f"{name}: x has {x.dim()} dimensions; allowed are {dims} and more")
    for argument, other in others.items():
        if other is not None and other.device != x.device:
            raise _core.ArgumentError(f"{name}: {argument} lies on {other.device}; allowed is that of x, {x.device}")


def _autocast(*tensors):
    device = tensors[0].device.type
    return [x.to(torch.get_autocast_dtype(device)) for x in tensors] if torch.is_autocast_enabled(device) else tensors


def rms_norm(x, weight=None, *, eps=1e-5):
    """x [..., width] / sqrt(mean of squares + eps) * weight [width]. Gradients of x and weight. GA takes weights as f32:
    others are converted."""
    _check_layer("rms_norm", x, {"weight": weight})
    if weight is not None and weight.shape != x.shape[-1:]:
        raise _core.ShapeError(f"rms_norm: weight is {list(weight.shape)}; allowed is {list(x.shape[-1:])}")
    return _apply(_rms_norm_by_function, _ops.rms_norm.default, x, None if weight is None else weight.float(), float(eps))


def rope(x, positions, inv_freq, *, pairs="neox", magnitude=1.0):
    """x [..., tokens, heads, dim] with pairs of a head's elements turned by positions times inv_freq [rot_dim / 2] f32, as
    gpu_accel.rope_freqs makes them; a new tensor. positions: integers [tokens], or as x without its last two dimensions.
    pairs: 'neox' (i, i + rot_dim / 2) or 'norm' (2i, 2i + 1). Gradients of x."""
    _check_layer("rope", x, {"positions": positions, "inv_freq": inv_freq}, 3)
    if inv_freq.requires_grad and torch.is_grad_enabled():
        raise _core.UnsupportedError("rope: inv_freq wants a gradient; allowed is inv_freq.detach(), for x alone has one")
    if inv_freq.dtype != torch.float32 or inv_freq.dim() != 1 or 2 * inv_freq.shape[0] > x.shape[-1]:
        raise _core.ShapeError(f"rope: inv_freq is {inv_freq.dtype} {list(inv_freq.shape)}; allowed is float32 [at most {x.shape[-1] // 2}]")
    if positions.is_floating_point():
        raise _core.DtypeError(f"rope: positions is {positions.dtype}; allowed are integers")
    if pairs not in ("neox", "norm"):
        raise _core.ArgumentError(f"rope: pairs is {pairs!r}; allowed are 'neox', 'norm'")
    if not any(positions.dim() == len(allowed) and positions.shape == allowed for allowed in (x.shape[:-2], x.shape[-3:-2])):
        raise _core.ShapeError(f"rope: positions is {list(positions.shape)}; allowed are {list(x.shape[-3:-2])} and {list(x.shape[:-2])}")
    positions = positions.to(torch.int32).expand(x.shape[:-2]).contiguous()
    return _apply(_rope_by_function, _ops.rope.default, x, positions, inv_freq, pairs, float(magnitude))


def _linear_checked(name, x, w, w_dtype, k, bias, act, scale):
    act = "none" if act is None else act
    if act not in _ACTS:
        raise _core.ArgumentError(f"{name}: act is {act!r}; allowed are None, 'silu', 'gelu_tanh', 'gelu'")
    if x.shape[-1] != k:
        raise _core.ShapeError(f"{name}: x is {list(x.shape)}; allowed is [..., {k}] beside w {list(w.shape)}")
    if bias is not None and bias.shape != w.shape[:1]:
        raise _core.ShapeError(f"{name}: bias is {list(bias.shape)}; allowed is {list(w.shape[:1])}")
    return _apply(_linear_by_function, _ops.linear.default, x, w, w_dtype, None if bias is None else bias.float(), act, float(scale))


def linear(x, w, bias=None, *, act=None, scale=1.0):
    """act(scale * x @ w.T + bias): x [..., k], w [n, k] of one type, bias [n]. act: None, 'silu', 'gelu_tanh', 'gelu'.
    Gradients of x, w and bias. Under autocast x and w take its type. GA takes a bias as f32: others are converted."""
    _check_layer("linear", x, {"w": w, "bias": bias})
    x, w = _autocast(x, w)
    if w.dim() != 2 or w.dtype != x.dtype:
        raise _core.ShapeError(f"linear: w is {w.dtype} {list(w.shape)}; allowed is {x.dtype} [n, k]")
    return _linear_checked("linear", x, w, "", w.shape[1], bias, act, scale)


def _check_blocks(name, w, w_dtype):
    """Elements of a row of w, whose bytes are blocks."""
    elements, size = block_of(name, w_dtype)
    if w.dtype != torch.uint8 or w.dim() != 2 or w.shape[1] % size or not w.is_contiguous():
        raise _core.ShapeError(f"{name}: w is {w.dtype} {list(w.shape)}; allowed is uint8 [n, bytes], contiguous, {size} bytes for {elements} of k")
    return w.shape[1] // size * elements


def quantized_linear(x, w, w_dtype, bias=None, *, act=None, scale=1.0):
    """linear() with w uint8 [n, bytes]: rows of blocks of w_dtype ('q8_0', 'q4_k', ...), as quantize() and GGUF files have
    them. Gradients of x and bias; backward makes w plain once, in the type of x."""
    _check_layer("quantized_linear", x, {"w": w, "bias": bias})
    x, = _autocast(x)
    return _linear_checked("quantized_linear", x, w, w_dtype, _check_blocks("quantized_linear", w, w_dtype), bias, act, scale)


def quantize(w, w_dtype):
    """w [..., k], contiguous, as blocks of w_dtype: uint8 [..., bytes]. CPUs alone do this. Has no gradient."""
    elements, _ = block_of("quantize", w_dtype)
    _check_layer("quantize", w, {}, 2)
    if w.device.type != "cpu":
        raise _core.UnsupportedError(f"quantize: w lies on {w.device}; allowed is cpu")
    if not w.is_contiguous():
        raise _core.ShapeError(f"quantize: w is {list(w.shape)} of strides {list(w.stride())}; allowed is a contiguous tensor")
    if w.shape[-1] % elements:
        raise _core.ShapeError(f"quantize: w is {list(w.shape)}; allowed is [..., k], k a multiple of {elements}")
    return _ops.quantize.default(w.detach(), w_dtype)


def dequantize(w, w_dtype, dtype=torch.float32):
    """w uint8 [n, bytes], blocks of w_dtype, as [n, k] of dtype: float32, float16 or bfloat16."""
    if w.device.type not in ("cpu", "cuda"):
        raise _core.UnsupportedError(f"dequantize: w lies on {w.device.type}; allowed are cpu and cuda")
    _check_blocks("dequantize", w, w_dtype)
    if dtype not in (torch.float32, *_HALF):
        raise _core.DtypeError(f"dequantize: dtype is {dtype}; allowed are float32, float16, bfloat16")
    return _ops.dequantize.default(w, w_dtype, dtype)


# ---- behind torch's own name ----

_lock = threading.Lock()
_installed = []  # blocks that are open, of all threads; the last one serves
_torchs = None   # PyTorch's own function while one is open


def _serve():
    F = torch.nn.functional
    F.scaled_dot_product_attention = _installed[-1]._attend if _installed else _torchs


class install:
    """with install(): F.scaled_dot_product_attention is GA's within the block. fallback=True: calls that GA does not do go to
    PyTorch's; `fallbacks` counts them by reason, and `calls` those that GA did, but for compiled ones. Blocks may overlap, in threads too: the one
    opened last serves all, and PyTorch's is back when none is open."""

    def __init__(self, *, fallback=False):
        self.fallback, self.calls, self.fallbacks, self._torchs = fallback, 0, Counter(), None

    def __enter__(self):
        global _torchs
        with _lock:
            if self in _installed:
                raise _core.StateError("install: this one is in use; allowed is one block at a time")
            if not _installed:
                _torchs = torch.nn.functional.scaled_dot_product_attention
            self._torchs = _torchs  # kept after the block: a call of another thread may still be on its way
            _installed.append(self)
            _serve()
        return self

    def __exit__(self, *_):
        with _lock:
            _installed.remove(self)
            _serve()

    def _attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        try:
            key, value = _as_sdpa(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
            o = attention(query, key, value, causal=is_causal, scale=scale, layout="bhsd")
        except _core.UnsupportedError as error:
            if not self.fallback:
                raise
            self.fallbacks[str(error)] += 1
            return self._torchs(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
                                enable_gqa=enable_gqa)
        if not torch.compiler.is_compiling():  # a number that changes would be a graph a call
            self.calls += 1
        return o


def _check_layout(name, argument, x, query, key, enable_gqa):
    """Refuses what PyTorch broadcasts or copies."""
    if x.dim() != 4:
        raise _core.UnsupportedError(f"{name}: {argument} is of {x.dim()} dimensions; allowed are 4")
    heads = key.shape[1] if argument == "value" else query.shape[1]
    for bad, text in (  # texts are made where they are wanted: one with a length in it would be a graph a length
            (x.shape[0] != query.shape[0], lambda: f"of batch {x.shape[0]}; allowed is that of query, {query.shape[0]}"),
            (x.shape[1] != heads and 1 in (x.shape[1], heads) and not enable_gqa, lambda: f"of {x.shape[1]} heads beside {heads}; allowed is as many"),
            (x.shape[-1] > 1 and x.stride(-1) != 1, lambda: f"of stride {x.stride(-1)} in the last dimension; allowed is 1")):
        if bad:
            raise _core.UnsupportedError(f"{name}: {argument} is {text()}")


def _as_sdpa(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
    """Refuses what GA lacks. SDPA's causal mask begins at the first key, GA's ends at the last one: with more keys than
    queries those behind are cut off, which nobody sees."""
    name = "scaled_dot_product_attention"
    n_q, n_kv = query.shape[-2], key.shape[-2]
    for bad, text in (
            (attn_mask is not None, lambda: "attn_mask is a tensor; allowed is None"), (dropout_p > 0, lambda: f"dropout_p is {dropout_p}; allowed is 0"),
            (query.dim() != 4, lambda: f"query is of {query.dim()} dimensions; allowed is 4 dimensions"),
            (query.dtype not in (torch.float32, *_HALF), lambda: f"query is {query.dtype}; allowed is float32, float16, bfloat16"),
            (is_causal and n_q > n_kv, lambda: f"is_causal is True with {n_q} queries and {n_kv} keys; allowed is as many keys as queries or more")):
        if bad:
            raise _core.UnsupportedError(f"{name}: {text()}")
    for argument, x in (("query", query), ("key", key), ("value", value)):
        _check_layout(name, argument, x, query, key, enable_gqa)
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise _core.ShapeError(f"{name}: {query.shape[1]} heads of query, {key.shape[1]} of key; allowed with enable_gqa=True")
    return (key[:, :, :n_q], value[:, :, :n_q]) if is_causal else (key, value)
