"""Arguments that arrays and numbers of other kinds are: compared, counted, overlapping and zero."""
import unittest

import gpu_accel as ga

try:
    import numpy as np
except ImportError:
    np = None


@unittest.skipIf(np is None, "numpy is missing")
class Arguments(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(17)

    def draw(self, *shape):
        return self.rng.standard_normal(shape).astype("f4")

    def test_arrays_are_refused_by_name(self):
        q, c, n = self.draw(2, 1, 4, 16), self.draw(2, 8, 2, 16), np.zeros(2, "i4")
        for name, options in (("rotary_cos", {"rotary_cos": self.draw(8, 8), "rotary_sin": self.draw(8, 8)}), ("rotary_sin", {"rotary_sin": self.draw(8, 8)}),
                              ("cache_leftpad", {"cache_leftpad": n}), ("cache_batch_idx", {"cache_batch_idx": n})):
            with self.subTest(name), self.assertRaisesRegex(ga.UnsupportedError, f"{name} is ndarray .*; allowed is None"):
                ga.flash_attn_with_kvcache(q, c, c, **options)
        with self.assertRaisesRegex(ga.UnsupportedError, "dropout_p is ndarray"):
            ga.flash_attn_func(c, c, c, dropout_p=np.array([0.0, 0.1]))
        from gpu_accel.llama_cpp import Llama
        with self.assertRaisesRegex(ga.UnsupportedError, r"Llama: tensor_split is ndarray \[2\]; allowed is None"):
            Llama("no file", tensor_split=np.ones(2))

    def test_strides_of_other_types(self):
        """A view as another type needs strides of whole elements; dimensions of one index have none, and no error names them."""
        raw = np.arange(30, dtype="u1").reshape(2, 3, 5)
        one = raw.reshape(3, 10)[:, None, :4]  # strides 10, 0, 1
        np.testing.assert_array_equal(np.asarray(ga.asarray(one, "f16")), one.copy().view("f2"))
        with self.assertRaisesRegex(ga.ShapeError, "stride of dimension 1 is 5 bytes; f16 needs a multiple of 2"):
            ga.asarray(raw[:1, :, :4], "f16")

    def test_lengths_of_caches(self):
        """Any whole number is a length; one that has no room is an error, and nothing is written."""
        q, c = self.draw(2, 1, 4, 16), self.draw(2, 8, 2, 16)
        wanted = np.asarray(ga.flash_attn_with_kvcache(q, c, c, cache_seqlens=3))
        for length in (np.int64(3), np.int32(3), np.array(3), np.array([3, 3], "i8"), [np.int64(3), 3]):
            with self.subTest(length=repr(length)):
                np.testing.assert_array_equal(np.asarray(ga.flash_attn_with_kvcache(q, c, c, cache_seqlens=length)), wanted)
        new = np.ones((2, 1, 2, 16), "f4")
        for lengths, text in ((np.array([-1, 2], "i4"), "cache_seqlens has -1; allowed are 0 to 8"), (-1, "has -1"), ([2, -3], "has -3"), ([9, 0], "has 9"),
                              ([2.5, 1], "whole numbers"), (np.array([8, 0]), "8 \\+ 1 tokens")):
            cache = np.zeros((2, 8, 2, 16), "f4")
            with self.subTest(lengths=lengths), self.assertRaisesRegex(ga.Error, text):
                ga.flash_attn_with_kvcache(q, cache, cache.copy(), new, new, cache_seqlens=lengths)
            self.assertFalse(cache.any())
        for table in ([[0], [-1]], [[0], [2]]):
            cache = np.zeros((2, 8, 2, 16), "f4")
            with self.subTest(table=table), self.assertRaisesRegex(ga.ArgumentError, "block_table has page"):
                ga.flash_attn_with_kvcache(q, cache, cache.copy(), new, new, cache_seqlens=1, block_table=table)
            self.assertFalse(cache.any())

    def test_overlapping_results(self):
        """Results that share memory with an input by a shift, in each op that takes out=."""
        eye = np.eye(16, dtype="f4")
        calls = {"gemm": lambda x, o: ga.gemm(x, eye, out=o), "gemm of w": lambda x, o: ga.gemm(eye[:5], x[:, :16], out=o[:, :5] if o.shape[1] > 5 else o),
                 "act": lambda x, o: ga.act(x, kind="relu2", out=o), "act of gate": lambda x, o: ga.act(np.ones_like(x), x, out=o),
                 "norm": lambda x, o: ga.norm(x, out=o), "norm of residual": lambda x, o: ga.norm(np.ones_like(x), residual=x, out=o),
                 "add": lambda x, o: ga.add(x, x.copy(), out=o), "add of b": lambda x, o: ga.add(x.copy(), x, out=o),
                 "softmax": lambda x, o: ga.softmax(x, out=o), "convert": lambda x, o: ga.convert(x, "f32", out=o),
                 "embed": lambda x, o: ga.embed(np.arange(5, dtype="i4"), x, out=o)}
        for name, call in calls.items():
            memory = self.draw(6, 16)
            before = memory.copy()
            with self.subTest(name), self.assertRaisesRegex(ga.ArgumentError, "out: (shares memory with|is .* overlap)"):
                call(memory[:5], memory[1:])
            np.testing.assert_array_equal(memory, before)

    def test_results_beside_inputs(self):
        """In place, and in columns between an input's own."""
        x = self.draw(5, 16)
        for call in (lambda x, o: ga.act(x, out=o), lambda x, o: ga.norm(x, out=o), lambda x, o: ga.add(x, out=o, scale=2.0), lambda x, o: ga.softmax(x, out=o)):
            wanted, own, wide = np.asarray(call(x, None)).copy(), x.copy(), np.zeros((5, 40), "f4")
            call(own, own)
            np.testing.assert_array_equal(own, wanted)
            wide[:, 2:18] = x
            call(wide[:, 2:18], wide[:, 20:36])
            np.testing.assert_array_equal(wide[:, 20:36], wanted)
            np.testing.assert_array_equal(wide[:, 2:18], x)
            with self.assertRaisesRegex(ga.ArgumentError, "shares memory"):
                call(wide[:, 2:18], wide[:, 17:33])

    def test_results_over_themselves(self):
        """Elements of a result that lie in one place: strides of 0, and too short ones."""
        q = self.draw(2, 3, 2, 16)
        strided = np.lib.stride_tricks.as_strided
        for strides in ((0, 128, 64, 4), (384, 0, 64, 4), (384, 128, 0, 4), (128, 128, 64, 4)):
            with self.subTest(strides=strides), self.assertRaisesRegex(ga.ShapeError, "attention: out: .*overlap|not all 0"):
                ga.attention(q, q, q, out=strided(np.zeros(400, "f4"), q.shape, strides))
        x = self.draw(4, 16)
        for strides in ((0, 4), (32, 4)):
            with self.assertRaises(ga.ShapeError):
                ga.act(x, out=strided(np.zeros(200, "f4"), (4, 16), strides))
        lse = np.zeros((2, 2, 3), "f4")
        o = np.asarray(ga.attention(q, q, q, out_lse=lse)[0])
        grad = np.zeros_like(q)
        with self.assertRaisesRegex(ga.ArgumentError, "share|overlap"):
            ga.attention_backward(q, q.copy(), q.copy(), o, lse, q.copy(), out_dq=grad, out_dk=grad, out_dv=np.zeros_like(q))
        with self.assertRaisesRegex(ga.ArgumentError, "shares memory with|overlaps"):
            ga.attention(q, q, q, out=q)

    def test_scale_of_zero(self):
        """Weights are equal: None alone is 1 / sqrt(dim)."""
        q, k, v = self.draw(1, 4, 2, 8), self.draw(1, 5, 2, 8), self.draw(1, 5, 2, 8)
        from gpu_accel import flashinfer
        mean = v[0].mean(0)
        for name, o in {"attention": ga.attention(q, k, v, scale=0.0), "int": ga.attention(q, k, v, scale=0), "flash": ga.flash_attn_func(q, k, v, softmax_scale=0.0),
                        "cache": ga.flash_attn_with_kvcache(q, k, v, softmax_scale=0.0), "class": ga.FlashAttention3("fp16")(q, k, v, scale=0.0),
                        "flashinfer": flashinfer.single_prefill_with_kv_cache(q[0], k[0], v[0], sm_scale=0.0)[None]}.items():
            with self.subTest(name):
                np.testing.assert_allclose(np.asarray(o)[0], np.broadcast_to(mean, (4, 2, 8)), rtol=1e-3 if name == "class" else 1e-6, atol=1e-3 if name == "class" else 1e-6)
        o, lse = ga.attention(q, k, v, scale=0.0, lse=True)
        dq, dk, dv = (np.asarray(x) for x in ga.attention_backward(q, k, v, o, lse, np.ones_like(q), scale=0.0))
        self.assertLess(max(np.abs(dq).max(), np.abs(dk).max()), 1e-30)
        np.testing.assert_allclose(dv, np.full_like(dv, 4 / 5), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(lse), np.full((1, 2, 4), np.log(5)), rtol=1e-6)
        self.assertGreater(np.abs(np.asarray(ga.attention(q, k, v))[0] - mean).max(), 0.01)

    def test_distributed_methods(self):
        """Each method that is listed can be called."""
        q, k, v = self.draw(2, 32, 4, 8), self.draw(2, 32, 4, 8), self.draw(2, 32, 4, 8)
        for causal in (False, True):
            wanted = np.asarray(ga.attention(q, k, v, causal=causal))
            for method in ga.distributed_methods():
                with self.subTest(method, causal=causal):
                    try:
                        o = ga.distributed_attention(q, k, v, ranks=2, method=method, causal=causal)
                    except ga.UnsupportedError as error:
                        self.fail(error)
                    np.testing.assert_allclose(np.asarray(o), wanted, rtol=2e-4, atol=2e-5)
        o = ga.distributed_attention(q, k, v, ranks=2, method="balanced", causal=True, chunks=3)
        np.testing.assert_allclose(np.asarray(o), wanted, rtol=2e-4, atol=2e-5)
        for chunks in (0, 1025, -1):
            with self.assertRaisesRegex(ga.ArgumentError, "chunks is .*; allowed are 1 to 1024"):
                ga.distributed_attention(q, k, v, method="balanced", chunks=chunks)
        with self.assertRaisesRegex(ga.ArgumentError, "chunks is 4; must be 0"):
            ga.distributed_attention(q, k, v, method="zigzag", chunks=4)

    def test_packed_arguments(self):
        """flash-attn's forms with q, k and v in one array."""
        qkv, q, kv = self.draw(2, 9, 3, 4, 16), self.draw(2, 9, 4, 16), self.draw(2, 9, 2, 2, 16)
        options = {"causal": True, "softmax_scale": 0.3}
        same = lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        parts = [np.ascontiguousarray(qkv[:, :, i]) for i in range(3)]
        same(ga.flash_attn_qkvpacked_func(qkv, **options), ga.flash_attn_func(*parts, **options))
        same(ga.flash_attn_kvpacked_func(q, kv, **options), ga.flash_attn_func(q, kv[:, :, 0].copy(), kv[:, :, 1].copy(), **options))
        start = np.array([0, 4, 9], "i4")
        same(ga.flash_attn_varlen_qkvpacked_func(qkv[0], start, 5, **options), ga.flash_attn_varlen_func(*(x[0] for x in parts), start, start, 5, 5, **options))
        same(ga.flash_attn_varlen_kvpacked_func(q[0], kv[0], start, start, 5, 5, **options),
             ga.flash_attn_varlen_func(q[0], kv[0, :, 0].copy(), kv[0, :, 1].copy(), start, start, 5, 5, **options))
        with self.assertRaisesRegex(ga.ShapeError, r"qkv is \[2, 9, 4, 16\]; allowed is \[batch, tokens, 3, heads, dim\]"):
            ga.flash_attn_qkvpacked_func(q)
        with self.assertRaisesRegex(ga.ShapeError, r"kv is \[9, 3, 4, 16\]; allowed is \[tokens, 2, heads, dim\]"):
            ga.flash_attn_varlen_kvpacked_func(q[0], qkv[0], start, start, 5, 5)


if __name__ == "__main__":
    unittest.main()
