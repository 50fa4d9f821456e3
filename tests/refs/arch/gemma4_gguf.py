"""Gemma 4 as GGUF has it, with all that its sizes have of it at once: embeddings of layers, shared keys and values, values that are keys, experts whose
gate and up share a stack, rope_freqs for the part of a global head that rotates, numbers by layer."""
import numpy as np

from arch import llamagguf as base
from arch_numpy import gelu_tanh

LAYERS, SHARED_KV, WINDOW, CAP, PER_LAYER = 5, 2, 6, 3.0, 8
IS_LOCAL = [True, True, False, True, False]
DIM, GLOBAL_DIM, KV, GLOBAL_KV, ROTATED_PAIRS = 16, 32, 2, 1, 4
FFS = [24, 24, 24, 48, 48]
BASE, LOCAL_BASE = 1e6, 1e4
WIDTH, HEADS, VOCAB, EXPERTS, CHOSEN, EXPERT_FF = 64, base.HEADS, base.VOCAB, 6, 2, 16


def keys():
    kv = [KV if local else GLOBAL_KV for local in IS_LOCAL]
    return {"general.architecture": ("text", "gemma4")} | {f"gemma4.{key}": value for key, value in {
        "block_count": ("u32", LAYERS), "embedding_length": ("u32", WIDTH), "feed_forward_length": ("array", ("i32", FFS)), "context_length": ("u32", 128),
        "attention.head_count": ("u32", HEADS), "attention.head_count_kv": ("array", ("i32", kv)), "attention.key_length": ("u32", GLOBAL_DIM),
        "attention.value_length": ("u32", GLOBAL_DIM), "attention.key_length_swa": ("u32", DIM), "attention.value_length_swa": ("u32", DIM),
        "attention.layer_norm_rms_epsilon": ("f32", base.EPS), "attention.sliding_window": ("u32", WINDOW),
        "attention.sliding_window_pattern": ("array", ("bool", IS_LOCAL)), "attention.shared_kv_layers": ("u32", SHARED_KV),
        "rope.freq_base": ("f32", BASE), "rope.freq_base_swa": ("f32", LOCAL_BASE), "rope.dimension_count": ("u32", GLOBAL_DIM),
        "rope.dimension_count_swa": ("u32", DIM), "embedding_length_per_layer_input": ("u32", PER_LAYER), "final_logit_softcapping": ("f32", CAP),
        "expert_count": ("u32", EXPERTS), "expert_used_count": ("u32", CHOSEN), "expert_feed_forward_length": ("u32", EXPERT_FF)}.items()}


def layer_shapes(il):
    dim, kv = (DIM, KV) if IS_LOCAL[il] else (GLOBAL_DIM, GLOBAL_KV)
    named = {name: (WIDTH,) for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "pre_ffw_norm_2", "post_ffw_norm_1",
                                         "post_ffw_norm_2", "post_norm")}
    named |= {"attn_q": (HEADS * dim, WIDTH), "attn_q_norm": (dim,), "attn_output": (WIDTH, HEADS * dim), "ffn_gate": (FFS[il], WIDTH),
              "ffn_up": (FFS[il], WIDTH), "ffn_down": (WIDTH, FFS[il]), "ffn_gate_inp": (EXPERTS, WIDTH),
              "ffn_gate_up_exps": (EXPERTS, 2 * EXPERT_FF, WIDTH), "ffn_down_exps": (EXPERTS, WIDTH, EXPERT_FF), "inp_gate": (PER_LAYER, WIDTH),
              "proj": (WIDTH, PER_LAYER), "layer_output_scale": (1,)}
    if il < LAYERS - SHARED_KV:
        named |= {"attn_k": (kv * dim, WIDTH), "attn_k_norm": (dim,)} | ({"attn_v": (kv * dim, WIDTH)} if IS_LOCAL[il] else {})
    return {f"{name}.weight": shape for name, shape in named.items()} | {"ffn_gate_inp.scale": (WIDTH,), "ffn_down_exps.scale": (EXPERTS,)}


def shapes():
    whole = {"token_embd": (VOCAB, WIDTH), "output_norm": (WIDTH,), "per_layer_token_embd": (VOCAB, LAYERS * PER_LAYER),
             "per_layer_model_proj": (LAYERS * PER_LAYER, WIDTH), "per_layer_proj_norm": (PER_LAYER,), "rope_freqs": (GLOBAL_DIM // 2,)}
    return {f"{name}.weight": shape for name, shape in whole.items()} | {
        f"blk.{il}.{name}": shape for il in range(LAYERS) for name, shape in layer_shapes(il).items()}


def changed(w):
    """Factors that are not about 0; weights of q's norms hold the factor of attention's logits."""
    for name in w:
        if name.endswith((".scale", "layer_output_scale.weight")):
            w[name] = w[name] + np.float32(1)
        if name.endswith("attn_q_norm.weight"):
            w[name] = w[name] * np.float32(0.25)
    w["rope_freqs.weight"] = np.array([1] * ROTATED_PAIRS + [1e30] * (GLOBAL_DIM // 2 - ROTATED_PAIRS), np.float32)
    return w


def rotate(x, local, factors):
    dim = x.shape[-1]
    freq = (LOCAL_BASE if local else BASE) ** (-np.arange(0, dim, 2) / dim) / (1 if local else factors)
    turn = np.arange(len(x))[:, None, None] * freq
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(turn) - b * np.sin(turn), b * np.cos(turn) + a * np.sin(turn)], -1)


def attention(q, k, v, window):
    t, heads, _ = q.shape
    k, v = (np.repeat(x, heads // k.shape[1], 1) for x in (k, v))
    far = np.arange(t)[:, None] - np.arange(t)[None, :]
    s = np.where((far < 0) | (far >= (window or t)), -np.inf, np.einsum("qhd,khd->hqk", q, k))
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(t, -1)


def experts(x, one):
    out = np.zeros_like(x)
    router = base.norm(x, one["ffn_gate_inp.scale"]) / np.sqrt(WIDTH) @ one["ffn_gate_inp"].T
    h = base.norm(x, one["pre_ffw_norm_2"])
    for t, z in enumerate(router):
        chosen = np.argsort(-z, kind="stable")[:CHOSEN]
        for e, weight in zip(chosen, base.share_of_chosen(z, chosen) * one["ffn_down_exps.scale"][chosen]):
            gate, up = np.split(one["ffn_gate_up_exps"][e] @ h[t], 2)
            out[t] += weight * (one["ffn_down_exps"][e] @ (gelu_tanh(gate) * up))
    return out


def logits(w, ids):
    t, norm, stored = len(ids), base.norm, {}
    x = w["token_embd.weight"][ids] * np.sqrt(WIDTH)
    made = (x @ w["per_layer_model_proj.weight"].T / np.sqrt(WIDTH)).reshape(t, LAYERS, PER_LAYER)
    looked_up = w["per_layer_token_embd.weight"][ids].reshape(t, LAYERS, PER_LAYER) * np.sqrt(PER_LAYER)
    own = (norm(made, w["per_layer_proj_norm.weight"]) + looked_up) / np.sqrt(2)
    for il, local in enumerate(IS_LOCAL):
        one = base.weights_of_layer(w, il)
        dim = DIM if local else GLOBAL_DIM
        h = norm(x, one["attn_norm"])
        if il < LAYERS - SHARED_KV:
            k = (h @ one["attn_k"].T).reshape(t, -1, dim)
            v = (h @ one["attn_v"].T).reshape(t, -1, dim) if local else k
            stored[local] = rotate(norm(k, one["attn_k_norm"]), local, w["rope_freqs.weight"]), norm(v, 1)
        q = rotate(norm((h @ one["attn_q"].T).reshape(t, HEADS, dim), one["attn_q_norm"]), local, w["rope_freqs.weight"])
        x = x + norm(attention(q, *stored[local], WINDOW if local else 0) @ one["attn_output"].T, one["post_attention_norm"])
        h = norm(x, one["ffn_norm"])
        dense = (gelu_tanh(h @ one["ffn_gate"].T) * (h @ one["ffn_up"].T)) @ one["ffn_down"].T
        both = norm(dense, one["post_ffw_norm_1"]) + norm(experts(x, one), one["post_ffw_norm_2"])
        x = x + norm(both, one["post_ffw_norm"])
        y = (gelu_tanh(x @ one["inp_gate"].T) * own[:, il]) @ one["proj"].T
        x = (x + norm(y, one["post_norm"])) * one["layer_output_scale"]
    return CAP * np.tanh(norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T / CAP)
