/* Pages of latent rows that every later token reads: multi-head latent attention. */
#include "base/status.h"
#include "model/memory_kind.h"

static bool has_latent(const ga_hparams *p, int32_t layer) { return !p->no_attention[layer] && p->kv_latent > 0; }

/* One tensor [pages, GA_KV_PAGE, latent + rotated], which all heads share. */
static ga_status lay_out_latent(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_pages,
                                memory_layout *out) {
  const int64_t row = (int64_t)p->kv_latent + p->rot_dim;
  uint64_t page;
  (void)layer; /* all layers have rows of one size */
  GA_REQUIRE(dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16, GA_ERR_DTYPE,
             "kv cache of %s; allowed for latent attention: f16, f32, bf16", ga_dtype_name(dtype));
  out->n_tensors = 1;
  memory_tensor *tensor = &out->tensors[0];
  *tensor = (memory_tensor){.n_spans = 1};
  GA_TRY(ga_dtype_bytes(dtype, GA_KV_PAGE * row, &page));
  GA_TRY(ga_dtype_bytes(dtype, n_pages * GA_KV_PAGE * row, &tensor->bytes));
  tensor->spans[0] = (memory_span){.bytes = page, .unit_stride = page, .runs = 1};
  return GA_OK;
}

const memory_kind_type memory_latent_pages = {.name = "latent_pages",
                                              .unit_tokens = GA_KV_PAGE,
                                              .is_shared = true,
                                              .exact_rewind = INT32_MAX,
                                              .has_layer = has_latent,
                                              .layout = lay_out_latent};
