"""GA as an attention implementation of Hugging Face's transformers.

    import gpu_accel.transformers
    gpu_accel.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="gpu_accel")

Causal and full masks, windows, soft-cap, sinks, padding, and position ids that start again: those are borders of documents,
with a cache or without. Other masks, dropout and attention weights raise UnsupportedError.

    gpu_accel.transformers.batch(model)  # model.generate_batch(): continuous batching over a cache of pages
"""
import inspect
import threading
import weakref

import torch

from . import _core
from .torch import attention

# What a mask of transformers may be made of; causality and windows are then those of the layer.
_KNOWN = ("causal_mask_function", "bidirectional_mask_function", "and_masks", "sliding_window_overlay", "packed_sequence_mask_function",
          "remap_positions_for_packed_sequence", "padding_mask_function")


def register(name="gpu_accel"):
    """Makes attn_implementation=name known."""
    from transformers import AttentionInterface, AttentionMaskInterface
    for known in (name, f"{name}_flash", f"paged|{name}"):  # the latter two are for continuous batching
        AttentionInterface.register(known, attention_forward)
        AttentionMaskInterface.register(known, attention_mask)


def batch(model, name="gpu_accel"):
    """model.generate_batch() computes attention by GA from now on; returns the model. register() comes first.

    transformers knows by the word "flash" which implementations need no mask there. Its own way to choose one would look for
    that name among published kernels, so the name is set here."""
    model.config._attn_implementation = f"{name}_flash"
    return model


def _refuse(what, allowed):
    raise _core.UnsupportedError(f"gpu_accel attention: {what}; allowed is {allowed}")


def _parts(function):
    """Names of the functions that a mask function is made of."""
    yield function.__qualname__.partition(".")[0]
    for cell in function.__closure__ or ():
        for inner in cell.cell_contents if isinstance(cell.cell_contents, tuple) else (cell.cell_contents,):
            if callable(inner) and hasattr(inner, "__qualname__"):
                yield from _parts(inner)


def attention_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None, **kwargs):
    """For AttentionMaskInterface: which keys are no padding [batch, kv], bool; None when all are."""
    for part in _parts(mask_function) if mask_function is not None else ():
        if part not in _KNOWN:
            _refuse(f"a mask of {part}", "causal or full, with windows, padding and packed documents")
    if kv_offset + kv_length != q_offset + q_length:
        _refuse(f"a static cache: {kv_length} keys from {kv_offset} on for queries {q_offset} to {q_offset + q_length - 1}",
                "a cache that ends with the last query")
    if attention_mask is None:
        return None
    mask = attention_mask[:, -kv_length:].bool()
    return None if mask.all() else mask


class _Borders(threading.local):
    """Borders of what sees itself alone: stretches of padding and documents, as q_start, kv_start, max_q, max_kv; None: each
    sequence is one. All layers of a step ask for the same ones. A layer that asks again has come to another step, where the same
    memory may hold other numbers: NumPy and .data change it without a trace."""

    def __init__(self):
        self.kept = []  # (state, weak references, borders, layers that have asked)

    def of(self, mask, positions, batch, n_q, n_kv, layer):
        if layer is None:
            return _find_borders(mask, positions, batch, n_q, n_kv)
        state = tuple(None if x is None else (x.data_ptr(), x.shape, x.stride(), x.dtype) for x in (mask, positions))
        state += batch, n_q, n_kv
        alive = lambda refs: all(ref is None or ref() is not None for ref in refs)
        self.kept = [entry for entry in self.kept if alive(entry[1]) and not (entry[0] == state and layer in entry[3])][-3:]
        for known, _, borders, layers in self.kept:
            if known == state:
                layers.add(layer)
                return borders
        borders = _find_borders(mask, positions, batch, n_q, n_kv)
        self.kept.append((state, [None if x is None else weakref.ref(x) for x in (mask, positions)], borders, {layer}))
        return borders


_borders = _Borders()


def _steps(positions, batch, n):
    """Where positions start again: a token's is not behind that of the one before. [batch, n - 1]. Gaps are no borders:
    tokens that were left out of a document do not end it."""
    positions = positions.expand(batch, n)
    return positions[:, 1:] <= positions[:, :-1]


def _find_borders(mask, positions, batch, n_q, n_kv):
    if mask is None and (positions is None or n_q == 1 or not _steps(positions, batch, n_q).any()):
        return None
    device = (mask if mask is not None else positions).device
    real = mask if mask is not None else torch.ones(batch, n_kv, dtype=torch.bool, device=device)
    change = torch.ones(batch, n_kv, dtype=torch.bool, device=device)
    change[:, 1:] = real[:, 1:] != real[:, :-1]
    if int((change & real).sum(1).max()) > 1:
        _refuse("attention_mask has holes", "padding before or behind a sequence")
    if positions is not None and n_q > 1:
        new = _steps(positions, batch, n_q) & real[:, n_kv - n_q + 1:] & real[:, n_kv - n_q:-1]
        if n_q < n_kv and new.any():
            _refuse("position ids that start again behind a cache", "documents in one call")
        change[:, n_kv - n_q + 1:] |= new
    at = change.flatten().nonzero().flatten()
    row, column = at // n_kv, at % n_kv
    start = lambda first, total: torch.cat([first, first.new_tensor([total])]).int()
    kv_start = start(at, batch * n_kv)
    q_start = start(row * n_q + (column - (n_kv - n_q)).clamp(min=0), batch * n_q)
    return q_start, kv_start, int(q_start.diff().max()), int(kv_start.diff().max())


def _check(query, attention_mask, dropout, kwargs):
    if dropout:
        _refuse(f"dropout is {dropout}", "0")
    if attention_mask is not None and attention_mask.dim() != 2:
        _refuse(f"attention_mask has {attention_mask.dim()} dimensions", "2: [batch, keys]")
    if kwargs.get("output_attentions"):
        _refuse("output_attentions=True", "False")
    for name in ("position_bias", "head_mask"):
        if kwargs.get(name) is not None:
            _refuse(f"{name} is given", "None")


def _of_layer(value, module, cache):
    """Continuous batching has lengths for each kind of layer: 'full_attention', 'sliding_attention'."""
    if not isinstance(value, dict):
        return value
    allocator = getattr(cache, "layer_to_allocator", None)
    kind = allocator[module.layer_idx].layer_type if allocator is not None else "sliding_attention" if module.sliding_window else "full_attention"
    return value[kind]


def _paged(module, query, key, value, cache, options, kwargs):
    """Packed sequences with their borders: a step of continuous batching, query [1, heads, tokens, dim] of all sequences. The cache
    stores the new keys and hands out those of all sequences, packed too; since transformers 5.24 the model has it do so before."""
    if kwargs.get("block_table") is not None:
        _refuse("block_table is given", "None, which transformers gives but to flash_attention_2 and _3")
    q_start, kv_start = kwargs["cu_seq_lens_q"], _of_layer(kwargs["cu_seq_lens_k"], module, cache)
    max_q, max_kv = int(kwargs["max_length_q"]), int(_of_layer(kwargs["max_length_k"], module, cache))
    if cache is not None:
        key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, **_update_arguments(cache, kwargs))
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    o = attention(q, k, v, **options, q_start=q_start.int(), kv_start=kv_start.int(), max_q=max_q, max_kv=max_kv)
    return o[None]


def _update_arguments(cache, kwargs):
    """What the cache's update takes besides states and layer: its keywords as a dict, or by name in older versions."""
    if "kwargs" in inspect.signature(cache.update).parameters:
        return {"kwargs": kwargs}
    return {"read_index": kwargs["read_index"], "write_index": kwargs["write_index"]}


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, softcap=None,
                      is_causal=None, s_aux=None, **kwargs):
    """For AttentionInterface: query [batch, heads, q, dim], key, value [batch, kv_heads, kv, dim]; gives [batch, q, heads, dim]."""
    _check(query, attention_mask, dropout, kwargs)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and bool(getattr(getattr(module, "config", None), "is_causal", True))
    if sliding_window and not causal:
        _refuse(f"sliding_window is {sliding_window} without a causal mask", "None")
    options = {"causal": causal, "window": int(sliding_window or 0), "scale": scaling, "softcap": float(softcap or 0),
               "sinks": None if s_aux is None else s_aux.float()}
    cache = kwargs.pop("cache", None)
    if cache is not None or kwargs.get("cu_seq_lens_q") is not None:
        return _paged(module, query, key, value, cache, options, kwargs), None
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    (batch, n_q), n_kv = q.shape[:2], k.shape[1]
    positions = kwargs.get("position_ids")
    positions = positions if positions is not None and positions.dim() == 2 and positions.shape[1] == n_q else None
    borders = _borders.of(attention_mask, positions, batch, n_q, n_kv, getattr(module, "layer_idx", None))
    if borders is None:
        return attention(q, k, v, **options), None
    q_start, kv_start, max_q, max_kv = borders
    packed = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
    o = attention(*packed, **options, q_start=q_start, kv_start=kv_start, max_q=max_q, max_kv=max_kv)
    return o.reshape(batch, n_q, *o.shape[1:]), None
