"""A grid of attention cases on PyTorch's tensors, forward and backward. The error may be at most twice that of PyTorch in
the same type, or twice that of rounding the exact result to it, where that is more. FlashAttention-3's own rule
(hopper/test_flash_attn.py) allows the sum of the two, with the rounding of x + 0.3 - 0.3: all cases keep that one. In the
whole grid one result of a thousand may miss the first: it has some 10 000 maxima of random errors.

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


# In 8 bits. FlashAttention-3 tests these by its own rule (hopper/test_flash_attn.py, test_util.py): its inputs are e4m3 values times
# scales, and the exact result is that of these values, so that their rounding is nobody's error. The other side is PyTorch in bf16 with
# probabilities in e4m3. Allowed is twice its error and twice the rounding of out + 0.3 - 0.3 in bf16. Probabilities of a row that are
# divided by their sum at last, as kernels do, lose less in e4m3: the smaller error of the two ways counts here, which is stricter.
FP8_CASES = tuple(itertools.product(((4, 4), (4, 1)), (64, 128, 256), ((1, 129), (63, 63), (128, 200)), ({}, {"causal": True})))


def in_8_bits(x, values=False):
    """x [batch, tokens, heads, dim] as the CPU's quantiser rounds it, in f64: q and k after the Hadamard transform, which leaves q k^T."""
    cpu = ga.default_context("cpu")
    y, scale = cpu.attn_quant(ga.asarray(x), "values") if values else cpu.attn_quant(ga.asarray(x), "rows", "e4m3", hadamard=True)
    y = torch.from_dlpack(cpu.convert(y, "f32")).double()
    if values:  # [batch, heads, dim, tokens]: of 16 tokens, 8 b + 2 q + e stands at 4 q + 2 b + e
        at = torch.arange(y.shape[3])
        y = y[..., at // 16 * 16 + at % 8 // 2 * 4 + at % 16 // 8 * 2 + at % 2].permute(0, 3, 1, 2)
    n = x.shape[1]
    return y[:, :n] * torch.from_dlpack(scale).double().repeat_interleave(128, 2)[:, :, :n].transpose(1, 2)[..., None]


def plain_e4m3(q, k, v, divide_last, causal=False):
    """By the formula in bf16, probabilities rounded to e4m3."""
    q, k, v = (x.bfloat16().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ (k * q.shape[-1] ** -0.5).transpose(2, 3)
    s = s.masked_fill(~visible(s.shape[2], s.shape[3], causal=causal), float("-inf"))
    p = (s - s.amax(-1, keepdim=True)).exp() if divide_last else s.softmax(-1)
    o = p.to(torch.float8_e4m3fn).bfloat16() @ v
    return (o / p.sum(-1, keepdim=True) if divide_last else o).transpose(1, 2)


def check_fp8(test, attend, cases):
    """attend(q, k, v, causal) takes bf16 on the CPU and rounds by itself."""
    for (heads, kv_heads), dim, (n_q, n_k), mask in cases:
        with test.subTest((heads, kv_heads, dim, n_q, n_k, mask)):
            q, k, v = (torch.randn(1, n, h, dim).bfloat16() for n, h in ((n_q, heads), (n_k, kv_heads), (n_k, kv_heads)))
            rounded = in_8_bits(q), in_8_bits(k), in_8_bits(v, True)
            exact = plain(*rounded, **mask)
            half = exact.bfloat16()
            error = lambda x: (x.double() - exact).abs().max().item()
            allowed = 2 * min(error(plain_e4m3(*rounded, late, **mask)) for late in (False, True)) + 2 * (half + 0.3 - 0.3 - half).abs().max().item()
            test.assertLessEqual(error(attend(q, k, v, mask.get("causal", False)).cpu()), allowed)
            # What was rounded is q, k and v: half of e4m3's step, 1/16 of a value, or a step of 2^-9 of the scale where that is more.
            test.assertLessEqual(((rounded[2] - v).abs() / (v.abs().double() / 16).clamp(min=v.abs().max().item() / 448 / 1024)).max().item(), 1.001)


def check_seqused(rules):
    """Packed sequences that have fewer keys than lie between their borders: unused ones are NaN, and have gradients of 0."""
    q_lengths, kv_lengths, used = (33, 1, 40, 5), (50, 70, 40, 9), (33, 64, 40, 7)
    q_at, kv_at = ([0, *itertools.accumulate(lengths)] for lengths in (q_lengths, kv_lengths))
    of = lambda numbers: torch.tensor(numbers, dtype=torch.int32, device=DEVICE)
    for dtype, heads, dim in (("bfloat16", (4, 2), 64), ("float16", (2, 2), 128)):
        for mask in ({}, {"causal": True}):
            with rules.subTest(dtype=dtype, heads=heads, dim=dim, **mask):
                q, k, v, dout = rules.draw(dtype, *((n, h, dim) for n, h in ((q_at[-1], heads[0]), (kv_at[-1], heads[1]), (kv_at[-1], heads[1]), (q_at[-1], heads[0]))))
                for begin, end, n in zip(kv_at, kv_at[1:], used):
                    k[begin + n:end] = v[begin + n:end] = float("nan")
                part = lambda q, k, v, i: plain(q[None, q_at[i]:q_at[i + 1]], *(x[None, kv_at[i]:kv_at[i] + used[i]] for x in (k, v)), **mask)[0]
                rules.check("seqused", (q, k, v), lambda *x: gt.attention(*x, q_start=of(q_at), kv_start=of(kv_at), max_q=40, max_kv=70, kv_len=of(used), **mask),
                            lambda *x: torch.cat([part(*x, i) for i in range(len(used))]), dout)


def grid():
    cases = list(itertools.product(DTYPES, HEADS, DIMS, LENGTHS, MASKS, SOFTCAPS))
    if CASES == "all":
        return cases
    if DEVICE == "cpu":  # which is slow
        cases = [c for c in cases if c[3][0] * c[3][1] * c[2] <= 2**24]
    return random.Random(3).sample(cases, int(CASES))


@unittest.skipIf(torch is None, "torch is missing")
class Grid(unittest.TestCase):
    results_seen, missed = 0, ()

    def setUp(self):
        if DEVICE.startswith("cuda") and not torch.cuda.is_available():
            self.skipTest(f"no GPU for GA_TEST_TORCH_DEVICE={DEVICE}")
        torch.manual_seed(17)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.missed = []

    def tearDown(self):
        for line in self.missed:
            print(line)
        self.assertLessEqual(len(self.missed), self.results_seen / 1000)

    def test_seqused(self):
        check_seqused(self)

    def draw(self, dtype, *shapes, spread=1.0):
        return [(spread * torch.randn(s, device=DEVICE)).to(getattr(torch, dtype)) for s in shapes]

    def within(self, what, ours, theirs, exact):
        for name, a, b, c in zip(("o", "dq", "dk", "dv"), ours, theirs, exact):
            self.assertIs(a.dtype, b.dtype, what)
            if not c.numel():
                continue
            error = lambda x: (x.double() - c).abs().max().item()
            rounded = c.to(a.dtype)
            found, allowed = error(a), 2 * max(error(b), error(rounded)) + 1e-7  # f32 of sums that cancel
            self.results_seen += 1
            if CASES != "all":
                self.assertLessEqual(found, allowed, f"{name} of {what}")
            elif found > allowed:
                self.missed.append(f"{name} of {what}: {found:.3g}, {allowed:.3g} allowed")
            self.assertLessEqual(found, 2 * error(b) + 2 * ((rounded + 0.3 - 0.3) - rounded).abs().max().item() + 1e-7, f"{name} of {what}")

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
        check_fp8(self, lambda q, k, v, causal: attention.forward(*(x.to(DEVICE) for x in (q, k, v)), causal=causal), cases)

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
