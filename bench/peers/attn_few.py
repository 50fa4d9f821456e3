#!/usr/bin/env python3
"""Attention forward of few queries over long K and V, heads in groups, beside its rivals on one NVIDIA GPU: one process, random order; JSON.

    attn_few.py LIBGA.so [--rows] [--rounds 7] [-k D128 ...] [--json FILE]

ours       libga: the kernel its planner takes; with --rows every kernel that can serve the shape.
cudnn, fa2 PyTorch's scaled_dot_product_attention with enable_gqa and that backend alone.

bf16, 8 sequences, 32 query heads, 8 kv heads, no mask; microseconds a call, graphs of calls that take turns over two sets of buffers
(more than L2 each but for the shortest). Every result is compared with a reference first. Medians, 10th and 90th percentiles."""
import argparse, ctypes, random, statistics, sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention import BF16, WRONG, Desc, Ga, Io, Planned, Strides, Theirs, write_report

CALLS = 8  # of a graph


class Shape:
    def __init__(self, d, q, kv, b=8, h=32, hk=8):
        self.d, self.q, self.kv, self.b, self.h, self.hk = d, q, kv, b, h, hk
        self.name = f"D{d} B{b} q{q} kv{kv} {h}/{hk}"


class Ours(Planned):
    def __init__(self, ga, ctx, s, sets):
        super().__init__(ga, ctx)
        desc = Desc(ctypes.sizeof(Desc), s.b, s.q, s.kv, s.h, s.hk, s.d, s.d, BF16, BF16, BF16, 0)
        if ga.none(ga.lib.ga_attn_plan(ctx, ctypes.byref(desc), ctypes.byref(self.plan))):
            return
        self.kernel = ga.lib.ga_plan_kernel_id(self.plan).decode()
        self.space = torch.empty(ga.lib.ga_plan_workspace_bytes(self.plan) + 16, dtype=torch.uint8, device="cuda")
        self.out = [torch.full_like(x[0], float("nan")) for x in sets]
        st = [Strides(n * h * s.d, h * s.d, s.d) for n, h in ((s.q, s.h), (s.kv, s.hk))]
        self.io = [Io(x[0].data_ptr(), x[1].data_ptr(), x[2].data_ptr(), o.data_ptr(), None, st[0], st[1], st[1], st[0]) for x, o in zip(sets, self.out)]
        torch.cuda.synchronize()

    def call(self, i):
        self.ga.check(self.ga.lib.ga_attn_run(self.plan, ctypes.byref(self.io[i % len(self.io)]), ctypes.c_void_p(self.space.data_ptr()), None))


def sdpa(sets, backend):
    views = [[t.transpose(1, 2) for t in x] for x in sets]

    def call(i):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*views[i % len(views)], enable_gqa=True).transpose(1, 2)
    return call


def reference(s, x):
    """One sequence after the other, in f32."""
    q, k, v = (t.transpose(1, 2).float() for t in x)
    k, v = (t.repeat_interleave(s.h // s.hk, 1) for t in (k, v))
    return torch.cat([F.scaled_dot_product_attention(q[i:i + 1], k[i:i + 1], v[i:i + 1]) for i in range(s.b)]).transpose(1, 2)


def check(s, ref, contenders):
    good = []
    for c in contenders:
        try:
            e = float((c.result().float() - ref).norm() / ref.norm())
            if not e < WRONG:
                raise RuntimeError(f"WRONG, error {e:.3g}")
            good.append(c)
        except RuntimeError as problem:
            print(f"{s.name}: {c.kernel}: {str(problem).splitlines()[0]}", file=sys.stderr)
    return good


def one_time(c, rounds):
    c.replay()
    c.mark(0)
    for _ in range(rounds):
        c.replay()
    c.mark(1)
    return c.elapsed_us() / (rounds * CALLS)


def measure(a, ga, s):
    def rand(n, h):
        return torch.randn(s.b, n, h, s.d, device="cuda", dtype=torch.bfloat16)
    sets = [[rand(s.q, s.h), rand(s.kv, s.hk), rand(s.kv, s.hk)] for _ in range(2)]
    ref = reference(s, sets[0])
    mine = check(s, ref, ga.contenders(Ours, s, sets, a.rows))
    everyone = mine + check(s, ref, [Theirs("cudnn", sdpa(sets, SDPBackend.CUDNN_ATTENTION)), Theirs("fa2", sdpa(sets, SDPBackend.FLASH_ATTENTION))])
    for c in everyone:
        c.record(CALLS)
    times = {c.kernel: [] for c in everyone}
    for _ in range(a.rounds):
        random.shuffle(everyone)
        for c in everyone:
            times[c.kernel].append(one_time(c, 2))
            torch.cuda.synchronize()

    def spread(v):
        v = sorted(v)
        return {"median": statistics.median(v), "p10": v[len(v) // 10], "p90": v[-1 - len(v) // 10]}
    r = {"shape": s.name, "d": s.d, "q": s.q, "kv": s.kv, "b": s.b, "q_heads": s.h, "kv_heads": s.hk, "unit": "us", "ours": [c.kernel for c in mine],
         "results": {k: spread(v) for k, v in times.items()}}
    text = "  ".join(f"{k} {x['median']:.1f} ({x['p10']:.1f}-{x['p90']:.1f})" for k, x in r["results"].items())
    print(f"{s.name}: {text}", file=sys.stderr, flush=True)
    return r


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    p.add_argument("--rows", action="store_true")
    p.add_argument("--json")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("-k", nargs="*", default=[], help="only shapes whose name contains one of these")
    a = p.parse_args()
    torch.manual_seed(0)
    random.seed(1)
    shapes = [Shape(d, q, kv) for d in (128, 64) for kv in (4096, 16384) for q in (1, 4, 16, 64)]
    shapes += [Shape(128, q, 16384, b=1) for q in (16, 64, 128)]
    ga = Ga(a.libga)
    results = [measure(a, ga, s) for s in shapes if not a.k or any(k in s.name + " " for k in a.k)]
    write_report(a, results)


if __name__ == "__main__":
    main()
