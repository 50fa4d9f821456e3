"""FlashInfer's names over gpu_accel: attention of one sequence, and of batches over pages with plan() and run().

Arrays are NumPy's, PyTorch's or any that gpu_accel takes; results come as arrays of q's framework. Page tables and lengths
are read on the host when they are planned, and the first run() takes them to q's device. After that no call on PyTorch's
tensors waits. What GA does not do is refused by the argument's name."""
from array import array

from . import _core
from ._flash_attention3 import like
from ._streams import torch_results, torch_stream

_LAYOUTS = ("NHD", "HND")


def _refuse(function, **asked):
    for name, (value, allowed) in asked.items():
        if value not in allowed:
            raise _core.UnsupportedError(f"{function}: {name} is {value!r}; allowed is {', '.join(map(repr, allowed))}")


def _options(function, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode):
    _refuse(function, pos_encoding_mode=(pos_encoding_mode, ("NONE",)))
    if window_left >= 0 and not causal:
        raise _core.UnsupportedError(f"{function}: window_left is {window_left} without causal; allowed is -1")
    return {"causal": causal, "window": window_left + 1 if window_left >= 0 else 0, "scale": sm_scale, "softcap": logits_soft_cap or 0.0}


def _swap(x, a, b):
    if type(x).__module__.startswith("torch"):
        return x.transpose(a, b)
    axes = list(range(len(x.shape)))
    axes[a], axes[b] = axes[b], axes[a]
    return x.transpose(axes)


def single_prefill_with_kv_cache(q, k, v, *, custom_mask=None, causal=False, kv_layout="NHD", pos_encoding_mode="NONE", sm_scale=None,
                                 window_left=-1, logits_soft_cap=None, return_lse=False):
    """q [queries, heads, dim], k, v [keys, kv_heads, dim], or with 'HND' heads before keys. return_lse: (o, lse [queries, heads]);
    lse is to the base 2, as FlashInfer has it."""
    name = "single_prefill_with_kv_cache"
    _refuse(name, custom_mask=(custom_mask, (None,)), kv_layout=(kv_layout, _LAYOUTS))
    options = _options(name, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
    k, v = (_swap(x, 0, 1) if kv_layout == "HND" else x for x in (k, v))
    results = torch_results(q[None], v.shape[-1], (1, q.shape[1], q.shape[0]))
    o, lse = _core.attention(q[None], k[None], v[None], lse=True, **options, **results, **torch_stream(q))
    o = like(o, q)[0]
    return (o, _base_2(like(lse, q))[0]) if return_lse else o


def single_decode_with_kv_cache(q, k, v, *, kv_layout="NHD", pos_encoding_mode="NONE", sm_scale=None, window_left=-1,
                                logits_soft_cap=None, return_lse=False):
    """One query: q [heads, dim]; the rest as in single_prefill_with_kv_cache."""
    found = single_prefill_with_kv_cache(q[None], k, v, causal=True, kv_layout=kv_layout, pos_encoding_mode=pos_encoding_mode,
                                         sm_scale=sm_scale, window_left=window_left, logits_soft_cap=logits_soft_cap, return_lse=return_lse)
    return (found[0][0], found[1][0]) if return_lse else found[0]


def _base_2(lse):
    """[batch, heads, queries] of natural logarithms as [batch, queries, heads] to the base 2."""
    return _swap(lse, 1, 2) * 1.4426950408889634


class _Paged:
    """What both wrappers share: pages of each sequence as a table, and how many tokens they hold."""

    def __init__(self, float_workspace_buffer=None, kv_layout="NHD", **asked):
        name = type(self).__name__
        _refuse(name, kv_layout=(kv_layout, _LAYOUTS))
        for option, value in asked.items():
            _refuse(name, **{option: (value, (None, False, "auto"))})
        self.kv_layout, self._plan, self._arrays = kv_layout, None, {}

    def _tables(self, kv_indptr, kv_indices, kv_last_page_len, page_size):
        name = f"{type(self).__name__}.plan"
        indptr, indices, last = ([int(i) for i in x] for x in (kv_indptr, kv_indices, kv_last_page_len))
        if len(indptr) != len(last) + 1:
            raise _core.ShapeError(f"{name}: {len(indptr)} of indptr, {len(last)} of last_page_len; allowed is one more of indptr")
        pages = [indices[a:b] for a, b in zip(indptr, indptr[1:])]
        lengths = []
        for row, tokens in zip(pages, last):
            if row and not 1 <= tokens <= page_size:
                raise _core.ArgumentError(f"{name}: last_page_len is {tokens}; allowed are 1 to {page_size}")
            lengths.append((len(row) - 1) * page_size + tokens if row else 0)
        width = max([1, *map(len, pages)])
        flat = array("i", [page for row in pages for page in row + [0] * (width - len(row))])
        self._arrays = {}
        return memoryview(flat).cast("B").cast("i", (len(pages), width)), array("i", lengths), page_size

    def _planned(self):
        if self._plan is None:
            raise _core.StateError(f"{type(self).__name__}.run: no plan; call plan() first")
        return self._plan

    def _attend(self, q, paged_kv_cache, **layout):
        table, lengths, page_size = self._planned()
        if q.shape[-2:] != self._heads:
            raise _core.ShapeError(f"{type(self).__name__}.run: q has {tuple(q.shape[-2:])} heads and dims; planned were {self._heads}")
        if isinstance(paged_kv_cache, tuple):
            k, v = paged_kv_cache
        else:
            k, v = paged_kv_cache[:, 0], paged_kv_cache[:, 1]
        if self.kv_layout == "HND":
            k, v = _swap(k, 1, 2), _swap(v, 1, 2)
        if k.shape[1] != page_size:
            raise _core.ShapeError(f"{type(self).__name__}.run: pages of {k.shape[1]} tokens; planned were {page_size}")
        batch, most = (len(lengths), layout["max_q"]) if layout else q.shape[:2]
        return _core.attention(q, k, v, page_table=self._there("table", table, q), kv_len=self._there("lengths", lengths, q), lse=True,
                               **self._options, **layout, **torch_results(q, v.shape[-1], (batch, q.shape[-2], most)), **torch_stream(q))

    def _there(self, name, values, q):
        """On the device where q lies, since the first run of a plan."""
        kind, index = q.__dlpack_device__() if hasattr(q, "__dlpack_device__") else (1, 0)
        if kind not in (2, 13):
            return values
        if (name, index) not in self._arrays:
            self._arrays[name, index] = _core.default_context(f"cuda:{index}").to_device(values)  # waits until it is there
        return self._arrays[name, index]


class BatchDecodeWithPagedKVCacheWrapper(_Paged):
    """BatchDecodeWithPagedKVCacheWrapper(workspace=None, kv_layout='NHD'): one query a sequence. The workspace is not used."""

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, pos_encoding_mode="NONE",
             window_left=-1, logits_soft_cap=None, sm_scale=None, **types):
        """indptr [batch + 1], indices: pages of each sequence; last_page_len [batch]: tokens of the last one. Types are those
        of the arrays that run() gets."""
        self._options = _options("BatchDecodeWithPagedKVCacheWrapper.plan", True, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
        self._heads = (num_qo_heads, head_dim)
        self._plan = self._tables(indptr, indices, last_page_len, page_size)

    def run(self, q, paged_kv_cache, *, return_lse=False):
        """q [batch, heads, dim]; pages [pages, 2, page_size, kv_heads, dim], or (k, v) pages. Gives [batch, heads, dim]."""
        o, lse = self._attend(q[:, None], paged_kv_cache)
        o = like(o, q)[:, 0]
        return (o, _base_2(like(lse, q))[:, 0]) if return_lse else o


class BatchPrefillWithPagedKVCacheWrapper(_Paged):
    """BatchPrefillWithPagedKVCacheWrapper(workspace=None, kv_layout='NHD'): queries of all sequences packed."""

    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk,
             page_size, *, custom_mask=None, causal=False, pos_encoding_mode="NONE", sm_scale=None, window_left=-1,
             logits_soft_cap=None, **types):
        """qo_indptr [batch + 1]: borders of the queries; the rest as in BatchDecodeWithPagedKVCacheWrapper.plan."""
        name = "BatchPrefillWithPagedKVCacheWrapper.plan"
        _refuse(name, custom_mask=(custom_mask, (None,)))
        self._options = _options(name, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
        self._q_start = array("i", [int(i) for i in qo_indptr])
        if len(self._q_start) != len(paged_kv_indptr):
            raise _core.ShapeError(f"{name}: {len(self._q_start)} of qo_indptr, {len(paged_kv_indptr)} of paged_kv_indptr; allowed are as many")
        self._max_q = max([0, *(b - a for a, b in zip(self._q_start, self._q_start[1:]))])
        self._heads = (num_qo_heads, head_dim_qk)
        self._plan = self._tables(paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, page_size)

    def run(self, q, paged_kv_cache, *, return_lse=False):
        """q [queries, heads, dim]. Gives [queries, heads, dim]. return_lse is refused: packed queries have it padded."""
        _refuse("BatchPrefillWithPagedKVCacheWrapper.run", return_lse=(return_lse, (False,)))
        lengths = self._planned()[1]
        o, _ = self._attend(q, paged_kv_cache, q_start=self._there("q_start", self._q_start, q), max_q=self._max_q, max_kv=max([0, *lengths]))
        return like(o, q)
