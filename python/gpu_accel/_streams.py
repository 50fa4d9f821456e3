"""Order between GA and PyTorch on a GPU."""
import sys


def torch_stream(x):
    """{'stream': torch's current stream on the GPU where the tensor x lies}; {} for all else. Behind that stream GA
    reads what torch has enqueued before, and torch reads GA's result."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is None or not isinstance(x, torch.Tensor) or not x.is_cuda:
        return {}
    return {"stream": torch.cuda.current_stream(x.device).cuda_stream}


def torch_results(q, v_dim, lse_shape):
    """{'out', 'out_lse'}: memory for attention's results beside the tensor q on a GPU, where GA's own allocations wait; {} for
    all else."""
    if not torch_stream(q):
        return {}
    torch = sys.modules["torch"]
    return {"out": torch.empty((*q.shape[:-1], v_dim), dtype=q.dtype, device=q.device),
            "out_lse": torch.empty(lse_shape, dtype=torch.float32, device=q.device)}
