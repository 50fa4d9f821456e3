#!/usr/bin/env python3
"""Writes a GGUF of random weights in the shape of a real model, for speed work: its text is noise.

usage: make_model.py [--shape llama3-8b|llama-1b|tiny] [--type q4_k_m|q4_k|q8_0|f16|...] [--layers N] [--seed N] OUT
Blocks are random bytes with scales that keep activations finite; one stretch of a few MiB is repeated with other offsets."""
import argparse
import struct

import numpy

SHAPES = {  # width, feed-forward, heads, kv heads, head dim, layers, vocabulary
    "llama3-8b": (4096, 14336, 32, 8, 128, 32, 128256),
    "llama-1b": (2048, 8192, 32, 8, 64, 16, 32000),
    "tiny": (256, 512, 4, 2, 64, 2, 300),
}
# type: number in the file, elements and bytes of a block, {offset of an f16: size}; sizes relative to a weight of about 0.02
BLOCKS = {
    "f32": (0, 1, 4, None), "f16": (1, 1, 2, None), "bf16": (30, 1, 2, None),
    "q4_0": (2, 32, 18, {0: 4e-3}), "q4_1": (3, 32, 20, {0: 4e-3, 2: -3e-2}), "q5_0": (6, 32, 22, {0: 2e-3}),
    "q5_1": (7, 32, 24, {0: 2e-3, 2: -3e-2}), "q8_0": (8, 32, 34, {0: 2.7e-4}), "q2_k": (10, 256, 84, {80: 1.5e-3, 82: 2e-3}),
    "q3_k": (11, 256, 110, {108: 4e-4}), "q4_k": (12, 256, 144, {0: 1.3e-4, 2: 1e-3}), "q5_k": (13, 256, 176, {0: 6e-5, 2: 1e-3}),
    "q6_k": (14, 256, 210, {208: 1.5e-5}), "iq4_nl": (20, 32, 18, {0: 2.7e-4}), "iq4_xs": (23, 256, 136, {0: 1.5e-5}),
    "mxfp4": (39, 32, 17, None),
}


def stretch(kind, rng):
    """Random valid blocks, a few MiB."""
    _, elems, size, scales = BLOCKS[kind]
    if kind in ("f32", "f16", "bf16"):
        x = (rng.standard_normal(1 << 20) * 0.02).astype(numpy.float32)
        if kind == "bf16":
            return (x.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
        return x.astype(numpy.float16 if kind == "f16" else numpy.float32).tobytes()
    n = (4 << 20) // size
    blocks = rng.integers(0, 256, (n, size), dtype=numpy.uint8)
    for at, scale in (scales or {}).items():
        d = (scale * (0.5 + rng.random(n))).astype(numpy.float16)
        blocks[:, at:at + 2] = d.view(numpy.uint8).reshape(n, 2)
    if kind == "mxfp4":
        blocks[:, 0] = rng.integers(118, 121, n)  # 2^-9 .. 2^-7, times up to 6
    return blocks.tobytes()


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def metadata(shape, context):
    width, ff, heads, kv, head, layers, vocab = shape
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [f"t{i}" for i in range(vocab - 259)]
    u32 = lambda v: struct.pack("<II", 4, v)
    f32 = lambda v: struct.pack("<If", 6, v)
    array = lambda kind, n, raw: struct.pack("<IIQ", 9, kind, n) + raw
    return {
        "general.architecture": struct.pack("<I", 8) + text("llama"), "general.name": struct.pack("<I", 8) + text("random weights"),
        "llama.block_count": u32(layers), "llama.embedding_length": u32(width), "llama.feed_forward_length": u32(ff),
        "llama.context_length": u32(context), "llama.attention.head_count": u32(heads), "llama.attention.head_count_kv": u32(kv),
        "llama.attention.layer_norm_rms_epsilon": f32(1e-5), "llama.rope.dimension_count": u32(head), "llama.rope.freq_base": f32(500000.0),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text("llama"),
        "tokenizer.ggml.tokens": array(8, vocab, b"".join(map(text, tokens))),
        "tokenizer.ggml.scores": array(6, vocab, struct.pack(f"<{vocab}f", *([0.0] * 259), *(-1.0 - i for i in range(vocab - 259)))),
        "tokenizer.ggml.token_type": array(5, vocab, struct.pack(f"<{vocab}i", 2, 3, 3, *([6] * 256), *([1] * (vocab - 259)))),
        "tokenizer.ggml.bos_token_id": u32(1), "tokenizer.ggml.eos_token_id": u32(2),
    }


def tensors(shape, mix):
    """(name, dimensions slowest first, type). q4_k_m: values and down projections of some layers, and the head, in q6_k."""
    width, ff, heads, kv, head, layers, vocab = shape
    main = "q4_k" if mix == "q4_k_m" else mix
    better = "q6_k" if mix == "q4_k_m" else mix
    yield "token_embd.weight", (vocab, width), main
    for i in range(layers):
        more = i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2
        for name, dims, kind in (("attn_norm", (width,), "f32"), ("attn_q", (heads * head, width), main), ("attn_k", (kv * head, width), main),
                                 ("attn_v", (kv * head, width), better if more else main), ("attn_output", (width, heads * head), main),
                                 ("ffn_norm", (width,), "f32"), ("ffn_gate", (ff, width), main), ("ffn_up", (ff, width), main),
                                 ("ffn_down", (width, ff), better if more else main)):
            yield f"blk.{i}.{name}.weight", dims, kind
    yield "output_norm.weight", (width,), "f32"
    yield "output.weight", (vocab, width), better


def bytes_of(dims, kind):
    _, elems, size, _ = BLOCKS[kind]
    n = 1
    for d in dims:
        n *= d
    return n // elems * size


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--shape", choices=SHAPES, default="llama3-8b")
    p.add_argument("--type", choices=[*BLOCKS, "q4_k_m"], default="q4_k_m")
    p.add_argument("--layers", type=int, default=0, help="0 = the shape's")
    p.add_argument("--context", type=int, default=8192)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("out")
    a = p.parse_args()
    shape = SHAPES[a.shape]
    if a.layers:
        shape = (*shape[:5], a.layers, shape[6])
    rng = numpy.random.default_rng(a.seed)
    meta, all_tensors = metadata(shape, a.context), list(tensors(shape, a.type))
    stock = {kind: stretch(kind, rng) for kind in sorted({k for _, _, k in all_tensors})}
    head, offset, places = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(meta)), 0, []
    for key, value in meta.items():
        head += text(key) + value
    for name, dims, kind in all_tensors:
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in reversed(dims))
        head += struct.pack("<IQ", BLOCKS[kind][0], offset)
        places.append(offset)
        offset += (bytes_of(dims, kind) + 31) // 32 * 32
    with open(a.out, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        start = f.tell()
        for (name, dims, kind), at in zip(all_tensors, places):
            f.seek(start + at)
            left, size = bytes_of(dims, kind), BLOCKS[kind][2]
            if len(dims) == 1:
                f.write(numpy.ones(dims, numpy.float32).tobytes())
                continue
            raw = stock[kind]
            skip = int(rng.integers(0, len(raw) // size)) * size
            while left > 0:
                piece = raw[skip:skip + left]
                f.write(piece)
                left -= len(piece)
                skip = 0
        f.truncate(start + offset)
    print(f"{a.out}: {start + offset} bytes")


if __name__ == "__main__":
    main()
