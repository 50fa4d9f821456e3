"""PyTorch on an NVIDIA GPU: streams, graphs, operators. Skipped where there is no GPU or no PyTorch."""
import unittest

import gpu_accel as ga

try:
    import torch

    import gpu_accel.torch as gt
    TORCH = torch.cuda.is_available()
except ImportError:
    TORCH = False


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
        with torch.cuda.stream(side):  # the names of flash-attn do not wait either
            for _ in range(60):
                a = a @ a * 0.01
            seen = ga.flash_attn_func(q, k, v, causal=True)
            self.assertFalse(side.query())
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


if __name__ == "__main__":
    unittest.main()
