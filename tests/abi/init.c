/* Every INIT macro, in static and in automatic storage, and every _plan function, from a program in C11 and in C++17:
 * tests/abi/programs.py compiles this text as both, with warnings as errors. */
#include <stdio.h>
#include <string.h>

#include "ga/all_reduce.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/attn_quant.h"
#include "ga/chat.h"
#include "ga/collective.h"
#include "ga/dist.h"
#include "ga/engine.h"
#include "ga/gemm.h"
#include "ga/launch.h"
#include "ga/layer.h"
#include "ga/llm.h"
#include "ga/quantize.h"
#include "ga/sample.h"
#include "ga/tokenizer.h"

#define STRUCTS(X)                                         \
  X(ga_ctx_options, GA_CTX_OPTIONS_INIT)                   \
  X(ga_memory_info, GA_MEMORY_INFO_INIT)                   \
  X(ga_launch, GA_LAUNCH_INIT)                             \
  X(ga_tensor_map_desc, GA_TENSOR_MAP_DESC_INIT)           \
  X(ga_gemm_desc, GA_GEMM_DESC_INIT)                       \
  X(ga_pack_desc, GA_PACK_DESC_INIT)                       \
  X(ga_attn_desc, GA_ATTN_DESC_INIT)                       \
  X(ga_attn_bwd_desc, GA_ATTN_BWD_DESC_INIT)               \
  X(ga_attn_quant_desc, GA_ATTN_QUANT_DESC_INIT)           \
  X(ga_norm_desc, GA_NORM_DESC_INIT)                       \
  X(ga_rope_desc, GA_ROPE_DESC_INIT)                       \
  X(ga_rope_params, GA_ROPE_PARAMS_INIT)                   \
  X(ga_act_desc, GA_ACT_DESC_INIT)                         \
  X(ga_add_desc, GA_ADD_DESC_INIT)                         \
  X(ga_softmax_desc, GA_SOFTMAX_DESC_INIT)                 \
  X(ga_attn_merge_desc, GA_ATTN_MERGE_DESC_INIT)           \
  X(ga_embed_desc, GA_EMBED_DESC_INIT)                     \
  X(ga_kv_store_desc, GA_KV_STORE_DESC_INIT)               \
  X(ga_convert_desc, GA_CONVERT_DESC_INIT)                 \
  X(ga_sample_desc, GA_SAMPLE_DESC_INIT)                   \
  X(ga_vocab, GA_VOCAB_INIT)                               \
  X(ga_template_limits, GA_TEMPLATE_LIMITS_INIT)           \
  X(ga_chat_options, GA_CHAT_OPTIONS_INIT)                 \
  X(ga_session_options, GA_SESSION_OPTIONS_INIT)           \
  X(ga_model_options, GA_MODEL_OPTIONS_INIT)               \
  X(ga_generate_options, GA_GENERATE_OPTIONS_INIT)         \
  X(ga_generate_result, GA_GENERATE_RESULT_INIT)           \
  X(ga_engine_options, GA_ENGINE_OPTIONS_INIT)             \
  X(ga_request_options, GA_REQUEST_OPTIONS_INIT)           \
  X(ga_request_output, GA_REQUEST_OUTPUT_INIT)             \
  X(ga_request_info, GA_REQUEST_INFO_INIT)                 \
  X(ga_engine_stats, GA_ENGINE_STATS_INIT)                 \
  X(ga_all_reduce_desc, GA_ALL_REDUCE_DESC_INIT)           \
  X(ga_all_reduce_norm_io, GA_ALL_REDUCE_NORM_IO_INIT)     \
  X(ga_collective_desc, GA_COLLECTIVE_DESC_INIT)           \
  X(ga_comm_threads_options, GA_COMM_THREADS_OPTIONS_INIT) \
  X(ga_comm_process_options, GA_COMM_PROCESS_OPTIONS_INIT) \
  X(ga_comm_place, GA_COMM_PLACE_INIT)                     \
  X(ga_comm_mpi_options, GA_COMM_MPI_OPTIONS_INIT)         \
  X(ga_dist_exec_options, GA_DIST_EXEC_OPTIONS_INIT)       \
  X(ga_dist_link_options, GA_DIST_LINK_OPTIONS_INIT)       \
  X(ga_dist_span, GA_DIST_SPAN_INIT)                       \
  X(ga_dist_timeline, GA_DIST_TIMELINE_INIT)               \
  X(ga_dist_layout_desc, GA_DIST_LAYOUT_DESC_INIT)         \
  X(ga_dist_grid, GA_DIST_GRID_INIT)                       \
  X(ga_dist_desc, GA_DIST_DESC_INIT)                       \
  X(ga_dist_report, GA_DIST_REPORT_INIT)                   \
  X(ga_dist_cost, GA_DIST_COST_INIT)                       \
  X(ga_dist_stage, GA_DIST_STAGE_INIT)                     \
  X(ga_dist_machine, GA_DIST_MACHINE_INIT)                 \
  X(ga_dist_times, GA_DIST_TIMES_INIT)                     \
  X(ga_dist_tensors, GA_DIST_TENSORS_INIT)                 \
  X(ga_quantize_desc, GA_QUANTIZE_DESC_INIT) X(ga_quantize_options, GA_QUANTIZE_OPTIONS_INIT)

#define X(type, init) static const type static_##type = init;
STRUCTS(X)
#undef X

static int wrong;

static void expect(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s; the library's last error: %s\n", what, ga_error_text());
  wrong = 1;
}

/* Each says its own size, and each holds the same wherever it lies. */
static void sizes(void) {
#define X(type, init)                                                                             \
  {                                                                                               \
    const type here = init;                                                                       \
    expect(here.struct_size == sizeof(type) && static_##type.struct_size == sizeof(type), #type); \
  }
  STRUCTS(X)
#undef X
}

/* What the macros say beside zeros, where a value in the place of its neighbour would not be seen by a compiler. */
static void init_values(void) {
  expect(static_ga_launch.grid[2] == 1 && static_ga_launch.block[2] == 1 && static_ga_launch.cluster[0] == 0, "launch");
  expect(static_ga_tensor_map_desc.swizzle == 128, "tensor map");
  expect(static_ga_gemm_desc.scale == 1 && static_ga_gemm_desc.y_dtype == GA_F32, "gemm");
  expect(static_ga_attn_desc.batch == 1 && static_ga_attn_desc.o_dtype == GA_F32, "attn");
  expect(static_ga_attn_bwd_desc.batch == 1 && static_ga_attn_bwd_desc.grad_dtype == GA_F32, "attn_bwd");
  expect(static_ga_attn_quant_desc.y_dtype == GA_E4M3 && static_ga_attn_quant_desc.scale_tokens == 128 &&
             static_ga_attn_quant_desc.magnitude == 1,
         "attn_quant");
  expect(static_ga_norm_desc.eps > 0 && static_ga_norm_desc.y_dtype == GA_F32, "norm");
  expect(static_ga_rope_desc.magnitude == 1 && static_ga_rope_desc.x_dtype == GA_F32, "rope");
  expect(static_ga_act_desc.dtype == GA_F32, "act");
  expect(static_ga_add_desc.scale == 1 && static_ga_add_desc.dtype == GA_F32, "add");
  expect(static_ga_softmax_desc.scale == 1, "softmax");
  expect(static_ga_embed_desc.scale == 1 && static_ga_embed_desc.y_dtype == GA_F32, "embed");
  expect(static_ga_kv_store_desc.kv_dtype == GA_F16 && static_ga_kv_store_desc.x_dtype == GA_F32, "kv_store");
  expect(static_ga_sample_desc.top_p == 1 && static_ga_sample_desc.typical_p == 1 &&
             static_ga_sample_desc.repetition_penalty == 1,
         "sample");
  expect(static_ga_vocab.bos == GA_TOK_NONE && static_ga_vocab.mask == GA_TOK_NONE && !static_ga_vocab.add_bos,
         "vocab");
  expect(static_ga_template_limits.now == GA_TEMPLATE_NOW_LOCAL, "template limits");
  expect(static_ga_model_options.gpu_layers == -1, "model options");
  expect(static_ga_generate_options.max_tokens == 256, "generate options");
}

/* Plans a small case of op `name`; the fields that INIT leaves at 0 are set by `fields`. */
#define PLAN(name, INIT, fields)                                      \
  {                                                                   \
    ga_##name##_desc d = INIT;                                        \
    ga_plan *plan = NULL;                                             \
    fields;                                                           \
    expect(ga_##name##_plan(ctx, &d, &plan) == GA_OK, #name "_plan"); \
    expect(plan &&ga_plan_kernel_id(plan)[0] != 0, #name ": kernel"); \
    ga_plan_destroy(plan);                                            \
  }

static void init_plans(ga_ctx *ctx) {
  PLAN(gemm, GA_GEMM_DESC_INIT, d.m = d.n = d.k = 8)
  PLAN(attn, GA_ATTN_DESC_INIT, (d.max_q = d.max_kv = 4, d.q_heads = d.kv_heads = 1, d.head_dim = 8))
  PLAN(attn_bwd, GA_ATTN_BWD_DESC_INIT, (d.max_q = d.max_kv = 4, d.q_heads = d.kv_heads = 1, d.head_dim = 8))
  PLAN(attn_quant, GA_ATTN_QUANT_DESC_INIT, (d.tokens = 4, d.heads = 1, d.dim = 64))
  PLAN(norm, GA_NORM_DESC_INIT, d.rows = d.width = 4)
  PLAN(rope, GA_ROPE_DESC_INIT, (d.tokens = 2, d.heads = 1, d.head_dim = d.rot_dim = 8))
  PLAN(act, GA_ACT_DESC_INIT, (d.rows = d.width = 4, d.act = GA_ACT_SILU))
  PLAN(add, GA_ADD_DESC_INIT, d.rows = d.b_rows = d.width = 4)
  PLAN(softmax, GA_SOFTMAX_DESC_INIT, d.rows = d.width = 4)
  PLAN(attn_merge, GA_ATTN_MERGE_DESC_INIT, d.rows = d.heads = d.dim = 4)
  PLAN(embed, GA_EMBED_DESC_INIT, (d.tokens = 2, d.vocab = d.width = 32, d.w_dtype = GA_F32))
  PLAN(kv_store, GA_KV_STORE_DESC_INIT, (d.tokens = 2, d.slots = 4, d.heads = 1, d.head_dim = 8))
  PLAN(convert, GA_CONVERT_DESC_INIT, (d.rows = 2, d.width = 32, d.x_dtype = GA_F32, d.y_dtype = GA_F16))
  PLAN(sample, GA_SAMPLE_DESC_INIT, d.vocab = 8)
  PLAN(collective, GA_COLLECTIVE_DESC_INIT, d.n = 8)
}

static ga_status own_failure(int line) { return ga_error_set(GA_ERR_FORMAT, "settings: line %d", line); }

int main(void) {
  ga_ctx *ctx = NULL;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cpu";
  sizes();
  init_values();
  expect(ga_ctx_create(&options, &ctx) == GA_OK, "ctx_create");
  if (ctx) init_plans(ctx);
  ga_ctx_destroy(ctx);
  expect(own_failure(3) == GA_ERR_FORMAT && !strcmp(ga_error_text(), "settings: line 3"), "error_set");
  return wrong;
}
