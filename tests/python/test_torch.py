"""Operators and gradients on PyTorch, over the CPU. Skipped where PyTorch is missing."""
import sys
import threading
import unittest

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
        names, call = [], gt._call

        def record(op, tensors, options, out):
            context = gt._context.get()
            names.append((op, context and context.device))
            return call(op, tensors, options, out)

        def in_thread(function):
            thread = threading.Thread(target=function)
            thread.start()
            thread.join()
        q, = self.draw((1, 3, 2, 8), grad=True)
        gt._call = record
        try:
            with gt.using(ga.Context("ref")):
                o = gt.attention(q, q, q)
                in_thread(lambda: gt.attention(q, q, q))
            in_thread(lambda: o.sum().backward())
        finally:
            gt._call = call
        self.assertEqual(names, [("attention", "ref"), ("attention", None), ("attention_backward", "ref")])

    def test_autocast(self):
        q, k, v = self.draw((1, 5, 2, 16), (1, 5, 2, 16), (1, 5, 2, 16), grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            o = gt.attention(q, k, v)
        self.assertIs(o.dtype, torch.bfloat16)
        o.float().sum().backward()
        self.assertIs(q.grad.dtype, torch.float32)

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
