"""Attention and products in JAX against jax.nn and formulas, over two devices of the CPU. Skipped where JAX is missing."""
import os
import unittest

import gpu_accel as ga

try:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # programs are small and many: compiling them takes longest
    import jax
    import jax.numpy as jnp
    import numpy as np

    import gpu_accel.jax as gj
except ImportError:
    jax = None


def plain(q, k, v, causal=False, window=0, scale=None, softcap=0.0):
    """By the formula, in f32. [batch, tokens, heads, dim]."""
    k, v = (jnp.repeat(x, q.shape[2] // k.shape[2], 2) for x in (k, v))
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") * (scale or q.shape[3] ** -0.5)
    if softcap:
        s = softcap * jnp.tanh(s / softcap)
    at = jnp.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2]
    keys = jnp.arange(s.shape[3])[None]
    if causal:
        s = jnp.where(keys > at, -jnp.inf, s)
    if window:
        s = jnp.where(keys <= at - window, -jnp.inf, s)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v, precision="highest"), jax.nn.logsumexp(s, -1)


@unittest.skipIf(jax is None, "jax is missing")
class Jax(unittest.TestCase):
    def draw(self, *shapes, dtype="float32", seed=7):
        return [jax.random.normal(key, s).astype(dtype) for key, s in zip(jax.random.split(jax.random.key(seed), len(shapes)), shapes)]

    def close(self, seen, wanted, tolerance=2e-5):
        np.testing.assert_allclose(np.asarray(seen, "f8"), np.asarray(wanted, "f8"), rtol=tolerance, atol=tolerance)

    def gradients(self, call, inputs, weights):
        return jax.grad(lambda *x: (call(*x).astype("float32") * weights).sum(), tuple(range(len(inputs))))(*inputs)

    def test_values_and_gradients(self):
        for options in ({}, {"causal": True}, {"causal": True, "window": 3}, {"softcap": 2.0, "scale": 0.6}, {"deterministic": True}):
            with self.subTest(options):
                q, k, v, weights = self.draw((2, 7, 4, 16), (2, 9, 2, 16), (2, 9, 2, 8), (2, 7, 4, 8))
                o, lse = gj.attention(q, k, v, **options, return_lse=True)
                formula = {name: x for name, x in options.items() if name != "deterministic"}
                wanted, wanted_lse = plain(q, k, v, **formula)
                self.close(o, wanted)
                self.close(lse, wanted_lse)
                for seen, right in zip(self.gradients(lambda *x: gj.attention(*x, **options), (q, k, v), weights),
                                       self.gradients(lambda *x: plain(*x, **formula)[0], (q, k, v), weights)):
                    self.close(seen, right)

    def test_as_jax_nn(self):
        """jax.nn.dot_product_attention's own layout and meaning."""
        q, k, v, weights = self.draw((2, 12, 4, 16), (2, 12, 2, 16), (2, 12, 2, 16), (2, 12, 4, 16))
        for ours, theirs in (({"causal": True}, {"is_causal": True}), ({"scale": 0.3}, {"scale": 0.3}),
                             ({"causal": True, "window": 4}, {"is_causal": True, "local_window_size": (3, 0)})):
            call, right = (lambda *x: gj.attention(*x, **ours)), (lambda *x: jax.nn.dot_product_attention(*x, **theirs))
            self.close(call(q, k, v), right(q, k, v))
            for a, b in zip(self.gradients(call, (q, k, v), weights), self.gradients(right, (q, k, v), weights)):
                self.close(a, b)

    def test_half_types(self):
        """At most twice the error of jax.nn in the same type."""
        for dtype in ("bfloat16", "float16"):
            q, k, v, weights = self.draw((1, 33, 4, 32), (1, 33, 2, 32), (1, 33, 2, 32), (1, 33, 4, 32), dtype=dtype)
            weights = weights.astype("float32")
            wide = [x.astype("float32") for x in (q, k, v)]
            right = (plain(*wide, causal=True)[0], *self.gradients(lambda *x: plain(*x, causal=True)[0], wide, weights))
            results = []
            for call in (lambda *x: gj.attention(*x, causal=True), lambda *x: jax.nn.dot_product_attention(*x, is_causal=True)):
                seen = (call(q, k, v), *self.gradients(call, (q, k, v), weights))
                self.assertTrue(all(x.dtype == dtype for x in seen))
                results.append([np.sqrt(np.square(np.asarray(a, "f8") - np.asarray(b, "f8")).mean()) for a, b in zip(seen, right)])
            for ours, theirs in zip(*results):
                self.assertLess(ours, 2 * theirs)

    def test_jit_equals_eager(self):
        q, k, v, weights = self.draw((2, 5, 4, 16), (2, 5, 2, 16), (2, 5, 2, 16), (2, 5, 4, 16))

        def layer(q, k, v):
            return gj.attention(q, k, v, causal=True, window=3)
        np.testing.assert_array_equal(jax.jit(layer)(q, k, v), layer(q, k, v))
        for a, b in zip(jax.jit(lambda *x: self.gradients(layer, x, weights))(q, k, v), self.gradients(layer, (q, k, v), weights)):
            np.testing.assert_array_equal(a, b)
        turned = jnp.swapaxes(jnp.array(jnp.swapaxes(q, 1, 2)), 1, 2)  # XLA hands over what the handler was promised
        np.testing.assert_array_equal(jax.jit(lambda x: layer(jnp.swapaxes(jnp.swapaxes(x, 1, 2), 1, 2), k, v))(turned), layer(q, k, v))

    def test_scan(self):
        """Layers one after the other, with gradients of all of their weights."""
        x, w = self.draw((1, 6, 2, 8), (3, 8, 8))

        def through(w, attend):
            def layer(x, w):
                y = x + attend(x @ w, x, x)
                return y, y.sum()
            return jax.lax.scan(layer, x, w)[0].sum()
        ours = jax.value_and_grad(lambda w: through(w, lambda *a: gj.attention(*a, causal=True)))(w)
        theirs = jax.value_and_grad(lambda w: through(w, lambda *a: plain(*a, causal=True)[0]))(w)
        self.close(ours[0], theirs[0], 1e-4)
        self.close(ours[1], theirs[1], 1e-4)

    def test_scale_of_zero(self):
        """Equal weights, also where XLA's threads take the smallest numbers for 0."""
        q, k, v = (jax.random.normal(jax.random.key(i), (1, 5, 2, 8)) for i in range(3))
        call = lambda q, k, v: gj.attention(q, k, v, scale=0.0)
        self.close(jax.jit(call)(q, k, v), jnp.broadcast_to(v.mean(1, keepdims=True), v.shape))
        dq, dk, dv = jax.grad(lambda *x: call(*x).sum(), (0, 1, 2))(q, k, v)
        self.close(dv, jnp.ones_like(v))
        self.assertLess(max(float(jnp.abs(dq).max()), float(jnp.abs(dk).max())), 1e-30)

    def test_vmap(self):
        q, k, v, weights = self.draw((3, 2, 5, 4, 16), (3, 2, 7, 2, 16), (2, 7, 2, 16), (3, 2, 5, 4, 16))
        call = lambda q, k, v: gj.attention(q, k, v, causal=True)
        wanted = jnp.stack([plain(a, b, v, causal=True)[0] for a, b in zip(q, k)])
        self.close(jax.vmap(call, (0, 0, None))(q, k, v), wanted)
        for a, b in zip(self.gradients(jax.vmap(call, (0, 0, None)), (q, k, v), weights),
                        self.gradients(lambda q, k, v: jnp.stack([plain(a, b, v, causal=True)[0] for a, b in zip(q, k)]), (q, k, v), weights)):
            self.close(a, b, 5e-5)
        x, w = self.draw((3, 4, 16), (3, 8, 16))
        self.close(jax.vmap(gj.gemm)(x, w), jnp.einsum("vmk,vnk->vmn", x, w))
        self.close(jax.vmap(gj.gemm, (0, None))(x, w[0]), x @ w[0].T)
        self.close(jax.vmap(gj.gemm, (None, 0))(x[0], w), jnp.einsum("mk,vnk->vmn", x[0], w))
        twice = jax.vmap(jax.vmap(gj.gemm, (None, 0)), (0, None))  # x has the outer dimension, w the inner one
        self.close(twice(x, w), jnp.einsum("amk,bnk->abmn", x, w))
        self.close(jax.vmap(jax.grad(lambda w, x: gj.gemm(x, w).sum()))(w, x), jnp.broadcast_to(x.sum(1)[:, None], w.shape))
        bias, = self.draw((3, 8))
        self.close(jax.vmap(gj.gemm, (None, None, 0))(x[0], w[0], bias), (x[0] @ w[0].T)[None] + bias[:, None])

    def test_shard_map(self):
        """Each of two devices has half of the batch, or half of the heads."""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        shard_map = getattr(jax, "shard_map", None)
        if shard_map is None:
            from jax.experimental.shard_map import shard_map
        if len(jax.devices("cpu")) != 2:
            self.skipTest("JAX was started before this file could ask for two CPU devices")
        mesh = Mesh(np.array(jax.devices("cpu")), ("x",))
        q, k, v, weights = self.draw((2, 6, 4, 16), (2, 6, 2, 16), (2, 6, 2, 16), (2, 6, 4, 16))
        call = lambda *x: gj.attention(*x, causal=True)
        for spec in (P("x"), P(None, None, "x")):
            over = jax.jit(shard_map(call, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec))
            inputs = [jax.device_put(x, NamedSharding(mesh, spec)) for x in (q, k, v)]
            seen = over(*inputs)
            self.assertEqual(len(seen.sharding.device_set), 2)
            np.testing.assert_array_equal(seen, call(q, k, v))
            for a, b in zip(self.gradients(over, inputs, weights), self.gradients(call, (q, k, v), weights)):
                self.close(a, b)
        x, w = self.draw((4, 16), (8, 16))
        product = jax.jit(shard_map(gj.gemm, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x")))
        for a, b in zip(self.gradients(product, (x, w), 1.0), self.gradients(gj.gemm, (x, w), 1.0)):
            self.close(a, b)  # that of w is the sum over both

    def test_gemm(self):
        x, w, bias, weights = self.draw((2, 5, 16), (8, 16), (8,), (2, 5, 8))
        acts = {None: lambda z: z, "silu": jax.nn.silu, "gelu_tanh": jax.nn.gelu, "gelu": lambda z: jax.nn.gelu(z, approximate=False)}
        for act, function in acts.items():
            call = lambda x, w, bias: gj.gemm(x, w, bias, act=act, scale=0.5)
            right = lambda x, w, bias: function(0.5 * jnp.matmul(x, w.T, precision="highest") + bias)
            self.close(call(x, w, bias), right(x, w, bias))
            np.testing.assert_array_equal(jax.jit(call)(x, w, bias), call(x, w, bias))
            for a, b in zip(self.gradients(call, (x, w, bias), weights), self.gradients(right, (x, w, bias), weights)):
                self.close(a, b)
        half = gj.gemm(x.astype("bfloat16"), w.astype("bfloat16"), out_dtype="float32")
        self.assertEqual(half.dtype, jnp.float32)
        self.close(half, x @ w.T, 0.1)

    def test_quantized_gemm(self):
        x, w, bias = self.draw((3, 64), (8, 64), (8,))
        for w_dtype in ("q8_0", "q4_0"):
            blocks = gj.quantize(w, w_dtype)
            np.testing.assert_array_equal(blocks, np.asarray(ga.quantize(np.asarray(w), w_dtype).bytes()))
            whole = gj.dequantize(blocks, w_dtype)
            call = lambda x, bias: gj.quantized_gemm(x, blocks, w_dtype, bias, act="silu")
            right = lambda x, bias: jax.nn.silu(x @ whole.T + bias)
            self.close(call(x, bias), right(x, bias), 0.02)  # x is rounded to 8 bits, too
            for a, b in zip(self.gradients(call, (x, bias), 1.0), self.gradients(right, (x, bias), 1.0)):
                self.close(a, b, 0.05)
            self.assertEqual(jax.jit(call)(x.astype("bfloat16"), bias).dtype, jnp.bfloat16)
            many = jnp.stack([x, 2 * x])
            np.testing.assert_array_equal(jax.vmap(call, (0, None))(many, bias)[0], call(x, bias))
            both = jax.vmap(lambda b: gj.dequantize(b, w_dtype, dtype="bfloat16"))(jnp.stack([blocks, blocks[::-1]]))
            np.testing.assert_array_equal(both, jnp.stack([whole, whole[::-1]]).astype("bfloat16"))

    def test_empty(self):
        o, lse = gj.attention(jnp.ones((1, 3, 2, 8)), jnp.ones((1, 0, 2, 8)), jnp.ones((1, 0, 2, 8)), return_lse=True)
        self.assertEqual((float(abs(o).max()), float(lse.max())), (0.0, -np.inf))

    def test_many_plans(self):
        """More shapes than plans are kept."""
        x = jnp.ones((140, 4))
        seen = jax.jit(lambda x: jnp.stack([gj.gemm(x[:n], x[:1])[n - 1, 0] for n in range(1, 140)]))
        for _ in range(2):
            self.assertEqual(set(np.asarray(seen(x))), {4.0})

    def test_refused(self):
        q, k, v = self.draw((1, 5, 4, 16), (1, 5, 2, 16), (1, 5, 2, 16))
        for error, text, call in (
                (ga.ShapeError, "attention: q has 3 dimensions; allowed are 4", lambda: gj.attention(q[0], k, v)),
                (ga.ShapeError, r"attention: v is \[1, 4, 2, 16\]; allowed is \[1, 5, 2, 16\]", lambda: gj.attention(q, k, v[:, 1:])),
                (ga.ShapeError, "q has 3 heads, k 2; allowed is a multiple", lambda: gj.attention(q[:, :, :3], k, v)),
                (ga.DtypeError, "attention: q is int32; allowed are float32, float16, bfloat16", lambda: gj.attention(q.astype("int32"), k, v)),
                (ga.DtypeError, "attention: k is bfloat16; allowed is the type of q, float32", lambda: gj.attention(q, k.astype("bfloat16"), v)),
                (ga.ArgumentError, "attention: window is -1; allowed are 0 to", lambda: gj.attention(q, k, v, window=-1)),
                (ga.ArgumentError, "softcap nan; allowed are finite", lambda: gj.attention(q, k, v, softcap=float("nan"))),
                (ga.ShapeError, r"gemm: x is \[2, 3\]; allowed is \[..., 4\]", lambda: gj.gemm(jnp.ones((2, 3)), jnp.ones((5, 4)))),
                (ga.ArgumentError, "gemm: act is 'relu'; allowed are", lambda: gj.gemm(jnp.ones((2, 4)), jnp.ones((5, 4)), act="relu")),
                (ga.ShapeError, "bias is float32 .*; allowed is float32 .5", lambda: gj.gemm(jnp.ones((2, 4)), jnp.ones((5, 4)), jnp.ones(4))),
                (ga.DtypeError, "w is float32; allowed is uint8", lambda: gj.quantized_gemm(jnp.ones((2, 32)), jnp.ones((5, 18)), "q4_0")),
                (ga.ShapeError, "18 bytes for each 32 of k", lambda: gj.dequantize(jnp.ones((5, 20), "uint8"), "q4_0")),
                (ga.DtypeError, "w_dtype is 'f32'; allowed are types of blocks", lambda: gj.quantize(jnp.ones((2, 32)), "f32")),
                (ga.UnsupportedError, "attention: second derivatives", lambda: jax.grad(lambda q: jax.grad(lambda q: gj.attention(q, k, v).sum())(q).sum())(q))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()

    def test_errors_of_the_device(self):
        """What C refuses while the program runs is JAX's error with GA's text."""
        w, = self.draw((4, 256))
        with self.assertRaisesRegex(Exception, "iq2_xxs"):
            jax.block_until_ready(jax.jit(lambda w: gj.quantize(w, "iq2_xxs"))(w))

    def test_frames_that_are_refused(self):
        """A frame of another version is an error that says so, not a guess."""
        import ctypes

        class Version(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p), ("major", ctypes.c_int), ("minor", ctypes.c_int)]

        class NewError(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p), ("message", ctypes.c_char_p), ("code", ctypes.c_int)]
        said = []
        make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(NewError))(lambda e: said.append((e[0].code, e[0].message.decode())) or 1)

        class Api(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p), ("version", Version), ("internal", ctypes.c_void_p),
                        ("error_create", ctypes.c_void_p), ("rest", ctypes.c_void_p * 18)]

        class Frame(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("extensions", ctypes.c_void_p), ("api", ctypes.POINTER(Api)), ("rest", ctypes.c_char * 400)]
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        for _, _, capsule in ga._core.jax_targets():
            handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))(pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))
            for size, major, minor, table in ((8, 0, 1, 400), (4096, 1, 0, 400), (4096, 0, 0, 400), (4096, 0, 1, 64)):
                api = Api(size=table, version=Version(24, None, major, minor), error_create=ctypes.cast(make, ctypes.c_void_p).value)
                self.assertEqual(handler(ctypes.byref(Frame(size=size, api=ctypes.pointer(api)))), 1)
                code, text = said.pop()
                self.assertEqual(code, 12)
                self.assertRegex(text, rf"version {major}\.{minor}, its frame {size} bytes; allowed are 0\.1 and later")

    def test_sinks_packed_and_pages(self):
        """Values and gradients beside those of the module's own functions, one sequence at a time."""
        rng = np.random.default_rng(4)
        draw = lambda *shape: rng.standard_normal(shape).astype("f4")
        q, k, v, sinks = draw(2, 9, 4, 16), draw(2, 9, 2, 16), draw(2, 9, 2, 16), draw(4)
        options = {"causal": True, "window": 6}
        o, lse = ga.attention(q, k, v, sinks=sinks, lse=True, **options)
        call = lambda q, k, v, sinks: gj.attention(q, k, v, sinks=sinks, **options)
        np.testing.assert_allclose(jax.jit(call)(q, k, v, sinks), np.asarray(o), rtol=1e-5, atol=1e-5)
        dout = draw(2, 9, 4, 16)
        seen = jax.grad(lambda *x: (call(*x) * dout).sum(), (0, 1, 2, 3))(q, k, v, sinks)
        for a, b in zip(seen, ga.attention_backward(q, k, v, o, lse, dout, sinks=sinks, **options)):
            np.testing.assert_allclose(a, np.asarray(b), rtol=1e-4, atol=1e-4)
        many = jax.vmap(call, (0, None, None, None))(np.stack([q, q + 1]), k, v, sinks)
        np.testing.assert_allclose(many[1], call(q + 1, k, v, sinks), rtol=1e-6, atol=1e-6)

        start = np.array([0, 4, 4, 9], "i4")
        p = [x[0] for x in (q, k, v)]
        packed = lambda q, k, v: gj.attention(q, k, v, causal=True, q_start=start, kv_start=start, max_q=5, max_kv=5)
        alone = lambda q, k, v: jnp.concatenate([gj.attention(*(x[None, a:b] for x in (q, k, v)), causal=True)[0] for a, b in ((0, 4), (4, 9))])
        np.testing.assert_allclose(jax.jit(packed)(*p), alone(*p), rtol=1e-5, atol=1e-5)
        for a, b in zip(*(jax.grad(lambda *x: (f(*x) * dout[0]).sum(), (0, 1, 2))(*p) for f in (packed, alone))):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

        pages_k, pages_v, table, lengths = draw(7, 4, 2, 16), draw(7, 4, 2, 16), np.array([[5, 1, 0], [2, 3, 6]], "i4"), np.array([9, 12], "i4")
        for argument in range(3):
            arrays = [q[:, :2], pages_k, pages_v]
            with self.assertRaisesRegex(ga.UnsupportedError, "paged_attention: gradients"):
                jax.grad(lambda x: gj.paged_attention(*arrays[:argument], x, *arrays[argument + 1:], table, lengths).sum())(arrays[argument])
        seen = jax.jit(gj.paged_attention)(q[:, :2], pages_k, pages_v, table, lengths)
        for i in range(2):
            whole = [x[table[i]].reshape(12, 2, 16)[None, :lengths[i]] for x in (pages_k, pages_v)]
            np.testing.assert_allclose(seen[i], gj.attention(q[i:i + 1, :2], *whole, causal=True)[0], rtol=1e-5, atol=1e-5)

    def test_packed_padding(self):
        """Tokens behind the last border count as none, whatever lies in the memory of results."""
        rng = np.random.default_rng(5)
        start, n, tokens = np.array([0, 3, 7], "i4"), 7, 512
        q, k, v = (rng.standard_normal((tokens, heads, 16)).astype("f4") for heads in (4, 2, 2))
        options = {"causal": True, "q_start": start, "kv_start": start, "max_q": 5, "max_kv": 5}
        call = jax.jit(lambda q, k, v: gj.attention(q, k, v, return_lse=True, **options))
        grad = jax.jit(jax.grad(lambda q, k, v: gj.attention(q, k, v, **options).sum(), (0, 1, 2)))
        whole = call(*(x[:n] for x in (q, k, v))), grad(*(x[:n] for x in (q, k, v)))
        for i in range(4):
            jax.block_until_ready([jnp.full((tokens, 4, 16), jnp.nan) + i for _ in range(4)])
            (o, lse), gradients = call(q, k, v), grad(q, k, v)
            for seen, wanted in ((o, whole[0][0]), *zip(gradients, whole[1])):
                np.testing.assert_array_equal(seen[:n], wanted)
                np.testing.assert_array_equal(seen[n:], 0)
            np.testing.assert_array_equal(lse[0, :, 3:], -np.inf)
            np.testing.assert_array_equal(lse, whole[0][1])
        for bad in ([1, 3, 7], [0, 3, 600]):
            with self.assertRaisesRegex(Exception, "q_start: borders .*allowed are rising ones from 0 to 512, 5 apart"):
                jax.block_until_ready(gj.attention(q, k, v, **options | {"q_start": np.array(bad, "i4")}))

    def test_targets_check(self):
        """Who calls the targets past gpu_accel.jax gets errors, not reads outside of arrays."""
        x = jnp.zeros((1, 4, 2, 8))
        numbers = {"causal": np.int32(0), "window": np.int32(0), "scale": np.float32(1), "softcap": np.float32(0), "sinks": np.int32(0),
                   "packed": np.int32(0), "max_q": np.int32(0), "max_kv": np.int32(0)}
        shape = lambda *dims, dtype=jnp.float32: jax.ShapeDtypeStruct(dims, dtype)
        good = (shape(1, 4, 2, 8), shape(1, 2, 4))
        call = lambda target, results, *arrays, **options: jax.block_until_ready(gj.ffi.ffi_call(f"gpu_accel_{target}", results)(*arrays, **options))
        call("attention", good, x, x, x, **numbers)
        product = {"xt": np.int32(0), "wt": np.int32(0), "bias": np.int32(0), "act": np.int32(0), "scale": np.float32(1), "w_dtype": ""}
        start = jnp.array([0, 3, 9], jnp.int32)
        for text, work in (
                ("v is f32 .1, 3, 2, 8.; allowed is f32 .*4, 2, any|v is f32", lambda: call("attention", good, x, x, x[:, :3], **numbers)),
                ("k is f16", lambda: call("attention", good, x, x.astype(jnp.float16), x, **numbers)),
                ("o is f32 .1, 3, 2, 8.", lambda: call("attention", (shape(1, 3, 2, 8), good[1]), x, x, x, **numbers)),
                ("lse is f32 .1, 2, 3.", lambda: call("attention", (good[0], shape(1, 2, 3)), x, x, x, **numbers)),
                ("sinks is f32 .3.", lambda: call("attention", good, x, x, x, jnp.zeros(3), **numbers | {"sinks": np.int32(1)})),
                ("borders 1 and 2 are 3 and 9", lambda: call("attention", (good[0], shape(2, 2, 4)), x, x, x, start, start,
                                                           **numbers | {"packed": np.int32(1), "max_q": np.int32(4), "max_kv": np.int32(4)})),
                ("w is f32 .5, 3.; allowed is f32 .*5, 4", lambda: call("gemm", shape(2, 5), jnp.zeros((2, 4)), jnp.zeros((5, 3)), **product)),
                ("x is f32 .2, 4.; allowed is f32 .*3, 4", lambda: call("gemm", shape(3, 5), jnp.zeros((2, 4)), jnp.zeros((5, 4)), **product)),
                ("y is u8 .2, 17.", lambda: call("quantize", shape(2, 17, dtype=jnp.uint8), jnp.zeros((2, 32)), dtype="q4_0")),
                ("w is u8 .2, 18.; allowed is u8 .*2, 36", lambda: call("rows", shape(1, 64), jnp.zeros((2, 18), jnp.uint8), jnp.zeros(1, jnp.int32), w_dtype="q4_0")),
                ("page_table: .0, 0. is 9; allowed are 0 to 0", lambda: call("paged", good[0], x, x, x, jnp.full((1, 1), 9, jnp.int32), jnp.ones(1, jnp.int32),
                                                                             **{n: numbers[n] for n in ("causal", "window", "scale", "softcap")}))):
            with self.subTest(text), self.assertRaisesRegex(Exception, text):
                work()


if __name__ == "__main__":
    unittest.main()
