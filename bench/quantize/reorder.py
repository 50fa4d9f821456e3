#!/usr/bin/env python3
"""A model whose channels, hidden units and value dimensions stand in another order: the same function, other blocks.

    reorder.py IN.gguf OUT.gguf SEED

IN: a llama or gemma3 model in f16, as `ga quantize MODEL OUT f16` writes it. Where its weights came from a quantised file,
no block of OUT lies on that file's codes any more, so a quantiser cannot find them again; and each SEED is another draw of
rounding errors. Needs the packages gguf and numpy."""
import shutil
import sys

import gguf
import numpy as np


def orders(fields, arch, rng):
    """{size of an axis' name: order}"""
    def of(key):
        return int(fields[f"{arch}.{key}"].contents())
    head = of("attention.value_length") if f"{arch}.attention.value_length" in fields else of("embedding_length") // of("attention.head_count")
    value = rng.permutation(head)

    def heads(n):
        return np.concatenate([i * head + value for i in range(n)])
    return {"channels": rng.permutation(of("embedding_length")), "units": [rng.permutation(of("feed_forward_length")) for _ in range(of("block_count"))],
            "values": heads(of("attention.head_count_kv")), "outputs": heads(of("attention.head_count"))}


def reordered(name, x, o):
    """x: [rows, columns] or [elements], as the file has it."""
    part = name.split(".")[2] if name.startswith("blk.") else name.split(".")[0]
    units = o["units"][int(name.split(".")[1])] if name.startswith("blk.") else None
    if part in ("attn_q_norm", "attn_k_norm"):
        return x
    if x.ndim == 1:
        return x[o["channels"]]
    if part in ("token_embd", "output", "attn_q", "attn_k"):
        return x[:, o["channels"]]
    if part == "attn_v":
        return x[o["values"]][:, o["channels"]]
    if part == "attn_output":
        return x[o["channels"]][:, o["outputs"]]
    if part in ("ffn_gate", "ffn_up"):
        return x[units][:, o["channels"]]
    if part == "ffn_down":
        return x[o["channels"]][:, units]
    sys.exit(f"{name}: no tensor of llama or gemma3")


def main():
    source, out, seed = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    if arch not in ("llama", "gemma3"):
        sys.exit(f"architecture '{arch}'; must be llama or gemma3")
    o = orders(reader.fields, arch, np.random.default_rng(int(seed)))
    shutil.copy(source, out)
    to = np.memmap(out, dtype=np.uint8, mode="r+")
    for t in reader.tensors:
        if t.tensor_type.name not in ("F16", "F32"):
            sys.exit(f"{t.name} is {t.tensor_type.name}; must be F16 or F32")
        x = np.ascontiguousarray(reordered(t.name, t.data, o))
        to[t.data_offset:t.data_offset + x.nbytes] = x.view(np.uint8).ravel()
    to.flush()


if __name__ == "__main__":
    main()
