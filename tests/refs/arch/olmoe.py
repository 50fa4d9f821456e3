"""OLMoE as GGUF has it: whole rows of q and k are normed. keys, shapes and logits are what make_arch.py takes."""
import numpy as np

from arch import llamagguf as base
from arch_numpy import attention, rotate

ANGLES = base.BASE ** (-np.arange(0, base.HEAD, 2) / base.HEAD)


def keys():
    return base.expert_sizes("olmoe")


def shapes():
    return base.decoder_shapes({"attn_q_norm": (base.HEADS * base.HEAD,), "attn_k_norm": (base.KV_HEADS * base.HEAD,)}
                               | base.expert_shapes())


def logits(w, ids):
    t = len(ids)
    x = w["token_embd.weight"][ids]
    for il in range(base.LAYERS):
        one = {name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{il}.")}
        h = base.norm(x, one["attn_norm"])
        q, k = (base.norm(h @ one[f"attn_{n}"].T, one[f"attn_{n}_norm"]) for n in "qk")
        q, k, v = (y.reshape(t, -1, base.HEAD) for y in (q, k, h @ one["attn_v"].T))
        x = x + attention(rotate(q, ANGLES, 1), rotate(k, ANGLES, 1), v, 0) @ one["attn_output"].T
        x = x + base.experts(base.norm(x, one["ffn_norm"]), one, lambda z, chosen: base.softmax(z)[chosen])
    return base.norm(x, w["output_norm.weight"]) @ w["output.weight"].T
