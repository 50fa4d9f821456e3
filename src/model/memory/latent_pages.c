/* Pages of latent rows that every later token reads: multi-head latent attention. */
#include "base/status.h"
#include "model/memory_kind.h"
#include "opdef/mla_at.h"

static bool has_latent(const ga_hparams *p, int32_t layer) { return !p->no_attention[layer] && p->kv_latent > 0; }

/* One tensor of pages of GA_KV_PAGE rows (ga/mla.h), which all heads share. */
static ga_status lay_out_latent(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_pages,
                                memory_layout *out) {
  (void)layer; /* all layers have rows of one size */
  const bool is_plain = dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16,
             has_blocks = dtype == GA_E4M3 && p->kv_latent % GA_MLA_BLOCK == 0;
  GA_REQUIRE(is_plain || has_blocks, GA_ERR_DTYPE,
             "kv cache of %s; allowed for latent attention: f16, f32, bf16, and e4m3 with latent vectors in multiples "
             "of %d",
             ga_dtype_name(dtype), GA_MLA_BLOCK);
  const uint64_t page = (uint64_t)(GA_KV_PAGE * ga_mla_row_bytes(dtype, p->kv_latent, p->rot_dim));
  out->n_tensors = 1;
  memory_tensor *tensor = &out->tensors[0];
  *tensor = (memory_tensor){.n_spans = 1};
  GA_TRY(ga_dtype_bytes(GA_U8, n_pages * (int64_t)page, &tensor->bytes));
  tensor->spans[0] = (memory_span){.bytes = page, .unit_stride = page, .runs = 1};
  return GA_OK;
}

const memory_kind_type memory_latent_pages = {.name = "latent_pages",
                                              .unit_tokens = GA_KV_PAGE,
                                              .is_shared = true,
                                              .exact_rewind = INT32_MAX,
                                              .has_layer = has_latent,
                                              .layout = lay_out_latent};
