"""The functions of the package flash-attn under their names, with their arguments and layouts.

What GA does not do is refused by name, never done in another way. Tensors of PyTorch go through gpu_accel.torch: results are
tensors, work goes to torch's current stream, nothing waits, and flash_attn_func and flash_attn_varlen_func have gradients.
Of other arrays (NumPy's, DLPack's, CUDA's) results are gpu_accel.Array."""
import operator
import sys
from array import array

from . import _core
from ._options import refuse_other, whole_numbers
from ._streams import refuse_tangents, torch_stream


def _mask(function, causal, window_size):
    """causal and window of gpu_accel.attention. flash-attn counts keys beside the query's own, to either side."""
    left, right = (int(n) for n in window_size)
    if causal:
        right = 0
    if right > 0 or (right < 0 and left >= 0):
        raise _core.UnsupportedError(f"{function}: window_size = {(left, right)!r}; allowed are (-1, -1), or (left, 0)")
    return {"causal": right == 0, "window": left + 1 if left >= 0 else 0}


def _options(function, causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p=0.0):
    refuse_other(function, dropout_p=(dropout_p, (0.0,)))
    mask = _mask(function, causal, window_size)
    if alibi_slopes is not None and not mask["causal"]:
        raise _core.UnsupportedError(f"{function}: alibi_slopes without causal; allowed is causal=True")
    return mask | {"scale": softmax_scale, "softcap": softcap, "alibi": alibi_slopes}


def _torch_of(x):
    """The module torch when x is one of its tensors, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def _on_torch(torch, function, q, k, v, lse, deterministic, options):
    """By gpu_accel.torch, whose operators lack ALiBi: that is the module's own op, without gradients."""
    if options["alibi"] is None:
        from . import torch as ga_torch
        return ga_torch.attention(q, k, v, deterministic=deterministic, return_lse=lse, **{n: x for n, x in options.items() if n != "alibi"})
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise _core.UnsupportedError(f"{function}: alibi_slopes with gradients; allowed are tensors that want none")
    return _run(torch, q, k, v, lse, options)


def _run(torch, q, k, v, lse, options):
    """The module's op on torch's current stream. torch hands out the results' memory, for GA's own allocations wait."""
    refuse_tangents("attention", q, k, v, options["alibi"])
    q_start = options.get("q_start")
    batch, most = (q.shape[0], q.shape[1]) if q_start is None else (q_start.shape[0] - 1, options["max_q"])
    out = torch.empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=q.device)
    out_lse = torch.empty((batch, q.shape[-2], most), dtype=torch.float32, device=q.device) if lse else None
    return _core.attention(q, k, v, out=out, out_lse=out_lse, **options, **torch_stream(q))


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False):
    """q [batch, q, heads, dim], k, v [batch, kv, kv_heads, dim]. causal: the last query sees the last key.
    return_attn_probs: (o, lse [batch, heads, q], None), as flash-attn gives without dropout. The forward pass always adds
    in the same order; deterministic: gradients do too. Raises what gpu_accel.attention does, and UnsupportedError by the argument's name."""
    options = _options("flash_attn_func", causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p)
    if torch := _torch_of(q):
        result = _on_torch(torch, "flash_attn_func", q, k, v, bool(return_attn_probs), bool(deterministic), options)
    else:
        result = _core.attention(q, k, v, lse=bool(return_attn_probs), **options)
    return (*result, None) if return_attn_probs else result


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                           causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                           return_attn_probs=False, block_table=None, seqused_k=None):
    """Packed sequences: q [tokens, heads, dim], k, v [kv tokens, kv_heads, dim], cu_seqlens [batch + 1] i32. seqused_k [batch]
    i32: of its keys a sequence has only the first so many; causal: its last query sees the last of these. Gradients of the
    others are 0. On a GPU nothing looks at the numbers: more than a sequence's keys reads those behind it."""
    name = "flash_attn_varlen_func"
    refuse_other(name, return_attn_probs=(bool(return_attn_probs), (False,)))
    if block_table is not None:
        raise _core.UnsupportedError(f"{name}: block_table; allowed is None: flash_attn_with_kvcache takes pages")
    options = _options(name, causal, window_size, softmax_scale, softcap, alibi_slopes, dropout_p)
    options |= {"q_start": cu_seqlens_q, "kv_start": cu_seqlens_k, "max_q": int(max_seqlen_q), "max_kv": int(max_seqlen_k)}
    if seqused_k is not None:
        options["kv_len"] = seqused_k
    if torch := _torch_of(q):
        return _on_torch(torch, name, q, k, v, False, bool(deterministic), options)
    return _core.attention(q, k, v, **options)


def _parts(name, argument, x, n, dim):
    """The n arrays that lie packed in dimension dim of x."""
    if len(x.shape) != dim + 3 or x.shape[dim] != n:
        wanted = f"{'batch, tokens' if dim == 2 else 'tokens'}, {n}, heads, dim"
        raise _core.ShapeError(f"{name}: {argument} is {list(x.shape)}; allowed is [{wanted}]")
    before = (slice(None),) * dim
    return [x[(*before, i)] for i in range(n)]


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                              deterministic=False, return_attn_probs=False):
    """flash_attn_func with q, k and v in one array, qkv [batch, tokens, 3, heads, dim]."""
    return flash_attn_func(*_parts("flash_attn_qkvpacked_func", "qkv", qkv, 3, 2), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                             deterministic=False, return_attn_probs=False):
    """flash_attn_func with k and v in one array, kv [batch, tokens, 2, kv_heads, dim]."""
    return flash_attn_func(q, *_parts("flash_attn_kvpacked_func", "kv", kv, 2, 2), dropout_p, softmax_scale, causal, window_size, softcap,
                           alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1),
                                     softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False):
    """flash_attn_varlen_func with q, k and v in one array, qkv [tokens, 3, heads, dim]."""
    return flash_attn_varlen_func(*_parts("flash_attn_varlen_qkvpacked_func", "qkv", qkv, 3, 1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen,
                                  dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)


def flash_attn_varlen_kvpacked_func(q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
                                    causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                                    return_attn_probs=False):
    """flash_attn_varlen_func with k and v in one array, kv [tokens, 2, kv_heads, dim]."""
    return flash_attn_varlen_func(q, *_parts("flash_attn_varlen_kvpacked_func", "kv", kv, 2, 1), cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
                                  max_seqlen_k, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)


def _ints(values):
    """An i32 array, for which nobody needs NumPy."""
    return array("i", values)


def _rows(values, width):
    return memoryview(_ints(values)).cast("B").cast("i", (len(values) // width, width))


def _beside(x, values):
    """An array of the host where x lies."""
    device, index = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
    return _core.default_context(f"cuda:{index}").to_device(values) if device == 2 else values


def _one_length(cache_seqlens):
    """The length of all sequences as an int; None: there is one for each."""
    try:
        return operator.index(cache_seqlens)
    except TypeError:
        return None


def _check_lengths(name, lengths, room):
    """0 to as many tokens as a sequence has room for."""
    if bad := [n for n in lengths if not 0 <= n <= room]:
        raise _core.ArgumentError(f"{name}: cache_seqlens has {bad[0]}; allowed are 0 to {room}, the room of a sequence")
    return lengths


def _lengths(name, cache_seqlens, batch, most):
    if cache_seqlens is None:
        return [most] * batch
    one = _one_length(cache_seqlens)
    lengths = whole_numbers(name, "cache_seqlens", cache_seqlens) if one is None else [one] * batch
    if len(lengths) != batch:
        raise _core.ShapeError(f"{name}: cache_seqlens has {len(lengths)} lengths; allowed is one a sequence, {batch}")
    return _check_lengths(name, lengths, most)


def _check_pages(name, rows, pages):
    """Page numbers of a table that lies on the host."""
    if bad := [page for row in rows for page in row if not 0 <= page < pages]:
        raise _core.ArgumentError(f"{name}: block_table has page {bad[0]}; allowed are 0 to {pages - 1}")
    return rows


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


def _table_on_torch(torch, name, batch, device, block_table):
    """[batch, pages] i32 beside q; without one a sequence's row is one page."""
    if block_table is None:
        return torch.arange(batch, dtype=torch.int32, device=device)[:, None]
    table = torch.as_tensor(block_table, dtype=torch.int32, device=device).contiguous()
    if table.dim() != 2 or table.shape[0] != batch:
        raise _core.ShapeError(f"{name}: block_table is {list(table.shape)}; allowed is one row a sequence, {batch}")
    return table


def _lengths_on_torch(torch, name, batch, device, cache_seqlens, most):
    """[batch] i32 beside q. Numbers are looked at where they lie on the host; those of a GPU are put into bounds."""
    one = _one_length(most if cache_seqlens is None else cache_seqlens) if not isinstance(cache_seqlens, torch.Tensor) else None
    if one is not None:
        return torch.full((batch,), *_check_lengths(name, [one], most), dtype=torch.int32, device=device)
    given = torch.as_tensor(cache_seqlens)
    if given.is_floating_point() or given.dtype == torch.bool:
        raise _core.DtypeError(f"{name}: cache_seqlens is {given.dtype}; allowed are whole numbers")
    if given.dim() == 0:
        given = given.expand(batch)
    if given.shape != (batch,):
        raise _core.ShapeError(f"{name}: cache_seqlens has {given.numel()} lengths; allowed is one a sequence, {batch}")
    if given.device.type == "cpu":
        _check_lengths(name, given.tolist(), most)
    return given.to(device=device, dtype=torch.int32).clamp(0, most)


def _kvcache_on_torch(torch, name, q, k_cache, v_cache, k, v, cache_seqlens, block_table, lse, options):
    """Tables and lengths stay on the device, where nothing can look at them without waiting."""
    batch, size = q.shape[0], k_cache.shape[1]
    table = _table_on_torch(torch, name, batch, q.device, block_table)
    if table.device.type == "cpu" and k is not None:
        _check_pages(name, table.tolist(), k_cache.shape[0])
    lengths = _lengths_on_torch(torch, name, batch, q.device, cache_seqlens, table.shape[1] * size)
    if k is not None:
        at, room = lengths[:, None] + torch.arange(k.shape[1], dtype=torch.int32, device=q.device), table.shape[1] * size
        if q.device.type == "cpu" and at.numel() and int(at.max()) >= room:
            raise _core.ShapeError(f"{name}: {int(lengths.max())} + {k.shape[1]} tokens; a sequence of the cache has room for {room}")
        page = table.gather(1, (at // size).long().clamp(max=table.shape[1] - 1))
        slots = torch.where(at < room, page * size + at % size, -1).int().flatten()  # on a GPU: tokens without room are not stored
        _core.kv_store(k.flatten(0, 1), v.flatten(0, 1), slots, k_cache, v_cache, **torch_stream(q))
        lengths = lengths + k.shape[1]
    return _run(torch, q, k_cache, v_cache, lse, options | {"page_table": table, "kv_len": lengths})


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False):
    """q [batch, q, heads, dim] attends to a cache: [batch, kv, kv_heads, dim] each, or with block_table [batch, n] i32 pages
    [pages, page_size, kv_heads, dim]. cache_seqlens: a length, or one a sequence; None: all of the cache. k, v [batch, n,
    kv_heads, dim] are written behind those tokens first, in place. num_splits is GA's choice.
    Tensors of PyTorch: nothing waits, and on a GPU nothing looks at lengths and tables. Those of other arrays are read on the
    host, so that arrays of a GPU make the call wait."""
    name = "flash_attn_with_kvcache"
    refuse_other(name, rotary_cos=(rotary_cos, (None,)), rotary_sin=(rotary_sin, (None,)), cache_batch_idx=(cache_batch_idx, (None,)),
                 cache_leftpad=(cache_leftpad, (None,)))
    if (k is None) != (v is None):
        raise _core.ArgumentError(f"{name}: {'k' if k is None else 'v'} is None; allowed are both or neither")
    options = _options(name, causal, window_size, softmax_scale, softcap, alibi_slopes)
    if torch := _torch_of(q):
        return _kvcache_on_torch(torch, name, q, k_cache, v_cache, k, v, cache_seqlens, block_table, bool(return_softmax_lse), options)
    batch = q.shape[0]
    if block_table is None:
        table = [[i] for i in range(batch)]  # a sequence's row is one page
    else:
        table = [whole_numbers(name, "block_table", row) for row in block_table]
    if len(table) != batch:
        raise _core.ShapeError(f"{name}: block_table has {len(table)} rows; allowed is one a sequence, {batch}")
    lengths = _lengths(name, cache_seqlens, batch, len(table[0]) * k_cache.shape[1])
    if k is not None:
        _check_pages(name, table, k_cache.shape[0])
        n = _store_new(name, k, v, k_cache, v_cache, table, lengths)
        lengths = [length + n for length in lengths]
    flat = [page for row in table for page in row]
    return _core.attention(q, k_cache, v_cache, page_table=_beside(q, _rows(flat, len(table[0]))),
                           kv_len=_beside(q, _ints(lengths)), lse=bool(return_softmax_lse), **options)
