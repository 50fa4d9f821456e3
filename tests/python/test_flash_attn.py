"""The names of flash-attn against NumPy formulas: flash-attn's own meaning of windows, caches and masks."""
import unittest

import gpu_accel as ga

try:
    import numpy as np
except ImportError:
    np = None


def attend(q, k, v, left=-1, right=-1, scale=None, softcap=0.0, slopes=None):
    """[tokens, heads, dim] in double, as flash-attn's documents say: query i sees keys i + n_k - n_q - left to + right."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    x = np.einsum("qhd,khd->hqk", q, k) * (scale or q.shape[2] ** -0.5)
    if softcap:
        x = softcap * np.tanh(x / softcap)
    away = np.arange(len(k))[None] - (np.arange(len(q))[:, None] + len(k) - len(q))
    if slopes is not None:
        x = x - slopes[:, None, None] * np.abs(away)
    if left >= 0:
        x = np.where(away >= -left, x, -np.inf)
    if right >= 0:
        x = np.where(away <= right, x, -np.inf)
    with np.errstate(invalid="ignore"):
        p = np.exp(x - x.max(-1, keepdims=True))
        p = np.nan_to_num(p / p.sum(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p, v)


@unittest.skipIf(np is None, "numpy is missing")
class FlashAttn(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(11)

    def draw(self, *shape):
        return self.rng.standard_normal(shape).astype("f4")

    def near(self, seen, wanted):
        np.testing.assert_allclose(np.asarray(seen, dtype=np.float64), wanted, rtol=2e-5, atol=2e-5)

    def test_func(self):
        q, k, v = self.draw(2, 9, 4, 16), self.draw(2, 13, 2, 16), self.draw(2, 13, 2, 16)
        slopes = np.array([0.5, 0.25, 0.125, 0.1], "f4")
        cases = [({}, {}), ({"causal": True}, {"right": 0}), ({"window_size": (3, 0)}, {"left": 3, "right": 0}),
                 ({"causal": True, "window_size": (5, -1)}, {"left": 5, "right": 0}),
                 ({"causal": True, "alibi_slopes": slopes}, {"right": 0, "slopes": slopes}),
                 ({"softmax_scale": 0.3, "softcap": 5.0}, {"scale": 0.3, "softcap": 5.0})]
        for options, same in cases:
            with self.subTest(**options):
                o = ga.flash_attn_func(q, k, v, **options)
                self.near(o, np.stack([attend(q[b], k[b], v[b], **same) for b in range(2)]))
        o, lse, probabilities = ga.flash_attn_func(q, k, v, return_attn_probs=True)
        self.assertEqual((np.asarray(lse).shape, probabilities), ((2, 4, 9), None))

    def test_varlen(self):
        q, k, v = self.draw(10, 4, 16), self.draw(12, 2, 16), self.draw(12, 2, 16)
        cu_q, cu_k = np.array([0, 3, 3, 10], "i4"), np.array([0, 4, 5, 12], "i4")
        o = np.asarray(ga.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 7, 7, causal=True))
        for b in range(3):
            a, c = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
            self.near(o[a], attend(q[a], k[c], v[c], right=0))

    def test_seqused(self):
        """Keys behind those in use are not read: they are NaN."""
        q, k, v = self.draw(13, 4, 16), self.draw(15, 2, 16), self.draw(15, 2, 16)
        cu_q, cu_k, used = (np.array(x, "i4") for x in ([0, 3, 3, 10, 13], [0, 4, 5, 12, 15], [2, 1, 5, 0]))
        for b in range(4):
            k[cu_k[b] + used[b]:cu_k[b + 1]] = v[cu_k[b] + used[b]:cu_k[b + 1]] = np.nan
        slopes = np.array([0.5, 0.25, 0.125, 0.1], "f4")
        for options, same in (({}, {}), ({"causal": True}, {"right": 0}), ({"window_size": (2, 0)}, {"left": 2, "right": 0}), ({"softcap": 4.0}, {"softcap": 4.0}),
                              ({"causal": True, "alibi_slopes": slopes}, {"right": 0, "slopes": slopes})):
            with self.subTest(**options):
                o = np.asarray(ga.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 7, 7, seqused_k=used, **options))
                for b in range(4):
                    a, c = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b] + used[b])
                    self.near(o[a], attend(q[a], k[c], v[c], **same) if used[b] else np.zeros(o[a].shape))

    def test_seqused_gradients(self):
        """Against a call whose arrays hold the used keys alone."""
        q, k, v, dout = self.draw(8, 2, 16), self.draw(9, 2, 16), self.draw(9, 2, 16), self.draw(8, 2, 16)
        start, used, packed = np.array([0, 3, 8], "i4"), np.array([2, 4], "i4"), np.array([0, 2, 6], "i4")
        kv_start, rows = np.array([0, 4, 9], "i4"), [0, 1, 4, 5, 6, 7]
        options = {"causal": True, "q_start": start}
        o, lse = ga.attention(q, k[rows], v[rows], lse=True, kv_start=packed, **options)
        wanted = ga.attention_backward(q, k[rows], v[rows], o, lse, dout, kv_start=packed, **options)
        k[[2, 3, 8]] = v[[2, 3, 8]] = np.nan
        o2, lse2 = ga.attention(q, k, v, lse=True, kv_start=kv_start, kv_len=used, **options)
        self.near(o2, np.asarray(o))
        dk, dv = np.full_like(k, 7), np.full_like(v, 7)
        dq = ga.attention_backward(q, k, v, o2, lse2, dout, kv_start=kv_start, kv_len=used, out_dk=dk, out_dv=dv, **options)[0]
        for seen, right in zip((dq, dk[rows], dv[rows]), wanted):
            self.near(seen, np.asarray(right))
        self.assertFalse(dk[[2, 3, 8]].any() or dv[[2, 3, 8]].any())
        for seen, right in zip(ga.attention_backward(q, k, v, o2, lse2, dout, kv_start=kv_start, kv_len=used, **options), (dq, dk, dv)):
            np.testing.assert_array_equal(np.asarray(seen), np.asarray(right))

    def test_seqused_refused(self):
        q, start = self.draw(8, 2, 16), np.array([0, 3, 8], "i4")
        for used, kind, text in ((np.array([3, 6], "i4"), ga.ArgumentError, "attention: kv_len: sequence 1 has 6; allowed are 0 to its keys, 5"),
                                 (np.array([-1, 5], "i4"), ga.ArgumentError, "kv_len: sequence 0 has -1; allowed are 0 to its keys, 3"),
                                 (np.array([3, 5], "i8"), ga.DtypeError, "kv_len: is i64; allowed is i32"),
                                 (np.array([3, 5, 0], "i4"), ga.ShapeError, "kv_len: has 3 elements; allowed are 2")):
            with self.assertRaisesRegex(kind, text):
                ga.flash_attn_varlen_func(q, q, q, start, start, 5, 5, seqused_k=used)
        with self.assertRaisesRegex(ga.ArgumentError, "kv_len without page_table or q_start"):
            ga.attention(q[None], q[None], q[None], kv_len=np.array([3], "i4"))

    def test_kvcache(self):
        q, kc, vc = self.draw(2, 3, 4, 16), self.draw(2, 20, 2, 16), self.draw(2, 20, 2, 16)
        new_k, new_v = self.draw(2, 3, 2, 16), self.draw(2, 3, 2, 16)
        kept = kc.copy()
        self.near(ga.flash_attn_with_kvcache(q, kc, vc), np.stack([attend(q[b], kc[b], vc[b]) for b in range(2)]))
        lengths = np.array([5, 17], "i4")
        o = np.asarray(ga.flash_attn_with_kvcache(q, kc, vc, new_k, new_v, cache_seqlens=lengths, causal=True))
        for b, n in enumerate(lengths):
            np.testing.assert_array_equal(kc[b, n:n + 3], new_k[b])
            np.testing.assert_array_equal(kc[b, :n], kept[b, :n])
            self.near(o[b], attend(q[b], kc[b, :n + 3], vc[b, :n + 3], right=0))

    def test_pages(self):
        q, kc, vc = self.draw(2, 1, 4, 16), self.draw(7, 8, 2, 16), self.draw(7, 8, 2, 16)
        table, lengths = np.array([[6, 1], [3, 0]], "i4"), [11, 8]
        new_k, new_v = self.draw(2, 1, 2, 16), self.draw(2, 1, 2, 16)
        o = np.asarray(ga.flash_attn_with_kvcache(q, kc, vc, new_k, new_v, cache_seqlens=lengths, block_table=table, causal=True))
        for b, n in enumerate(lengths):
            k, v = (x[table[b]].reshape(16, 2, 16)[:n + 1] for x in (kc, vc))
            np.testing.assert_array_equal(k[n], new_k[b, 0])
            self.near(o[b], attend(q[b], k, v, right=0))

    def test_refused(self):
        q = self.draw(1, 4, 2, 16)
        c = self.draw(1, 8, 2, 16)
        for what, text in ((lambda: ga.flash_attn_func(q, q, q, dropout_p=0.1), "dropout_p is 0.1; allowed is 0.0"),
                           (lambda: ga.flash_attn_func(q, q, q, window_size=(2, 2)), r"window_size = \(2, 2\); allowed"),
                           (lambda: ga.flash_attn_func(q, q, q, window_size=(2, -1)), r"window_size = \(2, -1\); allowed"),
                           (lambda: ga.flash_attn_func(q, q, q, alibi_slopes=np.ones(2, "f4")), "alibi_slopes without causal"),
                           (lambda: ga.flash_attn_with_kvcache(q, c, c, rotary_cos=1), "rotary_cos is 1; allowed is None"),
                           (lambda: ga.flash_attn_with_kvcache(q, c, c, k=q), "v is None; allowed are both"),
                           (lambda: ga.flash_attn_with_kvcache(q, c, c, q, q, cache_seqlens=6), "6 \\+ 4 tokens; .* room for 8"),
                           (lambda: ga.flash_attn_with_kvcache(q, c, c, cache_seqlens=[1, 2]), "has 2 lengths; allowed")):
            with self.assertRaisesRegex(ga.Error, text):
                what()


if __name__ == "__main__":
    unittest.main()
