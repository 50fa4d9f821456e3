/* The limits of matrix products, the KV cache and sampling, with their fused forms. */
#include "tests/limits_table.h"

WRAP(gemm)
WRAP(kv_store)
WRAP(sample)
WRAP(gemm_fused)
WRAP(kv_store_fused)
WRAP(sample_fused)

/* --- the tables --- */

static const field gemm_fields[] = {{AT(gemm, m), DIM, 0, TWO_40},
                                    {AT(gemm, n), DIM, 0, TWO_40},
                                    {AT(gemm, k), DIM, 0, TWO_40},
                                    {AT(gemm, x_stride), STRIDE, 4, TWO_40},
                                    {AT(gemm, y_stride), STRIDE, 3, TWO_40},
                                    {AT(gemm, w_stride), STRIDE, 4, TWO_40},
                                    {AT(gemm, x_dtype), TYPE, 0, 0},
                                    {AT(gemm, y_dtype), TYPE, 0, 0},
                                    {AT(gemm, w_dtype), INT, 1, 33},
                                    {AT(gemm, w_layout), INT, 0, 2},
                                    {AT(gemm, act), INT, 0, 3},
                                    {AT(gemm, flags), ZERO, 8, 16},
                                    {AT(gemm, scale), REAL, 0, 0},
                                    {AT(gemm, scales), INT, 0, 2}};
static const pointer gemm_pointers[] = {{IO(gemm, x), true, 4},        {IO(gemm, w), true, 4},
                                        {IO(gemm, y), true, 4},        {IO(gemm, bias), true, 4},
                                        {IO(gemm, gate), true, 4},     {IO(gemm, residual), true, 4},
                                        {IO(gemm, x_scale), false, 4}, {IO(gemm, w_scale), false, 4}};

/* Of the fused struct what the plain one has not. */
#define MORE(op, name, i) #name, offsetof(ga_##op##_fused_desc, name) + sizeof(int64_t) * (i)
static const field gemm_fused_fields[] = {{MORE(gemm, n_more, 0), STRIDE, 0, TWO_40},
                                          {MORE(gemm, n_more, 1), STRIDE, 0, TWO_40},
                                          {MORE(gemm, y_more_stride, 0), STRIDE, 5, TWO_40},
                                          {MORE(gemm, y_more_stride, 1), STRIDE, 6, TWO_40},
                                          {AT(gemm_fused, fused), ZERO, 8, 64},
                                          {AT(gemm_fused, norm_eps), POSITIVE, 0, 0}};
static const pointer gemm_fused_pointers[] = {{"w_more", offsetof(ga_gemm_fused_io, w_more[0]), true, 4},
                                              {"w_more", offsetof(ga_gemm_fused_io, w_more[1]), true, 4},
                                              {"y_more", offsetof(ga_gemm_fused_io, y_more[0]), true, 4},
                                              {"y_more", offsetof(ga_gemm_fused_io, y_more[1]), true, 4},
                                              {"bias_more", offsetof(ga_gemm_fused_io, bias_more[0]), true, 4},
                                              {"bias_more", offsetof(ga_gemm_fused_io, bias_more[1]), true, 4},
                                              {IO(gemm_fused, norm), true, 4},
                                              {IO(gemm_fused, add), true, 4},
                                              {IO(gemm_fused, add_norm), true, 4},
                                              {IO(gemm_fused, sum), false, 4}};

static const field kv_store_fields[] = {
    {AT(kv_store, tokens), DIM, 0, TWO_40},      {AT(kv_store, slots), DIM, 0, TWO_40},
    {AT(kv_store, k_stride), STRIDE, 8, TWO_40}, {AT(kv_store, v_stride), STRIDE, 8, TWO_40},
    {AT(kv_store, heads), INT, 1, HEADS},        {AT(kv_store, head_dim), INT, 1, 16384},
    {AT(kv_store, v_dim), INT, 0, 16384},        {AT(kv_store, x_dtype), TYPE, 0, 0},
    {AT(kv_store, kv_dtype), INT, 1, 33},        {AT(kv_store, reserved), ZERO, 1, -1}};
static const pointer kv_store_pointers[] = {{IO(kv_store, k), true, 4},       {IO(kv_store, v), true, 4},
                                            {IO(kv_store, slot), true, 4},    {IO(kv_store, k_cache), true, 1},
                                            {IO(kv_store, v_cache), true, 1}, {IO(kv_store, k_scale), true, 4},
                                            {IO(kv_store, v_scale), true, 4}};

static const field kv_store_fused_fields[] = {
    {AT(kv_store_fused, rot_dim), INT, 0, 4},           {AT(kv_store_fused, q_heads), INT, 1, HEADS},
    {AT(kv_store_fused, q_stride), STRIDE, 16, TWO_40}, {AT(kv_store_fused, pairs), INT, 0, 1},
    {AT(kv_store_fused, magnitude), REAL, 0, 0},        {AT(kv_store_fused, norm_eps), POSITIVE, 0, 0}};
static const pointer kv_store_fused_pointers[] = {{IO(kv_store_fused, q), true, 4},
                                                  {IO(kv_store_fused, positions), true, 4},
                                                  {IO(kv_store_fused, inv_freq), true, 4},
                                                  {IO(kv_store_fused, q_norm), true, 4},
                                                  {IO(kv_store_fused, k_norm), true, 4}};

static const field sample_fields[] = {
    {AT(sample, vocab), DIM, 1, INT32_MAX},     {AT(sample, temperature), POSITIVE, 0, 0},
    {AT(sample, top_p), SHARE, 1, 0},           {AT(sample, typical_p), SHARE, 1, 0},
    {AT(sample, min_p), SHARE, 0, 1},           {AT(sample, repetition_penalty), POSITIVE, 1, 0},
    {AT(sample, presence_penalty), REAL, 0, 0}, {AT(sample, frequency_penalty), REAL, 0, 0},
    {AT(sample, top_k), INT, 0, INT32_MAX}};
static const pointer sample_pointers[] = {{IO(sample, logits), true, 4}, {IO(sample, history), true, 4},
                                          {IO(sample, bias), true, 4},   {IO(sample, rng), true, 8},
                                          {IO(sample, id), true, 4},     {IO(sample, logprob), false, 4}};
static const pointer sample_fused_pointers[] = {{IO(sample_fused, advance), true, 4},
                                                {IO(sample_fused, sequence), false, 4},
                                                {IO(sample_fused, n_sequence), true, 4}};

/* --- one test an op --- */

static void test_gemm(void **state) {
  (void)state;
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = 2;
  d.n = 3;
  d.k = 4;
  d.flags = GA_GEMM_BIAS | GA_GEMM_GLU | GA_GEMM_RESIDUAL;
  const ga_gemm_io io = {.x = at(0), .w = at(1), .y = at(2), .bias = at(3), .gate = at(4), .residual = at(5)};
  const op_case c = CASE(gemm, &d, &io);
  all_of(&c);
  try_most(&c, "act", 3);
  try_most(&c, "w_layout", 2);
}

/* Of no rows W is not read, whatever the types. */
static void test_gemm_no_rows(void **state) {
  (void)state;
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.n = 3;
  d.k = 4;
  for (int i = 0; i < 3; i++) {
    d.w_dtype = (int32_t)(ga_dtype[]){GA_F32, GA_F16, GA_BF16}[i];
    assert_int_equal(ga_gemm(ctx, &d, &(ga_gemm_io){0}, NULL), GA_OK);
  }
}

/* 8-bit operands with scales, and types of 16 bits at odd addresses. */
static void test_gemm_types(void **state) {
  (void)state;
  static const struct {
    ga_dtype x, w, y;
    unsigned x_align, w_align, y_align;
  } types[] = {{GA_F16, GA_F16, GA_F16, 2, 2, 2},
               {GA_BF16, GA_F32, GA_F32, 2, 4, 4},
               {GA_F32, GA_Q8_0, GA_F32, 4, 1, 4},
               {GA_E4M3, GA_E4M3, GA_F32, 1, 1, 4}};
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    const pointer pointers[] = {{IO(gemm, x), true, types[i].x_align},
                                {IO(gemm, w), true, types[i].w_align},
                                {IO(gemm, y), true, types[i].y_align},
                                {IO(gemm, x_scale), types[i].w == GA_E4M3, 4},
                                {IO(gemm, w_scale), types[i].w == GA_E4M3, 4}};
    ga_gemm_desc d = GA_GEMM_DESC_INIT;
    d.m = d.n = 2;
    d.k = 32;
    d.x_dtype = (int32_t)types[i].x;
    d.w_dtype = (int32_t)types[i].w;
    d.y_dtype = (int32_t)types[i].y;
    d.scales = types[i].w == GA_E4M3 ? GA_GEMM_SCALES_TENSOR : GA_GEMM_SCALES_NONE;
    const ga_gemm_io io = {.x = at(0), .w = at(1), .y = at(2), .x_scale = at(3), .w_scale = at(4)};
    op_case c = CASE(gemm, &d, &io);
    c.pointers = pointers;
    c.n_pointers = GA_COUNT_OF(pointers);
    try_pointers(&c);
  }
}

static void test_gemm_fused(void **state) {
  (void)state;
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  d.plain.m = 2;
  d.plain.n = 3;
  d.plain.k = 4;
  d.plain.flags = GA_GEMM_BIAS;
  d.n_more[0] = 5;
  d.n_more[1] = 6;
  d.fused = GA_GEMM_FUSED_NORM | GA_GEMM_FUSED_ADD_NORM;
  const ga_gemm_fused_io io = {.plain = {.x = at(0), .w = at(1), .y = at(2), .bias = at(3)},
                               .norm = at(4),
                               .add = at(5),
                               .add_norm = at(6),
                               .sum = at(7),
                               .w_more = {at(8), at(9)},
                               .y_more = {at(10), at(11)},
                               .bias_more = {at(12), at(13)}};
  open_ref();
  op_case c = CASE(gemm_fused, &d, &io);
  c.op = "gemm";
  for (size_t i = 0; i < c.n_fields; i++)
    if (strcmp(c.fields[i].name, "n_more") != 0) try_field(&c, &c.fields[i]);
  for (size_t i = 0; i < 2; i++) { /* 0 for the first alone leaves a hole */
    try_int(&c, &c.fields[i], -1, false);
    try_int(&c, &c.fields[i], INT64_MIN, false);
    try_int(&c, &c.fields[i], TWO_40, true);
    try_int(&c, &c.fields[i], TWO_40 + 1, false);
    try_int(&c, &c.fields[i], INT64_MAX, false);
  }
  try_pointers(&c);
  close_ref();
}

static void test_kv_store(void **state) {
  (void)state;
  ga_kv_store_desc d = GA_KV_STORE_DESC_INIT;
  d.tokens = d.slots = d.heads = 2;
  d.head_dim = 4;
  d.kv_dtype = GA_E4M3;
  int32_t *slot = at(2);
  slot[0] = 1;
  slot[1] = -1;
  const ga_kv_store_io io = {
      .k = at(0), .v = at(1), .slot = slot, .k_cache = at(3), .v_cache = at(4), .k_scale = at(5), .v_scale = at(6)};
  const op_case c = CASE(kv_store, &d, &io);
  all_of(&c);
  try_most(&c, "heads", HEADS);
  try_most(&c, "head_dim", 16384);
  try_most(&c, "v_dim", 16384);
  static const ga_dtype no_cache[] = {GA_F64, GA_I8, GA_I16, GA_I32, GA_I64, GA_U8, GA_E5M2};
  for (size_t i = 0; i < GA_COUNT_OF(no_cache); i++) try_int(&c, &kv_store_fields[8], (int64_t)no_cache[i], false);
}

static void test_kv_store_fused(void **state) {
  (void)state;
  ga_kv_store_fused_desc d = GA_KV_STORE_FUSED_DESC_INIT;
  d.plain.tokens = d.plain.slots = d.plain.heads = 2;
  d.plain.head_dim = d.rot_dim = d.q_heads = 4;
  d.head_norm = 1;
  const ga_kv_store_fused_io io = {.plain = {.k = at(0), .v = at(1), .slot = at(2), .k_cache = at(3), .v_cache = at(4)},
                                   .q = at(5),
                                   .positions = at(6),
                                   .inv_freq = at(7),
                                   .q_norm = at(8),
                                   .k_norm = at(9)};
  int32_t *slot = at(2);
  slot[0] = slot[1] = -1;
  open_ref();
  op_case c = CASE(kv_store_fused, &d, &io);
  c.op = "kv_store";
  all_of(&c);
  try_most(&c, "q_heads", HEADS);
  close_ref();
}

static void test_sample(void **state) {
  (void)state;
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = 4;
  d.temperature = 1;
  ga_sample_fused_io io = {.plain = {.logits = at(0),
                                     .history = at(1),
                                     .bias = at(2),
                                     .n_history = 1,
                                     .n_bias = 1,
                                     .rng = at(3),
                                     .id = at(4),
                                     .logprob = at(5)},
                           .advance = at(6),
                           .n_advance = 1,
                           .sequence = at(7),
                           .n_sequence = at(8)};
  memset(room, 0, sizeof room);
  op_case c = CASE(sample, &d, &io.plain);
  all_of(&c);
  try_most(&c, "top_k", INT32_MAX);
  const ga_sample_fused_desc f = {.plain = d};
  const op_case fused = {"sample",
                         &f,
                         &io,
                         sizeof f,
                         sizeof io,
                         sample_fields,
                         GA_COUNT_OF(sample_fields),
                         sample_fused_pointers,
                         GA_COUNT_OF(sample_fused_pointers),
                         plan_sample_fused,
                         run_sample_fused};
  try_pointers(&fused);
  static const int64_t counts[] = {-1, INT64_MIN, TWO_40 + 1, INT64_MAX};
  for (size_t i = 0; i < GA_COUNT_OF(counts); i++) {
    ga_sample_io bad = io.plain;
    bad.n_history = counts[i];
    assert_int_equal(ga_sample(ctx, &d, &bad, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "sample: n_history is "));
    bad = io.plain;
    bad.n_bias = counts[i];
    assert_int_equal(ga_sample(ctx, &d, &bad, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "sample: n_bias is "));
    ga_sample_fused_io bad_fused = io;
    bad_fused.n_advance = counts[i];
    assert_int_equal(ga_sample_fused(ctx, &f, &bad_fused, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "sample: n_advance is "));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),       cmocka_unit_test(test_gemm_no_rows), cmocka_unit_test(test_gemm_types),
      cmocka_unit_test(test_gemm_fused), cmocka_unit_test(test_kv_store),     cmocka_unit_test(test_kv_store_fused),
      cmocka_unit_test(test_sample),
  };
  return cmocka_run_group_tests(tests, open_limits, close_limits);
}
