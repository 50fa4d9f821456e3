"""JAX on an NVIDIA GPU. Skipped where there is no GPU or no JAX. Each test is few programs: JAX compiles every operation
outside of one by itself."""
import unittest

import gpu_accel as ga

try:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import gpu_accel.jax as gj
    JAX = bool(jax.devices("gpu"))
except (ImportError, RuntimeError):
    JAX = False


def distances(ours, theirs):
    """Relative ones (Frobenius), in f32."""
    norm = lambda x: jnp.sqrt(jnp.square(x.astype("float32")).sum())
    return [norm(a.astype("float32") - b.astype("float32")) / norm(b) for a, b in zip(ours, theirs)]


@unittest.skipUnless(JAX, "no JAX with a GPU")
class Jax(unittest.TestCase):
    def draw(self, *shapes, dtype="bfloat16"):
        rng = np.random.default_rng(5)
        return [jnp.asarray(rng.standard_normal(s).astype("f4"), dtype) for s in shapes]

    def test_attention(self):
        """Values and gradients: at most twice as far from f32 as jax.nn in the same type."""
        inputs = self.draw((2, 200, 4, 64), (2, 200, 2, 64), (2, 200, 2, 64))
        weights, = self.draw((2, 200, 4, 64), dtype="float32")
        ours = lambda *x: gj.attention(*x, causal=True)
        theirs = lambda *x: jax.nn.dot_product_attention(*x, is_causal=True)

        def all_of(attend, inputs):
            o, back = jax.vjp(attend, *inputs)
            return o, *back(weights.astype(o.dtype))

        @jax.jit
        def compare(*inputs):
            with jax.default_matmul_precision("highest"):
                exact = all_of(theirs, [x.astype("float32") for x in inputs])
            return distances(all_of(ours, inputs), exact), distances(all_of(theirs, inputs), exact)
        for mine, other in zip(*compare(*inputs)):
            self.assertLess(float(mine), 2 * float(other))

    def test_jit_and_scan(self):
        q, k, v = self.draw((2, 200, 4, 64), (2, 200, 2, 64), (2, 200, 2, 64))
        one = lambda x: gj.attention(x, k, v, causal=True)
        seen = jax.jit(lambda q: jax.lax.scan(lambda x, _: (one(x), None), q, None, length=3)[0])(q)
        np.testing.assert_array_equal(np.asarray(seen, "f4"), np.asarray(one(one(one(q))), "f4"))

    def test_deterministic(self):
        q, k, v = self.draw((2, 333, 4, 64), (2, 333, 2, 64), (2, 333, 2, 64))
        grad = jax.jit(jax.grad(lambda *x: gj.attention(*x, deterministic=True).astype("float32").sum(), (0, 1, 2)))
        for a, b in zip(grad(q, k, v), grad(q, k, v)):
            np.testing.assert_array_equal(np.asarray(a, "f4"), np.asarray(b, "f4"))

    def test_products(self):
        x, w, dy = self.draw((33, 256), (64, 256), (33, 64))
        whole = np.asarray(w, "f4")
        blocks = jnp.asarray(np.asarray(ga.quantize(whole, "q8_0").bytes()))

        @jax.jit
        def compare(x, w, dy, blocks):
            y, back = jax.vjp(gj.gemm, x, w)
            z, back_z = jax.vjp(lambda x: gj.quantized_gemm(x, blocks, "q8_0"), x)
            with jax.default_matmul_precision("highest"):
                x, w, dy = (a.astype("float32") for a in (x, w, dy))
                right = (x @ w.T, dy @ w, dy.T @ x, x @ w.T, dy @ w, w)
            low = dy.astype("bfloat16")
            return distances((y, *back(low), z, *back_z(low), gj.dequantize(blocks, "q8_0")), right)
        for name, far in zip(("y", "dx", "dw", "quantised y", "quantised dx", "dequantised"), compare(x, w, dy, blocks)):
            self.assertLess(float(far), 0.02, name)

    def test_sinks_packed_and_pages(self):
        """One program: packed sequences as single ones, a sink far below as none, pages as the keys that they hold."""
        q, k, v = self.draw((1, 96, 4, 64), (1, 96, 2, 64), (1, 96, 2, 64))
        start = jnp.array([0, 40, 96], jnp.int32)
        table, lengths = jnp.array([[2, 0, 1]], jnp.int32), jnp.array([80], jnp.int32)

        @jax.jit
        def compare(q, k, v):
            pages = [x.reshape(3, 32, 2, 64)[jnp.array([1, 2, 0])] for x in (k, v)]  # page table[i] holds part i
            packed = gj.attention(q[0], k[0], v[0], causal=True, q_start=start, kv_start=start, max_q=56, max_kv=56)
            alone = jnp.concatenate([gj.attention(*(x[:, a:b] for x in (q, k, v)), causal=True)[0] for a, b in ((0, 40), (40, 96))])
            low = gj.attention(q, k, v, causal=True, sinks=jnp.full(4, -1e4, jnp.float32))
            paged = gj.paged_attention(q[:, :1], *pages, table, lengths)
            return distances((packed, low, paged), (alone, gj.attention(q, k, v, causal=True), gj.attention(q[:, :1], k[:, :80], v[:, :80], causal=True)))
        for name, far in zip(("packed", "sinks", "pages"), compare(q, k, v)):
            self.assertLess(float(far), 0.01, name)

    def test_quantize_is_refused(self):
        with self.assertRaisesRegex(Exception, "convert on cuda"):
            jax.block_until_ready(gj.quantize(jnp.ones((4, 32)), "q8_0"))


if __name__ == "__main__":
    unittest.main()
