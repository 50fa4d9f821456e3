#!/usr/bin/env python3
"""Short sequences (H = 8, D = 64, 16-bit, not causal): microseconds per sequence, CUDA-graph replay of 50 calls, interleaved in random order with cuDNN and
FlashAttention-2 through PyTorch. attn_short.py FOLDER LIST ROUNDS [B,S ...]"""
import random
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_lib import DTYPES, Kernels, variants


def main():
    K, rounds = Kernels(sys.argv[1]), int(sys.argv[3])
    vs = variants(sys.argv[2])
    shapes = [tuple(map(int, x.split(","))) for x in sys.argv[4:]] or [(b, s) for s in (128, 256, 512) for b in (8, 16, 32)]
    for b, s in shapes:
        q, k, v = [torch.randn(b, s, 8, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        t = [x.transpose(1, 2) for x in (q, k, v)]
        o = torch.empty_like(q)
        ref = F.scaled_dot_product_attention(*[x.double() for x in t]).transpose(1, 2)
        fns = {}

        def sdpa(backend):
            def f():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(*t)
            return f
        fns["cudnn"], fns["fa2"] = sdpa(SDPBackend.CUDNN_ATTENTION), sdpa(SDPBackend.FLASH_ATTENTION)
        for x in vs:
            if x["D"] != 64 or x["MASK"] != "full" or x["dtype"] != "bf16" or (x["RESIDENT"] and -(-s // x["BN"]) > x["STAGES"]):
                continue
            p = K.plan(x, q, k, v, o, None, dependent=1)
            fns[x["id"]] = lambda p=p: K.run(p)
            o.fill_(float("nan"))
            K.run(p)
            torch.cuda.synchronize()
            e = float((o.double() - ref).norm() / ref.norm())
            if not e < 6e-3:
                print("WRONG", x["id"], b, s, e)
        graphs, times = {}, {n: [] for n in fns}
        for n, f in fns.items():
            f()
            torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                for _ in range(50):
                    f()
            graphs[n] = g
        for _ in range(rounds):
            order = list(fns)
            random.shuffle(order)
            for n in order:
                graphs[n].replay()
                a, z = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record()
                for _ in range(4):
                    graphs[n].replay()
                z.record()
                torch.cuda.synchronize()
                times[n].append(a.elapsed_time(z) * 1e3 / 200 / b)
        cells = []
        for n, t_ in times.items():
            t_.sort()
            cells.append(f"{n} {t_[len(t_) // 2]:.3f} ({t_[len(t_) // 10]:.3f}-{t_[-1 - len(t_) // 10]:.3f})")
        best = min(fns, key=lambda n: times[n][len(times[n]) // 2])
        print(f"B{b} S{s}: " + "  ".join(cells) + f"  | best {best}", flush=True)


if __name__ == "__main__":
    main()
