#!/usr/bin/env python3
"""Cost of the exact recomputation: every row takes it once, or in every block, against random normal data and against FlashAttention-2 and 3 on the same data.
attn_fallback.py FOLDER LIST ROUNDS [LIBFA3]      S = 8192, 16384 tokens in all, not causal. LIBFA3: see bench/peers/attention.py."""
import ctypes
import random
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_lib import Kernels, variants


def data(kind, b, s, h, d, bn):
    """Scores are 8 * level(column) plus noise; blocks are visited from the last to the first."""
    q, k, v = [torch.randn(b, s, h, d, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    if kind == "normal":
        return q, k, v
    col = torch.arange(s, device="cuda")
    block = col // bn
    level = (block < s // bn - 1).float() * 16.0 if kind == "once" else (s // bn - block).float() * 8.0   # natural log units: 128, or 64 per block
    q[..., 0] = 8.0
    k[..., 0] = (level * d ** 0.5)[None, :, None].to(torch.bfloat16)
    return q, k, v


def fa3(path, q, k, v):
    """A call of fa3_fwd(q, k, v, o, lse, semaphore, b, s, h, d, strides of batch, row, head, scale, causal, stream) that returns o."""
    lib, (b, s, h, d) = ctypes.CDLL(path), q.shape
    p, i32 = ctypes.c_void_p, ctypes.c_int
    lib.fa3_fwd.argtypes = [p] * 6 + [i32] * 4 + [ctypes.c_int64] * 3 + [ctypes.c_float, i32, p]
    o, lse = torch.empty_like(q), torch.empty(b, h, s, device="cuda")
    semaphore = torch.zeros(1, dtype=torch.int32, device="cuda")

    def call():
        if lib.fa3_fwd(*(x.data_ptr() for x in (q, k, v, o, lse, semaphore)), b, s, h, d, s * h * d, h * d, d, d ** -0.5, 0,
                       torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("fa3_fwd failed")
        return o
    return call


def main():
    K, rounds = Kernels(sys.argv[1]), int(sys.argv[3])
    random.seed(2)
    for x in variants(sys.argv[2]):
        if x["MASK"] != "full" or x["RESIDENT"] or x["dtype"] != "bf16" or x["D"] != x["DV"] or x["D"] == 96 or x["BLOCKS"] > 1:
            continue
        d, s = x["D"], 8192
        b, h = 2, 2048 // d
        fns, keep = {}, []
        for kind in ("normal", "once", "always"):
            q, k, v = data(kind, b, s, h, d, x["BN"])
            t = [y.transpose(1, 2) for y in (q, k, v)]
            o = torch.empty_like(q)
            p = K.plan(x, q, k, v, o, None, dependent=1)
            fns[kind] = lambda p=p: K.run(p)

            def fa2(t=t):
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                    return F.scaled_dot_product_attention(*t)
            fns["fa2 " + kind] = fa2
            fns[kind]()
            ref = fa2().transpose(1, 2).float()
            if len(sys.argv) > 4 and d in (64, 128, 256):
                fns["fa3 " + kind] = fa3(sys.argv[4], q, k, v)
                if not float((fns["fa3 " + kind]().float() - ref).norm() / ref.norm()) < 1e-2:
                    print("WRONG fa3", kind)
            e = float((o.float() - ref).norm() / ref.norm())
            keep.append((q, k, v, o))
            if not e < 1e-2:
                print("WRONG", x["id"], kind, e)
        times = {n: [] for n in fns}
        for _ in range(rounds):
            for n in random.sample(list(fns), len(fns)):
                fns[n]()
                a, z = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                for _ in range(5):
                    fns[n]()
                z.record()
                torch.cuda.synchronize()
                times[n].append(4 * b * h * s * s * d * 5 / a.elapsed_time(z) / 1e9)
        print(x["id"] + ": " + "  ".join(f"{n} {sorted(t)[len(t) // 2]:.0f}" for n, t in times.items()), flush=True)


if __name__ == "__main__":
    main()
