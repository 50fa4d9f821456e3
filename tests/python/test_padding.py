"""Rows that no packed sequence has: zeros in results and gradients, and borders that are refused."""
import unittest

import gpu_accel as ga

try:
    import numpy as np
except ImportError:
    np = None


@unittest.skipIf(np is None, "numpy is missing")
class Padding(unittest.TestCase):
    TOKENS, BORDERS = 12, (0, 4, 9)

    def setUp(self):
        self.rng = np.random.default_rng(3)
        self.q, self.k, self.v, self.dout = (self.rng.standard_normal((self.TOKENS, 4, 16)).astype("f4") for _ in range(4))
        self.start = np.array(self.BORDERS, "i4")
        self.packed = {"q_start": self.start, "kv_start": self.start, "causal": True}
        for x in (self.q, self.k, self.v, self.dout):  # what lies in padding never matters
            x[9:] = np.nan

    def dirty(self, *shape):
        return np.full(shape, np.nan, "f4")

    def forward(self, **options):
        o, lse = self.dirty(self.TOKENS, 4, 16), self.dirty(2, 4, 5)
        ga.attention(self.q, self.k, self.v, out=o, out_lse=lse, **self.packed, **options)
        return o, lse

    def test_forward(self):
        o, lse = self.forward()
        self.assertFalse(o[9:].any())
        self.assertTrue(np.isfinite(o).all())
        self.assertTrue((lse[0, :, 4:] == -np.inf).all())
        self.assertTrue(np.isfinite(lse[0, :, :4]).all() and np.isfinite(lse[1]).all())
        alone = np.asarray(ga.attention(self.q[None, 4:9], self.k[None, 4:9], self.v[None, 4:9], causal=True))
        np.testing.assert_allclose(o[4:9], alone[0], rtol=1e-5, atol=1e-6)

    def test_strided(self):
        """Results inside of a larger array, whose other elements stay."""
        whole = np.full((self.TOKENS, 3, 4, 16), 7, "f4")
        ga.attention(self.q, self.k, self.v, out=whole[:, 1], **self.packed)
        self.assertTrue((whole[:, [0, 2]] == 7).all())
        self.assertFalse(whole[9:, 1].any())

    def test_backward(self):
        o, lse = self.forward()
        for options in ({}, {"deterministic": True}, {"kv_len": np.array([3, 4], "i4")}):
            with self.subTest(options=list(options)):
                if "kv_len" in options:
                    o, lse = self.forward(**options)
                outs = {name: self.dirty(self.TOKENS, 4, 16) for name in ("out_dq", "out_dk", "out_dv")}
                ga.attention_backward(self.q, self.k, self.v, o, lse, self.dout, **self.packed, **options, **outs)
                made = ga.attention_backward(self.q, self.k, self.v, o, lse, self.dout, **self.packed, **options)
                for x, other in zip(outs.values(), made):
                    self.assertTrue(np.isfinite(x).all())
                    self.assertFalse(x[9:].any())
                    np.testing.assert_array_equal(x, np.asarray(other))
                if "kv_len" in options:
                    self.assertFalse(outs["out_dk"][[3, 8]].any() or outs["out_dv"][[3, 8]].any())

    def test_more_rows_than_batch_times_longest(self):
        """12 rows beside two sequences of at most 5: what forward takes backward takes."""
        o, lse = self.forward(max_q=5, max_kv=5)
        grads = ga.attention_backward(self.q, self.k, self.v, o, lse, self.dout, **self.packed, max_q=5, max_kv=5)
        self.assertTrue(all(np.isfinite(np.asarray(x)).all() for x in grads))

    def test_no_rows_in_sequences(self):
        start = np.zeros(3, "i4")
        o = ga.attention(self.q, self.k, self.v, q_start=start, kv_start=start)
        self.assertFalse(np.asarray(o).any())

    def test_refused_borders(self):
        for borders, text in (((2, 4, 9), "q_start: borders begin at 2; allowed is 0"), ((-1, 4, 9), "borders begin at -1; allowed is 0"),
                              ((0, 5, 4), "borders 1 and 2 are 5 and 4; allowed are rising ones from 0 to 12"),
                              ((0, 4, 13), "borders 1 and 2 are 4 and 13; allowed are rising ones from 0 to 12")):
            with self.subTest(borders=borders):
                start = np.array(borders, "i4")
                with self.assertRaisesRegex(ga.ArgumentError, text):
                    ga.attention(self.q, self.k, self.v, q_start=start, kv_start=self.start)
                with self.assertRaisesRegex(ga.ArgumentError, text.replace("q_start", "kv_start")):
                    ga.attention(self.q, self.k, self.v, q_start=self.start, kv_start=start)
                o, lse = self.forward()
                with self.assertRaisesRegex(ga.ArgumentError, text):
                    ga.attention_backward(self.q, self.k, self.v, o, lse, self.dout, q_start=start, kv_start=self.start)

    def test_scales_of_a_new_cache(self):
        """Scales that kv_store makes are 0 where it stores nothing."""
        x, cache = self.q[:1, :2].copy(), np.zeros((8, 2, 16), "u1")
        dirty = [np.full((2, 8), np.nan, "f4") for _ in range(64)]
        del dirty
        for scale in ga.kv_store(x, x, np.array([3], "i4"), ga.asarray(cache, "e4m3"), ga.asarray(cache.copy(), "e4m3"))[2:]:
            self.assertEqual(np.argwhere(np.asarray(scale)).tolist(), [[0, 3], [1, 3]])

    def test_pages(self):
        """Packed queries over pages, and alibi."""
        pages = self.rng.standard_normal((3, 4, 4, 16)).astype("f4")
        table, length, slopes = np.array([[0, 1], [2, 0]], "i4"), np.array([6, 3], "i4"), np.array([.5, .25, .1, .2], "f4")
        o = self.dirty(self.TOKENS, 4, 16)
        ga.attention(self.q, pages, pages, page_table=table, kv_len=length, q_start=self.start, causal=True, out=o)
        self.assertTrue(np.isfinite(o).all() and not o[9:].any())
        o = np.asarray(ga.flash_attn_varlen_func(self.q, self.k, self.v, self.start, self.start, 5, 5, causal=True, alibi_slopes=slopes))
        self.assertTrue(np.isfinite(o).all() and not o[9:].any())


if __name__ == "__main__":
    unittest.main()
