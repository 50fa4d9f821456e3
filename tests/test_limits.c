/* The limits of layer and attention ops, and of strides and sizes that reach too far. */
#include "tests/limits_table.h"

WRAP(attn)
WRAP(attn_bwd)
WRAP(attn_quant)
WRAP(rope)
WRAP(embed)
WRAP(norm)
WRAP(act)
WRAP(add)
WRAP(softmax)
WRAP(convert)

/* --- the tables: rows of 4, or 2 tokens of 2 heads of 4 --- */

static const field norm_fields[] = {{AT(norm, rows), DIM, 0, TWO_40},
                                    {AT(norm, width), DIM, 0, TWO_40},
                                    {AT(norm, x_stride), STRIDE, 4, TWO_40},
                                    {AT(norm, y_stride), STRIDE, 4, TWO_40},
                                    {AT(norm, kind), INT, 0, 2},
                                    {AT(norm, x_dtype), TYPE, 0, 0},
                                    {AT(norm, y_dtype), TYPE, 0, 0},
                                    {AT(norm, eps), POSITIVE, 0, 0},
                                    {AT(norm, residual_stride), STRIDE, 4, TWO_40}};
static const pointer norm_pointers[] = {{IO(norm, x), true, 4},
                                        {IO(norm, y), true, 4},
                                        {IO(norm, weight), false, 4},
                                        {IO(norm, bias), false, 4},
                                        {IO(norm, residual), false, 4}};

static const field rope_fields[] = {{AT(rope, tokens), DIM, 0, TWO_40}, {AT(rope, x_stride), STRIDE, 8, TWO_40},
                                    {AT(rope, heads), INT, 1, HEADS},   {AT(rope, head_dim), INT, 1, 16384},
                                    {AT(rope, rot_dim), INT, 0, 4},     {AT(rope, pairs), INT, 0, 1},
                                    {AT(rope, x_dtype), TYPE, 0, 0},    {AT(rope, magnitude), REAL, 0, 0}};
static const pointer rope_pointers[] = {
    {IO(rope, x), true, 4}, {IO(rope, positions), true, 4}, {IO(rope, inv_freq), true, 4}};

static const field act_fields[] = {{AT(act, rows), DIM, 0, TWO_40},
                                   {AT(act, width), DIM, 0, TWO_40},
                                   {AT(act, x_stride), STRIDE, 4, TWO_40},
                                   {AT(act, g_stride), STRIDE, 4, TWO_40},
                                   {AT(act, y_stride), STRIDE, 4, TWO_40},
                                   {AT(act, act), INT, 0, 5},
                                   {AT(act, dtype), TYPE, 0, 0}};
static const pointer act_pointers[] = {{IO(act, x), true, 4}, {IO(act, g), false, 4}, {IO(act, y), true, 4}};

static const field add_fields[] = {{AT(add, rows), DIM, 0, TWO_40},        {AT(add, width), DIM, 0, TWO_40},
                                   {AT(add, x_stride), STRIDE, 4, TWO_40}, {AT(add, b_stride), STRIDE, 4, TWO_40},
                                   {AT(add, y_stride), STRIDE, 4, TWO_40}, {AT(add, b_rows), INT, 0, 2},
                                   {AT(add, dtype), TYPE, 0, 0},           {AT(add, scale), REAL, 0, 0}};
static const pointer add_pointers[] = {{IO(add, x), true, 4}, {IO(add, b), false, 4}, {IO(add, y), true, 4}};

static const field softmax_fields[] = {
    {AT(softmax, rows), DIM, 0, TWO_40},        {AT(softmax, width), DIM, 0, TWO_40},
    {AT(softmax, x_stride), STRIDE, 4, TWO_40}, {AT(softmax, y_stride), STRIDE, 4, TWO_40},
    {AT(softmax, scale), REAL, 0, 0},           {AT(softmax, log), FLAG, 0, 0}};
static const pointer softmax_pointers[] = {{IO(softmax, x), true, 4}, {IO(softmax, y), true, 4}};

static const field embed_fields[] = {{AT(embed, tokens), DIM, 0, TWO_40}, {AT(embed, vocab), DIM, 0, TWO_40},
                                     {AT(embed, width), DIM, 0, TWO_40},  {AT(embed, y_stride), STRIDE, 4, TWO_40},
                                     {AT(embed, y_dtype), TYPE, 0, 0},    {AT(embed, scale), REAL, 0, 0},
                                     {AT(embed, reserved), ZERO, 0, 0}};
static const pointer embed_pointers[] = {
    {IO(embed, ids), true, 4}, {IO(embed, table), true, 4}, {IO(embed, y), true, 4}};

static const field convert_fields[] = {{AT(convert, rows), DIM, 0, TWO_40},
                                       {AT(convert, width), DIM, 0, TWO_40},
                                       {AT(convert, scales), INT, 0, 2},
                                       {AT(convert, reserved), ZERO, 0, 0}};
static const pointer convert_pointers[] = {
    {IO(convert, x), true, 4}, {IO(convert, y), true, 1}, {IO(convert, scale), true, 4}};

static const field attn_fields[] = {{AT(attn, batch), DIM, 0, TWO_40},       {AT(attn, max_q), DIM, 0, TWO_40},
                                    {AT(attn, max_kv), DIM, 0, TWO_40},      {AT(attn, q_heads), INT, 1, HEADS},
                                    {AT(attn, kv_heads), INT, 1, HEADS},     {AT(attn, head_dim), INT, 1, 1024},
                                    {AT(attn, v_dim), INT, 0, 1024},         {AT(attn, q_dtype), TYPE, 0, 0},
                                    {AT(attn, o_dtype), TYPE, 0, 0},         {AT(attn, window), INT, 0, INT32_MAX},
                                    {AT(attn, page_size), INT, 1, 1 << 24},  {AT(attn, scale), REAL, 0, 0},
                                    {AT(attn, softcap), POSITIVE, 0, 0},     {AT(attn, q_scale_tokens), ZERO, 0, 0},
                                    {AT(attn, kv_scale_tokens), ZERO, 0, 0}, {AT(attn, reserved), ZERO, 0, 0},
                                    {AT(attn, q_stretches), ZERO, 0, 0},     {AT(attn, kv_stretches), ZERO, 0, 0}};
static const pointer attn_pointers[] = {
    {IO(attn, q), true, 4},          {IO(attn, k), true, 4},     {IO(attn, v), true, 4},
    {IO(attn, o), true, 4},          {IO(attn, lse), true, 4},   {IO(attn, kv_len), true, 4},
    {IO(attn, page_table), true, 4}, {IO(attn, sinks), true, 4}, {IO(attn, alibi), true, 4}};

static const field attn_bwd_fields[] = {
    {AT(attn_bwd, batch), DIM, 0, TWO_40 / 2}, {AT(attn_bwd, max_q), DIM, 0, TWO_40},
    {AT(attn_bwd, max_kv), DIM, 0, TWO_40},    {AT(attn_bwd, total_q), ZERO, 0, 0},
    {AT(attn_bwd, total_kv), ZERO, 0, 0},      {AT(attn_bwd, q_heads), INT, 1, HEADS},
    {AT(attn_bwd, kv_heads), INT, 1, HEADS},   {AT(attn_bwd, head_dim), INT, 1, 1024},
    {AT(attn_bwd, v_dim), INT, 0, 1024},       {AT(attn_bwd, dtype), TYPE, 0, 0},
    {AT(attn_bwd, window), INT, 0, INT32_MAX}, {AT(attn_bwd, scale), REAL, 0, 0},
    {AT(attn_bwd, softcap), POSITIVE, 0, 0}};
static const pointer attn_bwd_pointers[] = {
    {IO(attn_bwd, q), true, 4},     {IO(attn_bwd, k), true, 4},      {IO(attn_bwd, v), true, 4},
    {IO(attn_bwd, o), true, 4},     {IO(attn_bwd, dout), true, 4},   {IO(attn_bwd, lse), true, 4},
    {IO(attn_bwd, dq), true, 4},    {IO(attn_bwd, dk), true, 4},     {IO(attn_bwd, dv), true, 4},
    {IO(attn_bwd, sinks), true, 4}, {IO(attn_bwd, dsinks), true, 4}, {IO(attn_bwd, alibi), true, 4}};

static const field attn_quant_fields[] = {
    {AT(attn_quant, batch), DIM, 0, TWO_40}, {AT(attn_quant, tokens), DIM, 0, TWO_40},
    {AT(attn_quant, heads), INT, 1, HEADS},  {AT(attn_quant, dim), INT, 4, 1024},
    {AT(attn_quant, x_dtype), TYPE, 0, 0},   {AT(attn_quant, kind), INT, 0, 0},
    {AT(attn_quant, hadamard), INT, 0, 1},   {AT(attn_quant, rot_dim), INT, 0, 4},
    {AT(attn_quant, pairs), INT, 0, 1},      {AT(attn_quant, magnitude), REAL, 0, 0},
    {AT(attn_quant, centre), ZERO, 0, 0},    {AT(attn_quant, reserved), ZERO, 0, 0}};
static const pointer attn_quant_pointers[] = {{IO(attn_quant, x), true, 4},
                                              {IO(attn_quant, y), true, 1},
                                              {IO(attn_quant, scale), true, 4},
                                              {IO(attn_quant, positions), true, 4},
                                              {IO(attn_quant, inv_freq), true, 4}};

/* --- one test an op --- */

static void test_norm(void **state) {
  (void)state;
  ga_norm_desc d = GA_NORM_DESC_INIT;
  d.rows = 2;
  d.width = 4;
  const ga_norm_io io = {.x = at(0), .y = at(1), .weight = at(2), .bias = at(3), .residual = at(4)};
  const op_case c = CASE(norm, &d, &io);
  all_of(&c);
}

static void test_rope(void **state) {
  (void)state;
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  d.tokens = d.heads = 2;
  d.head_dim = d.rot_dim = 4;
  const ga_rope_io io = {.x = at(0), .positions = at(1), .inv_freq = at(2)};
  const op_case c = CASE(rope, &d, &io);
  all_of(&c);
  try_most(&c, "heads", HEADS);
  try_most(&c, "head_dim", 16384);
}

static void test_act(void **state) {
  (void)state;
  ga_act_desc d = GA_ACT_DESC_INIT;
  d.rows = 2;
  d.width = 4;
  const ga_act_io io = {.x = at(0), .g = at(1), .y = at(2)};
  const op_case c = CASE(act, &d, &io);
  all_of(&c);
  try_most(&c, "act", 5);
}

static void test_add_limits(void **state) {
  (void)state;
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 2;
  d.b_rows = 1;
  d.width = 4;
  const ga_add_io io = {.x = at(0), .b = at(1), .y = at(2)};
  const op_case c = CASE(add, &d, &io);
  all_of(&c);
}

static void test_softmax(void **state) {
  (void)state;
  ga_softmax_desc d = GA_SOFTMAX_DESC_INIT;
  d.rows = 2;
  d.width = 4;
  const ga_softmax_io io = {.x = at(0), .y = at(1)};
  const op_case c = CASE(softmax, &d, &io);
  all_of(&c);
}

static void test_embed(void **state) {
  (void)state;
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = d.vocab = 2;
  d.width = 4;
  d.w_dtype = GA_F32;
  ga_embed_io io = {.ids = at(0), .table = at(1), .y = at(2)};
  const op_case c = CASE(embed, &d, &io);
  all_of(&c);
  d.width = 0; /* rows of nothing: ids are read all the same */
  io = (ga_embed_io){0};
  assert_int_equal(ga_embed(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "embed: ids is null");
  io.ids = at(0);
  assert_int_equal(ga_embed(ctx, &d, &io, NULL), GA_OK);
  d.tokens = 0;
  assert_int_equal(ga_embed(ctx, &d, &(ga_embed_io){0}, NULL), GA_OK);
}

/* No op but convert takes them, and that as x alone. */
static void test_types_that_are_only_read(void **state) {
  (void)state;
  for (ga_dtype type = GA_IQ2_XXS; type <= GA_TQ2_0; type++) {
    ga_convert_desc convert = GA_CONVERT_DESC_INIT;
    ga_embed_desc embed = GA_EMBED_DESC_INIT;
    ga_gemm_desc gemm = GA_GEMM_DESC_INIT;
    ga_kv_store_desc store = GA_KV_STORE_DESC_INIT;
    char want[80];
    convert.rows = embed.tokens = embed.vocab = gemm.m = gemm.n = store.tokens = store.slots = store.heads = 1;
    convert.width = embed.width = gemm.k = store.head_dim = store.v_dim = 256;
    convert.x_dtype = GA_F32;
    convert.y_dtype = embed.w_dtype = gemm.w_dtype = store.kv_dtype = (int32_t)type;
    assert_int_equal(ga_convert(ctx, &convert, &(ga_convert_io){0}, NULL), GA_ERR_DTYPE);
    (void)snprintf(want, sizeof want, "convert: y_dtype is %s, which can only be read", ga_dtype_name(type));
    assert_string_equal(ga_error_text(), want);
    assert_int_equal(ga_embed(ctx, &embed, &(ga_embed_io){0}, NULL), GA_ERR_DTYPE);
    assert_int_equal(ga_gemm(ctx, &gemm, &(ga_gemm_io){0}, NULL), GA_ERR_DTYPE);
    assert_int_equal(ga_kv_store(ctx, &store, &(ga_kv_store_io){0}, NULL), GA_ERR_DTYPE);
  }
}

static void test_convert(void **state) {
  (void)state;
  ga_convert_desc d = GA_CONVERT_DESC_INIT;
  d.rows = 2;
  d.width = 4;
  d.x_dtype = GA_F32;
  d.y_dtype = GA_E4M3;
  d.scales = GA_CONVERT_SCALES_ROW;
  const ga_convert_io io = {.x = at(0), .y = at(1), .scale = at(2)};
  const op_case c = CASE(convert, &d, &io);
  all_of(&c);
}

static void test_attn(void **state) {
  (void)state;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = 1;
  d.max_q = d.max_kv = 2;
  d.q_heads = d.kv_heads = 2;
  d.head_dim = 4;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_F32;
  d.flags = GA_ATTN_PAGED | GA_ATTN_LSE | GA_ATTN_SINKS | GA_ATTN_ALIBI;
  d.page_size = 2;
  int32_t *kv_len = at(5);
  kv_len[0] = 2;
  ga_attn_io io = {.q = at(0), .k = at(1), .v = at(2), .o = at(3), .lse = at(4), .kv_len = kv_len};
  io.page_table = at(6);
  io.page_table_stride = 1;
  io.sinks = at(7);
  io.alibi = at(8);
  const op_case c = CASE(attn, &d, &io);
  all_of(&c);
  try_most(&c, "q_heads", HEADS);
  try_most(&c, "head_dim", 1024);
  try_most(&c, "v_dim", 1024);
  try_most(&c, "window", INT32_MAX);
  try_most(&c, "page_size", 1 << 24);
  static const int64_t strides[] = {-1, -((int64_t)1 << 34), INT64_MIN, TWO_40 + 1, INT64_MAX};
  for (size_t i = 0; i < GA_COUNT_OF(strides); i++) {
    io.page_table_stride = strides[i];
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "attn: page_table_stride is "));
  }
}

/* The state of rows, borders and lengths, scales, segments: pointers that only some flags and types read. */
static void test_attn_more_pointers(void **state) {
  (void)state;
  const pointer states[] = {{IO(attn, state_o), true, 4}, {IO(attn, state_m), true, 4}, {IO(attn, state_l), true, 4}};
  const pointer packed[] = {{IO(attn, q_start), true, 4},
                            {IO(attn, kv_start), true, 4},
                            {IO(attn, q_len), false, 4},
                            {IO(attn, kv_len), false, 4}};
  const pointer scales[] = {{"k_scale", offsetof(ga_attn_io, k_scale.data), true, 4},
                            {"v_scale", offsetof(ga_attn_io, v_scale.data), true, 4}};
  const pointer segments[] = {{"k of kv_segments", offsetof(ga_attn_io, kv_segments[0].k), false, 4},
                              {"v of kv_segments", offsetof(ga_attn_io, kv_segments[0].v), false, 4},
                              {"kv_segments[0].k", offsetof(ga_attn_io, kv_segments[0].k), true, 1},
                              {"kv_segments[0].v", offsetof(ga_attn_io, kv_segments[0].v), true, 1}};
  int32_t *start = at(7), *length = at(8);
  start[0] = 0, start[1] = 2, length[0] = 2;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = d.q_heads = d.kv_heads = 2;
  d.head_dim = 4;
  ga_attn_io io = {.q = at(0), .k = at(1), .v = at(2), .o = at(3), .lse = at(4)};
  open_ref();
  op_case c = {.op = "attn",
               .desc = &d,
               .io = &io,
               .desc_bytes = sizeof d,
               .io_bytes = sizeof io,
               .plan = plan_attn,
               .run = run_attn};
  c.pointers = states, c.n_pointers = GA_COUNT_OF(states);
  d.flags = GA_ATTN_STATE_OUT;
  io.state_o = at(5), io.state_m = at(6), io.state_l = at(9);
  try_pointers(&c);
  c.pointers = packed, c.n_pointers = GA_COUNT_OF(packed);
  d.flags = GA_ATTN_VARLEN | GA_ATTN_LENGTHS;
  io.q_start = io.kv_start = start, io.q_len = io.kv_len = length;
  io.q_tokens = 2;
  try_pointers(&c);
  c.pointers = scales, c.n_pointers = GA_COUNT_OF(scales);
  d.flags = 0;
  d.kv_dtype = GA_E4M3;
  io.q_tokens = 0;
  io.k_scale.data = at(10), io.v_scale.data = at(11);
  try_pointers(&c);
  c.pointers = segments, c.n_pointers = GA_COUNT_OF(segments);
  d.kv_dtype = GA_F32;
  d.kv_segments = 1;
  io.kv_segments[0] = (ga_attn_kv_segment){.k = at(1), .v = at(2), .kv = 2};
  try_pointers(&c);
  close_ref();
}

static void test_stretch_counts(void **state) {
  (void)state;
  const field counts[] = {{AT(attn, q_stretches), INT, 1, 64}, {AT(attn, kv_stretches), INT, 1, 64}};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 2;
  d.q_heads = d.kv_heads = 2;
  d.head_dim = 4;
  d.q_stretches = d.kv_stretches = 1;
  static const ga_attn_stretch one = {.rows = 2};
  const ga_attn_io io = {.q = at(0), .k = at(1), .v = at(2), .o = at(3), .q_stretches = &one, .kv_stretches = &one};
  const pointer lists[] = {{IO(attn, q_stretches), true, 1},
                           {IO(attn, kv_stretches), true, 1},
                           {IO(attn, ready), false, 4},
                           {IO(attn, ready_error), false, 4}};
  const op_case c = {
      "attn",    &d,      &io, sizeof d, sizeof io, counts, GA_COUNT_OF(counts), lists, GA_COUNT_OF(lists),
      plan_attn, run_attn};
  all_of(&c);
  try_most(&c, "q_stretches", 64);
  try_most(&c, "kv_stretches", 64);
}

static void test_attn_bwd(void **state) {
  (void)state;
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = 1;
  d.max_q = d.max_kv = 2;
  d.q_heads = d.kv_heads = 2;
  d.head_dim = 4;
  d.dtype = d.grad_dtype = GA_F32;
  d.flags = GA_ATTN_SINKS | GA_ATTN_ALIBI;
  const ga_attn_bwd_io io = {.q = at(0),
                             .k = at(1),
                             .v = at(2),
                             .o = at(3),
                             .dout = at(4),
                             .lse = at(5),
                             .dq = at(6),
                             .dk = at(7),
                             .dv = at(8),
                             .dsinks = at(9),
                             .sinks = at(10),
                             .alibi = at(11)};
  const op_case c = CASE(attn_bwd, &d, &io);
  all_of(&c);
  try_most(&c, "q_heads", HEADS);
  d.batch = 0; /* a gradient of no sequences is written all the same */
  assert_int_equal(ga_attn_bwd(ctx, &d, &(ga_attn_bwd_io){.sinks = at(10), .alibi = at(11)}, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "attn_bwd: dsinks is null");
}

static void test_attn_quant(void **state) {
  (void)state;
  ga_attn_quant_desc d = GA_ATTN_QUANT_DESC_INIT;
  d.batch = 1;
  d.tokens = d.heads = 2;
  d.dim = d.rot_dim = 4;
  d.x_dtype = GA_F32;
  d.y_dtype = GA_I8;
  d.kind = GA_ATTN_QUANT_ROWS;
  d.scale_tokens = 64;
  d.magnitude = 1;
  const ga_attn_quant_io io = {.x = at(0), .y = at(1), .scale = at(2), .positions = at(3), .inv_freq = at(4)};
  const op_case c = CASE(attn_quant, &d, &io);
  all_of(&c);
  try_most(&c, "heads", HEADS);
  try_most(&c, "dim", 1024);
}

/* --- strides of attention --- */

typedef struct stride_field {
  const char *name;
  size_t at;
} stride_field;

#define STRIDES(op, name) \
  { #name, offsetof(ga_##op##_io, name) }

/* Of tensors of 2 x 2 x 2 and more. */
static void try_strides(const op_case *c, const stride_field *fields, size_t n) {
  static const int64_t bad[] = {-1, -((int64_t)1 << 34), INT64_MIN, INT64_MAX, ((int64_t)1 << 60) + 1};
  unsigned char io[1024];
  ga_plan *plan;
  if (plan_of(c, c->desc, &plan) != GA_OK) fail_msg("%s: %s", c->op, ga_error_text());
  for (size_t f = 0; f < n; f++) {
    for (size_t i = 0; i < 3 * GA_COUNT_OF(bad); i++) {
      int64_t s[3] = {16, 16, 16};
      s[i % 3] = bad[i / 3];
      memcpy(io, c->io, c->io_bytes);
      memcpy(io + fields[f].at, s, sizeof s);
      expect_io(c, plan, io, fields[f].name, "out of range");
    }
    const int64_t far[3] = {(int64_t)1 << 60, 0, 1};
    memcpy(io, c->io, c->io_bytes);
    memcpy(io + fields[f].at, far, sizeof far);
    expect_io(c, plan, io, fields[f].name, "beyond reach");
  }
  ga_plan_destroy(plan);
}

static void test_strides(void **state) {
  (void)state;
  static const stride_field of_attn[] = {STRIDES(attn, q_stride), STRIDES(attn, k_stride), STRIDES(attn, v_stride),
                                         STRIDES(attn, o_stride)};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = d.max_q = d.max_kv = d.q_heads = d.kv_heads = 2;
  d.head_dim = 4;
  const ga_attn_io io = {.q = at(0), .k = at(1), .v = at(2), .o = at(3)};
  const op_case attn = CASE(attn, &d, &io);
  try_strides(&attn, of_attn, GA_COUNT_OF(of_attn));
  static const stride_field of_bwd[] = {STRIDES(attn_bwd, q_stride),  STRIDES(attn_bwd, k_stride),
                                        STRIDES(attn_bwd, v_stride),  STRIDES(attn_bwd, o_stride),
                                        STRIDES(attn_bwd, dq_stride), STRIDES(attn_bwd, dk_stride),
                                        STRIDES(attn_bwd, dv_stride), STRIDES(attn_bwd, dout_stride)};
  ga_attn_bwd_desc b = GA_ATTN_BWD_DESC_INIT;
  b.batch = b.max_q = b.max_kv = b.q_heads = b.kv_heads = 2;
  b.head_dim = 4;
  const ga_attn_bwd_io bio = {.q = at(0),
                              .k = at(1),
                              .v = at(2),
                              .o = at(3),
                              .dout = at(4),
                              .lse = at(5),
                              .dq = at(6),
                              .dk = at(7),
                              .dv = at(8)};
  const op_case bwd = CASE(attn_bwd, &b, &bio);
  try_strides(&bwd, of_bwd, GA_COUNT_OF(of_bwd));
  static const stride_field of_quant[] = {STRIDES(attn_quant, x_stride), STRIDES(attn_quant, y_stride)};
  ga_attn_quant_desc q = GA_ATTN_QUANT_DESC_INIT;
  q.batch = q.tokens = q.heads = 2;
  q.dim = 4;
  const ga_attn_quant_io qio = {.x = at(0), .y = at(1), .scale = at(2)};
  const op_case quant = CASE(attn_quant, &q, &qio);
  try_strides(&quant, of_quant, GA_COUNT_OF(of_quant));
}

/* Rows of a block cache begin with a block; scales and segments lie within reach. */
static void test_attn_io(void **state) {
  (void)state;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = d.q_heads = d.kv_heads = 2;
  d.head_dim = 32;
  d.kv_dtype = GA_Q8_0;
  ga_attn_io io = {.q = at(0), .k = at(1), .v = at(2), .o = at(3)};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
  io.v_stride = (ga_attn_strides){.batch = 128, .token = 65, .head = 32};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "attn: v_stride is 128, 65, 32; of q8_0 it must be multiples of 32");
  io.v_stride = (ga_attn_strides){0};
  d.kv_dtype = GA_E4M3;
  float one = 1;
  io.k_scale.data = io.v_scale.data = &one;
  io.v_scale.head = TWO_40 + 1;
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "attn: v_scale has strides 0, 1099511627777, 0; must be 0 to 2^40"));
  d.kv_dtype = GA_F32;
  d.kv_segments = 1;
  open_ref(); /* no row of a CPU takes segments */
  static const int64_t shifts[] = {INT64_MIN, -TWO_40 - 1, TWO_40 + 1, INT64_MAX};
  for (size_t i = 0; i < GA_COUNT_OF(shifts); i++) {
    io.kv_segments[0] = (ga_attn_kv_segment){.k = at(1), .v = at(2), .kv = 2, .shift = shifts[i]};
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "attn: kv_segments[0].shift is "));
  }
  close_ref();
  d.kv_segments = 0;
  d.flags = GA_ATTN_VARLEN;
  int32_t starts[3] = {0, 2, 2};
  io.q_start = io.kv_start = starts;
  io.q_tokens = -1;
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "attn: q_tokens -1"));
}

/* --- sizes that only together reach too far --- */

#define REACHES(op, d)                                                                          \
  do {                                                                                          \
    ga_plan *plan_;                                                                             \
    assert_int_equal(ga_##op##_plan(ctx, (d), &plan_), GA_ERR_SHAPE);                           \
    assert_null(plan_);                                                                         \
    if (!strstr(ga_error_text(), "; at most 2^60") && !strstr(ga_error_text(), "at most 2^40")) \
      fail_msg("%s", ga_error_text());                                                          \
  } while (0)

static void test_reach(void **state) {
  (void)state;
  ga_norm_desc norm = GA_NORM_DESC_INIT;
  norm.rows = norm.width = TWO_40;
  REACHES(norm, &norm);
  norm.width = 4;
  norm.y_stride = (1 << 20) + 1;
  REACHES(norm, &norm);
  norm.y_stride = 1 << 20;
  ga_plan *plan;
  assert_int_equal(ga_norm_plan(ctx, &norm, &plan), GA_OK);
  ga_plan_destroy(plan);
  ga_attn_desc attn = GA_ATTN_DESC_INIT;
  attn.max_q = attn.max_kv = TWO_40; /* of no sequence: strides are computed all the same */
  attn.q_heads = attn.kv_heads = HEADS;
  attn.head_dim = 1024;
  attn.q_dtype = attn.kv_dtype = attn.o_dtype = GA_F32;
  REACHES(attn, &attn);
  ga_attn_bwd_desc bwd = GA_ATTN_BWD_DESC_INIT;
  bwd.batch = 1;
  bwd.max_q = bwd.max_kv = TWO_40;
  bwd.q_heads = bwd.kv_heads = HEADS;
  bwd.head_dim = 1024;
  REACHES(attn_bwd, &bwd);
  ga_convert_desc convert = GA_CONVERT_DESC_INIT;
  convert.rows = convert.width = TWO_40;
  convert.x_dtype = convert.y_dtype = GA_F32;
  REACHES(convert, &convert);
  ga_gemm_desc gemm = GA_GEMM_DESC_INIT;
  gemm.m = gemm.k = TWO_40;
  REACHES(gemm, &gemm);
  gemm.k = 4;
  gemm.n = TWO_40;
  REACHES(gemm, &gemm);
  gemm.n = 4;
  gemm.w_stride = 1 << 20;
  gemm.x_stride = (1 << 20) + 1;
  REACHES(gemm, &gemm);
  ga_kv_store_desc kv = GA_KV_STORE_DESC_INIT;
  kv.heads = HEADS;
  kv.head_dim = 16;
  kv.slots = TWO_40;
  kv.v_dim = 32;
  REACHES(kv_store, &kv);
  kv.slots = 0;
  kv.tokens = TWO_40;
  REACHES(kv_store, &kv);
  ga_pack_desc pack = GA_PACK_DESC_INIT;
  uint64_t bytes;
  pack.n = pack.k = TWO_40;
  pack.w_dtype = GA_F32;
  assert_int_equal(ga_pack_bytes(ctx, &pack, &bytes), GA_ERR_SHAPE);
  assert_non_null(strstr(ga_error_text(), "pack: w of "));
}

/* --- ga_rope_freqs --- */

static void refused_params(const ga_rope_params *p, const char *says) {
  float freq[2] = {7, 7}, magnitude = 7;
  assert_int_equal(ga_rope_freqs(p, freq, &magnitude), GA_ERR_ARG);
  if (!strstr(ga_error_text(), says)) fail_msg("'%s' does not say '%s'", ga_error_text(), says);
  assert_true(freq[0] == 7 && magnitude == 7);
}

static void test_rope_params(void **state) {
  (void)state;
  static const double bad[] = {NAN, INFINITY, -INFINITY, -1};
  static const struct {
    const char *name;
    size_t at;
  } fields[] = {{"rope: base is", offsetof(ga_rope_params, base)},
                {"rope: factor is", offsetof(ga_rope_params, factor)},
                {"rope: original_context is", offsetof(ga_rope_params, original_context)},
                {"rope: beta_fast is", offsetof(ga_rope_params, beta_fast)},
                {"rope: beta_slow is", offsetof(ga_rope_params, beta_slow)},
                {"rope: attn_factor is", offsetof(ga_rope_params, attn_factor)}};
  ga_rope_params good = GA_ROPE_PARAMS_INIT;
  float freq[2], magnitude;
  good.rot_dim = 4;
  good.scaling = GA_ROPE_SCALE_YARN;
  good.factor = 2;
  good.original_context = 8192;
  assert_int_equal(ga_rope_freqs(&good, freq, &magnitude), GA_OK);
  for (size_t i = 0; i < GA_COUNT_OF(fields); i++)
    for (size_t k = 0; k < GA_COUNT_OF(bad); k++) {
      ga_rope_params p = good;
      memcpy((char *)&p + fields[i].at, &bad[k], sizeof bad[k]);
      refused_params(&p, fields[i].name);
    }
  static const float factors[][2] = {{0, 1}, {1, NAN}, {INFINITY, 1}, {1, -1}};
  for (size_t i = 0; i < GA_COUNT_OF(factors); i++) {
    ga_rope_params p = good;
    p.freq_factors = factors[i];
    refused_params(&p, "rope: freq_factors[");
  }
  static const int32_t dims[] = {-2, 3, 16386, INT32_MAX};
  for (size_t i = 0; i < GA_COUNT_OF(dims); i++) {
    ga_rope_params p = good;
    p.rot_dim = dims[i];
    assert_int_equal(ga_rope_freqs(&p, freq, &magnitude), GA_ERR_SHAPE);
    assert_non_null(strstr(ga_error_text(), "rope: rot_dim is "));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_norm),
      cmocka_unit_test(test_rope),
      cmocka_unit_test(test_act),
      cmocka_unit_test(test_add_limits),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_embed),
      cmocka_unit_test(test_types_that_are_only_read),
      cmocka_unit_test(test_convert),
      cmocka_unit_test(test_attn),
      cmocka_unit_test(test_attn_more_pointers),
      cmocka_unit_test(test_stretch_counts),
      cmocka_unit_test(test_attn_bwd),
      cmocka_unit_test(test_attn_quant),
      cmocka_unit_test(test_strides),
      cmocka_unit_test(test_attn_io),
      cmocka_unit_test(test_reach),
      cmocka_unit_test(test_rope_params),
  };
  return cmocka_run_group_tests(tests, open_limits, close_limits);
}
