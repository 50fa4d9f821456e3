#include "op/op.h"
#include "op/op_stretch.h"
#include "opdef/attn_rows.h"

#define OP "attn_bwd"

static ga_status check_heads(const ga_attn_bwd_desc *d) {
  GA_REQUIRE(d->q_heads % d->kv_heads == 0, GA_ERR_SHAPE,
             OP ": q_heads %d, kv_heads %d; q_heads must be a multiple of kv_heads", d->q_heads, d->kv_heads);
  const int64_t dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  GA_TRY(ga_check_elements(OP, "q", d->batch, d->max_q, d->q_heads, dim));
  return ga_check_elements(OP, "k", d->batch, d->max_kv, d->kv_heads, dim);
}

static ga_status check_dtypes(const ga_attn_bwd_desc *d) {
  GA_REQUIRE(d->grad_dtype == GA_F32 || d->grad_dtype == d->dtype, GA_ERR_DTYPE,
             OP ": grad_dtype is %s; allowed: f32, or dtype = %s", ga_dtype_name((ga_dtype)d->grad_dtype),
             ga_dtype_name((ga_dtype)d->dtype));
  GA_REQUIRE(d->grad_dtype == GA_F32 || !(d->flags & GA_ATTN_BWD_ADDS), GA_ERR_DTYPE,
             OP ": grad_dtype is %s; ADD_DQ and ADD_DKV need f32", ga_dtype_name((ga_dtype)d->grad_dtype));
  return GA_OK;
}

static ga_status check_totals(const ga_attn_bwd_desc *d) {
  if (!(d->flags & GA_ATTN_VARLEN)) {
    GA_REQUIRE(d->total_q == 0 && d->total_kv == 0, GA_ERR_ARG,
               OP ": total_q %lld, total_kv %lld; must be 0 without VARLEN", (long long)d->total_q,
               (long long)d->total_kv);
    return GA_OK;
  }
  GA_REQUIRE(d->total_q >= 0 && d->total_q <= GA_DIM_MAX && d->total_kv >= 0 && d->total_kv <= GA_DIM_MAX, GA_ERR_SHAPE,
             OP ": total_q is %lld, total_kv %lld; must be 0 to 2^40", (long long)d->total_q, (long long)d->total_kv);
  return GA_OK;
}

static ga_status check_packed_fields(const ga_attn_bwd_desc *d) {
  GA_REQUIRE(d->flags & GA_ATTN_VARLEN || !(d->flags & (GA_ATTN_LENGTHS | GA_ATTN_KEEP_PADDING)), GA_ERR_ARG,
             OP ": flags 0x%x; LENGTHS and KEEP_PADDING need VARLEN", d->flags);
  GA_REQUIRE(d->flags & GA_ATTN_VARLEN || d->batch <= 1 || !d->lse_stride, GA_ERR_ARG,
             OP ": lse_stride is %lld; must be 0 without VARLEN, but for a batch of 1", (long long)d->lse_stride);
  const int64_t tokens = d->flags & GA_ATTN_VARLEN ? d->total_q : d->max_q;
  GA_REQUIRE(!d->lse_stride || d->lse_stride >= tokens, GA_ERR_ARG,
             OP ": lse_stride is %lld; must be 0, or at least %s, %lld", (long long)d->lse_stride,
             d->flags & GA_ATTN_VARLEN ? "total_q" : "max_q", (long long)tokens);
  return check_totals(d);
}

static ga_status complete(ga_attn_bwd_desc *d) {
  GA_TRY(ga_attn_bwd_complete_fields(d));
  GA_REQUIRE(d->batch == 0 || (d->max_q <= GA_DIM_MAX / d->batch && d->max_kv <= GA_DIM_MAX / d->batch), GA_ERR_SHAPE,
             OP ": batch %lld, max_q %lld, max_kv %lld; at most 2^40 tokens in all", (long long)d->batch,
             (long long)d->max_q, (long long)d->max_kv);
  GA_TRY(check_heads(d));
  if (d->flags & GA_ATTN_BWD_ADD) d->flags = (d->flags & ~(uint32_t)GA_ATTN_BWD_ADD) | GA_ATTN_BWD_ADDS;
  GA_TRY(check_dtypes(d));
  GA_TRY(check_packed_fields(d));
  if (d->scale == 0) d->scale = 1.0f / sqrtf((float)d->head_dim);
  if (d->max_q == 0 && d->max_kv == 0) d->batch = 0; /* else kernels walk over sequences of nothing */
  return GA_OK;
}

static bool distinct(const ga_attn_bwd_io *io) {
  const void *in[] = {io->q, io->k, io->v, io->o, io->dout};
  const void *out[] = {io->dq, io->dk, io->dv};
  for (int i = 0; i < 3; i++) {
    if (!out[i]) continue; /* legal where there are no keys or no queries */
    for (int j = 0; j < 5; j++)
      if (out[i] == in[j]) return false;
    if (out[i] == out[(i + 1) % 3]) return false;
  }
  return true;
}

static ga_status check_aligned(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *io) {
  const struct {
    const void *p;
    int32_t dtype;
    const char *name;
  } all[] = {{io->q, d->dtype, "q"},           {io->k, d->dtype, "k"},
             {io->v, d->dtype, "v"},           {io->o, d->dtype, "o"},
             {io->dout, d->dtype, "dout"},     {io->lse, GA_F32, "lse"},
             {io->dq, d->grad_dtype, "dq"},    {io->dk, d->grad_dtype, "dk"},
             {io->dv, d->grad_dtype, "dv"},    {io->dsinks, GA_F32, "dsinks"},
             {io->sinks, GA_F32, "sinks"},     {io->alibi, GA_F32, "alibi"},
             {io->q_start, GA_I32, "q_start"}, {io->kv_start, GA_I32, "kv_start"},
             {io->q_len, GA_I32, "q_len"},     {io->kv_len, GA_I32, "kv_len"}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) GA_CHECK_ALIGN(OP, all[i].p, all[i].dtype, all[i].name);
  return GA_OK;
}

static ga_status check_io(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *io) {
  GA_TRY(check_aligned(d, io));
  GA_CHECK_PTR(OP, io->sinks || !(d->flags & GA_ATTN_SINKS), "sinks");
  GA_CHECK_PTR(OP, io->dsinks || !(d->flags & GA_ATTN_SINKS), "dsinks"); /* written without a sequence, too */
  if (d->batch == 0) return GA_OK;
  if (d->max_q) {
    GA_CHECK_PTR(OP, io->q, "q");
    GA_CHECK_PTR(OP, io->o, "o");
    GA_CHECK_PTR(OP, io->dout, "dout");
    GA_CHECK_PTR(OP, io->lse, "lse");
    GA_CHECK_PTR(OP, io->dq, "dq");
  }
  if (d->max_kv) {
    GA_CHECK_PTR(OP, io->k, "k");
    GA_CHECK_PTR(OP, io->v, "v");
    GA_CHECK_PTR(OP, io->dk, "dk");
    GA_CHECK_PTR(OP, io->dv, "dv");
  }
  GA_CHECK_PTR(OP, io->alibi || !(d->flags & GA_ATTN_ALIBI), "alibi");
  GA_CHECK_PTR(OP, io->q_start || !(d->flags & GA_ATTN_VARLEN), "q_start");
  GA_CHECK_PTR(OP, io->kv_start || !(d->flags & GA_ATTN_VARLEN), "kv_start");
  GA_REQUIRE(distinct(io), GA_ERR_ARG, OP ": dq, dk or dv overlaps another argument");
  return GA_OK;
}

/* All-zero strides mean contiguous [batch, token, head, dim]. */
static void complete_strides(const ga_attn_bwd_desc *d, ga_attn_bwd_io *io) {
  ga_attn_strides *q[] = {&io->q_stride, &io->dq_stride, &io->o_stride, &io->dout_stride};
  ga_attn_strides *kv[] = {&io->k_stride, &io->dk_stride, &io->v_stride, &io->dv_stride};
  for (int i = 0; i < 8; i++) {
    ga_attn_strides *s = i < 4 ? q[i] : kv[i - 4];
    const int64_t dim = i % 4 < 2 ? d->head_dim : d->v_dim, heads = i < 4 ? d->q_heads : d->kv_heads;
    if (!s->batch && !s->token && !s->head)
      *s = (ga_attn_strides){.head = dim, .token = heads * dim, .batch = (i < 4 ? d->max_q : d->max_kv) * heads * dim};
  }
}

static ga_status check_io_strides(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *io) {
  const ga_attn_strides *const s[8] = {&io->q_stride, &io->dq_stride, &io->o_stride, &io->dout_stride,
                                       &io->k_stride, &io->dk_stride, &io->v_stride, &io->dv_stride};
  static const char *const names[8] = {"q_stride", "dq_stride", "o_stride", "dout_stride",
                                       "k_stride", "dk_stride", "v_stride", "dv_stride"};
  const bool packed = d->flags & GA_ATTN_VARLEN;
  for (int i = 0; i < 8; i++) {
    const int64_t tokens = i < 4 ? packed ? d->total_q : d->max_q : packed ? d->total_kv : d->max_kv;
    GA_TRY(ga_check_strides(OP, names[i], s[i], packed ? 1 : d->batch, tokens, i < 4 ? d->q_heads : d->kv_heads));
  }
  return GA_OK;
}

ga_status ga_attn_bwd_complete(ga_attn_bwd_desc *d) { return complete(d); }
ga_status ga_attn_bwd_complete_io(const ga_attn_bwd_desc *d, ga_attn_bwd_io *io) {
  GA_TRY(check_io(d, io));
  complete_strides(d, io);
  return check_io_strides(d, io);
}

/* Clears the rows of gradients that no sequence has. Gradients that are added to keep their values there. */
static ga_status clear_rows_of_gradients(const ga_plan *plan, const ga_attn_bwd_io *io, ga_stream *stream) {
  if (!plan->after) return GA_OK;
  const ga_attn_bwd_desc *d = (const void *)plan->desc;
  const bool dq = !(d->flags & GA_ATTN_BWD_ADD_DQ), dkv = !(d->flags & GA_ATTN_BWD_ADD_DKV),
             lengths = d->flags & GA_ATTN_LENGTHS;
  const ga_clear_padding_io clear = {.q = dq ? io->dq : NULL,
                                     .k = dkv ? io->dk : NULL,
                                     .v = dkv ? io->dv : NULL,
                                     .q_stride = io->dq_stride,
                                     .k_stride = io->dk_stride,
                                     .v_stride = io->dv_stride,
                                     .q_start = io->q_start,
                                     .kv_start = io->kv_start,
                                     .q_len = lengths ? io->q_len : NULL,
                                     .kv_len = lengths ? io->kv_len : NULL,
                                     .q_tokens = d->total_q,
                                     .kv_tokens = d->total_kv};
  return ga_clear_padding_run(plan->after, &clear, NULL, stream);
}

GA_DEFINE_OP_FORMS(attn_bwd, GA_IO_WITH_STRIDES, clear_rows_of_gradients);
