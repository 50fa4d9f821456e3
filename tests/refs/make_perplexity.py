#!/usr/bin/env python3
"""Perplexity of a text by llama.cpp, by the method of its own llama-perplexity.

    make_perplexity.py MODEL.gguf TEXT [--ctx 512] [--chunks 0] > tests/data/perplexity-NAME.txt

The whole text is tokenised at once (special tokens of the text as plain text, BOS in front if the model wants it) and cut
into windows of ctx ids, the rest dropped. In each window the first id becomes BOS if the model wants one. The ids at
ctx/2+1 .. ctx-1 are scored with the logits one place before them: ctx/2-1 ids a window. Natural logarithms, f64 sums.
Format: tests/data/README.md.
"""
import argparse, hashlib, math
import numpy as np
from llama_ref import Model, versions


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("text")
    ap.add_argument("--ctx", type=int, default=512)
    ap.add_argument("--chunks", type=int, default=0, help="stop after so many windows")
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    raw = open(a.text, "rb").read()
    m = Model(a.model, n_ctx=a.ctx, threads=a.threads)
    ids = m.tokenize(raw)
    n = len(ids) // a.ctx
    n = min(n, a.chunks) if a.chunks else n
    print(f"# {versions()}")
    print("text", len(raw), hashlib.sha256(raw).hexdigest())
    print("tokens", len(ids), "ctx", a.ctx, "windows", n, "bos", int(m.add_bos))
    total = count = 0
    for c in range(n):
        w = ids[c * a.ctx:(c + 1) * a.ctx]
        if m.add_bos:
            w[0] = m.bos
        first = a.ctx // 2
        m.reset()
        rows = m.eval(w, range(first, a.ctx - 1))
        nll = 0.0
        for r, t in zip(rows, w[first + 1:]):
            r = r.astype(np.float64)
            mx = r.max()
            nll += mx + math.log(np.exp(r - mx).sum()) - r[t]
        total += nll
        count += a.ctx - 1 - first
        print("window", c, f"{nll:.9g}", flush=True)
    print("total", f"{total:.12g}", "count", count, "ppl", f"{math.exp(total / count):.9g}")


if __name__ == "__main__":
    main()
