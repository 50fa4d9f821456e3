/* Fused forms of public ops: what src/model/fuse.c puts into one launch.
 *
 * A fused struct begins with the public one. GA_OP_<op> always carries the fused structs: ga_<op> puts zeros behind
 * what its caller gives. A kernel that knows of nothing fused reads the public part alone. Programs hold no fused
 * struct, so that these have no versions (docs/adr/0003-growing-structs.md).
 *
 * ga_<op>_fused, _fused_plan and _fused_run are as the public three, of structs that this library has made itself. */
#ifndef GA_CORE_FUSED_H
#define GA_CORE_FUSED_H

#include "ga/gemm.h"
#include "ga/layer.h"
#include "ga/sample.h"

/* A step that is recorded once and replayed moves on by itself: fields of the io. */
typedef ga_sample_desc ga_sample_fused_desc;

typedef struct ga_sample_fused_io {
  ga_sample_io plain;
  int32_t *advance; /* [n_advance] numbers of which each becomes one more: the next step's position, slot, length */
  int64_t n_advance;
  /* NULL, or [*n_sequence + 1]: penalties see the last n_history of these tokens (fewer at the start) instead of
   * `history`, and the token is put behind them. */
  int32_t *sequence;
  const int32_t *n_sequence; /* on the device, 0 or more; may be one of `advance`, counted after it has been read */
} ga_sample_fused_io;

#define GA_DECLARE_FUSED_OP(op)                                                                                       \
  GA_NODISCARD ga_status ga_##op##_fused_plan(ga_ctx *ctx, const ga_##op##_fused_desc *desc, ga_plan **out);          \
  GA_NODISCARD ga_status ga_##op##_fused_run(const ga_plan *plan, const ga_##op##_fused_io *io, void *workspace,      \
                                             ga_stream *stream);                                                      \
  GA_NODISCARD ga_status ga_##op##_fused(ga_ctx *ctx, const ga_##op##_fused_desc *desc, const ga_##op##_fused_io *io, \
                                         ga_stream *stream);

GA_DECLARE_FUSED_OP(sample)

#endif
