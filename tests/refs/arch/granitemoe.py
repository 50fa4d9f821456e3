"""Granite with experts as GGUF has it. keys, shapes and logits are what make_arch.py takes."""
import numpy as np

from arch import llamagguf as base
from arch_numpy import attention

EMBEDDING, RESIDUAL, LOGITS, ATTENTION = 12.0, 0.22, 6.0, 0.015625


def keys():
    return base.expert_sizes("granitemoe") | {f"granitemoe.{key}": ("f32", value) for key, value in {
        "embedding_scale": EMBEDDING, "residual_scale": RESIDUAL, "logit_scale": LOGITS, "attention.scale": ATTENTION}.items()}


def shapes():
    return base.decoder_shapes(base.expert_shapes())


def logits(w, ids):
    t = len(ids)
    x = w["token_embd.weight"][ids] * EMBEDDING
    for il in range(base.LAYERS):
        one = {name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{il}.")}
        h = base.norm(x, one["attn_norm"])
        q, k, v = ((h @ one[f"attn_{n}"].T).reshape(t, -1, base.HEAD) for n in "qkv")
        q = base.rotate_neighbours(q) * (ATTENTION * np.sqrt(base.HEAD))  # attention divides by its square root
        x = x + RESIDUAL * (attention(q, base.rotate_neighbours(k), v, 0) @ one["attn_output"].T)
        x = x + RESIDUAL * base.experts(base.norm(x, one["ffn_norm"]), one, lambda z, chosen: base.softmax(z[chosen]))
    return base.norm(x, w["output_norm.weight"]) @ w["output.weight"].T / LOGITS
