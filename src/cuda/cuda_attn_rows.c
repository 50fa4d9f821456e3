#include "cuda/cuda_attn_rows.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/kargs_attn.h"
#include "cuda/cuda.h"

#define MAX_DIM 256
#define CHUNK 8           /* elements a lane has of a key */
#define ALIGN_BYTES 16    /* of K and V and their strides */
#define MIN_PART 32       /* keys a split should have at least */
#define BLOCKS_PER_SM 2
#define COUNTERS ((int64_t)(CUDA_COUNTER_BYTES / sizeof(int32_t)))

/* What both kernels ask for. */
static const char *refusal(const ga_kernel *k, const ga_attn_desc *d) {
  if (d->kv_dtype != (int32_t)k->dtype[1]) return "kv_dtype is another";
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)) return "carried state is not supported";
  if (d->parts) return "K and V in parts are not supported";
  if (d->head_dim > MAX_DIM || d->v_dim > MAX_DIM) return "head_dim or v_dim is above 256";
  if (d->head_dim % CHUNK || d->v_dim % CHUNK) return "head_dim and v_dim must be multiples of 8";
  if (d->max_q > 1 << 24 || d->max_kv > 1 << 30 || d->batch > 1 << 20) return "too many rows";
  return NULL;
}

const char *cuda_attn_rows_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return refusal(k, desc);
}

const char *cuda_attn_decode_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  const int32_t room = ((const cuda_attn_decode_variant *)k->impl)->d, dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  const char *reason = refusal(k, d);
  if (reason) return reason;
  if (dim > room) return "head_dim or v_dim is above the row's";
  if (room > 64 && dim <= room / 2) return "a row for smaller heads fits";
  if (k->dtype[1] == GA_E4M3 && (d->head_dim % 16 || d->v_dim % 16)) return "head_dim and v_dim must be multiples of 16";
  return NULL;
}

/* How a kernel cuts the work. */
typedef struct cut {
  int64_t tiles, units; /* tiles of packed rows of one kv head; of all heads and sequences */
  int64_t splits;       /* parts of the keys */
} cut;

static cut cut_of(const ga_attn_desc *d, int64_t rows, int64_t blocks, int64_t least) {
  cut c = {.tiles = ga_div_up(d->max_q * (d->q_heads / d->kv_heads), rows), .splits = 1};
  c.units = d->batch * d->kv_heads * c.tiles;
  const int64_t keys = d->window ? ga_min_i64(d->max_kv, d->window + d->max_q) : d->max_kv;
  /* As many as fill the machine, unless units do. */
  if (c.units && c.units <= COUNTERS) c.splits = ga_max_i64(1, ga_min_i64(blocks / c.units, ga_div_up(keys, least)));
  return c;
}
static cut cut_rows(const ga_attn_desc *d, const ga_caps *caps) {
  return cut_of(d, CUDA_ATTN_ROWS, (int64_t)caps->sms * BLOCKS_PER_SM, MIN_PART);
}
/* A block's warps take a step of 16 keys each. */
static cut cut_decode(const ga_kernel *k, const ga_attn_desc *d, const ga_caps *caps) {
  return cut_of(d, CUDA_ATTN_DECODE_ROWS, caps->sms, ((const cuda_variant *)k->impl)->threads / 2);
}

int32_t cuda_attn_decode_fit(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const int32_t from = ((const cuda_attn_decode_variant *)k->impl)->from;
  const int64_t keys = d->window ? ga_min_i64(d->max_kv, d->window + d->max_q) : d->max_kv;
  if (from == 0) return 0;
  return keys >= from * cut_decode(k, d, caps).splits ? 1 : -1;
}

uint64_t cuda_attn_rows_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k;
  const ga_attn_desc *d = desc;
  const cut c = cut_rows(d, caps);
  return c.splits == 1 ? 0 : (uint64_t)(c.units * c.splits * CUDA_ATTN_ROWS * (d->v_dim + 2)) * sizeof(float);
}

uint64_t cuda_attn_decode_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const cut c = cut_decode(k, d, caps);
  return c.splits == 1 ? 0 : (uint64_t)(c.units * c.splits * CUDA_ATTN_DECODE_ROWS * (d->v_dim + 4)) * sizeof(float);
}

static ga_status check_kv(ga_stream *stream, const ga_kernel *k, const char *name, const void *p, const ga_attn_strides *s) {
  const ga_dtype_traits *t = ga_dtype_info(k->dtype[1]);
  const bool bytes = t->is_quant || (k->dtype[1] == GA_E4M3 && k->arch == GA_ARCH_sm80); /* read byte by byte */
  const int64_t all[3] = {s->batch, s->token, s->head}, step = bytes ? 1 : ALIGN_BYTES / t->block_bytes;
  GA_TRY(cuda_check_pointer(stream, k, name, p, !bytes ? ALIGN_BYTES : t->is_quant ? 2 : 1));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] % step == 0, GA_ERR_ARG, "%s: a stride of %s is %lld; must be a multiple of %lld", k->id, name, (long long)all[i],
               (long long)step);
  return GA_OK;
}

static ga_status check_io(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a) {
  GA_TRY(cuda_check_pointer(stream, k, "q", a->q, (size_t)ga_dtype_info((ga_dtype)d->q_dtype)->block_bytes));
  GA_TRY(cuda_check_pointer(stream, k, "o", a->o, (size_t)ga_dtype_info((ga_dtype)d->o_dtype)->block_bytes));
  GA_TRY(check_kv(stream, k, "k", a->k, &a->k_stride));
  GA_TRY(check_kv(stream, k, "v", a->v, &a->v_stride));
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "q_start", a->q_start, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "kv_len", a->kv_len, sizeof(int32_t)));
  return cuda_check_pointer(stream, k, "page_table", a->page_table, sizeof(int32_t));
}

/* Lanes that share a key. */
static int32_t lanes_of(const ga_attn_desc *d) {
  const int32_t dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  return dim <= 8 * CHUNK ? 8 : dim <= 16 * CHUNK ? 16 : 32;
}

static ga_status enqueue(const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a, const cut *c, void *workspace, ga_stream *stream) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  const cuda_variant *v = k->impl;
  const ga_kargs_attn_rows args = {
      .q = a->q, .k = a->k, .v = a->v, .o = a->o,
      .lse = d->flags & GA_ATTN_LSE ? a->lse : NULL,
      .q_start = varlen ? a->q_start : NULL,
      .kv_start = varlen && !paged ? a->kv_start : NULL,
      .kv_len = paged ? a->kv_len : NULL,
      .page_table = paged ? a->page_table : NULL,
      .sinks = d->flags & GA_ATTN_SINKS ? a->sinks : NULL,
      .alibi = d->flags & GA_ATTN_ALIBI ? a->alibi : NULL,
      .partial = workspace,
      .counter = (int32_t *)(uintptr_t)cuda_counters_of(stream),
      .q_batch = a->q_stride.batch, .q_token = a->q_stride.token, .q_head = a->q_stride.head,
      .k_batch = a->k_stride.batch, .k_token = a->k_stride.token, .k_head = a->k_stride.head,
      .v_batch = a->v_stride.batch, .v_token = a->v_stride.token, .v_head = a->v_stride.head,
      .o_batch = a->o_stride.batch, .o_token = a->o_stride.token, .o_head = a->o_stride.head,
      .page_stride = a->page_table_stride,
      .rows_q = (int32_t)d->max_q, .rows_k = (int32_t)d->max_kv,
      .q_heads = d->q_heads, .group = d->q_heads / d->kv_heads, .head_dim = d->head_dim, .v_dim = d->v_dim,
      .q_dtype = d->q_dtype, .o_dtype = d->o_dtype,
      .causal = (d->flags & GA_ATTN_CAUSAL) != 0, .window = d->window, .page_size = d->page_size,
      .tiles = (int32_t)c->tiles, .splits = (int32_t)c->splits, .lanes = lanes_of(d),
      .scale = d->scale, .softcap = d->softcap, .kv_ready = (d->flags & GA_ATTN_KV_READY) != 0};
  const int64_t blocks = c->units * c->splits;
  GA_REQUIRE(blocks <= INT32_MAX, GA_ERR_SHAPE, "%s: %lld blocks of work", k->id, (long long)blocks);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1}, .block = {v->threads, 1, 1}, .shared_bytes = v->shared_bytes, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_attn_rows(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const cut c = cut_rows(d, &stream->device->caps);
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(check_io(stream, k, d, io));
  return enqueue(k, d, io, &c, workspace, stream);
}

ga_status cuda_attn_decode(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const cut c = cut_decode(k, d, &stream->device->caps);
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(check_io(stream, k, d, io));
  return enqueue(k, d, io, &c, workspace, stream);
}
