"""PyTorch's side of a call: order on a GPU, memory for results, and what autograd would lose."""
import sys

from . import _core


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


def refuse_tangents(name, *arrays):
    """Raises UnsupportedError where one of PyTorch's tensors has a tangent of forward-mode differentiation, which GA would lose."""
    forward = sys.modules.get("torch.autograd.forward_ad")
    if forward is None or getattr(forward, "_current_level", 0) < 0:  # no dual_level() is open
        return
    Tensor = sys.modules["torch"].Tensor
    if any(isinstance(x, Tensor) and forward.unpack_dual(x).tangent is not None for x in arrays):
        raise _core.UnsupportedError(f"{name}: forward-mode differentiation; allowed is reverse mode, such as backward() and torch.func.vjp")
