#!/usr/bin/env python3
"""Logits of a GGUF model (llama or gemma3) in f64 NumPy on dequantised weights: no rounding of activations anywhere.

    make_exact.py MODEL.gguf tests/data/logits-NAME.txt > tests/data/exact-NAME.txt
    make_exact.py MODEL.gguf tests/data/greedy-NAME.txt --agree

The prompts are the ids of an existing logits file, and the output has its format. --agree instead feeds each prompt of a greedy
file with its 64 ids and says how far llama.cpp's top logits are from the exact ones, and how often the exact choice is another.
Needs NumPy and gguf (its reader and its dequantise functions).
"""
import argparse, math
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Net:
    def __init__(self, path):
        r = GGUFReader(path)
        self.t = {t.name: t for t in r.tensors}
        self.arch = r.fields["general.architecture"].contents()

        def key(name, default=None):
            f = r.fields.get(f"{self.arch}.{name}")
            return f.contents() if f else default
        self.layers, self.d = key("block_count"), key("embedding_length")
        self.heads, self.kv = key("attention.head_count"), key("attention.head_count_kv")
        self.hd = key("attention.key_length", self.d // self.heads)
        self.eps, self.base = key("attention.layer_norm_rms_epsilon"), key("rope.freq_base")
        self.window = key("attention.sliding_window", 0)
        self.cache = {}

    def w(self, name):
        if name not in self.cache:
            t = self.t[name]
            self.cache[name] = dequantize(t.data, t.tensor_type).astype(np.float32)
        return self.cache[name].astype(np.float64)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w(name)

    def rope(self, x, base, neox):
        n, half = x.shape[1], self.hd // 2
        a = np.arange(n)[:, None] * base ** (-np.arange(half) / half)
        c, s = np.cos(a), np.sin(a)
        out = np.empty_like(x)
        p, q = (slice(0, half), slice(half, None)) if neox else (slice(0, None, 2), slice(1, None, 2))
        out[..., p] = x[..., p] * c - x[..., q] * s
        out[..., q] = x[..., p] * s + x[..., q] * c
        return out

    def forward(self, ids):
        gemma = self.arch == "gemma3"
        n = len(ids)
        E = self.w("token_embd.weight")
        x = E[ids] * (math.sqrt(self.d) if gemma else 1.0)
        pos = np.arange(n)
        for i in range(self.layers):
            b = f"blk.{i}."
            local = gemma and (i + 1) % 6 != 0
            h = self.norm(x, b + "attn_norm.weight")
            q, k, v = ((h @ self.w(f"{b}attn_{s}.weight").T).reshape(n, -1, self.hd).transpose(1, 0, 2) for s in "qkv")
            if gemma:
                q, k = self.norm(q, b + "attn_q_norm.weight"), self.norm(k, b + "attn_k_norm.weight")
            base = 10000.0 if local else self.base
            q, k = self.rope(q, base, gemma), self.rope(k, base, gemma)
            k, v = (np.repeat(y, self.heads // self.kv, axis=0) for y in (k, v))
            s = q @ k.transpose(0, 2, 1) / math.sqrt(self.hd)
            gap = pos[:, None] - pos[None, :]
            s = np.where((gap < 0) | (local & (gap >= self.window)), -np.inf, s)
            s = np.exp(s - s.max(-1, keepdims=True))
            a = (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1) @ self.w(b + "attn_output.weight").T
            x = x + (self.norm(a, b + "post_attention_norm.weight") if gemma else a)
            h = self.norm(x, b + "ffn_norm.weight")
            g = h @ self.w(b + "ffn_gate.weight").T
            g = 0.5 * g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))) if gemma else g / (1 + np.exp(-g))
            f = (g * (h @ self.w(b + "ffn_up.weight").T)) @ self.w(b + "ffn_down.weight").T
            x = x + (self.norm(f, b + "post_ffw_norm.weight") if gemma else f)
        return self.norm(x, "output_norm.weight")

    def head(self, x):
        name = "output.weight" if "output.weight" in self.t else "token_embd.weight"
        return x @ self.w(name).T


def read(path):
    out = []
    for line in open(path, encoding="utf-8"):
        f = line.rstrip("\n").split(" ")
        if f[0] == "prompt":
            out.append({"name": f[2], "top": []})
        elif f[0] == "text":
            out[-1]["text"] = line.rstrip("\n")[5:]
        elif f[0] in ("ids", "out"):
            out[-1][f[0]] = [int(v) for v in f[2:]]
        elif f[0] == "top":
            out[-1]["top"].append([(int(a), float(b)) for a, b in (p.split(":") for p in f[1:])])
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("prompts")
    ap.add_argument("--agree", action="store_true")
    a = ap.parse_args()
    net, prompts = Net(a.model), read(a.prompts)
    if a.agree:
        err, other, margin, steps = [], 0, [], 0
        for p in prompts:
            ids = p["ids"] + p["out"]
            rows = net.head(net.forward(ids)[len(p["ids"]) - 1:-1])
            for row, top in zip(rows, p["top"]):
                err += [row[i] - v for i, v in top]
                best = int(row.argmax())
                if best != top[0][0]:
                    other += 1
                    margin.append(row[best] - row[top[0][0]])
                steps += 1
        err = np.abs(err)
        print(f"steps {steps} |error| mean {err.mean():.4g} p99 {np.quantile(err, .99):.4g} max {err.max():.4g}"
              f" other choice {other} largest margin then {max(margin, default=0):.4g}")
        return
    print("# exact: f64 on dequantised weights")
    print(f"prompts {len(prompts)} top 64 vocab {net.t['token_embd.weight'].shape[1]}")
    for k, p in enumerate(prompts):
        row = net.head(net.forward(p["ids"])[-1])
        lse = row.max() + np.log(np.exp(row - row.max()).sum())
        print(f"\nprompt {k} {p['name']}")
        print("text", p["text"])
        print("ids", len(p["ids"]), *p["ids"])
        print("lse", f"{lse:.9g}", "mean", f"{row.mean():.9g}", "rms", f"{np.sqrt((row * row).mean()):.9g}")
        order = sorted(np.argpartition(-row, 64)[:64].tolist(), key=lambda i: (-row[i], i))
        for i in order:
            print("logit", i, f"{row[i]:.9g}")


if __name__ == "__main__":
    main()
