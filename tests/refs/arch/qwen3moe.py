"""Qwen3 with experts as GGUF has it. keys, shapes and logits are what make_arch.py takes."""
import numpy as np

from arch import llamagguf as base
from arch_numpy import attention, rotate

ANGLES = base.BASE ** (-np.arange(0, base.HEAD, 2) / base.HEAD)


def keys():
    return base.expert_sizes("qwen3moe")


def shapes():
    return base.decoder_shapes({"attn_q_norm": (base.HEAD,), "attn_k_norm": (base.HEAD,)} | base.expert_shapes())


def logits(w, ids):
    t = len(ids)
    x = w["token_embd.weight"][ids]
    for il in range(base.LAYERS):
        one = {name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{il}.")}
        h = base.norm(x, one["attn_norm"])
        q, k, v = ((h @ one[f"attn_{n}"].T).reshape(t, -1, base.HEAD) for n in "qkv")
        q, k = (rotate(base.norm(x, one[f"attn_{n}_norm"]), ANGLES, 1) for n, x in (("q", q), ("k", k)))
        x = x + attention(q, k, v, 0) @ one["attn_output"].T
        x = x + base.experts(base.norm(x, one["ffn_norm"]), one, base.share_of_chosen)
    return base.norm(x, w["output_norm.weight"]) @ w["output.weight"].T
