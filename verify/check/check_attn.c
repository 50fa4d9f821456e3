/* Attention: dense, packed (VARLEN) and PAGED, in parts, with carried state, any strides. Lengths of sequences and of
 * parts and the order of pages are functions of c->bits. Pages that no sequence owns, and the end of each last page,
 * hold NaN. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "opdef/attn_fp8.h"
#include "opdef/attn_rows.h"
#include "ref/ref.h"
#include "verify/check/check.h"
#include "verify/check/check_attn_fp8.h"
#include "verify/check/check_attn_plain.h"
#include "verify/check/check_attn_stretch.h"

#define PAD_STRIDES (c->bits & 1)
#define RAMP        (c->mode == CHECK_NORMAL && (c->bits >> 12 & 3) == 0) /* logits that grow along the keys */
#define SPIKES \
  (RAMP && !(c->bits >> 18 & 1)) /* a few keys tower over all others, each over the ones before or behind it */

#define FEW  (!RAMP && (c->bits >> 24 & 7) == 0) /* one key, or two, or 17 */
#define GAIN (c->bits >> 27 & 15)                /* of the queries: eight draws in 16 have 1 */

/* --- description --- */

/* Half of the rows' refusals would come from these: fewer of them, and pages of all sizes beside those that GPUs take.
 * */
static void draw_state(check_case *c, ga_attn_desc *d) {
  if (check_pick(c, 6) == 0) d->flags |= GA_ATTN_STATE_IN;
  if (check_pick(c, 6) == 0) d->flags = (d->flags | GA_ATTN_STATE_OUT) & ~(uint32_t)(GA_ATTN_LSE | GA_ATTN_SINKS);
  if (check_pick(c, 6) == 0 && !(d->flags & (GA_ATTN_VARLEN | GA_ATTN_PAGED)))
    d->kv_segments = 1 + check_pick(c, GA_ATTN_MAX_KV_SEGMENTS);
  /* Of edge shapes some always have windows wider than all queries and keys, before which a part may lie. */
  if (c->edge % 5 != 2 || check_pick(c, 2)) return;
  d->flags = (d->flags | GA_ATTN_CAUSAL) & ~(uint32_t)(GA_ATTN_VARLEN | GA_ATTN_PAGED);
  d->page_size = 0;
  d->kv_segments = 2;
  d->window = (int32_t)(d->max_q + d->max_kv) + 1 + check_pick(c, 9);
}

static void draw_masks(check_case *c, ga_attn_desc *d) {
  const uint32_t all[] = {GA_ATTN_CAUSAL, GA_ATTN_CAUSAL, GA_ATTN_VARLEN, GA_ATTN_PAGED,
                          GA_ATTN_SINKS,  GA_ATTN_ALIBI,  GA_ATTN_LSE};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    if (check_pick(c, 3) == 0 || (i == 0 && check_pick(c, 2))) d->flags |= all[i];
  if (check_pick(c, 3) == 0) d->window = 1 + check_pick(c, check_pick(c, 2) ? 20 : 400);
  if (d->flags & GA_ATTN_PAGED) d->page_size = check_pick(c, 2) ? 1 + check_pick(c, 40) : 8 * (1 + check_pick(c, 20));
  if (check_pick(c, 3) == 0) d->softcap = 5 + 20 * (float)ga_rng_unit(&c->rng);
  if (d->max_kv % 2) d->flags |= GA_ATTN_KV_READY; /* true here: nothing runs before */
}

/* Queries times a gain: the larger it is, the fewer keys have the weight of a row. */
static double gain_of(const check_case *c) {
  static const double gains[] = {0.25, 1.5, 2, 3, 4, 8, 16, 64};
  return GAIN < GA_COUNT_OF(gains) ? gains[GAIN] : 1;
}

static bool is_peaked(const check_case *c, const ga_attn_desc *d) {
  return c->mode == CHECK_NORMAL && !c->timing && !RAMP && !ga_attn_is_scaled(d) && gain_of(c) != 1;
}

/* Every row is to see the first key, and nothing to bring another near the largest. */
static void draw_spikes(ga_attn_desc *d) {
  d->flags &= GA_ATTN_CAUSAL | GA_ATTN_SINKS | GA_ATTN_LSE;
  d->window = d->page_size = d->kv_segments = 0;
  d->softcap = 0;
}

/* Rows that few keys share, and one that has all: O is that key's V. */
static void draw_few(const check_case *c, ga_attn_desc *d) {
  static const int64_t keys[] = {1, 1, 2, 17};
  if (FEW) {
    d->max_kv = keys[c->bits >> 22 & 3];
    d->kv_segments = 0;
  } else if (is_peaked(c, d) && c->kernel->op_flags & GA_ATTN_ROW_WEIGHTS_16 && c->bits >> 22 & 1) {
    d->batch = 1; /* many blocks, most of which come after a row's first maximum, and rows enough to tell chance */
    d->max_q = 70 + (c->bits >> 8 & 63);
    d->max_kv = ga_max_i64(d->max_kv, 500 + (c->bits >> 12 & 511));
    d->kv_heads = 1;
    d->q_heads = 4;
    draw_spikes(d);
    if (c->bits >> 7 & 1) d->flags &= GA_ATTN_LSE;
  }
}

/* The ladder takes one head dim and no feature: among all draws it would hardly find one. A few keep what it must
 * refuse. */
static void draw_ladder(check_case *c, ga_attn_desc *d) {
  if (check_pick(c, 20) == 0) return;
  d->head_dim = d->v_dim = 128;
  d->scale = 1.0f / sqrtf(128);
  d->flags &= GA_ATTN_LSE;
  d->window = d->page_size = 0;
  d->softcap = 0;
}

/* Windows and ALiBi as encoders have them: half of the draws that may. */
static void draw_both_ways(const check_case *c, ga_attn_desc *d) {
  const uint32_t others = GA_ATTN_CAUSAL | GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT;
  const bool may = !(d->flags & others) && !d->kv_segments && !ga_attn_is_scaled(d);
  if (may && (d->window || d->flags & GA_ATTN_ALIBI) && c->bits >> 31 & 1) d->flags |= GA_ATTN_SYMMETRIC;
  if (d->flags & GA_ATTN_SYMMETRIC && d->window && !(c->bits >> 26 & 7)) d->window = INT32_MAX; /* as good as none */
}

static int64_t total_q(const check_case *c, const ga_attn_desc *d);

/* Packed sequences with lengths of their own, and LSE by tokens: each in half of the draws that may. */
static void draw_packed(const check_case *c, ga_attn_desc *d) {
  if (!(d->flags & GA_ATTN_VARLEN)) return;
  if (!(d->flags & GA_ATTN_PAGED) && c->bits >> 20 & 1) d->flags |= GA_ATTN_LENGTHS;
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT) || c->bits >> 21 & 1) return;
  d->lse_stride = ga_max_i64(1, total_q(c, d)) + (c->bits >> 4 & 7);
}

static void draw(check_case *c) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_Q8_0, GA_Q4_0, GA_E4M3};
  ga_attn_desc *d = c->desc;
  *d = (ga_attn_desc)GA_ATTN_DESC_INIT;
  d->q_dtype = check_dtype(c, 0);
  d->kv_dtype = check_dtype_of(c, 1, caches, (int)GA_COUNT_OF(caches));
  d->o_dtype = check_dtype(c, 2);
  const int32_t block = ga_dtype_info((ga_dtype)d->kv_dtype)->block_elems;
  const bool large = check_pick(c, 3) == 0;
  d->batch = check_extent(c, 0, large ? 2 : 4);
  d->max_q = check_extent(c, 0, large ? 150 : 12);
  d->max_kv = check_pick(c, 3) ? check_extent(c, 0, 330) : check_dim(c, 0, large ? 330 : 1500);
  if (RAMP) d->max_kv = 150 + check_pick(c, 180); /* several blocks */
  /* Few tiles, whose keys several blocks share. */
  const bool cut = c->kernel->flags & GA_KERNEL_TENSOR && c->kernel->workspace && check_pick(c, 6) == 0;
  if (cut) d->batch = 1, d->max_q = 1 + check_pick(c, 12), d->max_kv = 500 + check_pick(c, 1500);
  d->kv_heads = 1 + check_pick(c, cut ? 2 : 3);
  d->q_heads = d->kv_heads * (check_pick(c, 8) ? 1 + check_pick(c, 5)
                                               : 6 + check_pick(c, 14)); /* groups that fill 64 rows, and that do not */
  const int32_t step = check_pick(c, 8) ? (int32_t)ga_max_i64(block, c->kernel->align / 2) : block;
  d->head_dim = (int32_t)check_dim_step(c, step, large ? 64 : 160, step);
  d->v_dim = check_pick(c, 2) ? d->head_dim : (int32_t)check_dim_step(c, step, large ? 64 : 160, step);
  d->scale = 1.0f / sqrtf((float)d->head_dim);
  draw_masks(c, d);
  if (c->kernel->flags & GA_KERNEL_TEACHING)
    draw_ladder(c, d);
  else
    draw_state(c, d);
  if (SPIKES) draw_spikes(d);
  draw_few(c, d);
  if (ga_attn_is_scaled(d)) check_attn_fp8_draw(c, d);
  if (check_attn_is_scaled_cache(d)) d->kv_segments = 0, d->kv_scale_tokens = check_pick(c, 4) ? 1 : 0;
  draw_both_ways(c, d);
  check_attn_stretch_draw(c, d, !SPIKES);
  draw_packed(c, d);
  /* One in five draws of batch-invariant rows. */
  if (c->kernel->op_flags & GA_ATTN_ROW_INVARIANT && c->bits % 5 == 0) d->flags |= GA_ATTN_INVARIANT;
}

/* --- lengths and pages --- */

static int64_t hashed(const check_case *c, int64_t b, int64_t most) {
  uint64_t x = c->bits * 0x100000001b3u + (uint64_t)b;
  const uint64_t h = ga_splitmix64(&x);
  return h % 5 == 0 ? most : (int64_t)(h / 5 % (uint64_t)(most + 1));
}

static int64_t length_q(const check_case *c, const ga_attn_desc *d, int64_t b) {
  return d->flags & GA_ATTN_VARLEN ? hashed(c, b, d->max_q) : d->max_q;
}

static int64_t length_kv(const check_case *c, const ga_attn_desc *d, int64_t b) {
  return d->flags & (GA_ATTN_VARLEN | GA_ATTN_PAGED) ? hashed(c, b + 1000, d->max_kv) : d->max_kv;
}

static int64_t part_kv(const check_case *c, const ga_attn_desc *d, int i) { return hashed(c, 2000 + i, d->max_kv); }

/* Round the diagonal, or round where windows end before the part. */
static int64_t part_shift(const check_case *c, const ga_attn_desc *d, int i) {
  const int64_t shift = hashed(c, 3000 + i, 2 * d->max_q + 40) - d->max_q / 2 - 20;
  return shift + (d->window && hashed(c, 4000 + i, 1) ? d->window : 0);
}

/* With LENGTHS either side may have gaps, and be in any order; sequences may share keys. */
static bool has_gaps_between(const check_case *c, const ga_attn_desc *d, bool kv) {
  return d->flags & GA_ATTN_LENGTHS && !(c->bits >> (kv ? 10 : 11) & 1);
}
static bool shares_keys(const check_case *c, const ga_attn_desc *d) {
  return has_gaps_between(c, d, true) && c->bits >> 12 & 1;
}

/* Tokens before sequence b; b = batch: of all. */
static int64_t first_token_of(const check_case *c, const ga_attn_desc *d, bool kv, int64_t b) {
  const bool gaps = has_gaps_between(c, d, kv), backwards = gaps && c->bits >> 13 & 1 && b < d->batch;
  const int64_t room = d->max_kv + 30;
  if (kv && shares_keys(c, d)) return b < d->batch ? hashed(c, 6000 + b, room - length_kv(c, d, b)) : room;
  int64_t sum = 0;
  for (int64_t i = 0; i < d->batch; i++) {
    if (backwards ? i <= b : i >= b) continue;
    sum += (kv ? length_kv(c, d, i) : length_q(c, d, i)) + (gaps ? hashed(c, (kv ? 8000 : 7000) + i, 9) : 0);
  }
  return sum;
}

static int64_t total_q(const check_case *c, const ga_attn_desc *d) { return first_token_of(c, d, false, d->batch); }
static int64_t total_kv(const check_case *c, const ga_attn_desc *d) { return first_token_of(c, d, true, d->batch); }

/* The sequence that a packed query is of; -1: of none. */
static int64_t sequence_of_query(const check_case *c, const ga_attn_desc *d, int64_t token) {
  for (int64_t b = 0; b < d->batch; b++) {
    const int64_t i = token - first_token_of(c, d, false, b);
    if (i >= 0 && i < length_q(c, d, b)) return b;
  }
  return -1;
}

static int64_t pages_a_sequence(const ga_attn_desc *d) { return ga_div_up(d->max_kv, d->page_size); }

/* A power of two, so that multiplying by an odd number permutes. */
static int64_t n_pages(const ga_attn_desc *d) {
  int64_t n = 1;
  while (n < d->batch * pages_a_sequence(d) + 1) n *= 2;
  return n;
}

static int64_t page_of(const ga_attn_desc *d, int64_t b, int64_t i) {
  return ((b * pages_a_sequence(d) + i) * 5 + 3) & (n_pages(d) - 1);
}

/* --- arguments --- */

typedef struct layout {
  int64_t n_batch, tokens;
} layout;

/* [batch, tokens, heads, width] with room between heads, tokens and batches when the draw wants it. */
static check_arg *tensor(const check_case *c, check_args *a, const char *name, size_t io_at, check_role role,
                         int32_t dtype, layout l, int64_t heads, int64_t width, ga_attn_strides *stride) {
  const ga_dtype_traits *t_info = ga_dtype_info((ga_dtype)dtype);
  const int64_t block = ga_max_i64(t_info->block_elems, c->kernel->align / t_info->block_bytes);
  stride->head = width + (PAD_STRIDES ? block * (c->bits >> 4 & 3) : 0);
  stride->token = heads * stride->head + (PAD_STRIDES ? block * (c->bits >> 6 & 3) : 0);
  if (PAD_STRIDES && c->bits & 2) { /* heads outermost */
    stride->token = width;
    stride->head = l.tokens * width + block;
    stride->batch = heads * stride->head;
  } else {
    stride->batch = l.tokens * stride->token + (PAD_STRIDES ? block * (c->bits >> 8 & 3) : 0);
  }
  check_arg *t = check_arg_add(a, name, io_at, role, dtype);
  const int64_t dim[4] = {l.n_batch, l.tokens, heads, width},
                steps[4] = {stride->batch, stride->token, stride->head, 1};
  t->n_dims = 4;
  t->align = (size_t)c->kernel->align;
  memcpy(t->dim, dim, sizeof dim);
  memcpy(t->stride, steps, sizeof steps);
  return t;
}

static void index_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  const bool q_len = has_gaps_between(c, d, false), kv_len = has_gaps_between(c, d, true);
  if (varlen) check_index(a, "q_start", offsetof(ga_attn_io, q_start), d->batch + !q_len, 0, 1)->fill = CHECK_FILL_OP;
  if (varlen && !paged)
    check_index(a, "kv_start", offsetof(ga_attn_io, kv_start), d->batch + !kv_len, 0, 1)->fill = CHECK_FILL_OP;
  if (q_len) check_index(a, "q_len", offsetof(ga_attn_io, q_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  if (kv_len) check_index(a, "kv_len", offsetof(ga_attn_io, kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  if (!paged) return;
  io->page_table_stride = pages_a_sequence(d) + 1;
  if (!d->q_stretches) check_index(a, "kv_len", offsetof(ga_attn_io, kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "page_table", offsetof(ga_attn_io, page_table), d->batch * io->page_table_stride, 0, 1)->fill =
      CHECK_FILL_OP;
}

static bool is_state(const check_arg *arg) { return !strncmp(arg->name, "state_", 6); }

static void state_arg(const ga_attn_desc *d, check_args *a, const char *name, size_t at, int64_t width) {
  const bool in = d->flags & GA_ATTN_STATE_IN, out = d->flags & GA_ATTN_STATE_OUT;
  /* Packed sequences leave entries past their lengths: INOUT. */
  const check_role role = !out ? CHECK_IN : in || d->flags & GA_ATTN_VARLEN ? CHECK_INOUT : CHECK_OUT;
  check_arg *arg = check_arg_add(a, name, at, role, GA_F32);
  const int64_t rows = d->batch * d->q_heads * d->max_q, dim[2] = {rows, width}, stride[2] = {width, 1};
  arg->n_dims = 2;
  memcpy(arg->dim, dim, sizeof dim);
  memcpy(arg->stride, stride, sizeof stride);
  arg->fill = CHECK_FILL_OP;
}

static void state_args(const ga_attn_desc *d, check_args *a) {
  if (!(d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT))) return;
  state_arg(d, a, "state_o", offsetof(ga_attn_io, state_o), d->v_dim);
  state_arg(d, a, "state_m", offsetof(ga_attn_io, state_m), 1);
  state_arg(d, a, "state_l", offsetof(ga_attn_io, state_l), 1);
}

/* All parts share the strides of the first. */
static void part_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io) {
  static const char *const names[GA_ATTN_MAX_KV_SEGMENTS][2] = {{"k", "v"}, {"k1", "v1"}, {"k2", "v2"}, {"k3", "v3"}};
  const layout most = {d->batch, d->max_kv};
  for (int i = 0; i < d->kv_segments; i++) {
    ga_attn_kv_segment *p = &io->kv_segments[i];
    const size_t at = offsetof(ga_attn_io, kv_segments) + (size_t)i * sizeof *p;
    p->kv = part_kv(c, d, i);
    p->shift = part_shift(c, d, i);
    check_arg *k = tensor(c, a, names[i][0], at + offsetof(ga_attn_kv_segment, k), CHECK_IN, d->kv_dtype, most,
                          d->kv_heads, d->head_dim, &io->k_stride);
    check_arg *v = tensor(c, a, names[i][1], at + offsetof(ga_attn_kv_segment, v), CHECK_IN, d->kv_dtype, most,
                          d->kv_heads, d->v_dim, &io->v_stride);
    k->dim[1] = v->dim[1] = p->kv;
    if (RAMP) k->fill = CHECK_FILL_OP;
  }
}

/* Of a cache: [batch or page, token, head], heads inside of tokens or the other way round; without scales of tokens now
 * and then one for all. */
static void scale_arg(const check_case *c, const ga_attn_desc *d, check_args *a, const char *name, size_t io_at,
                      layout kv, ga_attn_scale *s) {
  const bool whole = !d->kv_scale_tokens && c->bits >> 10 & 1, inside = PAD_STRIDES && c->bits >> 11 & 1;
  const int64_t tokens = d->kv_scale_tokens ? kv.tokens : 1, heads = whole ? 1 : d->kv_heads;
  check_arg *arg = check_arg_add(a, name, io_at + offsetof(ga_attn_scale, data), CHECK_IN, GA_F32);
  const int64_t dim[3] = {whole ? 1 : kv.n_batch, tokens, heads};
  const int64_t stride[3] = {tokens * heads + (PAD_STRIDES ? 3 : 0), inside ? heads : 1, inside ? 1 : tokens};
  arg->n_dims = 3;
  memcpy(arg->dim, dim, sizeof dim);
  memcpy(arg->stride, stride, sizeof stride);
  arg->fill = CHECK_FILL_OP;
  *s = (ga_attn_scale){.batch = whole ? 0 : stride[0], .block = stride[1], .head = whole ? 0 : stride[2]};
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_attn_desc *d = desc;
  ga_attn_io *io = (ga_attn_io *)(void *)a->io;
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  layout q = {d->batch, d->max_q}, kv = {d->batch, d->max_kv};
  if (varlen) q = (layout){1, total_q(c, d)};
  if (varlen) kv = (layout){1, total_kv(c, d)};
  if (paged) kv = (layout){n_pages(d), d->page_size};
  check_arg *t =
      tensor(c, a, "q", offsetof(ga_attn_io, q), CHECK_IN, d->q_dtype, q, d->q_heads, d->head_dim, &io->q_stride);
  if (RAMP || is_peaked(c, d)) t->fill = CHECK_FILL_OP;
  if (ga_attn_is_scaled(d)) check_attn_fp8_key(c, t);
  part_args(c, d, a, io);
  if (ga_attn_is_scaled(d)) {
    t = tensor(c, a, "k", offsetof(ga_attn_io, k), CHECK_IN, (int32_t)ga_attn_k_dtype(d), kv, d->kv_heads, d->head_dim,
               &io->k_stride);
    check_attn_fp8_key(c, t);
    check_attn_fp8_args(c, d, a, io);
  } else if (!d->kv_segments) {
    check_arg *k =
        tensor(c, a, "k", offsetof(ga_attn_io, k), CHECK_IN, d->kv_dtype, kv, d->kv_heads, d->head_dim, &io->k_stride);
    check_arg *v =
        tensor(c, a, "v", offsetof(ga_attn_io, v), CHECK_IN, d->kv_dtype, kv, d->kv_heads, d->v_dim, &io->v_stride);
    if (paged)
      k->fill = v->fill = CHECK_FILL_OP;
    else if (RAMP)
      k->fill = CHECK_FILL_OP;
  }
  if (check_attn_is_scaled_cache(d)) {
    scale_arg(c, d, a, "k_scale", offsetof(ga_attn_io, k_scale), kv, &io->k_scale);
    scale_arg(c, d, a, "v_scale", offsetof(ga_attn_io, v_scale), kv, &io->v_scale);
  }
  io->q_tokens = q.tokens;
  io->kv_tokens = kv.tokens;
  state_args(d, a);
  if (!(d->flags & GA_ATTN_STATE_OUT)) /* INOUT: rows between sequences stay */
    tensor(c, a, "o", offsetof(ga_attn_io, o), has_gaps_between(c, d, false) ? CHECK_INOUT : CHECK_OUT, d->o_dtype, q,
           d->q_heads, d->v_dim, &io->o_stride);
  if (d->flags & GA_ATTN_LSE && d->lse_stride)
    check_inout(a, "lse", offsetof(ga_attn_io, lse), GA_F32, d->q_heads, q.tokens, d->lse_stride);
  else if (d->flags & GA_ATTN_LSE) /* INOUT: entries past a packed sequence's length stay */
    check_inout(a, "lse", offsetof(ga_attn_io, lse), GA_F32, d->batch * d->q_heads, d->max_q, d->max_q);
  index_args(c, d, a, io);
  check_attn_stretch_args(c, d, a, io);
  check_arg *s = NULL;
  if (d->flags & GA_ATTN_SINKS)
    s = check_in(a, "sinks", offsetof(ga_attn_io, sinks), GA_F32, 1, d->q_heads, d->q_heads);
  if (s) s->fill = CHECK_FILL_RANGE, s->lo = -3, s->hi = 6;
  if (d->flags & GA_ATTN_ALIBI)
    s = check_in(a, "alibi", offsetof(ga_attn_io, alibi), GA_F32, 1, d->q_heads, d->q_heads);
  if (d->flags & GA_ATTN_ALIBI) s->fill = CHECK_FILL_RANGE, s->lo = 0, s->hi = 0.5;
}

/* Whether sequence b has a key among its slots [first, first + slots). */
static bool has_keys(const check_case *c, const ga_attn_desc *d, int64_t b, int64_t first, int64_t slots) {
  return d->q_stretches ? check_attn_stretch_has(c, d, first, slots) : first < length_kv(c, d, b);
}

/* Rows of pages: normal where a sequence has keys, NaN elsewhere. values: [page, slot, head, width]. */
static void fill_pages(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  const int64_t row = arg->dim[2] * arg->dim[3];
  for (int64_t i = 0; i < n; i++) values[i] = (double)NAN;
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t j = 0; j < d->max_kv; j++) {
      if (!has_keys(c, d, b, j, 1)) continue;
      double *x = values + (page_of(d, b, j / d->page_size) * d->page_size + j % d->page_size) * row;
      for (int64_t i = 0; i < row; i++) x[i] = ga_rng_normal(&c->rng);
    }
}

/* Every fourth row has seen nothing yet. */
static void fill_state(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const int64_t width = arg->dim[1];
  for (int64_t i = 0; i < n; i++) {
    const bool none = (i / width + c->bits) % 4 == 0;
    if (!strcmp(arg->name, "state_m"))
      values[i] = none ? -INFINITY : (double)(check_pick(c, 21) - 10);
    else
      values[i] = none ? 0 : arg->name[6] == 'l' ? 0.5 + 3 * ga_rng_unit(&c->rng) : ga_rng_normal(&c->rng);
  }
}

/* Nats of key j. Every 16th has 40 more than the one before it, or behind it: the row's weight is all on one key. Or 22
 * more up to the end of a block of 64 keys, and 22 less behind that: a block has some 2^127 times the weight of the one
 * before it, which f32 holds, while the inverse is flushed to 0; what follows is small, but no longer lost. */
static double spike(const check_case *c, int64_t j, int64_t keys) {
  const int64_t step = 16, at = c->bits >> 17 & 1 ? j : (keys - 1) / step * step - j;
  if (j % step) return 0;
  const int64_t peak = keys * 3 / 4 / (4 * step) * 4 + 3, off = at / step > peak ? at / step - peak : peak - at / step;
  return c->bits >> 16 & 1 ? 40 * (double)(at / step + 1) : 22 * (double)(peak - off + 1);
}

/* Normal, but for the first column, whose products are `rate` nats a key, up or down: maxima that come late, and
 * overflow whatever a kernel takes for them from a row's first keys. values: [batch, token, head, width]. */
static void fill_ramp(check_case *c, const check_arg *arg, double *values, int64_t n) {
  static const double rates[] = {0.1, 0.6, 1, 4, -0.1, -0.6, -1, -4};
  const ga_attn_desc *d = c->desc;
  const double q0 = 8, rate = rates[c->bits >> 15 & 7];
  const int64_t width = arg->dim[3], heads = arg->dim[2], tokens = arg->dim[1];
  for (int64_t i = 0; i < n; i++) {
    const int64_t j = i / width / heads % tokens;
    const double x = SPIKES ? spike(c, j, tokens) : rate * (double)j;
    if (i % width)
      values[i] = ga_rng_normal(&c->rng);
    else
      values[i] = arg->name[0] == 'q' ? q0 : x / (q0 * (double)d->scale);
  }
}

/* Over four doublings, of V now and then next to nothing; of K 1 where logits ramp; NaN where no sequence has a key.
 * values: [batch or page, token, head]. */
static void fill_scales(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  const bool value = arg->name[0] == 'v', pages = d->flags & GA_ATTN_PAGED && arg->dim[0] > 1;
  for (int64_t i = 0; i < n; i++) {
    values[i] = RAMP && !value ? 1 : exp2(4 * ga_rng_unit(&c->rng) - 3);
    if (value && check_pick(c, 12) == 0) values[i] *= 0x1p-50;
  }
  for (int64_t i = 0; i < n && pages; i++) {
    const int64_t page = i / arg->dim[2] / arg->dim[1], token = d->kv_scale_tokens ? i / arg->dim[2] % arg->dim[1] : 0;
    bool owned = false;
    for (int64_t b = 0; b < d->batch; b++)
      for (int64_t j = token; j < length_kv(c, d, b) && !owned; j += d->page_size)
        owned = page_of(d, b, j / d->page_size) == page;
    if (!owned) values[i] = (double)NAN;
  }
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  if (ga_attn_is_scaled(d)) {
    check_attn_fp8_fill(c, arg, values, n);
    return;
  }
  if (is_state(arg)) {
    fill_state(c, arg, values, n);
    return;
  }
  if (arg->n_dims == 3) {
    fill_scales(c, arg, values, n);
    return;
  }
  if (arg->n_dims == 4) {
    if (d->flags & GA_ATTN_PAGED && arg->name[0] != 'q')
      fill_pages(c, arg, values, n);
    else if (is_peaked(c, d))
      for (int64_t i = 0; i < n; i++) values[i] = gain_of(c) * ga_rng_normal(&c->rng);
    else
      fill_ramp(c, arg, values, n);
    return;
  }
  const int64_t stride = (d->flags & GA_ATTN_PAGED) ? pages_a_sequence(d) + 1 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (!strcmp(arg->name, "q_start") || !strcmp(arg->name, "kv_start"))
      values[i] = (double)first_token_of(c, d, arg->name[0] == 'k', i);
    else if (!strcmp(arg->name, "kv_len"))
      values[i] = (double)length_kv(c, d, i);
    else if (!strcmp(arg->name, "q_len"))
      values[i] = (double)length_q(c, d, i);
    else /* with stretches pages without a key are of no number either */
      values[i] =
          i % stride < stride - 1 && (!d->q_stretches || has_keys(c, d, 0, i % stride * d->page_size, d->page_size))
              ? (double)page_of(d, i / stride, i % stride)
              : 1e9;
  }
}

/* Rows of Q, K and V between sequences. [batch, token, head, width], packed: one batch. */
static void unread(const check_case *c, const check_arg *arg, bool *none, int64_t n) {
  const ga_attn_desc *d = c->desc;
  const bool kv = arg->name[0] != 'q';
  if (arg->n_dims != 4 || !has_gaps_between(c, d, kv)) return;
  const int64_t row = arg->dim[2] * arg->dim[3];
  memset(none, 1, (size_t)n);
  for (int64_t b = 0; b < d->batch; b++)
    memset(none + first_token_of(c, d, kv, b) * row, 0, (size_t)((kv ? length_kv(c, d, b) : length_q(c, d, b)) * row));
}

static void oracle_types(void *desc) { ((ga_attn_desc *)desc)->o_dtype = GA_F64; }

/* --- comparing --- */

/* States that mean the same differ in m: they are compared as O / l and log l + m; without weights, as they are. */
static void canonical(const check_case *c, check_args *a, bool after) {
  const ga_attn_desc *d = c->desc;
  if (!(d->flags & GA_ATTN_STATE_OUT)) return;
  float *data[3];
  static const char *const names[3] = {"state_o", "state_m", "state_l"};
  for (int i = 0; i < 3; i++) {
    const check_arg *arg = check_find(a, names[i]);
    data[i] = (float *)(void *)((after ? arg->after : arg->before) + arg->at);
  }
  for (int64_t r = 0; r < d->batch * d->q_heads * d->max_q; r++) {
    const float l = data[2][r];
    if (l == 0) continue;
    data[1][r] = (float)((double)data[1][r] * 0.69314718055994530942 + log((double)l));
    data[2][r] = isnan(l) ? l : 1;
    for (int i = 0; i < d->v_dim; i++) data[0][r * d->v_dim + i] /= l;
  }
}

typedef struct columns {
  const check_case *c;
  const ga_attn_desc *d;
  bool *bad; /* [sequence][kv head][v_dim]: V has an infinity or a NaN there */
} columns;

static void mark_column(const columns *x, const void *v, int64_t at, int64_t column) {
  if (!isfinite(ga_ref_load((ga_dtype)x->d->kv_dtype, v, at))) x->bad[column] = true;
}

/* All keys that a sequence has. */
static void mark_columns(const columns *x, const ga_attn_io *a) {
  const ga_attn_desc *d = x->d;
  for (int64_t b = 0; b < d->batch; b++) {
    check_attn_row r = {.d = d, .a = a, .b = b, .n_kv = length_kv(x->c, d, b)};
    if (d->flags & GA_ATTN_VARLEN && !(d->flags & GA_ATTN_PAGED)) r.kv_first = a->kv_start[b];
    if (d->kv_segments) r.n_kv = 0;
    for (int i = 0; i < d->kv_segments; i++) r.n_kv += a->kv_segments[i].kv;
    if (d->q_stretches) r = check_attn_sequence(d, a, b * d->q_stretches);
    for (int head = 0; head < d->kv_heads; head++)
      for (int64_t j = 0; j < r.n_kv; j++) {
        r.h = head * (d->q_heads / d->kv_heads);
        const check_attn_key y = check_attn_key_of(&r, j);
        const int64_t at = check_attn_kv_at(&r, &a->v_stride, y.j), column = (b * d->kv_heads + head) * d->v_dim;
        for (int i = 0; i < d->v_dim; i++) mark_column(x, y.v, at + i, column + i);
      }
  }
}

/* Elements of O (or of its state) that may be no number because their column of V has one: see GA_ATTN_ROW_V_FINITE. */
static void excuse(const check_case *c, const check_arg *arg, const void *io, bool *excused, int64_t n) {
  const ga_attn_desc *d = c->oracle_desc;
  const bool o = !strcmp(arg->name, "o");
  if (!(c->kernel->op_flags & GA_ATTN_ROW_V_FINITE) || (!o && strcmp(arg->name, "state_o"))) return;
  columns x = {.c = c, .d = d};
  void *p;
  if (ga_mem_zalloc((size_t)(d->batch * d->kv_heads * d->v_dim) + 1, 1, "columns", &p) != GA_OK) return;
  x.bad = p;
  if (ga_attn_is_scaled(d))
    check_attn_fp8_mark(d, io, x.bad);
  else
    mark_columns(&x, io);
  const int32_t group = d->q_heads / d->kv_heads;
  int64_t b = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t column = i % d->v_dim, row = i / d->v_dim; /* o: [batch, token, head], state: [batch, head, token] */
    const int64_t head = o ? row % d->q_heads : row / d->max_q % d->q_heads;
    if (column > 0)
      ; /* the row's b */
    else if (!o || !(d->flags & GA_ATTN_VARLEN))
      b = row / (d->q_heads * d->max_q);
    else
      b = sequence_of_query(c, d, row / d->q_heads);
    excused[i] = b >= 0 && x.bad[(b * d->kv_heads + head / group) * d->v_dim + column];
  }
  ga_mem_free(p);
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_attn_desc *d = desc;
  (void)snprintf(text, capacity,
                 "flags=0x%x window=%d page_size=%d softcap=%g scale=%g parts=%d scale_tokens=%d,%d stretches=%d,%d "
                 "lse_stride=%lld",
                 d->flags, d->window, d->page_size, (double)d->softcap, (double)d->scale, d->kv_segments,
                 d->q_scale_tokens, d->kv_scale_tokens, d->q_stretches, d->kv_stretches, (long long)d->lse_stride);
}

/* --- error unit --- */

/* Mean of |x| over the finite elements. */
static double mean_size(const check_arg *arg, const void *data) {
  double sum = 0;
  int64_t n = check_count(arg), finite = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = fabs(ga_ref_load(arg->dtype, data, check_at(arg, i)));
    if (!isfinite(x)) continue;
    sum += x;
    finite++;
  }
  return finite ? sum / (double)finite : 0;
}

static double mean_scale(const check_case *c, const char *name) {
  const check_arg *arg = check_find(&c->oracle, name);
  return mean_size(arg, arg->before + arg->at);
}

/* Mean scale of the keys that a sequence has in a head, where it is largest. */
static double cache_scale(const ga_attn_desc *d, const ga_attn_io *a, const ga_attn_scale *s) {
  double most = 0;
  for (int64_t b = 0; b < d->batch; b++) {
    check_attn_row r = check_attn_sequence(d, a, b);
    for (r.h = 0; r.h < d->q_heads; r.h += d->q_heads / d->kv_heads) {
      double sum = 0;
      for (int64_t j = 0; j < r.n_kv; j++) sum += (double)check_attn_scale_of(&r, s, j);
      most = fmax(most, r.n_kv ? sum / (double)r.n_kv : 0);
    }
  }
  return most;
}

/* The same over an input and its parts. */
static double mean_of_arg(const check_case *c, const char *name) {
  double most = 0;
  for (int i = 0; i < c->oracle.n; i++) {
    const check_arg *arg = &c->oracle.arg[i];
    if (arg->name[0] != name[0] || (arg->name[1] && arg->name[1] > '9')) continue;
    most = fmax(most, mean_size(arg, arg->before + arg->at));
  }
  return most;
}

/* Size of the largest logit of each row of o, [batch, token, head]. scratch: [2 head_dim]. */
static void row_logits(const ga_attn_desc *d, const ga_attn_io *a, double *most, double *scratch) {
  for (int64_t b = 0; b < check_attn_sequences(d); b++) {
    check_attn_row r = check_attn_sequence(d, a, b);
    const int64_t first = d->flags & GA_ATTN_VARLEN ? r.q_first : r.b * d->max_q + (r.stretch ? r.q_first : 0);
    double *row = most + first * d->q_heads;
    r.q = scratch;
    r.kv = scratch + d->head_dim;
    for (r.i = 0; r.i < r.n_q; r.i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) {
        float x = -INFINITY;
        check_attn_load_query(&r);
        for (int64_t j = 0; j < r.n_kv; j++) x = fmaxf(x, check_attn_logit(&r, j));
        *row++ = isfinite(x) ? (double)fabsf(x) : 0;
      }
  }
}

/* Rounding a logit of size L moves a weight by L spacings: of f32 where K and V have 16 bits, whose products are f32
 * sums, else of the result's type; a weighted mean of V is as exact as V's mean size. Carried sums are f32 of weights
 * and values that were not. L is that of the mean logit; but the log-sum-exp x of n weights says that its row has a
 * logit of at least |x| - ln n, which a soft-cap that an infinity runs into, or a bias, may put far from the mean:
 * without that, a row with one key, rounded correctly, could fail. A log-sum-exp is a maximum and a logarithm added up,
 * rounded to the spacing at its own size. Where o is f32 and logits ramp, L is the row's own:
 * a window on a falling ramp leaves few keys, all of them hundreds of nats from the mean, and how lucky the plain
 * evaluation was with a dozen such rows is no bound. Where one key has all of the weight, 16-bit results are V,
 * whatever its logit was rounded to: an eighth of a spacing, with the tolerance a half. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_attn_desc *d = c->oracle_desc;
  double logit = 1.6 /* rms / mean of |normal|, squared */ * mean_of_arg(c, "q") * mean_of_arg(c, "k") *
                 sqrt((double)d->head_dim) * (double)d->scale;
  const ga_attn_io *a = io;
  if (ga_attn_is_scaled(d)) logit *= mean_scale(c, "q_scale") * mean_scale(c, "k_scale");
  if (check_attn_is_scaled_cache(d)) logit *= cache_scale(d, a, &a->k_scale);
  if (d->flags & GA_ATTN_ALIBI) logit += 0.1 * (double)d->max_kv;
  const bool sums = !strcmp(arg->name, "state_o"), values = sums || !strcmp(arg->name, "o");
  const bool rounded = sums || (values && c->kernel->op_flags & GA_ATTN_ROW_AS_KV);
  const double scale = ga_attn_is_scaled(d)            ? mean_scale(c, "v_scale")
                       : check_attn_is_scaled_cache(d) ? cache_scale(d, a, &a->v_scale)
                                                       : 1;
  const double added = a->v_mean ? mean_scale(c, "means") : 0; /* to O */
  const double size = values ? fmax(scale * mean_of_arg(c, "v") + added, d->flags & GA_ATTN_STATE_IN ? 1 : 0) : 1;
  const double weights = log((double)d->max_kv * (d->kv_segments ? d->kv_segments : 1) + 2); /* a sink, a state */
  const check_arg *out = check_find(&c->oracle, arg->name);
  const void *want = *(void *const *)(const void *)((const char *)io + arg->io_at);
  void *most = NULL;
  const bool saturated = check_attn_is_scaled_cache(d) && c->mode == CHECK_HOSTILE,
             far = RAMP || saturated; /* an infinity is 448 in e4m3: in K and in V */
  if (far && values && !rounded && arg->dtype == GA_F32 &&
      ga_mem_zalloc((size_t)(n + 1 + 2 * d->head_dim), sizeof(double), "logits", &most) == GA_OK)
    row_logits(d, io, most, (double *)most + n + 1);
  const bool f32_logits = values && !ga_attn_is_scaled(d) && (d->kv_dtype == GA_F16 || d->kv_dtype == GA_BF16);
  const ga_dtype type = rounded ? (ga_dtype)d->kv_dtype : arg->dtype;
  const bool one = SPIKES && values && !ga_attn_is_scaled(d) && (type == GA_F16 || type == GA_BF16);
  for (int64_t i = 0; i < n; i++) {
    const double x = most     ? ((double *)most)[i / d->v_dim]
                     : values ? 0
                              : fabs(ga_ref_load(out->dtype, want, check_at(out, i))) - weights;
    const double own = !values || saturated ? fabs(ga_ref_load(out->dtype, want, check_at(out, i))) : 0;
    const double at = isfinite(own) ? fmax(size, own) : size, most_logit = isfinite(x) ? fmax(logit, x) : logit;
    const double moved = check_ulp(f32_logits ? GA_F32 : type, values ? at : size);
    unit[i] = one ? 0.125 * check_ulp(type, at) : check_ulp(type, at) + moved * most_logit;
    unit[i] += 1e-44;
  }
  ga_mem_free(most);
}

/* With one key O is its V, rounded to the type of O. */
static bool is_exact(const check_case *c, const check_arg *arg) {
  const ga_attn_desc *d = c->desc;
  const bool plain_type = d->kv_dtype == GA_F32 || d->kv_dtype == GA_F16 || d->kv_dtype == GA_BF16;
  return c->mode == CHECK_NORMAL && !strcmp(arg->name, "o") && d->max_kv == 1 && !d->kv_segments && plain_type &&
         !(d->flags & (GA_ATTN_STATE_IN | GA_ATTN_SINKS)) && !(c->kernel->op_flags & GA_ATTN_ROW_AS_KV);
}

/* Rows that round their weights are to be as exact as FlashAttention's, whose running maximum makes the largest weight
 * one that is not rounded. Rows that move the reference less often may be 5 % behind. */
static double beside(const check_case *c, const check_arg *arg) {
  return c->mode == CHECK_NORMAL && !strcmp(arg->name, "o") && c->kernel->op_flags & GA_ATTN_ROW_WEIGHTS_16 ? 1.05 : 0;
}

const check_op check_attn = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .unread = unread,
    .oracle_types = oracle_types,
    .plain = check_attn_plain,
    .unit = unit,
    .canonical = canonical,
    .excuse = excuse,
    .exact = is_exact,
    .beside = beside,
    .describe = describe,
    .timed = check_attn_stretch_timed,
};
