/* Version 0 of the structs and calls that old.c uses, frozen: what a program had that was compiled in 2026. It includes
 * nothing of include/ga, and nothing here ever changes. Meanings are in include/ga. */
#ifndef GA_TESTS_ABI_V0_H
#define GA_TESTS_ABI_V0_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GA_OK = 0, GA_ERR_ARG = 1 };
enum { GA_F32 = 1, GA_F16 = 2 };
enum { GA_GEMM_BIAS = 1, GA_ATTN_CAUSAL = 1, GA_ATTN_LSE = 32, GA_NORM_RMS = 0, GA_FINISH_LENGTH = 0 };

typedef struct ga_ctx ga_ctx;
typedef struct ga_plan ga_plan;
typedef struct ga_stream ga_stream;
typedef struct ga_model ga_model;
typedef struct ga_session ga_session;
typedef int (*ga_progress_fn)(void *user, uint64_t done, uint64_t total);
typedef int (*ga_text_fn)(void *user, int32_t id, const char *text, size_t bytes);

typedef struct ga_ctx_options {
  size_t struct_size;
  const char *device;
  const char *disable_kernels;
  int32_t threads;
  uint32_t flags;
} ga_ctx_options;

typedef struct ga_memory_info {
  size_t struct_size;
  uint64_t total_bytes, free_bytes;
  uint64_t used_bytes, used_peak_bytes;
  uint64_t pooled_bytes, pooled_peak_bytes;
  uint64_t buffers;
  double idle;
} ga_memory_info;

typedef struct ga_gemm_desc {
  size_t struct_size;
  int64_t m, n, k;
  int64_t x_stride, y_stride;
  int64_t w_stride;
  int32_t w_dtype, x_dtype, y_dtype;
  int32_t w_layout;
  int32_t act;
  uint32_t flags;
  float scale;
  int32_t scales;
} ga_gemm_desc;

typedef struct ga_gemm_io {
  const void *x, *w;
  void *y;
  const float *bias;
  const void *gate, *residual;
  const float *x_scale, *w_scale;
} ga_gemm_io;

typedef struct ga_attn_desc {
  size_t struct_size;
  int64_t batch;
  int64_t max_q, max_kv;
  int32_t q_heads, kv_heads;
  int32_t head_dim, v_dim;
  int32_t q_dtype, kv_dtype, o_dtype;
  uint32_t flags;
  int32_t window;
  int32_t page_size;
  float scale;
  float softcap;
  int32_t kv_segments;
  int32_t q_scale_tokens;
  int32_t kv_scale_tokens;
  int32_t reserved;
} ga_attn_desc;

typedef struct ga_attn_strides {
  int64_t batch, token, head;
} ga_attn_strides;

typedef struct ga_attn_scale {
  const float *data;
  int64_t batch, head, block;
} ga_attn_scale;

typedef struct ga_attn_kv_segment {
  const void *k, *v;
  int64_t kv;
  int64_t shift;
} ga_attn_kv_segment;

typedef struct ga_attn_io {
  const void *q, *k, *v;
  void *o;
  float *lse;
  ga_attn_strides q_stride, k_stride, v_stride, o_stride;
  const int32_t *q_start;
  const int32_t *kv_start;
  const int32_t *kv_len;
  const int32_t *page_table;
  int64_t page_table_stride;
  const float *sinks;
  const float *alibi;
  int64_t q_tokens, kv_tokens;
  float *state_o, *state_m, *state_l;
  ga_attn_kv_segment kv_segments[4];
  ga_attn_scale q_scale, k_scale, v_scale;
  const float *v_mean;
} ga_attn_io;

typedef struct ga_norm_desc {
  size_t struct_size;
  int64_t rows, width;
  int64_t x_stride, y_stride;
  int32_t kind;
  int32_t x_dtype, y_dtype;
  float eps;
  int64_t residual_stride;
} ga_norm_desc;

typedef struct ga_norm_io {
  const void *x;
  void *y;
  const float *weight;
  const float *bias;
  const void *residual;
} ga_norm_io;

typedef struct ga_kv_store_desc {
  size_t struct_size;
  int64_t tokens, slots;
  int64_t k_stride, v_stride;
  int32_t heads, head_dim, v_dim;
  int32_t x_dtype, kv_dtype;
  int32_t reserved;
} ga_kv_store_desc;

typedef struct ga_kv_store_io {
  const void *k, *v;
  const int32_t *slot;
  void *k_cache, *v_cache;
  float *k_scale, *v_scale;
} ga_kv_store_io;

typedef struct ga_sample_desc {
  size_t struct_size;
  int64_t vocab;
  float temperature;
  float top_p;
  float min_p;
  float typical_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t top_k;
} ga_sample_desc;

typedef struct ga_logit_bias {
  int32_t id;
  float bias;
} ga_logit_bias;

typedef struct ga_sample_io {
  const float *logits;
  const int32_t *history;
  const ga_logit_bias *bias;
  int64_t n_history, n_bias;
  uint64_t *rng;
  int32_t *id;
  float *logprob;
} ga_sample_io;

typedef struct ga_session_options {
  size_t struct_size;
  int32_t context;
  int32_t batch;
  int32_t kv_dtype;
  uint32_t flags;
} ga_session_options;

typedef struct ga_model_options {
  size_t struct_size;
  ga_progress_fn progress;
  void *user;
  int32_t gpu_layers;
  int32_t n_more;
  ga_ctx *const *more;
  const ga_session_options *session;
  bool plan_only;
  uint8_t reserved[7];
} ga_model_options;

typedef struct ga_generate_options {
  size_t struct_size;
  int32_t max_tokens;
  bool ignore_eog;
  bool show_special;
  uint64_t seed;
  const ga_sample_desc *sample;
  int32_t penalty_last;
  int32_t n_bias;
  const ga_logit_bias *bias;
  ga_progress_fn progress;
  ga_text_fn text;
  void *user;
} ga_generate_options;

typedef struct ga_generate_result {
  size_t struct_size;
  int32_t n_prompt, n_generated;
  double prompt_seconds, generate_seconds;
  int32_t finish;
  int32_t reserved;
} ga_generate_result;

const char *ga_error_text(void);
int ga_ctx_create(const ga_ctx_options *options, ga_ctx **out);
void ga_ctx_destroy(ga_ctx *ctx);
int32_t ga_ctx_threads(const ga_ctx *ctx);
int ga_ctx_memory(ga_ctx *ctx, ga_memory_info *info);
void ga_plan_destroy(ga_plan *plan);
int ga_gemm(ga_ctx *ctx, const ga_gemm_desc *desc, const ga_gemm_io *io, ga_stream *stream);
int ga_attn(ga_ctx *ctx, const ga_attn_desc *desc, const ga_attn_io *io, ga_stream *stream);
int ga_norm(ga_ctx *ctx, const ga_norm_desc *desc, const ga_norm_io *io, ga_stream *stream);
int ga_norm_plan(ga_ctx *ctx, const ga_norm_desc *desc, ga_plan **out);
int ga_norm_run(const ga_plan *plan, const ga_norm_io *io, void *workspace, ga_stream *stream);
int ga_kv_store(ga_ctx *ctx, const ga_kv_store_desc *desc, const ga_kv_store_io *io, ga_stream *stream);
int ga_sample(ga_ctx *ctx, const ga_sample_desc *desc, const ga_sample_io *io, ga_stream *stream);
int ga_model_load(ga_ctx *ctx, const char *path, const ga_model_options *options, ga_model **out);
void ga_model_destroy(ga_model *model);
int ga_session_create(ga_model *model, const ga_session_options *options, ga_session **out);
void ga_session_destroy(ga_session *session);
int32_t ga_session_length(const ga_session *session);
int32_t ga_session_context(const ga_session *session);
int ga_generate(ga_session *session, const int32_t *ids, int32_t n, const ga_generate_options *options,
                ga_generate_result *result);

#endif
