"""Operators and gradients on PyTorch, over the CPU. Skipped where PyTorch is missing."""
import contextlib
import sys
import threading
import unittest
from unittest import mock

import gpu_accel as ga

try:
    import torch
    import torch.nn.functional as F

    import gpu_accel.torch as gt
except ImportError:
    torch = None


def plain(q, k, v, causal=False, window=0, scale=None, softcap=0.0, sinks=None):
    """By the formula, in double. [batch, tokens, heads, dim]."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    at = torch.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2]
    keys = torch.arange(s.shape[3])[None]
    if causal:
        s = s.masked_fill(keys > at, float("-inf"))
    if window:
        s = s.masked_fill(keys <= at - window, float("-inf"))
    if sinks is not None:
        s = torch.cat([s, sinks.double()[None, :, None, None].expand(*s.shape[:3], 1)], 3)
    p = s.softmax(-1)[..., : k.shape[2]]
    return (p @ v).transpose(1, 2)


@unittest.skipIf(torch is None, "torch is missing")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def draw(self, *shapes, dtype=None, grad=False):
        return [torch.randn(s, dtype=dtype or torch.float32).requires_grad_(grad) for s in shapes]

    def close(self, seen, wanted, tolerance=2e-5):
        torch.testing.assert_close(seen.double(), wanted.double(), rtol=tolerance, atol=tolerance)

    def args(self, q, k, v, sinks=None, **options):
        o = {"causal": True, "window": 0, "scale": 0.25, "softcap": 0.0} | options
        return (q, k, v, sinks, None, None, q.shape[1], k.shape[1], o["causal"], o["window"], o["scale"], o["softcap"])

    def test_values_and_gradients(self):
        for options in ({}, {"causal": True}, {"causal": True, "window": 3}, {"softcap": 2.0, "scale": 0.6}, {"causal": True, "sinks": 1}):
            q, k, v, sinks = self.draw((2, 7, 4, 16), (2, 9, 2, 16), (2, 9, 2, 8), (4,), grad=True)
            if "sinks" in options:
                options["sinks"] = sinks
            inputs = [q, k, v] + ([sinks] if "sinks" in options else [])
            o = gt.attention(q, k, v, **options)
            wanted = plain(q, k, v, **options)
            self.close(o, wanted)
            weights = torch.randn_like(o)
            grads = torch.autograd.grad(o, inputs, weights)
            for seen, right in zip(grads, torch.autograd.grad(wanted, inputs, weights.double())):
                self.close(seen, right)
        gt.attention(q, k, v).sum().backward()  # a gradient whose strides are 0
        self.assertEqual(q.grad.shape, q.shape)

    def test_exchange_table(self):
        """Tensors come in by their type's table of C functions where torch has one, and nothing is copied."""
        if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            self.skipTest("this torch has no __dlpack_c_exchange_api__")

        class Tensor(torch.Tensor):
            def __dlpack__(self, **_):
                raise AssertionError("by the method")
        x = torch.arange(6.0).as_subclass(Tensor)
        ga.default_context().add(x, x, out=x)
        self.assertEqual(x.tolist(), [0, 2, 4, 6, 8, 10])
        self.assertEqual(memoryview(ga.add(torch.nn.Parameter(torch.ones(2)))).tolist(), [1, 1])
        with self.assertRaisesRegex(ga.ShapeError, "stride of dimension 1 is 2|contiguous"):
            ga.softmax(torch.ones(3, 4)[:, ::2])
        with self.assertRaisesRegex(ga.DtypeError, "DLPack code"):
            ga.add(torch.ones(2, dtype=torch.complex64))
        with self.assertRaises((ga.Error, BufferError, RuntimeError)):
            ga.add(torch.ones(2, device="meta"))
        before = sys.getrefcount(x)
        for _ in range(1000):
            ga.default_context().add(x, x, out=x)
        self.assertEqual(sys.getrefcount(x), before)

    def test_layout_and_strides(self):
        q, k, v = self.draw((2, 4, 6, 16), (2, 2, 6, 16), (2, 2, 6, 16), grad=True)
        o = gt.attention(q, k, v, layout="bhsd", causal=True)
        self.close(o, plain(*(x.transpose(1, 2) for x in (q, k, v)), causal=True).transpose(1, 2))
        o.sum().backward()
        self.assertEqual(q.grad.stride(), q.stride())
        with self.assertRaisesRegex(ga.ShapeError, "attention: q: .*contiguous along its last dimension"):
            gt.attention(*(torch.randn(1, 4, 2, 32)[..., ::2] for _ in range(3)))

    def test_packed(self):
        q, k, v = self.draw((10, 4, 16), (10, 2, 16), (10, 2, 16), grad=True)
        start = torch.tensor([0, 3, 10], dtype=torch.int32)
        o = gt.attention(q, k, v, causal=True, q_start=start, kv_start=start, max_q=7, max_kv=7)
        wanted = torch.cat([plain(q[None, a:b], k[None, a:b], v[None, a:b], causal=True)[0] for a, b in ((0, 3), (3, 10))])
        self.close(o, wanted)
        weights = torch.randn_like(o)
        for seen, right in zip(torch.autograd.grad(o, (q, k, v), weights), torch.autograd.grad(wanted, (q, k, v), weights.double())):
            self.close(seen, right)

    def test_seqused(self):
        """Values and gradients, called plainly and by operators; rows of keys that are not used are NaN and have gradients of 0."""
        q, k, v = self.draw((8, 4, 16), (11, 2, 16), (11, 2, 16), grad=True)
        start, kv_start, used = (torch.tensor(x, dtype=torch.int32) for x in ([0, 3, 8], [0, 4, 11], [3, 6]))
        wanted = torch.cat([plain(q[None, a:b], k[None, c:d], v[None, c:d], causal=True)[0] for a, b, c, d in ((0, 3, 0, 3), (3, 8, 4, 10))])
        weights = torch.randn(wanted.shape)
        right = torch.autograd.grad(wanted, (q, k, v), weights.double())
        for x in (k, v):
            x.data[[3, 10]] = float("nan")
        for dtype in (torch.float32, torch.bfloat16):
            for how in (contextlib.nullcontext, torch.profiler.profile):
                with self.subTest(dtype=dtype, how=how), how():
                    mine = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
                    o = ga.flash_attn_varlen_func(*mine, start, kv_start, 5, 7, causal=True, seqused_k=used)
                    bound = 2e-5 if dtype is torch.float32 else 0.05
                    self.close(o, wanted, bound)
                    for seen, better in zip(torch.autograd.grad(o, mine, weights.to(dtype)), right):
                        self.close(seen, better, bound)
        with self.assertRaisesRegex(ga.ArgumentError, "attention: kv_len without q_start"):
            gt.attention(q[None], k[None], v[None], kv_len=used)
        with self.assertRaisesRegex(ga.ArgumentError, "kv_len: sequence 1 has 8; allowed are 0 to its keys, 7"):
            gt.attention(q, k, v, q_start=start, kv_start=kv_start, max_q=5, max_kv=7, kv_len=torch.tensor([2, 8], dtype=torch.int32))

    def test_half_types(self):
        """At most twice the error of PyTorch in the same type."""
        for dtype in (torch.bfloat16, torch.float16):
            q, k, v = self.draw((1, 33, 4, 32), (1, 33, 2, 32), (1, 33, 2, 32), dtype=dtype, grad=True)
            wanted = plain(q, k, v, causal=True)
            weights = torch.randn(wanted.shape)
            right = torch.autograd.grad(wanted, (q, k, v), weights.double())
            theirs = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True, enable_gqa=True).transpose(1, 2)
            ours = gt.attention(q, k, v, causal=True)
            self.assertIs(ours.dtype, dtype)
            error = lambda a, b: (a.double() - b.double()).square().mean().sqrt()
            self.assertLess(error(ours, wanted), 2 * error(theirs, wanted))
            for a, b, c in zip(torch.autograd.grad(ours, (q, k, v), weights.to(dtype)),
                               torch.autograd.grad(theirs, (q, k, v), weights.to(dtype)), right):
                self.assertLess(error(a, c), 2 * error(b, c))

    def test_opcheck(self):
        q, k, v, sinks = self.draw((2, 5, 4, 16), (2, 7, 2, 16), (2, 7, 2, 8), (4,))
        for s in (None, sinks):
            args = self.args(q, k, v, s)
            torch.library.opcheck(torch.ops.gpu_accel.attention.default, args)
            o, lse = torch.ops.gpu_accel.attention(*args)
            torch.library.opcheck(torch.ops.gpu_accel.attention_backward.default,
                                  (torch.randn_like(o), q, k, v, o, lse, *args[3:], True))

    def test_gradcheck(self):
        """Over the reference device, which takes f32 and adds in double: the bounds are those of f32 differences."""
        q, k, v, sinks = self.draw((1, 3, 2, 4), (1, 4, 1, 4), (1, 4, 1, 4), (2,), grad=True)
        with gt.using(ga.Context("ref")):
            call = lambda *x: gt.attention(*x[:3], causal=True, softcap=3.0, sinks=x[3])
            self.assertTrue(torch.autograd.gradcheck(call, (q, k, v, sinks), eps=1e-2, atol=2e-3, rtol=2e-3))

    def test_compile(self):
        q, k, v = self.draw((2, 5, 4, 16), (2, 5, 2, 16), (2, 5, 2, 16), grad=True)

        def layer(q, k, v):
            return gt.attention(q * 2, k, v, causal=True, window=3).relu()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        self.close(compiled(q, k, v), layer(q, k, v), 0)
        seen = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
        for a, b in zip(seen, torch.autograd.grad(layer(q, k, v).sum(), (q, k, v))):
            self.close(a, b, 1e-6)

    def test_install(self):
        q, k, v = self.draw((2, 4, 6, 16), (2, 4, 9, 16), (2, 4, 9, 16))
        with gt.install() as ours:
            for options in ({}, {"is_causal": True}, {"scale": 0.3}):
                seen = F.scaled_dot_product_attention(q, k, v, **options)
                self.close(seen, ours._torchs(q, k, v, **options))
            self.close(F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
                       ours._torchs(q, k[:, :2], v[:, :2], enable_gqa=True))
            self.assertEqual((ours.calls, len(ours.fallbacks)), (4, 0))
            mask = torch.ones(6, 9, dtype=torch.bool)
            for argument, options in (("attn_mask", {"attn_mask": mask}), ("dropout_p", {"dropout_p": 0.1})):
                with self.assertRaisesRegex(ga.UnsupportedError, f"scaled_dot_product_attention: {argument} is"):
                    F.scaled_dot_product_attention(q, k, v, **options)
            with self.assertRaisesRegex(ga.UnsupportedError, "True with 9 queries and 6 keys"):
                F.scaled_dot_product_attention(k, q, q, is_causal=True)
            with self.assertRaisesRegex(ga.ShapeError, "allowed with enable_gqa=True"):
                F.scaled_dot_product_attention(q, k[:, :2], v[:, :2])
        with gt.install(fallback=True) as ours:
            self.close(F.scaled_dot_product_attention(q, k, v, attn_mask=mask), plain(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2))
            self.assertEqual((ours.calls, sum(ours.fallbacks.values())), (0, 1))
        self.assertNotIn("gpu_accel", F.scaled_dot_product_attention.__module__ or "")

    def test_install_overlaps(self):
        """Blocks that close in the order in which they were opened, as those of two threads may."""
        torchs = F.scaled_dot_product_attention
        q, = self.draw((1, 2, 4, 8))
        first, second = gt.install(), gt.install()
        try:
            first.__enter__(), second.__enter__()
            with self.assertRaisesRegex(ga.StateError, "in use"):
                first.__enter__()
            first.__exit__()
            F.scaled_dot_product_attention(q, q, q)
            self.assertEqual((first.calls, second.calls), (0, 1))
            second.__exit__()
            self.assertIs(F.scaled_dot_product_attention, torchs)
        finally:
            F.scaled_dot_product_attention = torchs

    def test_fallback_of_layouts(self):
        """Layouts that PyTorch takes and GA does not go to PyTorch, and are counted."""
        x, = self.draw((2, 4, 6, 8))
        turned = x.transpose(2, 3).contiguous().transpose(2, 3)
        wide = x[..., :1].expand_as(x)
        cases = {"query is of stride 6 in the last": (turned, x, x), "value is of stride 0 in the last": (x, x, wide),
                 "key is of batch 1": (x, x[:1], x[:1]), "key is of 1 heads beside 4": (x, x[:, :1], x[:, :1]),
                 "key is of 3 dimensions": (x, x[0], x[0])}
        for text, args in cases.items():
            with self.subTest(text):
                with gt.install(), self.assertRaisesRegex(ga.UnsupportedError, text):
                    F.scaled_dot_product_attention(*args)
                with gt.install(fallback=True) as ours:
                    seen = F.scaled_dot_product_attention(*args)
                self.close(seen, F.scaled_dot_product_attention(*args), 0)
                self.assertEqual((ours.calls, sum(ours.fallbacks.values())), (0, 1))

    def test_using_and_threads(self):
        """A block is its thread's own; backward has the context of forward, in whichever thread and after the block."""
        names, context = [], ga.Context("ref")

        class Recorder:
            device = "ref"

            def __getattr__(self, op):
                names.append(op)
                return getattr(context, op)

        def in_thread(function):
            thread = threading.Thread(target=function)
            thread.start()
            thread.join()
        q, = self.draw((1, 3, 2, 8), grad=True)
        with gt.using(Recorder()):
            o = gt.attention(q, q, q)
            in_thread(lambda: gt.attention(q, q, q))
        in_thread(lambda: o.sum().backward())
        self.assertEqual(names, ["attention", "attention_backward"])  # that of the other thread is not the block's

    def test_plain_calls(self):
        """Those that enter C at once are equal to the operator's, with their strides; modes and profiles see the operator."""
        q, k, v = self.draw((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8), grad=True)
        dout, = self.draw((2, 5, 4, 8))
        with torch.profiler.profile() as profile:
            gt.attention(q, k, v)
        self.assertIn("gpu_accel::attention", {event.key for event in profile.key_averages()})
        for layout, inputs, d in (("bshd", (q, k, v), dout), ("bhsd", tuple(x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)),
                                                                dout.transpose(1, 2))):
            results = []
            for plain in (True, False):
                with contextlib.nullcontext() if plain else mock.patch.object(gt, "_is_plain", lambda *x: False):
                    o, lse = gt.attention(*inputs, causal=True, layout=layout, return_lse=True)
                    alone = gt.attention(*inputs, causal=True, layout=layout)
                    results.append((o, lse, alone, *torch.autograd.grad(o, inputs, d)))
            for a, b in zip(*results):
                self.assertTrue(torch.equal(a, b))
                self.assertEqual(a.stride(), b.stride())
        with self.assertRaisesRegex(ga.UnsupportedError, "second derivatives"):
            first, = torch.autograd.grad(gt.attention(q, k, v).sum(), q, create_graph=True)
            first.sum().backward()
        negative = torch.complex(torch.zeros(2, 7, 2, 8), v.detach()).conj().imag
        self.assertTrue(negative.is_neg())
        self.assertTrue(torch.equal(gt.attention(q, k, negative), gt.attention(q, k, -v)))

    def test_autocast(self):
        q, k, v = self.draw((1, 5, 2, 16), (1, 5, 2, 16), (1, 5, 2, 16), grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            o = gt.attention(q, k, v)
        self.assertIs(o.dtype, torch.bfloat16)
        o.float().sum().backward()
        self.assertIs(q.grad.dtype, torch.float32)

    def test_layer_values_and_gradients(self):
        """Norm, rope and products beside PyTorch's formulas, with first and second derivatives."""
        x, w, weight, bias = self.draw((2, 3, 4, 16), (8, 16), (16,), (8,), grad=True)
        at = torch.tensor([5, 0, 9])
        freq = torch.from_dlpack(ga.rope_freqs(8)[0])
        angle = (at[:, None] * freq)[:, None].double()

        def turned(x, pairs):
            x, rest = x.double()[..., :8], x.double()[..., 8:]
            a, b = x.chunk(2, -1) if pairs == "neox" else (x[..., ::2], x[..., 1::2])
            both = a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()
            return torch.cat([torch.cat(both, -1) if pairs == "neox" else torch.stack(both, -1).flatten(-2), rest], -1)
        acts = {None: lambda z: z, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda z: F.gelu(z, approximate="tanh")}
        cases = {"norm": (lambda: gt.rms_norm(x, weight, eps=1e-3), lambda: F.rms_norm(x.double(), (16,), weight.double(), 1e-3), (x, weight)),
                 "neox": (lambda: gt.rope(x, at, freq), lambda: turned(x, "neox"), (x,)),
                 "pairs": (lambda: gt.rope(x, at.expand(2, 3), freq, pairs="norm"), lambda: turned(x, "norm"), (x,))}
        for act, function in acts.items():
            cases[f"linear {act}"] = (lambda act=act: gt.linear(x, w, bias, act=act, scale=0.5),
                                      lambda f=function: f(0.5 * F.linear(x.double(), w.double()) + bias.double()), (x, w, bias))
        for name, (call, right, inputs) in cases.items():
            with self.subTest(name):
                seen, wanted = call(), right()
                self.close(seen, wanted)
                weights = torch.randn_like(seen)
                once = [torch.autograd.grad(y, inputs, weights.to(y.dtype), create_graph=True) for y in (seen, wanted)]
                for a, b in zip(*once):
                    self.close(a, b, 5e-5)
                if name not in ("neox", "pairs"):
                    for a, b in zip(*(torch.autograd.grad(sum(g.square().sum() for g in grads), x) for grads in once)):
                        self.close(a, b, 5e-4)

    def test_layer_half_types(self):
        for dtype in (torch.bfloat16, torch.float16):
            x, w, weight = self.draw((5, 64), (8, 64), (64,), dtype=dtype, grad=True)
            for ours, theirs in ((gt.linear(x, w), F.linear(x, w)), (gt.rms_norm(x, weight), F.rms_norm(x, (64,), weight, 1e-5))):
                self.assertIs(ours.dtype, dtype)
                self.close(ours, theirs, 0.02)
                for a, b in zip(torch.autograd.grad(ours.sum(), x), torch.autograd.grad(theirs.sum(), x)):
                    self.assertIs(a.dtype, dtype)
                    self.close(a, b, 0.05)

    def test_layers_of_a_vector_and_of_nothing(self):
        """x [k], and no rows at all: gradients of weights are zeros then."""
        w = torch.randn(5, 8, requires_grad=True)
        for x in (torch.randn(8), torch.empty(0, 8)):
            for ours, theirs in ((lambda x, w: gt.linear(x, w), F.linear),
                                 (lambda x, w: gt.rms_norm(x, w[0]), lambda x, w: F.rms_norm(x, (8,), w[0], 1e-5))):
                grads = []
                for call in (ours, theirs):
                    y = call(x, w)
                    grads.append(torch.autograd.grad(y.sum(), w)[0])
                torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)

    def test_quantized(self):
        x, bias = self.draw((3, 64), (8,), grad=True)
        w, = self.draw((8, 64))
        for w_dtype in ("q8_0", "q4_0"):
            blocks = gt.quantize(w, w_dtype)
            self.assertEqual(blocks.tolist(), torch.from_dlpack(ga.quantize(w, w_dtype).bytes()).reshape(blocks.shape).tolist())
            whole = gt.dequantize(blocks, w_dtype)
            ours, theirs = gt.quantized_linear(x, blocks, w_dtype, bias, act="silu"), F.silu(F.linear(x, whole, bias))
            self.close(ours, theirs, 0.03)  # x is rounded to 8 bits, too
            for a, b in zip(torch.autograd.grad(ours.sum(), (x, bias)), torch.autograd.grad(theirs.sum(), (x, bias))):
                self.close(a, b, 0.05)
        self.assertIs(gt.dequantize(blocks, "q4_0", torch.bfloat16).dtype, torch.bfloat16)

    def test_layer_opcheck_and_compile(self):
        x, w, weight, bias = self.draw((2, 3, 4, 32), (8, 32), (32,), (8,))
        at, freq = torch.arange(6, dtype=torch.int32).reshape(2, 3), torch.ones(16)
        blocks, ops = gt.quantize(w, "q4_0"), torch.ops.gpu_accel
        for op, args in ((ops.rms_norm, (x, weight, 1e-5)), (ops.rope, (x, at, freq, "neox", 1.0)), (ops.linear, (x, w, "", bias, "silu", 1.0)),
                         (ops.linear, (x, blocks, "q4_0", None, "none", 1.0)), (ops.quantize, (w, "q4_0")),
                         (ops.dequantize, (blocks, "q4_0", torch.float16))):
            torch.library.opcheck(op.default, args)

        def layer(x, w, weight):
            return gt.rope(gt.rms_norm(x, weight), at, freq).sum(-1), gt.linear(x, w, act="gelu"), gt.quantized_linear(x, blocks, "q4_0")
        inputs = [a.requires_grad_() for a in (x, w, weight)]
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        for a, b in zip(compiled(*inputs), layer(*inputs)):
            self.close(a, b, 0)
        total = lambda outs: sum(o.square().sum() for o in outs)
        for a, b in zip(torch.autograd.grad(total(compiled(*inputs)), inputs), torch.autograd.grad(total(layer(*inputs)), inputs)):
            self.close(a, b, 1e-5)

    def test_layer_refused(self):
        x, w = self.draw((2, 3, 16), (8, 16))
        at, freq = torch.arange(2), torch.ones(8)
        for error, text, call in (
                (ga.ShapeError, r"linear: x is \[2, 3, 16\]; allowed is \[..., 4\] beside w \[8, 4\]", lambda: gt.linear(x, w[:, :4])),
                (ga.ShapeError, r"linear: w is torch.bfloat16 \[8, 16\]; allowed is torch.float32 \[n, k\]", lambda: gt.linear(x, w.bfloat16())),
                (ga.ArgumentError, "linear: act is 'relu'; allowed are None", lambda: gt.linear(x, w, act="relu")),
                (ga.ShapeError, r"linear: bias is \[3\]; allowed is \[8\]", lambda: gt.linear(x, w, torch.ones(3))),
                (ga.ShapeError, r"rms_norm: weight is \[8\]; allowed is \[16\]", lambda: gt.rms_norm(x, freq)),
                (ga.DtypeError, "rms_norm: x is torch.float64; allowed are float32", lambda: gt.rms_norm(x.double())),
                (ga.ShapeError, r"rope: positions is \[5\]; allowed are \[2\]", lambda: gt.rope(x, torch.arange(5), freq)),
                (ga.UnsupportedError, "rope: inv_freq wants a gradient; allowed is", lambda: gt.rope(x, at, freq.clone().requires_grad_())),
                (ga.ShapeError, r"rope: inv_freq is torch.float64 \[\d+\]; allowed is float32", lambda: gt.rope(x, at, freq.double())),
                (ga.DtypeError, "rope: positions is torch.float32; allowed are integers", lambda: gt.rope(x, at.float(), freq)),
                (ga.ShapeError, "quantize: w is .* of strides .*; allowed is a contiguous", lambda: gt.quantize(torch.randn(32, 32).t(), "q4_0")),
                (ga.UnsupportedError, "dequantize: w lies on meta; allowed are", lambda: gt.dequantize(torch.empty(2, 18, dtype=torch.uint8, device="meta"), "q4_0")),
                (ga.DtypeError, "dequantize: dtype is torch.int32; allowed are", lambda: gt.dequantize(torch.zeros(2, 18, dtype=torch.uint8), "q4_0", torch.int32)),
                (ga.ArgumentError, "rope: pairs is 'gptj'; allowed are", lambda: gt.rope(x, at, freq, pairs="gptj")),
                (ga.UnsupportedError, "linear: x lies on meta", lambda: gt.linear(x.to("meta"), w)),
                (ga.UnsupportedError, "linear: torch.func.vmap", lambda: torch.func.vmap(lambda a: gt.linear(a, w))(x)),
                (ga.DtypeError, "w_dtype is 'f32'; allowed are types of blocks", lambda: gt.quantized_linear(x, w, "f32")),
                (ga.ShapeError, "uint8 .*, 18 bytes for 32 of k", lambda: gt.quantized_linear(x, w, "q4_0"))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_refused(self):
        q, k, v = self.draw((1, 5, 2, 16), (1, 5, 2, 16), (1, 5, 2, 16), grad=True)
        with self.assertRaisesRegex(ga.UnsupportedError, "attention: torch.func.vmap"):
            torch.func.vmap(lambda x: gt.attention(x, x, x))(torch.randn(3, 1, 5, 2, 16))
        dq, = torch.autograd.grad(gt.attention(q, k, v).sum(), q, create_graph=True)
        with self.assertRaisesRegex(ga.UnsupportedError, "second derivatives"):
            dq.sum().backward()
        with self.assertRaises(ga.Error):
            gt.attention(*(x.double() for x in (q, k, v)))
        with self.assertRaisesRegex(ga.UnsupportedError, "q lies on meta"):
            gt.attention(*(x.to("meta") for x in (q, k, v)))


if __name__ == "__main__":
    unittest.main()
