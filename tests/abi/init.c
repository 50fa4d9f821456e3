/* Every INIT macro, in static and in automatic storage, and every _plan function, from a program in C11 and in C++17:
 * tests/abi/programs.py compiles this text as both, with warnings as errors. op_init.h has the ops: tools/gen_ops.py
 * makes it of src/op. */
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
#include "ga/experts.h"
#include "ga/gemm.h"
#include "ga/launch.h"
#include "ga/layer.h"
#include "ga/llm.h"
#include "ga/mla.h"
#include "ga/quantize.h"
#include "ga/sample.h"
#include "ga/tokenizer.h"
#include "tests/abi/op_init.h"

#define STRUCTS(X)                                         \
  STRUCTS_OF_OPS(X)                                        \
  X(ga_ctx_options, GA_CTX_OPTIONS_INIT)                   \
  X(ga_memory_info, GA_MEMORY_INFO_INIT)                   \
  X(ga_launch, GA_LAUNCH_INIT)                             \
  X(ga_tensor_map_desc, GA_TENSOR_MAP_DESC_INIT)           \
  X(ga_rope_params, GA_ROPE_PARAMS_INIT)                   \
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
  X(ga_expert_cache_stats, GA_EXPERT_CACHE_STATS_INIT)     \
  X(ga_all_reduce_desc, GA_ALL_REDUCE_DESC_INIT)           \
  X(ga_all_reduce_norm_io, GA_ALL_REDUCE_NORM_IO_INIT)     \
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
  X(ga_quantize_desc, GA_QUANTIZE_DESC_INIT)               \
  X(ga_quantize_options, GA_QUANTIZE_OPTIONS_INIT)

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
  VALUES_OF_OPS();
  expect(static_ga_launch.grid[2] == 1 && static_ga_launch.block[2] == 1 && static_ga_launch.cluster[0] == 0, "launch");
  expect(static_ga_tensor_map_desc.swizzle == 128, "tensor map");
  expect(static_ga_vocab.bos == GA_TOK_NONE && static_ga_vocab.mask == GA_TOK_NONE && !static_ga_vocab.add_bos,
         "vocab");
  expect(static_ga_template_limits.now == GA_TEMPLATE_NOW_LOCAL, "template limits");
  expect(static_ga_model_options.gpu_layers == -1 && static_ga_model_options.n_cpu_moe == -1, "model options");
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

static void init_plans(ga_ctx *ctx) { PLANS_OF_OPS(); }

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
