#include "verify/dist/bench_rank.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "verify/dist/draw.h"

enum { RANDOM_ELEMENTS = 1 << 20 };

/* --- memory --- */

static size_t bytes_of_element(const bench_rank *j) { return j->b->dtype == GA_F32 ? 4 : 2; }

static ga_status alloc_rows(const bench_rank *j, int64_t elements, void **out) {
  return ga_buffer_alloc(j->rank->device, (size_t)elements * bytes_of_element(j) + 1, out);
}

/* Fills with random numbers, which repeat after RANDOM_ELEMENTS of them. */
static ga_status fill_input(const bench_rank *j, const void *block, int64_t elements, void *at) {
  for (int64_t i = 0; i < elements; i += RANDOM_ELEMENTS) {
    const int64_t n = elements - i < RANDOM_ELEMENTS ? elements - i : RANDOM_ELEMENTS;
    GA_TRY(ga_copy_to_device(j->rank->device, (char *)at + (size_t)i * bytes_of_element(j), block,
                             (size_t)n * bytes_of_element(j), NULL));
  }
  return GA_OK;
}

static ga_status alloc_input(const bench_rank *j, int64_t seed, int64_t elements, void **out) {
  float *floats = NULL, *block = NULL;
  GA_TRY(alloc_rows(j, elements, out));
  ga_status status = dist_new_floats(RANDOM_ELEMENTS, &floats);
  if (status == GA_OK) status = dist_new_floats(RANDOM_ELEMENTS, &block);
  if (status == GA_OK) {
    dist_fill_random(floats, RANDOM_ELEMENTS, (uint64_t)seed);
    status = dist_convert(j->rank->host, GA_F32, floats, j->b->dtype, block, RANDOM_ELEMENTS);
  }
  if (status == GA_OK) status = fill_input(j, block, elements, *out);
  free(floats);
  free(block);
  return status;
}

static ga_status alloc_starts(const bench_rank *j, const int64_t *lengths, int32_t **out) {
  const int32_t n = j->b->of[0].task.documents;
  void *p = NULL;
  GA_TRY(ga_buffer_alloc(j->rank->device, ((size_t)n + 1) * sizeof **out, &p));
  *out = p;
  int32_t *starts = calloc((size_t)n + 1, sizeof *starts);
  if (!starts) return ga_fail_nomem("documents", ((size_t)n + 1) * sizeof *starts);
  for (int32_t i = 0; i < n; i++) starts[i + 1] = starts[i] + (int32_t)lengths[i];
  ga_status status = ga_copy_to_device(j->rank->device, p, starts, ((size_t)n + 1) * sizeof *starts, NULL);
  free(starts);
  return status;
}

static int64_t longest(const int64_t *lengths, int32_t n) {
  int64_t most = 0;
  for (int32_t i = 0; i < n; i++) most = lengths[i] > most ? lengths[i] : most;
  return most;
}

static ga_status alloc_memory(bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const int64_t nq = ga_dist_layout_tokens(t->q, -1), nk = ga_dist_layout_tokens(t->kv, -1);
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const int64_t lse = hq * t->documents * longest(t->q_lengths, t->documents);
  rank_memory *m = &j->m;
  void *p = NULL;
  GA_REQUIRE(nq <= INT32_MAX && nk <= INT32_MAX, GA_ERR_UNSUPPORTED, "%lld queries, %lld keys; bench takes at most %d",
             (long long)nq, (long long)nk, INT32_MAX);
  GA_TRY(alloc_input(j, j->b->o->ranks->seed + 1, nq * hq * hd, &m->q));
  GA_TRY(alloc_input(j, j->b->o->ranks->seed + 2, nk * hk * hd, &m->k));
  GA_TRY(alloc_input(j, j->b->o->ranks->seed + 3, nk * hk * vd, &m->v));
  GA_TRY(alloc_rows(j, nq * hq * vd, &m->o));
  GA_TRY(ga_buffer_alloc(j->rank->device, (size_t)lse * sizeof(float) + 1, &p));
  m->lse = p;
  if (t->documents > 1) GA_TRY(alloc_starts(j, t->q_lengths, &m->q_start));
  if (t->documents > 1) GA_TRY(alloc_starts(j, t->kv_lengths, &m->kv_start));
  if (!(d->flags & GA_DIST_BACKWARD)) return GA_OK;
  GA_TRY(alloc_input(j, j->b->o->ranks->seed + 4, nq * hq * vd, &m->dout));
  GA_TRY(alloc_rows(j, nq * hq * hd, &m->dq));
  GA_TRY(alloc_rows(j, nk * hk * hd, &m->dk));
  return alloc_rows(j, nk * hk * vd, &m->dv);
}

void bench_rank_close(bench_rank *j) {
  rank_memory *m = &j->m;
  ga_dist_exec_destroy(m->forward_exec);
  for (int i = 0; i < j->b->count; i++) {
    ga_dist_exec_destroy(m->exec[i]);
    ga_buffer_free(j->rank->device, m->o_of[i]);
    ga_buffer_free(j->rank->device, m->lse_of[i]);
  }
  void *const all[] = {m->q, m->k, m->v, m->o, m->dout, m->dq, m->dk, m->dv, m->lse, m->q_start, m->kv_start};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(j->rank->device, all[i]);
}

/* --- the work --- */

static ga_status one_forward(const bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const rank_memory *m = &j->m;
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.batch = t->documents;
  f.max_q = longest(t->q_lengths, t->documents), f.max_kv = longest(t->kv_lengths, t->documents);
  f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim, f.v_dim = d->v_dim;
  f.window = (int32_t)d->window, f.q_dtype = f.kv_dtype = f.o_dtype = j->b->dtype;
  f.flags = (uint32_t)GA_ATTN_LSE | (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u) |
            (m->q_start ? (uint32_t)GA_ATTN_VARLEN : 0u);
  const ga_attn_io io = {.q = m->q,
                         .k = m->k,
                         .v = m->v,
                         .o = m->o,
                         .lse = m->lse,
                         .q_start = m->q_start,
                         .kv_start = m->kv_start,
                         .q_tokens = m->q_start ? ga_dist_layout_tokens(t->q, -1) : 0,
                         .kv_tokens = m->q_start ? ga_dist_layout_tokens(t->kv, -1) : 0};
  return ga_attn(j->rank->device, &f, &io, NULL);
}

static ga_status one_backward(const bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const rank_memory *m = &j->m;
  ga_attn_bwd_desc g = GA_ATTN_BWD_DESC_INIT;
  g.batch = t->documents;
  g.max_q = longest(t->q_lengths, t->documents), g.max_kv = longest(t->kv_lengths, t->documents);
  if (m->q_start) g.total_q = ga_dist_layout_tokens(t->q, -1), g.total_kv = ga_dist_layout_tokens(t->kv, -1);
  g.q_heads = d->q_heads, g.kv_heads = d->kv_heads, g.head_dim = d->head_dim, g.v_dim = d->v_dim;
  g.window = (int32_t)d->window, g.dtype = g.grad_dtype = j->b->dtype;
  g.flags = (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u) | (m->q_start ? (uint32_t)GA_ATTN_VARLEN : 0u) |
            (d->flags & GA_DIST_UNORDERED ? 0u : (uint32_t)GA_ATTN_BWD_DETERMINISTIC);
  const ga_attn_bwd_io io = {.q = m->q,
                             .k = m->k,
                             .v = m->v,
                             .o = m->o,
                             .dout = m->dout,
                             .lse = m->lse,
                             .dq = m->dq,
                             .dk = m->dk,
                             .dv = m->dv,
                             .q_start = m->q_start,
                             .kv_start = m->kv_start};
  return ga_attn_bwd(j->rank->device, &g, &io, NULL);
}

static ga_status run_one_device(const bench_rank *j) {
  GA_TRY(j->b->of[0].task.desc.flags & GA_DIST_BACKWARD ? one_backward(j) : one_forward(j));
  return ga_stream_sync(j->rank->device, NULL);
}

static ga_status run_method(const bench_rank *j, int i, ga_dist_exec *exec) {
  const rank_memory *m = &j->m;
  const dist_task *t = &j->b->of[i].task;
  ga_dist_tensors io = GA_DIST_TENSORS_INIT;
  io.q_layout = ga_dist_layout_id(t->q), io.kv_layout = ga_dist_layout_id(t->kv);
  io.q = m->q, io.k = m->k, io.v = m->v, io.dout = m->dout, io.dq = m->dq, io.dk = m->dk, io.dv = m->dv;
  io.o = m->o_of[i] ? m->o_of[i] : m->o;
  io.lse = m->lse_of[i] ? m->lse_of[i] : m->lse;
  return ga_dist_exec_run(exec, &io);
}

static ga_status create_bench_exec(const bench_rank *j, const char *copies, const ga_dist_plan *plan,
                                   ga_dist_exec **out) {
  ga_dist_exec_options o = GA_DIST_EXEC_OPTIONS_INIT;
  o.copies = copies;
  return ga_dist_exec_create_with(plan, j->rank->comm, j->rank->device, &o, out);
}

/* Computes O and LSE of the method's own rows: inputs of its backward. */
static ga_status prepare_backward(bench_rank *j, int i) {
  const contender *c = &j->b->of[i];
  const ga_dist_desc *d = &c->task.desc;
  rank_memory *m = &j->m;
  const int64_t rows = ga_dist_layout_tokens(c->task.q, ga_comm_rank(j->rank->comm)) * d->q_heads;
  GA_TRY(alloc_rows(j, rows * (d->v_dim ? d->v_dim : d->head_dim), &m->o_of[i]));
  GA_TRY(ga_buffer_alloc(j->rank->device, (size_t)rows * sizeof(float) + 1, &m->lse_of[i]));
  GA_TRY(create_bench_exec(j, c->asked, c->forward, &m->forward_exec));
  GA_TRY(run_method(j, i, m->forward_exec));
  ga_dist_exec_destroy(m->forward_exec);
  m->forward_exec = NULL;
  return GA_OK;
}

ga_status bench_rank_open(bench_rank *j) {
  GA_TRY(alloc_memory(j));
  if (j->m.dout) GA_TRY(one_forward(j));
  for (int i = 0; i < j->b->count; i++) {
    contender *c = &j->b->of[i];
    if (j->m.dout) GA_TRY(prepare_backward(j, i));
    GA_TRY(create_bench_exec(j, c->asked, c->plan, &j->m.exec[i]));
    if (ga_comm_rank(j->rank->comm) == 0)
      (void)snprintf(c->copies, sizeof c->copies, "%s", ga_dist_exec_copies(j->m.exec[i]));
    GA_TRY(run_method(j, i, j->m.exec[i])); /* a first run loads kernels and allocates */
  }
  return run_one_device(j);
}

ga_status bench_rank_run(const bench_rank *j, int i) {
  return i < j->b->count ? run_method(j, i, j->m.exec[i]) : run_one_device(j);
}
