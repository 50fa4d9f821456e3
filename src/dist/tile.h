/* One tile by ga_attn or ga_attn_bwd. */
#ifndef GA_DIST_TILE_H
#define GA_DIST_TILE_H

#include "dist/block.h"

typedef struct tile_job {
  ga_ctx *ctx;
  const dist_step *step;
  block_view q, kv;   /* Q or G; K, V */
  block_view out;     /* O or dQ */
  block_view dkv;     /* backward */
  const float *alibi; /* [q_heads] or NULL */
  float *scratch;     /* dist_tile_scratch numbers */
} tile_job;

/* Numbers of 4 bytes that any tile of a rank needs. */
int64_t dist_tile_scratch(const ga_dist_plan *plan, int32_t rank);
ga_status dist_tile_run(const tile_job *job);

#endif
