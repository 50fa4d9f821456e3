"""A module `flash_attn` (FlashAttention-2's interface) over another attention, for packages that import it and have no
FlashAttention-3 of their own. yunchang 0.6.4 has one, but asks it for no mask in every call. Forward alone."""
import importlib.machinery
import sys
import types


def install(attention):
    """attention(q, k, v, causal) -> O, LSE [batch, heads, tokens] by exp. The scale is 1 / sqrt(head dim)."""

    def forward(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size_left=-1, window_size_right=-1, softcap=0.0,
                alibi_slopes=None, return_softmax=False):
        others = {"dropout_p": dropout_p, "softcap": softcap, "alibi_slopes": alibi_slopes, "return_softmax": return_softmax}
        asked = {name: value for name, value in others.items() if value}
        if asked or (window_size_left, window_size_right) != (-1, -1):
            raise NotImplementedError(f"{asked}, window {window_size_left}, {window_size_right}")
        if softmax_scale is not None and abs(softmax_scale * q.shape[-1] ** 0.5 - 1) > 1e-6:
            raise NotImplementedError(f"softmax_scale {softmax_scale}")
        out, lse = attention(q, k, v, causal)
        return out, lse, None, None

    def func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, **_):
        return forward(q, k, v, dropout_p, softmax_scale, causal)[0]

    def backward(*_, **__):
        raise NotImplementedError("the stand-in has no gradients")

    interface = types.ModuleType("flash_attn.flash_attn_interface")
    interface._flash_attn_forward, interface._flash_attn_backward, interface.flash_attn_func = forward, backward, func
    interface._flash_attn_varlen_forward = interface._flash_attn_varlen_backward = backward
    package = types.ModuleType("flash_attn")
    package.__version__, package.__path__ = "2.8.3", []
    package.flash_attn_func, package.flash_attn_interface = func, interface
    for module in (package, interface):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module
