"""The functions of the package flash-attn under their names, with their arguments and layouts.

What GA does not do is refused by name, never done in another way. Arrays may be NumPy's, DLPack's or CUDA's; results are
gpu_accel.Array."""
from array import array

from . import _core


def _refuse(function, **asked):
    for name, (value, allowed) in asked.items():
        if value != allowed:
            raise _core.UnsupportedError(f"{function}: {name} = {value!r}; allowed is {allowed!r}")


def _mask(function, causal, window_size):
    """causal and window of gpu_accel.attention. flash-attn counts keys beside the query's own, to either side."""
    left, right = (int(n) for n in window_size)
    if causal:
        right = 0
    if right > 0 or (right < 0 and left >= 0):
        raise _core.UnsupportedError(f"{function}: window_size = {(left, right)!r}; allowed are (-1, -1), or (left, 0)")
    return {"causal": right == 0, "window": left + 1 if left >= 0 else 0}


def _options(function, causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p=0.0):
    _refuse(function, dropout_p=(dropout_p, 0.0))
    mask = _mask(function, causal, window_size)
    if alibi_slopes is not None and not mask["causal"]:
        raise _core.UnsupportedError(f"{function}: alibi_slopes without causal; allowed is causal=True")
    return mask | {"scale": softmax_scale, "softcap": softcap, "alibi": alibi_slopes}


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    """q [batch, q, heads, dim], k, v [batch, kv, kv_heads, dim]. causal: the last query sees the last key.
    return_attn_probs: (o, lse [batch, heads, q], None), as flash-attn gives without dropout. The forward pass always adds
    in the same order. Raises what gpu_accel.attention does, and UnsupportedError by the argument's name."""
    options = _options("flash_attn_func", causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p)
    result = _core.attention(q, k, v, lse=bool(return_attn_probs), **options)
    return (*result, None) if return_attn_probs else result


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                           causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                           return_attn_probs=False, block_table=None):
    """Packed sequences: q [tokens, heads, dim], k, v [kv tokens, kv_heads, dim], cu_seqlens [batch + 1] i32."""
    name = "flash_attn_varlen_func"
    _refuse(name, return_attn_probs=(bool(return_attn_probs), False))
    if block_table is not None:
        raise _core.UnsupportedError(f"{name}: block_table; allowed is None: flash_attn_with_kvcache takes pages")
    options = _options(name, causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p)
    return _core.attention(q, k, v, q_start=cu_seqlens_q, kv_start=cu_seqlens_k, max_q=int(max_seqlen_q), max_kv=int(max_seqlen_k),
                           **options)


def _ints(values):
    """An i32 array, for which nobody needs NumPy."""
    return array("i", values)


def _rows(values, width):
    return memoryview(_ints(values)).cast("B").cast("i", (len(values) // width, width))


def _beside(x, values):
    """An array of the host where x lies."""
    device, index = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
    return _core.default_context(f"cuda:{index}").to_device(values) if device == 2 else values


def _lengths(name, cache_seqlens, batch, most):
    if cache_seqlens is None:
        return [most] * batch
    lengths = [int(cache_seqlens)] * batch if isinstance(cache_seqlens, int) else [int(n) for n in cache_seqlens]
    if len(lengths) != batch:
        raise _core.ShapeError(f"{name}: cache_seqlens has {len(lengths)} lengths; allowed is one a sequence, {batch}")
    return lengths


def _store_new(name, k, v, k_cache, v_cache, table, lengths):
    """k, v [batch, n, kv_heads, dim] go behind the cache's tokens. Returns n."""
    (batch, n), size = k.shape[:2], k_cache.shape[1]
    slots = []
    for sequence, length in zip(table, lengths):
        if length + n > len(sequence) * size:
            raise _core.ShapeError(f"{name}: {length} + {n} tokens; a sequence of the cache has room for {len(sequence) * size}")
        slots += [sequence[at // size] * size + at % size for at in range(length, length + n)]
    _core.kv_store(k.reshape(batch * n, *k.shape[2:]), v.reshape(batch * n, *v.shape[2:]), _beside(k_cache, _ints(slots)), k_cache, v_cache)
    return n


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False):
    """q [batch, q, heads, dim] attends to a cache: [batch, kv, kv_heads, dim] each, or with block_table [batch, n] i32 pages
    [pages, page_size, kv_heads, dim]. cache_seqlens: a length, or one a sequence; None: all of the cache. k, v [batch, n,
    kv_heads, dim] are written behind those tokens first, in place. num_splits is GA's choice.
    Lengths and tables are read on the host, so that arrays of a GPU make the call wait."""
    name = "flash_attn_with_kvcache"
    _refuse(name, rotary_cos=(rotary_cos, None), rotary_sin=(rotary_sin, None), cache_batch_idx=(cache_batch_idx, None),
            cache_leftpad=(cache_leftpad, None))
    if (k is None) != (v is None):
        raise _core.ArgumentError(f"{name}: {'k' if k is None else 'v'} is None; allowed are both or neither")
    options = _options(name, causal, window_size, softmax_scale, softcap, alibi_slopes)
    batch = q.shape[0]
    if block_table is None:
        table = [[i] for i in range(batch)]  # a sequence's row is one page
    else:
        table = [[int(page) for page in row] for row in block_table]
    if len(table) != batch:
        raise _core.ShapeError(f"{name}: block_table has {len(table)} rows; allowed is one a sequence, {batch}")
    lengths = _lengths(name, cache_seqlens, batch, len(table[0]) * k_cache.shape[1])
    if k is not None:
        n = _store_new(name, k, v, k_cache, v_cache, table, lengths)
        lengths = [length + n for length in lengths]
    flat = [page for row in table for page in row]
    return _core.attention(q, k_cache, v_cache, page_table=_beside(q, _rows(flat, len(table[0]))),
                           kv_len=_beside(q, _ints(lengths)), lse=bool(return_softmax_lse), **options)
