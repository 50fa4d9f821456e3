#!/usr/bin/env python3
"""Error of attention forward beside FlashAttention-3 and cuDNN, against float64, on one NVIDIA GPU; JSON on standard output or --json FILE.

    attention_accuracy.py LIBGA.so [-k D64 ...] [--json FILE]

Normal K and V, queries times a gain: the larger it is, the fewer keys have the weight of a row. Errors are Frobenius norms over that of the
reference. `running` is an evaluation with a running maximum by blocks of 128 keys from the last down, weights rounded to the type, f32 sums:
the measure where FlashAttention-3 has no such case (its package on PyPI has no f16 and no windows). Windows and soft-caps have the same
gains. Rivals as in attention.py."""
import argparse, ctypes, math, sys

import torch
from torch.nn.attention import SDPBackend

import attention as peers

TYPES = {"bf16": (3, torch.bfloat16), "f16": (2, torch.float16)}  # GA_BF16, GA_F16
GAINS = (0.25, 1, 1.5, 2, 3, 4, 16, 64)


class Case:
    def __init__(self, d, q, kv, h, kind, causal, mean=0.0, window=0, softcap=0.0):
        self.d, self.q, self.kv, self.h, self.kind, self.causal, self.mean = d, q, kv, h, kind, causal, mean
        self.window, self.softcap = window, softcap
        extras = [f"V + {mean:g}"] * (mean != 0) + [f"window {window}"] * (window != 0) + [f"soft-cap {softcap:g}"] * (softcap != 0)
        self.name = ", ".join([f"D{d} {kind} {'causal' if causal else 'full'} {q} x {kv}"] + extras)

    def draw(self, gain):
        dtype, shape = TYPES[self.kind][1], lambda n: (2, n, self.h, self.d)
        q, k, v = (torch.randn(*shape(n), device="cuda") for n in (self.q, self.kv, self.kv))
        return [(q * gain).to(dtype), k.to(dtype), (v + self.mean).to(dtype)]


class Ours(peers.Planned):
    def __init__(self, ga, case, x):
        super().__init__(ga, ga.context(""))
        d, t = case, TYPES[case.kind][0]
        desc = peers.Desc(ctypes.sizeof(peers.Desc), 2, d.q, d.kv, d.h, d.h, d.d, d.d, t, t, t, peers.CAUSAL if d.causal else 0,
                          d.window, 0, 0.0, d.softcap)
        ga.check(ga.lib.ga_attn_plan(self.ctx, ctypes.byref(desc), ctypes.byref(self.plan)))
        self.kernel = ga.lib.ga_plan_kernel_id(self.plan).decode()
        self.workspace = torch.zeros(max(1, ga.lib.ga_plan_workspace_bytes(self.plan)), dtype=torch.uint8, device="cuda")
        st = [peers.Strides(n * d.h * d.d, d.h * d.d, d.d) for n in (d.q, d.kv)]
        self.out = [torch.full_like(x[0], float("nan"))]
        self.io = peers.Io(x[0].data_ptr(), x[1].data_ptr(), x[2].data_ptr(), self.out[0].data_ptr(), None, st[0], st[1], st[1], st[0])
        torch.cuda.synchronize()

    def call(self, i):
        self.ga.check(self.ga.lib.ga_attn_run(self.plan, ctypes.byref(self.io), ctypes.c_void_p(self.workspace.data_ptr()), None))


def logits(x, case, dtype):
    q, k = (t.to(dtype).transpose(1, 2) for t in x[:2])
    s = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if case.softcap:
        s = case.softcap * torch.tanh(s / case.softcap)
    n, m = s.shape[2:]
    hidden = torch.zeros(n, m, device="cuda", dtype=torch.bool)
    if case.causal:
        hidden |= torch.ones_like(hidden).triu(m - n + 1)
    if case.window:
        hidden |= torch.ones_like(hidden).tril(m - n - case.window)
    return s.masked_fill_(hidden, -math.inf)


def reference(x, case):
    return (torch.softmax(logits(x, case, torch.float64), 3) @ x[2].double().transpose(1, 2)).transpose(1, 2)


def running(x, case):
    s, v, dtype = logits(x, case, torch.float32), x[2].float().transpose(1, 2), x[0].dtype
    o, total, top = torch.zeros_like(x[0].float().transpose(1, 2)), 0.0, torch.full_like(s[..., :1], -math.inf)
    for j in range((s.shape[3] - 1) // 128 * 128, -1, -128):
        now = torch.maximum(top, s[..., j:j + 128].max(3, keepdim=True).values)
        ref = torch.where(now == -math.inf, 0.0, now)
        f, p = torch.exp(top - ref), torch.exp(s[..., j:j + 128] - ref)
        o, total, top = o * f + p.to(dtype).float() @ v[..., j:j + 128, :], total * f + p.sum(3, keepdim=True), now
    return (o / total).to(dtype).transpose(1, 2)


def measure(a, ga, case, gain):
    x = case.draw(gain)
    ref, ours = reference(x, case), Ours(ga, case, x)
    calls = {"ga": ours.result, "running": lambda: running(x, case)}
    if (case.q == case.kv or not case.causal) and not case.window and not case.softcap:  # PyTorch's causal mask is aligned to the top left
        calls["cudnn"] = lambda: peers.sdpa([x], SDPBackend.CUDNN_ATTENTION, case.causal)(0)
    fa3 = peers.fa3_package(case, [x])
    if fa3:
        calls["fa3"] = lambda: fa3(0)
    errors = {}
    for name, call in calls.items():
        try:
            errors[name] = float((call().double() - ref).norm() / ref.norm())
        except RuntimeError as problem:
            print(f"{case.name}: {name}: {problem}", file=sys.stderr)
    print(f"{case.name} gain {gain}: " + "  ".join(f"{k} {1e3 * v:.3f}" for k, v in errors.items()), ours.kernel, file=sys.stderr, flush=True)
    return {"case": case.name, "gain": gain, "kernel": ours.kernel, "error": errors}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    p.add_argument("--json")
    p.add_argument("-k", nargs="*", default=[], help="only cases whose name contains one of these")
    a = p.parse_args()
    a.rounds = 1
    torch.manual_seed(0)
    cases = [Case(d, 2048, 2048, 8, kind, causal) for kind in TYPES for d in (64, 128, 256) for causal in (False, True)]
    cases += [Case(d, 512, kv, 8, "bf16", False) for d in (64, 128, 256) for kv in (1, 2, 17, 64, 256, 512)]
    cases += [Case(d, 2048, 2048, 8, kind, True, window=w, softcap=c) for kind in TYPES for d in (64, 128, 256) for w, c in ((512, 0), (0, 30), (512, 30))]
    cases += [Case(d, 2048, 16384, 4, "bf16", False) for d in (64, 128, 256)] + [Case(128, 2048, 2048, 8, "bf16", False, 1.0)]
    ga = peers.Ga(a.libga)
    results = [measure(a, ga, c, gain) for c in cases if not a.k or any(k in c.name + " " for k in a.k) for gain in GAINS]
    peers.write_report(a, results)


if __name__ == "__main__":
    main()
