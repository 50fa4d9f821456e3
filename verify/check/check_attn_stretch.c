#include "verify/check/check_attn_stretch.h"

#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "opdef/attn_fp8.h"

typedef struct stretches {
  ga_attn_stretch q[GA_ATTN_MAX_STRETCHES], kv[GA_ATTN_MAX_STRETCHES];
  bool waits;
} stretches;

/* Cuts tokens into n stretches, in the order of memory, now and then empty ones. Cuts are at multiples of `least`. */
static void cut_stretches(check_case *c, ga_attn_stretch *s, int n, int64_t tokens, int64_t least) {
  const int64_t step = check_pick(c, 2) ? least : least * (1 + check_pick(c, 32));
  int64_t at = 0;
  memset(s, 0, (size_t)n * sizeof *s);
  for (int i = 0; i < n; i++) {
    const int64_t left = tokens - at, most = 2 * left / (n - i);
    int64_t rows = check_pick(c, 10) ? check_pick(c, (int32_t)most + 1) / step * step : 0;
    if (i == n - 1) rows = left;
    s[i] = (ga_attn_stretch){.first = at, .rows = ga_min_i64(rows, left)};
    at += s[i].rows;
  }
}

static void shuffle_stretches(check_case *c, ga_attn_stretch *s, int n) {
  for (int i = n - 1; i > 0; i--) {
    const int j = check_pick(c, i + 1);
    const ga_attn_stretch x = s[i];
    s[i] = s[j];
    s[j] = x;
  }
}

/* Positions of keys: one document or some, with holes or without; not all rows are a stretch's. */
static int32_t place_keys(check_case *c, ga_attn_stretch *kv, int n, int64_t begin) {
  const bool packed = check_pick(c, 3) == 0, holes = check_pick(c, 3) == 0;
  int64_t at = begin;
  int32_t document = 0;
  for (int i = 0; i < n; i++) {
    if (packed && check_pick(c, 3) == 0) document += 1 + check_pick(c, 2), at = begin;
    if (holes) at += check_pick(c, 3) ? 0 : check_pick(c, 70);
    if (holes && kv[i].rows > 0) kv[i].rows -= check_pick(c, (int32_t)ga_min_i64(kv[i].rows + 1, 9));
    kv[i].position = at;
    kv[i].document = document;
    at += kv[i].rows;
  }
  return document;
}

/* Each row of Q is in one, as chunks of a sequence are, or anywhere; some in documents without keys. */
static void place_queries(check_case *c, ga_attn_stretch *q, int n, const ga_attn_stretch *kv, int n_kv,
                          int32_t documents) {
  for (int i = 0; i < n; i++) {
    const ga_attn_stretch *s = &kv[check_pick(c, n_kv)];
    q[i].document = check_pick(c, 9) ? s->document : check_pick(c, documents + 3);
    q[i].position = ga_max_i64(0, s->position + (check_pick(c, 3) ? 0 : check_pick(c, 200) - 100));
  }
}

void check_attn_stretch_draw(check_case *c, ga_attn_desc *d, bool may_have) {
  const bool made_for = strstr(c->kernel->id, "_stretch_");
  const bool may = may_have && !ga_attn_is_scaled(d) && d->kv_dtype != GA_E4M3;
  void *p;
  if (!may || check_pick(c, made_for ? 20 : 5) >= (made_for ? 19 : 1)) return;
  if (ga_arena_alloc(&c->arena, sizeof(stretches), &p) != GA_OK) return;
  stretches *s = p;
  d->flags &= GA_ATTN_CAUSAL | GA_ATTN_LSE | GA_ATTN_KV_READY | GA_ATTN_PAGED;
  d->softcap = 0;
  d->kv_segments = 0;
  if (!(d->flags & GA_ATTN_PAGED)) d->page_size = 0;
  d->q_stretches = 1 + check_pick(c, check_pick(c, 8) ? 4 : GA_ATTN_MAX_STRETCHES);
  d->kv_stretches = 1 + check_pick(c, check_pick(c, 8) ? 8 : GA_ATTN_MAX_STRETCHES);
  cut_stretches(c, s->q, d->q_stretches, d->max_q, 1);
  cut_stretches(c, s->kv, d->kv_stretches, d->max_kv, made_for && d->page_size ? 8 : 1); /* GPUs: boxes of pages */
  if (check_pick(c, 4)) shuffle_stretches(c, s->q, d->q_stretches);
  if (check_pick(c, 4)) shuffle_stretches(c, s->kv, d->kv_stretches);
  const int64_t begin = check_pick(c, 4) ? 0 : (int64_t)1 << (10 + check_pick(c, 25));
  const int32_t documents = place_keys(c, s->kv, d->kv_stretches, begin);
  place_queries(c, s->q, d->q_stretches, s->kv, d->kv_stretches, documents);
  s->waits = check_pick(c, 2) == 0;
  for (int i = 0; i < d->kv_stretches && s->waits; i++) {
    s->kv[i].ready = (uint32_t)check_pick(c, 4);
    s->kv[i].ready_word = check_pick(c, 5);
  }
  c->extra = s;
}

ga_status check_attn_stretch_timed(check_case *c) {
  const ga_attn_desc *d = c->desc;
  void *p;
  if (!d->q_stretches) return GA_OK;
  GA_TRY(ga_arena_alloc(&c->arena, sizeof(stretches), &p));
  stretches *s = p;
  memset(s, 0, sizeof *s);
  for (int64_t i = 0; i < d->q_stretches; i++) {
    const int64_t from = d->max_q * i / d->q_stretches, to = d->max_q * (i + 1) / d->q_stretches;
    s->q[i] = (ga_attn_stretch){.first = from, .rows = to - from, .position = from + d->max_kv - d->max_q};
  }
  for (int64_t i = 0; i < d->kv_stretches; i++) {
    const int64_t from = d->max_kv * i / d->kv_stretches, to = d->max_kv * (i + 1) / d->kv_stretches;
    s->kv[i] = (ga_attn_stretch){.first = d->max_kv - to, .rows = to - from, .position = from};
  }
  c->extra = s;
  return GA_OK;
}

bool check_attn_stretch_has(const check_case *c, const ga_attn_desc *d, int64_t first, int64_t rows) {
  const stretches *s = c->extra;
  for (int i = 0; i < d->kv_stretches; i++)
    if (s->kv[i].rows > 0 && s->kv[i].first < first + rows && first < s->kv[i].first + s->kv[i].rows) return true;
  return false;
}

/* The words have what is waited for. */
void check_attn_stretch_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io) {
  const stretches *s = c->extra;
  if (!d->q_stretches) return;
  io->q_stretches = s->q;
  io->kv_stretches = s->kv;
  if (!s->waits) return;
  (void)check_index(a, "ready", offsetof(ga_attn_io, ready), 5, 3, 9);
  check_arg *error = check_inout(a, "ready_error", offsetof(ga_attn_io, ready_error), GA_I32, 1, 1, 1);
  error->fill = CHECK_FILL_INDEX;
  error->lo = 0;
  error->hi = 1;
}
