#include "op/op.h"
#include "op/op_stretch.h"
#include "opdef/attn_fp8.h"

#define STATE (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)

static ga_status check_heads(const ga_attn_desc *d) {
  GA_REQUIRE(d->q_heads % d->kv_heads == 0, GA_ERR_SHAPE,
             "attn: q_heads %d, kv_heads %d; q_heads must be a multiple of kv_heads", d->q_heads, d->kv_heads);
  const int64_t dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  GA_TRY(ga_check_elements("attn", "q", d->batch, d->max_q, d->q_heads, dim));
  return ga_check_elements("attn", "k", d->batch, d->max_kv, d->kv_heads, dim);
}

/* K and V in e4m3 with a Q that is not of 8 bits. */
static bool is_fp8_cache(const ga_attn_desc *d) { return d->kv_dtype == GA_E4M3 && !ga_attn_is_scaled(d); }

static ga_status check_scale_tokens(const ga_attn_desc *d) {
  const bool scaled = ga_attn_is_scaled(d), one = d->q_dtype == GA_I8, cache = is_fp8_cache(d);
  const int32_t q = d->q_scale_tokens, kv = d->kv_scale_tokens;
  const char *const more = scaled ? ", 64 or 128" : "", *const q_type = ga_dtype_name((ga_dtype)d->q_dtype);
  GA_REQUIRE(q == 0 || (scaled && (q == 64 || q == 128)) || (one && q == 1), GA_ERR_ARG,
             "attn: q_scale_tokens is %d; must be 0%s%s with q_dtype %s", q, one ? ", 1" : "", more, q_type);
  GA_REQUIRE(kv == 0 || (scaled && (kv == 64 || kv == 128)) || (cache && kv == 1), GA_ERR_ARG,
             "attn: kv_scale_tokens is %d; must be 0%s%s with q_dtype %s, kv_dtype %s", kv, cache ? " or 1" : "", more,
             q_type, ga_dtype_name((ga_dtype)d->kv_dtype));
  return GA_OK;
}

static ga_status check_scaled(const ga_attn_desc *d) {
  const uint32_t refused = GA_ATTN_VARLEN | GA_ATTN_PAGED | STATE;
  GA_TRY(check_scale_tokens(d));
  GA_REQUIRE(!is_fp8_cache(d) || !d->kv_segments, GA_ERR_ARG, "attn: kv_segments is %d; must be 0 with kv_dtype e4m3",
             d->kv_segments);
  if (!ga_attn_is_scaled(d)) return GA_OK;
  GA_REQUIRE(d->kv_dtype == GA_E4M3, GA_ERR_DTYPE, "attn: kv_dtype is %s; must be e4m3 with q_dtype %s",
             ga_dtype_name((ga_dtype)d->kv_dtype), ga_dtype_name((ga_dtype)d->q_dtype));
  GA_REQUIRE(!(d->flags & refused) && !d->kv_segments, GA_ERR_ARG,
             "attn: flags 0x%x, kv_segments %d; with q_dtype %s neither VARLEN, PAGED, STATE_* nor segments", d->flags,
             d->kv_segments, ga_dtype_name((ga_dtype)d->q_dtype));
  return GA_OK;
}

static ga_status check_segments(const ga_attn_desc *d) {
  GA_REQUIRE(!d->kv_segments || !(d->flags & (GA_ATTN_VARLEN | GA_ATTN_PAGED)), GA_ERR_ARG,
             "attn: kv_segments is %d; must be 0 with VARLEN or PAGED", d->kv_segments);
  return GA_OK;
}

static ga_status check_stretch_counts(const ga_attn_desc *d) {
  const uint32_t allowed = GA_ATTN_CAUSAL | GA_ATTN_LSE | GA_ATTN_KV_READY | GA_ATTN_PAGED;
  const int32_t q = d->q_stretches, kv = d->kv_stretches;
  if (!q && !kv) return GA_OK;
  GA_REQUIRE(q >= 1 && q <= GA_ATTN_MAX_STRETCHES && kv >= 1 && kv <= GA_ATTN_MAX_STRETCHES, GA_ERR_ARG,
             "attn: q_stretches is %d, kv_stretches %d; must be 1 to %d both, or 0 both", q, kv, GA_ATTN_MAX_STRETCHES);
  GA_REQUIRE(
      !(d->flags & ~allowed) && d->softcap == 0 && !d->kv_segments && !ga_attn_is_scaled(d) && d->kv_dtype != GA_E4M3,
      GA_ERR_ARG,
      "attn: flags 0x%x, softcap %g, kv_segments %d, q_dtype %s, kv_dtype %s; with stretches the flags CAUSAL, "
      "LSE, KV_READY and PAGED alone (packed sequences are documents), no softcap, no kv_segments, no e4m3 or i8",
      d->flags, (double)d->softcap, d->kv_segments, ga_dtype_name((ga_dtype)d->q_dtype),
      ga_dtype_name((ga_dtype)d->kv_dtype));
  return GA_OK;
}

static ga_status check_symmetric(const ga_attn_desc *d) {
  if (!(d->flags & GA_ATTN_SYMMETRIC)) return GA_OK;
  GA_REQUIRE(
      !(d->flags & (GA_ATTN_CAUSAL | STATE)) && !d->kv_segments && !ga_attn_is_scaled(d), GA_ERR_ARG,
      "attn: flags 0x%x, kv_segments %d, q_dtype %s; SYMMETRIC takes neither CAUSAL, STATE_*, segments nor 8 bits",
      d->flags, d->kv_segments, ga_dtype_name((ga_dtype)d->q_dtype));
  return GA_OK;
}

static ga_status check_packed_fields(const ga_attn_desc *d) {
  GA_REQUIRE(!(d->flags & GA_ATTN_KEEP_PADDING) || d->flags & GA_ATTN_VARLEN, GA_ERR_ARG,
             "attn: flags 0x%x; KEEP_PADDING needs VARLEN", d->flags);
  GA_REQUIRE(!(d->flags & GA_ATTN_LENGTHS) || (d->flags & (GA_ATTN_VARLEN | GA_ATTN_PAGED)) == GA_ATTN_VARLEN,
             GA_ERR_ARG, "attn: flags 0x%x; LENGTHS needs VARLEN, and is not with PAGED", d->flags);
  GA_REQUIRE(!d->lse_stride || (d->flags & GA_ATTN_VARLEN && !(d->flags & STATE)), GA_ERR_ARG,
             "attn: lse_stride is %lld with flags 0x%x; must be 0 without VARLEN, and with STATE_*",
             (long long)d->lse_stride, d->flags);
  return GA_OK;
}

static ga_status complete(ga_attn_desc *d) {
  GA_TRY(ga_attn_complete_fields(d));
  GA_TRY(check_heads(d));
  GA_TRY(check_segments(d));
  GA_TRY(check_scaled(d));
  GA_TRY(check_stretch_counts(d));
  GA_TRY(check_packed_fields(d));
  GA_TRY(check_symmetric(d));
  GA_REQUIRE(!(d->flags & GA_ATTN_PAGED) == !d->page_size && d->page_size >= 0 && d->page_size <= GA_PAGE_MAX,
             GA_ERR_ARG, "attn: page_size is %d; must be 1 to %d with PAGED, else 0", d->page_size, GA_PAGE_MAX);
  if (d->scale == 0) d->scale = 1.0f / sqrtf((float)d->head_dim);
  int32_t block = ga_dtype_info((ga_dtype)d->kv_dtype)->block_elems;
  GA_REQUIRE(d->head_dim % block == 0 && d->v_dim % block == 0, GA_ERR_SHAPE,
             "attn: head_dim %d, v_dim %d; %s needs multiples of %d", d->head_dim, d->v_dim,
             ga_dtype_name((ga_dtype)d->kv_dtype), block);
  return GA_OK;
}

static ga_status check_kv(const ga_attn_desc *d, const ga_attn_io *io) {
  if (!d->kv_segments) {
    GA_CHECK_PTR("attn", (io->k && io->v) || d->max_kv == 0, io->k ? "v" : "k");
    GA_CHECK_ALIGN("attn", io->k, ga_attn_k_dtype(d), "k");
    GA_CHECK_ALIGN("attn", io->v, d->kv_dtype, "v");
    return GA_OK;
  }
  for (int i = 0; i < d->kv_segments; i++) {
    const ga_attn_kv_segment *p = &io->kv_segments[i];
    GA_REQUIRE(p->kv >= 0 && p->kv <= d->max_kv, GA_ERR_ARG,
               "attn: kv_segments[%d].kv is %lld; must be 0 to max_kv, %lld", i, (long long)p->kv,
               (long long)d->max_kv);
    GA_REQUIRE(p->shift >= -GA_DIM_MAX && p->shift <= GA_DIM_MAX, GA_ERR_ARG,
               "attn: kv_segments[%d].shift is %lld; must be -2^40 to 2^40", i, (long long)p->shift);
    GA_REQUIRE((p->k && p->v) || p->kv == 0, GA_ERR_ARG, "attn: kv_segments[%d].%s is null", i, p->k ? "v" : "k");
    GA_CHECK_ALIGN("attn", p->k, ga_attn_k_dtype(d), "k of kv_segments");
    GA_CHECK_ALIGN("attn", p->v, d->kv_dtype, "v of kv_segments");
  }
  return GA_OK;
}

static ga_status check_outputs(const ga_attn_desc *d, const ga_attn_io *io) {
  GA_CHECK_PTR("attn", (io->state_o && io->state_m && io->state_l) || !(d->flags & STATE),
               !io->state_o  ? "state_o"
               : io->state_m ? "state_l"
                             : "state_m");
  GA_CHECK_ALIGN("attn", io->state_o, GA_F32, "state_o");
  GA_CHECK_ALIGN("attn", io->state_m, GA_F32, "state_m");
  GA_CHECK_ALIGN("attn", io->state_l, GA_F32, "state_l");
  if (d->flags & GA_ATTN_STATE_OUT) return GA_OK;
  GA_CHECK_AT("attn", io->o, d->o_dtype, "o");
  GA_CHECK_PTR("attn", io->lse || !(d->flags & GA_ATTN_LSE), "lse");
  GA_CHECK_ALIGN("attn", io->lse, GA_F32, "lse");
  return GA_OK;
}

/* Bytes that a tensor of these sizes reaches over, from its first element; 0 when a size is not known here (pages). */
static uint64_t reach(ga_dtype t, const ga_attn_strides *s, int64_t batch, int64_t tokens, int64_t heads, int64_t dim) {
  const ga_dtype_traits *info = ga_dtype_info(t);
  if (!batch || !tokens) return 0;
  const double last = (double)(batch - 1) * (double)s->batch + (double)(tokens - 1) * (double)s->token +
                      (double)(heads - 1) * (double)s->head;
  if (!(last >= 0 && last < 0x1p60)) return 0;
  return (uint64_t)(last + (double)dim) / (uint64_t)info->block_elems * (uint64_t)info->block_bytes;
}

static bool ranges_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a && b && x < y + b_bytes && y < x + a_bytes;
}

/* O may share no memory with what is read. Tensors that lie between each other's rows would: such are refused too.
 * Packed sequences and pages have sizes that only the device knows: their first elements are compared. */
static ga_status check_overlap(const ga_attn_desc *d, const ga_attn_io *io) {
  if (d->flags & GA_ATTN_STATE_OUT) return GA_OK;
  const bool packed = d->flags & GA_ATTN_VARLEN, known = !packed && !(d->flags & GA_ATTN_PAGED);
  const uint64_t o = packed ? 1 : reach((ga_dtype)d->o_dtype, &io->o_stride, d->batch, d->max_q, d->q_heads, d->v_dim);
  const uint64_t q =
      packed ? 1 : reach((ga_dtype)d->q_dtype, &io->q_stride, d->batch, d->max_q, d->q_heads, d->head_dim);
  GA_REQUIRE(!ranges_overlap(io->o, o, io->q, q), GA_ERR_ARG, "attn: o at %p (%llu bytes) overlaps q at %p", io->o,
             (unsigned long long)o, io->q);
  for (int i = 0; i < (d->kv_segments ? d->kv_segments : 1); i++) {
    const void *k = d->kv_segments ? io->kv_segments[i].k : io->k, *v = d->kv_segments ? io->kv_segments[i].v : io->v;
    const int64_t kv = d->kv_segments ? io->kv_segments[i].kv : d->max_kv;
    const uint64_t kb = known ? reach(ga_attn_k_dtype(d), &io->k_stride, d->batch, kv, d->kv_heads, d->head_dim) : 1;
    const int64_t v_rows = ga_attn_is_scaled(d) && kv ? d->v_dim : kv,
                  v_cols = ga_attn_is_scaled(d) ? ga_attn_fp8_padded(kv) : d->v_dim;
    const uint64_t vb = known ? reach((ga_dtype)d->kv_dtype, &io->v_stride, d->batch, v_rows, d->kv_heads, v_cols) : 1;
    GA_REQUIRE(!ranges_overlap(io->o, o, k, kb), GA_ERR_ARG, "attn: o at %p (%llu bytes) overlaps k at %p", io->o,
               (unsigned long long)o, k);
    GA_REQUIRE(!ranges_overlap(io->o, o, v, vb), GA_ERR_ARG, "attn: o at %p (%llu bytes) overlaps v at %p", io->o,
               (unsigned long long)o, v);
  }
  return GA_OK;
}

static ga_status check_scales(const ga_attn_desc *d, const ga_attn_io *io) {
  const ga_attn_scale *const scale[3] = {&io->q_scale, &io->k_scale, &io->v_scale};
  static const char *const names[3] = {"q_scale", "k_scale", "v_scale"};
  for (int i = ga_attn_is_scaled(d) ? 0 : 1; i < 3; i++) {
    const ga_attn_scale *s = scale[i];
    GA_REQUIRE(s->data || (i > 0 && d->max_kv == 0), GA_ERR_ARG, "attn: %s.data is null", names[i]);
    GA_REQUIRE(s->batch >= 0 && s->batch <= GA_DIM_MAX && s->head >= 0 && s->head <= GA_DIM_MAX && s->block >= 0 &&
                   s->block <= GA_DIM_MAX,
               GA_ERR_ARG, "attn: %s has strides %lld, %lld, %lld; must be 0 to 2^40", names[i], (long long)s->batch,
               (long long)s->head, (long long)s->block);
    GA_CHECK_ALIGN("attn", s->data, GA_F32, names[i]);
  }
  return GA_OK;
}

/* What says where sequences and pages are. */
static ga_status check_borders(const ga_attn_desc *d, const ga_attn_io *io) {
  GA_CHECK_PTR("attn", io->q_start || !(d->flags & GA_ATTN_VARLEN), "q_start");
  GA_CHECK_ALIGN("attn", io->q_start, GA_I32, "q_start");
  GA_CHECK_ALIGN("attn", io->kv_start, GA_I32, "kv_start");
  GA_REQUIRE(!(d->flags & GA_ATTN_VARLEN) ||
                 (io->q_tokens >= 0 && io->q_tokens <= GA_DIM_MAX && io->kv_tokens >= 0 && io->kv_tokens <= GA_DIM_MAX),
             GA_ERR_ARG, "attn: q_tokens %lld, kv_tokens %lld; must be 0 to 2^40", (long long)io->q_tokens,
             (long long)io->kv_tokens);
  GA_REQUIRE(!d->lse_stride || !(d->flags & GA_ATTN_LSE) || d->lse_stride >= io->q_tokens, GA_ERR_ARG,
             "attn: lse_stride is %lld; must be 0, or at least q_tokens, %lld", (long long)d->lse_stride,
             (long long)io->q_tokens);
  if (d->flags & GA_ATTN_LENGTHS) {
    GA_CHECK_ALIGN("attn", io->q_len, GA_I32, "q_len");
    GA_CHECK_ALIGN("attn", io->kv_len, GA_I32, "kv_len");
  }
  if (!(d->flags & GA_ATTN_PAGED)) {
    GA_CHECK_PTR("attn", io->kv_start || !(d->flags & GA_ATTN_VARLEN), "kv_start");
    return GA_OK;
  }
  GA_CHECK_PTR("attn", io->kv_len || d->q_stretches, "kv_len");
  GA_CHECK_PTR("attn", io->page_table, "page_table");
  GA_CHECK_ALIGN("attn", io->page_table, GA_I32, "page_table");
  GA_CHECK_ALIGN("attn", io->kv_len, GA_I32, "kv_len");
  GA_REQUIRE(io->page_table_stride >= 0 && io->page_table_stride <= GA_DIM_MAX, GA_ERR_ARG,
             "attn: page_table_stride is %lld; must be 0 to 2^40", (long long)io->page_table_stride);
  return ga_check_elements("attn", "page_table", d->batch, io->page_table_stride, 1, 1);
}

/* Borders of packed sequences and numbers of pages are the device's: what they can be at most is counted. Caches of
 * block types: a row begins with a block. */
static ga_status check_io_strides(const ga_attn_desc *d, const ga_attn_io *io) {
  const bool packed = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED, gaps = d->flags & GA_ATTN_LENGTHS;
  const int64_t batch = packed ? 1 : d->batch;
  const int64_t packed_q = gaps ? INT32_MAX : ga_min_i64(d->batch * d->max_q, INT32_MAX);
  const int64_t packed_kv = gaps ? INT32_MAX : ga_min_i64(d->batch * d->max_kv, INT32_MAX);
  const int64_t q = packed ? packed_q : d->max_q;
  const int64_t kv = paged ? d->page_size : packed ? packed_kv : d->max_kv;
  const int64_t pages = paged ? 1 : batch, block = ga_dtype_info((ga_dtype)d->kv_dtype)->block_elems;
  const bool scaled = ga_attn_is_scaled(d);
  GA_TRY(ga_check_strides("attn", "q_stride", &io->q_stride, batch, q, d->q_heads));
  GA_TRY(ga_check_strides("attn", "o_stride", &io->o_stride, batch, q, d->q_heads));
  GA_TRY(ga_check_strides("attn", "k_stride", &io->k_stride, pages, kv, d->kv_heads));
  GA_TRY(ga_check_strides("attn", "v_stride", &io->v_stride, pages, scaled ? d->v_dim : kv, d->kv_heads));
  const ga_attn_strides *const kvs[2] = {&io->k_stride, &io->v_stride};
  for (int i = 0; i < 2 && block > 1; i++)
    GA_REQUIRE(kvs[i]->batch % block == 0 && kvs[i]->token % block == 0 && kvs[i]->head % block == 0, GA_ERR_ARG,
               "attn: %c_stride is %lld, %lld, %lld; of %s it must be multiples of %lld", "kv"[i],
               (long long)kvs[i] -> batch, (long long)kvs[i] -> token, (long long)kvs[i] -> head,
               ga_dtype_name((ga_dtype)d->kv_dtype), (long long)block);
  return GA_OK;
}

static ga_status check_stretch_lists(const ga_attn_desc *d, const ga_attn_io *io) {
  if (!d->q_stretches) return GA_OK;
  GA_CHECK_PTR("attn", io->q_stretches && io->kv_stretches, io->q_stretches ? "kv_stretches" : "q_stretches");
  GA_CHECK_ALIGN("attn", io->ready, GA_I32, "ready");
  GA_CHECK_ALIGN("attn", io->ready_error, GA_I32, "ready_error");
  GA_CHECK_PTR("attn", io->ready_error || !io->ready, "ready_error");
  GA_REQUIRE(io->ready_polls >= 0 && io->ready_polls <= INT32_MAX, GA_ERR_ARG,
             "attn: ready_polls is %lld; must be 0 to 2^31 - 1", (long long)io->ready_polls);
  GA_TRY(ga_check_q_stretches("attn", io->q_stretches, d->q_stretches, d->max_q));
  return ga_check_kv_stretches("attn", io->kv_stretches, d->kv_stretches, d->max_kv, io->ready);
}

static ga_status check_io(const ga_attn_desc *d, const ga_attn_io *io) {
  GA_CHECK_AT("attn", io->q, d->q_dtype, "q");
  GA_TRY(check_kv(d, io));
  GA_TRY(check_outputs(d, io));
  if (d->kv_dtype == GA_E4M3) GA_TRY(check_scales(d, io));
  GA_REQUIRE((uintptr_t)io->v_mean % 16 == 0, GA_ERR_ARG, "attn: v_mean is at %p; must be a multiple of 16 bytes",
             (const void *)io->v_mean);
  GA_REQUIRE(!io->v_mean || ga_attn_is_scaled(d), GA_ERR_ARG, "attn: v_mean is %p; must be null with q_dtype %s",
             (const void *)io->v_mean, ga_dtype_name((ga_dtype)d->q_dtype));
  GA_CHECK_PTR("attn", io->sinks || !(d->flags & GA_ATTN_SINKS), "sinks");
  GA_CHECK_PTR("attn", io->alibi || !(d->flags & GA_ATTN_ALIBI), "alibi");
  GA_CHECK_ALIGN("attn", io->sinks, GA_F32, "sinks");
  GA_CHECK_ALIGN("attn", io->alibi, GA_F32, "alibi");
  GA_TRY(check_borders(d, io));
  GA_TRY(check_io_strides(d, io));
  GA_TRY(check_stretch_lists(d, io));
  return check_overlap(d, io);
}

/* All-zero strides mean contiguous [batch, token, head, dim]; PAGED K and V: [page, page_size, head, dim]; 8-bit V with
 * such a Q: [batch, head, dim, token]. */
static void complete_strides(const ga_attn_desc *d, ga_attn_io *io) {
  ga_attn_strides *s[4] = {&io->q_stride, &io->k_stride, &io->v_stride, &io->o_stride};
  const bool paged = d->flags & GA_ATTN_PAGED;
  const int64_t heads[4] = {d->q_heads, d->kv_heads, d->kv_heads, d->q_heads};
  const int64_t dims[4] = {d->head_dim, d->head_dim, d->v_dim, d->v_dim};
  const int64_t tokens[4] = {d->max_q, paged ? d->page_size : d->max_kv, paged ? d->page_size : d->max_kv, d->max_q};
  const int64_t padded = ga_attn_fp8_padded(d->max_kv);
  if (ga_attn_is_scaled(d) && !io->v_stride.batch && !io->v_stride.token && !io->v_stride.head)
    io->v_stride =
        (ga_attn_strides){.token = padded, .head = d->v_dim * padded, .batch = d->kv_heads * d->v_dim * padded};
  for (int i = 0; i < 4; i++)
    if (!s[i]->batch && !s[i]->token && !s[i]->head)
      *s[i] = (ga_attn_strides){.head = dims[i], .token = heads[i] * dims[i], .batch = tokens[i] * heads[i] * dims[i]};
}

ga_status ga_attn_plan(ga_ctx *ctx, const ga_attn_desc *desc, ga_plan **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "attn: out is null");
  *out = NULL;
  ga_attn_desc full;
  GA_TAKE_DESC("attn", ctx, desc, ga_attn_desc, &full);
  GA_TRY(complete(&full));
  return ga_plan_make(ctx, GA_OP_attn, &full, sizeof full, out);
}

ga_status ga_attn_plan_row(ga_ctx *ctx, const ga_attn_desc *desc, const char *row, ga_plan **out) {
  GA_REQUIRE(out && row, GA_ERR_ARG, "attn: %s is null", out ? "row" : "out");
  *out = NULL;
  ga_attn_desc full;
  GA_TAKE_DESC("attn", ctx, desc, ga_attn_desc, &full);
  GA_TRY(complete(&full));
  return ga_plan_make_row(ctx, GA_OP_attn, row, &full, sizeof full, out);
}

/* Clears the rows of O, and entries of LSE, that no sequence has. */
static ga_status clear_rows_of_o(const ga_plan *plan, const ga_attn_io *io, ga_stream *stream) {
  if (!plan->after) return GA_OK;
  const ga_attn_desc *d = (const void *)plan->desc;
  const ga_clear_padding_io clear = {.q = io->o,
                                     .lse = d->flags & GA_ATTN_LSE ? io->lse : NULL,
                                     .q_stride = io->o_stride,
                                     .q_start = io->q_start,
                                     .q_len = d->flags & GA_ATTN_LENGTHS ? io->q_len : NULL,
                                     .q_tokens = io->q_tokens};
  return ga_clear_padding_run(plan->after, &clear, NULL, stream);
}

ga_status ga_attn_run(const ga_plan *plan, const ga_attn_io *io, void *workspace, ga_stream *stream) {
  GA_REQUIRE(plan && io, GA_ERR_ARG, "attn: %s is null", plan ? "io" : "plan");
  GA_REQUIRE(plan->op == GA_OP_attn, GA_ERR_ARG, "attn: the plan is for %s", ga_op_name(plan->op));
  GA_REQUIRE(workspace || !plan->steps.workspace_bytes, GA_ERR_ARG, "attn: workspace is null; %llu bytes needed",
             (unsigned long long)plan->steps.workspace_bytes);
  const ga_attn_desc *desc = (const void *)plan->desc;
  const bool has_queries = desc->batch && desc->max_q;
  if (!has_queries && !plan->after) return GA_OK;
  ga_attn_io full;
  GA_TAKE_IO(attn, desc, io, &full);
  if (io != &full) full = *io;
  complete_strides(desc, &full);
  if (has_queries) GA_TRY(check_io(desc, &full));
  GA_TRY(ga_stream_of(plan->ctx, stream, "attn", &stream));
  if (has_queries) GA_TRY(ga_plan_launch(plan, &full, workspace, stream));
  return clear_rows_of_o(plan, &full, stream);
}

ga_status ga_attn(ga_ctx *ctx, const ga_attn_desc *desc, const ga_attn_io *io, ga_stream *stream) {
  ga_attn_desc full;
  GA_TAKE_DESC("attn", ctx, desc, ga_attn_desc, &full);
  GA_TRY(complete(&full));
  const ga_plan *plan;
  GA_TRY(ga_plan_remember(ctx, GA_OP_attn, &full, sizeof full, &plan, &stream));
  return ga_attn_run(plan, io, ga_workspace_of(stream), stream);
}

GA_CHECK_DESC_ROOM(attn);

_Static_assert(GA_ATTN_MAX_KV_SEGMENTS == 4, "attn.toml says it as a number");
