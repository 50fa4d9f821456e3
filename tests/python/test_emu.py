"""The grid of test_grid.py at small sizes on an emulated GPU, through the same Python: PyTorch's tensors of the CPU, computed by
Context('emu'). GA_TEST_GRID: how many cases are drawn, 24 unless told. Skipped where PyTorch is missing."""
import itertools
import random
import unittest

import gpu_accel as ga

try:
    import torch

    import gpu_accel.torch as gt
    import test_grid
except ImportError:
    torch = None

LENGTHS = ((1, 1), (1, 70), (2, 63), (61, 61), (97, 130), (129, 127))


class Mirror:
    """Context('emu') for tensors of the CPU: an emulated GPU has memory of its own, so a call's tensors are copied there with their
    strides, and its results back."""
    device = "emu"

    def __init__(self):
        self.context = ga.Context("emu")

    def there(self, x):
        if not isinstance(x, torch.Tensor):
            return x
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        return torch.from_dlpack(self.context.to_device(whole)).as_strided(x.shape, x.stride(), x.storage_offset())

    def __getattr__(self, op):
        def call(*tensors, **options):
            moved = {name: self.there(x) for name, x in options.items()}
            getattr(self.context, op)(*(self.there(x) for x in tensors), **moved)
            for name, x in options.items():
                if name.startswith("out") and x is not None:
                    x.copy_(moved[name])
        return call


def cases():
    every = list(itertools.product(test_grid.DTYPES, test_grid.HEADS, test_grid.DIMS, LENGTHS, test_grid.MASKS, test_grid.SOFTCAPS))
    every = [c for c in every if c[3][0] * c[3][1] * c[2] <= 2**20]
    return every if test_grid.CASES == "all" else random.Random(5).sample(every, int(test_grid.CASES))


@unittest.skipIf(torch is None, "torch is missing")
class Emulated(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(17)
        self.context = Mirror()
        self.rules = test_grid.Grid("test_grid")
        self.rules.setUp()

    def test_grid(self):
        for case in cases():
            dtype, (heads, kv_heads), dim, (n_q, n_k), mask, softcap = case
            with self.subTest(case), gt.using(self.context):
                inputs = self.rules.draw(dtype, (1, n_q, heads, dim), (1, n_k, kv_heads, dim), (1, n_k, kv_heads, dim), spread=3.0 if softcap else 1.0)
                dout, = self.rules.draw(dtype, (1, n_q, heads, dim))
                self.rules.check(case, inputs, lambda q, k, v: gt.attention(q, k, v, softcap=softcap, **mask),
                                 lambda q, k, v: test_grid.plain(q, k, v, softcap, **mask), dout)

    def test_packed(self):
        lengths, mask = (33, 0, 40, 1), {"causal": True}
        borders = [0, *itertools.accumulate(lengths)]
        start = torch.tensor(borders, dtype=torch.int32)
        q, k, v, dout = self.rules.draw("bfloat16", *((borders[-1], n, 64) for n in (4, 2, 2, 4)))
        right = lambda q, k, v: torch.cat([test_grid.plain(q[None, a:b], k[None, a:b], v[None, a:b], **mask)[0] for a, b in itertools.pairwise(borders)])
        with gt.using(self.context):
            self.rules.check("packed", (q, k, v), lambda *x: gt.attention(*x, q_start=start, kv_start=start, max_q=40, max_kv=40, **mask), right, dout)

    def test_seqused(self):
        with gt.using(self.context):
            test_grid.check_seqused(self.rules)

    def test_paged(self):
        table, lengths = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32), torch.tensor([70, 33], dtype=torch.int32)
        q, k, v = self.rules.draw("bfloat16", (2, 1, 4, 64), (4, 64, 2, 64), (4, 64, 2, 64))
        seen = torch.from_dlpack(self.context.context.attention(*map(self.context.there, (q, k, v)), page_table=self.context.there(table),
                                                               kv_len=self.context.there(lengths), causal=True))
        for i, n in enumerate(lengths.tolist()):
            whole = [x[table[i].long()].flatten(0, 1)[None, :n] for x in (k, v)]
            ask = lambda cast: test_grid.plain(cast(q[i:i + 1]), *map(cast, whole), causal=True)
            self.rules.within(("paged", n), [seen[i:i + 1]], [ask(lambda x: x)], [ask(torch.Tensor.double)])

    def test_fp8(self):
        attention = ga.FlashAttention3("fp8")

        def attend(q, k, v, causal):
            there = (ga.asarray(self.context.there(x)) for x in (q, k, v))
            return torch.from_dlpack(attention._in_8_bits(self.context.context, *there, causal, None, {}))
        test_grid.check_fp8(self, attend, [c for c in test_grid.FP8_CASES if c[2][0] < 100])
        self.assertIn("emu", attention.used)


if __name__ == "__main__":
    unittest.main()
