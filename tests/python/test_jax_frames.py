"""The handlers of gpu_accel.jax on a CPU, called with frames as XLA makes them: results, and what is refused. Needs no JAX."""
import ctypes
import unittest

import xla_frame

F32, U8, S32 = 11, 6, 4
OPTIONS = dict(xt=0, wt=0, act=0, scale=1.0, bias=0)


def floats(*values):
    return (ctypes.c_float * len(values))(*values)


class Frames(unittest.TestCase):
    def setUp(self):
        self.xla = xla_frame.Xla()

    def buffer(self, data, *shape, dtype=F32):
        self.xla.kept.append(data)
        return xla_frame.buffer(dtype, ctypes.addressof(data), *shape)

    def call(self, name, arguments, results, **options):
        return self.xla.call(xla_frame.handler(f"gpu_accel_{name}", "cpu"), arguments, results, **options)

    def gemm(self, x, w, y, *more, **options):
        return self.call("gemm", [x, w, *more], [y], **OPTIONS | options)

    def test_gemm(self):
        """Plain, both transposed, with a bias and a scale; a batch of two."""
        x, w, y = floats(1, 2, 3, 4, 5, 6), floats(1, 0, 2, 0, 1, 1), floats(*[9] * 4)
        self.assertIsNone(self.gemm(self.buffer(x, 2, 3), self.buffer(w, 2, 3), self.buffer(y, 2, 2)), self.xla.said)
        self.assertEqual(list(y), [7, 5, 16, 11])
        xt, wt = floats(1, 4, 2, 5, 3, 6), floats(1, 0, 0, 1, 2, 1)
        added = self.buffer(floats(100, 200), 2)
        self.assertIsNone(self.gemm(self.buffer(xt, 3, 2), self.buffer(wt, 3, 2), self.buffer(y, 2, 2), added, xt=1, wt=1, bias=1, scale=2.0), self.xla.said)
        self.assertEqual(list(y), [114, 210, 132, 222])
        pair = floats(*[0] * 2)
        self.assertIsNone(self.gemm(self.buffer(x, 2, 1, 3), self.buffer(w, 2, 1, 3), self.buffer(pair, 2, 1, 1)), self.xla.said)
        self.assertEqual(list(pair), [7, 11])

    def test_gemm_refused(self):
        x, w, y = floats(*[1] * 6), floats(*[1] * 6), floats(*[9] * 4)
        for shapes, said in ((((2, 3), (3, 2), (2, 2)), "gemm: "), (((2, 3), (1, 2, 3), (2, 2)), "allowed are as many, 2 or more"), (((6,), (6,), (1,)), "allowed are as many")):
            self.assertIsNotNone(self.gemm(*(self.buffer(d, *s) for d, s in zip((x, w, y), shapes))))
            self.assertIn(said, self.xla.said.pop())
        options = {name: value for name, value in OPTIONS.items() if name != "act"}
        self.assertIsNotNone(self.call("gemm", [self.buffer(x, 2, 3), self.buffer(w, 2, 3)], [self.buffer(y, 2, 2)], **options))
        self.assertIn("act is missing or of another type", self.xla.said.pop())
        self.assertEqual(list(y), [9] * 4)

    def test_blocks(self):
        """Blocks of q8_0, their rows, and a product with them: 32 numbers of a block are f16(d) x int8."""
        w = floats(*[i - 16 for i in range(32)], *[2 * i for i in range(32)])
        blocks = (ctypes.c_ubyte * 68)()
        self.assertIsNone(self.call("quantize", [self.buffer(w, 2, 32)], [self.buffer(blocks, 2, 34, dtype=U8)], dtype="q8_0"), self.xla.said)
        ids, y = (ctypes.c_int32 * 3)(1, 0, 1), floats(*[0] * 96)
        self.assertIsNone(self.call("rows", [self.buffer(blocks, 2, 34, dtype=U8), self.buffer(ids, 3, dtype=S32)], [self.buffer(y, 3, 32)], w_dtype="q8_0"), self.xla.said)
        for row, wanted in enumerate((w[32:], w[:32], w[32:])):
            for seen, number in zip(y[32 * row:], wanted):
                self.assertAlmostEqual(seen, number, delta=0.3)
        x, product = floats(*[1] * 32), floats(0, 0)
        self.assertIsNone(self.gemm(self.buffer(x, 1, 32), self.buffer(blocks, 2, 34, dtype=U8), self.buffer(product, 1, 2), w_dtype="q8_0"), self.xla.said)
        self.assertAlmostEqual(product[0], sum(w[:32]), delta=1)
        self.assertAlmostEqual(product[1], sum(w[32:]), delta=4)
        for dtype, said in (("q8_9", "type 'q8_9'"), ("q4_k", "rows of 32")):
            self.assertIsNotNone(self.call("quantize", [self.buffer(w, 2, 32)], [self.buffer(blocks, 2, 34, dtype=U8)], dtype=dtype))
            self.assertIn(said, self.xla.said.pop())


    def test_attention(self):
        """Queries of zeros see the mean of the values that they may see; of gradients dV alone is not zero."""
        numbers = dict(causal=0, sinks=0, packed=0, max_q=0, max_kv=0, window=0, scale=0.0, softcap=0.0)
        q, k = floats(*[0] * 8), floats(*[i % 5 for i in range(12)])  # [1, 2, 2, 2] and [1, 3, 2, 2]
        v = floats(*range(12))
        o, lse = floats(*[9] * 8), floats(*[9] * 4)
        arrays = [self.buffer(q, 1, 2, 2, 2), self.buffer(k, 1, 3, 2, 2), self.buffer(v, 1, 3, 2, 2)]
        results = [self.buffer(o, 1, 2, 2, 2), self.buffer(lse, 1, 2, 2)]
        self.assertIsNone(self.call("attention", arrays, results, **numbers), self.xla.said)
        self.assertEqual([round(x, 5) for x in o], [4, 5, 6, 7] * 2)
        self.assertEqual([round(x, 5) for x in lse], [1.09861] * 4)
        self.assertIsNone(self.call("attention", arrays, results, **numbers | dict(causal=1)), self.xla.said)
        self.assertEqual([round(x, 5) for x in o], [2, 3, 4, 5, 4, 5, 6, 7])
        self.assertIsNone(self.call("attention", arrays, results, **numbers), self.xla.said)
        dout = self.buffer(floats(1, 2, 3, 4, 5, 6, 7, 8), 1, 2, 2, 2)
        grads = [floats(*[9] * n) for n in (8, 12, 12)]
        made = [self.buffer(g, 1, len(g) // 4, 2, 2) for g in grads]
        self.assertIsNone(self.call("attention_backward", [*arrays, results[0], dout, results[1]], made, **numbers, deterministic=1), self.xla.said)
        self.assertEqual([round(x, 5) for x in grads[2]], [round(x, 5) for x in [2, 8 / 3, 10 / 3, 4] * 3])
        self.assertEqual([round(x, 5) for x in grads[1]], [0] * 12)
        self.assertTrue(any(grads[0]))
        twice = [self.buffer(floats(*data, *data), 2, len(data) // 4, 2, 2) for data in (q, k, v)]
        both, both_lse = floats(*[9] * 16), floats(*[9] * 8)
        self.assertIsNone(self.call("attention", twice, [self.buffer(both, 2, 2, 2, 2), self.buffer(both_lse, 2, 2, 2)], **numbers), self.xla.said)
        self.assertEqual([round(x, 5) for x in both], [4, 5, 6, 7] * 4)
        for at, bad, said in ((1, self.buffer(k, 1, 3, 1, 4), "k is f32"), (1, self.buffer(k, 1, 3, 2, 2, dtype=16), "k is bf16"), (2, self.buffer(v, 1, 2, 3, 2), "v is f32"),
                              (0, self.buffer(q, 8), "")):
            wrong = list(arrays)
            wrong[at] = bad
            self.assertIsNotNone(self.call("attention", wrong, results, **numbers), said)
            self.assertIn(said, self.xla.said.pop())


if __name__ == "__main__":
    unittest.main()
