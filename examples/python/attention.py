#!/usr/bin/env python3
"""Attention on NumPy arrays, with a window, gradients, a plan, and pages. Usage: attention.py [TOKENS]"""
import sys

import gpu_accel as ga
import numpy as np


def error(seen, wanted):
    return float(np.abs(np.asarray(seen) - np.asarray(wanted)).max())


def main():
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    rng = np.random.default_rng(0)
    q, k, v, dout = (rng.standard_normal((1, tokens, heads, 64)).astype("f4") for heads in (8, 2, 2, 8))  # 4 query heads share keys

    o, lse = ga.attention(q, k, v, causal=True, window=256, lse=True)
    dq, dk, dv = ga.attention_backward(q, k, v, o, lse, dout, causal=True, window=256)
    print(f"o {o.shape}, dq {dq.shape}, dk {dk.shape}, dv {dv.shape}")

    plan = ga.default_context().plan("attention", q, k, v, causal=True, window=256, lse=True)
    print(f"chosen: {plan.kernel}, workspace {plan.workspace_bytes} bytes")

    # The same keys and values as pages of 16 tokens in any order.
    n_pages = (tokens + 15) // 16
    order = rng.permutation(n_pages).astype("i4")
    k_pages, v_pages = (np.zeros((n_pages, 16, 2, 64), "f4") for _ in range(2))
    at = np.arange(tokens)
    ga.kv_store(k[0], v[0], (order[at // 16] * 16 + at % 16).astype("i4"), k_pages, v_pages)
    paged = ga.attention(q, k_pages, v_pages, causal=True, window=256, page_table=order[None], kv_len=np.array([tokens], "i4"))
    print(f"pages differ by {error(paged, o):.1e}")
    return error(paged, o) > 1e-4


if __name__ == "__main__":
    sys.exit(main())
