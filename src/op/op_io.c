#include "op/op_io.h"

#include <string.h>

#include "base/sized.h"

static const ga_io_version rows[] = {
    {GA_OP_gemm, ga_gemm_desc_first, 64},
    {GA_OP_attn, ga_attn_desc_first, 464},
    {GA_OP_attn, 104, 504},
    {GA_OP_attn, 112, 512},
    {GA_OP_attn_bwd, ga_attn_bwd_desc_first, 304},
    {GA_OP_attn_bwd, 96, 320},
    {GA_OP_attn_quant, ga_attn_quant_desc_first, 128},
    {GA_OP_norm, ga_norm_desc_first, 40},
    {GA_OP_rope, ga_rope_desc_first, 24},
    {GA_OP_act, ga_act_desc_first, 24},
    {GA_OP_add, ga_add_desc_first, 24},
    {GA_OP_softmax, ga_softmax_desc_first, 16},
    {GA_OP_embed, ga_embed_desc_first, 24},
    {GA_OP_kv_store, ga_kv_store_desc_first, 56},
    {GA_OP_convert, ga_convert_desc_first, 24},
    {GA_OP_sample, ga_sample_desc_first, 64},
    {GA_OP_attn_merge, ga_attn_merge_desc_first, 40},
    {GA_OP_all_reduce, ga_collective_desc_first, 48},
    {GA_OP_all_gather, ga_collective_desc_first, 48},
    {GA_OP_reduce_scatter, ga_collective_desc_first, 48},
    {GA_OP_all_to_all, ga_collective_desc_first, 48},
    {GA_OP_send_recv, ga_collective_desc_first, 48},
};

const ga_io_versions ga_io_all = {rows, GA_COUNT_OF(rows)};

size_t ga_io_bytes(const ga_io_versions *versions, ga_op op, size_t desc_bytes) {
  size_t bytes = 0;
  for (size_t i = 0; i < versions->n; i++)
    if (versions->rows[i].op == op && versions->rows[i].desc_bytes <= desc_bytes) bytes = versions->rows[i].io_bytes;
  return bytes;
}

ga_status ga_io_take(const ga_io_versions *versions, ga_op op, size_t desc_bytes, const void *io, void *full,
                     size_t bytes) {
  const size_t known = ga_io_bytes(versions, op, desc_bytes);
  GA_REQUIRE(known && known <= bytes, GA_ERR_INTERNAL, "%s: an io of %zu bytes for a description of %zu",
             ga_op_name(op), known, desc_bytes);
  memcpy(full, io, known);
  memset((unsigned char *)full + known, 0, bytes - known);
  return GA_OK;
}
