#!/usr/bin/env python3
"""Attention forward beside its rivals on one NVIDIA GPU, in one process, in random order; JSON on standard output or --json FILE.

    attention.py LIBGA.so [--fa3 LIB.so] [--flashcore FILE.py] [--short] [--long] [--rows] [--rounds 9] [--cold] [-k D64 ...] [--json FILE]

ours       libga through ctypes: the kernel its planner takes; with --rows every kernel that can serve the shape, by hiding the ones before.
cudnn, fa2 PyTorch's scaled_dot_product_attention with that backend alone.
fa3        FlashAttention-3: its Python package if it can be imported, else --fa3, a library with
           int fa3_fwd(q, k, v, o, lse, semaphore, b, s, h, d, batch_stride, row_stride, head_stride, scale, causal, stream) over its own kernels.
fa4        FlashAttention-4: the Python package flash-attn-4, if it can be imported; on Hopper its kernels for sm_90.
flashcore  --flashcore: the file with its Triton kernel, attention() and auto_tune_config().

--long (bf16, 16384 tokens, heads = 2048 / D): TFLOP/s of 4 B H S S D, halved for causal; back-to-back launches, two sets of buffers in turn.
--short (bf16, H = 8, D = 64, full): microseconds a sequence, graphs of 50 calls. All calls of a graph use one set of buffers, as in
docs/log/attention.md, so that inputs are in L2 where they fit; with --cold the calls take turns over sets of more than 3 x L2 in all.
Every contender's result is compared with a reference first. Medians, 10th and 90th percentiles over rounds; per shape the clock of the
multiprocessors and the power (NVML), read while the GPU works. Random normal data."""
import argparse, ctypes, importlib.util, json, math, random, statistics, sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BF16, CAUSAL, UNSUPPORTED = 3, 1, 4  # GA_BF16, GA_ATTN_CAUSAL, GA_ERR_UNSUPPORTED
WRONG = 6e-3  # Frobenius error of bf16 attention on normal data is 2 to 3e-3
L2_BYTES = 60 << 20


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("disable_kernels", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("flags", ctypes.c_uint32)]


class Desc(ctypes.Structure):
    _fields_ = ([("struct_size", ctypes.c_size_t)] + [(n, ctypes.c_int64) for n in ("batch", "max_q", "max_kv")]
                + [(n, ctypes.c_int32) for n in ("q_heads", "kv_heads", "head_dim", "v_dim", "q_dtype", "kv_dtype", "o_dtype")]
                + [("flags", ctypes.c_uint32), ("window", ctypes.c_int32), ("page_size", ctypes.c_int32), ("scale", ctypes.c_float),
                   ("softcap", ctypes.c_float)]
                + [(n, ctypes.c_int32) for n in ("parts", "q_scale_tokens", "kv_scale_tokens", "reserved", "q_stretches", "kv_stretches")]
                + [("lse_stride", ctypes.c_int64)])


class Strides(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "token", "head")]


class Part(ctypes.Structure):
    _fields_ = [("k", ctypes.c_void_p), ("v", ctypes.c_void_p), ("kv", ctypes.c_int64), ("shift", ctypes.c_int64)]


class Scale(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [(n, ctypes.c_int64) for n in ("batch", "head", "block")]


class Io(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_void_p) for n in ("q", "k", "v", "o", "lse")]
                + [(n, Strides) for n in ("q_stride", "k_stride", "v_stride", "o_stride")]
                + [(n, ctypes.c_void_p) for n in ("q_start", "kv_start", "kv_len", "page_table")] + [("page_table_stride", ctypes.c_int64)]
                + [(n, ctypes.c_void_p) for n in ("sinks", "alibi")] + [(n, ctypes.c_int64) for n in ("q_tokens", "kv_tokens")]
                + [(n, ctypes.c_void_p) for n in ("state_o", "state_m", "state_l")] + [("parts", Part * 4)]
                + [(n, Scale) for n in ("q_scale", "k_scale", "v_scale")]
                + [(n, ctypes.c_void_p) for n in ("v_mean", "q_stretches", "kv_stretches", "ready", "ready_error")] + [("ready_polls", ctypes.c_int64)]
                + [("q_len", ctypes.c_void_p)])


class Ga:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        for name in ("ga_plan_kernel_id", "ga_error_text"):
            getattr(lib, name).restype = ctypes.c_char_p
        lib.ga_plan_workspace_bytes.restype = ctypes.c_size_t
        self.contexts = {}

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.ga_error_text().decode())

    def none(self, status):
        """True: no kernel left that can do it. Other failures raise."""
        if status != UNSUPPORTED:
            self.check(status)
        return status != 0

    def context(self, disable_kernels):
        if disable_kernels not in self.contexts:
            ctx = ctypes.c_void_p()
            options = Options(ctypes.sizeof(Options), b"cuda:0", disable_kernels.encode() or None, 0, 0)
            self.check(self.lib.ga_ctx_create(ctypes.byref(options), ctypes.byref(ctx)))
            self.contexts[disable_kernels] = ctx
        return self.contexts[disable_kernels]

    def contenders(self, kind, shape, sets, every):
        """Our kernels for the shape, each a kind(ga, context, shape, sets): the planner's choice first."""
        hidden, out = [], []
        while not out or every:
            one = kind(self, self.context(",".join(hidden)), shape, sets)
            if not one.kernel:
                break
            out.append(one)
            hidden.append(one.kernel)
        return out


class Planned:
    """A plan of the library, and what times it: the library's own stream, events and graphs. call(i) runs it on set i of self.out."""

    def __init__(self, ga, ctx):
        self.ga, self.ctx, self.kernel, self.graph, self.plan = ga, ctx, None, None, ctypes.c_void_p()
        self.events = [ctypes.c_void_p() for _ in range(2)]
        for e in self.events:
            ga.check(ga.lib.ga_event_create(ctx, ctypes.byref(e)))

    def result(self):
        self.call(0)
        self.ga.check(self.ga.lib.ga_stream_sync(self.ctx, None))
        return self.out[0]

    def record(self, n):
        self.graph = ctypes.c_void_p()
        self.ga.check(self.ga.lib.ga_graph_begin(self.ctx, None))
        for i in range(n):
            self.call(i)
        self.ga.check(self.ga.lib.ga_graph_end(self.ctx, None, ctypes.byref(self.graph)))

    def replay(self):
        self.ga.check(self.ga.lib.ga_graph_launch(self.ctx, self.graph, None))

    def mark(self, i):
        self.ga.check(self.ga.lib.ga_event_record(self.ctx, self.events[i], None))

    def elapsed_us(self):
        ms = ctypes.c_double()
        self.ga.check(self.ga.lib.ga_event_elapsed(self.events[0], self.events[1], ctypes.byref(ms)))
        return ms.value * 1e3


class Ours(Planned):
    def __init__(self, ga, ctx, s, sets):
        super().__init__(ga, ctx)
        desc = Desc(ctypes.sizeof(Desc), s.b, s.s, s.s, s.h, s.h, s.d, s.d, BF16, BF16, BF16, CAUSAL if s.causal else 0)
        if ga.none(ga.lib.ga_attn_plan(ctx, ctypes.byref(desc), ctypes.byref(self.plan))):
            return
        if ga.lib.ga_plan_workspace_bytes(self.plan):
            raise RuntimeError("a workspace is needed: not written")
        self.kernel = ga.lib.ga_plan_kernel_id(self.plan).decode()
        st = Strides(s.s * s.h * s.d, s.h * s.d, s.d)
        self.out = [torch.full_like(x[0], float("nan")) for x in sets]
        self.io = [Io(x[0].data_ptr(), x[1].data_ptr(), x[2].data_ptr(), o.data_ptr(), None, st, st, st, st) for x, o in zip(sets, self.out)]
        torch.cuda.synchronize()

    def call(self, i):
        self.ga.check(self.ga.lib.ga_attn_run(self.plan, ctypes.byref(self.io[i % len(self.io)]), None, None))


class Theirs:
    """A function of the number of a set of buffers, on PyTorch's stream."""

    def __init__(self, name, call):
        self.kernel, self.call, self.graph = name, call, None
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def result(self):
        r = self.call(0)
        torch.cuda.synchronize()
        return r

    def record(self, n):
        self.call(0)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for i in range(n):
                self.call(i)

    def replay(self):
        self.graph.replay()

    def mark(self, i):
        self.events[i].record()

    def elapsed_us(self):
        self.events[1].synchronize()
        return self.events[0].elapsed_time(self.events[1]) * 1e3


class Shape:
    def __init__(self, d, s, b, h, causal, short):
        self.d, self.s, self.b, self.h, self.causal, self.short = d, s, b, h, causal, short
        self.flop = 4 * b * h * s * s * d / (2 if causal else 1)
        self.name = f"B{b} S{s}" if short else f"D{d} {'causal' if causal else 'full'} {s}"


def sdpa(sets, backend, causal):
    views = [[t.transpose(1, 2) for t in x] for x in sets]

    def call(i):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*views[i % len(views)], is_causal=causal).transpose(1, 2)
    return call


def fa3_library(path, s, sets):
    lib = ctypes.CDLL(path)
    outs = [torch.empty_like(x[0]) for x in sets]
    lse, semaphore = torch.empty(s.b, s.h, s.s, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    p, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    lib.fa3_fwd.argtypes = [p] * 6 + [i32] * 4 + [i64] * 3 + [ctypes.c_float, i32, p]

    def call(i):
        x, o = sets[i % len(sets)], outs[i % len(sets)]
        rc = lib.fa3_fwd(x[0].data_ptr(), x[1].data_ptr(), x[2].data_ptr(), o.data_ptr(), lse.data_ptr(), semaphore.data_ptr(), s.b, s.s, s.h, s.d,
                         s.s * s.h * s.d, s.h * s.d, s.d, 1 / math.sqrt(s.d), int(s.causal), torch.cuda.current_stream().cuda_stream)
        if rc:
            raise RuntimeError(f"fa3: {rc}")
        return o
    return call


def fa3_package(s, sets):
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        try:
            from fa3_fwd_interface import flash_attn_func  # the package fa3-fwd
        except ImportError:
            return None

    def call(i):
        window = getattr(s, "window", 0)
        features = {"softcap": getattr(s, "softcap", 0.0), "window_size": (window - 1 if window else -1, -1)}
        r = flash_attn_func(*sets[i % len(sets)], causal=s.causal, **features)
        return r[0] if isinstance(r, tuple) else r
    return call


def fa4_package(sets, causal):
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None

    def call(i):
        r = flash_attn_func(*sets[i % len(sets)], causal=causal)
        return r[0] if isinstance(r, tuple) else r
    return call


def flashcore(path, s, sets):
    """With the block sizes it chooses itself, on the layout it is written for."""
    spec = importlib.util.spec_from_file_location("flashcore_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = [[t.transpose(1, 2).contiguous() for t in x] for x in sets]
    blocks = module.auto_tune_config(s.s, s.b)
    return lambda i: module.attention(*own[i % len(own)], *blocks).transpose(1, 2)


def rivals(a, s, sets):
    out = [Theirs("cudnn", sdpa(sets, SDPBackend.CUDNN_ATTENTION, s.causal)), Theirs("fa2", sdpa(sets, SDPBackend.FLASH_ATTENTION, s.causal))]
    fa3 = fa3_package(s, sets) or (fa3_library(a.fa3, s, sets) if a.fa3 else None)
    if fa3:
        out.append(Theirs("fa3", fa3))
    fa4 = fa4_package(sets, s.causal)
    if fa4:
        out.append(Theirs("fa4", fa4))
    if a.flashcore and s.short:
        out.append(Theirs("flashcore", flashcore(a.flashcore, s, sets)))
    return out


def reference(s, x):
    t = [y.transpose(1, 2) for y in x]
    if s.short:
        return F.scaled_dot_product_attention(*[y.double() for y in t]).transpose(1, 2)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(*t, is_causal=s.causal).transpose(1, 2).float()


def check(s, x, contenders):
    """Drops who is wrong, and says so."""
    ref, good = reference(s, x), []
    for c in contenders:
        try:
            e = float((c.result().to(ref.dtype) - ref).norm() / ref.norm())
        except RuntimeError as problem:
            print(f"{s.name}: {c.kernel}: {problem}", file=sys.stderr)
            continue
        if e < WRONG:
            good.append(c)
        else:
            print(f"{s.name}: {c.kernel}: WRONG, error {e:.3g}", file=sys.stderr)
    return good


class Nvml:
    def __init__(self):
        self.lib, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        if self.lib.nvmlInit_v2() or self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
            raise OSError("NVML does not answer")

    def now(self):
        """MHz, watts."""
        mhz, mw = ctypes.c_uint(), ctypes.c_uint()
        self.lib.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(mhz))
        self.lib.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(mw))
        return mhz.value, mw.value / 1e3


def one_time(s, c, calls, nvml, states):
    """Microseconds a call."""
    if s.short:
        c.replay()
        c.mark(0)
        for _ in range(4):
            c.replay()
        c.mark(1)
        states.append(nvml.now())
        return c.elapsed_us() / (4 * calls)
    for i in range(3):
        c.call(i)
    c.mark(0)
    for i in range(calls):
        c.call(i)
    c.mark(1)
    states.append(nvml.now())
    return c.elapsed_us() / calls


def measure(a, ga, s, nvml):
    bytes_a_set = 8 * s.b * s.s * s.h * s.d  # q, k, v, o
    n = 2 if not s.short else -(-3 * L2_BYTES // bytes_a_set) if a.cold else 1
    sets = [[torch.randn(s.b, s.s, s.h, s.d, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for _ in range(n)]
    ours = check(s, sets[0], ga.contenders(Ours, s, sets, a.rows))
    everyone = ours + check(s, sets[0], rivals(a, s, sets))
    calls = max(50, n) if s.short else max(10, min(60, int(8e-3 / (s.flop / 5e14))))
    if s.short:
        for c in everyone:
            c.record(calls)
    return interleave(a, s, everyone, ours, calls, nvml)


def interleave(a, s, everyone, ours, calls, nvml):
    """Rounds of all of them, each in another order."""
    times, states = {c.kernel: [] for c in everyone}, []
    for _ in range(a.rounds):
        random.shuffle(everyone)
        for c in everyone:
            times[c.kernel].append(one_time(s, c, calls, nvml, states))
            torch.cuda.synchronize()
    return summary(s, times, [c.kernel for c in ours], states)


def summary(s, times, ours, states):
    def value(us):
        return us / s.b if s.short else s.flop / us / 1e6

    def spread(v):
        v = sorted(value(us) for us in v)
        return {"median": statistics.median(v), "p10": v[len(v) // 10], "p90": v[-1 - len(v) // 10]}
    r = {"shape": s.name, "d": s.d, "s": s.s, "b": s.b, "h": s.h, "causal": s.causal, "unit": "us/sequence" if s.short else "TFLOP/s",
         "ours": ours, "results": {k: spread(v) for k, v in times.items()}, "clock_mhz": statistics.median(x[0] for x in states),
         "power_w": statistics.median(x[1] for x in states)}
    med = {k: x["median"] for k, x in r["results"].items()}
    rival = (min if s.short else max)((k for k in med if k not in ours), key=med.get)
    r["best_rival"] = rival
    r["ratio"] = {k: med[rival] / med[k] if s.short else med[k] / med[rival] for k in ours}
    return r


def show(r):
    digits = 3 if r["unit"] == "us/sequence" else 0
    cells = [f"{k} {x['median']:.{digits}f} ({x['p10']:.{digits}f}-{x['p90']:.{digits}f})" for k, x in r["results"].items()]
    ratio = ", ".join(f"{k} {x:.3f}" for k, x in r["ratio"].items())
    print(f"{r['shape']}: {'  '.join(cells)} | against {r['best_rival']}: {ratio} | {r['clock_mhz']:.0f} MHz {r['power_w']:.0f} W", file=sys.stderr, flush=True)


def write_report(a, results, **more):
    """JSON of the results, and what they were measured with, to a.json, else to standard output."""
    text = json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                       "rounds": a.rounds, **more, "shapes": results}, indent=1)
    if a.json:
        with open(a.json, "w") as f:
            f.write(text + "\n")
    else:
        print(text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    for flag in ("--short", "--long", "--rows", "--cold"):
        p.add_argument(flag, action="store_true")
    p.add_argument("--fa3")
    p.add_argument("--flashcore")
    p.add_argument("--json")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("-k", nargs="*", default=[], help="only shapes whose name contains one of these")
    a = p.parse_args()
    torch.manual_seed(0)
    random.seed(1)
    shapes = []
    if a.long or not a.short:
        shapes += [Shape(d, s, 16384 // s, 2048 // d, causal, False) for d in (64, 128, 256) for causal in (False, True) for s in (512, 2048, 8192, 16384)]
    if a.short or not a.long:
        shapes += [Shape(64, s, b, 8, False, True) for s in (128, 256, 512) for b in (8, 16, 32)]
    ga, nvml, results = Ga(a.libga), Nvml(), []
    for s in shapes:
        if a.k and not any(k in s.name + " " for k in a.k):
            continue
        results.append(measure(a, ga, s, nvml))
        show(results[-1])
    write_report(a, results, cold=a.cold)


if __name__ == "__main__":
    main()
