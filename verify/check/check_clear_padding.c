/* Rows that no packed sequence has become 0; those of sequences stay. Borders are functions of c->bits. */
#include <math.h>
#include <string.h>

#include "ga/attn.h"
#include "verify/check/check.h"

/* Bits of c->bits. */
#define WITH_Q    1u
#define WITH_KV   2u
#define WITH_LSE  4u
#define WITH_LEN  8u
#define BACKWARDS 16u
#define APART     32u /* strides have room */
#define FIRST     64u /* rows before the first sequence, where there are no lengths */

static int64_t hashed(const check_case *c, int64_t i, int64_t most) {
  uint64_t x = c->bits * 0x100000001b3u + (uint64_t)i;
  return (int64_t)(ga_splitmix64(&x) % (uint64_t)(most + 1));
}

static int64_t padded_rows(const check_case *c, int64_t side, int64_t b) {
  const ga_clear_padding_desc *d = c->desc;
  return hashed(c, side * 1000 + b, side ? 70 : d->max_q);
}

static int64_t padded_gap(const check_case *c, int64_t side, int64_t b) {
  if (!(c->bits & WITH_LEN)) return b == 0 && c->bits & FIRST ? hashed(c, 9000 + side, 20) : 0;
  return hashed(c, 5000 + side * 1000 + b, 2) ? 0 : hashed(c, 7000 + side * 1000 + b, 9);
}

/* The first row of sequence b; b = batch: where the last one ends. */
static int64_t padded_first(const check_case *c, int64_t side, int64_t b) {
  const ga_clear_padding_desc *d = c->desc;
  const bool backwards = c->bits & WITH_LEN && c->bits & BACKWARDS && b < d->batch;
  int64_t sum = 0;
  for (int64_t i = 0; i < d->batch; i++) {
    if (backwards ? i > b : i < b) sum += padded_rows(c, side, i);
    if (backwards ? i >= b : i <= b) sum += padded_gap(c, side, i);
  }
  return sum;
}

static int64_t padded_tokens(const check_case *c, int64_t side) {
  const ga_clear_padding_desc *d = c->desc;
  return padded_first(c, side, d->batch) + hashed(c, 9500 + side, 2) * hashed(c, 9600 + side, c->large ? 3000 : 200);
}

static void draw(check_case *c) {
  ga_clear_padding_desc *d = c->desc;
  *d = (ga_clear_padding_desc)GA_CLEAR_PADDING_DESC_INIT;
  d->batch = check_extent(c, 0, 12);
  d->max_q = check_extent(c, 0, 70);
  d->kv_heads = 1 + check_pick(c, 3);
  d->q_heads = d->kv_heads * (1 + check_pick(c, 3));
  d->q_dim = (int32_t)check_dim(c, 1, 130);
  d->k_dim = (int32_t)check_dim(c, 1, 130);
  d->v_dim = check_pick(c, 2) ? d->k_dim : (int32_t)check_dim(c, 1, 130);
  d->dtype = check_dtype(c, 0);
  if (check_pick(c, 2)) d->lse_stride = ga_max_i64(1, padded_tokens(c, 0)) + check_pick(c, 4);
}

static void tensor(const check_case *c, check_args *a, const char *name, size_t at, int64_t tokens, int32_t heads,
                   int32_t dim, ga_attn_strides *stride) {
  const ga_clear_padding_desc *d = c->desc;
  const int64_t room = c->bits & APART ? 1 + (c->bits >> 8 & 7) : 0;
  stride->head = dim + room;
  stride->token = heads * stride->head + room;
  check_arg *t = check_arg_add(a, name, at, CHECK_INOUT, d->dtype);
  t->n_dims = 3;
  t->dim[0] = tokens, t->dim[1] = heads, t->dim[2] = dim;
  t->stride[0] = stride->token, t->stride[1] = stride->head, t->stride[2] = 1;
}

#define AT(name) offsetof(ga_clear_padding_io, name)

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_clear_padding_desc *d = desc;
  ga_clear_padding_io *io = (ga_clear_padding_io *)(void *)a->io;
  const bool len = c->bits & WITH_LEN;
  io->q_tokens = padded_tokens(c, 0), io->kv_tokens = padded_tokens(c, 1);
  if (c->bits & WITH_Q) tensor(c, a, "q", AT(q), io->q_tokens, d->q_heads, d->q_dim, &io->q_stride);
  if (c->bits & WITH_KV) tensor(c, a, "k", AT(k), io->kv_tokens, d->kv_heads, d->k_dim, &io->k_stride);
  if (c->bits & WITH_KV) tensor(c, a, "v", AT(v), io->kv_tokens, d->kv_heads, d->v_dim, &io->v_stride);
  if (c->bits & WITH_LSE && d->lse_stride)
    check_inout(a, "lse", AT(lse), GA_F32, d->q_heads, io->q_tokens, d->lse_stride);
  if (c->bits & WITH_LSE && !d->lse_stride)
    check_inout(a, "lse", AT(lse), GA_F32, d->batch * d->q_heads, d->max_q, d->max_q);
  check_index(a, "q_start", AT(q_start), d->batch + !len, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "kv_start", AT(kv_start), d->batch + !len, 0, 1)->fill = CHECK_FILL_OP;
  if (len) check_index(a, "q_len", AT(q_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  if (len) check_index(a, "kv_len", AT(kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const int64_t side = arg->name[0] == 'k';
  for (int64_t b = 0; b < n; b++)
    values[b] = (double)(strstr(arg->name, "_len") ? padded_rows(c, side, b) : padded_first(c, side, b));
}

static bool is_exact(const check_case *c, const check_arg *arg) {
  (void)c, (void)arg;
  return true;
}

const check_op check_clear_padding = {
    .modes = CHECK_EXACT | CHECK_NORMAL,
    .draw = draw,
    .args = args,
    .fill = fill,
    .exact = is_exact,
};
