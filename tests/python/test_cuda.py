"""Python on an NVIDIA GPU: streams, graphs, PyTorch's operators and JAX. Skipped where there is no GPU or no framework."""
import unittest

import gpu_accel as ga

try:
    import torch

    import gpu_accel.torch as gt
    TORCH = torch.cuda.is_available()
except ImportError:
    TORCH = False
try:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import gpu_accel.jax as gj
    JAX = bool(jax.devices("gpu"))
except (ImportError, RuntimeError):
    JAX = False


@unittest.skipUnless(TORCH, "no PyTorch with a GPU")
class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.context = ga.default_context("cuda:0")

    def draw(self, *shapes, dtype=None, grad=False):
        return [torch.randn(s, device="cuda").to(dtype or torch.bfloat16).requires_grad_(grad) for s in shapes]

    def test_stream(self):
        """Work goes behind what the stream has, and the call does not wait for it."""
        q, k, v = self.draw((2, 256, 4, 64), (2, 256, 2, 64), (2, 256, 2, 64))
        a, = self.draw((4096, 4096))
        wanted = torch.from_dlpack(self.context.attention(q, k, v, causal=True)).clone()
        late, out, side = torch.zeros_like(q), torch.zeros_like(q), torch.cuda.Stream()
        self.context.attention(late, k, v, causal=True, out=out, stream=side.cuda_stream)
        side.synchronize()
        with torch.cuda.stream(side):
            for _ in range(60):  # milliseconds of work
                a = a @ a * 0.01
            late.copy_(q)
            self.context.attention(late, k, v, causal=True, out=out, stream=side.cuda_stream)
            self.assertFalse(side.query())
        side.synchronize()
        self.assertTrue(torch.equal(out, wanted))
        with torch.cuda.stream(side):
            seen = gt.attention(q, k, v, causal=True)
        side.synchronize()
        self.assertTrue(torch.equal(seen, wanted))

    def test_graph_of_plans(self):
        q, k, v, other = self.draw((2, 256, 4, 64), (2, 256, 2, 64), (2, 256, 2, 64), (2, 256, 4, 64))
        out = torch.empty_like(q)
        plan = self.context.plan("attention", q, k, v, causal=True, out=out)
        workspace = torch.empty(max(plan.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
        run = lambda: plan.run(q, k, v, causal=True, out=out, workspace=workspace, stream=torch.cuda.current_stream().cuda_stream)
        run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        q.copy_(other)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(out, torch.from_dlpack(self.context.attention(other, k, v, causal=True))))

    def test_graph_of_operators(self):
        """A replayed graph equals eager bit by bit, forward and backward."""
        for options in ({"causal": True}, {"causal": True, "window": 65}, {"softcap": 20.0}):
            inputs = self.draw((2, 200, 4, 64), (2, 200, 2, 64), (2, 200, 2, 64), grad=True)
            dout, = self.draw((2, 200, 4, 64))

            def step():
                o = gt.attention(*inputs, deterministic=True, **options)
                return o, *torch.autograd.grad(o, inputs, dout)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = step()
            with torch.no_grad():
                for x in inputs:
                    x.copy_(torch.randn_like(x))
            graph.replay()
            torch.cuda.synchronize()
            for seen, wanted in zip([x.detach().clone() for x in made], step()):
                self.assertTrue(torch.equal(seen, wanted), options)

    def test_opcheck_and_compile(self):
        q, k, v = self.draw((2, 5, 4, 64), (2, 7, 2, 64), (2, 7, 2, 64), grad=True)
        args = (q.detach(), k.detach(), v.detach(), None, None, None, 5, 7, True, 0, 0.125, 0.0)
        torch.library.opcheck(torch.ops.gpu_accel.attention.default, args)
        compiled = torch.compile(lambda *x: gt.attention(*x, causal=True) * 2, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v), gt.attention(q, k, v, causal=True) * 2))

    def test_names(self):
        q, k, v = self.draw((2, 64, 4, 64), (2, 64, 2, 64), (2, 64, 2, 64))
        seen = torch.from_dlpack(ga.flash_attn_func(q, k, v, causal=True))
        self.assertEqual(seen.device.type, "cuda")
        self.assertTrue(torch.equal(seen, gt.attention(q, k, v, causal=True)))

    def test_layers(self):
        """Values and gradients near PyTorch's, and a graph of all of them equals eager."""
        F = torch.nn.functional
        x, w, weight, bias = self.draw((2, 40, 4, 64), (128, 64), (64,), (128,), grad=True)
        at, freq = torch.arange(40, device="cuda"), torch.from_dlpack(ga.rope_freqs(64)[0]).cuda()
        cases = ((lambda: gt.rms_norm(x, weight), lambda: F.rms_norm(x, (64,), weight, 1e-5), (x, weight)),
                 (lambda: gt.linear(x, w, bias, act="silu"), lambda: F.silu(F.linear(x, w, bias)), (x, w, bias)))
        for call, right, inputs in cases:
            ours, theirs = call(), right()
            torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)
            dout = torch.randn_like(ours)
            for a, b in zip(torch.autograd.grad(ours, inputs, dout), torch.autograd.grad(theirs, inputs, dout)):
                self.assertLess((a.float() - b.float()).norm() / b.float().norm(), 0.02)
        whole = w.detach().float().cpu()
        blocks = gt.quantize(whole, "q8_0")
        self.assertTrue(torch.equal(gt.dequantize(blocks.cuda(), "q8_0").cpu(), gt.dequantize(blocks, "q8_0")))
        seen = gt.quantized_linear(x, blocks.cuda(), "q8_0")
        self.assertLess((seen.float() - F.linear(x.float(), whole.cuda())).norm() / seen.float().norm(), 0.02)
        self.assertIsNotNone(torch.autograd.grad(seen.sum(), x)[0])
        run = lambda: (gt.rope(gt.rms_norm(x, weight), at, freq), gt.linear(x, w, bias, act="gelu"), gt.quantized_linear(x, blocks_there, "q8_0"))
        blocks_there = blocks.cuda()
        with torch.no_grad():
            for _ in range(2):
                run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = run()
            x.copy_(torch.randn_like(x))
            graph.replay()
            torch.cuda.synchronize()
            for a, b in zip([y.clone() for y in made], run()):
                self.assertTrue(torch.equal(a, b))

    def test_refused(self):
        q, k, v = self.draw((1, 8, 2, 64), (1, 8, 2, 64), (1, 8, 2, 64))
        with self.assertRaisesRegex(ga.ArgumentError, "attention: k lies on cpu; allowed is that of q, cuda:0"):
            gt.attention(q, k.cpu(), v)
        graph = torch.cuda.CUDAGraph()
        out = torch.empty_like(q)
        self.context.attention(q, k, v, out=out, stream=torch.cuda.current_stream().cuda_stream)
        with torch.cuda.graph(graph), self.assertRaises(ga.StateError):
            self.context.attention(q, k, v, stream=torch.cuda.current_stream().cuda_stream)  # memory for the result


@unittest.skipUnless(JAX, "no JAX with a GPU")
class Jax(unittest.TestCase):
    def draw(self, *shapes):
        return [jax.random.normal(key, s).astype("bfloat16") for key, s in zip(jax.random.split(jax.random.key(5), len(shapes)), shapes)]

    def gradients(self, call, inputs, weights):
        return jax.grad(lambda *x: (call(*x).astype("float32") * weights).sum(), tuple(range(len(inputs))))(*inputs)

    def error(self, a, b):
        a, b = (np.asarray(x, "f8") for x in (a, b))
        return np.sqrt(np.square(a - b).mean())

    def test_attention(self):
        """At most twice the error of jax.nn in the same type; jit equals eager, and layers in a scan equal calls."""
        q, k, v, weights = self.draw((2, 200, 4, 64), (2, 200, 2, 64), (2, 200, 2, 64), (2, 200, 4, 64))
        weights = weights.astype("float32")
        with jax.default_matmul_precision("highest"):
            theirs = lambda *x: jax.nn.dot_product_attention(*x, is_causal=True)
            wide = [x.astype("float32") for x in (q, k, v)]
            right = (theirs(*wide), *self.gradients(theirs, wide, weights))
        ours = lambda *x: gj.attention(*x, causal=True)
        for a, b, c in zip((ours(q, k, v), *self.gradients(ours, (q, k, v), weights)), (theirs(q, k, v), *self.gradients(theirs, (q, k, v), weights)), right):
            self.assertEqual(a.dtype, jnp.bfloat16)
            self.assertLess(self.error(a, c), 2 * self.error(b, c))
        np.testing.assert_array_equal(jax.jit(ours)(q, k, v), ours(q, k, v))
        scanned = jax.jit(lambda q: jax.lax.scan(lambda x, _: (ours(x, k, v), None), q, None, length=3)[0])(q)
        np.testing.assert_array_equal(scanned, ours(ours(ours(q, k, v), k, v), k, v))

    def test_products(self):
        x, w = self.draw((33, 256), (64, 256))
        wide = [np.asarray(a, "f8") for a in (x, w)]
        self.assertLess(self.error(gj.gemm(x, w), wide[0] @ wide[1].T), 0.05)
        for a, b in zip(self.gradients(gj.gemm, (x, w), 1.0), (np.broadcast_to(wide[1].sum(0), x.shape), np.broadcast_to(wide[0].sum(0), w.shape))):
            self.assertLess(self.error(a, b), 0.05)
        blocks = jnp.asarray(np.asarray(ga.quantize(np.asarray(w, "f4"), "q8_0").bytes()))
        self.assertLess(self.error(gj.dequantize(blocks, "q8_0"), wide[1]), 0.02)
        self.assertLess(self.error(jax.jit(lambda x: gj.quantized_gemm(x, blocks, "q8_0"))(x), wide[0] @ wide[1].T), 0.3)


if __name__ == "__main__":
    unittest.main()
