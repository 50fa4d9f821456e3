#include "verify/dist/shape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "verify/dist/words.h"

static const char *const orders[] = {"method", "contiguous", "striped", "zigzag",
                                     "chunks", "doc-zigzag", "pieces",  "documents"};
static const char *const needs[] = {"method", "all", "blocks", "stretches"};

static int32_t order_index(const dist_shape *s) { return dist_word_index(orders, GA_COUNT_OF(orders), s->order); }
static int32_t need_index(const dist_shape *s) { return dist_word_index(needs, GA_COUNT_OF(needs), s->need); }

ga_status dist_check_shape(const dist_shape *s) {
  GA_REQUIRE(order_index(s) >= 0, GA_ERR_ARG,
             "--order '%.100s': must be contiguous, striped, zigzag, chunks, doc-zigzag, pieces, documents or method",
             s->order);
  GA_REQUIRE(need_index(s) >= 0, GA_ERR_ARG, "--need '%.100s': must be all, blocks, stretches or method", s->need);
  return GA_OK;
}

static ga_status read_grid(const char *text, ga_dist_grid *g) {
  int32_t *const parts[3] = {&g->heads, &g->q, &g->kv};
  const char *p = text;
  bool good = true;
  for (int i = 0; i < 3 && good; i++) {
    char *end;
    errno = 0;
    const long long x = strtoll(p, &end, 10);
    good = end != p && !errno && x >= 0 && x <= INT32_MAX && *end == (i < 2 ? 'x' : '\0');
    if (good) *parts[i] = (int32_t)x;
    p = end + 1;
  }
  GA_REQUIRE(good, GA_ERR_ARG, "--grid '%.100s': must be heads x q x kv, such as 2x1x4; 0 is what the method says",
             text);
  return GA_OK;
}

static ga_status make_layout(const dist_shape *s, const char *method, int32_t documents, const int64_t *lengths,
                             ga_dist_layout **out) {
  ga_dist_layout_desc d = GA_DIST_LAYOUT_DESC_INIT;
  d.order = order_index(s);
  if (d.order == 0) d.order = ga_dist_method_order(method);
  if (d.order == 0) d.order = GA_DIST_CONTIGUOUS; /* an unknown method is refused with its name, later */
  d.chunks = d.order == GA_DIST_CHUNKS || d.order == GA_DIST_PIECES ? (int32_t)s->chunks : 0;
  d.ranks = (int32_t)s->ranks;
  d.documents = documents;
  d.lengths = lengths;
  return ga_dist_layout_create(&d, out);
}

static ga_status set_types(const dist_shape *s, ga_dist_desc *d) {
  d->dtype = (int32_t)ga_dtype_from_name(s->type);
  GA_REQUIRE(d->dtype == GA_F32 || d->dtype == GA_F16 || d->dtype == GA_BF16, GA_ERR_ARG,
             "--type '%.100s': must be f32, f16 or bf16", s->type);
  const bool same = !strcmp(s->partials, "type");
  GA_REQUIRE(same || !strcmp(s->partials, "f32"), GA_ERR_ARG, "--partials '%.100s': must be f32 or type", s->partials);
  d->partial_dtype = same ? d->dtype : GA_F32;
  return GA_OK;
}

ga_status dist_begin(const dist_shape *s, const char *method, dist_task *t) {
  int32_t n_queries = 0;
  if (!method) method = s->method;
  *t = (dist_task){.desc = GA_DIST_DESC_INIT, .grid = GA_DIST_GRID_INIT};
  static const char like[] = "lengths of documents, such as 4096 or 100,50,7";
  GA_TRY(dist_read_numbers("tokens", like, s->tokens, &t->kv_lengths, &t->documents));
  GA_TRY(dist_read_numbers("queries", like, s->queries ? s->queries : s->tokens, &t->q_lengths, &n_queries));
  GA_REQUIRE(n_queries == t->documents, GA_ERR_ARG, "--queries has %d lengths, --tokens %d; must be equal", n_queries,
             t->documents);
  GA_TRY(make_layout(s, method, t->documents, t->q_lengths, &t->q));
  GA_TRY(make_layout(s, method, t->documents, t->kv_lengths, &t->kv));
  if (s->grid) GA_TRY(read_grid(s->grid, &t->grid));
  t->grid.kv_inner = (int32_t)s->inner;
  t->grid.prefetch = (int32_t)s->prefetch;
  t->grid.groups = (int32_t)s->groups;
  t->grid.need = need_index(s);
  ga_dist_desc *d = &t->desc;
  d->method = method, d->q = t->q, d->kv = t->kv, d->grid = &t->grid;
  d->q_heads = (int32_t)s->heads, d->kv_heads = (int32_t)s->kv_heads;
  d->head_dim = (int32_t)s->head_dim, d->v_dim = (int32_t)s->v_dim;
  d->flags =
      (s->full ? 0u : GA_DIST_CAUSAL) | (s->backward ? GA_DIST_BACKWARD : 0u) | (s->unordered ? GA_DIST_UNORDERED : 0u);
  d->window = s->window;
  return set_types(s, d);
}

void dist_end(dist_task *t) {
  ga_dist_layout_destroy(t->q);
  ga_dist_layout_destroy(t->kv);
  free(t->q_lengths);
  free(t->kv_lengths);
}
