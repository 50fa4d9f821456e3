"""Qwen3 with experts, its folder in FP8. Experts are wider than a block of scales."""
import arch_fp8
import arch_numpy

changed, stored = arch_fp8.changed, arch_fp8.stored


def config():
    return dict(model_type="qwen3_moe", vocab_size=96, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
                max_position_embeddings=128, num_hidden_layers=2, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=1e6, tie_word_embeddings=False,
                head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=144, norm_topk_prob=True, decoder_sparse_step=1,
                mlp_only_layers=[], quantization_config=arch_fp8.CONFIG)


def shapes():
    return arch_numpy.shapes(config())


def logits(w, ids):
    return arch_numpy.logits(config(), w, ids)
