"""A grid of attention cases on PyTorch's tensors, forward and backward. The error may be at most twice that of PyTorch in
the same type, or twice that of rounding the exact result to it, where that is more.

GA_TEST_TORCH_DEVICE: cpu (default), cuda, cuda:N. GA_TEST_GRID: how many cases are drawn, or `all`; 24 unless told.
Skipped where PyTorch is missing."""
import itertools
import os
import random
import unittest

import gpu_accel as ga

try:
    import torch

    import gpu_accel.torch as gt
except ImportError:
    torch = None

DEVICE = os.environ.get("GA_TEST_TORCH_DEVICE", "cpu")
CASES = os.environ.get("GA_TEST_GRID", "24")
DTYPES = ("bfloat16", "float16")
HEADS = ((6, 6), (6, 2), (6, 1))
DIMS = (64, 96, 128, 192, 256)
LENGTHS = ((1, 1), (1, 257), (2, 63), (5, 701), (61, 61), (97, 130), (128, 128), (129, 127), (255, 513), (321, 190), (512, 384),
           (777, 777), (1001, 1000), (640, 1537), (2048, 2048))
MASKS = ({}, {"causal": True}, {"causal": True, "window": 70})
SOFTCAPS = (0.0, 15.0)


def visible(n_q, n_k, causal=False, window=0, device="cpu"):
    """[q, k]: which keys a query sees."""
    at = torch.arange(n_q, device=device)[:, None] + n_k - n_q
    keys = torch.arange(n_k, device=device)[None]
    seen = torch.ones(n_q, n_k, dtype=torch.bool, device=device)
    if causal:
        seen &= keys <= at
    if window:
        seen &= keys > at - window
    return seen


def plain(q, k, v, softcap=0.0, **mask):
    """By the formula, in the type of q. [batch, tokens, heads, dim]; a query that sees no key gives 0."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    seen = visible(s.shape[2], s.shape[3], **mask, device=q.device)
    p = s.masked_fill(~seen, float("-inf")).softmax(-1).masked_fill(~seen.any(1)[:, None], 0.0)
    return (p @ v).transpose(1, 2)


def in_e4m3(x):
    """x [batch, tokens, heads, dim] rounded to e4m3 with a scale for each head."""
    scale = x.float().abs().amax((1, 3), keepdim=True).clamp(min=1e-30) / 448
    return (x.float() / scale).to(torch.float8_e4m3fn).float() * scale


def plain_e4m3(q, k, v, **mask):
    """By the formula with inputs and probabilities in e4m3, as PyTorch would round them."""
    q, k, v = (in_e4m3(x).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    seen = visible(s.shape[2], s.shape[3], **mask, device=q.device)
    s = s.masked_fill(~seen, float("-inf"))
    p = (s - s.amax(-1, keepdim=True)).exp()
    return ((p.to(torch.float8_e4m3fn).float() @ v) / p.sum(-1, keepdim=True)).transpose(1, 2)


FP8_CASES = tuple(itertools.product(((4, 4), (4, 1)), (64, 128, 256), ((1, 129), (63, 63), (128, 200)), ({}, {"causal": True})))


def check_fp8(test, attend, cases, draw):
    """attend(q, k, v, causal) in e4m3, quantiser included: the error is at most twice that of PyTorch's arithmetic in e4m3."""
    for (heads, kv_heads), dim, (n_q, n_k), mask in cases:
        with test.subTest((heads, kv_heads, dim, n_q, n_k, mask)):
            q, k, v = draw("bfloat16", (1, n_q, heads, dim), (1, n_k, kv_heads, dim), (1, n_k, kv_heads, dim))
            ours = attend(q, k, v, mask.get("causal", False))
            exact = plain(*(x.double() for x in (q, k, v)), **mask)
            error = lambda x: (x.double() - exact).abs().max().item()
            test.assertLessEqual(error(ours), 2 * error(plain_e4m3(q, k, v, **mask)))


def grid():
    cases = list(itertools.product(DTYPES, HEADS, DIMS, LENGTHS, MASKS, SOFTCAPS))
    if CASES == "all":
        return cases
    if DEVICE == "cpu":  # which is slow
        cases = [c for c in cases if c[3][0] * c[3][1] * c[2] <= 2**24]
    return random.Random(3).sample(cases, int(CASES))


@unittest.skipIf(torch is None, "torch is missing")
class Grid(unittest.TestCase):
    def setUp(self):
        if DEVICE.startswith("cuda") and not torch.cuda.is_available():
            self.skipTest(f"no GPU for GA_TEST_TORCH_DEVICE={DEVICE}")
        torch.manual_seed(17)
        torch.backends.cuda.matmul.allow_tf32 = False

    def draw(self, dtype, *shapes, spread=1.0):
        return [(spread * torch.randn(s, device=DEVICE)).to(getattr(torch, dtype)) for s in shapes]

    def within(self, what, ours, theirs, exact):
        for name, a, b, c in zip(("o", "dq", "dk", "dv"), ours, theirs, exact):
            self.assertIs(a.dtype, b.dtype, what)
            if not c.numel():
                continue
            error = lambda x: (x.double() - c).abs().max().item()
            self.assertLessEqual(error(a), 2 * max(error(b), error(c.to(a.dtype))) + 1e-7, f"{name} of {what}")  # f32 of sums that cancel

    def results(self, call, inputs, dout):
        """o, dq, dk, dv."""
        inputs = [x.detach().requires_grad_() for x in inputs]
        o = call(*inputs)
        return (o.detach(), *torch.autograd.grad(o, inputs, dout.to(o.dtype)))

    def check(self, what, inputs, ours, right, dout):
        self.within(what, self.results(ours, inputs, dout), self.results(right, inputs, dout), self.results(right, [x.double() for x in inputs], dout))

    def test_grid(self):
        for case in grid():
            dtype, (heads, kv_heads), dim, (n_q, n_k), mask, softcap = case
            with self.subTest(case):
                inputs = self.draw(dtype, (2, n_q, heads, dim), (2, n_k, kv_heads, dim), (2, n_k, kv_heads, dim), spread=3.0 if softcap else 1.0)
                dout, = self.draw(dtype, (2, n_q, heads, dim))
                self.check(case, inputs, lambda q, k, v: gt.attention(q, k, v, softcap=softcap, **mask),
                           lambda q, k, v: plain(q, k, v, softcap, **mask), dout)

    def test_packed(self):
        """Sequences of any lengths in one call, some empty."""
        for dtype, dim, mask, lengths in (("bfloat16", 128, {"causal": True}, (33, 0, 190, 1, 64)), ("float16", 64, {}, (5, 129, 0, 77)),
                                          ("bfloat16", 64, {"causal": True, "window": 20}, (300, 7, 128))):
            with self.subTest((dtype, dim, mask)):
                borders = [0, *itertools.accumulate(lengths)]
                q, k, v, dout = self.draw(dtype, *((borders[-1], n, dim) for n in (6, 2, 2, 6)))
                start = torch.tensor(borders, dtype=torch.int32, device=DEVICE)
                packed = {"q_start": start, "kv_start": start, "max_q": max(lengths), "max_kv": max(lengths)}

                def right(q, k, v):
                    return torch.cat([plain(q[None, a:b], k[None, a:b], v[None, a:b], **mask)[0] for a, b in itertools.pairwise(borders)])
                self.check((dtype, dim, mask), (q, k, v), lambda *x: gt.attention(*x, **packed, **mask), right, dout)

    def test_paged(self):
        """A cache of pages in any order, by the name of flash-attn."""
        dtype = "float32" if DEVICE == "cpu" else "bfloat16"  # the types that a CPU's rows take
        for size, n_q, lengths, options in ((16, 1, (1, 100, 63), {}), (64, 4, (64, 130, 5), {}), (16, 5, (40, 77, 200), {"window_size": (30, 0)}),
                                            (32, 1, (9, 300, 31), {"softcap": 15.0})):
            with self.subTest((size, n_q, lengths, options)):
                width = -(-max(lengths) // size)
                table = torch.randperm(3 * width)[: 3 * width].reshape(3, width)
                q, k, v = self.draw(dtype, (3, n_q, 6, 64), (3 * width, size, 2, 64), (3 * width, size, 2, 64))
                seen = torch.from_dlpack(ga.flash_attn_with_kvcache(q, k, v, cache_seqlens=list(lengths), block_table=table.tolist(), causal=True, **options))
                mask = {"causal": True, "window": options["window_size"][0] + 1 if "window_size" in options else 0}
                whole = [[x[table[i]].flatten(0, 1)[None, :n] for x in (k, v)] for i, n in enumerate(lengths)]
                right = lambda cast: torch.cat([plain(cast(q[i : i + 1]), cast(a), cast(b), options.get("softcap", 0.0), **mask) for i, (a, b) in enumerate(whole)])
                self.within((size, n_q, lengths), [seen], [right(lambda x: x)], [right(torch.Tensor.double)])

    def test_fp8(self):
        cases = FP8_CASES if DEVICE != "cpu" else [c for c in FP8_CASES if c[1] * c[2][0] * c[2][1] < 2**20]  # device ref is slow
        attention = ga.FlashAttention3("fp8")
        draw = self.draw if DEVICE != "cpu" else lambda _, *shapes: [x.float() for x in self.draw("bfloat16", *shapes)]
        check_fp8(self, lambda q, k, v, causal: attention.forward(q, k, v, causal=causal), cases, draw)

    def test_deterministic(self):
        for dtype in DTYPES:
            for mask in MASKS:
                inputs = self.draw(dtype, (2, 333, 6, 64), (2, 333, 2, 64), (2, 333, 2, 64))
                dout, = self.draw(dtype, (2, 333, 6, 64))
                first, second = (self.results(lambda *x: gt.attention(*x, deterministic=True, **mask), inputs, dout) for _ in range(2))
                for a, b in zip(first, second):
                    self.assertTrue(torch.equal(a, b), (dtype, mask))


if __name__ == "__main__":
    unittest.main()
