/* Public structs that start with their size, so that later versions can append fields:
 * docs/adr/0003-growing-structs.md.
 *
 *   ga_attn_desc full;
 *   GA_TRY(GA_SIZED_TAKE("attn: desc", ga_attn_desc, desc, &full));
 */
#ifndef GA_BASE_SIZED_H
#define GA_BASE_SIZED_H

#include "base/status.h"

/* GA_SIZED_STRUCTS lists the structs that start with struct_size. Each has the bytes of its first version, the smallest
 * size that is accepted. No number here ever changes. Descriptions of ops have their first sizes in
 * src/op/<op>.toml. */
#define GA_SIZED_STRUCTS(X)      \
  X(ga_ctx_options, 32)          \
  X(ga_memory_info, 72)          \
  X(ga_launch, 56)               \
  X(ga_tensor_map_desc, 128)     \
  X(ga_rope_params, 72)          \
  X(ga_vocab, 136)               \
  X(ga_template_limits, 48)      \
  X(ga_chat_options, 48)         \
  X(ga_session_options, 24)      \
  X(ga_model_options, 56)        \
  X(ga_generate_options, 72)     \
  X(ga_generate_result, 40)      \
  X(ga_engine_options, 40)       \
  X(ga_request_options, 128)     \
  X(ga_request_output, 192)      \
  X(ga_request_info, 48)         \
  X(ga_engine_stats, 168)        \
  X(ga_dist_layout_desc, 32)     \
  X(ga_dist_desc, 72)            \
  X(ga_dist_report, 24)          \
  X(ga_dist_cost, 80)            \
  X(ga_dist_stage, 56)           \
  X(ga_dist_grid, 48)            \
  X(ga_dist_tensors, 96)         \
  X(ga_dist_machine, 40)         \
  X(ga_dist_times, 48)           \
  X(ga_all_reduce_desc, 32)      \
  X(ga_all_reduce_norm_io, 64)   \
  X(ga_comm_threads_options, 32) \
  X(ga_comm_process_options, 56) \
  X(ga_comm_place, 168)          \
  X(ga_comm_mpi_options, 24)     \
  X(ga_dist_exec_options, 16)    \
  X(ga_dist_link_options, 24)    \
  X(ga_dist_span, 64)            \
  X(ga_dist_timeline, 40)        \
  X(ga_quantize_desc, 32)        \
  X(ga_quantize_options, 56)     \
  X(ga_expert_cache_stats, 56)

/* <struct>_first: bytes of the struct's first version. */
enum {
#define X(type, bytes) type##_first = (bytes),
  GA_SIZED_STRUCTS(X)
#undef X
};

/* Largest struct_size that is accepted. A larger one is taken for garbage, since reading so many bytes could fault. */
#define GA_SIZED_MAX_BYTES 1024

/* Copies *given, a version of at least `first` bytes, into *full, this library's version of `bytes` bytes. An older
 * version is shorter, and the rest of *full becomes 0. A newer version is longer, and its unknown tail must be 0.
 * full->struct_size becomes the smaller of both sizes. The error text begins with `what`, such as "attn: desc". */
GA_NODISCARD ga_status ga_sized_take(const char *what, const void *given, size_t first, void *full, size_t bytes);
#define GA_SIZED_TAKE(what, type, given, full) ga_sized_take((what), (given), type##_first, (full), sizeof(type))

/* Functions for structs that the library fills in. ga_sized_check_out checks the caller's struct before the work, and
 * ga_sized_give copies the values into it afterwards. The unknown tail of a newer caller's struct becomes 0; its
 * struct_size is unchanged. */
GA_NODISCARD ga_status ga_sized_check_out(const char *what, const void *out, size_t first);
void ga_sized_give(const void *full, size_t bytes, void *out);

#endif
