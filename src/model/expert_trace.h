/* Files of the experts that tokens have chosen, for studies of caches (ga bench --replay).
 *
 *   8 bytes "GAEXPERT"   u32 version 1, n_layers, n_experts, top_k        little-endian
 *   records: u32 layer, tokens, then u16 [tokens, top_k] the chosen experts, the best first
 *
 * A step has a record for each layer with experts, in the order of the layers. */
#ifndef GA_MODEL_EXPERT_TRACE_H
#define GA_MODEL_EXPERT_TRACE_H

#include "core/ctx.h"

typedef struct expert_trace expert_trace;

/* Creates the file, in the place of one that is there. Release with expert_trace_close. GA_ERR_IO: it cannot be
 * written. */
GA_NODISCARD ga_status expert_trace_create(const char *path, int32_t n_layers, int32_t n_experts, int32_t top_k,
                                           expert_trace **out);
/* Writes a record. experts [tokens, top_k] are in the memory of ctx, whose work is waited for. Several threads may
 * write. */
GA_NODISCARD ga_status expert_trace_put(expert_trace *t, ga_ctx *ctx, int32_t layer, int32_t tokens,
                                        const int32_t *experts);
void expert_trace_close(expert_trace *t); /* NULL is fine */

/* A file that has been read. */
typedef struct expert_choices {
  int32_t n_layers, n_experts, top_k;
  int64_t n_tokens;  /* tokens that all layers with experts have */
  uint16_t **layers; /* [n_layers] [n_tokens, top_k]; NULL: the layer has no experts */
} expert_choices;
/* Reads a file. Release with expert_choices_free. GA_ERR_FORMAT: it is no such file, or numbers are out of range. */
GA_NODISCARD ga_status expert_choices_read(const char *path, expert_choices *out);
void expert_choices_free(expert_choices *c);

#endif
