"""Drives single attention kernels (cubins) through attn_launch.c from Python, on torch tensors."""
import ctypes
import math
import os

import torch

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
MASKS = {"full": 0, "causal": 1, "window": 2}
SOFTCAP, ALIBI, SINK, VARLEN = 1, 2, 4, 8
FIELDS = ["dtype", "D", "DV", "MASK", "BM", "BN", "STAGES", "TURN", "QREG", "STORE", "RESIDENT", "BLOCKS", "FEATURES"]


class Config(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("f16", "d", "dv", "mask", "bm", "bn", "stages", "store", "resident", "blocks", "features", "is_short")]


class Strides(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "row", "head")]


class Problem(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_void_p) for n in ("q", "k", "v", "o", "lse", "counter", "cu_q", "cu_k", "slope", "sink")]
                + [(n, Strides) for n in ("sq", "sk", "sv", "so", "slse")]
                + [(n, ctypes.c_int32) for n in ("batch", "heads_q", "heads_k", "rows_q", "rows_k", "d", "dv", "total_q", "total_k",
                                                 "window_left", "window_right", "features", "section_mb", "dependent")]
                + [("scale", ctypes.c_float), ("softcap", ctypes.c_float)])


def variants(path):
    """One kernel per line (id@MB: the same kernel, causal sections of MB megabytes): id dtype D DV mask BM BN STAGES TURN QREG STORE RESIDENT BLOCKS FEATURES."""
    out = []
    for line in open(path):
        w = line.split("#")[0].split()
        if w:
            v = dict(zip(["id"] + FIELDS, w[:1] + [x if i in (0, 3) else int(x) for i, x in enumerate(w[1:])]))
            v["symbol"], _, mb = v["id"].partition("@")
            v["section_mb"] = int(mb or 0)
            out.append(v)
    return out


class Kernels:
    def __init__(self, folder):
        self.folder = folder
        self.lib = ctypes.CDLL(os.path.join(folder, "libattn.so"))
        self.lib.attn_open.restype = self.lib.attn_plan.restype = ctypes.c_void_p
        self.lib.attn_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.counter = torch.zeros(16, dtype=torch.int32, device="cuda")
        self.open_ = {}

    def open(self, v):
        if v["id"] not in self.open_:
            c = Config(v["dtype"] == "f16", v["D"], v["DV"], MASKS[v["MASK"]], v["BM"], v["BN"], v["STAGES"], v["STORE"], v["RESIDENT"], v["BLOCKS"], v["FEATURES"],
                       "_short" in v["id"])
            h = self.lib.attn_open(f"{self.folder}/{v['symbol']}.cubin".encode(), v["symbol"].encode(), ctypes.byref(c))
            if not h:
                raise RuntimeError(f"cannot open {v['id']}")
            self.open_[v["id"]] = h
        return self.open_[v["id"]]

    def plan(self, v, q, k, v_, o, lse, scale=None, window=(0, 0), softcap=0.0, slope=None, sink=None, cu_q=None, cu_k=None, rows=None, section_mb=0, dependent=0):
        """q (B,Sq,Hq,d), k (B,Sk,Hkv,d), v (B,Sk,Hkv,dv), o: any strides; lse (B,Hq,Sq). Packed sequences: B = 1 but for lse (sequences,Hq,longest q),
        and cu_q, cu_k, rows = (longest q, longest k)."""
        def st(t):
            return Strides(t.stride(0), t.stride(1), t.stride(2))
        ptr = lambda t: None if t is None else t.data_ptr()
        f = (SOFTCAP if softcap else 0) | (ALIBI if slope is not None else 0) | (SINK if sink is not None else 0) | (VARLEN if cu_q is not None else 0)
        batch = q.shape[0] if cu_q is None else cu_q.numel() - 1
        rq, rk = rows or (q.shape[1], k.shape[1])
        slse = Strides(0, 1, 0) if lse is None else Strides(lse.stride(0), 1, lse.stride(1))
        p = Problem(ptr(q), ptr(k), ptr(v_), ptr(o), ptr(lse), ptr(self.counter), ptr(cu_q), ptr(cu_k), ptr(slope), ptr(sink),
                    st(q), st(k), st(v_), st(o), slse, batch, q.shape[2], k.shape[2], rq, rk, q.shape[3], v_.shape[3], q.shape[1], k.shape[1],
                    window[0], window[1], f, section_mb or v["section_mb"], dependent, scale or 1 / math.sqrt(q.shape[3]), softcap)
        h = self.lib.attn_plan(ctypes.c_void_p(self.open(v)), ctypes.byref(p))
        if not h:
            raise RuntimeError("tensor maps refused")
        return h

    def run(self, h, stream=None):
        r = self.lib.attn_run(h, stream if stream is not None else torch.cuda.current_stream().cuda_stream)
        if r:
            raise RuntimeError(f"launch failed: {r}")
