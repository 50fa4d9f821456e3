#include "model/widen.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

/* Of a matrix in q8_0: as many more bits as an H200 reads in half a microsecond. docs/perf/models.md. */
#define WIDEN_BYTES ((uint64_t)6 << 20)

enum { BLOCK = 32, HALF = BLOCK / 2, Q4_BYTES = 18, Q5_BYTES = 22, Q8_BYTES = 34, SCALE_BYTES = 2 };

static bool of_layer(const ga_model_tensor *t) { return !strncmp(t->name, "blk.", 4) && t->view.n_dims == 2; }

static bool layers_have_q8_0(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    if (of_layer(t) && t->view.dtype == GA_Q8_0) return true;
  }
  return false;
}

ga_dtype ga_stored_dtype(const ga_model *model, const ga_ctx *ctx, const ga_model_tensor *t) {
  const ga_dtype own = t->view.dtype;
  if (ctx->device->caps.host_memory || (own != GA_Q4_0 && own != GA_Q5_0) || !of_layer(t)) return own;
  const uint64_t wide = t->bytes / (own == GA_Q4_0 ? Q4_BYTES : Q5_BYTES) * Q8_BYTES;
  return wide <= WIDEN_BYTES && layers_have_q8_0(model->file) ? GA_Q8_0 : own;
}

/* Codes of four bits less 8, or of five (the fifth bits lie before them) less 16; element e and e + 16 share a byte. */
static void widen_block(const uint8_t *from, bool five, uint8_t *to) {
  const uint8_t *low = from + (five ? Q5_BYTES : Q4_BYTES) - HALF, *high = from + SCALE_BYTES;
  memcpy(to, from, SCALE_BYTES);
  for (int e = 0; e < BLOCK; e++) {
    const int code = low[e % HALF] >> (e < HALF ? 0 : 4) & 15, fifth = five ? high[e / 8] >> e % 8 & 1 : 0;
    const int8_t value = (int8_t)(five ? (code | fifth << 4) - 16 : code - 8);
    memcpy(to + SCALE_BYTES + e, &value, 1);
  }
}

ga_status ga_widen(const ga_model_file *file, const ga_model_tensor *t, void **out, uint64_t *bytes) {
  const bool five = t->view.dtype == GA_Q5_0;
  const uint64_t each = five ? Q5_BYTES : Q4_BYTES, blocks = t->bytes / each;
  void *p;
  *out = NULL;
  *bytes = blocks * Q8_BYTES;
  GA_TRY(ga_mem_alloc(*bytes + t->bytes, t->name, &p)); /* the file's behind the wide ones */
  uint8_t *to = p;
  const uint8_t *from = to + *bytes;
  const ga_status status = ga_model_file_read(file, t, 0, to + *bytes, t->bytes);
  for (uint64_t i = 0; i < blocks && status == GA_OK; i++) widen_block(from + i * each, five, to + i * Q8_BYTES);
  if (status == GA_OK) *out = p;
  else ga_mem_free(p);
  return status;
}
