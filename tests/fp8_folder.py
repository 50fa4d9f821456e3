#!/usr/bin/env python3
"""A folder of random weights in the shape of a model, matrices of layers in e4m3 with scales: an FP8 checkpoint for speed and memory work, and
for tests. Its text is noise.
usage: fp8_folder.py [--shape llama-3-8b] [--scales tensor|row|block] [--ff N] [--layers N] FOLDER"""
import argparse
import bisect
import json
import random
import struct
from pathlib import Path

# layers, width, ff, heads, kv heads, head dim, vocabulary, context, base of rope
SHAPES = {"llama-3-8b": (32, 4096, 14336, 32, 8, 128, 128256, 8192, 5e5), "tiny": (2, 256, 512, 4, 2, 64, 300, 8192, 1e4)}
SPREAD = 64  # standard deviation of codes, whose largest is 448
STOCK, PIECE = 1 << 19, 1 << 16  # elements of the stock of which tensors are cut out; and of a piece


def e4m3_values():
    """Of codes 0 to 126, which ascend."""
    return [(8 + c % 8) * 2.0 ** (c // 8 - 10) if c > 7 else c * 2.0**-9 for c in range(127)]


def e4m3_stock(rng):
    values, out = e4m3_values(), bytearray(STOCK)
    middles = [(a + b) / 2 for a, b in zip(values, values[1:])]
    for i in range(STOCK):
        x = rng.gauss(0, SPREAD)
        out[i] = bisect.bisect(middles, abs(x)) | (0x80 if x < 0 else 0)
    return bytes(out)


def bf16_stock(rng, deviation):
    """Cut off rather than rounded."""
    return b"".join(struct.pack("<f", rng.gauss(0, deviation))[2:] for _ in range(STOCK))


class Tensors:
    """Names, shapes and where bytes come from, in the order of the file."""

    def __init__(self, seed, scales):
        self.rng, self.scales = random.Random(seed), scales
        self.codes, self.stocks = e4m3_stock(self.rng), {}
        self.header, self.sources, self.at = {}, [], 0

    def put(self, name, dtype, shape, size, source):
        self.header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [self.at, self.at + size]}
        self.sources.append((size, source))
        self.at += size

    def plain(self, name, shape, deviation=0.0):
        """bf16; without a deviation ones."""
        if deviation not in self.stocks:
            self.stocks[deviation] = bf16_stock(self.rng, deviation) if deviation else b"\x80\x3f" * STOCK
        size = 2
        for n in shape:
            size *= n
        self.put(name, "BF16", shape, size, self.stocks[deviation])

    def matrix(self, name, rows, cols, deviation):
        shape = {"tensor": [], "row": [rows, 1], "block": [-(-rows // 128), -(-cols // 128)]}[self.scales]
        n = shape[0] * shape[1] if shape else 1
        self.put(name, "F8_E4M3", [rows, cols], rows * cols, self.codes)
        scales = [deviation / SPREAD * self.rng.uniform(0.8, 1.2) for _ in range(n)]
        self.put(name + ("_scale_inv" if self.scales == "block" else "_scale"), "F32", shape, 4 * n, struct.pack(f"<{n}f", *scales))

    def write(self, path):
        head = json.dumps(self.header).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head)
            for size, source in self.sources:
                if size == len(source):
                    f.write(source)
                    continue
                for done in range(0, size, PIECE):
                    start = self.rng.randrange(0, (len(source) - PIECE) // 2) * 2
                    f.write(memoryview(source)[start:start + min(PIECE, size - done)])


def tokenizer(vocab):
    """Bytes, so that any prompt has ids, then words."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += [f"t{i}" for i in range(vocab - len(pieces))]
    return {"model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": []},
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            "added_tokens": [{"id": i, "content": pieces[i], "special": True} for i in range(3)]}


def build(folder, shape="tiny", scales="block", seed=1, ff=None, n_layers=None):
    layers, width, own_ff, heads, kv_heads, dim, vocab, context, base = SHAPES[shape]
    layers, ff, folder, t = n_layers or layers, ff or own_ff, Path(folder), Tensors(seed, scales)
    reads, joins = width**-0.5, (2 * layers * width)**-0.5
    t.plain("model.embed_tokens.weight", [vocab, width], 1.0)
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, rows, cols, deviation in (("self_attn.q_proj", heads * dim, width, reads), ("self_attn.k_proj", kv_heads * dim, width, reads),
                                            ("self_attn.v_proj", kv_heads * dim, width, reads), ("self_attn.o_proj", width, heads * dim, joins),
                                            ("mlp.gate_proj", ff, width, reads), ("mlp.up_proj", ff, width, reads),
                                            ("mlp.down_proj", width, ff, joins * (width / ff)**0.5)):
            t.matrix(f"{at}{name}.weight", rows, cols, deviation)
        t.plain(at + "input_layernorm.weight", [width])
        t.plain(at + "post_attention_layernorm.weight", [width])
    t.plain("model.norm.weight", [width])
    t.plain("lm_head.weight", [vocab, width], reads)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "num_hidden_layers": layers, "intermediate_size": ff,
              "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim, "rms_norm_eps": 1e-5, "max_position_embeddings": context,
              "vocab_size": vocab, "hidden_act": "silu", "rope_theta": base, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
              "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                      "weight_block_size": [128, 128] if scales == "block" else None}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(vocab)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}))
    t.write(folder / "model.safetensors")
    return folder


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", choices=SHAPES, default="llama-3-8b")
    p.add_argument("--scales", choices=("tensor", "row", "block"), default="block")
    p.add_argument("--ff", type=int)
    p.add_argument("--layers", type=int)
    p.add_argument("folder")
    a = p.parse_args()
    print(build(a.folder, a.shape, a.scales, ff=a.ff, n_layers=a.layers))


if __name__ == "__main__":
    main()
