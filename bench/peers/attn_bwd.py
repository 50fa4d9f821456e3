#!/usr/bin/env python3
"""Attention backward beside cuDNN and FlashAttention-2 (through PyTorch) and FlashAttention-3, interleaved in one process on one GPU.

  attn_bwd.py LIBGA.SO [--out FILE.json] [--rounds N] [--dims 64,128,192x128,256] [--shapes 512,2048,8192,16384] [--disable-kernels PATTERN]
              [--runs ga,cudnn] [--fa3 LIB] [--also NAME=LIBGA.SO ...]

16384 tokens of a width of 2048 in all (of V), bf16, random normal data; TFLOP/s of five products (causal: half). Each figure is
the median over rounds of `calls` back-to-back calls between events; the order within a round is shuffled. --disable-kernels: libga once
more, without the rows that match, so that the next choice is timed beside the first. --also: another build of libga. --fa3: a library
with FlashAttention-3's three kernels behind one call:
  int64_t fa3_bwd_workspace(b, s, h, d, causal); int fa3_bwd(q, k, v, o, dout, lse, dq, dk, dv, workspace, b, s, h, d, batch stride, row
  stride, head stride (int64), float scale, causal, ordered, stream), bf16; other than 0: no such kernel."""
import argparse
import ctypes as c
import json
import math
import random
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CAUSAL, DETERMINISTIC = 1, 1 << 16


class Options(c.Structure):
    _fields_ = [("size", c.c_size_t), ("device", c.c_char_p), ("disable_kernels", c.c_char_p), ("threads", c.c_int32), ("flags", c.c_uint32)]


class Desc(c.Structure):
    _fields_ = ([("size", c.c_size_t)] + [(n, c.c_int64) for n in ("batch", "max_q", "max_kv", "total_q", "total_kv")]
                + [(n, c.c_int32) for n in ("q_heads", "kv_heads", "head_dim", "v_dim", "dtype", "grad_dtype")]
                + [("flags", c.c_uint32), ("window", c.c_int32), ("scale", c.c_float), ("softcap", c.c_float)] + [("lse_stride", c.c_int64)])


class Io(c.Structure):
    _fields_ = ([(n, c.c_void_p) for n in ("q", "k", "v", "o", "dout", "lse", "dq", "dk", "dv", "dsinks")] + [("strides", c.c_int64 * 24)]
                + [(n, c.c_void_p) for n in ("q_start", "kv_start", "sinks", "alibi", "q_len", "kv_len")])


class Ga:
    def __init__(self, path, bf16, disable_kernels=None):
        self.lib = c.CDLL(path)
        self.lib.ga_error_text.restype = c.c_char_p
        self.lib.ga_plan_kernel_id.restype = c.c_char_p
        self.bf16 = bf16
        options = Options(c.sizeof(Options), b"cuda:0", disable_kernels and disable_kernels.encode(), 0, 0)
        self.ctx = c.c_void_p()
        self.must(self.lib.ga_ctx_create(c.byref(options), c.byref(self.ctx)))
        self.start, self.end = c.c_void_p(), c.c_void_p()
        self.must(self.lib.ga_event_create(self.ctx, c.byref(self.start)))
        self.must(self.lib.ga_event_create(self.ctx, c.byref(self.end)))

    def must(self, status):
        if status:
            raise RuntimeError(self.lib.ga_error_text().decode())

    def backward(self, x, flags):
        """A function of n that runs n calls and returns milliseconds."""
        b, s, h, d = x["q"].shape
        desc = Desc(c.sizeof(Desc), b, s, s, 0, 0, h, h, d, x["v"].shape[3], self.bf16, self.bf16, flags, 0, 1 / math.sqrt(d), 0)
        io = Io()
        for name in ("q", "k", "v", "o", "dout", "lse", "dq", "dk", "dv"):
            setattr(io, name, x[name].data_ptr())
        plan = c.c_void_p()
        self.must(self.lib.ga_attn_bwd_plan(self.ctx, c.byref(desc), c.byref(plan)))
        self.id = self.lib.ga_plan_kernel_id(plan).decode()

        def run(n):
            torch.cuda.synchronize()
            self.must(self.lib.ga_event_record(self.ctx, self.start, None))
            for _ in range(n):
                self.must(self.lib.ga_attn_bwd(self.ctx, c.byref(desc), c.byref(io), None))
            self.must(self.lib.ga_event_record(self.ctx, self.end, None))
            self.must(self.lib.ga_stream_sync(self.ctx, None))
            ms = c.c_double()
            self.must(self.lib.ga_event_elapsed(self.start, self.end, c.byref(ms)))
            return ms.value / n
        return run, self.id


def autograd(x, causal, backend):
    q, k, v = (x[n].transpose(1, 2).detach().requires_grad_() for n in "qkv")
    dout = x["dout"].transpose(1, 2)
    with sdpa_kernel(backend):
        o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.autograd.grad(o, (q, k, v), dout, retain_graph=True)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def run(n):
        torch.cuda.synchronize()
        start.record()
        for _ in range(n):
            torch.autograd.grad(o, (q, k, v), dout, retain_graph=True)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / n
    return run


def fa3(lib, x, causal, ordered):
    """As Ga.backward, or nothing if there is no such kernel; gradients of its own."""
    b, s, h, d = x["q"].shape
    if x["v"].shape[3] != d:
        return None
    lib.fa3_bwd_workspace.restype = c.c_int64
    space = torch.empty(lib.fa3_bwd_workspace(b, s, h, d, int(causal)), device="cuda", dtype=torch.uint8)
    mine = {"d" + n: torch.empty_like(x[n]) for n in "qkv"}
    data = [c.c_void_p(x[n].data_ptr()) for n in ("q", "k", "v", "o", "dout", "lse")] + [c.c_void_p(t.data_ptr()) for t in (*mine.values(), space)]
    strides = [c.c_int64(n) for n in (s * h * d, h * d, d)]
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def call():
        stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
        return lib.fa3_bwd(*data, b, s, h, d, *strides, c.c_float(1 / math.sqrt(d)), int(causal), int(ordered), stream)

    if call():
        return None
    torch.cuda.synchronize()
    error = exactness({**x, **mine}, causal)
    assert error < 0.02, f"FlashAttention-3 is not called as it should be: error {error}"

    def run(n, kept=space):
        torch.cuda.synchronize()
        start.record()
        for _ in range(n):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / n
    return run


def tensors(batch, length, heads, dim, v_dim, causal):
    torch.manual_seed(1)
    x = {n: torch.randn(batch, length, heads, v_dim if n in ("v", "dout") else dim, device="cuda", dtype=torch.bfloat16)
         for n in ("q", "k", "v", "dout")}
    args = [x[n].transpose(1, 2) for n in "qkv"]
    try:
        o, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(*args, None, True, 0.0, causal, False)[:2]
    except RuntimeError:
        wide = F.pad(args[2], (0, dim - v_dim))
        o, lse = torch.ops.aten._scaled_dot_product_flash_attention(args[0], args[1], wide, 0.0, causal, False)[:2]
        o = o[..., :v_dim]
    x["o"], x["lse"] = o.transpose(1, 2).contiguous(), lse.reshape(batch, heads, length).float().contiguous()
    x.update({"d" + n: torch.empty_like(x[n]) for n in "qkv"})
    return x


def exactness(x, causal):
    """Largest relative error (root mean square) against an unfused float evaluation of one head."""
    q, k, v, dout = (x[n][0, :, 0].float() for n in ("q", "k", "v", "dout"))
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)
    p = s.softmax(-1)
    ds = p * (dout @ v.T - (dout * x["o"][0, :, 0].float()).sum(-1, keepdim=True)) / math.sqrt(q.shape[1])
    want = {"dq": ds @ k, "dk": ds.T @ q, "dv": p.T @ dout}
    return max(((x[n][0, :, 0].float() - w).norm() / w.norm()).item() for n, w in want.items())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("libga")
    p.add_argument("--out")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--dims", default="64,128")
    p.add_argument("--shapes", default="512,2048,8192,16384")
    p.add_argument("--disable-kernels")
    p.add_argument("--runs", default="ga,ga ordered,ga hidden,ga hidden ordered,cudnn,fa2,fa3,fa3 ordered")
    p.add_argument("--fa3")
    p.add_argument("--also", action="append", default=[])
    p.add_argument("--bf16", type=int, default=3, help="value of GA_BF16")
    a = p.parse_args()
    ga, rows = Ga(a.libga, a.bf16), []
    hidden = Ga(a.libga, a.bf16, a.disable_kernels) if a.disable_kernels else None
    also = [(name, Ga(path, a.bf16)) for name, path in (n.split("=") for n in a.also)]
    peer = c.CDLL(a.fa3) if a.fa3 else None
    for dim, v_dim in ((int(d.split("x")[0]), int(d.split("x")[-1])) for d in a.dims.split(",")):
        for length in map(int, a.shapes.split(",")):
            for causal in (False, True):
                batch, heads = 16384 // length, 2048 // v_dim
                x = tensors(batch, length, heads, dim, v_dim, causal)
                flops = 2 * batch * heads * length * length * (3 * dim + 2 * v_dim) / (2 if causal else 1)
                runs, ids = {}, {}
                for name, lib, flags in (("ga", ga, 0), ("ga ordered", ga, DETERMINISTIC), ("ga hidden", hidden, 0),
                                         ("ga hidden ordered", hidden, DETERMINISTIC)):
                    if lib and name in a.runs.split(","):
                        runs[name], ids[name] = lib.backward(x, flags | (CAUSAL if causal else 0))
                for name, lib in also:
                    runs[name], ids[name] = lib.backward(x, CAUSAL if causal else 0)
                for name in ("fa3", "fa3 ordered") if peer else ():
                    run = name in a.runs.split(",") and fa3(peer, x, causal, name != "fa3")
                    if run:
                        runs[name] = run
                for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
                    if name not in a.runs.split(","):
                        continue
                    try:
                        runs[name] = autograd(x, causal, backend)
                    except RuntimeError:
                        pass
                error = {}
                for name in ids if length <= 8192 else ():
                    runs[name](1)
                    error[name] = round(exactness(x, causal), 6)
                calls = max(1, int(4e12 / flops * 2))
                times = {n: [] for n in runs}
                for r in range(a.rounds + 1):
                    for n in random.sample(list(runs), len(runs)):
                        ms = runs[n](calls)
                        if r:
                            times[n].append(ms)
                row = {"dim": f"{dim}x{v_dim}", "length": length, "causal": causal, "error": error,
                       "row": ids.get("ga"), **{n: round(flops / statistics.median(t) / 1e9, 1) for n, t in times.items()}}
                rows.append(row)
                print(row, flush=True)
    if a.out:
        json.dump(rows, open(a.out, "w"), indent=1)


if __name__ == "__main__":
    main()
