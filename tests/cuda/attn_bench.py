#!/usr/bin/env python3
"""Times attention kernels interleaved, in random order, with cuDNN and FlashAttention-2 (through PyTorch), and FlashAttention-3 where importable.
attn_bench.py FOLDER LIST ROUNDS D,causal[,S+S..] ...      TFLOP/s: median (p10-p90); 16384 tokens, heads = 2048 / D, random normal data, buffers rotated over 3 x L2."""
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_lib import Kernels, variants

try:
    import flash_attn_interface as fa3
except ImportError:
    fa3 = None


def peers(q, k, v, causal, d):
    t = [x.transpose(1, 2) for x in (q, k, v)]

    def sdpa(backend):
        def f():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*t, is_causal=causal)
        return f
    out = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "fa2": sdpa(SDPBackend.FLASH_ATTENTION)}
    if fa3:
        out["fa3"] = lambda: fa3.flash_attn_func(q, k, v, causal=causal)
    return out


def main():
    K, rounds = Kernels(sys.argv[1]), int(sys.argv[3])
    vs = variants(sys.argv[2])
    torch.manual_seed(0)
    random.seed(1)
    for spec in sys.argv[4:]:
        w = spec.split(",")
        d, causal = int(w[0]), int(w[1])
        for s in [int(x) for x in w[2].split("+")] if len(w) > 2 else (512, 2048, 8192, 16384):
            b, h = 16384 // s, 2048 // d
            sets = [[torch.randn(b, s, h, d, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for _ in range(2)]  # 2 x 268 MB > 3 x L2
            lse = torch.empty(b, h, s, device="cuda")
            outs = [torch.empty_like(x[0]) for x in sets]
            fns = [{} for _ in sets]
            for i, (q, k, v) in enumerate(sets):
                fns[i].update(peers(q, k, v, bool(causal), d))
                if i == 0:
                    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                        ref = F.scaled_dot_product_attention(*[x.transpose(1, 2) for x in (q, k, v)], is_causal=bool(causal)).transpose(1, 2).float()
                for x in vs:
                    if x["D"] != d or (x["MASK"] == "causal") != causal or x["dtype"] != "bf16" or x["MASK"] == "window":
                        continue
                    if x["RESIDENT"] and -(-s // x["BN"]) > x["STAGES"]:
                        continue
                    p = K.plan(x, q, k, v, outs[i], lse, dependent=1)
                    fns[i][x["id"]] = lambda p=p: K.run(p)
                    if i == 0:
                        outs[0].fill_(float("nan"))
                        K.run(p)
                        torch.cuda.synchronize()
                        e = float((outs[0].float() - ref).norm() / ref.norm())
                        if not e < 6e-3:
                            print(f"WRONG {x['id']} {spec} S={s}: {e}")
            flop = 4 * b * h * s * s * d / (2 if causal else 1)
            n = max(10, min(60, int(8e-3 / (flop / 5e14))))
            times = {x: [] for x in fns[0]}
            for _ in range(rounds):
                order = list(fns[0])
                random.shuffle(order)
                for x in order:
                    f = [g[x] for g in fns]
                    for i in range(3):
                        f[i % 2]()
                    a, z = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    a.record()
                    for i in range(n):
                        f[i % 2]()
                    z.record()
                    torch.cuda.synchronize()
                    times[x].append(flop * n / a.elapsed_time(z) / 1e9)
            cells = []
            for x, t in times.items():
                t.sort()
                cells.append(f"{x} {t[len(t) // 2]:.0f} ({t[len(t) // 10]:.0f}-{t[-1 - len(t) // 10]:.0f})")
            print(f"D{d} {'causal' if causal else 'full'} S{s}: " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
