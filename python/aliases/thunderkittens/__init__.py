"""gemm() of ThunderKittens' quick start, over gpu_accel."""
import gpu_accel
from gpu_accel._flash_attention3 import like
from gpu_accel._streams import torch_stream


def gemm(A, B, tile_size=16):
    """A [m, k] times B [k, n], in the type of A, as an array of A's framework.

    tile_size: a multiple of 16, which is checked; which tiles a kernel has is the planner's choice. Raises ShapeError,
    DtypeError, ArgumentError."""
    if tile_size <= 0 or tile_size % 16:
        raise gpu_accel.ArgumentError(f"gemm: tile_size is {tile_size}; allowed are multiples of 16")
    return like(gpu_accel.gemm(A, B.T, **torch_stream(A)), A)
