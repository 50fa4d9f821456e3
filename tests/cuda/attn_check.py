#!/usr/bin/env python3
"""Checks attention kernels against a double-precision oracle: attn_check.py FOLDER LIST [name,name...]
The error (Frobenius, and largest) may be at most 2 x that of an unfused evaluation in the same dtype. Outputs are poisoned, guarded and compared between two runs."""
import math
import sys

import torch

from attn_lib import DTYPES, Kernels, variants

DEV, GUARD = "cuda", 4096
INF = float("inf")


def bias_and_mask(v, sq, sk, window, slope, h, rows):
    i = rows.double()[:, None] + (sk - sq)
    j = torch.arange(sk, device=DEV).double()[None]
    ok = torch.ones(len(rows), sk, dtype=torch.bool, device=DEV)
    if v["MASK"] == "causal":
        ok = j <= i
    if v["MASK"] == "window":
        ok = (j <= i + window[1]) & (j >= i - window[0])
    return (-slope[h].double() * (i - j).abs() if slope is not None else 0.0), ok


def one_head(q, k, v_, scale, softcap, bias, ok, sink, plain):
    """Rows q (n,d) of one head -> o, lse in double; plain: products and P rounded as an unfused program in this dtype would."""
    s = (q.float() @ k.float().T).double() if plain else q.double() @ k.double().T
    s = s * scale
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    s = s + bias
    s = s.masked_fill(~ok, -INF)
    if sink is not None:
        s = torch.cat([s, sink.double().expand(len(s), 1)], 1)
    m = s.amax(1, keepdim=True)
    m = torch.where(m == -INF, torch.zeros_like(m), m)
    e = torch.exp(s - m)
    l = e.sum(1, keepdim=True)
    lse = (m + torch.log(l))[:, 0]
    size = s.abs().masked_fill(s == -INF, 0).amax(1)
    p = torch.where(l == 0, torch.zeros_like(e), e / l)[:, :k.shape[0]]
    if plain:
        p = p.to(q.dtype)
        o = (p.float() @ v_.float()).to(q.dtype).double()
    else:
        o = p @ v_.double()
    return o, lse, size


def tensors(kind, layout, b, hq, hk, sq, sk, d, dv, dt):
    def rnd(s, h, dim, sig=1.0):
        return (torch.randn(b, s, h, dim, device=DEV) * sig).to(dt)
    if layout == "packed" and hq == hk and sq == sk and d == dv:
        x = torch.randn(b, sq, 3, hq, d, device=DEV).to(dt)
        q, k, v = x[:, :, 0], x[:, :, 1], x[:, :, 2]
    elif layout == "bhsd":
        q, k, v = [rnd(h, s, dim).transpose(1, 2) for s, h, dim in ((sq, hq, d), (sk, hk, d), (sk, hk, dv))]
    else:
        q, k, v = rnd(sq, hq, d), rnd(sk, hk, d), rnd(sk, hk, dv)
    if kind.startswith("sigma"):
        f = float(kind[5:])
        q *= f
        k *= f
    if kind in ("late", "early"):  # the maximum grows by a lot from block to block, in either direction
        ramp = torch.linspace(0, 1, sk, device=DEV)
        ramp = ramp.flip(0) if kind == "late" else ramp
        q.copy_(q.abs() + 0.5)
        k.copy_((k.float().abs() * 0.1 + 40.0 * ramp[None, :, None, None]).to(dt))
    if kind == "spike":            # a few late columns tower over a quiet first block
        q.copy_(q.abs() + 0.5)
        k[:, ::97] += 30.0
        k[:, -200:] *= 0.01
    if kind == "ninf":             # the first blocks to be visited are -inf throughout
        q.copy_(q.abs() + 0.1)
        k[:, -min(160, sk // 2):] = -INF
    if kind == "nan":
        q[:, 3 % sq] = float("nan")
        k[:, :, 0] = k[:, :, 0].clone()
        k[0, 5 % sk, 0] = float("nan")
    if kind == "inf":
        k[0, 7 % sk, 0, 0] = INF
    return q, k, v


def guarded(shape, dt):
    n = math.prod(shape)
    buf = torch.full((n + 2 * GUARD,), float("nan"), device=DEV, dtype=dt)
    buf[:GUARD] = buf[-GUARD:] = 7.0
    return buf, buf[GUARD:GUARD + n].view(shape)


def run_case(K, v, case, opt):
    kind, layout, b, hq, hk, sq, sk, d, dv = case
    dt = DTYPES[v["dtype"]]
    cu_q, cu_k = opt.get("cu_q"), opt.get("cu_k")
    if cu_q is not None:
        b, sq, sk = 1, int(cu_q[-1]), int(cu_k[-1])
    q, k, vv = tensors(kind, layout, b, hq, hk, sq, sk, d, dv, dt)
    obuf, o = guarded((b, sq, hq, dv), dt)
    dev32 = lambda x: None if x is None else torch.tensor(x, dtype=torch.int32, device=DEV)
    rows = (max(y - x for x, y in zip(cu_q, cu_q[1:])), max(y - x for x, y in zip(cu_k, cu_k[1:]))) if cu_q is not None else None
    lbuf, lse = guarded((b, hq, sq) if rows is None else (len(cu_q) - 1, hq, rows[0]), torch.float32)  # packed: by sequences
    tq, tk = dev32(cu_q), dev32(cu_k)
    window, softcap, slope, sink = opt.get("window", (0, 0)), opt.get("softcap", 0.0), opt.get("slope"), opt.get("sink")
    h = K.plan(v, q, k, vv, o, lse, window=window, softcap=softcap, slope=slope, sink=sink, cu_q=tq, cu_k=tk, rows=rows, dependent=1)
    K.run(h)
    torch.cuda.synchronize()
    first = obuf.clone(), lbuf.clone()
    o.fill_(float("nan"))
    lse.fill_(float("nan"))
    K.run(h)
    torch.cuda.synchronize()
    why = []
    same = lambda x, y: bool(((x == y) | (x.isnan() & y.isnan())).all())
    if not same(first[0], obuf) or not same(first[1], lbuf):
        why.append("differs between runs")
    if any(bool((x[:GUARD] != 7).any() or (x[-GUARD:] != 7).any()) for x in (obuf, lbuf)):
        why.append("guard written")
    if bool((K.counter != 0).any()):
        why.append("counter left")
    e2 = p2 = r2 = emax = pmax = 0.0
    lerr = 0.0
    segs = [(i, i, 0, sq, 0, sk) for i in range(b)] if cu_q is None else [(0, i, cu_q[i], cu_q[i + 1], cu_k[i], cu_k[i + 1]) for i in range(len(cu_q) - 1)]
    heads = [(s, hh) for s in segs for hh in range(hq)]
    if len(heads) > 6:
        heads = heads[:2] + heads[-2:] + [heads[i] for i in torch.randint(len(heads), (2,)).tolist()]
    for (i, seq, q0, q1, k0, k1), hh in heads:
        n, nk = q1 - q0, k1 - k0
        if n == 0:
            continue
        idx = torch.arange(n, device=DEV) if n <= 1100 else torch.cat([torch.arange(150, device=DEV), torch.randint(n, (400,), device=DEV), torch.arange(n - 150, n, device=DEV)])
        bias, ok = bias_and_mask(v, n, nk, window, slope, hh, idx)
        kh, vh, qh = k[i, k0:k1, hh // (hq // hk)], vv[i, k0:k1, hh // (hq // hk)], q[i, q0:q1, hh][idx]
        sk_ = sink[hh:hh + 1] if sink is not None else None
        scale = 1 / math.sqrt(d)
        ref, rl, size = one_head(qh, kh, vh, scale, softcap, bias, ok, sk_, False)
        plain = one_head(qh, kh, vh, scale, softcap, bias, ok, sk_, True)[0]
        got, gl = o[i, q0:q1, hh][idx].double(), lse[seq, hh, :n][idx].double()
        fin = torch.isfinite(ref).all(1) & torch.isfinite(plain).all(1)
        if kind in ("nan", "inf"):
            bad_rows = ~torch.isfinite(ref).all(1)
            if not bool((~torch.isfinite(got).all(1))[bad_rows].all()):
                why.append("a NaN was lost")
        elif not bool(fin.all()):
            why.append("oracle not finite")
        if not bool(torch.isfinite(got[fin]).all()):
            why.append(f"{int((~torch.isfinite(got[fin])).sum())} not finite")
        g, r, p = got[fin].nan_to_num(1e9, 1e9, -1e9), ref[fin], plain[fin]
        e2 += float(((g - r) ** 2).sum())
        p2 += float(((p - r) ** 2).sum())
        r2 += float((r ** 2).sum())
        if r.numel():
            emax, pmax = max(emax, float((g - r).abs().max())), max(pmax, float((p - r).abs().max()))
        f2 = fin & torch.isfinite(rl)
        if bool(f2.any()):
            lerr = max(lerr, float(((gl - rl).abs() / (1 + size))[f2].nan_to_num(1e9).max()))
        if not bool((gl == rl)[fin & (rl == -INF)].all()):
            why.append("lse of an empty row")
    err, pl = (e2 / max(r2, 1e-300)) ** .5, (p2 / max(r2, 1e-300)) ** .5
    tiny = 1e-7
    if not err <= 2 * pl + tiny:
        why.append("error")
    if not emax <= 2.5 * pmax + 1e-6:
        why.append("largest error")
    if not lerr <= (2e-3 if softcap else 1e-5):
        why.append("lse")
    K.lib.attn_free(ctypes_ptr(h))
    return err, pl, emax, pmax, lerr, why


def ctypes_ptr(h):
    import ctypes
    return ctypes.c_void_p(h)


def cases(v):
    d, dv, m = v["D"], v["DV"], v["MASK"]
    out = []
    add = lambda kind, layout, b, hq, hk, sq, sk, dd=d, ddv=dv, **o: out.append(((kind, layout, b, hq, hk, sq, sk, dd, ddv), o))
    w = lambda s: dict(window=s) if m == "window" else {}
    if v["RESIDENT"]:
        n = v["BN"] * v["STAGES"]
        for sq in (1, 77, 128, 512, 300):
            add("normal", "bshd", 3, 8, 4, sq, n)
        add("normal", "bhsd", 2, 3, 3, n, n - 5)
        add("normal", "packed", 40, 16, 16, n, n)
        for k in ("late", "early", "spike", "ninf", "sigma8", "sigma24", "nan", "inf"):
            add(k, "bshd", 2, 4, 2, n, n)
        return out
    for sq, sk in ((1, 1), (1, 300), (77, 77), (128, 128), (129, 257), (300, 1000), (512, 512), (1000, 1000), (1024, 2048), (2048, 2048)):
        add("normal", "bshd", 2, 4, 2, sq, sk, **w((100, 0)))
    if m != "full":
        add("normal", "bshd", 1, 3, 1, 512, 300, **w((1 << 20, 0)))   # some rows see nothing
    if m == "window":
        add("normal", "bshd", 1, 4, 4, 700, 700, window=(64, 64))
        add("normal", "bshd", 1, 4, 4, 1024, 1024, window=(256, 1 << 20))
        add("normal", "bshd", 1, 4, 4, 1024, 1024, window=(1, 0))
    add("normal", "bhsd", 3, 6, 2, 513, 511, **w((200, 5)))
    add("normal", "packed", 2, 5, 5, 640, 640, **w((200, 5)))
    add("normal", "bshd", 2, 4, 1, 200, 333, d - 8, dv - 16, **w((200, 5)))
    add("normal", "bshd", 24, 16, 16, 512, 512, **w((200, 5)))
    add("normal", "bshd", 1, 8, 8, 8192, 8192, **w((1000, 0)))
    for k in ("late", "early", "spike", "ninf", "sigma4", "sigma8", "sigma24", "nan", "inf"):
        add(k, "bshd", 1, 4, 2, 1000, 1000, **w((1 << 20, 0)))
    if v["FEATURES"]:
        sl = torch.tensor([2.0 ** -(1 + i) for i in range(8)], device=DEV)
        si = torch.randn(8, device=DEV)
        add("normal", "bshd", 2, 8, 2, 700, 700, softcap=20.0, **w((300, 0)))
        add("sigma4", "bshd", 2, 8, 2, 700, 700, softcap=30.0, **w((300, 0)))
        add("normal", "bshd", 2, 8, 2, 700, 900, slope=sl, **w((300, 0)))
        add("normal", "bshd", 2, 8, 2, 700, 900, sink=si, **w((300, 0)))
        add("late", "bshd", 2, 8, 2, 700, 900, slope=sl, sink=si, **w((300, 0)))
        if v["STORE"]:
            cq, ck = [0, 5, 5, 300, 1000, 1001], [0, 9, 20, 300, 1500, 1501]
            add("normal", "bshd", 1, 8, 2, 0, 0, cu_q=cq, cu_k=ck, **w((300, 0)))
            add("normal", "bshd", 1, 8, 2, 0, 0, cu_q=ck, cu_k=ck, softcap=20.0, slope=sl, sink=si, **w((300, 0)))
    return out


def main():
    torch.manual_seed(1)
    K = Kernels(sys.argv[1])
    names = sys.argv[3].split(",") if len(sys.argv) > 3 else None
    bad = 0
    for v in variants(sys.argv[2]):
        if names and v["id"] not in names:
            continue
        worst, fails, n = 0.0, [], 0
        for case, opt in cases(v):
            err, pl, emax, pmax, lerr, why = run_case(K, v, case, opt)
            n += 1
            worst = max(worst, err / (pl + 1e-9) if pl > 1e-6 else 0)
            if why:
                fails.append(f"   {case} {[k for k in opt]}: err {err:.2e}/{pl:.2e} max {emax:.1e}/{pmax:.1e} lse {lerr:.0e} {sorted(set(why))}")
        print(f"{v['id']:50s} {n} cases, worst error {worst:.2f} x plain: {'ok' if not fails else 'FAILED ' + str(len(fails))}", flush=True)
        print("\n".join(fails[:12]), flush=True) if fails else None
        bad += bool(fails)
    print("check:", "ok" if not bad else f"{bad} kernels failed")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
