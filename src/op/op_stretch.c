#include "op/op_stretch.h"

#include "op/op.h"

static ga_status check_stretch_range(const char *op, const char *name, int i, const ga_attn_stretch *s,
                                     int64_t tokens) {
  GA_REQUIRE(s->first >= 0 && s->rows >= 0 && s->first <= tokens && s->rows <= tokens - s->first, GA_ERR_ARG,
             "%s: %s[%d] has %lld rows from %lld on; the tensor has %lld", op, name, i, (long long)s->rows,
             (long long)s->first, (long long)tokens);
  GA_REQUIRE(s->position >= 0 && s->position <= GA_DIM_MAX && s->document >= 0, GA_ERR_ARG,
             "%s: %s[%d] has position %lld, document %d; must be 0 to 2^40, and 0 or more", op, name, i,
             (long long)s->position, s->document);
  GA_REQUIRE(s->ready_word >= 0 && s->ready_word < 65536 && s->reserved == 0, GA_ERR_ARG,
             "%s: %s[%d] has ready_word %d, reserved %d; must be 0 to 65535, and 0", op, name, i, s->ready_word,
             s->reserved);
  return GA_OK;
}

ga_status ga_check_q_stretches(const char *op, const ga_attn_stretch *q, int32_t n, int64_t max_q) {
  for (int i = 0; i < n; i++) {
    GA_TRY(check_stretch_range(op, "q_stretches", i, &q[i], max_q));
    GA_REQUIRE(q[i].ready == 0, GA_ERR_ARG, "%s: q_stretches[%d].ready is %u; must be 0", op, i, q[i].ready);
    for (int j = 0; j < i; j++)
      GA_REQUIRE(!q[i].rows || !q[j].rows || q[i].first + q[i].rows <= q[j].first ||
                     q[j].first + q[j].rows <= q[i].first,
                 GA_ERR_ARG, "%s: q_stretches[%d], rows %lld to %lld, lies over q_stretches[%d], %lld to %lld", op, i,
                 (long long)q[i].first, (long long)(q[i].first + q[i].rows), j, (long long)q[j].first,
                 (long long)(q[j].first + q[j].rows));
  }
  return GA_OK;
}

ga_status ga_check_kv_stretches(const char *op, const ga_attn_stretch *kv, int32_t n, int64_t max_kv,
                                const uint32_t *ready) {
  const ga_attn_stretch *before = NULL;
  for (int i = 0; i < n; i++) {
    const ga_attn_stretch *s = &kv[i];
    GA_TRY(check_stretch_range(op, "kv_stretches", i, s, max_kv));
    GA_REQUIRE(!s->ready || ready, GA_ERR_ARG, "%s: kv_stretches[%d].ready is %u, but io.ready is null", op, i,
               s->ready);
    GA_REQUIRE(!before || s->document > before->document ||
                   (s->document == before->document && s->position >= before->position + before->rows),
               GA_ERR_ARG,
               "%s: kv_stretches[%d] begins at position %lld of document %d; the one before it ends at %lld of "
               "document %d: order of document, then position, none over another",
               op, i, (long long)s->position, s->document, before ? (long long)(before->position + before->rows) : 0,
               before ? before->document : 0);
    before = s;
  }
  return GA_OK;
}
