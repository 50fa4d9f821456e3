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
        o2, lse = wrapper.run(q, pages, return_lse=True)
        np.testing.assert_array_equal(o2, o)
        for i, (k, v) in enumerate(kv):
            mine = slice(start[i], start[i + 1])
            self.near(lse[mine], attend(q[mine], k, v, causal=True)[1].T / np.log(2))
        more = np.concatenate([q, np.full((2, 4, 16), np.nan, "f4")])  # rows that no sequence has
        o3, lse3 = wrapper.run_return_lse(more, pages)
        np.testing.assert_array_equal(o3[:6], o)
        np.testing.assert_array_equal(lse3[:6], lse)
        self.assertFalse(o3[6:].any() or (lse3[6:] != -np.inf).any())
        with self.assertRaisesRegex(ga.UnsupportedError, "custom_mask is"):
            wrapper.plan(start, self.indptr, self.indices, self.last, 4, 2, 16, PAGE, custom_mask=True)

    def plans(self):
        """(plan of a decode wrapper, plan of a prefill wrapper, the former's arguments, the latter's)"""
        self.cache()
        decode, prefill = fi.BatchDecodeWithPagedKVCacheWrapper(None), fi.BatchPrefillWithPagedKVCacheWrapper(None)
        tables = (self.indptr, self.indices, self.last, 4, 2, 16, PAGE)
        return decode, prefill, tables, ([0, 3, 4, 6], *tables)

    def test_options_refused(self):
        """What GA lacks, what is misspelt, and tables that contradict themselves: by name, and no plan remains."""
        decode, prefill, tables, packed = self.plans()
        mask, one = np.ones(2, "u1"), np.array([1], "i4")
        for name, value in (("packed_custom_mask", mask), ("custom_mask", np.ones((2, 3), bool)), ("prefix_len_ptr", one), ("token_pos_in_items_ptr", one),
                            ("token_pos_in_items_len", 2), ("max_item_len_ptr", one), ("block_tables", one), ("pos_encoding_mode", "ALIBI")):
            with self.subTest(name), self.assertRaisesRegex(ga.UnsupportedError, f"BatchPrefillWithPagedKVCacheWrapper.plan: {name} is"):
                prefill.plan(*packed, causal=True, **{name: value})
        for wrapper, arguments in ((decode, tables), (prefill, packed)):
            with self.assertRaisesRegex(TypeError, "plan: unexpected keyword argument 'windw_left'"):
                wrapper.plan(*arguments, windw_left=1)
            with self.assertRaises(ga.StateError):
                wrapper.run(self.draw(3, 4, 16), self.draw(6, 2, PAGE, 2, 16))
        changed = lambda place, value: [*tables[:place], value, *tables[place + 1:]]
        for error, place, value, text in (
                (ga.ArgumentError, 0, [0, 3, 1, 5], "indptr is .* rising numbers from 0"), (ga.ArgumentError, 0, [-1, 2, 3, 5], "indptr is .* rising numbers from 0"),
                (ga.ArgumentError, 0, [1, 2, 3, 5], "indptr is .* rising numbers from 0"), (ga.ArgumentError, 0, [0, 2, 3, 6], "indptr ends at 6; allowed is at most 5"),
                (ga.ShapeError, 0, [0, 2, 5], "3 of indptr, 3 of last_page_len"), (ga.ArgumentError, 1, [4, -1, 0, 3, 2], "indices has -1"),
                (ga.DtypeError, 1, [4.5, 1, 0, 3, 2], "whole numbers"), (ga.ArgumentError, 2, [2, 0, 4], "last_page_len is 0; allowed are 1 to 4"),
                (ga.ShapeError, 4, 3, "4 heads of q, 3 of k"), (ga.ArgumentError, 6, 0, "page_size is 0")):
            with self.subTest(place=place, value=value), self.assertRaisesRegex(error, text):
                decode.plan(*changed(place, value))
        with self.assertRaisesRegex(ga.ArgumentError, "qo_indptr is .* rising numbers from 0"):
            prefill.plan([0, 3, 2, 6], *tables)
        with self.assertRaisesRegex(ga.ArgumentError, r"seq_lens is \[6, 1, 7\]; the tables say \[6, 1, 8\]"):
            decode.plan(*tables, seq_lens=np.array([6, 1, 7]))
        for made in ({"use_cuda_graph": True}, {"jit_args": [1]}):
            with self.assertRaises(ga.UnsupportedError):
                fi.BatchDecodeWithPagedKVCacheWrapper(None, **made)
        with self.assertRaisesRegex(TypeError, "use_tensor_core'"):
            fi.BatchDecodeWithPagedKVCacheWrapper(None, use_tensor_core=True)
        q, k = self.draw(2, 4, 16), self.draw(3, 2, 16)
        for options in ({"packed_custom_mask": mask}, {"custom_mask": np.ones((2, 3), bool)}, {"scale_q": 2.0}):
            with self.assertRaisesRegex(ga.UnsupportedError, next(iter(options))):
                fi.single_prefill_with_kv_cache(q, k, k, **options)

    def test_run_is_as_planned(self):
        decode, prefill, tables, packed = self.plans()
        q, pages = self.draw(3, 4, 16), self.draw(6, 2, PAGE, 2, 16)
        decode.plan(*tables, q_data_type="float32")
        for error, text, arrays in (
                (ga.ShapeError, r"pages of k are \(4, 4, 16\): tokens, heads and dims; planned were \(4, 2, 16\)", (q, (self.draw(6, PAGE, 4, 16),) * 2)),
                (ga.ShapeError, "pages of v are", (q, (pages[:, 0], self.draw(6, PAGE, 2, 8)))), (ga.ShapeError, "pages of k are", (q, self.draw(6, 2, 8, 2, 16))),
                (ga.ArgumentError, "indices has page 4; allowed are 0 to 3", (q, pages[:4])), (ga.ShapeError, "q has 2 sequences; planned were 3", (q[:2], pages))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                decode.run(*arrays)
        with self.assertRaisesRegex(ga.UnsupportedError, "q_scale is 2.0"):
            decode.run(q, pages, q_scale=2.0)
        with self.assertRaisesRegex(ga.UnsupportedError, "window_left is 3; allowed is the planned one, -1"):
            decode.run(q, pages, window_left=3)
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'retrun_lse'"):
            decode.run(q, pages, retrun_lse=True)
        decode.plan(*tables, q_data_type="float16")
        with self.assertRaisesRegex(ga.DtypeError, "q_data_type is f16; the array has f32"):
            decode.run(q, pages)
        prefill.plan(*packed)
        with self.assertRaisesRegex(ga.ShapeError, "q has 3 rows; planned were 6"):
            prefill.run(q, pages)

    def test_hints_and_results(self):
        """Options that only say how are taken; out and lse get the results."""
        decode, _, tables, packed = self.plans()
        decode = fi.BatchDecodeWithPagedKVCacheWrapper(None, "NHD", use_tensor_cores=True, backend="fa3")
        prefill = fi.BatchPrefillWithPagedKVCacheWrapper(None, "NHD", backend="fa2")
        pages = self.draw(6, 2, PAGE, 2, 16)
        decode.plan(*tables, non_blocking=False, fixed_split_size=4, data_type="float32", seq_lens=[6, 1, 8], rope_theta=1e4)
        prefill.plan(*packed, use_fp16_qk_reduction=True, q_data_type=np.float32, head_dim_vo=16)
        for wrapper, rows in ((decode, 3), (prefill, 6)):
            q = self.draw(rows, 4, 16)
            o, lse = wrapper.run(q, pages, return_lse=True, enable_pdl=True, window_left=-1)
            out, out_lse = np.full_like(o, 7), np.full_like(lse, 7)
            self.assertIs(wrapper.run_return_lse(q, pages, out=out, lse=out_lse)[0], out)
            np.testing.assert_array_equal(out, o)
            np.testing.assert_array_equal(out_lse, lse)
            with self.assertRaisesRegex(ga.ShapeError, "out is float32"):
                wrapper.run(q, pages, out=np.empty((rows, 4, 8), "f4"))
        sinks = np.array([1, 2, 3, 4], "f4")
        q = self.draw(3, 4, 16)
        o, lse = decode.run(q, pages, return_lse=True)
        with_sinks = decode.run(q, pages, sinks=sinks)
        self.near(with_sinks, o / (1 + np.exp(sinks - lse * np.log(2)))[..., None])
        fi.single_decode_with_kv_cache(q[0], pages[0, 0], pages[0, 1], use_tensor_cores=True, rope_scale=1.0)
        fi.single_prefill_with_kv_cache(q, pages[0, 0], pages[0, 1], backend="auto", use_fp16_qk_reduction=False)


if __name__ == "__main__":
    unittest.main()
