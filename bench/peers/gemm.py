#!/usr/bin/env python3
"""Matrix products beside cuBLAS (through PyTorch) on one NVIDIA GPU, in one process, in random order; JSON on standard output or --json FILE.

    gemm.py LIBGA.so [--rows] [--f16] [--across wt|xtwt] [--f32] [--fp8] [--quant TYPE ...] [--ids PATTERN ...] [--rounds 9] [-k 4096x ...] [--json FILE]

Shapes are m x n x k of Y [m, n] = X [m, k] W [n, k]^T, bf16 in and out. ours: libga through ctypes, the kernel its planner takes; with --rows
every kernel for the operands, by hiding the ones before, and with --ids those of them whose id matches a pattern (with * and ?). cublas: torch.mm(x, w.t()). Graphs of calls that take turns over sets of buffers of
more than 3 x L2 in all. Results are compared with cuBLAS's in f32 first. Medians, 10th and 90th percentiles over rounds of TFLOP/s;
per shape the clock and the power (NVML), read while the GPU works. Random normal data.

--across wt: W stored [k, n], as in dX = dY W; xtwt: X stored [k, m] too, as in dW = dY^T X. --f32: results in f32.
--fp8: e4m3 by e4m3 into bf16: with one scale a tensor, all k summed in the tensor cores (fast) or 128 at a time, and with scales of blocks; beside
cuBLAS with a scale a tensor, with and without fast accumulation, and with scales of blocks where PyTorch takes them.

--quant q4_k ...: packed weights of that type, bf16 and f16 among them, by f32 activations into f32, whatever m (the llama shapes below), beside cuBLAS with bf16 weights
and bf16 activations; microseconds too. The preparation of the activations is ours to pay, not cuBLAS's."""
import argparse, ctypes, fnmatch, random, statistics, sys

import torch

from attention import Ga, L2_BYTES, Nvml, Planned, Theirs, write_report

F32, F16, BF16, E4M3, MMA_PACKED = 1, 2, 3, 10, 2  # GA_F32, GA_F16, GA_BF16, GA_E4M3, GA_LAYOUT_MMA_PACKED
ACROSS = {"": 0, "wt": 64, "xtwt": 96}  # GA_GEMM_XT, GA_GEMM_WT
FAST_SUM = 128
SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384), (8192, 28672, 4096), (2048, 4096, 4096), (128, 4096, 4096)]
LLAMA = [(m, 4096, 14336) for m in (9, 16, 32, 64, 128, 256, 512, 2048)] + [(512, 14336, 4096)]
QUANT = {"f16": (2, 1, 2), "bf16": (3, 1, 2), "q4_0": (20, 32, 18), "q8_0": (24, 32, 34), "q4_k": (27, 256, 144), "q6_k": (29, 256, 210)}  # ga_dtype, block, bytes
WRONG = {F16: 1e-3, BF16: 4e-3, None: 4e-3}  # Frobenius error of rounding the result; of bf16 operands


class Desc(ctypes.Structure):
    _fields_ = ([("struct_size", ctypes.c_size_t)] + [(n, ctypes.c_int64) for n in ("m", "n", "k", "x_stride", "y_stride", "w_stride")]
                + [(n, ctypes.c_int32) for n in ("w_dtype", "x_dtype", "y_dtype", "w_layout", "act")]
                + [("flags", ctypes.c_uint32), ("scale", ctypes.c_float), ("scales", ctypes.c_int32)])


class Io(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("x", "w", "y", "bias", "gate", "residual", "x_scale", "w_scale")]


class PackDesc(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("n", ctypes.c_int64), ("k", ctypes.c_int64), ("w_dtype", ctypes.c_int32), ("w_layout", ctypes.c_int32)]


class Ours(Planned):
    def __init__(self, ga, disable_kernels, s, types, sets, flags=0, scales=0, ids=()):
        super().__init__(ga, ga.context(disable_kernels))
        self.sets = sets
        desc = Desc(ctypes.sizeof(Desc), s[0], s[1], s[2], 0, 0, 0, *types, 0, flags, 1.0, scales=scales)
        if ga.none(ga.lib.ga_gemm_plan(self.ctx, ctypes.byref(desc), ctypes.byref(self.plan))):
            return
        self.kernel = ga.lib.ga_plan_kernel_id(self.plan).decode()
        self.wanted = not ids or any(fnmatch.fnmatch(self.kernel, p) for p in ids)
        if not self.wanted:
            return
        y_type = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16}[types[2]]
        self.work = torch.empty(ga.lib.ga_plan_workspace_bytes(self.plan) + 256, device="cuda", dtype=torch.uint8)
        self.at = (self.work.data_ptr() + 255) // 256 * 256
        self.out = [torch.full((s[0], s[1]), float("nan"), device="cuda", dtype=y_type) for _ in sets]
        self.io = [Io(x.data_ptr(), w.data_ptr(), y.data_ptr(), **dict(zip(("x_scale", "w_scale"), (t.data_ptr() for t in scale))))
                   for (x, w, *scale), y in zip(sets, self.out)]
        torch.cuda.synchronize()

    def call(self, i):
        self.ga.check(self.ga.lib.ga_gemm_run(self.plan, ctypes.byref(self.io[i % len(self.io)]), ctypes.c_void_p(self.at), None))


def contenders(ga, s, types, sets, every, least, flags=0, scales=0, ids=()):
    """Our kernels for the shape: the planner's choice first; with ids those that match. Rows that are right, not fast, are left out."""
    hidden, out = ["*_native_*"] if least else [], []
    while not out or every or ids:
        one = Ours(ga, ",".join(hidden), s, types, sets, flags, scales, ids)
        if not one.kernel:
            break
        if one.wanted:
            out.append(one)
        hidden.append(one.kernel)
    return out


def good(s, ours, reference, wrong):
    """Drops who is wrong, and says so."""
    out = []
    for c in ours:
        try:
            e = float((c.result().float() - reference).norm() / reference.norm())
        except RuntimeError as problem:
            print(f"{s}: {c.kernel}: {problem}", file=sys.stderr)
            continue
        if e < wrong:
            out.append(c)
        else:
            print(f"{s}: {c.kernel}: WRONG, error {e:.3g}", file=sys.stderr)
    return out


def n_sets(s, bytes_each):
    m, n, k = s
    return max(2, -(-3 * L2_BYTES // (bytes_each * (m * k + n * k) + 2 * m * n)))


def plain_sets(s, dtype, across=""):
    m, n, k = s
    x, w = (k, m) if across == "xtwt" else (m, k), (k, n) if across else (n, k)
    return [(torch.randn(*x, device="cuda", dtype=dtype), torch.randn(*w, device="cuda", dtype=dtype)) for _ in range(n_sets(s, 2))]


def plain(a, ga, s):
    dtype, number = (torch.float16, F16) if a.f16 else (torch.bfloat16, BF16)
    sets = plain_sets(s, dtype, a.across)
    outs = [torch.empty(s[0], s[1], device="cuda", dtype=torch.float32 if a.f32 else dtype) for _ in sets]
    kind = {"out_dtype": torch.float32} if a.f32 else {}

    def theirs(i):
        x, w = sets[i % len(sets)]
        return torch.mm(x.t() if a.across == "xtwt" else x, w if a.across else w.t(), out=outs[i % len(sets)], **kind)
    cublas = Theirs("cublas", theirs)
    reference = cublas.result().float()
    ours = contenders(ga, s, (number, number, F32 if a.f32 else number, 0), sets, a.rows, True, ACROSS[a.across], ids=a.ids)
    return good(s, ours, reference, WRONG[number]), [cublas], len(sets)


def fp8_sets(s):
    """X, W, their blocks' scales, random: [k / 128, m] and [n / 128, k / 128]; and one scale each."""
    m, n, k = s
    def blocks(*shape):
        return torch.rand(*shape, device="cuda") * 0.02 + 0.01
    return [(torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn), torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn),
             blocks(-(-k // 128), m), blocks(-(-n // 128), -(-k // 128)), blocks(1), blocks(1)) for _ in range(n_sets(s, 1))]


def fp8_error(c, one, by_block):
    """Of the first 256 rows, from what the operands mean."""
    x, w, xs, ws, xt, wt = one
    x, w, n, k = x[:256].float(), w.float(), w.shape[0], w.shape[1]
    if by_block:
        x = x * xs.t()[:256].repeat_interleave(128, 1)[:, :k]
        w = w * ws.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    want = x @ w.t() * (1 if by_block else xt * wt)
    return float((c.result()[:256].float() - want).norm() / want.norm())


def fp8_peers(sets):
    outs = [torch.empty(x.shape[0], w.shape[0], device="cuda", dtype=torch.bfloat16) for x, w, *_ in sets]

    def tensor(fast):
        def call(i):
            x, w, _, _, xt, wt = sets[i % len(sets)]
            return torch._scaled_mm(x, w.t(), xt, wt, out_dtype=torch.bfloat16, use_fast_accum=fast, out=outs[i % len(sets)])
        return call

    def block(i):
        x, w, xs, ws, _, _ = sets[i % len(sets)]
        return torch._scaled_mm(x, w.t(), xs.t(), ws.t(), out_dtype=torch.bfloat16, out=outs[i % len(sets)])
    peers = [(Theirs("cublas fast", tensor(True)), False), (Theirs("cublas", tensor(False)), False)]
    try:
        block(0)
        peers.append((Theirs("cublas blocks", block), True))
    except (RuntimeError, ValueError) as problem:
        print(f"cublas with scales of blocks: {str(problem)[:300]}", file=sys.stderr)
    return peers


def fp8(a, ga, s):
    sets = fp8_sets(s)
    one_scale, blocks = [(x, w, xt, wt) for x, w, _, _, xt, wt in sets], [x[:4] for x in sets]
    types, everyone = (E4M3, E4M3, BF16, 0), []
    for name, which, flags, scales in (("fast", one_scale, FAST_SUM, 1), ("", one_scale, 0, 1), ("blocks", blocks, 0, 2)):
        for c in contenders(ga, s, types, which, a.rows, True, flags, scales, a.ids):
            if flags and "_fast" not in c.kernel:
                continue
            c.kernel += " " + name
            everyone.append((c, scales == 2))
    peers = fp8_peers(sets)
    for c, by_block in everyone + peers:
        print(f"{s} {c.kernel}: error {fp8_error(c, sets[0], by_block):.5f}", file=sys.stderr)
    good_ones = [c for c, by_block in everyone if fp8_error(c, sets[0], by_block) < WRONG[BF16]]
    return good_ones, [c for c, _ in peers], len(sets)


def random_blocks(n, k, quant):
    """Any bits, with scales (f16) between 2^-8 and 2^-6; weights of 16 bits are normal."""
    number, block, size = QUANT[quant]
    if number in (F16, BF16):
        return torch.randn(n, k, device="cuda", dtype=torch.float16 if number == F16 else torch.bfloat16)
    b = torch.randint(0, 256, (n * k // block, size), device="cuda", dtype=torch.uint8)
    for at in {"q4_k": (0, 2), "q6_k": (208,)}.get(quant, (0,)):
        b[:, at + 1] = 0x20 + (b[:, at + 1] & 4)
    return b


def quantised(a, ga, s, quant):
    m, n, k = s
    number, block, size = QUANT[quant]
    count = max(2, -(-3 * L2_BYTES // (n * k * size // block)))
    desc = PackDesc(ctypes.sizeof(PackDesc), n, k, number, MMA_PACKED)
    ctx, bytes_ = ga.context(""), ctypes.c_uint64()
    ga.check(ga.lib.ga_pack_bytes(ctx, ctypes.byref(desc), ctypes.byref(bytes_)))
    sets = []
    for _ in range(count):
        blocks, packed = random_blocks(n, k, quant), torch.empty(bytes_.value, device="cuda", dtype=torch.uint8)
        torch.cuda.synchronize()
        ga.check(ga.lib.ga_pack(ctx, ctypes.byref(desc), ctypes.c_void_p(blocks.data_ptr()), ctypes.c_void_p(packed.data_ptr()), None))
        ga.check(ga.lib.ga_stream_sync(ctx, None))
        sets.append((torch.randn(m, k, device="cuda"), packed))
    types = (number, F32, F32, MMA_PACKED)
    exact = contenders(ga, s, types, sets, False, False, ids=["*_mma_packed_sm80_*"])[0].result()
    ours = good(s, contenders(ga, s, types, sets, a.rows, False, ids=a.ids), exact, WRONG[None])
    dense = plain_sets(s, torch.bfloat16)
    return ours, [Theirs("cublas bf16", lambda i: torch.mm(dense[i % len(dense)][0], dense[i % len(dense)][1].t()))], count


def measure(a, ga, s, quant, nvml):
    ours, theirs, count = quantised(a, ga, s, quant) if quant else fp8(a, ga, s) if a.fp8 else plain(a, ga, s)
    everyone, flop = ours + theirs, 2 * s[0] * s[1] * s[2]
    calls = max(2, min(40, -(-int(4e-3 / (flop / 6e14 + 1e-5)) // count) * count))
    for c in everyone:
        c.record(calls)
        c.replay()
    times, states = {c.kernel: [] for c in everyone}, []
    for _ in range(a.rounds):
        random.shuffle(everyone)
        for c in everyone:
            c.replay()
            c.mark(0)
            c.replay()
            c.replay()
            c.mark(1)
            states.append(nvml.now())
            times[c.kernel].append(c.elapsed_us() / (2 * calls))
            torch.cuda.synchronize()
    return summary(s, quant, flop, times, [c.kernel for c in ours], states)


def summary(s, quant, flop, times, ours, states):
    def spread(v):
        v = sorted(v)
        return {"us": statistics.median(v), "tflops": flop / statistics.median(v) / 1e6, "p10": flop / v[-1 - len(v) // 10] / 1e6,
                "p90": flop / v[len(v) // 10] / 1e6}
    r = {"shape": "x".join(map(str, s)) + (" " + quant if quant else ""), "ours": ours, "results": {k: spread(v) for k, v in times.items()},
         "clock_mhz": statistics.median(x[0] for x in states), "power_w": statistics.median(x[1] for x in states)}
    rival = next(k for k in times if k not in ours)
    r["ratio"] = {k: r["results"][rival]["us"] / r["results"][k]["us"] for k in ours}
    return r


def show(r):
    cells = [f"{k} {x['us']:.1f} us {x['tflops']:.0f} ({x['p10']:.0f}-{x['p90']:.0f})" + (f" {r['ratio'][k]:.3f}" if k in r["ratio"] else "")
             for k, x in r["results"].items()]
    print(f"{r['shape']}: {' | '.join(cells)} | {r['clock_mhz']:.0f} MHz {r['power_w']:.0f} W", file=sys.stderr, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    p.add_argument("--rows", action="store_true")
    p.add_argument("--ids", nargs="*", default=[])
    p.add_argument("--f16", action="store_true")
    p.add_argument("--across", choices=list(ACROSS), default="")
    p.add_argument("--f32", action="store_true")
    p.add_argument("--fp8", action="store_true")
    p.add_argument("--quant", nargs="*", default=[])
    p.add_argument("--json")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--shapes", nargs="*", default=[], help="m x n x k to take instead of the lists, as 64x4096x14336")
    p.add_argument("-k", nargs="*", default=[], help="only shapes whose name begins with one of these")
    a = p.parse_args()
    torch.manual_seed(0)
    random.seed(1)
    ga, nvml, results = Ga(a.libga), Nvml(), []
    own = [tuple(map(int, s.split("x"))) for s in a.shapes]
    for s, quant in [(s, q) for q in a.quant or [None] for s in own or (LLAMA if a.quant else SHAPES)]:
        if a.k and not any("x".join(map(str, s)).startswith(k) for k in a.k):
            continue
        results.append(measure(a, ga, s, quant, nvml))
        show(results[-1])
    write_report(a, results)


if __name__ == "__main__":
    main()
