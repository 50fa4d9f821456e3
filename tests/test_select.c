/* Choosing a kernel is a pure function of description, capabilities and table: its results are kept in
 * tests/select.golden and reviewed as a diff. `make golden` writes them anew.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "cuda/rt/costs.h"
#include "ga/collective.h"
#include "ga/experts.h"
#include "ga/mla.h"
#include "opdef/ops.h"

#define GENERIC (1u << GA_ISA_generic)
#define AVX2    (GENERIC | 1u << GA_ISA_avx2)
#define AVX512  (AVX2 | 1u << GA_ISA_avx512)
#define AMX     (AVX512 | 1u << GA_ISA_amx)

/* One machine: its rows and what it can do. */
static ga_device machine;
static const char *machine_name;
static FILE *out;

static void put_selection(ga_op op, const void *desc, const char *text) {
  const ga_kernel *k = ga_kernel_choose(&machine, NULL, op, desc);
  if (!k && op == GA_OP_gemm && ((const ga_gemm_fused_desc *)desc)->plain.w_layout) return; /* few types are packed */
  (void)fprintf(out, "%-8s %-9s %-44s %s\n", machine_name, ga_op_name(op), text, k ? k->id : "none");
}

static void select_gemm(int64_t m, int64_t n, int64_t k, ga_dtype w, ga_dtype xy, ga_layout layout) {
  char text[96];
  ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
  ga_gemm_desc *d = &fused.plain;
  d->m = m;
  d->n = d->y_stride = n;
  d->k = d->x_stride = d->w_stride = k;
  d->w_dtype = (int32_t)w;
  d->x_dtype = d->y_dtype = (int32_t)xy;
  d->w_layout = (int32_t)layout;
  (void)snprintf(text, sizeof text, "m=%lld n=%lld k=%lld %s %s layout=%d", (long long)m, (long long)n, (long long)k,
                 ga_dtype_name(w), ga_dtype_name(xy), (int)layout);
  put_selection(GA_OP_gemm, &fused, text);
}

/* k = 4096 and results in bf16; operands stored across or with scales. */
static void gemm_square(int64_t m, int64_t n, ga_dtype type, uint32_t flags, ga_gemm_scales scales) {
  char text[96];
  ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
  ga_gemm_desc *d = &fused.plain;
  d->m = m;
  d->n = d->y_stride = n;
  d->k = 4096;
  d->x_stride = flags & GA_GEMM_XT ? m : d->k;
  d->w_stride = flags & GA_GEMM_WT ? n : d->k;
  d->w_dtype = d->x_dtype = (int32_t)type;
  d->y_dtype = GA_BF16;
  d->flags = flags;
  d->scales = (int32_t)scales;
  (void)snprintf(text, sizeof text, "m=%lld n=%lld k=4096 %s flags=%u scales=%d", (long long)m, (long long)n,
                 ga_dtype_name(type), flags, (int)scales);
  put_selection(GA_OP_gemm, &fused, text);
}

static void gemms(void) {
  static const ga_dtype weights[] = {GA_F32,    GA_F16,    GA_BF16,  GA_E4M3,  GA_Q4_0,    GA_Q4_1, GA_Q5_0,
                                     GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,  GA_Q4_K,    GA_Q5_K, GA_Q6_K,
                                     GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};
  for (size_t i = 0; i < GA_COUNT_OF(weights); i++)
    for (int layout = 0; layout <= 1; layout++) {
      select_gemm(1, 4096, 4096, weights[i], GA_F32, (ga_layout)layout);
      select_gemm(512, 4096, 4096, weights[i], GA_F32, (ga_layout)layout);
    }
  for (int64_t m = 2; m <= 17; m += 3) select_gemm(m, 4096, 4096, GA_Q4_K, GA_F32, GA_LAYOUT_NATIVE);
  select_gemm(1, 7, 64, GA_F32, GA_F32, GA_LAYOUT_NATIVE);
  select_gemm(3, 7, 65, GA_F16, GA_F32, GA_LAYOUT_NATIVE);
  select_gemm(1, 4096, 4096, GA_BF16, GA_BF16, GA_LAYOUT_NATIVE);
  select_gemm(512, 4096, 4096, GA_BF16, GA_BF16, GA_LAYOUT_NATIVE);
  for (int64_t m = 128; m <= 4096; m *= 32) {
    gemm_square(m, 4096, GA_BF16, 0, GA_GEMM_SCALES_NONE);
    gemm_square(m, 4096, GA_BF16, GA_GEMM_WT, GA_GEMM_SCALES_NONE);
    gemm_square(m, 4096, GA_BF16, GA_GEMM_XT | GA_GEMM_WT, GA_GEMM_SCALES_NONE);
    gemm_square(m, 4096, GA_BF16, GA_GEMM_XT, GA_GEMM_SCALES_NONE);
    gemm_square(m, 4096, GA_E4M3, 0, GA_GEMM_SCALES_BLOCK);
    gemm_square(m, 4096, GA_E4M3, GA_GEMM_FAST_SUM, GA_GEMM_SCALES_TENSOR);
  }
  gemm_square(4096, 4095, GA_BF16, GA_GEMM_WT, GA_GEMM_SCALES_NONE);
  gemm_square(4096, 4095, GA_E4M3, GA_GEMM_WT, GA_GEMM_SCALES_BLOCK);
}

static void select_attn(int64_t q, int64_t kv, int heads, int kv_heads, int dim, ga_dtype xq, ga_dtype xkv,
                        uint32_t flags) {
  char text[96];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = q;
  d.max_kv = kv;
  d.q_heads = heads;
  d.kv_heads = kv_heads;
  d.head_dim = d.v_dim = dim;
  d.q_dtype = d.o_dtype = (int32_t)xq;
  d.kv_dtype = (int32_t)xkv;
  d.flags = flags;
  d.page_size = flags & GA_ATTN_PAGED ? 32 : 0;
  d.scale = 1.0f / sqrtf((float)dim);
  (void)snprintf(text, sizeof text, "q=%lld kv=%lld h=%d/%d d=%d %s %s flags=%u", (long long)q, (long long)kv, heads,
                 kv_heads, dim, ga_dtype_name(xq), ga_dtype_name(xkv), flags);
  put_selection(GA_OP_attn, &d, text);
}

/* Rows of this machine that take lists of stretches. */
static void stretches(void) {
  static const ga_dtype types[] = {GA_F32, GA_F16, GA_BF16};
  char text[96];
  for (size_t i = 0; i < 2 * GA_COUNT_OF(types); i++) {
    const ga_dtype type = types[i / 2];
    ga_attn_desc d = GA_ATTN_DESC_INIT;
    d.max_q = d.max_kv = 4096;
    d.q_heads = 32;
    d.kv_heads = 8;
    d.head_dim = d.v_dim = i % 2 ? 128 : 64;
    d.q_dtype = d.kv_dtype = d.o_dtype = (int32_t)type;
    d.flags = GA_ATTN_CAUSAL;
    d.scale = 0.125f;
    d.q_stretches = 2;
    d.kv_stretches = 8;
    (void)snprintf(text, sizeof text, "2 x 8 stretches h=32/8 d=%d %s", d.head_dim, ga_dtype_name(type));
    put_selection(GA_OP_attn, &d, text);
  }
}

static void attns(void) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_E4M3, GA_Q8_0, GA_Q4_0};
  for (size_t i = 0; i < GA_COUNT_OF(caches); i++) {
    select_attn(1, 1000, 32, 8, 128, GA_F32, caches[i], GA_ATTN_CAUSAL);
    select_attn(512, 512, 32, 8, 128, GA_F32, caches[i], GA_ATTN_CAUSAL);
    select_attn(1, 1000, 9, 3, 64, GA_F32, caches[i], GA_ATTN_CAUSAL | GA_ATTN_PAGED);
  }
  select_attn(512, 512, 4, 1, 256, GA_F16, GA_F16, GA_ATTN_VARLEN | GA_ATTN_LSE);
  select_attn(5, 7, 2, 2, 20, GA_F32, GA_F32, GA_ATTN_SINKS | GA_ATTN_ALIBI);
  stretches();
}

static void rows_of_layer(ga_dtype t) {
  const char *name = ga_dtype_name(t);
  ga_norm_desc norm = GA_NORM_DESC_INIT;
  norm.rows = 1;
  norm.width = norm.x_stride = norm.y_stride = norm.residual_stride = 4096;
  norm.x_dtype = norm.y_dtype = (int32_t)t;
  put_selection(GA_OP_norm, &norm, name);
  ga_rope_desc rope = GA_ROPE_DESC_INIT;
  rope.tokens = 1;
  rope.heads = 32;
  rope.head_dim = rope.rot_dim = 128;
  rope.x_stride = 4096;
  rope.x_dtype = (int32_t)t;
  put_selection(GA_OP_rope, &rope, name);
  ga_act_desc act = GA_ACT_DESC_INIT;
  act.rows = 1;
  act.width = act.x_stride = act.g_stride = act.y_stride = 4096;
  act.act = GA_ACT_SILU;
  act.dtype = (int32_t)t;
  put_selection(GA_OP_act, &act, name);
  ga_add_desc add = GA_ADD_DESC_INIT;
  add.rows = add.b_rows = 1;
  add.width = add.x_stride = add.b_stride = add.y_stride = 4096;
  add.dtype = (int32_t)t;
  put_selection(GA_OP_add, &add, name);
  ga_kv_store_fused_desc store = GA_KV_STORE_FUSED_DESC_INIT;
  store.plain.tokens = 1;
  store.plain.slots = 1024;
  store.plain.heads = 8;
  store.plain.head_dim = store.plain.v_dim = 128;
  store.plain.k_stride = store.plain.v_stride = 1024;
  store.plain.kv_dtype = (int32_t)t;
  put_selection(GA_OP_kv_store, &store, name);
  store.rot_dim = 128;
  store.q_heads = 32;
  store.q_stride = 4096;
  char rotated[32];
  (void)snprintf(rotated, sizeof rotated, "turned %s", name);
  put_selection(GA_OP_kv_store, &store, rotated);
  store.head_norm = 1;
  (void)snprintf(rotated, sizeof rotated, "normed %s", name);
  put_selection(GA_OP_kv_store, &store, rotated);
}

/* Kinds over two ranks that are threads, over processes, over GPUs with windows and with links. */
static void select_collectives(void) {
  static const ga_op ops[] = {GA_OP_all_reduce, GA_OP_all_gather, GA_OP_reduce_scatter, GA_OP_all_to_all,
                              GA_OP_send_recv};
  for (int i = 0; i < 20; i++) {
    char text[64];
    ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
    d.kind = i / 4, d.n = 4096, d.dtype = GA_BF16, d.ranks = 2;
    d.reach = i % 4 == 0 ? GA_COMM_SAME_MEMORY : 0;
    d.flags = i % 4 == 2 ? GA_COLLECTIVE_WINDOWS : i % 4 == 3 ? GA_COLLECTIVE_LINKS : 0;
    (void)snprintf(text, sizeof text, "bf16 2 ranks reach=%u flags=%u", d.reach, d.flags);
    put_selection(ops[d.kind], &d, text);
  }
}

/* Few and many tokens to 8 of 128 experts. */
static void routes(void) {
  for (int i = 0; i < 2; i++) {
    char text[64];
    ga_route_desc d = GA_ROUTE_DESC_INIT;
    d.tokens = i ? 4096 : 1;
    d.n_experts = 128, d.logits_stride = 128, d.top_k = 8;
    d.n_groups = d.top_k_groups = 1;
    d.flags = GA_ROUTE_SORT;
    (void)snprintf(text, sizeof text, "tokens=%lld 8 of 128", (long long)d.tokens);
    put_selection(GA_OP_route, &d, text);
  }
}

/* Gate and up of 8 of 128 experts, and their down, for few and many tokens. */
static void select_expert_gemms(void) {
  static const ga_dtype types[] = {GA_F32, GA_BF16, GA_Q8_0, GA_Q4_K, GA_MXFP4};
  static const ga_layout layouts[] = {GA_LAYOUT_NATIVE, GA_LAYOUT_X16, GA_LAYOUT_MMA_PACKED};
  static const int64_t tokens[] = {1, 32, 4096};
  for (size_t i = 0; i < 2 * 3 * GA_COUNT_OF(layouts) * GA_COUNT_OF(types); i++) {
    char text[96];
    ga_expert_gemm_desc d = GA_EXPERT_GEMM_DESC_INIT;
    const bool in = i % 2 == 0;
    d.tokens = tokens[i / 2 % 3];
    d.n_experts = 128, d.top_k = 8;
    d.form = in ? GA_EXPERT_IN : GA_EXPERT_OUT;
    d.n = d.y_stride = d.expert_rows = in ? 768 : 2048;
    d.k = d.x_stride = in ? 2048 : 768;
    d.w_dtype = (int32_t)types[i / 18];
    d.w_layout = (int32_t)layouts[i / 6 % 3];
    d.act = in ? GA_ACT_SILU : GA_ACT_NONE;
    d.flags = GA_EXPERT_SORTED | (in ? GA_EXPERT_GATED : GA_EXPERT_WEIGHTS);
    (void)snprintf(text, sizeof text, "tokens=%lld n=%lld %s layout=%d", (long long)d.tokens, (long long)d.n,
                   ga_dtype_name(types[i / 18]), d.w_layout);
    put_selection(GA_OP_expert_gemm, &d, text);
  }
}

/* A token and a prompt of DeepSeek V3's heads, plain and batch-invariant. */
static void select_mlas(void) {
  for (int i = 0; i < 4; i++) {
    char text[64];
    ga_mla_desc d = GA_MLA_DESC_INIT;
    d.max_q = i % 2 ? 512 : 1;
    d.max_kv = 4096;
    d.q_heads = 128, d.head_dim = 576, d.v_dim = 512;
    d.q_stride = 128 * 576, d.o_stride = 128 * 512;
    d.flags = i / 2 ? GA_MLA_INVARIANT : 0;
    (void)snprintf(text, sizeof text, "q=%lld kv=4096 flags=%u", (long long)d.max_q, d.flags);
    put_selection(GA_OP_mla, &d, text);
  }
  ga_mla_store_desc store = GA_MLA_STORE_DESC_INIT;
  store.tokens = 1, store.slots = 64;
  store.v_dim = 512, store.rot_dim = 64, store.x_stride = 576;
  put_selection(GA_OP_mla_store, &store, "rows");
}

static void others(void) {
  static const ga_dtype weights[] = {GA_F32, GA_F16, GA_BF16, GA_Q4_0, GA_Q8_0, GA_Q4_K, GA_Q6_K};
  rows_of_layer(GA_F32);
  rows_of_layer(GA_F16);
  rows_of_layer(GA_BF16);
  ga_softmax_desc softmax = GA_SOFTMAX_DESC_INIT;
  softmax.rows = 1;
  softmax.width = softmax.x_stride = softmax.y_stride = 4096;
  put_selection(GA_OP_softmax, &softmax, "f32");
  ga_attn_merge_desc merge = GA_ATTN_MERGE_DESC_INIT;
  merge.rows = merge.lse_head = merge.part_lse_head = 4096;
  merge.heads = 32, merge.dim = 128;
  merge.o_token = merge.part_token = 4096;
  merge.o_head = merge.part_head = 128;
  put_selection(GA_OP_attn_merge, &merge, "f32");
  ga_sample_fused_desc sample = GA_SAMPLE_FUSED_DESC_INIT;
  sample.plain.vocab = 50000;
  put_selection(GA_OP_sample, &sample, "greedy");
  sample.plain.temperature = 0.8f;
  sample.plain.top_k = 40;
  put_selection(GA_OP_sample, &sample, "top-k");
  sample.plain.typical_p = 0.9f;
  put_selection(GA_OP_sample, &sample, "typical");
  sample.rows = 8;
  put_selection(GA_OP_sample, &sample, "rows");
  select_collectives();
  routes();
  select_expert_gemms();
  select_mlas();
  for (size_t i = 0; i < GA_COUNT_OF(weights); i++) {
    ga_embed_desc embed = GA_EMBED_DESC_INIT;
    embed.tokens = 1;
    embed.vocab = 50000;
    embed.width = embed.y_stride = 4096;
    embed.w_dtype = (int32_t)weights[i];
    put_selection(GA_OP_embed, &embed, ga_dtype_name(weights[i]));
    ga_pack_desc pack = GA_PACK_DESC_INIT;
    pack.n = pack.k = 4096;
    pack.w_dtype = (int32_t)weights[i];
    pack.w_layout = GA_LAYOUT_X16;
    put_selection(GA_OP_pack, &pack, ga_dtype_name(weights[i]));
    ga_convert_desc convert = GA_CONVERT_DESC_INIT;
    convert.rows = 1;
    convert.width = 4096;
    convert.x_dtype = (int32_t)weights[i];
    convert.y_dtype = GA_F32;
    put_selection(GA_OP_convert, &convert, ga_dtype_name(weights[i]));
  }
}

static const ga_backend *backend(const char *name) {
  for (size_t i = 0; i < ga_n_backends; i++)
    if (!strcmp(ga_backends[i]->name, name)) return ga_backends[i];
  return NULL;
}

static void hopper_attn(int64_t batch, int64_t length, int heads, int dim, ga_dtype type, uint32_t flags, int window) {
  char text[96];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = batch;
  d.max_q = d.max_kv = length;
  d.q_heads = d.kv_heads = heads;
  d.head_dim = d.v_dim = dim;
  d.q_dtype = d.kv_dtype = d.o_dtype = (int32_t)type;
  d.flags = flags;
  d.window = window;
  d.page_size = flags & GA_ATTN_PAGED ? 32 : 0;
  d.scale = 1.0f / sqrtf((float)dim);
  (void)snprintf(text, sizeof text, "b=%lld s=%lld h=%d d=%d %s flags=%u w=%d", (long long)batch, (long long)length,
                 heads, dim, ga_dtype_name(type), flags, window);
  put_selection(GA_OP_attn, &d, text);
}

/* 8-bit inputs with scales: V in e4m3. */
static void hopper_scaled(int dim, ga_dtype q, ga_dtype o, uint32_t flags, int32_t q_scale_tokens) {
  char text[96];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 4096;
  d.q_heads = d.kv_heads = 8;
  d.head_dim = d.v_dim = dim;
  d.q_dtype = (int32_t)q;
  d.kv_dtype = GA_E4M3;
  d.o_dtype = (int32_t)o;
  d.flags = flags;
  d.q_scale_tokens = q_scale_tokens;
  d.kv_scale_tokens = 128;
  d.scale = 1.0f / sqrtf((float)dim);
  (void)snprintf(text, sizeof text, "s=4096 d=%d %s e4m3 %s flags=%u", dim, ga_dtype_name(q), ga_dtype_name(o), flags);
  put_selection(GA_OP_attn, &d, text);
}

/* Few queries, heads in groups of 4. */
static void hopper_few(int64_t batch, int64_t queries, int64_t keys, int dim, uint32_t flags) {
  char text[96];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = batch;
  d.max_q = queries;
  d.max_kv = keys;
  d.q_heads = 32;
  d.kv_heads = 8;
  d.head_dim = d.v_dim = dim;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.flags = flags;
  d.scale = 1.0f / sqrtf((float)dim);
  (void)snprintf(text, sizeof text, "b=%lld q=%lld kv=%lld h=32/8 d=%d flags=%u", (long long)batch, (long long)queries,
                 (long long)keys, dim, flags);
  put_selection(GA_OP_attn, &d, text);
}

/* Batch-invariant rows: one whatever the size, or several of one order. */
static void hopper_invariant(void) {
  static const ga_dtype weights[] = {GA_BF16, GA_F16, GA_Q8_0, GA_Q4_K, GA_E4M3_128}, caches[] = {GA_F16, GA_E4M3};
  static const int64_t shapes[][2] = {{1024, 4096}, {4096, 14336}, {128256, 4096}},
                       sizes[] = {1, 8, 16, 64, 256, 512, 2048};
  const size_t n_sizes = GA_COUNT_OF(sizes);
  char text[96];
  for (size_t i = 0; i < GA_COUNT_OF(weights) * GA_COUNT_OF(shapes) * GA_COUNT_OF(sizes); i++) {
    ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
    ga_gemm_desc *d = &fused.plain;
    d->m = sizes[i % n_sizes];
    d->n = d->y_stride = shapes[i / n_sizes % 3][0];
    d->k = d->x_stride = d->w_stride = shapes[i / n_sizes % 3][1];
    d->w_dtype = (int32_t)weights[i / (3 * n_sizes)];
    d->w_layout = GA_LAYOUT_MMA_PACKED;
    d->flags = GA_GEMM_INVARIANT;
    (void)snprintf(text, sizeof text, "m=%lld n=%lld k=%lld %s invariant", (long long)d->m, (long long)d->n,
                   (long long)d->k, ga_dtype_name(weights[i / (3 * n_sizes)]));
    put_selection(GA_OP_gemm, &fused, text);
  }
  for (size_t i = 0; i < 2 * GA_COUNT_OF(caches); i++) {
    ga_attn_desc d = GA_ATTN_DESC_INIT;
    d.batch = i % 2 ? 1 : 64;
    d.max_q = i % 2 ? 512 : 1;
    d.max_kv = i % 2 ? 1024 : 8192;
    d.q_heads = 32;
    d.kv_heads = 8;
    d.head_dim = d.v_dim = 128;
    d.kv_dtype = (int32_t)caches[i / 2];
    d.kv_scale_tokens = caches[i / 2] == GA_E4M3;
    d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_INVARIANT;
    d.page_size = 64;
    (void)snprintf(text, sizeof text, "b=%lld q=%lld kv=%lld h=32/8 d=128 %s invariant", (long long)d.batch,
                   (long long)d.max_q, (long long)d.max_kv, ga_dtype_name(caches[i / 2]));
    put_selection(GA_OP_attn, &d, text);
  }
}

static void hopper_attn_bwd(int64_t length, int dim, ga_dtype type, ga_dtype grad, uint32_t flags, float softcap) {
  char text[96];
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = 16384 / length;
  d.max_q = d.max_kv = length;
  d.q_heads = d.kv_heads = 2048 / dim;
  d.head_dim = d.v_dim = dim;
  d.dtype = (int32_t)type;
  d.grad_dtype = (int32_t)grad;
  d.flags = flags;
  d.softcap = softcap;
  d.scale = 1.0f / sqrtf((float)dim);
  (void)snprintf(text, sizeof text, "s=%lld d=%d %s %s flags=0x%x cap=%g", (long long)length, dim, ga_dtype_name(type),
                 ga_dtype_name(grad), flags, (double)softcap);
  put_selection(GA_OP_attn_bwd, &d, text);
}

/* The shapes of docs/log/attention-bwd.md, and what needs features, a fixed order or padding. */
static void hopper_backward(void) {
  for (int dim = 64; dim <= 256; dim *= 2)
    for (uint32_t causal = 0; causal <= 1; causal++)
      for (int64_t length = 512; length <= 16384; length *= 4)
        hopper_attn_bwd(length, dim, GA_BF16, GA_BF16, causal ? GA_ATTN_CAUSAL : 0, 0);
  hopper_attn_bwd(2048, 128, GA_F16, GA_F32, GA_ATTN_BWD_DETERMINISTIC, 0);
  hopper_attn_bwd(2048, 64, GA_F16, GA_F32, GA_ATTN_BWD_ADD_DQ | GA_ATTN_BWD_ADD_DKV | GA_ATTN_SINKS, 0);
  hopper_attn_bwd(2048, 64, GA_F16, GA_F32, GA_ATTN_BWD_ADD_DQ, 0);
  hopper_attn_bwd(2048, 64, GA_F16, GA_F32, GA_ATTN_BWD_ADD_DKV, 0);
  hopper_attn_bwd(2048, 128, GA_BF16, GA_BF16, GA_ATTN_CAUSAL | GA_ATTN_VARLEN, 0);
  hopper_attn_bwd(2048, 128, GA_F16, GA_F16, 0, 30);
  hopper_attn_bwd(2048, 64, GA_BF16, GA_BF16, GA_ATTN_BWD_DETERMINISTIC, 30);
  hopper_attn_bwd(2048, 96, GA_BF16, GA_BF16, GA_ATTN_CAUSAL, 0);
  hopper_attn_bwd(2048, 64, GA_F32, GA_F32, 0, 0);
}

/* The shapes of docs/log/attention.md, and what needs features or padding. */
/* A few rows of X, then many, by packed weights: docs/log/gemm.md has what each takes. */
static void hopper_packed(void) {
  static const int64_t rows[] = {1, 8, 9, 16, 17, 24, 32, 64, 128, 192, 256, 512, 2048};
  static const int64_t shapes[][2] = {{1024, 4096}, {4096, 4096}, {4096, 14336}, {14336, 4096}};
  for (size_t i = 0; i < GA_COUNT_OF(shapes); i++)
    for (size_t j = 0; j < GA_COUNT_OF(rows); j++)
      select_gemm(rows[j], shapes[i][0], shapes[i][1], GA_Q4_K, GA_F32, GA_LAYOUT_MMA_PACKED);
  for (size_t i = 0; i < GA_COUNT_OF(shapes); i++)
    for (size_t j = 0; j < GA_COUNT_OF(rows); j++)
      select_gemm(rows[j], shapes[i][0], shapes[i][1], GA_BF16, GA_F32, GA_LAYOUT_MMA_PACKED);
  for (size_t j = 0; j < GA_COUNT_OF(rows); j++) select_gemm(rows[j], 4096, 4096, GA_F16, GA_F32, GA_LAYOUT_MMA_PACKED);
  for (size_t i = 0; i < GA_COUNT_OF(shapes) * GA_COUNT_OF(rows); i++)
    select_gemm(rows[i % GA_COUNT_OF(rows)], shapes[i / GA_COUNT_OF(rows)][0], shapes[i / GA_COUNT_OF(rows)][1],
                GA_E4M3_128, GA_F32, GA_LAYOUT_MMA_PACKED);
}

/* Codes of X by codes of W, as a model's steps ask for them; batch-invariant for 1 row, too. */
static void hopper_rounded_x(void) {
  static const int64_t rows[] = {1, 9, 16, 32, 64, 128, 192, 256, 512, 2048};
  static const int64_t shapes[][2] = {{1024, 4096}, {4096, 4096}, {4096, 14336}, {14336, 4096}};
  char text[96];
  for (size_t i = 0; i < 2 * GA_COUNT_OF(shapes) * GA_COUNT_OF(rows); i++) {
    const int64_t *shape = shapes[i / GA_COUNT_OF(rows) % GA_COUNT_OF(shapes)];
    const bool same_bits = i >= GA_COUNT_OF(shapes) * GA_COUNT_OF(rows);
    ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
    ga_gemm_desc *d = &fused.plain;
    d->m = rows[i % GA_COUNT_OF(rows)];
    d->n = d->y_stride = shape[0];
    d->k = d->x_stride = d->w_stride = shape[1];
    d->w_dtype = GA_E4M3_128;
    d->w_layout = GA_LAYOUT_MMA_PACKED;
    d->flags = GA_GEMM_X_E4M3 | (same_bits ? (uint32_t)GA_GEMM_INVARIANT : 0);
    if (d->m == 1 && !same_bits) continue;
    (void)snprintf(text, sizeof text, "m=%lld n=%lld k=%lld e4m3_128 x as e4m3%s", (long long)d->m, (long long)d->n,
                   (long long)d->k, same_bits ? " invariant" : "");
    put_selection(GA_OP_gemm, &fused, text);
  }
}

/* Operands as they are, of the shapes that docs/log/gemm.md has timed in every row. */
static void hopper_plain(void) {
  static const int64_t bf16[][2] = {{64, 4096},  {128, 2048}, {128, 4096}, {128, 6144}, {128, 28672},
                                    {192, 4096}, {256, 2048}, {256, 4096}, {512, 4096}, {4096, 4096}};
  for (size_t i = 0; i < GA_COUNT_OF(bf16); i++) gemm_square(bf16[i][0], bf16[i][1], GA_BF16, 0, GA_GEMM_SCALES_NONE);
  select_gemm(128, 4096, 14336, GA_BF16, GA_BF16, GA_LAYOUT_NATIVE);
  for (int64_t m = 128; m <= 4096; m *= 32) {
    gemm_square(m, 4096, GA_E4M3, 0, GA_GEMM_SCALES_TENSOR);
    gemm_square(m, 4096, GA_E4M3, GA_GEMM_FAST_SUM, GA_GEMM_SCALES_TENSOR);
    gemm_square(m, 4096, GA_E4M3, 0, GA_GEMM_SCALES_BLOCK);
  }
}

static void hopper(void) {
  machine = (ga_device){.caps = {.isas = 1u << GA_ISA_sm80 | 1u << GA_ISA_sm90a,
                                 .sms = 132,
                                 .smem_bytes = 232448,
                                 .l2_bytes = 50 << 20,
                                 .rates = &cuda_costs_of_chip("NVIDIA H200")->rates},
                        .name = "cuda"};
  machine.kernels = backend("cuda")->kernels(&machine.n_kernels);
  machine_name = "hopper";
  static const int64_t lengths[] = {512, 1024, 2048, 8192, 16384};
  for (int dim = 64; dim <= 256; dim *= 2)
    for (uint32_t causal = 0; causal <= 1; causal++)
      for (size_t i = 0; i < GA_COUNT_OF(lengths); i++)
        hopper_attn(16384 / lengths[i], lengths[i], 2048 / dim, dim, GA_BF16, causal ? GA_ATTN_CAUSAL : 0, 0);
  for (int64_t s = 576; s <= 960; s += 64)
    hopper_attn(16384 / s, s, 32, 64, GA_BF16, GA_ATTN_CAUSAL, 0); /* tiles of 192 rows or of 128 */
  for (int64_t s = 128; s <= 512; s *= 2)
    for (int64_t b = 8; b <= 32; b *= 2) hopper_attn(b, s, 8, 64, GA_BF16, 0, 0);
  for (int dim = 40; dim <= 256; dim += 24) hopper_attn(1, 4096, 8, dim, GA_F16, GA_ATTN_CAUSAL, 0);
  hopper_attn(1, 4096, 8, 128, GA_BF16, GA_ATTN_CAUSAL, 512);
  hopper_attn(8, 4096, 8, 128, GA_BF16, GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED, 0);
  hopper_attn(1, 4096, 8, 64, GA_F16, GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT, 0);
  hopper_attn(1, 4096, 8, 256, GA_BF16, GA_ATTN_STATE_OUT, 0);
  hopper_attn(1, 4096, 8, 100, GA_BF16, 0, 0);
  stretches();
  for (int dim = 64; dim <= 256; dim *= 2)
    for (uint32_t causal = 0; causal <= 1; causal++) {
      hopper_scaled(dim, GA_E4M3, GA_BF16, causal, 128);
      hopper_scaled(dim, GA_I8, GA_BF16, causal, 1);
      hopper_scaled(dim, GA_E4M3, GA_BF16, causal | GA_ATTN_FAST_SUM, 128);
    }
  hopper_scaled(96, GA_I8, GA_BF16, 0, 1); /* none: rows for 16-bit q do not read scales */
  hopper_scaled(96, GA_E4M3, GA_BF16, 0, 128);
  hopper_scaled(128, GA_I8, GA_F16, GA_ATTN_SINKS, 1);
  for (int dim = 64; dim <= 256; dim *= 2)
    for (int64_t batch = 1; batch <= 8; batch *= 8)
      for (int64_t queries = 1; queries <= 256; queries *= 4)
        hopper_few(batch, queries, 4096, dim, queries > 16 ? GA_ATTN_CAUSAL : 0);
  hopper_few(8, 2, 16384, 128, GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT);
  hopper_invariant();
  hopper_backward();
  hopper_packed();
  hopper_rounded_x();
  hopper_plain();
  others();
}

static void write_golden(FILE *file) {
  static const struct {
    const char *name;
    uint32_t isas;
  } machines[] = {{"generic", GENERIC}, {"avx2", AVX2}, {"avx512", AVX512}, {"amx", AMX}};
  out = file;
  for (size_t i = 0; i < GA_COUNT_OF(machines); i++) {
    machine = (ga_device){.caps = {.isas = machines[i].isas, .threads = 4}, .name = "cpu"};
    machine.kernels = backend("cpu")->kernels(&machine.n_kernels);
    machine_name = machines[i].name;
    gemms();
    attns();
    others();
  }
  hopper();
}

static const char *const golden = GA_TEST_DIR "/select.golden";

static void test_choices_are_as_reviewed(void **state) {
  (void)state;
  char now[256], then[256];
  FILE *kept = fopen(golden, "r"), *made = tmpfile();
  assert_non_null(kept);
  assert_non_null(made);
  write_golden(made);
  rewind(made);
  for (int line = 1;; line++) {
    char *a = fgets(now, sizeof now, made), *b = fgets(then, sizeof then, kept);
    if (!a && !b) break;
    if (!a || !b || strcmp(now, then))
      fail_msg("tests/select.golden:%d\n  was %s  is  %s  if that is meant: make golden", line, b ? then : "(end)\n",
               a ? now : "(end)\n");
  }
  (void)fclose(kept);
  (void)fclose(made);
}

int main(int argc, char **argv) {
#if !defined(__x86_64__)
  (void)argc, (void)argv;
  return 0; /* the golden choices are those of the x86 rows */
#else
  if (argc == 3 && !strcmp(argv[1], "--write")) {
    FILE *file = fopen(argv[2], "w");
    if (!file) return 1;
    write_golden(file);
    return fclose(file) ? 1 : 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices_are_as_reviewed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
