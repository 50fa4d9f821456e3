"""Multi-head latent attention in numpy, f64, in its expanded form: keys and values of all heads are made, as DeepSeek's papers write them."""
import math
from types import SimpleNamespace

import numpy as np

from arch_numpy import rope_angles, silu

WIDTH, FF, LAYERS, VOCAB, EPS, BASE = 32, 48, 2, 96, 1e-6, 10000.0
EXPERTS, CHOSEN, EXPERT_FF, SHARED = 8, 3, 24, 2

# q_latent 0: queries are made from the layer's input
V3 = SimpleNamespace(heads=4, nope=16, rot=8, v=32, latent=48, q_latent=40, n_groups=4, kept_groups=2, is_sigmoid=True, renorms=True, scale=2.5,
                     yarn=dict(factor=4.0, original=32, mscale=1.0, mscale_all_dim=1.0))
V2 = SimpleNamespace(heads=4, nope=32, rot=16, v=20, latent=24, q_latent=0, n_groups=4, kept_groups=2, is_sigmoid=False, renorms=False, scale=16.0,
                     yarn=dict(factor=4.0, original=32, mscale=1.4, mscale_all_dim=0.8))
LITE = SimpleNamespace(**(vars(V2) | dict(n_groups=1, kept_groups=1, scale=1.0, latent=64, yarn=dict(factor=4.0, original=32, mscale=0.707, mscale_all_dim=0.707))))


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def get_mscale(factor, m):
    return 1 + 0.1 * m * math.log(factor) if factor > 1 else 1.0


def rotate_pairs(x, s):
    """x [T, heads, rot]: element 2 i turns with element 2 i + 1, by YaRN's frequencies."""
    y = s.yarn
    rope = dict(rope_type="yarn", factor=y["factor"], original_max_position_embeddings=y["original"], attention_factor=1.0)
    angles, _ = rope_angles(dict(rope_theta=BASE, rope_scaling=rope), s.rot, True)
    turn = np.arange(len(x))[:, None, None] * angles
    a, b = x[..., 0::2], x[..., 1::2]
    size = get_mscale(y["factor"], y["mscale"]) / get_mscale(y["factor"], y["mscale_all_dim"])
    return size * np.stack([a * np.cos(turn) - b * np.sin(turn), b * np.cos(turn) + a * np.sin(turn)], -1).reshape(x.shape)


def attend(h, one, s):
    """one: weights by GGUF's names, with kv_b [heads, nope + v, latent]."""
    t = len(h)
    q = norm(h @ one["attn_q_a"].T, one["attn_q_a_norm"]) @ one["attn_q_b"].T if s.q_latent else h @ one["attn_q"].T
    q = q.reshape(t, s.heads, s.nope + s.rot)
    both = h @ one["attn_kv_a_mqa"].T
    c = norm(both[:, :s.latent], one["attn_kv_a_norm"])
    kv = np.einsum("tl,hdl->thd", c, one["kv_b"])
    shared = np.repeat(rotate_pairs(both[:, None, s.latent:], s), s.heads, 1)
    k = np.concatenate([kv[..., :s.nope], shared], -1)
    q = np.concatenate([q[..., :s.nope], rotate_pairs(q[..., s.nope:], s)], -1)
    m = get_mscale(s.yarn["factor"], s.yarn["mscale_all_dim"])
    logits = np.einsum("qhd,khd->hqk", q, k) * m * m / math.sqrt(s.nope + s.rot)
    logits = np.where(np.arange(t)[:, None] < np.arange(t)[None, :], -np.inf, logits)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    o = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), kv[..., s.nope:])
    return o.reshape(t, -1) @ one["attn_output"].T


def choose(z, bias, s):
    """The chosen experts of a token with logits z, and their weights."""
    score = 1 / (1 + np.exp(-z)) if s.is_sigmoid else np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    key = score + bias
    groups = key.reshape(s.n_groups, -1)
    best = np.sort(groups, -1)[:, -2:].sum(-1) if s.is_sigmoid else groups.max(-1)
    kept = np.argsort(-best, kind="stable")[:s.kept_groups]
    key = np.where(np.isin(np.arange(EXPERTS) // (EXPERTS // s.n_groups), kept), key, -np.inf)
    chosen = np.argsort(-key, kind="stable")[:CHOSEN]
    weights = score[chosen] / (score[chosen].sum() + 1e-20) if s.renorms else score[chosen]
    return chosen, s.scale * weights


def gated(x, gate, up, down):
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


def feed_forward(h, one, s):
    if "ffn_gate" in one:
        return gated(h, one["ffn_gate"], one["ffn_up"], one["ffn_down"])
    out = gated(h, one["ffn_gate_shexp"], one["ffn_up_shexp"], one["ffn_down_shexp"])
    for t, (x, z) in enumerate(zip(h, h @ one["ffn_gate_inp"].T)):
        for e, weight in zip(*choose(z, one.get("exp_probs_b.bias", 0), s)):
            out[t] += weight * gated(x, one["ffn_gate_exps"][e], one["ffn_up_exps"][e], one["ffn_down_exps"][e])
    return out


def decoder(embedding, layers, last_norm, head, ids, s):
    x = embedding[ids]
    for one in layers:
        x = x + attend(norm(x, one["attn_norm"]), one, s)
        x = x + feed_forward(norm(x, one["ffn_norm"]), one, s)
    return norm(x, last_norm) @ head.T


# --- as GGUF has it ---

def gguf_keys(s, is_split):
    arch = "deepseek2"
    sizes = {"attention.key_length": s.nope + s.rot, "attention.value_length": s.v, "attention.head_count_kv": s.heads}
    if is_split:
        sizes = {"attention.key_length": s.latent + s.rot, "attention.value_length": s.latent, "attention.head_count_kv": 1,
                 "attention.key_length_mla": s.nope + s.rot, "attention.value_length_mla": s.v}
    if s.q_latent:
        sizes["attention.q_lora_rank"] = s.q_latent
    if s.n_groups > 1:
        sizes |= {"expert_group_count": s.n_groups, "expert_group_used_count": s.kept_groups}
    if s.is_sigmoid:
        sizes["expert_gating_func"] = 2
    sizes |= {"block_count": LAYERS, "embedding_length": WIDTH, "feed_forward_length": FF, "context_length": 128, "attention.head_count": s.heads,
              "attention.kv_lora_rank": s.latent, "rope.dimension_count": s.rot, "leading_dense_block_count": 1, "expert_count": EXPERTS,
              "expert_used_count": CHOSEN, "expert_feed_forward_length": EXPERT_FF, "expert_shared_count": SHARED,
              "rope.scaling.original_context_length": s.yarn["original"]}
    floats = {"attention.layer_norm_rms_epsilon": EPS, "rope.freq_base": BASE, "expert_weights_scale": s.scale, "rope.scaling.factor": s.yarn["factor"],
              "rope.scaling.yarn_log_multiplier": 0.1 * s.yarn["mscale_all_dim"]}
    return {"general.architecture": ("text", arch), f"{arch}.rope.scaling.type": ("text", "yarn"),
            f"{arch}.expert_weights_norm": ("bool", s.renorms)} | {
        f"{arch}.{key}": ("u32", value) for key, value in sizes.items()} | {f"{arch}.{key}": ("f32", value) for key, value in floats.items()}


def gguf_shapes(s, is_split):
    named = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,), "output.weight": (VOCAB, WIDTH)}
    attention = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_kv_a_mqa": (s.latent + s.rot, WIDTH), "attn_kv_a_norm": (s.latent,),
                 "attn_output": (WIDTH, s.heads * s.v)}
    n_q = s.heads * (s.nope + s.rot)
    attention |= {"attn_q_a": (s.q_latent, WIDTH), "attn_q_a_norm": (s.q_latent,), "attn_q_b": (n_q, s.q_latent)} if s.q_latent else {"attn_q": (n_q, WIDTH)}
    attention |= ({"attn_k_b": (s.heads, s.latent, s.nope), "attn_v_b": (s.heads, s.v, s.latent)} if is_split
                  else {"attn_kv_b": (s.heads * (s.nope + s.v), s.latent)})
    dense = {"ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH), "ffn_down": (WIDTH, FF)}
    wide = SHARED * EXPERT_FF
    moe = {"ffn_gate_inp": (EXPERTS, WIDTH), "ffn_gate_exps": (EXPERTS, EXPERT_FF, WIDTH), "ffn_up_exps": (EXPERTS, EXPERT_FF, WIDTH),
           "ffn_down_exps": (EXPERTS, WIDTH, EXPERT_FF), "ffn_gate_shexp": (wide, WIDTH), "ffn_up_shexp": (wide, WIDTH), "ffn_down_shexp": (WIDTH, wide)}
    for il in range(LAYERS):
        named |= {f"blk.{il}.{name}.weight": shape for name, shape in (attention | (moe if il else dense)).items()}
        if il and s.is_sigmoid:
            named[f"blk.{il}.exp_probs_b.bias"] = (EXPERTS,)
    return named


def gguf_logits(w, ids, s):
    layers = []
    for il in range(LAYERS):
        one = {name.removeprefix(f"blk.{il}.").removesuffix(".weight"): v for name, v in w.items() if name.startswith(f"blk.{il}.")}
        if "attn_kv_b" in one:
            one["kv_b"] = one["attn_kv_b"].reshape(s.heads, s.nope + s.v, s.latent)
        else:
            one["kv_b"] = np.concatenate([one["attn_k_b"].transpose(0, 2, 1), one["attn_v_b"]], 1)
        layers.append(one)
    return decoder(w["token_embd.weight"], layers, w["output_norm.weight"], w["output.weight"], ids, s)


# --- as folders have it ---

ATTENTION_NAMES = {"attn_q_a": "q_a_proj", "attn_q_a_norm": "q_a_layernorm", "attn_q_b": "q_b_proj", "attn_q": "q_proj",
                   "attn_kv_a_mqa": "kv_a_proj_with_mqa", "attn_kv_a_norm": "kv_a_layernorm", "attn_kv_b": "kv_b_proj", "attn_output": "o_proj"}
OTHER_NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
               "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate", "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
               "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj"}
STACK_NAMES = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}


def folder_config(s, model_type):
    return dict(model_type=model_type, hidden_size=WIDTH, intermediate_size=FF, num_hidden_layers=LAYERS, num_attention_heads=s.heads,
                num_key_value_heads=s.heads, vocab_size=VOCAB, max_position_embeddings=128, rms_norm_eps=EPS, rope_theta=BASE, hidden_act="silu",
                tie_word_embeddings=False, attention_bias=False, attention_dropout=0.0, q_lora_rank=s.q_latent or None, kv_lora_rank=s.latent,
                qk_nope_head_dim=s.nope, qk_rope_head_dim=s.rot, v_head_dim=s.v, n_routed_experts=EXPERTS, num_experts_per_tok=CHOSEN,
                moe_intermediate_size=EXPERT_FF, n_shared_experts=SHARED, first_k_dense_replace=1, moe_layer_freq=1, n_group=s.n_groups,
                topk_group=s.kept_groups, norm_topk_prob=s.renorms, routed_scaling_factor=s.scale, scoring_func="sigmoid" if s.is_sigmoid else "softmax",
                topk_method="noaux_tc" if s.is_sigmoid else "group_limited_greedy", aux_loss_alpha=0.001, seq_aux=True, ep_size=1,
                rope_scaling=dict(type="yarn", factor=s.yarn["factor"], original_max_position_embeddings=s.yarn["original"], beta_fast=32, beta_slow=1,
                                  mscale=s.yarn["mscale"], mscale_all_dim=s.yarn["mscale_all_dim"]))


def folder_names(name):
    """Names of the folder's tensors for a tensor of GGUF: one, or one for each expert."""
    if not name.startswith("blk."):
        return [{"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}[name]]
    _, il, stem, *_ = name.split(".")
    at = f"model.layers.{il}"
    if stem == "exp_probs_b":
        return [f"{at}.mlp.gate.e_score_correction_bias"]
    if stem in STACK_NAMES:
        return [f"{at}.mlp.experts.{e}.{STACK_NAMES[stem]}.weight" for e in range(EXPERTS)]
    return [f"{at}.self_attn.{ATTENTION_NAMES[stem]}.weight" if stem in ATTENTION_NAMES else f"{at}.{OTHER_NAMES[stem]}.weight"]


def folder_shapes(s):
    named = {}
    for name, shape in gguf_shapes(s, False).items():
        names = folder_names(name)
        named |= {one: shape[1:] if len(names) > 1 else shape for one in names}
    return named


def folder_logits(w, ids, s):
    as_gguf = {}
    for name in gguf_shapes(s, False):
        each = [w[one] for one in folder_names(name)]
        as_gguf[name] = np.stack(each) if len(each) > 1 else each[0]
    return gguf_logits(as_gguf, ids, s)
