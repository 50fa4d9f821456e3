"""What PyTorch does with operators besides calling them: padding in training, forward-mode differentiation, torch.func, torch.compile
and torch.export. Skipped where PyTorch is missing."""
import unittest

import gpu_accel as ga

try:
    import torch
    import torch.autograd.forward_ad as forward_ad

    import gpu_accel.torch as gt
except ImportError:
    torch = None


def dirty_memory(*sizes):
    """Leaves NaN in the blocks that torch hands out next."""
    del [torch.full((n,), float("nan")) for n in sizes * 64][:]


@unittest.skipIf(torch is None, "torch is missing")
class Padding(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_training(self):
        """12 rows, borders 0, 4, 9: zeros behind them in o and in gradients, plainly, by operators and with used keys."""
        start = torch.tensor([0, 4, 9], dtype=torch.int32)
        used = torch.tensor([3, 5], dtype=torch.int32)
        for kv_len in (None, used):
            for dtype in (torch.float32, torch.bfloat16):
                for profiled in (False, True):
                    with self.subTest(kv_len=kv_len, dtype=dtype, profiled=profiled):
                        q, k, v = (torch.randn(12, 4, 32, dtype=dtype, requires_grad=True) for _ in range(3))
                        dirty_memory(384, 768, 1536)
                        with torch.profiler.profile() if profiled else torch.enable_grad():
                            o = ga.flash_attn_varlen_func(q, k, v, start, start, 5, 5, causal=True, seqused_k=kv_len)
                            dirty_memory(384, 768, 1536)
                            o[:9].sum().backward()
                        self.assertFalse(o[9:].any() or not o.isfinite().all())
                        for x in (q, k, v):
                            self.assertTrue(x.grad.isfinite().all())
                            self.assertFalse(x.grad[9:].any())
                        if kv_len is not None:
                            self.assertFalse(k.grad[3].any() or v.grad[3].any())

    def test_no_sequence_has_rows(self):
        q = torch.randn(6, 2, 8, requires_grad=True)
        start = torch.zeros(3, dtype=torch.int32)
        dirty_memory(96)
        o = gt.attention(q, q, q, q_start=start, kv_start=start, max_q=0, max_kv=0)
        o.sum().backward()
        self.assertFalse(o.any() or q.grad.any())

    def test_refused_borders(self):
        q = torch.randn(9, 2, 8)
        for borders in ([2, 9], [0, 5, 4], [0, 10]):
            start = torch.tensor(borders, dtype=torch.int32)
            with self.assertRaisesRegex(ga.ArgumentError, "border"):
                gt.attention(q, q, q, q_start=start, kv_start=start, max_q=10, max_kv=10)


@unittest.skipIf(torch is None, "torch is missing")
class Transforms(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.x, self.tangent = torch.randn(1, 5, 2, 8), torch.randn(1, 5, 2, 8)
        start = torch.tensor([0, 5], dtype=torch.int32)
        weight = gt.quantize(torch.randn(6, 32), "q8_0") if torch else None
        slopes = torch.ones(2)
        self.calls = {
            "attention": lambda y: gt.attention(y, y, y),
            "packed": lambda y: gt.attention(y[0], y[0], y[0], q_start=start, kv_start=start, max_q=5, max_kv=5),
            "rms_norm": gt.rms_norm, "rope": lambda y: gt.rope(y, torch.arange(5), torch.ones(4)),
            "linear": lambda y: gt.linear(y, torch.eye(8), act="silu"),
            "quantized_linear": lambda y: gt.quantized_linear(y.reshape(5, 16).repeat(1, 2), weight, "q8_0"),
            "flash": lambda y: ga.flash_attn_func(y, y, y), "alibi": lambda y: ga.flash_attn_func(y, y, y, causal=True, alibi_slopes=slopes)}

    def test_forward_mode(self):
        """Refused by name: a tangent never vanishes."""
        operators = torch.ops.gpu_accel
        calls = self.calls | {
            "cache": lambda y: ga.flash_attn_with_kvcache(y, y, y), "quantize": lambda y: gt.quantize(y.reshape(-1, 16).repeat(2, 2), "q8_0"),
            "operator attention": lambda y: operators.attention(y, y, y, None, None, None, 5, 5, False, 0, 0.3, 0.0)[0],
            "operator rms_norm": lambda y: operators.rms_norm(y, None, 1e-5), "operator linear": lambda y: operators.linear(y, torch.eye(8), "", None, "none", 1.0),
            "operator rope": lambda y: operators.rope(y, torch.arange(5, dtype=torch.int32), torch.ones(4), "neox", 1.0)}
        for name, call in calls.items():
            for wants_grad in (False, True):
                with self.subTest(name, wants_grad=wants_grad), forward_ad.dual_level():
                    with self.assertRaisesRegex(ga.UnsupportedError, "forward-mode differentiation|alibi_slopes with gradients"):
                        call(forward_ad.make_dual(self.x.clone().requires_grad_(wants_grad), self.tangent))
        for name, call in self.calls.items():
            if name == "alibi":  # no operator of PyTorch's
                continue
            for how in (lambda: torch.func.jvp(call, (self.x,), (self.tangent,)), lambda: torch.func.jacfwd(call)(self.x),
                        lambda: torch.autograd.functional.jacobian(call, self.x, strategy="forward-mode", vectorize=True)):
                with self.subTest(name), self.assertRaisesRegex(ga.UnsupportedError, "forward-mode differentiation"):
                    how()
        with forward_ad.dual_level():  # no tangent, no complaint
            for name, call in self.calls.items():
                call(self.x)

    def test_func(self):
        """torch.func's gradients, and Jacobians by many gradients at once, are autograd's."""
        for name, call in self.calls.items():
            if name == "alibi":
                continue
            with self.subTest(name):
                loss = lambda y: call(y).square().sum()
                x = self.x.clone().requires_grad_()
                wanted, = torch.autograd.grad(loss(x), x)
                torch.testing.assert_close(torch.func.grad(loss)(self.x), wanted)
                torch.testing.assert_close(torch.func.vjp(loss, self.x)[1](torch.tensor(1.0))[0], wanted)
                jacobian = torch.autograd.functional.jacobian
                torch.testing.assert_close(jacobian(call, self.x, vectorize=True), jacobian(call, self.x))
        with self.assertRaisesRegex(ga.UnsupportedError, "attention: torch.func.vmap"):
            torch.func.jacrev(self.calls["attention"])(self.x)
        with self.assertRaisesRegex(ga.UnsupportedError, "attention: second derivatives"):
            torch.func.grad(lambda y: torch.func.grad(lambda z: self.calls["attention"](z).square().sum())(y).sum())(self.x)


@unittest.skipIf(torch is None, "torch is missing")
class Numbers(unittest.TestCase):
    def test_scale_of_zero(self):
        """As PyTorch has it: equal weights, plainly, by operators and in gradients."""
        import torch.nn.functional as F
        q, k, v = (torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(3))
        wanted = F.scaled_dot_product_attention(q, k, v, scale=0.0)
        grads = torch.autograd.grad(wanted.square().sum(), (q, k, v))
        for profiled in (False, True):
            with torch.profiler.profile() if profiled else torch.enable_grad(), gt.install() as ours:
                o = F.scaled_dot_product_attention(q, k, v, scale=0.0)
                self.assertEqual(ours.calls, 1)
                torch.testing.assert_close(o, wanted)
                for seen, right in zip(torch.autograd.grad(o.square().sum(), (q, k, v)), grads):
                    torch.testing.assert_close(seen, right)

    def test_cache_lengths(self):
        q, new = torch.randn(2, 1, 2, 8), torch.ones(2, 1, 2, 8)
        for lengths in (torch.tensor([-1, 2]), torch.tensor([-1, 2], dtype=torch.int32), -1, torch.tensor([9, 0]), torch.tensor([0.5, 1])):
            cache = torch.zeros(2, 8, 2, 8)
            with self.subTest(lengths=lengths), self.assertRaisesRegex(ga.Error, "cache_seqlens"):
                ga.flash_attn_with_kvcache(q, cache, cache.clone(), new, new, cache_seqlens=lengths)
            self.assertFalse(cache.any())
        cache = torch.randn(2, 8, 2, 8)
        wanted = ga.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=torch.tensor([3, 3]))
        import numpy
        for length in (3, numpy.int64(3), torch.tensor(3), [3, 3]):
            torch.testing.assert_close(ga.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=length), wanted)

    def test_packed_arguments(self):
        qkv = torch.randn(2, 6, 3, 4, 16, requires_grad=True)
        o = ga.flash_attn_qkvpacked_func(qkv, causal=True)
        wanted = ga.flash_attn_func(*qkv.unbind(2), causal=True)
        torch.testing.assert_close(o, wanted)
        torch.testing.assert_close(torch.autograd.grad(o.square().sum(), qkv), torch.autograd.grad(wanted.square().sum(), qkv))


@unittest.skipIf(torch is None, "torch is missing")
class Compiled(unittest.TestCase):
    def graphs(self, call, lengths, draw, backend="eager"):
        """How many graphs these lengths take; results are compared."""
        from torch._dynamo.testing import CompileCounterWithBackend
        torch._dynamo.reset()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(call, dynamic=True, backend=counter, fullgraph=True)
        for n in lengths:
            inputs = draw(n)
            torch.testing.assert_close(compiled(*inputs), call(*inputs))
        return counter.frame_count

    def test_lengths(self):
        start = lambda n: torch.tensor([0, 2, n], dtype=torch.int32)
        # A length that equals another size is a graph of its own for torch: sizes differ here.
        plain, packed = lambda n: (torch.randn(2, n, 4, 16),), lambda n: (torch.randn(n, 4, 16), start(n), n)
        for name, call, draw in (
                ("attention", lambda q: gt.attention(q, q, q, causal=True), plain),
                ("bhsd", lambda q: gt.attention(*[q.transpose(1, 2)] * 3, causal=True, layout="bhsd"), plain),
                ("flash", lambda q: ga.flash_attn_func(q, q, q, causal=True), plain),
                ("window", lambda q: ga.flash_attn_func(q, q, q, causal=True, window_size=(q.shape[1] // 2, 0)), plain),
                ("packed", lambda q, c, n: gt.attention(q, q, q, q_start=c, kv_start=c, max_q=n, max_kv=n), packed),
                ("varlen", lambda q, c, n: ga.flash_attn_varlen_func(q, q, q, c, c, n, n, causal=True), packed),
                ("rope", lambda q: gt.rope(q, torch.arange(q.shape[1]), torch.ones(8)), plain), ("rms_norm", gt.rms_norm, plain),
                ("linear", lambda q: gt.linear(q, torch.eye(16)), plain)):
            with self.subTest(name):
                self.assertEqual(self.graphs(call, range(5, 13), draw), 1)

    def test_install(self):
        import torch.nn.functional as F
        with gt.install():
            self.assertEqual(self.graphs(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), range(5, 12), lambda n: (torch.randn(2, 4, n, 16),)), 1)

    def test_gradients(self):
        """In one graph too, the same tensor thrice included."""
        call = lambda q: gt.attention(q, q, q, causal=True)
        compiled = torch.compile(call, dynamic=True, backend="aot_eager", fullgraph=True)
        for n in (5, 6, 7):
            x, y = (torch.randn(2, n, 4, 16, generator=torch.Generator().manual_seed(n)).requires_grad_() for _ in range(2))
            compiled(x).square().sum().backward()
            call(y).square().sum().backward()
            torch.testing.assert_close(x.grad, y.grad)

    def test_export(self):
        start = torch.tensor([0, 3, 8], dtype=torch.int32)
        size = torch.export.Dim("n", min=2, max=64)
        for name, call, inputs, shapes in (
                ("attention", lambda q: gt.attention(q, q, q), (torch.randn(2, 5, 4, 16),), ({1: size},)),
                ("batch", lambda q: gt.attention(q, q, q), (torch.randn(2, 5, 4, 16),), ({0: size},)),
                ("varlen", lambda q, c: ga.flash_attn_varlen_func(q, q, q, c, c, 64, 64), (torch.randn(8, 4, 16), start), ({0: size}, None)),
                ("rope", lambda q: gt.rope(q, torch.arange(q.shape[1]), torch.ones(8)), (torch.randn(2, 5, 4, 16),), ({1: size},)),
                ("sequences", lambda q, c: gt.attention(q, q, q, q_start=c, kv_start=c, max_q=64, max_kv=64), (torch.randn(8, 4, 16), start),
                 ({0: size}, {0: torch.export.Dim("sequences", min=3, max=9)})),
                ("rms_norm", gt.rms_norm, (torch.randn(2, 5, 16),), ({1: size},)),
                ("linear", lambda q: gt.linear(q, torch.eye(16)), (torch.randn(2, 5, 16),), ({1: size},))):
            with self.subTest(name):
                class Module(torch.nn.Module):
                    def forward(self, q, c=None):
                        return call(q) if c is None else call(q, c)
                if len(inputs) == 1:
                    shapes = (*shapes, None)[:1]
                program = torch.export.export(Module(), inputs, dynamic_shapes=shapes)
                torch.testing.assert_close(program.module()(*inputs), call(*inputs))
                if name == "attention":
                    longer = torch.randn(2, 9, 4, 16)
                    torch.testing.assert_close(program.module()(longer), call(longer))


if __name__ == "__main__":
    unittest.main()
