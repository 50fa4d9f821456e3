#!/usr/bin/env python3
"""Attention forward in 8 bits beside FlashAttention-3's on one NVIDIA GPU: 24 shapes, one process, random order; JSON.

    attn_fp8.py LIBGA.so [--fa3 LIB.so] [--kinds ours fast int8] [--rows] [--rounds 5] [-k D128 ...] [--json FILE]

ours       libga: the kernel its planner takes, inputs quantised before by its own quantiser (Hadamard transform of Q and K, a scale for
           every 128 tokens of a head); with --rows every kernel that can serve the shape.
fast       the same with sums in the tensor cores (GA_ATTN_FAST_SUM), V without its columns' means.
int8       libga's kernel for Q and K in int8 with a scale for each token of Q, V as above.
bf16       libga's kernel for bf16 inputs.
whole      each of these with the quantiser's three launches in every call.
fa3        FlashAttention-3's e4m3 kernels (bf16 results, a scale for every head of a sequence): the package fa3-fwd if it can be
           imported, else --fa3, a library with
           int fa3_fwd_fp8(q, k, v, o, lse, q_scale, k_scale, v_scale, semaphore, b, s, h, d, 0, scale, causal, stream).

16384 tokens, heads = 2048 / D, random normal bf16 data; TFLOP/s of 4 B H S S D, halved for causal; back-to-back launches, two sets of
buffers in turn. Every result is compared with bf16 attention first. Medians, 10th and 90th percentiles over rounds."""
import argparse, ctypes, math, random, sys

import torch

from attention import BF16, CAUSAL, Desc, Ga, Io, Nvml, Ours as Plain, Planned, Scale, Shape, Strides, Theirs, reference, show, interleave, write_report

I8, E4M3, BLOCK, FAST_SUM = 5, 10, 128, 512  # GA_I8, GA_E4M3; tokens of a scale; GA_ATTN_FAST_SUM
WRONG = 8e-2  # Frobenius error of e4m3 attention on normal data is 5 to 6e-2
ROWS, VALUES = 0, 1


class QuantDesc(ctypes.Structure):
    _fields_ = ([("struct_size", ctypes.c_size_t), ("batch", ctypes.c_int64), ("tokens", ctypes.c_int64)]
                + [(n, ctypes.c_int32) for n in ("heads", "dim", "x_dtype", "y_dtype", "kind", "scale_tokens", "hadamard")]
                + [("seed", ctypes.c_uint32), ("rot_dim", ctypes.c_int32), ("pairs", ctypes.c_int32), ("magnitude", ctypes.c_float), ("centre", ctypes.c_int32), ("reserved", ctypes.c_int32 * 2)])


class QuantIo(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("scale", ctypes.c_void_p), ("given", Scale), ("x_stride", Strides),
                ("y_stride", Strides), ("positions", ctypes.c_void_p), ("inv_freq", ctypes.c_void_p), ("mean", ctypes.c_void_p)]


class Quantiser:
    """bf16 Q, K and V of one shape to 8 bits: Q and K of that type."""

    def __init__(self, ga, ctx, s, type, q_tokens, centre):
        self.ga, self.plans = ga, []
        for kind, tokens in ((ROWS, q_tokens), (ROWS, BLOCK), (VALUES, BLOCK)):
            desc = QuantDesc(ctypes.sizeof(QuantDesc), s.b, s.s, s.h, s.d, BF16, type if kind == ROWS else E4M3, kind, tokens, kind == ROWS, 1, 0, 0, 1, int(centre and kind == VALUES))
            plan = ctypes.c_void_p()
            ga.check(ga.lib.ga_attn_quant_plan(ctx, ctypes.byref(desc), ctypes.byref(plan)))
            self.plans.append(plan)

    def call(self, io):
        for plan, x in zip(self.plans, io):
            self.ga.check(self.ga.lib.ga_attn_quant_run(plan, ctypes.byref(x), None, None))


class Ours(Planned):
    type, q_tokens, flags, tag = E4M3, BLOCK, 0, ""

    def __init__(self, ga, ctx, s, sets):
        super().__init__(ga, ctx)
        desc = Desc(ctypes.sizeof(Desc), s.b, s.s, s.s, s.h, s.h, s.d, s.d, self.type, E4M3, BF16, self.flags | (CAUSAL if s.causal else 0))
        desc.q_scale_tokens, desc.kv_scale_tokens = self.q_tokens, BLOCK
        if ga.none(ga.lib.ga_attn_plan(ctx, ctypes.byref(desc), ctypes.byref(self.plan))):
            return
        if ga.lib.ga_plan_workspace_bytes(self.plan):
            raise RuntimeError("a workspace is needed: not written")
        self.kernel = ga.lib.ga_plan_kernel_id(self.plan).decode() + self.tag
        self.quantiser = Quantiser(ga, ctx, s, self.type, self.q_tokens, self.flags)
        self.out, self.io, self.quant_io, self.kept = [], [], [], []
        for x in sets:
            self.add_set(s, x)
        torch.cuda.synchronize()
        for io in self.quant_io:
            self.quantiser.call(io)
        ga.check(ga.lib.ga_stream_sync(ctx, None))

    def add_set(self, s, x):
        blocks, row = -(-s.s // BLOCK), Strides(s.s * s.h * s.d, s.h * s.d, s.d)
        tokens = blocks * BLOCK  # of V, padded
        y = [torch.empty(s.b * s.h * s.d * n, dtype=torch.uint8, device="cuda") for n in (s.s, s.s, tokens)]
        scale = [torch.empty(s.b, s.h, -(-s.s // n), device="cuda") for n in (self.q_tokens, BLOCK, BLOCK)]
        o = torch.full_like(x[0], float("nan"))
        mean = torch.empty(s.b, s.h, s.d, device="cuda")
        self.kept.append((y, scale, mean))
        self.out.append(o)
        self.quant_io.append([QuantIo(a.data_ptr(), b.data_ptr(), c.data_ptr()) for a, b, c in zip(x, y, scale)])
        self.quant_io[-1][2].mean = mean.data_ptr()
        v = Strides(s.h * s.d * tokens, tokens, s.d * tokens)  # token: from one dim to the next
        io = Io(y[0].data_ptr(), y[1].data_ptr(), y[2].data_ptr(), o.data_ptr(), None, row, row, v, row)
        io.q_scale, io.k_scale, io.v_scale = (Scale(c.data_ptr(), s.h * c.shape[2], c.shape[2], 1) for c in scale)
        io.v_mean = mean.data_ptr() if self.flags else None
        self.io.append(io)

    def call(self, i):
        self.ga.check(self.ga.lib.ga_attn_run(self.plan, ctypes.byref(self.io[i % len(self.io)]), None, None))


class Fast(Ours):
    flags = FAST_SUM


class Int8(Ours):
    type, q_tokens = I8, 1


class Whole(Ours):
    name = "whole e4m3"

    def __init__(self, ga, ctx, s, sets):
        super().__init__(ga, ctx, s, sets)
        self.kernel = self.kernel and self.name

    def call(self, i):
        self.quantiser.call(self.quant_io[i % len(self.io)])
        super().call(i)


class WholeFast(Whole):
    flags, name = FAST_SUM, "whole fast"


class WholeInt8(Whole):
    type, q_tokens, name = I8, 1, "whole int8"


KINDS = {"ours": (Ours, Whole), "fast": (Fast, WholeFast), "int8": (Int8, WholeInt8)}


def e4m3_by_head(sets):
    """[(Q, K and V in e4m3, their scales [batch, head])] of sets of bf16 tensors."""
    out = []
    for x in sets:
        scale = [t.abs().amax((1, 3)).float() / 448 for t in x]
        out.append(([(t / c[:, None, :, None]).to(torch.float8_e4m3fn) for t, c in zip(x, scale)], scale))
    return out


def fa3_package(s, sets):
    try:
        from fa3_fwd_interface import flash_attn_func
    except ImportError:
        return None
    mine = e4m3_by_head(sets)

    def call(i):
        y, scale = mine[i % len(mine)]
        r = flash_attn_func(*y, causal=s.causal, **{f"{name}_descale": c for name, c in zip("qkv", scale)})
        return r[0] if isinstance(r, tuple) else r
    return Theirs("fa3", call)


def fa3_library(path, s, sets):
    lib = ctypes.CDLL(path)
    p, i32 = ctypes.c_void_p, ctypes.c_int
    lib.fa3_fwd_fp8.argtypes = [p] * 9 + [i32] * 5 + [ctypes.c_float, i32, p]
    lse, semaphore = torch.empty(s.b, s.h, s.s, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    mine = [(y, scale, torch.empty_like(x[0])) for (y, scale), x in zip(e4m3_by_head(sets), sets)]

    def call(i):
        y, scale, o = mine[i % len(mine)]
        rc = lib.fa3_fwd_fp8(*(t.data_ptr() for t in y), o.data_ptr(), lse.data_ptr(), *(c.data_ptr() for c in scale), semaphore.data_ptr(),
                             s.b, s.s, s.h, s.d, 0, 1 / math.sqrt(s.d), int(s.causal), torch.cuda.current_stream().cuda_stream)
        if rc:
            raise RuntimeError(f"fa3: {rc}")
        return o
    return Theirs("fa3", call)


def right(s, x, contenders):
    """Drops who is wrong, and says so."""
    ref, good = reference(s, x), []
    for c in contenders:
        e = float((c.result().float() - ref).norm() / ref.norm())
        if e < WRONG:
            good.append(c)
        else:
            print(f"{s.name}: {c.kernel}: WRONG, error {e:.3g}", file=sys.stderr)
    return good


def measure(a, ga, s, nvml):
    sets = [[torch.randn(s.b, s.s, s.h, s.d, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for _ in range(2)]
    kinds = [KINDS[k] for k in a.kinds]
    mine = [one for kind, _ in kinds for one in ga.contenders(kind, s, sets, a.rows)]
    ours = right(s, sets[0], mine + [whole(ga, ga.context(""), s, sets) for _, whole in kinds])
    fa3 = fa3_package(s, sets) or (fa3_library(a.fa3, s, sets) if a.fa3 else None)
    everyone = ours + right(s, sets[0], [Plain(ga, ga.context(""), s, sets)] + ([fa3] if fa3 else []))
    return interleave(a, s, everyone, ours, max(10, min(60, int(8e-3 / (s.flop / 8e14)))), nvml)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    p.add_argument("--rows", action="store_true")
    p.add_argument("--fa3")
    p.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    p.add_argument("--json")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("-k", nargs="*", default=[], help="only shapes whose name contains one of these")
    a = p.parse_args()
    torch.manual_seed(0)
    random.seed(1)
    ga, nvml, results = Ga(a.libga), Nvml(), []
    for d, causal, n in ((d, causal, n) for d in (64, 128, 256) for causal in (False, True) for n in (512, 2048, 8192, 16384)):
        s = Shape(d, n, 16384 // n, 2048 // d, causal, False)
        if a.k and not any(k in s.name + " " for k in a.k):
            continue
        results.append(measure(a, ga, s, nvml))
        show(results[-1])
    write_report(a, results)


if __name__ == "__main__":
    main()
