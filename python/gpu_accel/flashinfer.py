"""FlashInfer's names over gpu_accel: attention of one sequence, and of batches over pages with plan() and run().

Arrays are NumPy's, PyTorch's or any that gpu_accel takes; results come as arrays of q's framework. Page tables and lengths
are read on the host when they are planned, and the first run() takes them to q's device. After that no call on PyTorch's
tensors waits. What GA does not do is refused by the argument's name; what only says how to compute is taken."""
import functools
import sys
from array import array

from . import _core
from ._flash_attention3 import like
from ._options import check_options, refuse_other, whole_numbers
from ._streams import refuse_tangents, torch_results, torch_stream

_LAYOUTS = ("NHD", "HND")
_LOG2_E = 1.4426950408889634
# Rotary options count with pos_encoding_mode alone, which is refused.
_HOW = ("backend", "use_tensor_cores", "use_fp16_qk_reduction", "rope_scale", "rope_theta")
_SCALES = {"scale_q": (None, 1.0), "scale_k": (None, 1.0), "scale_v": (None, 1.0)}
_MADE_HINTS = ("backend", "use_tensor_cores")
_MADE = {"use_cuda_graph": (False,), "jit_args": (None,), "jit_kwargs": (None,), "qo_indptr_buf": (None,), "paged_kv_indptr_buf": (None,),
         "paged_kv_indices_buf": (None,), "paged_kv_last_page_len_buf": (None,), "custom_mask_buf": (None,), "mask_indptr_buf": (None,),
         "paged_kv_indptr_buffer": (None,), "paged_kv_indices_buffer": (None,), "paged_kv_last_page_len_buffer": (None,)}
_PLAN_HINTS = (*_HOW, "non_blocking", "fixed_split_size", "disable_split_kv", "max_token_per_sequence", "max_sequence_kv")
_PLAN = {"packed_custom_mask": (None,), "prefix_len_ptr": (None,), "token_pos_in_items_ptr": (None,), "token_pos_in_items_len": (0, None),
         "max_item_len_ptr": (None,), "block_tables": (None,), "seq_lens": None, "seq_lens_q": None, "q_data_type": None, "kv_data_type": None,
         "o_data_type": None, "data_type": None}
_RUN_HINTS = ("enable_pdl",)
_RUN = {"q_scale": (None, 1.0), "k_scale": (None, 1.0), "v_scale": (None, 1.0), "q_len_per_req": (None, 1)}


def _options(function, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode):
    refuse_other(function, pos_encoding_mode=(pos_encoding_mode, ("NONE",)))
    if window_left >= 0 and not causal:
        raise _core.UnsupportedError(f"{function}: window_left is {window_left} without causal; allowed is -1")
    return {"causal": causal, "window": window_left + 1 if window_left >= 0 else 0, "scale": sm_scale,
            "softcap": 0.0 if logits_soft_cap is None else logits_soft_cap}


def _swap(x, a, b):
    if type(x).__module__.startswith("torch"):
        return x.transpose(a, b)
    axes = list(range(len(x.shape)))
    axes[a], axes[b] = axes[b], axes[a]
    return x.transpose(axes)


def single_prefill_with_kv_cache(q, k, v, *, custom_mask=None, packed_custom_mask=None, causal=False, kv_layout="NHD", pos_encoding_mode="NONE",
                                 sm_scale=None, window_left=-1, logits_soft_cap=None, o_dtype=None, return_lse=False, **how):
    """q [queries, heads, dim], k, v [keys, kv_heads, dim], or with 'HND' heads before keys. return_lse: (o, lse [queries, heads]);
    lse is to the base 2, as FlashInfer has it."""
    name = "single_prefill_with_kv_cache"
    refuse_other(name, custom_mask=(custom_mask, (None,)), packed_custom_mask=(packed_custom_mask, (None,)), kv_layout=(kv_layout, _LAYOUTS))
    check_options(name, how, _SCALES, _HOW)
    refuse_tangents(name, q, k, v)
    _check_types(name, q, o_dtype=o_dtype)
    options = _options(name, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
    k, v = (_swap(x, 0, 1) if kv_layout == "HND" else x for x in (k, v))
    results = torch_results(q[None], v.shape[-1], (1, q.shape[1], q.shape[0]))
    o, lse = _core.attention(q[None], k[None], v[None], lse=True, **options, **results, **torch_stream(q))
    o = like(o, q)[0]
    return (o, _base_2(like(lse, q))[0]) if return_lse else o


def single_decode_with_kv_cache(q, k, v, *, kv_layout="NHD", pos_encoding_mode="NONE", sm_scale=None, window_left=-1,
                                logits_soft_cap=None, return_lse=False, **how):
    """One query: q [heads, dim]; the rest as in single_prefill_with_kv_cache."""
    check_options("single_decode_with_kv_cache", how, _RUN, _HOW)
    found = single_prefill_with_kv_cache(q[None], k, v, causal=True, kv_layout=kv_layout, pos_encoding_mode=pos_encoding_mode,
                                         sm_scale=sm_scale, window_left=window_left, logits_soft_cap=logits_soft_cap, return_lse=return_lse)
    return (found[0][0], found[1][0]) if return_lse else found[0]


def _base_2(lse):
    """[batch, heads, queries] of natural logarithms as [batch, queries, heads] to the base 2."""
    return _swap(lse, 1, 2) * _LOG2_E


def _check_types(name, x, **asked):
    """Types that were planned are those of the arrays."""
    for argument, dtype in asked.items():
        if dtype is None:
            continue
        wanted, seen = _core.default_context().empty(0, dtype).dtype, _core.asarray(x.detach() if hasattr(x, "detach") else x).dtype
        if wanted != seen:
            raise _core.DtypeError(f"{name}: {argument} is {wanted}; the array has {seen}, and results have the type of q")


def _borders(name, argument, values, most=None):
    """indptr as a list: rising from 0, to `most` at most."""
    found = whole_numbers(name, argument, values)
    if not found or found[0] != 0 or any(b < a for a, b in zip(found, found[1:])):
        raise _core.ArgumentError(f"{name}: {argument} is {found[:8]}{'...' if len(found) > 8 else ''}; allowed are rising numbers from 0")
    if most is not None and found[-1] > most:
        raise _core.ArgumentError(f"{name}: {argument} ends at {found[-1]}; allowed is at most {most}, as many as there are indices")
    return found


class _Paged:
    """What both wrappers share: pages of each sequence as a table, and how many tokens they hold."""

    def __init__(self, float_workspace_buffer=None, kv_layout="NHD", **asked):
        name = type(self).__name__
        refuse_other(name, kv_layout=(kv_layout, _LAYOUTS))
        check_options(name, asked, _MADE, _MADE_HINTS)
        self.kv_layout, self._plan, self._arrays = kv_layout, None, {}

    def _tables(self, kv_indptr, kv_indices, kv_last_page_len, page_size):
        name = f"{type(self).__name__}.plan"
        if page_size < 1:
            raise _core.ArgumentError(f"{name}: page_size is {page_size}; allowed are 1 and more")
        indices, last = whole_numbers(name, "indices", kv_indices), whole_numbers(name, "last_page_len", kv_last_page_len)
        indptr = _borders(name, "indptr", kv_indptr, len(indices))
        if len(indptr) != len(last) + 1:
            raise _core.ShapeError(f"{name}: {len(indptr)} of indptr, {len(last)} of last_page_len; allowed is one more of indptr")
        pages = [indices[a:b] for a, b in zip(indptr, indptr[1:])]
        if min(indices[:indptr[-1]], default=0) < 0:
            raise _core.ArgumentError(f"{name}: indices has {min(indices)}; allowed are numbers of pages, from 0 on")
        lengths = []
        for row, tokens in zip(pages, last):
            if row and not 1 <= tokens <= page_size:
                raise _core.ArgumentError(f"{name}: last_page_len is {tokens}; allowed are 1 to {page_size}")
            lengths.append((len(row) - 1) * page_size + tokens if row else 0)
        width = max([1, *map(len, pages)])
        flat = array("i", [page for row in pages for page in row + [0] * (width - len(row))])
        self._arrays, self._most_page = {}, max(indices[:indptr[-1]], default=-1)
        return memoryview(flat).cast("B").cast("i", (len(pages), width)), array("i", lengths), page_size

    def _take(self, types, num_qo_heads, num_kv_heads, head_dim, v_dim):
        """Options of plan() that it has no names for."""
        name = f"{type(self).__name__}.plan"
        check_options(name, types, _PLAN, _PLAN_HINTS)
        if num_kv_heads < 1 or num_qo_heads % num_kv_heads:
            raise _core.ShapeError(f"{name}: {num_qo_heads} heads of q, {num_kv_heads} of k; allowed is a multiple of those of k")
        self._heads, self._kv_heads, self._v_dim = (num_qo_heads, head_dim), num_kv_heads, v_dim
        data_type = types.get("data_type")
        self._types = {"q_data_type": types.get("q_data_type", data_type), "o_data_type": types.get("o_data_type")}
        self._kv_type = types.get("kv_data_type", data_type)

    def _check_lengths(self, types, name, argument, planned):
        """Lengths that a caller gives beside the tables, which say them already."""
        if types.get(argument) is not None and whole_numbers(name, argument, types[argument]) != list(planned):
            raise _core.ArgumentError(f"{name}: {argument} is {whole_numbers(name, argument, types[argument])[:8]}; the tables say {list(planned)[:8]}")

    def _planned(self):
        if self._plan is None:
            raise _core.StateError(f"{type(self).__name__}.run: no plan; call plan() first")
        return self._plan

    def _check_arrays(self, name, q, k, v, page_size):
        _check_types(name, q, **self._types)
        _check_types(name, k, kv_data_type=self._kv_type)
        if tuple(q.shape[-2:]) != self._heads:
            raise _core.ShapeError(f"{name}: q has {tuple(q.shape[-2:])} heads and dims; planned were {self._heads}")
        for argument, x, dim in (("k", k, self._heads[1]), ("v", v, self._v_dim)):
            wanted = (page_size, self._kv_heads, dim)
            if tuple(x.shape[1:]) != wanted:
                raise _core.ShapeError(f"{name}: pages of {argument} are {tuple(x.shape[1:])}: tokens, heads and dims; planned were {wanted}")
        if self._most_page >= k.shape[0]:
            raise _core.ArgumentError(f"{name}: indices has page {self._most_page}; allowed are 0 to {k.shape[0] - 1}")

    def _attend(self, q, paged_kv_cache, options, **layout):
        name = f"{type(self).__name__}.run"
        table, lengths, page_size = self._planned()
        sinks, window_left = options.pop("sinks", None), options.pop("window_left", None)
        check_options(name, options, _RUN, _RUN_HINTS)
        if window_left is not None and (window_left + 1 if window_left >= 0 else 0) != self._options["window"]:
            raise _core.UnsupportedError(f"{name}: window_left is {window_left}; allowed is the planned one, {self._options['window'] - 1}")
        if isinstance(paged_kv_cache, tuple):
            k, v = paged_kv_cache
        else:
            k, v = paged_kv_cache[:, 0], paged_kv_cache[:, 1]
        if self.kv_layout == "HND":
            k, v = _swap(k, 1, 2), _swap(v, 1, 2)
        refuse_tangents(name, q, k, v, sinks)
        self._check_arrays(name, q, k, v, page_size)
        batch, most = (len(lengths), layout["max_q"]) if layout else q.shape[:2]
        if batch != len(lengths):
            raise _core.ShapeError(f"{name}: q has {batch} sequences; planned were {len(lengths)}")
        results = torch_results(q, v.shape[-1], (batch, q.shape[-2], most))
        return _core.attention(q, k, v, page_table=self._there("table", table, q), kv_len=self._there("lengths", lengths, q), lse=True,
                               sinks=sinks, **self._options, **layout, **results, **torch_stream(q))

    def _there(self, name, values, q):
        """On the device where q lies, since the first run of a plan."""
        kind, index = q.__dlpack_device__() if hasattr(q, "__dlpack_device__") else (1, 0)
        if kind not in (2, 13):
            return values
        if (name, index) not in self._arrays:
            self._arrays[name, index] = _core.default_context(f"cuda:{index}").to_device(values)  # waits until it is there
        return self._arrays[name, index]


def _given(name, argument, out, made):
    """The result in the caller's array, or as it is."""
    if out is None:
        return made
    if tuple(out.shape) != tuple(made.shape) or out.dtype != made.dtype:
        raise _core.ShapeError(f"{name}: {argument} is {out.dtype} {list(out.shape)}; allowed is {made.dtype} {list(made.shape)}")
    out[...] = made
    return out


class BatchDecodeWithPagedKVCacheWrapper(_Paged):
    """BatchDecodeWithPagedKVCacheWrapper(workspace=None, kv_layout='NHD'): one query a sequence. The workspace is not used."""

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, pos_encoding_mode="NONE",
             window_left=-1, logits_soft_cap=None, sm_scale=None, **types):
        """indptr [batch + 1], indices: pages of each sequence; last_page_len [batch]: tokens of the last one. Types that are given
        must be those of the arrays that run() gets."""
        name = "BatchDecodeWithPagedKVCacheWrapper.plan"
        self._plan = None
        self._options = _options(name, True, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
        self._take(types, num_qo_heads, num_kv_heads, head_dim, head_dim)
        plan = self._tables(indptr, indices, last_page_len, page_size)
        self._check_lengths(types, name, "seq_lens", plan[1])
        self._check_lengths(types, name, "seq_lens_q", [1] * len(plan[1]))
        self._plan = plan

    begin_forward = plan

    def run(self, q, paged_kv_cache, *, out=None, lse=None, return_lse=False, **options):
        """q [batch, heads, dim]; pages [pages, 2, page_size, kv_heads, dim], or (k, v) pages. Gives [batch, heads, dim]; out and lse:
        arrays for the results. sinks [heads] f32."""
        name = "BatchDecodeWithPagedKVCacheWrapper.run"
        o, log_sum = self._attend(q[:, None], paged_kv_cache, options)
        o = _given(name, "out", out, like(o, q)[:, 0])
        return (o, _given(name, "lse", lse, _base_2(like(log_sum, q))[:, 0])) if return_lse else o

    run_return_lse = functools.partialmethod(run, return_lse=True)


class BatchPrefillWithPagedKVCacheWrapper(_Paged):
    """BatchPrefillWithPagedKVCacheWrapper(workspace=None, kv_layout='NHD'): queries of all sequences packed."""

    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk,
             page_size, *, head_dim_vo=None, custom_mask=None, causal=False, pos_encoding_mode="NONE", sm_scale=None, window_left=-1,
             logits_soft_cap=None, **types):
        """qo_indptr [batch + 1]: borders of the queries; the rest as in BatchDecodeWithPagedKVCacheWrapper.plan."""
        name = "BatchPrefillWithPagedKVCacheWrapper.plan"
        self._plan = None
        refuse_other(name, custom_mask=(custom_mask, (None,)))
        self._options = _options(name, causal, window_left, sm_scale, logits_soft_cap, pos_encoding_mode)
        self._take(types, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_qk if head_dim_vo is None else head_dim_vo)
        plan = self._tables(paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, page_size)
        self._q_start = array("i", _borders(name, "qo_indptr", qo_indptr))
        if len(self._q_start) != len(plan[1]) + 1:
            raise _core.ShapeError(f"{name}: {len(self._q_start)} of qo_indptr, {len(plan[1]) + 1} of paged_kv_indptr; allowed are as many")
        queries = [b - a for a, b in zip(self._q_start, self._q_start[1:])]
        self._check_lengths(types, name, "seq_lens", plan[1])
        self._check_lengths(types, name, "seq_lens_q", queries)
        self._max_q, self._plan = max([0, *queries]), plan

    begin_forward = plan

    def run(self, q, paged_kv_cache, *, out=None, lse=None, return_lse=False, **options):
        """q [queries, heads, dim]. Gives [queries, heads, dim], with return_lse also lse [queries, heads] to the base 2. Rows after the
        last planned query are 0, their lse -infinity."""
        name = "BatchPrefillWithPagedKVCacheWrapper.run"
        lengths = self._planned()[1]
        if q.shape[0] < self._q_start[-1]:
            raise _core.ShapeError(f"{name}: q has {q.shape[0]} rows; planned were {self._q_start[-1]}")
        o, log_sum = self._attend(q, paged_kv_cache, options, q_start=self._there("q_start", self._q_start, q), max_q=self._max_q,
                                  max_kv=max([0, *lengths]))
        o = _given(name, "out", out, like(o, q))
        return (o, _given(name, "lse", lse, self._by_query(like(log_sum, q), q))) if return_lse else o

    run_return_lse = functools.partialmethod(run, return_lse=True)

    def _by_query(self, lse, q):
        """[batch, heads, max_q] of natural logarithms as [queries, heads] to the base 2."""
        at = [(b, i) for b, (first, end) in enumerate(zip(self._q_start, self._q_start[1:])) for i in range(end - first)]
        sequences, rows = [b for b, _ in at], [i for _, i in at]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(q, torch.Tensor):
            made = lse.new_full((q.shape[0], q.shape[1]), float("-inf"))
            index = lambda values: torch.tensor(values, dtype=torch.long, device=lse.device)
            made[:len(at)] = lse[index(sequences), :, index(rows)] * _LOG2_E
            return made
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(lse, numpy.ndarray):
            raise _core.UnsupportedError("BatchPrefillWithPagedKVCacheWrapper.run: return_lse with q of another framework; allowed are NumPy and PyTorch")
        made = numpy.full((q.shape[0], q.shape[1]), -numpy.inf, "f4")
        made[:len(at)] = lse[sequences, :, rows] * numpy.float32(_LOG2_E)
        return made
