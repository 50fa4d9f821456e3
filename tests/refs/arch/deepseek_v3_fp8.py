"""DeepSeek V3's folder in FP8."""
import arch_fp8
import arch_latent as base

changed, stored = arch_fp8.changed, arch_fp8.stored


def config():
    return base.folder_config(base.V3, "deepseek_v3") | {"quantization_config": arch_fp8.CONFIG}


def shapes():
    return base.folder_shapes(base.V3)


def logits(w, ids):
    return base.folder_logits(w, ids, base.V3)
