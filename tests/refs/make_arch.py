#!/usr/bin/env python3
"""Tiny random models of every architecture, with logits (encoders: pooled embeddings) in f64.

    make_arch.py tests/data/arch [NAME ...]     only those of that name
    make_arch.py --compare tests/data/arch      numpy beside what transformers wrote

For each name: NAME/config.json, NAME/model.safetensors or NAME/model.gguf (f32, seeded), NAME/expected.txt: `ids N ...`, then one line
`row ...` for each position (encoders: one line `vec ...`), nine digits. phi3/short.txt: the same of its first tokens alone. llama4_folder/long.txt: of a longer text. Those of MODELS need torch and transformers, which make
and evaluate them. Those of CONFIGS need numpy: arch_numpy.py evaluates them. So do those of which arch/NAME.py has the metadata, the tensors and the
mathematics, by the names of GGUF; one with a config makes a folder. Small on purpose: each
quirk of an architecture that changes the numbers is on (grouped heads, biases, head norms, sliding windows, rope scaling).
"""
import contextlib
import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np

import arch_numpy

sys.path.append(str(Path(__file__).parent.parent))
import tiny_gguf

try:
    import torch
    import transformers as hf
except ImportError:
    torch = hf = None

IDS = [(i * 37 + 11) % 96 for i in range(40)]
SMALL = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_attention_heads=4, max_position_embeddings=128)
DECODER = dict(SMALL, num_hidden_layers=2, num_key_value_heads=2, attention_dropout=0.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)



def longrope(pairs):
    """Factors for that many pairs: short ones near 1, long ones far from it."""
    return dict(rope_type="longrope", short_factor=[1.0 + 0.05 * i for i in range(pairs)],
                long_factor=[1.0 + 0.7 * i for i in range(pairs)])


MODELS = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER, tie_word_embeddings=False)),
    "llama3": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**DECODER, tie_word_embeddings=True, rope_theta=500000.0, rope_scaling=dict(LLAMA3))),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**DECODER, tie_word_embeddings=True, use_sliding_window=False)),
    "qwen2yarn": lambda: hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**DECODER, tie_word_embeddings=False, use_sliding_window=False, rope_scaling=dict(YARN))),
    "qwen3": lambda: hf.Qwen3ForCausalLM(
        hf.Qwen3Config(**DECODER, head_dim=32, tie_word_embeddings=False, use_sliding_window=False)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(**dict(DECODER, num_hidden_layers=7, num_key_value_heads=1), head_dim=32, sliding_window=8,
                            query_pre_attn_scalar=32, rope_theta=1e6, rope_local_base_freq=1e4)),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**DECODER, head_dim=32)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**dict(DECODER, num_hidden_layers=3), head_dim=32, sliding_window=8, query_pre_attn_scalar=24,
                        attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**DECODER, head_dim=32, sliding_window=8)),
    "granite": lambda: hf.GraniteForCausalLM(
        hf.GraniteConfig(**DECODER, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.15,
                         logits_scaling=5.0, tie_word_embeddings=True)),
    "smollm3": lambda: hf.SmolLM3ForCausalLM(
        hf.SmolLM3Config(**dict(DECODER, num_hidden_layers=5), rope_theta=5e5, tie_word_embeddings=True, pad_token_id=None)),
    "phi3": lambda: hf.Phi3ForCausalLM(
        hf.Phi3Config(**dict(DECODER, hidden_size=96), sliding_window=24, partial_rotary_factor=0.75, pad_token_id=None,
                      original_max_position_embeddings=16, rope_scaling=longrope(9))),
    "phi3short": lambda: hf.Phi3ForCausalLM(
        hf.Phi3Config(**dict(DECODER, max_position_embeddings=64), sliding_window=None, pad_token_id=None,
                      tie_word_embeddings=True, original_max_position_embeddings=64, rope_scaling=longrope(8))),
    "cohere2": lambda: hf.Cohere2ForCausalLM(
        hf.Cohere2Config(**dict(DECODER, num_hidden_layers=5), sliding_window=8, logit_scale=0.25, rope_theta=5e4)),
    "command_r": lambda: hf.CohereForCausalLM(hf.CohereConfig(**DECODER, logit_scale=0.25, rope_theta=8e6)),
    "phi2": lambda: hf.PhiForCausalLM(hf.PhiConfig(**DECODER, partial_rotary_factor=0.5, hidden_act="gelu_new")),
    "stablelm": lambda: hf.StableLmForCausalLM(
        hf.StableLmConfig(**DECODER, use_qkv_bias=True, partial_rotary_factor=0.25, rope_theta=10000.0)),
    "stablelmparallel": lambda: hf.StableLmForCausalLM(
        hf.StableLmConfig(**DECODER, use_qkv_bias=False, use_parallel_residual=True, partial_rotary_factor=0.5)),
    "nemotron": lambda: hf.NemotronForCausalLM(
        hf.NemotronConfig(**DECODER, head_dim=16, partial_rotary_factor=0.5, norm_eps=1e-5)),
    "gptneox": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**SMALL, num_hidden_layers=2, rotary_pct=0.25, rotary_emb_base=10000)),
    "gptneoxserial": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**SMALL, num_hidden_layers=2, rotary_pct=0.5, use_parallel_residual=False)),
    "llamalinear": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**DECODER, tie_word_embeddings=True, rope_scaling=dict(rope_type="linear", factor=2.5))),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=96, n_embd=64, n_inner=None, n_layer=2, n_head=4, n_positions=128)),
    "nomic_bert": lambda: hf.NomicBertModel(hf.NomicBertConfig(**SMALL, num_hidden_layers=2)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL, num_hidden_layers=2), add_pooling_layer=False),
    "xlm_roberta": lambda: hf.XLMRobertaModel(
        hf.XLMRobertaConfig(**dict(SMALL, max_position_embeddings=66), num_hidden_layers=2, type_vocab_size=1, pad_token_id=1,
                            bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5), add_pooling_layer=False),
    "modern_bert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(**SMALL, num_hidden_layers=4, local_attention=10, pad_token_id=0, eos_token_id=2, bos_token_id=1,
                            cls_token_id=1, sep_token_id=2)),
    "commandrplus": lambda: hf.CohereForCausalLM(hf.CohereConfig(**DECODER, logit_scale=0.25, rope_theta=8e6, use_qk_norm=True)),
    "gptneoxfast": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**SMALL, num_hidden_layers=2, rotary_pct=0.25, rotary_emb_base=10000, hidden_act="gelu_fast")),
    "stablelmnorms": lambda: hf.StableLmForCausalLM(
        hf.StableLmConfig(**DECODER, use_qkv_bias=False, use_parallel_residual=True, qk_layernorm=True,
                          partial_rotary_factor=0.25)),
    "mistral3": lambda: hf.Ministral3ForCausalLM(
        hf.Ministral3Config(**dict(DECODER, max_position_embeddings=64), head_dim=32, tie_word_embeddings=False,
                            rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                                 original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0,
                                                 llama_4_scaling_beta=0.1))),
}

EXPERTS = dict(DECODER, intermediate_size=32, tie_word_embeddings=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
ROUTED = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_group=2, topk_group=1, first_k_dense_replace=1,
              routed_scaling_factor=1.7, norm_topk_prob=True)
GPT_OSS = dict(EXPERTS, head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
               max_position_embeddings=128, rope_parameters=dict(YARN, rope_theta=150000.0, beta_fast=32.0, beta_slow=1.0, truncate=False))
# Model types with experts, whose folders transformers writes as their checkpoints are. gpt_oss_mxfp4: see with_mxfp4.
MODELS |= {
    "gpt_oss_folder": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**GPT_OSS)),
    "gpt_oss_mxfp4": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**GPT_OSS)),
    "qwen2moe_folder": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**EXPERTS, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)),
    "granitemoe_folder": lambda: hf.GraniteMoeForCausalLM(
        hf.GraniteMoeConfig(**EXPERTS, num_local_experts=6, num_experts_per_tok=2, embedding_multiplier=3.0, residual_multiplier=0.4,
                            attention_multiplier=0.15, logits_scaling=5.0)),
    "qwen3_moe_mixed": lambda: hf.Qwen3MoeForCausalLM(  # experts in layers 1 and 5 of 6
        hf.Qwen3MoeConfig(**dict(EXPERTS, intermediate_size=48, num_hidden_layers=6), head_dim=32, num_experts=6, num_experts_per_tok=2,
                          moe_intermediate_size=32, norm_topk_prob=True, decoder_sparse_step=2, mlp_only_layers=[3])),
    "qwen2_moe_mixed": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**dict(EXPERTS, intermediate_size=56, num_hidden_layers=3), num_experts=6, num_experts_per_tok=2,
                          moe_intermediate_size=32, shared_expert_intermediate_size=48, mlp_only_layers=[0, 2])),
    "granitemoeshared": lambda: hf.GraniteMoeSharedForCausalLM(
        hf.GraniteMoeSharedConfig(**EXPERTS, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=40, embedding_multiplier=3.0,
                                  residual_multiplier=0.4, attention_multiplier=0.15, logits_scaling=5.0)),
    "glm4_moe_folder": lambda: hf.Glm4MoeForCausalLM(
        hf.Glm4MoeConfig(**EXPERTS, **ROUTED, head_dim=32, attention_bias=True, use_qk_norm=True, num_mtp_layers=0)),
    "dots1_folder": lambda: hf.Dots1ForCausalLM(hf.Dots1Config(**EXPERTS, **ROUTED, n_shared_experts=2, head_dim=32, sliding_window=None)),
    "ernie4_5_moe_folder": lambda: hf.Ernie4_5_MoeForCausalLM(
        hf.Ernie4_5_MoeConfig(**dict(EXPERTS, num_hidden_layers=4, intermediate_size=128), moe_num_experts=6, moe_k=2, moe_intermediate_size=32,
                              moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_interval=2)),
    "hunyuan_moe_folder": lambda: hf.HunYuanMoEV1ForCausalLM(
        hf.HunYuanMoEV1Config(**EXPERTS, num_experts=6, moe_topk=[2, 2], head_dim=32,
                              rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=1.0, alpha=8.0))),
    "llama4_folder": lambda: hf.Llama4ForCausalLM(
        hf.Llama4TextConfig(**dict(EXPERTS, num_hidden_layers=4, max_position_embeddings=256), intermediate_size_mlp=48, head_dim=16, num_local_experts=4,
                            num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layers=[], attention_chunk_size=64, floor_scale=16,
                            rope_parameters=dict(LLAMA3, rope_theta=5e5, low_freq_factor=1.0, high_freq_factor=1.0))),
    "minimax_m2_folder": lambda: hf.MiniMaxM2ForCausalLM(
        hf.MiniMaxM2Config(**EXPERTS, num_local_experts=6, num_experts_per_tok=2, head_dim=32, rotary_dim=16)),
}

GEMMA4 = dict(DECODER, intermediate_size=32, num_hidden_layers=6, head_dim=16, sliding_window=8, final_logit_softcapping=3.0,
              layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)
MODELS |= {
    "gemma4": lambda: hf.Gemma4ForCausalLM(  # as E2B: embeddings of layers, shared keys, wider feed-forwards with them
        hf.Gemma4TextConfig(**GEMMA4, global_head_dim=32, vocab_size_per_layer_input=96, hidden_size_per_layer_input=16,
                            num_kv_shared_layers=3, use_double_wide_mlp=True)),
    "gemma4_moe": lambda: hf.Gemma4ForCausalLM(  # as 26B-A4B: values that are keys, fewer and longer global heads, experts
        hf.Gemma4TextConfig(**GEMMA4, global_head_dim=32, hidden_size_per_layer_input=0, attention_k_eq_v=True,
                            num_global_key_value_heads=1, enable_moe_block=True, num_experts=6, top_k_experts=2,
                            moe_intermediate_size=32)),
}

LATENT = dict(EXPERTS, intermediate_size=48, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
              v_head_dim=12, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32)
MODELS |= {
    "mistral4": lambda: hf.Mistral4ForCausalLM(
        hf.Mistral4Config(**dict(LATENT, max_position_embeddings=64), n_group=2, topk_group=1, routed_scaling_factor=1.7,
                          rope_parameters=dict(YARN, rope_theta=1e4, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                               mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    "mistral3_of_mistral4": lambda: hf.Mistral3ForConditionalGeneration(hf.Mistral3Config(
        text_config=hf.Mistral4Config(**dict(LATENT, max_position_embeddings=64), n_group=1, topk_group=1, routed_scaling_factor=1.0,
                                      rope_parameters=dict(YARN, rope_theta=1e4, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
                                                           mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, head_dim=8,
                           image_size=32, patch_size=16), image_token_index=0, spatial_merge_size=2)),
    "glm4_moe_lite": lambda: hf.Glm4MoeLiteForCausalLM(
        hf.Glm4MoeLiteConfig(**dict(LATENT, num_hidden_layers=3), rms_norm_eps=1e-3, mlp_layer_types=["dense", "dense", "sparse"])),
}
# Models of which what transformers computes in f32 costs more than the tests allow.
ALL_IN_F64 = {"gemma4", "gemma4_moe"}

NUMPY = dict(DECODER, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)
CONFIGS = {
    "olmo2": dict(NUMPY, model_type="olmo2", attention_bias=False, rope_theta=500000.0),
    "olmo3": dict(NUMPY, model_type="olmo3", num_hidden_layers=4, attention_bias=False, sliding_window=8,
                  layer_types=["sliding_attention"] * 3 + ["full_attention"],
                  rope_scaling=dict(YARN, attention_factor=1.2, beta_fast=32.0, beta_slow=1.0)),
    "qwen3_moe": dict(NUMPY, model_type="qwen3_moe", head_dim=32, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                      norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], rope_theta=1e6),
    "mixtral_folder": dict(NUMPY, model_type="mixtral", intermediate_size=48, num_local_experts=4, num_experts_per_tok=2, rope_theta=1e6,
                           sliding_window=None),
    "olmoe_folder": dict(NUMPY, model_type="olmoe", intermediate_size=32, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, rope_theta=1e4,
                         clip_qkv=None),
    "starcoder2": dict(DECODER, model_type="starcoder2", hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, rope_theta=1e5,
                       tie_word_embeddings=True, use_bias=True, sliding_window=16),
    "jina_bert_v2": dict(SMALL, model_type="bert", num_hidden_layers=2, hidden_act="gelu", feed_forward_type="geglu",
                      position_embedding_type="alibi", layer_norm_eps=1e-12, type_vocab_size=2),
}


def shake(model):
    """Random values everywhere, norms and biases too: a weight that is 1 or 0 hides a mistake."""
    generator = torch.Generator().manual_seed(7)
    kind = type(model).__name__
    is_plain = "Gemma" not in kind or kind.startswith("Gemma4")  # the other Gemmas multiply by 1 + w
    for name, p in sorted(model.named_parameters()):
        scale = 0.3 if p.dim() == 1 else 0.6 / p.shape[-1] ** 0.5 * 2
        base = 1.0 if p.dim() == 1 and "norm" in name.lower() and name.endswith("weight") and is_plain else 0.0
        p.data = base + scale * torch.randn(p.shape, generator=generator)
        if kind.startswith("Gemma4") and name.endswith("q_norm.weight"):
            p.data *= 0.25  # the factor of attention's logits, which other models have apart
    for name, p in sorted(model.named_buffers()):  # of the choice of experts alone
        if name.endswith("e_score_correction_bias"):
            p.copy_(0.2 * torch.randn(p.shape, generator=generator))
        if name.endswith("layer_scalar"):
            p.copy_(1 + 0.2 * torch.randn(p.shape, generator=generator))


def with_mxfp4(model, folder):
    """Experts' matrices become random ones of MXFP4, in the file as published checkpoints have them: codes of two values in a byte, and a scale
    for each 32 columns."""
    from safetensors.torch import load_file, save_file
    generator = torch.Generator().manual_seed(3)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    for name, p in list(model.named_parameters()):
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        experts, cols, rows = p.shape  # [experts, in, out]
        blocks = torch.randint(0, 256, (experts, rows, cols // 32, 16), generator=generator, dtype=torch.uint8)
        scales = torch.randint(122, 127, (experts, rows, cols // 32), generator=generator, dtype=torch.uint8)
        pairs = torch.stack([values[(blocks & 15).long()], values[(blocks >> 4).long()]], -1)  # [.., 16, 2]
        matrix = pairs.reshape(experts, rows, cols // 32, 32) * torch.exp2(scales.float() - 127)[..., None]
        p.data = matrix.reshape(experts, rows, cols).transpose(1, 2).contiguous()
        del tensors[name]
        tensors |= {name + "_blocks": blocks, name + "_scales": scales}
    save_file(tensors, path, {"format": "pt"})
    config = os.path.join(folder, "config.json")
    with open(config) as f:
        fields = json.load(f)
    fields["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"]}
    with open(config, "w") as f:
        json.dump(fields, f, indent=2, sort_keys=True)
        f.write("\n")


def line(word, values):
    return word + "".join(f" {v:.9g}" for v in values) + "\n"


def write_expected(folder, by, word, rows, file="expected.txt", ids=IDS):
    with open(os.path.join(folder, file), "w") as f:
        f.write(f"# {by}, f64\n")
        f.write(f"ids {len(ids)} {' '.join(map(str, ids))}\n")
        for row in rows:
            f.write(line(word, row))


@contextlib.contextmanager
def all_in_f64():
    """Computes in f64 even what transformers computes in f32 for a model of f64: norms, routers, angles."""
    kept = torch.Tensor.float, torch.float32, torch.float
    torch.Tensor.float = lambda x, *args, **kwargs: x.double()
    torch.float32 = torch.float = torch.float64
    try:
        yield
    finally:
        torch.Tensor.float, torch.float32, torch.float = kept


def by_transformers(name, folder):
    torch.manual_seed(1)
    model = MODELS[name]().eval()
    shake(model)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        path = os.path.join(folder, extra)
        if os.path.exists(path):
            os.remove(path)
    if name == "gpt_oss_mxfp4":
        with_mxfp4(model, folder)
    model = model.double()
    model.config._experts_implementation = "eager"  # the other ways have no f64
    with torch.no_grad(), all_in_f64() if name in ALL_IN_F64 else contextlib.nullcontext():
        out = model(torch.tensor([IDS]))
    by = f"transformers {hf.__version__}, torch {torch.__version__}"
    if not hasattr(out, "logits"):  # encoders
        v = out.last_hidden_state[0].mean(0)
        write_expected(folder, by, "vec", [(v / v.norm()).tolist()])
    else:
        write_expected(folder, by, "row", out.logits[0].tolist())
    if name == "llama4_folder":
        write_long(folder, by, model)
    if name == "phi3":  # as many tokens as longrope's short factors are for
        ids = IDS[:model.config.original_max_position_embeddings]
        with torch.no_grad():
            rows = model(torch.tensor([ids])).logits[0].tolist()
        write_expected(folder, by, "row", rows, "short.txt", ids)


def write_long(folder, by, model):
    """Logits of every seventh token of a text that is longer than two chunks of attention."""
    ids = [(i * 37 + 11) % 96 for i in range(150)]
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0, ::7].tolist()
    write_expected(folder, by + ", every seventh row", "row", rows, "long.txt", ids)


def write_folder(folder, config, weights):
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
        f.write("\n")
    arch_numpy.write_safetensors(os.path.join(folder, "model.safetensors"), weights)


def by_numpy(name, folder):
    config = CONFIGS[name]
    weights = arch_numpy.random_weights(config)
    os.makedirs(folder, exist_ok=True)
    write_folder(folder, config, weights)
    by = f"arch_numpy.py, numpy {np.__version__}"
    if config["model_type"] == "bert":
        write_expected(folder, by, "vec", [arch_numpy.jina_embedding(config, weights, IDS)])
    else:
        write_expected(folder, by, "row", arch_numpy.logits(config, weights, IDS))


def by_module(name, folder):
    module = importlib.import_module(f"arch.{name}")
    weights = arch_numpy.random_of(module.shapes())
    if hasattr(module, "changed"):
        weights = module.changed(weights)
    os.makedirs(folder, exist_ok=True)
    if hasattr(module, "config"):
        write_folder(folder, module.config(), module.stored(weights) if hasattr(module, "stored") else weights)
    else:
        tensors = {tensor: (w.shape, 0, w.astype("<f4").tobytes()) for tensor, w in weights.items()}
        with open(os.path.join(folder, "model.gguf"), "wb") as f:
            f.write(tiny_gguf.build(module.keys(), tensors))
    rows = module.logits({tensor: w.astype(np.float64) for tensor, w in weights.items()}, IDS)
    write_expected(folder, f"arch/{name}.py, numpy {np.__version__}", "row", rows)


def compare(root):
    """Largest difference of arch_numpy.py from what transformers made, relative to the spread."""
    for name in ("llama", "llama3", "qwen2", "qwen2yarn", "qwen3"):
        folder = os.path.join(root, name)
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        with open(os.path.join(folder, "expected.txt")) as f:
            want = np.array([[float(v) for v in text.split()[1:]] for text in f if text.startswith("row ")])
        got = arch_numpy.logits(config, arch_numpy.read_safetensors(os.path.join(folder, "model.safetensors")), IDS)
        print(name, f"{np.abs(got - want).max() / np.sqrt((want ** 2).mean()):.2g}")


def main():
    if sys.argv[1] == "--compare":
        return compare(sys.argv[2])
    modules = [path.stem for path in sorted((Path(__file__).parent / "arch").glob("*.py"))]
    for name in sys.argv[2:] or [*MODELS, *CONFIGS, *modules]:
        by = by_numpy if name in CONFIGS else by_module if name in modules else by_transformers
        by(name, os.path.join(sys.argv[1], name))
        print(name)


if __name__ == "__main__":
    main()
