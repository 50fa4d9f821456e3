#!/usr/bin/env python3
"""Sentence embeddings of a BERT model in safetensors form, in plain NumPy with f64 arithmetic.

    make_embeddings.py MODEL_DIR > tests/data/embeddings-minilm.txt

MODEL_DIR holds model.safetensors, config.json and tokenizer.json. Exact gelu (erf), mean pooling over all tokens with [CLS]
and [SEP], L2 normalisation.
Format: tests/data/README.md.
"""
import argparse, json, math, struct
import numpy as np
from tokenizers import Tokenizer
from text_escape import escape

SENTENCES = [
    "The cat sits outside.", "A man is playing guitar.", "I love pasta.", "The new movie is awesome.", "The cat plays in the garden.",
    "A woman watches TV.", "The new movie is so great!", "Do you like pizza?", "", "a", "GPU kernels hide memory latency.",
    "Attention is all you need.", "Ein Mann spielt Gitarre.", "我喜欢意大利面。", "Москва — столица России.", "café CAFÉ cafe\u0301",
    "I love this! 😀🎉", "def f(x): return x ** 2  # square", "1234567890 3.14159 -42",
    "The house at the end of the lane was older than the lane itself: "
    + "it had a green door, a narrow hall and many rooms. " * 12,
]
ERF = np.vectorize(math.erf, otypes=[float])


def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack_from("<Q", raw)[0]
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            b, e = t["data_offsets"]
            out[name] = np.frombuffer(raw[8 + n + b:8 + n + e], "<f4").astype(np.float64).reshape(t["shape"])
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    a = ap.parse_args()
    w, cfg = load(a.dir + "/model.safetensors"), json.load(open(a.dir + "/config.json"))
    tok = Tokenizer.from_file(a.dir + "/tokenizer.json")
    tok.no_padding()
    tok.no_truncation()
    eps, heads = cfg["layer_norm_eps"], cfg["num_attention_heads"]

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + eps) * w[name + ".weight"] + w[name + ".bias"]

    def embed(ids):
        n = len(ids)
        e = "embeddings."
        x = norm(w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:n] + w[e + "token_type_embeddings.weight"][0],
                 e + "LayerNorm")
        for i in range(cfg["num_hidden_layers"]):
            p = f"encoder.layer.{i}."
            q, k, v = (linear(x, p + "attention.self." + s).reshape(n, heads, -1).transpose(1, 0, 2) for s in ("query", "key", "value"))
            s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            s = np.exp(s - s.max(-1, keepdims=True))
            y = (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)
            x = norm(x + linear(y, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            h = linear(x, p + "intermediate.dense")
            h = 0.5 * h * (1 + ERF(h / math.sqrt(2)))
            x = norm(x + linear(h, p + "output.dense"), p + "output.LayerNorm")
        m = x.mean(0)
        return m / np.linalg.norm(m)

    print(f"sentences {len(SENTENCES)} dim {cfg['hidden_size']}")
    for k, s in enumerate(SENTENCES):
        ids = tok.encode(s).ids
        print(f"\nsentence {k}")
        print("text", escape(s))
        print("ids", len(ids), *ids)
        print("vec", *(f"{np.float32(v):.9g}" for v in embed(ids)))


if __name__ == "__main__":
    main()
