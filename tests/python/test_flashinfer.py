"""FlashInfer's names, over NumPy."""
import unittest

import gpu_accel as ga
from gpu_accel import flashinfer as fi

try:
    import numpy as np
except ImportError:
    np = None

if np is not None:
    from test_ops import attend

PAGE = 4


@unittest.skipIf(np is None, "numpy is missing")
class FlashInfer(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(13)

    def draw(self, *shape):
        return self.rng.standard_normal(shape).astype("f4")

    def near(self, seen, wanted):
        np.testing.assert_allclose(seen, wanted, rtol=2e-5, atol=2e-5)

    def test_single(self):
        q, k, v = self.draw(5, 4, 16), self.draw(9, 2, 16), self.draw(9, 2, 16)
        for given, options in (({}, {}), ({"causal": True}, {"causal": True}), ({"causal": True, "window_left": 2}, {"causal": True, "window": 3}),
                               ({"logits_soft_cap": 2.0, "sm_scale": 0.4}, {"softcap": 2.0, "scale": 0.4})):
            o, lse = fi.single_prefill_with_kv_cache(q, k, v, return_lse=True, **given)
            wanted, wanted_lse = attend(q, k, v, **options)
            self.near(o, wanted)
            self.near(lse, wanted_lse.T / np.log(2))
        self.near(fi.single_prefill_with_kv_cache(q, k.transpose(1, 0, 2), v.transpose(1, 0, 2), kv_layout="HND"), attend(q, k, v)[0])
        self.near(fi.single_decode_with_kv_cache(q[0], k, v), attend(q[:1], k, v)[0][0])
        with self.assertRaisesRegex(ga.UnsupportedError, "single_prefill_with_kv_cache: pos_encoding_mode is 'ROPE_LLAMA'; allowed is 'NONE'"):
            fi.single_prefill_with_kv_cache(q, k, v, pos_encoding_mode="ROPE_LLAMA")
        with self.assertRaisesRegex(ga.UnsupportedError, "window_left is 3 without causal"):
            fi.single_prefill_with_kv_cache(q, k, v, window_left=3)

    def cache(self):
        """Sequences of 6, 1 and 8 tokens on pages out of order."""
        self.indptr, self.indices, self.last = [0, 2, 3, 5], [4, 1, 0, 3, 2], [2, 1, 4]
        pages = self.draw(6, 2, PAGE, 2, 16)
        kv = []
        for i, n in enumerate((6, 1, 8)):
            mine = pages[self.indices[self.indptr[i]:self.indptr[i + 1]]]
            kv.append((mine[:, 0].reshape(-1, 2, 16)[:n], mine[:, 1].reshape(-1, 2, 16)[:n]))
        return pages, kv

    def test_decode(self):
        pages, kv = self.cache()
        q = self.draw(3, 4, 16)
        wrapper = fi.BatchDecodeWithPagedKVCacheWrapper(None, "NHD")
        with self.assertRaisesRegex(ga.StateError, "no plan; call plan"):
            wrapper.run(q, pages)
        wrapper.plan(np.array(self.indptr, "i4"), np.array(self.indices, "i4"), np.array(self.last, "i4"), 4, 2, 16, PAGE)
        o, lse = wrapper.run(q, pages, return_lse=True)
        for i, (k, v) in enumerate(kv):
            wanted, wanted_lse = attend(q[i:i + 1], k, v)
            self.near(o[i], wanted[0])
            self.near(lse[i], wanted_lse[:, 0] / np.log(2))
        self.near(wrapper.run(q, (pages[:, 0], pages[:, 1])), o)
        heads_first = fi.BatchDecodeWithPagedKVCacheWrapper(None, "HND")
        heads_first.plan(self.indptr, self.indices, self.last, 4, 2, 16, PAGE, window_left=1)
        o = heads_first.run(q, np.ascontiguousarray(pages.transpose(0, 1, 3, 2, 4)))
        for i, (k, v) in enumerate(kv):
            self.near(o[i], attend(q[i:i + 1], k, v, causal=True, window=2)[0][0])
        with self.assertRaisesRegex(ga.ShapeError, r"q has \(2, 16\) heads and dims; planned were \(4, 16\)"):
            wrapper.run(q[:, :2], pages)
        with self.assertRaisesRegex(ga.ArgumentError, "last_page_len is 5; allowed are 1 to 4"):
            wrapper.plan(self.indptr, self.indices, [2, 1, 5], 4, 2, 16, PAGE)

    def test_prefill(self):
        pages, kv = self.cache()
        start = [0, 3, 4, 6]
        q = self.draw(6, 4, 16)
        wrapper = fi.BatchPrefillWithPagedKVCacheWrapper(None)
        wrapper.plan(start, self.indptr, self.indices, self.last, 4, 2, 16, PAGE, causal=True)
        o = wrapper.run(q, pages)
        for i, (k, v) in enumerate(kv):
            self.near(o[start[i]:start[i + 1]], attend(q[start[i]:start[i + 1]], k, v, causal=True)[0])
        with self.assertRaisesRegex(ga.UnsupportedError, "return_lse is True"):
            wrapper.run(q, pages, return_lse=True)
        with self.assertRaisesRegex(ga.UnsupportedError, "custom_mask is"):
            wrapper.plan(start, self.indptr, self.indices, self.last, 4, 2, 16, PAGE, custom_mask=True)


if __name__ == "__main__":
    unittest.main()
