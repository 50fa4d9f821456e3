"""attention() of flashcore's quick start, over gpu_accel."""
import gpu_accel
from gpu_accel import FlashAttention3
from gpu_accel._flash_attention3 import like
from gpu_accel._streams import torch_stream


def attention(q, k, v, block_m=64, block_n=128, causal=False):
    """q, k, v [batch, heads, tokens, dim], in the type of q, as an array of q's framework.

    block_m, block_n: multiples of 16, which are checked; which tiles a kernel has is the planner's choice."""
    for name, value in (("block_m", block_m), ("block_n", block_n)):
        if value <= 0 or value % 16:
            raise gpu_accel.ArgumentError(f"attention: {name} is {value}; allowed are multiples of 16")
    dtype = gpu_accel.asarray(q).dtype
    if dtype == "f32":
        return like(gpu_accel.attention(q, k, v, causal=causal, layout="bhsd", **torch_stream(q)), q)
    return FlashAttention3({"f16": "fp16"}.get(dtype, dtype), layout="bhsd").forward(q, k, v, causal=causal)
