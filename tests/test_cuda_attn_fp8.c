/* Host half of 8-bit attention on Hopper, over the mock driver: scales that reach too far, a launch's arguments. */
#include "cuda/kern/attn_fp8/attn_fp8_args.h"
#include "ga/attn.h"
#include "tests/cuda_rig.h"

enum { BATCH = 3, HEADS = 2, KV_HEADS = 1, TOKENS = 128, DIM = 64 };

typedef struct fp8_call {
  ga_ctx *ctx;
  ga_attn_desc d;
  ga_attn_io io;
  void *memory;
} fp8_call;

static void open_fp8_call(fp8_call *c) {
  const size_t part = (size_t)BATCH * HEADS * TOKENS * DIM * 2;
  *c = (fp8_call){.d = GA_ATTN_DESC_INIT};
  cuda_replace_tables(image_of_every_row(), no_sources);
  c->ctx = open_cuda();
  mockcu.args_bytes = sizeof(ga_kargs_attn_fp8);
  assert_int_equal(ga_buffer_alloc(c->ctx, 5 * part, &c->memory), GA_OK);
  char *at = c->memory;
  c->d.batch = BATCH, c->d.max_q = c->d.max_kv = TOKENS, c->d.q_heads = HEADS, c->d.kv_heads = KV_HEADS;
  c->d.head_dim = DIM;
  c->d.q_dtype = c->d.kv_dtype = GA_E4M3, c->d.o_dtype = GA_BF16;
  c->io = (ga_attn_io){.q = at, .k = at + part, .v = at + 2 * part, .o = at + 3 * part};
  float *scales = (float *)(void *)(at + 4 * part);
  c->io.q_scale.data = scales, c->io.k_scale.data = scales + 64, c->io.v_scale.data = scales + 128;
}

static void close_fp8_call(fp8_call *c) {
  ga_buffer_free(c->ctx, c->memory);
  ga_ctx_destroy(c->ctx);
}

/* A stride counts once for each further batch, head and block of its tensor. */
static void scales_reach(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t at;
    int64_t batch, head;
  } cases[] = {{"q_scale", offsetof(ga_attn_io, q_scale), BATCH, HEADS},
               {"k_scale", offsetof(ga_attn_io, k_scale), BATCH, KV_HEADS},
               {"v_scale", offsetof(ga_attn_io, v_scale), BATCH, KV_HEADS}};
  fp8_call c;
  open_fp8_call(&c);
  assert_int_equal(ga_attn(c.ctx, &c.d, &c.io, NULL), GA_OK);
  for (size_t i = 0; i < GA_COUNT_OF(cases); i++)
    for (int head = 0; head < 2; head++) {
      const int64_t more = (head ? cases[i].head : cases[i].batch) - 1, least = more ? ((int64_t)1 << 31) / more : 0;
      ga_attn_io io = c.io;
      ga_attn_scale *s = (ga_attn_scale *)(void *)((char *)&io + cases[i].at);
      int64_t *const stride = head ? &s->head : &s->batch;
      *stride = more ? least - 1 : (int64_t)1 << 40;
      assert_int_equal(ga_attn(c.ctx, &c.d, &io, NULL), GA_OK);
      if (!more) continue;
      *stride = least;
      assert_int_equal(ga_attn(c.ctx, &c.d, &io, NULL), GA_ERR_ARG);
      assert_text(cases[i].name);
      assert_text("nor reach over 2^31 elements");
    }
  close_fp8_call(&c);
}

/* Strides of scales arrive each in its place. */
static void scales_arrive(void **state) {
  (void)state;
  fp8_call c;
  open_fp8_call(&c);
  c.io.q_scale.batch = 11, c.io.q_scale.head = 3;
  c.io.k_scale.batch = 12, c.io.k_scale.head = 4;
  c.io.v_scale.batch = 13, c.io.v_scale.head = 5;
  assert_int_equal(ga_attn(c.ctx, &c.d, &c.io, NULL), GA_OK);
  const ga_kargs_attn_fp8 *a = (const ga_kargs_attn_fp8 *)(const void *)mockcu.last.args;
  assert_true(a->scale_q.batch == 11 && a->scale_q.head == 3 && a->scale_q.data == c.io.q_scale.data);
  assert_true(a->scale_k.batch == 12 && a->scale_k.head == 4 && a->scale_k.data == c.io.k_scale.data);
  assert_true(a->scale_v.batch == 13 && a->scale_v.head == 5 && a->scale_v.data == c.io.v_scale.data);
  close_fp8_call(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(scales_reach, reset, no_leaks),
                                     cmocka_unit_test_setup_teardown(scales_arrive, reset, no_leaks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
