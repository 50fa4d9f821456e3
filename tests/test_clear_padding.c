/* Rows that no packed sequence has: zeros in O and in gradients, -infinity in LSE, by ga_clear_padding and by calls of
 * attention. */
#include <math.h>

#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "tests/op_rig.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { TOKENS = 12, HEADS = 2, DIM = 4, WIDTH = HEADS * DIM, MOST = 5 };

static void fill_with(float *x, size_t n, float value) {
  for (size_t i = 0; i < n; i++) x[i] = value;
}

/* Rows in `rows`, a bit each, were written; all others hold `rest`. */
static void assert_rows(const float *x, uint32_t rows, float rest, const char *name) {
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    const bool written = rows >> (i / WIDTH) & 1;
    if (written ? !isfinite(x[i]) || fabsf(x[i]) > 100 : x[i] != rest)
      fail_msg("%s: row %d has %g", name, i / WIDTH, (double)x[i]);
  }
}

typedef struct packed_call {
  float q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH], o[TOKENS * WIDTH], dout[TOKENS * WIDTH];
  float dq[TOKENS * WIDTH], dk[TOKENS * WIDTH], dv[TOKENS * WIDTH], lse[2 * HEADS * MOST];
  ga_attn_desc d;
  ga_attn_bwd_desc b;
} packed_call;

static packed_call packed_call_with(uint32_t flags) {
  packed_call c = {.d = GA_ATTN_DESC_INIT, .b = GA_ATTN_BWD_DESC_INIT};
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    c.q[i] = sinf((float)i), c.k[i] = cosf((float)i), c.v[i] = sinf((float)(2 * i)), c.dout[i] = cosf((float)(3 * i));
  }
  float *const out[] = {c.o, c.dq, c.dk, c.dv};
  for (size_t i = 0; i < COUNT(out); i++) fill_with(out[i], TOKENS * WIDTH, 777);
  fill_with(c.lse, COUNT(c.lse), 777);
  c.d.batch = c.b.batch = 2;
  c.d.max_q = c.d.max_kv = c.b.max_q = c.b.max_kv = MOST;
  c.d.q_heads = c.d.kv_heads = c.b.q_heads = c.b.kv_heads = HEADS;
  c.d.head_dim = c.b.head_dim = DIM;
  c.d.flags = c.b.flags = GA_ATTN_VARLEN | GA_ATTN_CAUSAL | flags;
  c.d.flags |= GA_ATTN_LSE;
  c.b.total_q = c.b.total_kv = TOKENS;
  return c;
}

static void forward_and_backward(ga_ctx *ctx, packed_call *c, const int32_t *start, const int32_t *len) {
  const ga_attn_io io = {.q = c->q,
                         .k = c->k,
                         .v = c->v,
                         .o = c->o,
                         .lse = c->lse,
                         .q_start = start,
                         .kv_start = start,
                         .q_len = len,
                         .kv_len = len,
                         .q_tokens = TOKENS,
                         .kv_tokens = TOKENS};
  const ga_attn_bwd_io bwd = {.q = c->q,
                              .k = c->k,
                              .v = c->v,
                              .o = c->o,
                              .dout = c->dout,
                              .lse = c->lse,
                              .dq = c->dq,
                              .dk = c->dk,
                              .dv = c->dv,
                              .q_start = start,
                              .kv_start = start,
                              .q_len = len,
                              .kv_len = len};
  if (ga_attn(ctx, &c->d, &io, NULL) != GA_OK || ga_attn_bwd(ctx, &c->b, &bwd, NULL) != GA_OK)
    fail_msg("%s", ga_error_text());
}

static void assert_results(const packed_call *c, uint32_t rows, float rest) {
  assert_rows(c->o, rows, rest, "o");
  assert_rows(c->dq, rows, rest, "dq");
  assert_rows(c->dk, rows, rest, "dk");
  assert_rows(c->dv, rows, rest, "dv");
}

/* Sequences of 4 and 5 rows, the first at row 1: row 0 and rows 10 and 11 are padding. The sequences' rows are fewer
 * than the tensors have, and batch * max_q, 10, is less than the 12 rows. */
static void before_and_after(ga_ctx *ctx) {
  static const int32_t start[3] = {1, 5, 10};
  packed_call c = packed_call_with(0);
  forward_and_backward(ctx, &c, start, NULL);
  assert_results(&c, 0x3fe, 0);
  for (int h = 0; h < HEADS; h++) { /* the first sequence has no fifth row */
    assert_true(isfinite(c.lse[h * MOST + 3]));
    assert_true(c.lse[h * MOST + 4] == -INFINITY);
    assert_true(isfinite(c.lse[(HEADS + h) * MOST + 4]));
  }
}

/* Rows 6 to 8, then rows 1 to 4: the sequences lie in another order, with room between them. */
static void between(ga_ctx *ctx) {
  static const int32_t start[2] = {6, 1}, len[2] = {3, 4};
  packed_call c = packed_call_with(GA_ATTN_LENGTHS);
  forward_and_backward(ctx, &c, start, len);
  assert_results(&c, 0x1de, 0);
}

static void kept(ga_ctx *ctx) {
  static const int32_t start[3] = {1, 5, 10};
  packed_call c = packed_call_with(GA_ATTN_KEEP_PADDING);
  forward_and_backward(ctx, &c, start, NULL);
  assert_results(&c, 0x3fe, 777);
  assert_true(c.lse[4] == 777);
}

/* Gradients that are added to keep their values where nothing is added. */
static void added_to(ga_ctx *ctx) {
  static const int32_t start[3] = {1, 5, 10};
  packed_call c = packed_call_with(0);
  c.b.flags |= GA_ATTN_BWD_ADD_DKV;
  forward_and_backward(ctx, &c, start, NULL);
  assert_rows(c.dq, 0x3fe, 0, "dq");
  for (int row = 0; row < TOKENS; row++)
    assert_true(row >= 1 && row < 10 ? c.dk[row * WIDTH] != 777 : c.dk[row * WIDTH] == 777);
}

static void without_sequences(ga_ctx *ctx) {
  static const int32_t start[1] = {0};
  packed_call c = packed_call_with(0);
  c.d.batch = c.b.batch = 0;
  forward_and_backward(ctx, &c, start, NULL);
  assert_results(&c, 0, 0);
}

/* Entries of LSE by tokens, and rows without a sequence of any length. */
static void lse_by_tokens(ga_ctx *ctx) {
  static const int32_t start[3] = {2, 2, 9};
  float q[TOKENS * WIDTH], lse[HEADS * (TOKENS + 1)];
  ga_clear_padding_desc d = GA_CLEAR_PADDING_DESC_INIT;
  d.batch = 2, d.max_q = 7, d.lse_stride = TOKENS + 1;
  d.q_heads = d.kv_heads = HEADS;
  d.q_dim = d.k_dim = d.v_dim = DIM;
  fill_with(q, COUNT(q), 3);
  fill_with(lse, COUNT(lse), 3);
  const ga_clear_padding_io io = {.q = q, .lse = lse, .q_start = start, .q_tokens = TOKENS};
  if (ga_clear_padding(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  assert_rows(q, 0x1fc, 0, "q");
  for (int i = 0; i < HEADS * (TOKENS + 1); i++) {
    const int row = i % (TOKENS + 1);
    assert_true(lse[i] == ((row >= 2 && row < 9) || row == TOKENS ? 3 : -INFINITY));
  }
}

static void refusals(ga_ctx *ctx) {
  ga_plan *plan;
  ga_clear_padding_desc d = GA_CLEAR_PADDING_DESC_INIT;
  d.q_heads = d.kv_heads = d.q_dim = d.k_dim = 1;
  ga_status got = ga_clear_padding_plan(ctx, &d, &plan);
  assert_plan_refused(got, plan, GA_ERR_SHAPE, "clear_padding: v_dim is 0; must be 1 to 1024");
  packed_call c = packed_call_with(GA_ATTN_KEEP_PADDING);
  c.d.flags &= ~(uint32_t)GA_ATTN_VARLEN;
  got = ga_attn_plan(ctx, &c.d, &plan);
  assert_plan_refused(got, plan, GA_ERR_ARG, "KEEP_PADDING needs VARLEN");
  c.b.flags &= ~(uint32_t)GA_ATTN_VARLEN;
  c.b.total_q = c.b.total_kv = 0;
  got = ga_attn_bwd_plan(ctx, &c.b, &plan);
  assert_plan_refused(got, plan, GA_ERR_ARG, "LENGTHS and KEEP_PADDING need VARLEN");
}

static void look_at_padding(ga_ctx *ctx) {
  before_and_after(ctx);
  between(ctx);
  kept(ctx);
  added_to(ctx);
  without_sequences(ctx);
  lse_by_tokens(ctx);
  refusals(ctx);
}

static void test_padding_is_cleared(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_padding);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_padding_is_cleared)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
